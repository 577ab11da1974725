"""What is old in a warehouse, in SQL that SQLite, PostgreSQL and Redshift share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_kafka_hdfs.adapters.warehouse.reading import SqlReader
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES
from airflow_kafka_hdfs.ports.lineage import PairState
from airflow_kafka_hdfs.ports.lineage_pruning import LastOfPair
from airflow_kafka_hdfs.ports.lineage_rows import (
    DECLARED_RUN,
    POSTED_RUN,
    EdgeRunRow,
    ExportRow,
    JobVersionRow,
    OpenLineageEventRow,
    OpenLineageSaidRow,
    RawRow,
    RunRow,
    StageRow,
    TaskIoRow,
)

_RUN, _PAIR = TABLES[RunRow], TABLES[EdgeRunRow]
_TOLD: dict[type[Any], str] = {
    TaskIoRow: "emitted_at",
    StageRow: "emitted_at",
    OpenLineageEventRow: "happened_at",
    OpenLineageSaidRow: "happened_at",
    JobVersionRow: "valid_to",
    RawRow: "received_at",
    ExportRow: "sent_at",
}


class SqlLookBack(SqlReader):
    """One look back; the connection only reads."""

    def old_jobs(self, before: datetime) -> list[str]:
        """See `LookBack.old_jobs`."""
        found: set[str] = set()
        for table in (_RUN, _PAIR):
            query = sa.select(table.c.job_id).distinct().where(*_old(table, before))
            found.update(self._connection.execute(query).scalars())
        return sorted(found)

    def old_runs(self, job_id: str, before: datetime) -> list[tuple[str, int]]:
        """See `LookBack.old_runs`."""
        runs = sa.select(_RUN.c.run_id).where(_RUN.c.job_id == job_id, *_old(_RUN, before))
        found = dict.fromkeys(self._connection.execute(runs).scalars(), 0)
        pairs = (
            sa.select(_PAIR.c.run_id, sa.func.count())
            .where(_PAIR.c.job_id == job_id, *_old(_PAIR, before))
            .group_by(_PAIR.c.run_id)
        )
        found.update((row[0], int(row[1])) for row in self._connection.execute(pairs))
        return sorted(found.items())

    def last_of_pairs(self, job_id: str, before: datetime) -> list[LastOfPair]:
        """See `LookBack.last_of_pairs`."""
        due = _PAIR.c.run_after
        written = sa.case((_PAIR.c.state == PairState.WRITTEN.value, due))
        declared = sa.case((_PAIR.c.declared, due))
        ends = (_PAIR.c.source_id, _PAIR.c.target_id)
        query = (
            sa.select(*ends, sa.func.max(due), sa.func.max(written), sa.func.max(declared))
            .where(_PAIR.c.job_id == job_id, *_old(_PAIR, before))
            .group_by(*ends)
        )
        return [
            LastOfPair(source_id=row[0], target_id=row[1], last=row[2], last_written=row[3], last_declared=row[4])
            for row in self._connection.execute(query)
        ]

    def runs_of_structures(self, job_id: str) -> dict[str, int]:
        """See `LookBack.runs_of_structures`."""
        structure = _RUN.c.structure_hash
        query = sa.select(structure, sa.func.count()).where(_RUN.c.job_id == job_id).group_by(structure)
        return {row[0]: int(row[1]) for row in self._connection.execute(query)}

    def expired(
        self, kind: type[Any], before: datetime, *, after: tuple[Any, ...] | None, limit: int
    ) -> list[tuple[Any, ...]]:
        """See `LookBack.expired`."""
        table = TABLES[kind]
        conditions = [table.c[_TOLD[kind]] < before]
        if kind in (TaskIoRow, StageRow, OpenLineageSaidRow):
            conditions.append(~_run_of(table, "run_id"))
        elif kind is JobVersionRow:
            conditions += [table.c.emitted_at < before, ~_run_of(table, "structure_hash")]
        elif kind is ExportRow:
            conditions.append(table.c.subject.like("run/%"))
        keys = [table.c[name] for name in kind.KEY]
        if after is not None:
            conditions.append(_beyond(keys, after))
        query = sa.select(*keys).where(*conditions).order_by(*keys).limit(limit)
        return [tuple(row) for row in self._connection.execute(query)]


def _old(table: sa.Table, before: datetime) -> list[sa.ColumnElement[bool]]:
    return [
        table.c.run_after < before,
        table.c.emitted_at < before,
        table.c.run_id.not_in((POSTED_RUN, DECLARED_RUN)),
    ]


def _run_of(table: sa.Table, column: str) -> sa.ColumnElement[bool]:
    """Whether the row's job has a run with the same id or structure."""
    return sa.exists().where(_RUN.c.job_id == table.c.job_id, _RUN.c[column] == table.c[column])


def _beyond(columns: Sequence[sa.Column[Any]], values: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Greater in the order of the columns, without row values, which Redshift lacks."""
    *before, last = zip(columns, values, strict=True)
    found = last[0] > last[1]
    for column, value in reversed(before):
        found = sa.or_(column > value, sa.and_(column == value, found))
    # Said twice, so that a database finds the start in its index.
    return sa.and_(columns[0] >= values[0], found)
