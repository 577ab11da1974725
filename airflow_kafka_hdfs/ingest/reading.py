"""The reading loop of a mapped task: all partitions at once, each to its end by position.

1. Assign every partition at its position, share the limits out.
2. Poll for at most what is still wanted; take it; move positions on, also past markers and compacted records.
3. Pause what is finished or ahead of its topic's rate, seek where another range begins, decide by policy where the
   broker holds no such offset.
4. Where limits have shares left over that others can use, share them out anew.

A partition without progress for a while is a failure of the attempt, never an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import KafkaUnavailableError, TopicFaultError
from airflow_kafka_hdfs.ingest.datum.packing import BATCH_BYTES, LEAST_BATCH
from airflow_kafka_hdfs.ingest.limiting import Pace, TopicPaces, fair_shares
from airflow_kafka_hdfs.ingest.reasons import UnitReason
from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.ingest.tracking import PartitionTracker
from airflow_kafka_hdfs.ingest.unit_reading import UnitReading
from airflow_kafka_hdfs.model import TopicPartition
from airflow_kafka_hdfs.ports.kafka import Fault, Poll, RecordBatch, RecordReader, TopicCatalog
from airflow_kafka_hdfs.ports.runtime import Clock, Progress, StopSignal

BATCH_RECORDS = 500
"""Records asked for at once: the client is fastest at 200 to 500, some tiers of the fast path like more."""

_BATCHES_PER_LOOK = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a task reads.

    Attributes:
        batch_records: records asked for at once.
        poll_seconds: how long one poll may wait.
        stall_seconds: without any progress for so long, the attempt fails.
        progress_seconds: between two reports.
        limits: of the task.
    """

    batch_records: int = BATCH_RECORDS
    poll_seconds: float = 0.1
    stall_seconds: float = 120.0
    progress_seconds: float = 5.0
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a task reads with."""

    reader: RecordReader
    catalog: TopicCatalog
    clock: Clock
    stop: StopSignal
    progress: Progress


class Stopped(Exception):  # noqa: N818 - no error: Airflow asked for it
    """Airflow wants the task to end; nothing of it counts."""


class TaskReading:
    """Reads the units of one task.

    Args:
        units: what is to be read; a unit that has ended already is left alone.
        around: ports.
        options: how.
        salt: decides who gets the odd record of a limit.
    """

    def __init__(self, units: Sequence[UnitReading], around: Surroundings, options: ReadOptions, salt: str) -> None:
        self._units = {unit.topic: unit for unit in units}
        self._around = around
        self._options = options
        self._salt = salt
        self._trackers: dict[TopicPartition, tuple[UnitReading, PartitionTracker]] = {
            tracker.topic_partition: (unit, tracker) for unit in units for tracker in unit.trackers.values()
        }
        self._start = around.clock.monotonic()
        self._moved = self._reported = self._start
        self._pace = Pace(around.clock, options.limits.rate)
        self._paces = TopicPaces(around.clock, {unit.topic: unit.limits.rate for unit in units if unit.limits.rate})
        self._live: dict[TopicPartition, PartitionTracker] = {}
        self._pages: dict[TopicPartition, int] = {}
        self._batch = options.batch_records
        self._polls = 0

    def run(self) -> None:
        """Read every unit to its end.

        Raises:
            Stopped: Airflow wants the task to end.
            KafkaUnavailableError: no progress for a while, or the client gave up.
            StoreUnavailableError, StoreRefusedError, RegistryUnavailableError: the attempt is of no use any more.
        """
        self._end_done_units()
        while self._share_out():
            self._around.reader.assign({tp: tracker.position for tp, tracker in self._live.items()})
            self._paces.held.clear()
            self._hold()
            while self._live:
                self._look_up_from_work()
                if self._live:
                    self._release()
                    self._poll()
        self._end_limited_units()
        self._report(final=True)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._around.clock.monotonic() - self._start

    @property
    def records(self) -> int:
        """Records taken."""
        return sum(unit.records for unit in self._units.values())

    # limits

    def _share_out(self) -> bool:
        """Give each unfinished partition its share of what the limits leave; False if there is nothing to read on."""
        active = {tp: tracker for tp, (_, tracker) in self._trackers.items() if tracker.active}
        records = {tp: tracker.remaining for tp, tracker in active.items()}
        sizes: dict[TopicPartition, int] | None = None
        for unit, limits in (*((unit, unit.limits) for unit in self._units.values()), (None, self._options.limits)):
            mine = {tp: want for tp, want in records.items() if unit is None or tp.topic == unit.topic}
            if limits.records is not None:
                left = limits.records - (self.records if unit is None else unit.records)
                records.update(fair_shares(max(left, 0), mine, self._salt))
            if limits.bytes is not None:
                left = max(limits.bytes - (self._value_bytes() if unit is None else unit.value_bytes), 0)
                known = sizes or {}
                wants = {tp: min(known.get(tp, left), left) for tp in mine if records[tp]}
                sizes = {**known, **fair_shares(left, wants, self._salt)}
        limited = any(limits.records is not None for limits in self._all_limits())
        for tp, tracker in active.items():
            tracker.records_left = records[tp] if limited else None
            tracker.bytes_left = None if sizes is None else sizes.get(tp)
        self._live = {tp: tracker for tp, tracker in active.items() if not tracker.spent}
        self._pages = {tp: tracker.page for tp, tracker in self._live.items()}
        self._paces.share_out(self._live)
        return bool(self._live)

    def _all_limits(self) -> Iterable[Limits]:
        return (self._options.limits, *(unit.limits for unit in self._units.values()))

    def _value_bytes(self) -> int:
        return sum(unit.value_bytes for unit in self._units.values())

    def _end_limited_units(self) -> None:
        for unit in self._units.values():
            if unit.outcome is not None:
                continue
            left = sum(tracker.remaining for tracker in unit.trackers.values())
            by_records = any(
                limits.records is not None and read >= limits.records
                for limits, read in ((unit.limits, unit.records), (self._options.limits, self.records))
            )
            reason = UnitReason.RECORD_LIMIT if by_records else UnitReason.BYTE_LIMIT
            unit.end(Outcome.LIMITED, reason, f"{reason} reached; {left} offsets are left to the next run")

    # the loop

    def _look_up_from_work(self) -> None:
        """What is due between two polls: stop, time limits, pace, report."""
        if self._around.stop.is_set():
            raise Stopped
        while self._pace.ahead():
            self._pace.wait()
            self._moved = self._around.clock.monotonic()
            if self._around.stop.is_set():
                raise Stopped
        seconds = self.seconds
        for unit in self._units.values():
            limits = [limit for limit in (self._options.limits.time, unit.limits.time) if limit is not None]
            if unit.outcome is None and limits and seconds >= min(limits):
                left = sum(tracker.remaining for tracker in unit.trackers.values())
                detail = f"time_limit of {min(limits):g} s reached; {left} offsets are left to the next run"
                unit.end(Outcome.LIMITED, UnitReason.TIME_LIMIT, detail)
                self._drop_finished(list(self._live))
        self._report()

    def _poll(self) -> None:
        size = self._batch_size()
        room = self._pace.room(min(size, self._remaining(size)))
        poll = self._around.reader.poll(max(room, 1), self._paces.wait(self._options.poll_seconds))
        took = self._take(poll.batch)
        self._pace.took(took)
        moved = took > 0 or bool(poll.faults)
        for tp, position in poll.positions.items():
            tracker = self._live.get(tp)
            # A fault or a used-up share ends at its last record; a range that was begun asks for a seek first.
            if tracker is None or self._paces.was_cut(tp):
                continue
            if tracker.active and not tracker.spent and self._pages[tp] == tracker.page:
                moved |= tracker.reached(position)
        self._end_units(poll)
        out_of_range = [tp for tp in poll.out_of_range if not self._paces.was_cut(tp)]
        if out_of_range:
            moved |= self._out_of_range(out_of_range)
        self._end_done_units()
        ended = any(unit.outcome is not None for unit in self._units.values())
        touched = list(self._live) if ended else [tp for tp in poll.positions if tp in self._live]
        self._drop_finished(touched)
        self._hold()
        self._turn_pages([*touched, *out_of_range])
        now = self._around.clock.monotonic()
        if moved or len(self._paces.held) == len(self._live):
            self._moved = now
        elif now - self._moved > self._options.stall_seconds:
            self._stalled()

    def _batch_size(self) -> int:
        """Records to ask for: fewer where values are large, so that a batch stays within the processor's cache."""
        if not self._polls % _BATCHES_PER_LOOK and (records := self.records):
            fitting = BATCH_BYTES * records // max(self._value_bytes(), 1)
            self._batch = max(min(self._options.batch_records, LEAST_BATCH), min(self._options.batch_records, fitting))
        self._polls += 1
        return self._batch

    def _remaining(self, enough: int) -> int:
        """Records that may still come, counted up to `enough`."""
        count = 0
        for tracker in self._live.values():
            count += tracker.remaining if tracker.records_left is None else min(tracker.remaining, tracker.records_left)
            if count >= enough:
                break
        return count

    def _take(self, batch: RecordBatch) -> int:
        """Hand the records to their units."""
        count = len(batch)
        if not count:
            return 0
        if len(self._units) == 1:
            (unit,) = self._units.values()
            return self._take_of(unit, batch, range(count))
        by_topic: dict[str, list[int]] = {}
        for i, topic in enumerate(batch.topics()):
            by_topic.setdefault(topic, []).append(i)
        return sum(
            self._take_of(self._units[topic], batch, mine) for topic, mine in by_topic.items() if topic in self._units
        )

    def _take_of(self, unit: UnitReading, batch: RecordBatch, indexes: Sequence[int]) -> int:
        """Hand a unit its records, as far as its rate allows."""
        if not unit.limits.rate:
            return unit.take(batch, indexes)
        before = {tracker.topic_partition: tracker.tally.read for tracker in unit.trackers.values()}
        took = unit.take(batch, self._paces.within(unit.topic, batch.partitions(), indexes))
        for tracker in unit.trackers.values():
            self._paces.took(tracker.topic_partition, tracker.tally.read - before[tracker.topic_partition])
        return took

    def _hold(self) -> None:
        """Fetch nothing for now of partitions that are ahead of their topic's rate."""
        if over := self._paces.hold():
            self._around.reader.pause(over)

    def _release(self) -> None:
        """Fetch again what the rates allow by now."""
        if free := self._paces.release():
            self._around.reader.resume({tp: self._live[tp].position for tp in free})
            self._pages.update((tp, self._live[tp].page) for tp in free)

    def _end_units(self, poll: Poll) -> None:
        for tp, fault in poll.faults.items():
            if tp in self._trackers:
                unit, tracker = self._trackers[tp]
                code = fault.partition(":")[0]
                unit.fail(TopicFaultError(tp.topic, code, f"{tracker.key}@{tracker.position}: the broker says {fault}"))

    def _out_of_range(self, partitions: Collection[TopicPartition]) -> bool:
        """Decide where the broker holds no such offset; whether that settled anything."""
        moved = False
        mine = [tp for tp in partitions if tp in self._live and self._live[tp].active]
        for tp, found in self._around.catalog.offsets(mine).items() if mine else ():
            unit, tracker = self._trackers[tp]
            position = tracker.position
            if isinstance(found, str):
                code = found.partition(":")[0]
                if code == Fault.NO_LEADER:  # it passes: the reader tells again, and no progress ends the attempt
                    self._pages[tp] = -1
                    continue
                unit.fail(TopicFaultError(tp.topic, code, f"{tracker.key}@{tracker.position}: the broker says {found}"))
                continue
            unit.out_of_range(tp.partition, found)
            moved |= tracker.position != position
            self._pages[tp] = -1  # the reader is silent until it seeks
        return moved

    def _turn_pages(self, partitions: Collection[TopicPartition]) -> None:
        for tp in partitions:
            tracker = self._live.get(tp)
            if tracker is None or tp in self._paces.held:
                continue
            if tracker.active and not tracker.spent and self._pages[tp] != tracker.page:
                self._around.reader.seek(tp, tracker.position)
                self._pages[tp] = tracker.page

    def _end_done_units(self) -> None:
        for unit in self._units.values():
            unit.end_if_done()

    def _drop_finished(self, partitions: Collection[TopicPartition]) -> None:
        """Fetch no more of partitions that are finished or have used their share up."""
        finished = [tp for tp in partitions if not (tracker := self._live[tp]).active or tracker.spent]
        for tp in finished:
            del self._live[tp]
        if finished:
            self._around.reader.pause(finished)
            self._paces.share_out(self._live)

    def _stalled(self) -> None:
        """No progress for a while: either the broker's log has become shorter, or the attempt fails."""
        found = self._around.catalog.offsets(list(self._live))
        short = False
        for tp, offsets in found.items():
            unit, tracker = self._trackers[tp]
            if not isinstance(offsets, str) and offsets.high_watermark < tracker.high:
                unit.truncated(tp.partition, offsets)
                short = True
        if short:
            self._moved = self._around.clock.monotonic()
            self._drop_finished(list(self._live))
            return
        live = sorted((tp, self._live[tp]) for tp in self._live.keys() - self._paces.held)
        stuck = ", ".join(f"{tp}@{tracker.position} (of {tracker.high})" for tp, tracker in live[:5])
        trouble = self._around.reader.trouble()
        raise KafkaUnavailableError(
            f"no progress for {self._options.stall_seconds:g} s on {len(live)} partitions: {stuck}"
            + (f"; the client says: {trouble}" if trouble else "")
        )

    def _report(self, *, final: bool = False) -> None:
        now = self._around.clock.monotonic()
        if not final and now - self._reported < self._options.progress_seconds:
            return
        self._reported = now
        seconds = now - self._start
        records, lag = self.records, sum(tracker.remaining for _, tracker in self._trackers.values())
        rate = records / seconds if seconds > 0 else 0.0
        self._around.progress.report(
            {
                "records": records,
                "bytes": self._value_bytes(),
                "lag": lag,
                "rate": round(rate, 1),
                "seconds": round(seconds, 1),
                "seconds_left": round(lag / rate, 1) if rate else None,
                "ways": dict(sum((Counter(unit.ways) for unit in self._units.values()), Counter())),
            }
        )
