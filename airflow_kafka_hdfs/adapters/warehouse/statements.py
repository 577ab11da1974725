"""How rows are written, found and locked in one kind of database."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES, UtcDateTime

Rows = Sequence[Sequence[Any]]
"""Values in the order of a table's columns, as `values_of` makes them."""
R = TypeVar("R")


class Statements(Protocol):
    """What differs between databases.

    Attributes:
        portion: how many values one `member` takes.
    """

    portion: int

    def lock(self, connection: Connection) -> None:
        """Let nobody else load until this transaction ends."""

    def time(self, value: datetime) -> Any:
        """A time as the driver takes it: in UTC, without a zone."""

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Insert rows in place of those with the same key."""

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """Condition: the columns equal one of the values."""

    def chunk(self, width: int) -> int:
        """How many values of that many columns fit one `among`."""

    def member(self, column: sa.Column[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """Condition: a text column equals one of the values, whose number the statement's text does not show."""


@cache
def _upsert(table: sa.Table, preparer: Any) -> tuple[str, str]:
    """The statement of a table in the driver's own text, before and after its values, built once.

    Rows go to the driver as they are: what SQLAlchemy does for each value took more time than the database.
    """
    quoted = preparer.quote
    key = [column.name for column in table.primary_key]
    rest = [column.name for column in table.columns if column.name not in key]
    names = ", ".join(quoted(column.name) for column in table.columns)
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
    head = f"INSERT INTO {quoted(table.name)} ({names}) VALUES "  # noqa: S608 - names are ours
    return head, f" ON CONFLICT ({', '.join(map(quoted, key))}) DO UPDATE SET {changes}"


_ROWS_PER_STATEMENT = 500
_WITHOUT_ZONE = len("2026-01-01 00:00:00.000000")


@cache
def _times(table: sa.Table) -> tuple[int, ...]:
    """Which columns hold times."""
    return tuple(n for n, column in enumerate(table.columns) if isinstance(column.type, UtcDateTime))


def values_of(table: sa.Table, rows: Iterable[Any], statements: Statements) -> list[list[Any]]:
    """Rows as values in the order of the table's columns, times as the driver takes them."""
    take = attrgetter(*table.columns.keys())
    times, convert = _times(table), statements.time
    found = []
    for row in rows:
        values = list(take(row))
        for n in times:
            if values[n] is not None:
                values[n] = convert(values[n])
        found.append(values)
    return found


class SqliteStatements:
    """SQLite: transactions begin with the write lock, so there is nothing more to lock."""

    portion = 200_000

    def lock(self, connection: Connection) -> None:
        """Nothing: `BEGIN IMMEDIATE` has the lock."""

    def time(self, value: datetime) -> str:
        """As SQLAlchemy writes it."""
        return value.astimezone(UTC).isoformat(" ", "microseconds")[:_WITHOUT_ZONE]

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Upsert."""
        head, tail = _upsert(table, connection.dialect.identifier_preparer)
        marks = ", ".join("?" * len(table.columns))
        connection.exec_driver_sql(f"{head}({marks}){tail}", [tuple(row) for row in rows])

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """IN over one column or row values."""
        return _in(columns, values)

    def chunk(self, width: int) -> int:
        """SQLite takes 32,766 parameters."""
        return 10_000 // width

    def member(self, column: sa.Column[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """A table made of one parameter."""
        items = sa.func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(sa.select(items.c.value))


class PostgresStatements:
    """PostgreSQL."""

    portion = 200_000

    def lock(self, connection: Connection) -> None:
        """Lock the offsets against other writers; readers go on."""
        connection.execute(sa.text("LOCK TABLE lineage_offset IN SHARE ROW EXCLUSIVE MODE"))

    def time(self, value: datetime) -> datetime:
        """Without a zone."""
        return value.astimezone(UTC).replace(tzinfo=None)

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Upsert, many rows in one statement."""
        head, tail = _upsert(table, connection.dialect.identifier_preparer)
        one = f"({', '.join(['%s'] * len(table.columns))})"
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            part = rows[start : start + _ROWS_PER_STATEMENT]
            flat = tuple(value for row in part for value in row)
            connection.exec_driver_sql(f"{head}{', '.join([one] * len(part))}{tail}", flat)

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """IN over one column or row values."""
        return _in(columns, values)

    def chunk(self, width: int) -> int:
        """PostgreSQL takes 65,535 parameters, and plans long lists slowly."""
        return 5_000 // width

    def member(self, column: sa.Column[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """An array as one parameter."""
        return column == sa.any_(sa.literal(list(values), sa.ARRAY(sa.Text())))


class PortableStatements:
    """SQL that Redshift has: no upsert, no row values. Rows go through a temporary table, in one transaction."""

    portion = 1_000

    def lock(self, connection: Connection) -> None:
        """Lock the offsets whole."""
        connection.execute(sa.text("LOCK lineage_offset"))

    def time(self, value: datetime) -> datetime:
        """Without a zone."""
        return value.astimezone(UTC).replace(tzinfo=None)

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Delete and insert from a temporary table."""
        temporary = sa.Table(
            f"put_{table.name}", sa.MetaData(), *(sa.Column(column.name, column.type) for column in table.columns)
        )
        columns = ", ".join(_quoted(column.name) for column in table.columns)
        same = " AND ".join(
            f"{table.name}.{_quoted(c.name)} = {temporary.name}.{_quoted(c.name)}" for c in table.primary_key
        )
        connection.execute(sa.text(f"CREATE TEMPORARY TABLE {temporary.name} (LIKE {table.name})"))
        names = table.columns.keys()
        plain = sa.Table(f"put_{table.name}", sa.MetaData(), *(sa.Column(name) for name in names))
        for start in range(0, len(rows), 1_000):
            part = [dict(zip(names, row, strict=True)) for row in rows[start : start + 1_000]]
            connection.execute(sa.insert(plain).values(part))
        connection.execute(sa.text(f"DELETE FROM {table.name} USING {temporary.name} WHERE {same}"))  # noqa: S608 - names are ours
        connection.execute(
            sa.text(f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {temporary.name}")  # noqa: S608 - names are ours
        )
        connection.execute(sa.text(f"DROP TABLE {temporary.name}"))

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """IN over one column, ORs of ANDs over several."""
        if len(columns) == 1:
            return _in(columns, values)
        return sa.or_(*(sa.and_(*(c == v for c, v in zip(columns, value, strict=True))) for value in values))

    def chunk(self, width: int) -> int:
        """Short statements keep the planner quick."""
        return 200

    def member(self, column: sa.Column[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """IN."""
        return column.in_(list(values))


def _in(columns: Sequence[sa.Column[Any]], values: Collection[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
    if len(columns) == 1:
        return columns[0].in_([value[0] for value in values])
    return sa.tuple_(*columns).in_(list(values))


def rows_of(
    connection: Connection,
    statements: Statements,
    kind: type[R],
    columns: Sequence[str],
    values: Collection[tuple[Any, ...]],
) -> list[R]:
    """The rows of a table whose columns equal one of the values, in no order."""
    table = TABLES[kind]
    names = table.columns.keys()
    found = [table.c[name] for name in columns]
    wanted = list(dict.fromkeys(values))
    size = statements.chunk(len(columns))
    rows: list[R] = []
    for start in range(0, len(wanted), size):
        condition = statements.among(found, wanted[start : start + size])
        result = connection.execute(sa.select(table).where(condition))
        rows += [kind(**dict(zip(names, row, strict=True))) for row in result]
    return rows


def _quoted(name: str) -> str:
    return f'"{name}"'


def statements_for(dialect: str, *, portable: bool = False) -> Statements:
    """The statements of a database.

    Args:
        dialect: SQLAlchemy's name of it.
        portable: use the portable ones on PostgreSQL too.
    """
    if dialect == "sqlite":
        return SqliteStatements()
    if dialect == "postgresql" and not portable:
        return PostgresStatements()
    return PortableStatements()
