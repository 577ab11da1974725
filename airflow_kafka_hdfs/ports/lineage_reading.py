"""The lineage warehouse as its readers see it: small questions that every database answers quickly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from airflow_kafka_hdfs.ports.lineage_rows import EdgeRow, RunRow

R = TypeVar("R")


class Direction(StrEnum):
    """Which way to walk."""

    UP = "up"
    DOWN = "down"


class Show(StrEnum):
    """Which of the edges that hold are looked at.

    `all`; `declared`: promised by the structure of a job, or posted; `observed`: written by a run at least once;
    `failing`: whose last run did not get to write.
    """

    ALL = "all"
    DECLARED = "declared"
    OBSERVED = "observed"
    FAILING = "failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which edges hold at a moment, or at any moment of a span: seen by its end, not ended by its start.

    Attributes:
        at: the moment, or the end of the span.
        alive_since: an edge that was only ever seen at run time must have been seen at or after this.
        show: which of these are looked at; what it asks for is as of now, whatever the moment.
        since: the start of the span, None for a moment.
    """

    at: datetime
    alive_since: datetime
    show: Show = Show.ALL
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What to look for in a catalogue; every condition must hold.

    Attributes:
        words: each must be part of a name, whatever its case.
        equal: column -> value.
        among: ids of the jobs whose datasets (or which themselves) may be found, None for all.
    """

    words: tuple[str, ...] = ()
    equal: Mapping[str, Any] | None = None
    among: Collection[str] | None = None


class LineageReader(Protocol):
    """One consistent look at the warehouse."""

    @abstractmethod
    def rows(self, kind: type[R], columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> list[R]:
        """As `LoadTransaction.rows`."""

    @abstractmethod
    def find(self, kind: type[R], finding: Finding, *, limit: int, offset: int = 0) -> list[R]:
        """Rows of `DatasetRow` or `JobRow` by name, shortest names first, then in the order of names.

        Words are looked for in namespace and name of datasets, and in DAG id, owners, team and tags of jobs.
        """

    @abstractmethod
    def count(self, kind: type[Any], finding: Finding | None = None) -> int:
        """How many rows a finding has; without one, how many the table has."""

    @abstractmethod
    def job_names(self, job_ids: Collection[str] | None = None) -> list[tuple[str, str, str]]:
        """(job id, instance, DAG id) of these jobs, those that exist; of every job for None."""

    @abstractmethod
    def loaded(self) -> datetime | None:
        """When the newest message was loaded; None if none ever was."""

    @abstractmethod
    def between(self, sources: Collection[str], targets: Collection[str], window: Window) -> list[EdgeRow]:
        """Edges from any of these datasets to any of those; self pairs too."""

    @abstractmethod
    def attached(
        self, ids: Collection[str], direction: Direction, window: Window
    ) -> list[tuple[str, str, datetime | None]]:
        """(dataset id, job id, last success) of the jobs that write (`UP`) or read (`DOWN`) these datasets."""

    @abstractmethod
    def step(self, ids: Collection[str], direction: Direction, window: Window) -> set[str]:
        """Ids of the datasets one hop away, without regard to which hop; self pairs add nothing new."""

    @abstractmethod
    def degrees(self, ids: Collection[str], direction: Direction, window: Window) -> Mapping[str, int]:
        """How many other datasets are one hop away from each; those without any may be missing."""

    @abstractmethod
    def touching(self, dataset_ids: Collection[str]) -> list[tuple[str, str]]:
        """(dataset id, job id) of the jobs that read or write these datasets."""

    @abstractmethod
    def touched(self, job_ids: Collection[str]) -> set[str]:
        """Ids of the datasets that these jobs read or write."""

    @abstractmethod
    def runs(
        self,
        job_id: str,
        *,
        limit: int,
        before: tuple[datetime, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[RunRow]:
        """Runs of a job, newest `(run_after, run_id)` first.

        Args:
            job_id: the job.
            limit: at most this many.
            before: only those before this one.
            since: only those due at or after this.
            until: only those due at or before this.
        """

    @abstractmethod
    def readings(self, dataset_ids: Collection[str], since: datetime) -> list[tuple[str, str, str, datetime]]:
        """(dataset id, job id, run id, due date) of the runs since a moment in which the datasets were sources."""

    @abstractmethod
    def run_dates(self, job_ids: Collection[str], since: datetime) -> list[tuple[str, str, datetime]]:
        """(job id, run id, due date) of the runs of jobs since a moment."""

    @abstractmethod
    def most_read(self, limit: int, among: Collection[str] | None = None) -> list[tuple[str, int, int]]:
        """(dataset id, readers, runs) of the datasets with the most reading jobs, most read first.

        Args:
            limit: at most this many.
            among: ids of the jobs that count, None for all.
        """


class ReadableWarehouse(Protocol):
    """A warehouse that can be asked."""

    @abstractmethod
    def look(self) -> AbstractContextManager[LineageReader]:
        """One look.

        Raises:
            WarehouseUnavailableError: the database is away.
            LineageError: the tables are missing or newer than this package.
        """
