"""What readers need: indexes for walks and look-ups, and the record of jobs that were paused for a repair."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

KEY = sa.Text().with_variant(sa.String(2_000), "redshift")
LONG = sa.Text().with_variant(sa.String(65_535), "redshift")
HOLDING = ["first_seen", "valid_to", "last_declared", "last_seen"]

INDEXES = (
    ("edge_down", "edge", ["source_id", "target_id", *HOLDING]),
    ("edge_up", "edge", ["target_id", "source_id", *HOLDING]),
    ("edge_column_source_id", "edge_column", ["source_id"]),
    ("edge_column_target_id", "edge_column", ["target_id"]),
    ("dataset_collection_table", "dataset", ["collection", "table"]),
    ("dataset_alias_dataset_id", "dataset_alias", ["dataset_id"]),
    ("dataset_schema_schema_id", "dataset_schema", ["schema_id"]),
)


def upgrade() -> None:
    """Add the table and the indexes; two of them take the place of narrower ones."""
    op.create_table(
        "repair_freeze",
        sa.Column("repair_id", KEY, primary_key=True, nullable=False),
        sa.Column("dag_id", KEY, primary_key=True, nullable=False),
        sa.Column("job_id", LONG, nullable=False),
        sa.Column("frozen_at", sa.DateTime(), nullable=False),
        sa.Column("frozen_by", LONG, nullable=False),
        sa.Column("resumed_at", sa.DateTime(), nullable=True),
        sa.Column("resumed_by", LONG, nullable=False),
    )
    for name, table, columns in INDEXES:
        op.create_index(name, table, columns)
    op.drop_index("edge_source_id", "edge")
    op.drop_index("edge_target_id", "edge")


def downgrade() -> None:
    """Go back to the narrower indexes."""
    op.create_index("edge_source_id", "edge", ["source_id"])
    op.create_index("edge_target_id", "edge", ["target_id"])
    for name, table, _ in INDEXES:
        op.drop_index(name, table)
    op.drop_table("repair_freeze")
