"""One unit while it is read: its partitions, its step, and how it ended; then its section of the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from airflow_kafka_hdfs.exceptions import CorruptStateError, TopicFaultError
from airflow_kafka_hdfs.ingest.choices import OutOfRange
from airflow_kafka_hdfs.ingest.plans import UnitPlan
from airflow_kafka_hdfs.ingest.quarantine import Quarantine
from airflow_kafka_hdfs.ingest.reasons import UnitReason
from airflow_kafka_hdfs.ingest.records import FileEntry, Outcome, PartitionResult, UnitResult
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.ingest.taking import Taken
from airflow_kafka_hdfs.ingest.tracking import PartitionTracker
from airflow_kafka_hdfs.ingest.writers.files import TopicFiles
from airflow_kafka_hdfs.model import PartitionOffsets
from airflow_kafka_hdfs.ports.kafka import RecordBatch


class Step(Protocol):
    """Takes records; see `taking`.

    Attributes:
        ways: how many records took which way.
    """

    ways: Counter[str]

    def take(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> Taken:
        """Take the records at some indexes of a batch, in order; `values` is its column of values."""


class UnitReading:
    """One unit while it is read.

    Args:
        plan: what it is to read.
        on_out_of_range: what happens where wanted offsets are gone.
        limits: of the topic, where they differ from those of the task.

    Attributes:
        trackers: by Kafka partition.
        outcome: None while it is read.
        reason, detail: for `failed` and `limited`.
    """

    def __init__(
        self, plan: UnitPlan, *, on_out_of_range: OutOfRange = OutOfRange.NEAREST, limits: Limits | None = None
    ) -> None:
        self.plan = plan
        self.topic = plan.topic
        self.on_out_of_range = on_out_of_range
        self.limits = limits or Limits()
        self.trackers = {key.partition: PartitionTracker(key, ranges) for key, ranges in sorted(plan.ranges().items())}
        self.outcome: Outcome | None = None
        self.reason = ""
        self.detail = ""
        self._step: Step | None = None
        self._files: TopicFiles | None = None
        self._quarantine: Quarantine | None = None

    def equip(self, step: Step, files: TopicFiles, quarantine: Quarantine) -> None:
        """Give it what it writes with."""
        self._step, self._files, self._quarantine = step, files, quarantine

    @property
    def records(self) -> int:
        """Records taken."""
        return sum(tracker.tally.read for tracker in self.trackers.values())

    @property
    def value_bytes(self) -> int:
        """Bytes of their values."""
        return sum(tracker.tally.bytes_in for tracker in self.trackers.values())

    @property
    def ways(self) -> Mapping[str, int]:
        """How many records took which way."""
        return {} if self._step is None else self._step.ways

    def end(self, outcome: Outcome, reason: str = "", detail: str = "") -> None:
        """End it where it is, unless it has ended; nothing more is taken."""
        if self.outcome is None:
            self.outcome, self.reason, self.detail = outcome, reason, detail
        for tracker in self.trackers.values():
            tracker.halted = True

    def fail(self, fault: TopicFaultError) -> None:
        """End it by a fault of its own."""
        self.end(Outcome.FAILED, fault.reason, fault.detail)

    def end_if_done(self) -> None:
        """End it well if every partition is read."""
        if self.outcome is None and all(tracker.done for tracker in self.trackers.values()):
            self.end(Outcome.DONE)

    def take(self, batch: RecordBatch, indexes: Sequence[int]) -> int:
        """Take what is wanted of the records at some indexes of a batch.

        Args:
            batch: records as columns.
            indexes: ascending; all of this topic.

        Returns:
            How many were taken.

        Raises:
            StoreUnavailableError, StoreRefusedError, RegistryUnavailableError: the attempt is of no use any more.
        """
        if self.outcome is not None or self._step is None:
            return 0
        values = batch.values()
        runs = batch.runs(indexes, values)
        whole = all(p in self.trackers and self.trackers[p].fits(*run[:3]) for p, run in runs.items())
        wanted = indexes if whole else self._wanted(indexes, batch, values)
        taken = self._step.take(batch, wanted, values)
        done = wanted[: taken.count]
        if whole and len(done) == len(wanted):
            for partition, run in runs.items():
                self.trackers[partition].took(*run)
        else:
            partitions, offsets = batch.partitions(), batch.offsets()
            for i in done:
                self.trackers[partitions[i]].took(offsets[i], offsets[i], 1, len(values[i] or b""))
        if taken.fault is not None:
            self.fail(taken.fault)
        return len(done)

    def out_of_range(self, partition: int, found: PartitionOffsets) -> None:
        """The broker does not hold the position of a partition: decide by policy, unless it does so meanwhile.

        Args:
            partition: which one.
            found: what the broker holds.
        """
        tracker = self.trackers[partition]
        tracker.log_start, tracker.log_end = found.log_start, found.last_stable
        where = f"{tracker.key}@{tracker.position}"
        if tracker.position > found.high_watermark:
            self.truncated(partition, found)
            return
        if tracker.position >= found.log_start:
            return
        if self.on_out_of_range in (OutOfRange.SKIP, OutOfRange.FAIL):
            detail = (
                f"{where}: offsets up to {found.log_start} are no longer held by the broker and on_out_of_range is "
                f"{self.on_out_of_range.value!r}; 'nearest' counts them as lost and goes on at {found.log_start}"
            )
            self.end(Outcome.FAILED, UnitReason.OUT_OF_RANGE, detail)
            return
        tracker.lose_below(found.log_start)
        if self.on_out_of_range is OutOfRange.LATEST:
            tracker.skip_rest()

    def truncated(self, partition: int, found: PartitionOffsets) -> None:
        """The broker's log ends below what the plan saw: planning decides about it, under a new generation."""
        tracker = self.trackers[partition]
        detail = (
            f"{tracker.key}@{tracker.position}: the broker's log ends at {found.high_watermark}, the plan saw it reach "
            f"{tracker.high}; records were lost there (unclean leader election), the next plan decides how to go on"
        )
        self.end(Outcome.FAILED, UnitReason.TRUNCATED, detail)

    def abort(self) -> list[str]:
        """Give up its files; paths of all that were begun. Never raises."""
        begun = [] if self._files is None else self._files.abort()
        return [*begun, *([] if self._quarantine is None else self._quarantine.abort())]

    def nothing_read(self, reason: str, detail: str) -> UnitResult:
        """Its section if what it read must not count."""
        return UnitResult(
            topic=self.topic, outcome=Outcome.FAILED, partitions=(), files=(), reason=reason, detail=detail
        )

    def result(self, seconds_per_record: float, where: str) -> UnitResult:
        """Close its files and make its section.

        Args:
            seconds_per_record: for the size estimates of later plans.
            where: staging folder, for errors.

        Raises:
            CorruptStateError: what was counted does not add up to the offsets that were read.
            StoreUnavailableError, StoreRefusedError: the attempt is of no use.
        """
        files = [] if self._files is None else list(self._files.close())
        bad = None if self._quarantine is None else self._quarantine.close()
        written, quarantined = _records(files), _records([] if bad is None else [bad])
        results = []
        for partition, tracker in self.trackers.items():
            counts = tracker.counts(written.get(partition, 0), quarantined.get(partition, 0))
            part = PartitionResult(
                key=tracker.key,
                covered=tracker.covered(),
                skipped=tracker.skipped(),
                lost=tracker.lost(),
                counts=counts,
                log_start=tracker.log_start,
                log_end=tracker.log_end,
                event_times=tracker.tally.event_times,
                seconds=round(seconds_per_record * tracker.tally.read, 6),
            )
            if counts.offsets != len(part.decided) or counts.read != tracker.tally.read:
                raise CorruptStateError(
                    where, f"{tracker.key}: {len(part.decided)} offsets and {tracker.tally.read} records read, {counts}"
                )
            results.append(part)
        outputs = sum(tracker.tally.outputs for tracker in self.trackers.values())
        if outputs != sum(entry.records_out for entry in files):
            raise CorruptStateError(where, f"{self.topic}: {outputs} outputs made, closed files hold another number")
        return UnitResult(
            topic=self.topic,
            outcome=self.outcome or Outcome.DONE,
            partitions=tuple(results),
            files=(*files, *([] if bad is None else [bad])),
            reason=self.reason,
            detail=self.detail,
        )

    def _wanted(self, indexes: Sequence[int], batch: RecordBatch, values: Sequence[bytes | None]) -> list[int]:
        partitions, offsets = batch.partitions(), batch.offsets()
        cursors = {partition: tracker.cursor() for partition, tracker in self.trackers.items()}
        return [
            i
            for i in indexes
            if (p := partitions[i]) in cursors
            and self.trackers[p].wanted(offsets[i], len(values[i] or b""), cursors[p])
        ]


def _records(files: Sequence[FileEntry]) -> Mapping[int, int]:
    """Partition -> records with their first output in these files."""
    found: Counter[int] = Counter()
    for entry in files:
        for partition, (_, _, records) in entry.offsets.items():
            found[partition] += records
    return found
