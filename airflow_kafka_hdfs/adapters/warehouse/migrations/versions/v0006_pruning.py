"""What old runs leave behind when they are deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

KEY = sa.Text().with_variant(sa.String(2_000), "redshift")
LONG = sa.Text().with_variant(sa.String(65_535), "redshift")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "lineage_pruned",
        sa.Column("job_id", KEY, primary_key=True, nullable=False),
        sa.Column("before", sa.DateTime(), nullable=False),
        sa.Column("run_id", LONG, nullable=False),
        sa.Column("said", LONG, nullable=False),
        sa.Column("finished_at", sa.DateTime(), nullable=True),
    )


def downgrade() -> None:
    """Forget what was deleted."""
    op.drop_table("lineage_pruned")
