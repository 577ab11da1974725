"""Tables of the warehouse, made from the row classes, in types that SQLite, PostgreSQL and Redshift share."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from types import NoneType
from typing import Any, get_args, get_type_hints

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

from airflow_kafka_hdfs.ports.lineage_rows import (
    ROWS,
    DatasetAliasRow,
    DatasetRow,
    DatasetSchemaRow,
    EdgeColumnRow,
    EdgeRow,
    EdgeRunRow,
    JobAttributeRow,
    RelationRow,
    RunRow,
    StageRow,
)

KEY_TEXT = 2_000
"""Longest text of a key column on databases that need a length."""
LONG_TEXT = 65_535


class UtcDateTime(TypeDecorator[datetime]):
    """Aware times in UTC, stored without zone so that every database keeps them alike."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC without zone."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To an aware time."""
        return None if value is None else value.replace(tzinfo=UTC)


def _type_of(hint: Any, *, key: bool) -> TypeEngine[Any]:
    kind = next((part for part in get_args(hint) if part is not NoneType), hint)
    if kind is str:
        return sa.Text().with_variant(sa.String(KEY_TEXT if key else LONG_TEXT), "redshift")
    if kind is bool:
        return sa.Boolean()
    if kind is int:
        return sa.BigInteger()
    return UtcDateTime()


def _table(row: type[Any], metadata: sa.MetaData) -> sa.Table:
    hints = get_type_hints(row)
    return sa.Table(
        row.TABLE,
        metadata,
        *(
            sa.Column(
                item.name,
                _type_of(hints[item.name], key=item.name in row.KEY),
                primary_key=item.name in row.KEY,
                nullable=NoneType in get_args(hints[item.name]),
                autoincrement=False,
            )
            for item in sorted(fields(row), key=lambda item: row.KEY.index(item.name) if item.name in row.KEY else 99)
        ),
    )


METADATA = sa.MetaData()
TABLES: dict[type[Any], sa.Table] = {row: _table(row, METADATA) for row in ROWS}
"""Row class -> table; columns of the key come first, in the order of the key."""

VERSION_TABLE = "lineage_version"
REVISION = "0006"
"""Newest version of the schema; `migrations/versions` holds the way to it."""


def _index(row: type[Any], *columns: str, name: str = "") -> None:
    table = TABLES[row]
    sa.Index(name or f"{table.name}_{'_'.join(columns)}", *(table.c[column] for column in columns))


# Walks of many hops are answered from these two alone, without a look at the table.
_HOLDING = ("first_seen", "valid_to", "last_declared", "last_seen")
_index(EdgeRow, "source_id", "target_id", *_HOLDING, name="edge_down")
_index(EdgeRow, "target_id", "source_id", *_HOLDING, name="edge_up")
_index(EdgeColumnRow, "source_id")
_index(EdgeColumnRow, "target_id")
_index(DatasetRow, "collection", "table")
_index(DatasetAliasRow, "dataset_id")
_index(DatasetSchemaRow, "schema_id")
_index(RunRow, "job_id", "run_after")
_index(EdgeRunRow, "run_after")
_index(EdgeRunRow, "job_id", "source_id", "target_id")
_index(EdgeRunRow, "source_id")
_index(StageRow, "job_id", "structure_hash")
_index(JobAttributeRow, "job_id")
_index(RelationRow, "dataset_id")
