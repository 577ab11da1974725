"""What events of OpenLineage need: a place for each, and who told of a run or task."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

KEY = sa.Text().with_variant(sa.String(2_000), "redshift")
LONG = sa.Text().with_variant(sa.String(65_535), "redshift")


def upgrade() -> None:
    """Add the table and the columns; what is there already was told by this package."""
    op.create_table(
        "openlineage_event",
        sa.Column("job_id", KEY, primary_key=True, nullable=False),
        sa.Column("run_id", KEY, primary_key=True, nullable=False),
        sa.Column("event_id", KEY, primary_key=True, nullable=False),
        sa.Column("happened_at", sa.DateTime(), nullable=False),
        sa.Column("body", LONG, nullable=False),
    )
    for table in ("run", "task_io"):
        op.add_column(table, sa.Column("origin", LONG, nullable=False, server_default=""))


def downgrade() -> None:
    """Forget the events."""
    for table in ("run", "task_io"):
        op.drop_column(table, "origin")
    op.drop_table("openlineage_event")
