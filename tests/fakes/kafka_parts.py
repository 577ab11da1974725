"""What the fake cluster is made of: logs of entries, batches of records, and the mirror of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from airflow_kafka_hdfs.model import ConsumerRecord, TopicPartition
from airflow_kafka_hdfs.ports.kafka import OffsetMirror, RecordBatch


class Visibility(Protocol):
    """The transaction of a record: `open`, `committed` or `aborted`."""

    state: str


@dataclass(slots=True)
class Entry:
    """One offset of a log: a record, or None for a marker or a compacted record."""

    record: ConsumerRecord | None
    timestamp: int
    txn: Visibility | None = None
    removed: bool = False

    @property
    def visible(self) -> bool:
        return self.record is not None and not self.removed and (self.txn is None or self.txn.state == "committed")


@dataclass(slots=True)
class Log:
    """One partition. `entries[0]` has offset `start`."""

    start: int = 0
    entries: list[Entry] = field(default_factory=list)
    leader: bool = True

    @property
    def end(self) -> int:
        return self.start + len(self.entries)

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)

    def at_or_after(self, offset: int, end: int) -> Iterator[tuple[int, Entry]]:
        for i in range(max(offset, self.start) - self.start, end - self.start):
            yield self.start + i, self.entries[i]


@dataclass(slots=True)
class Topic:
    topic_id: str
    logs: dict[int, Log]
    denied: str = ""


class FakeBatch(RecordBatch):
    """Records as columns."""

    def __init__(self, records: Sequence[ConsumerRecord]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def topics(self) -> Sequence[str]:
        return [r.topic for r in self._records]

    def partitions(self) -> Sequence[int]:
        return [r.partition for r in self._records]

    def offsets(self) -> Sequence[int]:
        return [r.offset for r in self._records]

    def values(self) -> Sequence[bytes | None]:
        return [r.value for r in self._records]

    def timestamps(self) -> Sequence[int]:
        return [r.timestamp for r in self._records]

    def record(self, index: int) -> ConsumerRecord:
        return self._records[index]


class FakeMirror(OffsetMirror):
    """Keeps what was mirrored; with `broken` it takes nothing."""

    def __init__(self, *, broken: bool = False) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.broken = broken

    def copy(self, offsets: Mapping[TopicPartition, int]) -> bool:
        if not self.broken:
            self.offsets.update(offsets)
        return not self.broken
