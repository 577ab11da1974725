"""The lineage warehouse as whoever deletes old runs sees it: what is old, found without holding up a loader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_rows import RunRow

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOfPair:
    """Of a job's pair the due dates of its newest old row, of the newest that wrote, of the newest that promised it."""

    source_id: str
    target_id: str
    last: datetime
    last_written: datetime | None
    last_declared: datetime | None


class Rows(Protocol):
    """Where rows are found: a loading transaction, or a look back."""

    @abstractmethod
    def rows(self, kind: type[R], columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> list[R]:
        """As `LoadTransaction.rows`."""


class LookBack(Rows, Protocol):
    """One look at what is old: due and told before a moment. Posted and declared pairs never are."""

    @abstractmethod
    def old_jobs(self, before: datetime) -> list[str]:
        """Ids of the jobs with old runs, or with old pairs."""

    @abstractmethod
    def old_runs(self, job_id: str, before: datetime) -> list[tuple[str, int]]:
        """(run id, old pairs) of the runs of a job that have old rows; others of their rows may be newer."""

    @abstractmethod
    def last_of_pairs(self, job_id: str, before: datetime) -> list[LastOfPair]:
        """For each pair of a job with old rows the newest of these."""

    @abstractmethod
    def runs_of_structures(self, job_id: str) -> dict[str, int]:
        """Structure hash -> how many runs of a job had it, old ones and others."""

    @abstractmethod
    def runs(
        self, job_id: str, *, limit: int, before: tuple[datetime, str] | None = None, until: datetime | None = None
    ) -> list[RunRow]:
        """As `LineageReader.runs`."""

    @abstractmethod
    def expired(
        self, kind: type[Any], before: datetime, *, after: tuple[Any, ...] | None, limit: int
    ) -> list[tuple[Any, ...]]:
        """Keys of rows, in their order, that are older than a moment and belong to no run that is kept.

        Args:
            kind: class of the rows: those of runs, reports, pairs go with their run and are not found here.
            before: the moment.
            after: only keys after this one.
            limit: at most this many.
        """


class PrunableWarehouse(Protocol):
    """A warehouse whose old runs can be deleted."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[LoadTransaction]:
        """As `Warehouse.transaction`."""

    @abstractmethod
    def look_back(self) -> AbstractContextManager[LookBack]:
        """One look. Raises WarehouseUnavailableError, LineageError."""
