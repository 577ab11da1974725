"""Fakes of `ports/lineage.py`: a topic and a warehouse in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow_kafka_hdfs.exceptions import WarehouseSchemaError, WarehouseUnavailableError
from airflow_kafka_hdfs.ports.lineage import Letter, LetterBox, LetterSource, LoadTransaction, Warehouse
from airflow_kafka_hdfs.ports.lineage_rows import POSTED_RUN, ROWS, EdgeRow, EdgeRunRow, JobRow, OffsetRow, RunRow

Tables = dict[type[Any], dict[tuple[Any, ...], Any]]


class MemoryTopic(LetterBox, LetterSource):
    """Topics that keep what is sent to them.

    Attributes:
        undelivered: as long as it is True, nothing is delivered.
        sent: (topic, key, value) of what was delivered.
    """

    def __init__(self, partitions: int = 3) -> None:
        self._partitions = partitions
        self._log: dict[tuple[str, int], list[bytes | None]] = {}
        self._waiting: list[tuple[str, bytes, bytes]] = []
        self._at: dict[tuple[str, int], int] = {}
        self.undelivered = False
        self.sent: list[tuple[str, bytes, bytes]] = []

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        self._waiting.append((topic, key, value))

    def flush(self, timeout: float) -> int:
        if self.undelivered:
            lost, self._waiting = len(self._waiting), []
            return lost
        for topic, key, value in self._waiting:
            self._log.setdefault((topic, sum(key) % self._partitions), []).append(value)
            self.sent.append((topic, key, value))
        self._waiting = []
        return 0

    def abandon(self) -> None:
        self._waiting = []

    def assign(self, topics: Collection[str], positions: Mapping[tuple[str, int], int]) -> None:
        self._at = {}
        for topic in topics:
            for partition in range(self._partitions):
                log = self._log.setdefault((topic, partition), [])
                start = positions.get((topic, partition), 0)
                self._at[topic, partition] = start if start <= len(log) else 0

    def poll(self, max_letters: int, timeout: float) -> list[Letter]:
        found: list[Letter] = []
        for (topic, partition), start in self._at.items():
            values = self._log[topic, partition][start : start + max_letters - len(found)]
            for offset, value in enumerate(values, start):
                found.append(Letter(topic=topic, partition=partition, offset=offset, value=value))
            self._at[topic, partition] = start + len(values)
        return found

    def positions(self) -> Mapping[tuple[str, int], int]:
        return dict(self._at)

    def ends(self) -> Mapping[tuple[str, int], tuple[int, int]]:
        return {key: (0, len(self._log[key])) for key in self._at}

    def recreate(self, topic: str) -> None:
        """Delete a topic and make it anew."""
        for partition in range(self._partitions):
            self._log[topic, partition] = []

    def close(self) -> None:
        pass


class _MemoryTransaction(LoadTransaction):
    def __init__(self, tables: Tables, call: Callable[[str], None]) -> None:
        self._tables = tables
        self._call = call

    def rows(self, kind: type[Any], columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> list[Any]:
        self._call("rows")
        wanted = set(values)
        return [r for r in self._tables[kind].values() if tuple(getattr(r, c) for c in columns) in wanted]

    def put(self, rows: Sequence[Any]) -> None:
        self._call("put")
        for row in rows:
            self._tables[type(row)][tuple(getattr(row, c) for c in row.KEY)] = row

    def delete(self, kind: type[Any], keys: Collection[tuple[Any, ...]]) -> None:
        self._call("delete")
        for key in keys:
            self._tables[kind].pop(tuple(key), None)

    def job_runs(self, job_id: str) -> list[RunRow]:
        found = self.rows(RunRow, ("job_id",), [(job_id,)])
        return sorted(found, key=lambda row: (row.run_after, row.run_id), reverse=True)

    def edge_runs(self, keys: Collection[tuple[str, str, str]]) -> list[EdgeRunRow]:
        return self.rows(EdgeRunRow, ("job_id", "source_id", "target_id"), keys)

    def end_edges(self, job_ids: Collection[str]) -> None:
        jobs = {row.job_id: row for row in self.rows(JobRow, ("job_id",), [(j,) for j in job_ids])}
        for key, edge in self._tables[EdgeRow].items():
            since = jobs[edge.job_id].structure_since if edge.job_id in jobs else None
            if since is not None:
                over = edge.last_declared is not None and edge.last_declared < since and edge.last_seen < since
                posted = (edge.job_id, POSTED_RUN, edge.source_id, edge.target_id) in self._tables[EdgeRunRow]
                self._tables[EdgeRow][key] = replace(edge, valid_to=since if over and not posted else None)


class MemoryWarehouse(Warehouse):
    """Tables as dictionaries; a transaction works on copies.

    Attributes:
        calls_until_away: after this many calls the database goes away, None for never.
    """

    def __init__(self) -> None:
        self.tables: Tables = {}
        self.calls_until_away: int | None = None

    def migrate(self) -> None:
        for row in ROWS:
            self.tables.setdefault(row, {})

    def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        self._call("offsets")
        self._check()
        return {(r.topic, r.partition): r.next_offset for r in self.tables[OffsetRow].values() if r.group == group}

    @contextmanager
    def transaction(self) -> Iterator[LoadTransaction]:
        self._call("begin")
        self._check()
        copies = {kind: dict(rows) for kind, rows in self.tables.items()}
        yield _MemoryTransaction(copies, self._call)
        self._call("commit")
        self.tables = copies

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if not self.tables:
            raise WarehouseSchemaError("warehouse: tables are missing; `airflow kafka-hdfs lineage init` creates them")

    def _call(self, name: str) -> None:
        if self.calls_until_away is None:
            return
        if self.calls_until_away <= 0:
            raise WarehouseUnavailableError(f"warehouse: away at {name}")
        self.calls_until_away -= 1
