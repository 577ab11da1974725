"""What OpenLineage events say moves into a table that keeps only those that say more than the others.

All events move at first; the next one of a run thins them out.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

KEY = sa.Text().with_variant(sa.String(2_000), "redshift")
LONG = sa.Text().with_variant(sa.String(65_535), "redshift")
_COLUMNS = "job_id, run_id, event_id, happened_at"


def upgrade() -> None:
    """Move the bodies; the count of a run's events goes to each of them, which says the same."""
    op.create_table(
        "openlineage_said",
        sa.Column("job_id", KEY, primary_key=True, nullable=False),
        sa.Column("run_id", KEY, primary_key=True, nullable=False),
        sa.Column("event_id", KEY, primary_key=True, nullable=False),
        sa.Column("happened_at", sa.DateTime(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("body", LONG, nullable=False),
    )
    op.execute(
        f"INSERT INTO openlineage_said ({_COLUMNS}, events, body) "  # noqa: S608 - names are ours
        "SELECT e.job_id, e.run_id, e.event_id, e.happened_at, n.events, e.body FROM openlineage_event e JOIN "
        "(SELECT job_id, run_id, COUNT(*) AS events FROM openlineage_event GROUP BY job_id, run_id) n "
        "ON n.job_id = e.job_id AND n.run_id = e.run_id"
    )
    op.drop_column("openlineage_event", "body")


def downgrade() -> None:
    """Give the bodies back as far as they are kept; the others say nothing more."""
    op.add_column("openlineage_event", sa.Column("body", LONG, nullable=False, server_default="[]"))
    op.execute(
        "UPDATE openlineage_event SET body = (SELECT s.body FROM openlineage_said s WHERE s.job_id = "
        "openlineage_event.job_id AND s.run_id = openlineage_event.run_id AND s.event_id = openlineage_event.event_id) "
        "WHERE EXISTS (SELECT 1 FROM openlineage_said s WHERE s.job_id = openlineage_event.job_id AND "
        "s.run_id = openlineage_event.run_id AND s.event_id = openlineage_event.event_id)"
    )
    op.drop_table("openlineage_said")
