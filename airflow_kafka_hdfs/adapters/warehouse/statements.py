"""How rows are written, found and locked in one kind of database."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import Connection

from airflow_kafka_hdfs.adapters.warehouse.copying import Rows, copy_rows
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES, UtcDateTime

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
        """A time as `put` takes it: in UTC, without a zone."""

    def moment(self, value: Any) -> datetime:
        """The time that `find` gave."""

    def find(
        self, connection: Connection, table: sa.Table, columns: Sequence[str], values: Sequence[tuple[Any, ...]]
    ) -> Iterable[Sequence[Any]]:
        """Rows, in the order of the table's columns, whose columns equal one of the values."""

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Insert rows in place of those with the same key."""

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """Condition: the columns equal one of the values."""

    def chunk(self, width: int) -> int:
        """How many values of that many columns fit one `among`."""

    def member(self, column: sa.ColumnElement[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """Condition: a text column equals one of the values, whose number the statement's text does not show."""

    def distinct(
        self, connection: Connection, column: sa.Column[Any], conditions: Iterable[sa.ColumnElement[bool]]
    ) -> set[str]:
        """The values of a text column in the rows that meet all conditions."""

    def holding(self, column: sa.Column[Any], word: str) -> sa.ColumnElement[bool]:
        """Condition: a word is part of a text column, whatever its case."""


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
    head = f"INSERT INTO {quoted(table.name)} ({names}) "
    return head, f" ON CONFLICT ({', '.join(map(quoted, key))}) DO UPDATE SET {changes}"


_COPYING = ("psycopg2", "psycopg")
"""Drivers of PostgreSQL that we know how to copy rows with; others get the portable statements."""
_WITHOUT_ZONE = len("2026-01-01 00:00:00.000000")


@cache
def _places(table: sa.Table, kind: type[Any]) -> tuple[int, ...]:
    """Which columns are of a kind."""
    return tuple(n for n, column in enumerate(table.columns) if isinstance(column.type, kind))


def values_of(table: sa.Table, rows: Iterable[Any], statements: Statements) -> list[list[Any]]:
    """Rows as values in the order of the table's columns, times as `put` takes them."""
    take = attrgetter(*table.columns.keys())
    times, convert = _places(table, UtcDateTime), statements.time
    known: dict[datetime | None, Any] = {None: None}  # rows of one batch share most of their times
    found = []
    for row in rows:
        values = list(take(row))
        for n in times:
            value = values[n]
            if value not in known:
                known[value] = convert(value)
            values[n] = known[value]
        found.append(values)
    return found


def _rows_from(kind: type[R], table: sa.Table, found: Iterable[Sequence[Any]], statements: Statements) -> Iterator[R]:
    """Rows from what `find` gave."""
    names = table.columns.keys()
    times, flags = _places(table, UtcDateTime), _places(table, sa.Boolean)
    convert = statements.moment
    known: dict[Any, datetime | None] = {None: None}
    for row in found:
        values = list(row)
        for n in times:
            value = values[n]
            if value not in known:
                known[value] = convert(value)
            values[n] = known[value]
        for n in flags:
            values[n] = bool(values[n])
        yield kind(**dict(zip(names, values, strict=True)))


@cache
def _selected(table: sa.Table, preparer: Any) -> str:
    """The columns of a table, in their order."""
    quoted = preparer.quote
    return ", ".join(f"{quoted(table.name)}.{quoted(column.name)}" for column in table.columns)


@cache
def _find_sqlite(table: sa.Table, columns: tuple[str, ...], preparer: Any) -> str:
    """One parameter holds all wanted values; CROSS JOIN fixes the order: values first, then the table's index."""
    quoted = preparer.quote
    name = quoted(table.name)
    same = " AND ".join(f"{name}.{quoted(c)} = json_extract(wanted.value, '$[{n}]')" for n, c in enumerate(columns))
    return f"SELECT {_selected(table, preparer)} FROM json_each(?) AS wanted CROSS JOIN {name} ON {same}"  # noqa: S608 - names are ours


@cache
def _find_postgres(table: sa.Table, columns: tuple[str, ...], preparer: Any) -> str:
    """One parameter holds all wanted values as a table."""
    quoted = preparer.quote
    name = quoted(table.name)
    kinds = ["bigint" if isinstance(table.c[column].type, sa.BigInteger) else "text" for column in columns]
    wanted = ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))
    same = " AND ".join(f"{name}.{quoted(column)} = wanted.c{n}" for n, column in enumerate(columns))
    return (
        f"SELECT {_selected(table, preparer)} FROM json_to_recordset(CAST(%s AS json)) AS wanted({wanted}) "  # noqa: S608 - names are ours
        f"JOIN {name} ON {same}"
    )


@cache
def _put_postgres(table: sa.Table, preparer: Any) -> tuple[str, str, str, str]:
    """The statements of one `put`: make a table beside it, empty it, copy rows there, merge them."""
    quoted = preparer.quote
    name, beside = quoted(table.name), quoted(f"put_{table.name}")
    columns = ", ".join(quoted(column.name) for column in table.columns)
    head, tail = _upsert(table, preparer)
    return (
        f"CREATE TEMPORARY TABLE IF NOT EXISTS {beside} (LIKE {name}) ON COMMIT DELETE ROWS",
        # Most often it is empty: the end of a transaction does that, at less cost than TRUNCATE in between.
        f"DELETE FROM {beside}",  # noqa: S608 - names are ours
        f"COPY {beside} ({columns}) FROM STDIN",
        f"{head}SELECT {columns} FROM {beside}{tail}",  # noqa: S608 - names are ours
    )


_MOSTLY_NEW = ("lineage_raw", "run", "edge_run")
"""Tables whose rows are of messages and runs that come once, unless somebody sends them again."""


def _appended(connection: Connection, table: sa.Table, rows: Rows) -> bool:
    """Copy rows of which none is there yet; False, and nothing has happened, if one is."""
    quoted = connection.dialect.identifier_preparer.quote
    columns = ", ".join(quoted(column.name) for column in table.columns)
    try:
        with connection.begin_nested():
            copy_rows(connection, f"COPY {quoted(table.name)} ({columns}) FROM STDIN", rows)
    except exc.IntegrityError:
        return False
    return True


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(" ", "microseconds")[:_WITHOUT_ZONE]


_BETWEEN = "\x1f"
"""Stands between texts of one list; no id holds it."""


class SqliteStatements:
    """SQLite: transactions begin with the write lock, so there is nothing more to lock."""

    portion = 200_000

    def lock(self, connection: Connection) -> None:
        """Nothing: `BEGIN IMMEDIATE` has the lock."""

    def time(self, value: datetime) -> str:
        """As SQLAlchemy writes it."""
        return _iso(value)

    def moment(self, value: str) -> datetime:
        """From what SQLAlchemy writes."""
        return datetime.fromisoformat(value).replace(tzinfo=UTC)

    def find(
        self, connection: Connection, table: sa.Table, columns: Sequence[str], values: Sequence[tuple[Any, ...]]
    ) -> Iterable[Sequence[Any]]:
        """One statement whose text is the same however many values there are."""
        text = _find_sqlite(table, tuple(columns), connection.dialect.identifier_preparer)
        return connection.exec_driver_sql(text, (_json(values),)).fetchall()

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Upsert."""
        head, tail = _upsert(table, connection.dialect.identifier_preparer)
        marks = ", ".join("?" * len(table.columns))
        connection.exec_driver_sql(f"{head}VALUES ({marks}){tail}", [tuple(row) for row in rows])

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """IN over one column or row values."""
        return _in(columns, values)

    def chunk(self, width: int) -> int:
        """SQLite takes 32,766 parameters."""
        return 10_000 // width

    def member(self, column: sa.ColumnElement[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """A table made of one parameter."""
        items = sa.func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(sa.select(items.c.value))

    def distinct(
        self, connection: Connection, column: sa.Column[Any], conditions: Iterable[sa.ColumnElement[bool]]
    ) -> set[str]:
        """As one text: a set of Python's takes a fraction of the time that a tree of SQLite's takes, or rows."""
        joined = connection.execute(sa.select(sa.func.group_concat(column, _BETWEEN)).where(*conditions)).scalar()
        return set() if joined is None else set(joined.split(_BETWEEN))

    def holding(self, column: sa.Column[Any], word: str) -> sa.ColumnElement[bool]:
        """LIKE, which knows no case of ASCII letters here, as `lower` does: that took most of the time."""
        return column.like(_part(word), escape=_ESCAPE)


class _Servers:
    """What databases behind a network have in common."""

    def distinct(
        self, connection: Connection, column: sa.Column[Any], conditions: Iterable[sa.ColumnElement[bool]]
    ) -> set[str]:
        """Each value once."""
        return set(connection.execute(sa.select(column).distinct().where(*conditions)).scalars())

    def holding(self, column: sa.Column[Any], word: str) -> sa.ColumnElement[bool]:
        """LIKE on the text in lower case; which letters have a small form is the database's to say."""
        return sa.func.lower(column).like(sa.func.lower(_part(word)), escape=_ESCAPE)


class PostgresStatements(_Servers):
    """PostgreSQL."""

    portion = 200_000

    def lock(self, connection: Connection) -> None:
        """Lock the offsets against other writers; readers go on."""
        connection.execute(sa.text("LOCK TABLE lineage_offset IN SHARE ROW EXCLUSIVE MODE"))

    def time(self, value: datetime) -> str:
        """Text that PostgreSQL reads as a time without a zone."""
        return _iso(value)

    def moment(self, value: datetime) -> datetime:
        """The driver's time has no zone."""
        return value.replace(tzinfo=UTC)

    def find(
        self, connection: Connection, table: sa.Table, columns: Sequence[str], values: Sequence[tuple[Any, ...]]
    ) -> Iterable[Sequence[Any]]:
        """One statement whose text is the same however many values there are."""
        text = _find_postgres(table, tuple(columns), connection.dialect.identifier_preparer)
        wanted = [{f"c{n}": value for n, value in enumerate(row)} for row in values]
        return connection.exec_driver_sql(text, (_json(wanted),)).fetchall()

    def put(self, connection: Connection, table: sa.Table, rows: Rows) -> None:
        """Upsert from a table beside, which is the fastest way in and out of this database; new rows go straight in."""
        if table.name in _MOSTLY_NEW and _appended(connection, table, rows):
            return
        make, empty, copy, merge = _put_postgres(table, connection.dialect.identifier_preparer)
        connection.exec_driver_sql(make)
        connection.exec_driver_sql(empty)
        copy_rows(connection, copy, rows)
        connection.exec_driver_sql(merge)

    def among(self, columns: Sequence[sa.Column[Any]], values: Sequence[tuple[Any, ...]]) -> sa.ColumnElement[bool]:
        """IN over one column or row values."""
        return _in(columns, values)

    def chunk(self, width: int) -> int:
        """PostgreSQL takes 65,535 parameters, and plans long lists slowly."""
        return 5_000 // width

    def member(self, column: sa.ColumnElement[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """An array as one parameter."""
        return column == sa.any_(sa.literal(list(values), sa.ARRAY(sa.Text())))


class PortableStatements(_Servers):
    """SQL that Redshift has: no upsert, no row values. Rows go through a temporary table, in one transaction."""

    portion = 1_000

    def lock(self, connection: Connection) -> None:
        """Lock the offsets whole."""
        connection.execute(sa.text("LOCK lineage_offset"))

    def time(self, value: datetime) -> datetime:
        """Without a zone."""
        return value.astimezone(UTC).replace(tzinfo=None)

    def moment(self, value: datetime) -> datetime:
        """SQLAlchemy gave it its zone."""
        return value

    def find(
        self, connection: Connection, table: sa.Table, columns: Sequence[str], values: Sequence[tuple[Any, ...]]
    ) -> Iterable[Sequence[Any]]:
        """One statement for each few values."""
        found = [table.c[name] for name in columns]
        size = self.chunk(len(columns))
        for start in range(0, len(values), size):
            condition = self.among(found, values[start : start + size])
            yield from connection.execute(sa.select(table).where(condition))

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

    def member(self, column: sa.ColumnElement[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
        """IN."""
        return column.in_(list(values))


_ESCAPE = "\\"


def _part(word: str) -> str:
    for sign in (_ESCAPE, "%", "_"):
        word = word.replace(sign, _ESCAPE + sign)
    return f"%{word}%"


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
    wanted = list(dict.fromkeys(values))
    if not wanted:
        return []
    table = TABLES[kind]
    return list(_rows_from(kind, table, statements.find(connection, table, columns, wanted), statements))


def _quoted(name: str) -> str:
    return f'"{name}"'


def statements_for(dialect: str, driver: str = "", *, portable: bool = False) -> Statements:
    """The statements of a database.

    Args:
        dialect: SQLAlchemy's name of it.
        driver: SQLAlchemy's name of the driver.
        portable: use the portable ones on PostgreSQL too.
    """
    if dialect == "sqlite":
        return SqliteStatements()
    if dialect == "postgresql" and driver in _COPYING and not portable:
        return PostgresStatements()
    return PortableStatements()
