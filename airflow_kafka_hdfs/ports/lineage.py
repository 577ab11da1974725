"""Lineage as the core sees the outside: where messages go and come from, and the warehouse that keeps the rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from airflow_kafka_hdfs.ports.lineage_rows import EdgeRunRow, RunRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message of the lineage topic, as read.

    Attributes:
        value: body; None for a tombstone, which means nothing here.
    """

    topic: str
    partition: int
    offset: int
    value: bytes | None


class LetterBox(Protocol):
    """Where messages of lineage are sent."""

    @abstractmethod
    def send(self, topic: str, key: bytes, value: bytes) -> None:
        """Hand over one message without waiting for the brokers.

        Raises:
            KafkaUnavailableError: there is no room left for messages that wait for delivery.
        """

    @abstractmethod
    def flush(self, timeout: float) -> int:
        """Wait until what was sent is delivered.

        Args:
            timeout: seconds.

        Returns:
            How many messages since the last flush are not known to be delivered; 0 means all are.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave; never raises, never blocks for long."""

    @abstractmethod
    def abandon(self) -> None:
        """In a child process: let go of what the parent made and goes on using; never raises, never blocks."""


class LetterSource(Protocol):
    """Where messages of lineage are read from: every partition, from offsets that the reader keeps itself."""

    @abstractmethod
    def assign(self, topics: Collection[str], positions: Mapping[tuple[str, int], int]) -> None:
        """Start reading all partitions of the topics.

        Args:
            topics: names; all must exist.
            positions: (topic, partition) -> next offset. A partition without one, or whose offset lies outside
                what the broker holds (old messages gone, topic made anew), starts at the log start.

        Raises:
            KafkaUnavailableError: no broker answered in time.
            TopicFaultError: a topic is missing or denied.
        """

    @abstractmethod
    def poll(self, max_letters: int, timeout: float) -> list[Letter]:
        """Messages as they come, offsets of one partition ascending.

        Args:
            max_letters: at most this many.
            timeout: seconds to wait for the first.

        Raises:
            KafkaUnavailableError: the client gave up on the cluster.
        """

    @abstractmethod
    def positions(self) -> Mapping[tuple[str, int], int]:
        """(topic, partition) -> next offset to be read, control records at the end passed over."""

    @abstractmethod
    def ends(self) -> Mapping[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> (log start, end) of what can be read now. Raises KafkaUnavailableError."""

    @abstractmethod
    def close(self) -> None:
        """Leave; never raises, never blocks for long."""


R = TypeVar("R")


class PairState(StrEnum):
    """What became of a pair in one run."""

    WRITTEN = "written"
    FAILED = "failed"
    UPSTREAM_FAILED = "upstream_failed"
    SKIPPED = "skipped"
    UNRESOLVED = "unresolved"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class SpoolBatch:
    """Messages taken out of a spool: (topic, key, value). They go back unless `done` is set."""

    letters: list[tuple[str, bytes, bytes]]
    done: bool = False


class Spool(Protocol):
    """Where messages wait while Kafka is away; shared by the processes of one machine."""

    @abstractmethod
    def put(self, topic: str, key: bytes, value: bytes) -> bool:
        """Keep one message so that it survives this process; False if the spool is full or can't be written."""

    @abstractmethod
    def take(self, at_most: int) -> AbstractContextManager[SpoolBatch]:
        """The oldest messages, for this process alone; they leave the spool when the block ends with `done` set."""


class LoadTransaction(Protocol):
    """One transaction of a loader; no other loader writes meanwhile."""

    @abstractmethod
    def rows(self, kind: type[R], columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> list[R]:
        """The rows whose columns equal one of the values, in no order.

        Args:
            kind: class of the rows.
            columns: names of columns, a prefix of the key or an indexed column.
            values: one tuple per wanted combination; empty gives no rows.
        """

    @abstractmethod
    def put(self, rows: Sequence[Any]) -> None:
        """Insert rows of one kind, in place of those with the same key."""

    @abstractmethod
    def delete(self, kind: type[Any], keys: Collection[tuple[Any, ...]]) -> None:
        """Delete rows by key; missing ones are fine."""

    @abstractmethod
    def job_runs(self, job_id: str) -> list[RunRow]:
        """All runs of a job, newest `(run_after, run_id)` first."""

    @abstractmethod
    def edge_runs(self, keys: Collection[tuple[str, str, str]]) -> list[EdgeRunRow]:
        """All runs of these edges (job id, source id, target id), in no order."""

    @abstractmethod
    def end_edges(self, job_ids: Collection[str]) -> None:
        """Set `valid_to` of the edges of jobs from the stored rows.

        It becomes the job's `structure_since` where the edge's `last_declared` and `last_seen` both lie before that,
        and None otherwise; an edge that was never declared has none, nor one that stands among the posted ones.
        """


class Warehouse(Protocol):
    """The database that keeps lineage."""

    @abstractmethod
    def migrate(self) -> None:
        """Create or update the tables; safe to repeat, safe side by side. Raises WarehouseUnavailableError."""

    @abstractmethod
    def offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """(topic, partition) -> next offset to load. Raises WarehouseUnavailableError, LineageError."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[LoadTransaction]:
        """Begin; commit when the block ends, roll back when it raises.

        Raises:
            WarehouseUnavailableError: the database is away or gave up; nothing was kept unless it was all kept.
            LineageError: the tables are missing or newer than this package.
        """

    @abstractmethod
    def close(self) -> None:
        """Give connections back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a platform answered.

    Attributes:
        text: the start of its body.
        retry_after: seconds that it wants to be left alone, None if it said nothing.
    """

    status: int
    text: str = ""
    retry_after: float | None = None


class Platform(Protocol):
    """Where lineage is exported to, by HTTP.

    Attributes:
        name: stands for it in records of what was sent; no secrets.
    """

    name: str

    @abstractmethod
    def post(self, body: bytes, key: str) -> Reply:
        """Send one event, once.

        Args:
            body: JSON.
            key: equal for equal events, so that the platform can tell a repetition.

        Raises:
            PlatformUnavailableError: no answer came, or none in time; whether the event was taken is not known.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave; never raises."""
