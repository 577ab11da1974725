"""The warehouse in a database that SQLAlchemy reaches."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine, make_url

from airflow_kafka_hdfs.adapters.warehouse.looking_back import SqlLookBack
from airflow_kafka_hdfs.adapters.warehouse.migrating import current_revision, upgrade
from airflow_kafka_hdfs.adapters.warehouse.reading import SqlReader
from airflow_kafka_hdfs.adapters.warehouse.statements import Statements, rows_of, statements_for, values_of
from airflow_kafka_hdfs.adapters.warehouse.tables import REVISION, TABLES
from airflow_kafka_hdfs.exceptions import ConfigError, LineageError, WarehouseSchemaError, WarehouseUnavailableError
from airflow_kafka_hdfs.ports.lineage_rows import POSTED_RUN, EdgeRow, EdgeRunRow, JobRow, OffsetRow, RunRow

R = TypeVar("R")
_INIT = "create or update the tables with `airflow kafka-hdfs lineage init`"


class SqlTransaction:
    """One loading transaction.

    Args:
        connection: in a transaction.
        statements: of this database.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self._connection = connection
        self._statements = statements

    def rows(self, kind: type[R], columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> list[R]:
        """See `LoadTransaction.rows`."""
        return rows_of(self._connection, self._statements, kind, columns, values)

    def put(self, rows: Sequence[Any]) -> None:
        """See `LoadTransaction.put`."""
        if rows:
            table = TABLES[type(rows[0])]
            key = attrgetter(*type(rows[0]).KEY)
            unique = {key(row): row for row in rows}
            self._statements.put(self._connection, table, values_of(table, unique.values(), self._statements))

    def delete(self, kind: type[Any], keys: Collection[tuple[Any, ...]]) -> None:
        """See `LoadTransaction.delete`."""
        table = TABLES[kind]
        for condition in self._conditions(table, kind.KEY, keys):
            self._connection.execute(sa.delete(table).where(condition))

    def job_runs(self, job_id: str) -> list[RunRow]:
        """See `LoadTransaction.job_runs`."""
        found = self.rows(RunRow, ("job_id",), [(job_id,)])
        return sorted(found, key=lambda row: (row.run_after, row.run_id), reverse=True)

    def edge_runs(self, keys: Collection[tuple[str, str, str]]) -> list[EdgeRunRow]:
        """See `LoadTransaction.edge_runs`."""
        return self.rows(EdgeRunRow, ("job_id", "source_id", "target_id"), keys)

    def end_edges(self, job_ids: Collection[str]) -> None:
        """See `LoadTransaction.end_edges`."""
        edge, job = TABLES[EdgeRow], TABLES[JobRow]
        since = sa.select(job.c.structure_since).where(job.c.job_id == edge.c.job_id).scalar_subquery()
        run = TABLES[EdgeRunRow]
        posted = (
            sa.exists()
            .where(run.c.job_id == edge.c.job_id, run.c.run_id == POSTED_RUN)
            .where(run.c.source_id == edge.c.source_id, run.c.target_id == edge.c.target_id)
        )
        over = sa.and_(edge.c.last_declared < since, edge.c.last_seen < since, ~posted)
        ended = sa.update(edge).values(valid_to=since)
        revived = sa.update(edge).values(valid_to=None)
        for condition in self._conditions(edge, ("job_id",), [(job_id,) for job_id in job_ids]):
            self._connection.execute(
                ended.where(condition, over, sa.or_(edge.c.valid_to.is_(None), edge.c.valid_to != since))
            )
            self._connection.execute(
                revived.where(
                    condition,
                    edge.c.valid_to.is_not(None),
                    sa.or_(
                        edge.c.last_declared.is_(None),
                        edge.c.last_declared >= since,
                        edge.c.last_seen >= since,
                        posted,
                    ),
                )
            )

    def _conditions(
        self, table: sa.Table, columns: Sequence[str], values: Collection[tuple[Any, ...]]
    ) -> Iterator[sa.ColumnElement[bool]]:
        found = [table.c[name] for name in columns]
        wanted = list(dict.fromkeys(values))
        size = self._statements.chunk(len(columns))
        for start in range(0, len(wanted), size):
            yield self._statements.among(found, wanted[start : start + size])


class SqlWarehouse:
    """The warehouse behind a database URL.

    Args:
        url: SQLAlchemy URL (`sqlite:////path/lineage.db`, `postgresql+psycopg2://…`).
        portable: use only SQL that Redshift has, also on PostgreSQL.

    Raises:
        ConfigError: the URL can't be read or its driver is missing.
    """

    def __init__(self, url: str, *, portable: bool = False) -> None:
        self.engine = _engine(url)
        self.where = make_url(url).render_as_string(hide_password=True)
        self._statements = statements_for(self.engine.dialect.name, self.engine.dialect.driver, portable=portable)
        self._checked = threading.Event()
        # SQLite and Redshift show one state for as long as a transaction lasts; PostgreSQL has to be asked to.
        asked = {"isolation_level": "REPEATABLE READ"} if self.engine.dialect.name == "postgresql" else {}
        self._looking: dict[str, Any] = {"reading": True, **asked}

    def migrate(self) -> None:
        """See `Warehouse.migrate`."""
        with self._guarded(), self.engine.begin() as connection:
            upgrade(connection)
        self._checked.set()

    def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """See `Warehouse.offsets`."""
        with self.reading() as connection:
            rows = SqlTransaction(connection, self._statements).rows(OffsetRow, ("group",), [(group,)])
        return {(row.topic, row.partition): row.next_offset for row in rows}

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """See `Warehouse.transaction`."""
        with self._guarded(), self.engine.begin() as connection:
            self._check(connection)
            self._statements.lock(connection)
            yield SqlTransaction(connection, self._statements)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for queries.

        Raises:
            WarehouseUnavailableError: the database is away.
            LineageError: the tables are missing or newer than this package.
        """
        with self._guarded(), self.engine.connect().execution_options(**self._looking) as connection:
            self._check(connection)
            yield connection

    @contextmanager
    def look(self) -> Iterator[SqlReader]:
        """See `ReadableWarehouse.look`."""
        with self.reading() as connection:
            yield SqlReader(connection, self._statements)

    @contextmanager
    def look_back(self) -> Iterator[SqlLookBack]:
        """See `PrunableWarehouse.look_back`."""
        with self.reading() as connection:
            yield SqlLookBack(connection, self._statements)

    def close(self) -> None:
        """See `Warehouse.close`."""
        self.engine.dispose()

    def _check(self, connection: Connection) -> None:
        if self._checked.is_set():
            return
        found = current_revision(connection)
        if found is None or found < REVISION:
            raise WarehouseSchemaError(
                f"warehouse {self.where}: schema {found or 'missing'}, needed {REVISION}; {_INIT}"
            )
        if found > REVISION:
            raise WarehouseSchemaError(
                f"warehouse {self.where}: schema {found} is newer than this package knows ({REVISION}); "
                "upgrade the package"
            )
        self._checked.set()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            text = f"warehouse {self.where}: {type(error).__name__}: {str(error.orig)[:500]}"
            away = error.connection_invalidated or isinstance(error, exc.OperationalError | exc.InterfaceError)
            if away and "no such" not in text:
                raise WarehouseUnavailableError(text) from error
            if isinstance(error, exc.DataError | exc.IntegrityError):
                raise LineageError(f"{text}; the database refuses the rows") from error
            raise WarehouseSchemaError(f"{text}; if tables or columns are missing, {_INIT}") from error
        except exc.TimeoutError as error:
            raise WarehouseUnavailableError(f"warehouse {self.where}: no free connection: {error}") from error


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            engine = sa.create_engine(parsed, connect_args={"timeout": 30})
            sa.event.listen(engine, "connect", _configure_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
            return engine
        return sa.create_engine(parsed, pool_pre_ping=True, pool_recycle=1800)
    except (exc.ArgumentError, exc.NoSuchModuleError, ImportError) as error:
        raise ConfigError(
            "warehouse", type(error).__name__, "an SQLAlchemy URL whose driver is installed", hint=str(error)[:200]
        ) from error


def _configure_sqlite(connection: Any, _record: Any) -> None:
    # The driver's own transactions begin at the first write, too late for a read that decides a write.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # A power cut may undo the last transactions whole; offsets are among them, so they are read again.
    cursor.execute("PRAGMA synchronous=NORMAL")
    # Reads of a large file come from the page cache of the system instead of through 2 MB of SQLite's own.
    cursor.execute("PRAGMA mmap_size=8589934592")
    cursor.execute("PRAGMA cache_size=-65536")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN" if connection.get_execution_options().get("reading") else "BEGIN IMMEDIATE")
