"""What ports, core and adapters hand to each other: plain frozen values of Kafka and of stores."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One Kafka partition. Ordered by topic, then partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Permission bits of what a call makes, where the store has some.

    Attributes:
        file: of a new file; None for those that the store was opened with.
        folder: of new folders; None as above.
    """

    file: int | None = None
    folder: int | None = None

    def file_or(self, own: int | None) -> int | None:
        """Bits of the file, those of the store where nothing else is asked for."""
        return own if self.file is None else self.file

    def folder_or(self, own: int | None) -> int | None:
        """Bits of new folders, those of the store where nothing else is asked for."""
        return own if self.folder is None else self.folder


STORES_OWN = Modes()
"""Those that the store was opened with."""
PRIVATE = Modes(file=0o600, folder=0o700)
"""For the owner alone."""


class TimestampType(StrEnum):
    """Where a Kafka timestamp comes from."""

    NONE = "none"
    CREATE = "create"
    LOG_APPEND = "log_append"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """One Kafka record as the broker gave it.

    Attributes:
        timestamp: milliseconds since the epoch, -1 if the record has none.
        headers: in the order of the record, repeated names kept.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def where(self) -> str:
        """`topic[partition]@offset`, for messages."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic as the cluster describes it.

    Attributes:
        topic_id: KIP-516 id as the broker prints it (URL-safe base64).
        partitions: ids of its partitions, ascending.
        fault: None, or why it can't be read (`denied`, `missing`, `broker_error: …`); id and partitions are then
            empty.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """What the broker holds of a partition.

    Attributes:
        log_start: first offset that can be read.
        last_stable: end for readers of committed data (exclusive); the high of a plan.
        high_watermark: end for readers of uncommitted data (exclusive).
    """

    log_start: int
    last_stable: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """One file or folder of a store.

    Attributes:
        path: relative to the store's root.
        size: bytes; 0 for folders.
        modified: seconds since the epoch by the store's clock, None where it tells none.
    """

    path: str
    size: int
    is_dir: bool = False
    modified: float | None = None

    @property
    def name(self) -> str:
        """Last path element."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    """The Airflow run (or command) that does something, as written in plans and commits.

    Attributes:
        group: id of the task group, empty for hand-wired operators.
        who: operating-system or Airflow user where known.
    """

    dag_id: str
    run_id: str
    group: str = ""
    who: str = ""
