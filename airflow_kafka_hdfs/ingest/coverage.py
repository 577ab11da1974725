"""The log's sum: what is decided of every partition, and which identity of a topic is current."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_kafka_hdfs.ingest.ranges import Ranges, total
from airflow_kafka_hdfs.ingest.records import Commit, Kind, PartitionChange, PartitionKey, Replayed, Selection
from airflow_kafka_hdfs.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What is decided of one partition.

    Attributes:
        start: where reading begins; everything below was never promised.
        covered: offsets that were read, or proved to hold nothing.
        skipped: offsets given up by policy; an interval run may still cover them.
        lost: offsets that Kafka no longer held when they were due.
        mean_bytes: value bytes per record of its last commit with records, 0 where unknown.
        mean_seconds: seconds per record likewise.
        newest_event: greatest event time committed, milliseconds since the epoch; None before there was one.
    """

    start: int
    covered: Ranges = Ranges()
    skipped: Ranges = Ranges()
    lost: Ranges = Ranges()
    mean_bytes: float = 0.0
    mean_seconds: float = 0.0
    newest_event: int | None = None

    @property
    def decided(self) -> Ranges:
        """Offsets that a continuous run leaves alone."""
        return total((self.covered, self.skipped, self.lost))

    @property
    def settled(self) -> Ranges:
        """Offsets that an interval run leaves alone too."""
        return self.covered | self.lost

    @property
    def watermark(self) -> int:
        """End of the unbroken decided range from the start point; what people are shown."""
        return self.decided.first_missing(self.start)

    def undecided(self, low: int, high: int) -> Ranges:
        """What a continuous run still has to read of `[low, high)`, start point respected."""
        return Ranges.span(max(low, self.start), high) - self.decided

    def changed(self, change: PartitionChange) -> Coverage:
        """The coverage after a change."""
        covered = self.covered | change.covered
        lost = (self.lost | change.lost) - covered
        skipped = ((self.skipped - change.lifted) | change.skipped) - covered - lost
        records = change.counts.read
        return Coverage(
            start=self.start if change.start is None else change.start,
            covered=covered,
            skipped=skipped,
            lost=lost,
            mean_bytes=change.counts.bytes_in / records if records else self.mean_bytes,
            mean_seconds=change.seconds / records if records and change.seconds else self.mean_seconds,
            newest_event=self._newest(change),
        )

    def _newest(self, change: PartitionChange) -> int | None:
        if change.event_times is None:
            return self.newest_event
        latest = change.event_times[1]
        return latest if self.newest_event is None else max(self.newest_event, latest)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPartition:
    """A partition in a checkpoint."""

    key: PartitionKey
    coverage: Coverage
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The sum of the records `0..head`.

    Attributes:
        head: number of the last record, -1 for an empty log.
        head_digest: digest of the last record's bytes, for the chain of checkpoints.
        coverage: per identity, retired ones too.
        current: topic and partition -> identity that plans use.
        requests: ids of explicit requests that were carried out.
        replayed: quarantined records that were taken.
        released: topics that this pipeline gave up.
        unpublished: commits with effects whose marker was missing when last looked.
        unannounced: commits with datasets, likewise.
        selection: the topics that planning last asked for, None before its first commit.
    """

    head: int = -1
    head_digest: str = ""
    coverage: Mapping[PartitionKey, Coverage] = field(default_factory=dict)
    current: Mapping[TopicPartition, PartitionKey] = field(default_factory=dict)
    requests: frozenset[str] = frozenset()
    replayed: frozenset[Replayed] = frozenset()
    released: frozenset[str] = frozenset()
    unpublished: frozenset[int] = frozenset()
    unannounced: frozenset[int] = frozenset()
    selection: Selection | None = None

    def fold(self, commits: Iterable[tuple[Commit, str]]) -> LogState:
        """The state after further records, which must follow in order without holes.

        Args:
            commits: record and digest of its bytes.

        Raises:
            ValueError: a number that is not the next one.
        """
        coverage, current = dict(self.coverage), dict(self.current)
        requests, replayed = set(self.requests), set(self.replayed)
        released, unpublished, unannounced = set(self.released), set(self.unpublished), set(self.unannounced)
        head, head_digest, selection = self.head, self.head_digest, self.selection
        for commit, digest in commits:
            if commit.number != head + 1:
                raise ValueError(f"commit {commit.number} does not follow commit {head}")
            head, head_digest = commit.number, digest
            for change in commit.changes:
                key = change.key
                if change.start is not None:
                    current[key.topic_partition] = key
                have = coverage.get(key) or Coverage(start=_first_offset(change))
                coverage[key] = have.changed(change)
            if commit.request is not None and commit.kind is not Kind.ABORT:
                requests.add(commit.request)
            selection = commit.selection or selection
            replayed.update(commit.replayed)
            released.update(commit.released)
            if commit.kind in (Kind.IMPORT, Kind.REBUILD):
                released.difference_update(change.key.topic for change in commit.changes)
            if commit.has_effects:
                unpublished.add(commit.number)
            if commit.datasets:
                unannounced.add(commit.number)
        return LogState(
            head=head,
            head_digest=head_digest,
            coverage=coverage,
            current=current,
            requests=frozenset(requests),
            replayed=frozenset(replayed),
            released=frozenset(released),
            unpublished=frozenset(unpublished),
            unannounced=frozenset(unannounced),
            selection=selection,
        )

    def known(self, topic: str) -> dict[int, PartitionKey]:
        """Partition -> current identity of a topic; empty for a topic without committed start points."""
        return {tp.partition: key for tp, key in self.current.items() if tp.topic == topic}

    def newest_event(self, topic: str) -> int | None:
        """Greatest event time committed of a topic, under any identity, in ms; None before there was one."""
        times = [coverage.newest_event for key, coverage in self.coverage.items() if key.topic == topic]
        return max((time for time in times if time is not None), default=None)

    @property
    def topics(self) -> dict[str, dict[int, PartitionKey]]:
        """All known topics, as `known`."""
        result: dict[str, dict[int, PartitionKey]] = {}
        for tp, key in self.current.items():
            result.setdefault(tp.topic, {})[tp.partition] = key
        return result

    @property
    def cluster_ids(self) -> set[str]:
        """Cluster ids of all current identities; one in a healthy log."""
        return {key.cluster_id for key in self.current.values()}

    def marked(self, *, published: Iterable[int] = (), announced: Iterable[int] = ()) -> LogState:
        """The state with markers that were found since."""
        return dataclasses.replace(
            self, unpublished=self.unpublished - set(published), unannounced=self.unannounced - set(announced)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A `LogState` as a record, so that start-up reads a bounded number of files.

    Attributes:
        number: the last record it sums up.
        head_digest: digest of that record's bytes.
    """

    number: int
    head_digest: str
    partitions: tuple[KnownPartition, ...]
    requests: tuple[str, ...]
    replayed: tuple[Replayed, ...]
    released: tuple[str, ...]
    unpublished: tuple[int, ...]
    unannounced: tuple[int, ...]
    selection: Selection | None = None

    @classmethod
    def of(cls, state: LogState) -> Checkpoint:
        """The state as a record; equal states give equal records."""
        return cls(
            number=state.head,
            head_digest=state.head_digest,
            partitions=tuple(
                KnownPartition(key=key, coverage=coverage, current=state.current.get(key.topic_partition) == key)
                for key, coverage in sorted(state.coverage.items(), key=lambda item: item[0])
            ),
            requests=tuple(sorted(state.requests)),
            replayed=tuple(sorted(state.replayed, key=lambda item: (item.path, item.partition, item.offset))),
            released=tuple(sorted(state.released)),
            unpublished=tuple(sorted(state.unpublished)),
            unannounced=tuple(sorted(state.unannounced)),
            selection=state.selection,
        )

    def state(self) -> LogState:
        """The inverse of `of`."""
        return LogState(
            head=self.number,
            head_digest=self.head_digest,
            coverage={item.key: item.coverage for item in self.partitions},
            current={item.key.topic_partition: item.key for item in self.partitions if item.current},
            requests=frozenset(self.requests),
            replayed=frozenset(self.replayed),
            released=frozenset(self.released),
            unpublished=frozenset(self.unpublished),
            unannounced=frozenset(self.unannounced),
            selection=self.selection,
        )


def _first_offset(change: PartitionChange) -> int:
    """Start point for a partition whose first commit sets none (an interval run of an unknown topic)."""
    if change.start is not None:
        return change.start
    decided = total((change.covered, change.skipped, change.lost))
    return decided.end or 0
