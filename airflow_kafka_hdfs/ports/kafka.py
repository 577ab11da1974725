"""Kafka as the core sees it: what is there, and a bounded reader."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, TypeVar

from airflow_kafka_hdfs.model import ConsumerRecord, PartitionOffsets, TopicInfo, TopicPartition

T = TypeVar("T")


class Fault(StrEnum):
    """Why a topic or partition can't be read: the short codes of records, metrics and reports.

    One word everywhere, whether metadata, offsets or reading met it. A code may be followed by `: ` and what the
    broker said, where that is more than the code.
    """

    MISSING = "missing"
    """No such topic, or the topic has no such partition."""
    DENIED = "denied"
    """The broker refuses the connection's user."""
    NO_LEADER = "no_leader"
    """The partition has no leader now."""
    CORRUPT = "corrupt"
    """The broker's data fail their checksum or can't be unpacked."""
    BROKER_ERROR = "broker_error"
    """Anything else that the broker answers for this topic or partition."""


class TopicCatalog(Protocol):
    """Metadata and offsets of one Kafka cluster."""

    @abstractmethod
    def cluster_id(self) -> str:
        """Id of the cluster. Raises KafkaUnavailableError."""

    @abstractmethod
    def topics(self) -> Mapping[str, TopicInfo]:
        """Every topic that the user may see, internal ones (`__…`) left out. Raises KafkaUnavailableError."""

    @abstractmethod
    def describe(self, names: Collection[str]) -> Mapping[str, TopicInfo]:
        """Topics by name with their ids; one that can't be read has `fault` set, none is left out.

        Raises:
            KafkaUnavailableError: no broker answered in time.
        """

    @abstractmethod
    def offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets | str]:
        """Log start, last stable offset and high watermark of all partitions in batched look-ups.

        Returns:
            For each partition its offsets, or a `Fault` code why they can't be had.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
        """

    @abstractmethod
    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None | str]:
        """First offset whose timestamp is at or after the given time, in batched look-ups.

        Args:
            times: milliseconds since the epoch.

        Returns:
            For each partition the offset, None if no committed record is that young, or a code as in `offsets`.
        """


class Run(NamedTuple):
    """Records of one partition in a batch: first and last offset, how many, bytes of their values."""

    first: int
    last: int
    records: int
    size: int


class ClientValues(Sequence["bytes | None"]):
    """A column of values that lie in the memory of the Kafka client; one becomes an object when it is asked for."""

    __slots__ = ()

    @abstractmethod
    def only(self, indexes: Sequence[int]) -> ClientValues:
        """The values at some indexes."""

    @abstractmethod
    def slices(self) -> object:
        """Where they lie: a capsule as `slices.h` beside this module has it, which keeps them where they are."""


class RecordBatch(Protocol):
    """Records of one poll as columns, in the order of arrival; offsets of one partition ascend.

    Columns are made when asked for, so that a reader of values pays for values alone.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def topics(self) -> Sequence[str]:
        """Topic of each record."""

    @abstractmethod
    def partitions(self) -> Sequence[int]:
        """Partition of each record."""

    @abstractmethod
    def offsets(self) -> Sequence[int]:
        """Offset of each record."""

    @abstractmethod
    def values(self) -> Sequence[bytes | None]:
        """Value of each record, None for a null value; perhaps `ClientValues`."""

    def runs(self, indexes: Sequence[int], values: Sequence[bytes | None]) -> Mapping[int, Run]:
        """What each partition has of the records at some indexes.

        Args:
            indexes: ascending; all of one topic.
            values: the batch's column of values, made once.
        """
        columns = self.partitions(), self.offsets(), values
        return _runs(*(picked(column, indexes) for column in columns))  # type: ignore[arg-type] # in this order

    @abstractmethod
    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch, -1 where a record has none."""

    @abstractmethod
    def record(self, index: int) -> ConsumerRecord:
        """One record whole, with key, headers and timestamp type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """What one `RecordReader.poll` brought.

    Attributes:
        batch: the records.
        positions: next offset to be read of each partition that made progress, control records and
            end-of-partition events included; this, not the last record, tells that a range is finished.
        out_of_range: partitions whose position lies outside what the broker holds; told once, they bring nothing
            more until `seek`.
        faults: partitions that can't be read any more, with their `Fault` code; terminal, told once.
    """

    batch: RecordBatch
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    out_of_range: Collection[TopicPartition] = ()
    faults: Mapping[TopicPartition, str] = field(default_factory=dict)


class RecordReader(Protocol):
    """A bounded reader of assigned partitions, committed records only; no consumer group is joined."""

    @abstractmethod
    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Start reading these partitions at these offsets, all at once, instead of what was assigned before."""

    @abstractmethod
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at another offset of an assigned partition."""

    @abstractmethod
    def poll(self, max_records: int, timeout: float) -> Poll:
        """Wait for records.

        Args:
            max_records: at most this many.
            timeout: seconds, at most 1, so that a kill is noticed.

        Raises:
            KafkaUnavailableError: the client gave up on the cluster.
        """

    @abstractmethod
    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch no more of these partitions."""

    @abstractmethod
    def resume(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetch paused partitions again, each from this offset on."""

    @abstractmethod
    def trouble(self) -> str:
        """What the client said last about lost brokers or failed log-ins, empty if nothing: for the text of errors."""

    @abstractmethod
    def close(self) -> None:
        """Leave; never raises, never blocks for long."""


class OffsetMirror(Protocol):
    """A copy of our offsets for lag tools; never read by us, so it never raises."""

    @abstractmethod
    def copy(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Set the next offset to be read of each partition. Returns whether all were taken; trouble is logged."""


def picked(column: Sequence[T], indexes: Sequence[int]) -> Sequence[T]:
    """A column at some ascending indexes."""
    if len(indexes) == len(column):
        return column
    if isinstance(column, ClientValues):
        return column.only(indexes)  # type: ignore[return-value] # T is bytes or None then
    if len(indexes) < 2:
        return [column[i] for i in indexes]
    plain = column if isinstance(column, (list, memoryview)) else list(column)
    found: Sequence[T] = itemgetter(*indexes)(plain)
    return found


def is_of_one(partitions: Sequence[int]) -> bool:
    """Whether a batch is known to be of one partition, which most are; told at once or not at all.

    Args:
        partitions: its column.
    """
    return isinstance(partitions, list) and bool(partitions) and partitions.count(partitions[0]) == len(partitions)


def _runs(partitions: Sequence[int], offsets: Sequence[int], values: Sequence[bytes | None]) -> dict[int, Run]:
    """Clients hand out long stretches of one partition, so the interpreter's work is per stretch, not per record."""
    runs: dict[int, Run] = {}
    at = 0
    for partition, stretch in groupby(partitions):
        end = at + len(list(stretch))
        size = _size(values[at:end])
        first, _, count, before = runs.get(partition, (offsets[at], 0, 0, 0))
        runs[partition] = Run(first, offsets[end - 1], count + end - at, before + size)
        at = end
    return runs


def _size(values: Sequence[bytes | None]) -> int:
    try:
        return sum(map(len, values))  # type: ignore[arg-type] # a null value is rare and raises
    except TypeError:
        return sum(len(value) for value in values if value is not None)
