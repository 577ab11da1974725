"""The record of what was exported to which platform."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

KEY = sa.Text().with_variant(sa.String(2_000), "redshift")
LONG = sa.Text().with_variant(sa.String(65_535), "redshift")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "lineage_export",
        sa.Column("target", KEY, primary_key=True, nullable=False),
        sa.Column("subject", KEY, primary_key=True, nullable=False),
        sa.Column("digest", LONG, nullable=False),
        sa.Column("state", LONG, nullable=False),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("problem", LONG, nullable=False),
        sa.Column("sent_at", sa.DateTime(), nullable=False),
    )


def downgrade() -> None:
    """Forget what was exported."""
    op.drop_table("lineage_export")
