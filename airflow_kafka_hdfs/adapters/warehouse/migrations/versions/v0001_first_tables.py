"""The first tables.

Types are spelled out here: a migration never changes, whatever the row classes become.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _text(length: int) -> Any:
    return sa.Text().with_variant(sa.String(length), "redshift")


KEY = _text(2_000)
LONG = _text(65_535)
NUMBER = sa.BigInteger()
FLAG = sa.Boolean()
TIME = sa.DateTime()


def _key(name: str, kind: Any = KEY) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, nullable=False, autoincrement=False)


def _some(name: str, kind: Any = LONG) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _maybe(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


INDEXES = (
    ("lineage_stage", "job_id", "structure_hash"),
    ("job_attribute", "job_id"),
    ("run", "job_id", "run_after"),
    ("edge", "source_id"),
    ("edge", "target_id"),
    ("edge_run", "job_id", "source_id", "target_id"),
    ("edge_run", "run_after"),
    ("edge_run", "source_id"),
    ("relation", "dataset_id"),
)


def _messages() -> None:
    op.create_table(
        "lineage_raw",
        _key("topic"),
        _key("partition", NUMBER),
        _key("offset", NUMBER),
        _some("event_id"),
        _some("type"),
        _some("received_at", TIME),
        _some("body"),
        _some("problem"),
    )
    op.create_table(
        "lineage_offset",
        _key("group"),
        _key("topic"),
        _key("partition", NUMBER),
        _some("next_offset", NUMBER),
    )
    op.create_table(
        "lineage_stage",
        _key("event_id"),
        _some("job_id"),
        _some("run_id"),
        _some("structure_hash"),
        _some("emitted_at", TIME),
    )


def _datasets() -> None:
    op.create_table(
        "dataset",
        _key("dataset_id"),
        _some("ns"),
        _some("name"),
        _some("collection"),
        _some("table"),
        _some("schema_id"),
        _some("schema_version"),
        _maybe("schema_seen", TIME),
        _some("temporary", FLAG),
        _some("first_seen", TIME),
        _some("last_seen", TIME),
    )
    op.create_table(
        "dataset_alias",
        _key("ns"),
        _key("name"),
        _some("dataset_id"),
        _some("origin"),
    )
    op.create_table(
        "dataset_schema",
        _key("dataset_id"),
        _key("schema_version"),
        _some("schema_id"),
        _some("fields"),
        _some("seen", TIME),
    )


def _jobs() -> None:
    op.create_table(
        "job",
        _key("job_id"),
        _some("instance"),
        _some("dag_id"),
        _some("domain"),
        _some("owners"),
        _some("team"),
        _some("tags"),
        _some("config_file"),
        _some("relative_fileloc"),
        _some("description"),
        _some("structure_hash"),
        _maybe("structure_since", TIME),
        _some("first_seen", TIME),
        _some("last_seen", TIME),
        _maybe("last_run", TIME),
        _some("last_run_id"),
        _some("last_outcome"),
        _some("recent"),
        _some("frequency"),
        _some("period_seconds", NUMBER),
        _some("failing", FLAG),
        _some("emitted_at", TIME),
        _some("event_id"),
    )
    op.create_table(
        "job_version",
        _key("job_id"),
        _key("structure_hash"),
        _some("graph"),
        _some("dag_version"),
        _some("bundle"),
        _some("bundle_version"),
        _some("valid_from", TIME),
        _some("valid_to", TIME),
        _some("emitted_at", TIME),
    )
    op.create_table(
        "job_attribute",
        _key("attribute_id"),
        _some("job_id"),
        _some("name"),
        _some("value"),
        _some("changed_at", TIME),
    )
    op.create_table(
        "responsibility",
        _key("entity_id"),
        _key("role"),
        _key("party"),
        _some("origin"),
        _some("changed_at", TIME),
        _some("changed_by"),
    )


def _runs() -> None:
    op.create_table(
        "run",
        _key("job_id"),
        _key("run_id"),
        _some("clear_number", NUMBER),
        _some("run_type"),
        _some("triggered_by"),
        _maybe("logical_date", TIME),
        _maybe("interval_start", TIME),
        _maybe("interval_end", TIME),
        _some("run_after", TIME),
        _maybe("started_at", TIME),
        _maybe("ended_at", TIME),
        _some("outcome"),
        _some("reason"),
        _some("versions"),
        _some("job"),
        _some("structure_hash"),
        _some("facts"),
        _some("pairs", NUMBER),
        _some("compressed", FLAG),
        _some("attempts", NUMBER),
        _some("incomplete"),
        _some("emitted_at", TIME),
        _some("event_id"),
    )
    op.create_table(
        "task_io",
        _key("job_id"),
        _key("run_id"),
        _key("task_id"),
        _key("map_index", NUMBER),
        _some("clear_number", NUMBER),
        _some("try_number", NUMBER),
        _some("complete", FLAG),
        _some("state"),
        _some("body"),
        _some("emitted_at", TIME),
    )


def _edges() -> None:
    op.create_table(
        "edge",
        _key("job_id"),
        _key("source_id"),
        _key("target_id"),
        _some("first_seen", TIME),
        _some("last_seen", TIME),
        _maybe("last_success", TIME),
        _maybe("last_declared", TIME),
        _some("last_run_id"),
        _some("last_state"),
        _some("last_outcome"),
        _some("run_count", NUMBER),
        _some("evidence"),
        _some("self", FLAG),
        _some("columns"),
        _maybe("valid_to", TIME),
        _some("pruned_runs", NUMBER),
        _maybe("pruned_first", TIME),
    )
    op.create_table(
        "edge_run",
        _key("job_id"),
        _key("run_id"),
        _key("source_id"),
        _key("target_id"),
        _some("run_after", TIME),
        _some("state"),
        _some("outcome"),
        _some("evidence"),
        _some("instances", NUMBER),
        _some("path"),
        _some("declared", FLAG),
        _some("origin"),
        _some("clear_number", NUMBER),
        _some("columns"),
        _some("emitted_at", TIME),
        _some("event_id"),
    )
    op.create_table(
        "edge_column",
        _key("job_id"),
        _key("source_id"),
        _key("source_col"),
        _key("target_id"),
        _key("target_col"),
        _some("direct", FLAG),
        _some("subtype"),
        _some("masking", FLAG),
        _some("last_seen", TIME),
    )
    op.create_table(
        "relation",
        _key("job_id"),
        _key("dataset_id"),
        _key("direction"),
        _some("origin"),
        _some("last_seen", TIME),
    )


def upgrade() -> None:
    """Create the tables and their indexes."""
    _messages()
    _datasets()
    _jobs()
    _runs()
    _edges()
    for table, *columns in INDEXES:
        op.create_index(f"{table}_{'_'.join(columns)}", table, columns)


def downgrade() -> None:
    """Drop the tables."""
    for table in (
        "lineage_raw",
        "lineage_offset",
        "lineage_stage",
        "dataset",
        "dataset_alias",
        "dataset_schema",
        "job",
        "job_version",
        "job_attribute",
        "responsibility",
        "run",
        "task_io",
        "edge",
        "edge_run",
        "edge_column",
        "relation",
    ):
        op.drop_table(table)
