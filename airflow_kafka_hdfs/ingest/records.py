"""What the commit log speaks of: partitions, counts, files, manifests and commits, as frozen values.

A *manifest* tells what one mapped task staged; a *commit* makes it true. Plans are in `plans`, places in `layout`,
the JSON of all of them in `wire`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from airflow_kafka_hdfs.ingest.ranges import Ranges, total
from airflow_kafka_hdfs.model import RunRef, TopicPartition


class Kind(StrEnum):
    """What a commit does."""

    FORWARD = "forward"
    INTERVAL = "interval"
    REPLACE = "replace"
    RESET = "reset"
    REPLAY = "replay"
    IMPORT = "import"
    REBUILD = "rebuild"
    ABORT = "abort"


class Outcome(StrEnum):
    """How a unit ended in a mapped task."""

    DONE = "done"
    LIMITED = "limited"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartitionKey:
    """Identity under which coverage is kept: the same name after a re-creation is another partition.

    Attributes:
        generation: goes up when the broker's log was truncated below offsets that were already decided.
    """

    topic: str
    partition: int
    cluster_id: str
    topic_id: str
    generation: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        """Where Kafka is asked for it."""
        return TopicPartition(self.topic, self.partition)

    def __hash__(self) -> int:
        """Of what nearly always tells keys apart: maps of 10,000 of them are made all the time."""
        return hash((self.topic, self.partition))

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of the offsets of a range, in Kafka records, and what was made of them.

    The first six are the terms of the coverage equation: `high - low` is their sum, and none of them is found by
    subtraction.

    Attributes:
        written: records with at least one output, counted from closed files.
        quarantined: bad records kept in the quarantine.
        filtered: records without output (converters, null values under `skip`).
        gaps: offsets that hold no record for readers of committed data (markers, aborted, compacted).
        lost: offsets below the log start when they were looked at.
        skipped: offsets that a policy jumped over.
        records_out: outputs; more than `written` where converters make several of one.
        bytes_in: bytes of values read.
        null_values: null values among the records read.
    """

    written: int = 0
    quarantined: int = 0
    filtered: int = 0
    gaps: int = 0
    lost: int = 0
    skipped: int = 0
    records_out: int = 0
    bytes_in: int = 0
    null_values: int = 0

    @property
    def offsets(self) -> int:
        """Right side of the coverage equation."""
        return self.written + self.quarantined + self.filtered + self.gaps + self.lost + self.skipped

    @property
    def read(self) -> int:
        """Records that Kafka delivered."""
        return self.written + self.quarantined + self.filtered

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})


def sum_counts(parts: Iterable[Counts]) -> Counts:
    """The sum of many counts."""
    return sum(parts, Counts())


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A topic that is held back, and why.

    Attributes:
        reason: short code (`missing`, `denied`, `no_schema`, `bad_records`, `unit_failed`, …).
        detail: what was found, and the next step.
    """

    topic: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file: where it is staged, where it goes, what is in it.

    Attributes:
        path: its place, relative to the destination.
        staged: where it was staged, relative to the destination.
        size: bytes.
        digest: `algorithm:hex` of the whole file, `crc32:…` as written now.
        records: Kafka records with their first output here; the file's share of `written` (or of `quarantined`).
        records_out: outputs in it.
        offsets: partition -> (first offset, last offset, records).
        time_partition: the folder's first moment, ISO, UTC; None for quarantine files.
        event_times: least and greatest event time, milliseconds since the epoch.
        late: records in it, if its folder is older than the newest one that the topic had published before.
        schema: id or fingerprint of its schema, None for formats without one.
        quarantine: True for files of bad records.
        dir_mode: permission bits of folders that are made for it, None for those of the pipeline.
    """

    path: str
    staged: str
    topic: str
    topic_id: str
    size: int
    digest: str
    records: int
    records_out: int
    offsets: Mapping[int, tuple[int, int, int]]
    time_partition: str | None = None
    event_times: tuple[int, int] | None = None
    late: int = 0
    schema: str | None = None
    quarantine: bool = False
    dir_mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A live file that a replace takes out of place.

    Attributes:
        commit: number of the commit that lists it.
    """

    path: str
    topic: str
    size: int
    commit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What a task did with one partition of a unit.

    Attributes:
        covered: offsets read to their end (written, quarantined, filtered, gaps).
        skipped: offsets that a policy jumped over while reading.
        lost: offsets that Kafka no longer held when they were to be read.
        log_start: first offset that the broker held, as last seen by the task; -1 where it saw none.
        log_end: the last stable offset, likewise.
        event_times: least and greatest event time, milliseconds since the epoch.
        seconds: time spent, for the size estimate of later plans.
    """

    key: PartitionKey
    covered: Ranges
    skipped: Ranges = Ranges()
    lost: Ranges = Ranges()
    counts: Counts = Counts()
    log_start: int = -1
    log_end: int = -1
    event_times: tuple[int, int] | None = None
    seconds: float = 0.0

    @property
    def decided(self) -> Ranges:
        """All offsets that the task settled."""
        return total((self.covered, self.skipped, self.lost))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitResult:
    """One section of a manifest: how a unit ended.

    Attributes:
        reason: for `failed` and `limited`: a short code.
        detail: what was found, where, and the next step.
    """

    topic: str
    outcome: Outcome
    partitions: tuple[PartitionResult, ...]
    files: tuple[FileEntry, ...]
    reason: str = ""
    detail: str = ""

    @property
    def counts(self) -> Counts:
        """Sum over its partitions."""
        return sum_counts(partition.counts for partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one attempt of a mapped task staged; the first attempt that creates the file wins.

    Attributes:
        k: number of the manifest of this task.
        attempt: unique id of the attempt, the name of its staging folder.
        seconds: wall time of the attempt.
        metrics: snapshot of user and package metrics.
    """

    plan: str
    task: int
    k: int
    attempt: str
    units: tuple[UnitResult, ...]
    seconds: float = 0.0
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """What a commit changes in the coverage of one partition.

    Attributes:
        start: a new start point; makes `key` the current identity of its topic and partition.
        covered: offsets that this commit settles by reading.
        skipped: offsets that it gives up by policy.
        lost: offsets that Kafka no longer held.
        lifted: offsets taken out of `skipped` (a start point moved back).
        log_start: first offset that the broker held when it was looked at, -1 where unknown.
        log_end: the last stable offset then, -1 where unknown.
        caught_up: nothing was left to read up to `log_end`.
    """

    key: PartitionKey
    start: int | None = None
    covered: Ranges = Ranges()
    skipped: Ranges = Ranges()
    lost: Ranges = Ranges()
    lifted: Ranges = Ranges()
    counts: Counts = Counts()
    log_start: int = -1
    log_end: int = -1
    caught_up: bool = False
    event_times: tuple[int, int] | None = None
    seconds: float = 0.0


def merged_change(key: PartitionKey, results: Iterable[PartitionResult]) -> PartitionChange:
    """What the results of several tasks change together in one partition."""
    change = PartitionChange(key=key)
    for part in results:
        times = [t for pair in (change.event_times, part.event_times) if pair is not None for t in pair]
        change = PartitionChange(
            key=key,
            covered=change.covered | part.covered,
            skipped=change.skipped | part.skipped,
            lost=change.lost | part.lost,
            counts=change.counts + part.counts,
            log_start=max(change.log_start, part.log_start),
            log_end=max(change.log_end, part.log_end),
            event_times=(min(times), max(times)) if times else None,
            seconds=change.seconds + part.seconds,
        )
    return change


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTaken:
    """A unit that a commit takes, or drops because its offsets were decided before.

    Attributes:
        k: the manifest it came from.
        outcome: of its section; `already_covered` for a dropped one.
        rest: offsets of its plan that go back to the log (a failed unit under `partial`, limits, overlaps).
    """

    task: int
    topic: str
    k: int
    outcome: str
    rest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One quarantined record that a replay takes."""

    path: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which topics the pipeline asked for when it planned, so that a new topic is told from a new request.

    Attributes:
        digest: of the `topics` argument.
        waiting: topics that were there when the argument came into force and have no start point yet (they could not
            be looked at, or `bootstrap` is `skip`). They start by `bootstrap`; a topic that shows up later under the
            same argument starts at its earliest offset.
    """

    digest: str
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One numbered record of the log. Its creation is the only step that changes what is true.

    Attributes:
        plan: the plan that it completes or aborts; None for start points and operators' commands.
        attempt: unique id of whoever made it, so that no two records are ever equal byte for byte.
        clock: ISO time, UTC, when it was made.
        pipeline: whose start points it holds; None where it holds none of planning.
        changes: what changes in the coverage.
        files: files that become live with it, quarantine files too.
        units: units of the plan that it takes.
        dropped: units of the plan that it found already covered.
        superseded: live files that it takes out of place.
        held: topics held back in this run.
        released: topics whose later commits this pipeline gives up.
        replayed: quarantined records that it takes.
        selection: what planning asks for from here on, where that changed.
        metrics: sum of the snapshots of its tasks.
    """

    number: int
    kind: Kind
    run: RunRef
    clock: str
    attempt: str
    pipeline: str | None = None
    plan: str | None = None
    request: str | None = None
    who: str = ""
    why: str = ""
    changes: tuple[PartitionChange, ...] = ()
    files: tuple[FileEntry, ...] = ()
    units: tuple[UnitTaken, ...] = ()
    dropped: tuple[UnitTaken, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    held: tuple[Held, ...] = ()
    released: tuple[str, ...] = ()
    replayed: tuple[Replayed, ...] = ()
    selection: Selection | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_effects(self) -> bool:
        """Whether files must be moved, so that a `published` marker is due."""
        return bool(self.files or self.superseded)

    @property
    def datasets(self) -> list[str]:
        """Topics whose data files it changes, sorted; each is owed an asset event."""
        new = {entry.topic for entry in self.files if not entry.quarantine}
        return sorted(new | {item.topic for item in self.superseded})

    @property
    def counts(self) -> Counts:
        """Sum over its changes."""
        return sum_counts(change.counts for change in self.changes)

    def at(self, number: int) -> Commit:
        """The same record under another number, after a lost race."""
        return dataclasses.replace(self, number=number)
