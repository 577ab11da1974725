"""Questions to the warehouse, as SQL that answers within milliseconds at a million edges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from airflow_kafka_hdfs.adapters.warehouse.statements import Statements, rows_of
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES
from airflow_kafka_hdfs.ports.lineage_reading import Direction, Finding, Show, Window
from airflow_kafka_hdfs.ports.lineage_rows import (
    DECLARED_RUN,
    POSTED_RUN,
    DatasetRow,
    EdgeRow,
    EdgeRunRow,
    JobRow,
    OffsetRow,
    RawRow,
    RelationRow,
    RunRow,
)

R = TypeVar("R")
_EDGE = TABLES[EdgeRow]
_SEARCHED = {DatasetRow: ("ns", "name"), JobRow: ("dag_id", "owners", "team", "tags")}
_NAMES = {DatasetRow: ("name", "ns"), JobRow: ("dag_id", "instance")}
_FEW = 5_000
_AT_ONCE = 20_000
"""Datasets whose neighbours are held in memory at once, each as often as an edge leads to it."""


class SqlReader:
    """One look at the warehouse.

    Args:
        connection: in a transaction.
        statements: of this database.
    """

    def __init__(self, connection: Connection, statements: Statements) -> None:
        self._connection = connection
        self._statements = statements

    def rows(self, kind: type[R], columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> list[R]:
        """See `LineageReader.rows`."""
        return rows_of(self._connection, self._statements, kind, columns, values)

    def find(self, kind: type[R], finding: Finding, *, limit: int, offset: int = 0) -> list[R]:
        """See `LineageReader.find`."""
        table = TABLES[kind]
        first, *rest = (table.c[name] for name in _NAMES[kind])
        query = sa.select(table).where(*self._found(kind, finding)).order_by(sa.func.length(first), first, *rest)
        names = table.columns.keys()
        result = self._connection.execute(query.limit(limit).offset(offset))
        return [kind(**dict(zip(names, row, strict=True))) for row in result]

    def count(self, kind: type[Any], finding: Finding | None = None) -> int:
        """See `LineageReader.count`."""
        conditions = self._found(kind, finding) if finding is not None else []
        query = sa.select(sa.func.count()).select_from(TABLES[kind]).where(*conditions)
        return int(self._connection.execute(query).scalar_one())

    def _found(self, kind: type[Any], finding: Finding) -> list[sa.ColumnElement[bool]]:
        table = TABLES[kind]
        conditions: list[sa.ColumnElement[bool]] = [
            sa.or_(*(self._statements.holding(table.c[name], word) for name in _SEARCHED[kind]))
            for word in finding.words
        ]
        conditions += [table.c[name] == value for name, value in (finding.equal or {}).items()]
        if finding.among is not None:
            if kind is DatasetRow:
                relation = TABLES[RelationRow]
                own = self._statements.member(relation.c.job_id, finding.among)
                conditions.append(table.c.dataset_id.in_(sa.select(relation.c.dataset_id).where(own)))
            else:
                conditions.append(self._statements.member(table.c.job_id, finding.among))
        return conditions

    def job_names(self, job_ids: Collection[str] | None = None) -> list[tuple[str, str, str]]:
        """See `LineageReader.job_names`."""
        table = TABLES[JobRow]
        query = sa.select(table.c.job_id, table.c.instance, table.c.dag_id)
        queries = (
            [query]
            if job_ids is None
            else [query.where(self._statements.member(table.c.job_id, part)) for part in self._parts(job_ids)]
        )
        # As the driver gives them: rows around the names of twenty thousand jobs take longer than the names.
        return [row for each in queries for row in self._connection.execute(each).cursor.fetchall()]

    def loaded(self) -> datetime | None:
        """See `LineageReader.loaded`."""
        table, raw = TABLES[OffsetRow], TABLES[RawRow]
        newest = sa.select(table.c.topic, table.c.partition, table.c.next_offset)
        keys = [(row[0], row[1], row[2] - 1) for row in self._connection.execute(newest)]
        rows = self.rows(RawRow, raw.primary_key.columns.keys(), keys)
        return max((row.received_at for row in rows), default=None)

    def between(self, sources: Collection[str], targets: Collection[str], window: Window) -> list[EdgeRow]:
        """See `LineageReader.between`."""
        names = _EDGE.columns.keys()
        wanted = set(targets)
        few = len(wanted) <= min(_FEW, self._statements.portion)
        by_target = few and len(wanted) < len(sources)
        found = []
        for part in self._parts(targets if by_target else sources):
            here, there = (
                (_EDGE.c.target_id, _EDGE.c.source_id) if by_target else (_EDGE.c.source_id, _EDGE.c.target_id)
            )
            others = sources if by_target else wanted
            # With many values a database checks the second list row by row, so a large one is checked here.
            # An expression is in no index: else SQLite looks into one for each pair of both lists.
            more = [self._statements.member(there.concat(""), others)] if len(others) <= _FEW and few else []
            query = sa.select(_EDGE).where(self._statements.member(here, part), *more, *_holding(window))
            rows = self._connection.execute(query).fetchall()
            found += [EdgeRow(**dict(zip(names, row, strict=True))) for row in rows]
        known = set(sources)
        return [edge for edge in found if edge.source_id in known and edge.target_id in wanted]

    def attached(
        self, ids: Collection[str], direction: Direction, window: Window
    ) -> list[tuple[str, str, datetime | None]]:
        """See `LineageReader.attached`."""
        here, _ = _ends(direction)
        found: list[tuple[str, str, datetime | None]] = []
        for part in self._parts(ids):
            query = (
                sa.select(here, _EDGE.c.job_id, sa.func.max(_EDGE.c.last_success))
                .where(self._statements.member(here, part), *_holding(window))
                .group_by(here, _EDGE.c.job_id)
            )
            found += [(row[0], row[1], row[2]) for row in self._connection.execute(query).fetchall()]
        return found

    def step(self, ids: Collection[str], direction: Direction, window: Window) -> set[str]:
        """See `LineageReader.step`."""
        here, there = _ends(direction)
        found: set[str] = set()
        for part in self._parts(ids, _AT_ONCE):
            conditions = (self._statements.member(here, part), *_holding(window))
            found |= self._statements.distinct(self._connection, there, conditions)
        return found

    def degrees(self, ids: Collection[str], direction: Direction, window: Window) -> Mapping[str, int]:
        """See `LineageReader.degrees`."""
        here, there = _ends(direction)
        found: dict[str, int] = {}
        for part in self._parts(ids):
            query = (
                sa.select(here, sa.func.count(there.distinct()))
                .where(self._statements.member(here, part), here != there, *_holding(window))
                .group_by(here)
            )
            found.update((row[0], row[1]) for row in self._connection.execute(query))
        return found

    def touching(self, dataset_ids: Collection[str]) -> list[tuple[str, str]]:
        """See `LineageReader.touching`."""
        relation = TABLES[RelationRow]
        query = sa.select(relation.c.dataset_id, relation.c.job_id).distinct()
        found: list[tuple[str, str]] = []
        for part in self._parts(dataset_ids):
            own = query.where(self._statements.member(relation.c.dataset_id, part))
            found += [(row[0], row[1]) for row in self._connection.execute(own).fetchall()]
        return found

    def touched(self, job_ids: Collection[str]) -> set[str]:
        """See `LineageReader.touched`."""
        relation = TABLES[RelationRow]
        found: set[str] = set()
        for part in self._parts(job_ids):
            query = sa.select(relation.c.dataset_id).distinct().where(self._statements.member(relation.c.job_id, part))
            found.update(self._connection.execute(query).scalars().all())
        return found

    def runs(
        self,
        job_id: str,
        *,
        limit: int,
        before: tuple[datetime, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[RunRow]:
        """See `LineageReader.runs`."""
        table = TABLES[RunRow]
        conditions = [table.c.job_id == job_id]
        if before is not None:
            when, run_id = before
            same = sa.and_(table.c.run_after == when, table.c.run_id < run_id)
            conditions.append(sa.or_(table.c.run_after < when, same))
        if since is not None:
            conditions.append(table.c.run_after >= since)
        if until is not None:
            conditions.append(table.c.run_after <= until)
        query = sa.select(table).where(*conditions)
        result = self._connection.execute(query.order_by(table.c.run_after.desc(), table.c.run_id.desc()).limit(limit))
        names = table.columns.keys()
        return [RunRow(**dict(zip(names, row, strict=True))) for row in result]

    def readings(self, dataset_ids: Collection[str], since: datetime) -> list[tuple[str, str, str, datetime]]:
        """See `LineageReader.readings`."""
        table = TABLES[EdgeRunRow]
        found: set[tuple[str, str, str, datetime]] = set()
        for part in self._parts(dataset_ids):
            query = (
                sa.select(table.c.source_id, table.c.job_id, table.c.run_id, table.c.run_after)
                .distinct()
                .where(self._statements.member(table.c.source_id, part), table.c.run_after >= since)
                .where(table.c.run_id != POSTED_RUN)
            )
            found.update((row[0], row[1], row[2], row[3]) for row in self._connection.execute(query))
        return sorted(found)

    def run_dates(self, job_ids: Collection[str], since: datetime) -> list[tuple[str, str, datetime]]:
        """See `LineageReader.run_dates`."""
        run = TABLES[RunRow].c
        found: list[tuple[str, str, datetime]] = []
        for part in self._parts(job_ids):
            query = sa.select(run.job_id, run.run_id, run.run_after)
            query = query.where(self._statements.member(run.job_id, part), run.run_after >= since)
            query = query.where(run.run_id.not_in((POSTED_RUN, DECLARED_RUN)))
            found += [(row[0], row[1], row[2]) for row in self._connection.execute(query)]
        return found

    def most_read(self, limit: int, among: Collection[str] | None = None) -> list[tuple[str, int, int]]:
        """See `LineageReader.most_read`."""
        # A run that reads for several targets stands in the pair of each, and has read once.
        own = sa.select(_EDGE.c.source_id, _EDGE.c.job_id, sa.func.max(_EDGE.c.run_count).label("runs"))
        own = own.where(_EDGE.c.valid_to.is_(None))
        if among is not None:
            own = own.where(self._statements.member(_EDGE.c.job_id, among))
        reader = own.group_by(_EDGE.c.source_id, _EDGE.c.job_id).subquery()
        readers, runs = sa.func.count(), sa.func.sum(reader.c.runs)
        query = sa.select(reader.c.source_id, readers, runs).group_by(reader.c.source_id)
        query = query.order_by(readers.desc(), runs.desc(), reader.c.source_id).limit(limit)
        return [(row[0], int(row[1]), int(row[2])) for row in self._connection.execute(query)]

    def _parts(self, values: Collection[str], at_most: int = 200_000) -> Iterator[Collection[str]]:
        """The values in portions that one statement takes."""
        wanted = list(values)
        size = min(self._statements.portion, at_most)
        for start in range(0, len(wanted), size):
            yield wanted[start : start + size]


def _ends(direction: Direction) -> tuple[sa.Column[Any], sa.Column[Any]]:
    """The column that is known, and the one on the other side."""
    if direction is Direction.DOWN:
        return _EDGE.c.source_id, _EDGE.c.target_id
    return _EDGE.c.target_id, _EDGE.c.source_id


_SHOWN: dict[Show, list[sa.ColumnElement[bool]]] = {
    Show.ALL: [],
    Show.DECLARED: [_EDGE.c.last_declared.is_not(None)],
    Show.OBSERVED: [_EDGE.c.last_success.is_not(None)],
    Show.FAILING: [_EDGE.c.last_state.in_(["failed", "upstream_failed"])],
}


@lru_cache(100)
def _holding(window: Window) -> Sequence[sa.ColumnElement[bool]]:
    return [
        *_SHOWN[window.show],
        _EDGE.c.first_seen <= window.at,
        sa.or_(_EDGE.c.valid_to.is_(None), _EDGE.c.valid_to > (window.since or window.at)),
        sa.or_(_EDGE.c.last_declared.is_not(None), _EDGE.c.last_seen >= window.alive_since),
    ]
