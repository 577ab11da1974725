"""How far a partition is read: positions, gaps, and what was lost or skipped, each from something that was seen.

A range is finished when the reader's position has reached its end, which transaction markers and compacted records move
as records do. Every offset between two positions that brought no record is a gap; nothing is found by subtraction of
totals.
"""

from __future__ import annotations

import dataclasses

from airflow_kafka_hdfs.ingest.ranges import Ranges, Span
from airflow_kafka_hdfs.ingest.records import Counts, PartitionKey
from airflow_kafka_hdfs.model import TopicPartition


@dataclasses.dataclass(slots=True)
class Tally:
    """What became of the records of a partition, as the step that takes them tells.

    Attributes:
        read: records taken.
        filtered: records without output.
        outputs: what was written of them; more than one per record where converters make several.
        nulls: null values among them.
        bytes_in: bytes of their values.
        earliest, latest: event times in ms; absent until there is one.
    """

    read: int = 0
    filtered: int = 0
    outputs: int = 0
    nulls: int = 0
    bytes_in: int = 0
    earliest: int | None = None
    latest: int | None = None

    def saw(self, earliest: int, latest: int) -> None:
        """Note event times."""
        if self.earliest is None or earliest < self.earliest:
            self.earliest = earliest
        if self.latest is None or latest > self.latest:
            self.latest = latest

    @property
    def event_times(self) -> tuple[int, int] | None:
        """Least and greatest event time."""
        return None if self.earliest is None or self.latest is None else (self.earliest, self.latest)


class PartitionTracker:
    """Reads the ranges of one partition one after the other.

    Args:
        key: identity of the partition.
        ranges: what is to be read.

    Attributes:
        position: next offset of the present range.
        records_left, bytes_left: what limits still allow; None without limit.
        halted: nothing more is taken, though ranges are left.
        page: goes up with each range that is begun; where it does, the reader has to seek.
        log_start, log_end: as the broker was last seen, -1 before.
    """

    def __init__(self, key: PartitionKey, ranges: Ranges) -> None:
        self.key = key
        self.ranges = ranges
        self.tally = Tally()
        self.gaps = 0
        self.records_left: int | None = None
        self.bytes_left: int | None = None
        self.halted = False
        self.page = 0
        self.log_start = self.log_end = -1
        self._waiting: list[Span] = list(ranges.spans)
        self._covered: list[Span] = []
        self._lost: list[Span] = []
        self._skipped: list[Span] = []
        self.position = self._low = self.high = 0
        self._next_range()

    @property
    def topic_partition(self) -> TopicPartition:
        """Where Kafka is asked for it."""
        return self.key.topic_partition

    @property
    def done(self) -> bool:
        """Whether every offset of its ranges is settled."""
        return self.position >= self.high and not self._waiting

    @property
    def active(self) -> bool:
        """Whether records are still wanted."""
        return not (self.halted or self.done)

    @property
    def remaining(self) -> int:
        """Offsets not yet settled."""
        return self.high - self.position + sum(high - low for low, high in self._waiting)

    @property
    def spent(self) -> bool:
        """Whether its share of a limit is used up."""
        return (self.records_left is not None and self.records_left <= 0) or (
            self.bytes_left is not None and self.bytes_left <= 0
        )

    def fits(self, first: int, last: int, count: int) -> bool:
        """Whether a run of records can be taken whole: in range, without gaps inside, within the limits.

        Args:
            first: offset of the first record.
            last: offset of the last one.
            count: how many records.
        """
        return (
            self.active
            and self.position <= first
            and last < self.high
            and last - first + 1 == count
            and (self.records_left is None or count <= self.records_left)
            and self.bytes_left is None
        )

    def wanted(self, offset: int, size: int, cursor: _Cursor) -> bool:
        """Whether the next record of a batch is wanted, if those before it are taken.

        Args:
            offset: of the record.
            size: bytes of its value.
            cursor: a fresh `cursor()` per batch; it moves on.
        """
        if not self.active or cursor.ended:
            return False
        while offset >= cursor.high:
            if not cursor.waiting:
                cursor.ended = True
                return False
            cursor.position, cursor.high = cursor.waiting.pop(0)
        if offset < cursor.position:
            return False
        if (cursor.records_left is not None and cursor.records_left <= 0) or (
            cursor.bytes_left is not None and cursor.bytes_left <= 0
        ):
            cursor.ended = True
            return False
        cursor.position = offset + 1
        if cursor.records_left is not None:
            cursor.records_left -= 1
        if cursor.bytes_left is not None:
            cursor.bytes_left -= size
        return True

    def cursor(self) -> _Cursor:
        """Where `wanted` starts for a batch."""
        return _Cursor(self.position, self.high, list(self._waiting), self.records_left, self.bytes_left)

    def took(self, first: int, last: int, count: int, size: int) -> None:
        """A run of records was taken, and the offsets before and between them held none.

        Args:
            first: offset of the first record.
            last: offset of the last one, in the same range.
            count: how many records.
            size: bytes of their values.
        """
        while first >= self.high and self._waiting:
            self.reached(self.high)
        self.gaps += last + 1 - self.position - count
        self.position = last + 1
        self.tally.read += count
        self.tally.bytes_in += size
        if self.records_left is not None:
            self.records_left -= count
        if self.bytes_left is not None:
            self.bytes_left -= size
        self._turn_page()

    def reached(self, position: int) -> bool:
        """The reader's position: everything before it that brought no record is a gap. Whether there was any."""
        end = min(position, self.high)
        if end <= self.position:
            return False
        self.gaps += end - self.position
        self.position = end
        self._turn_page()
        return True

    def lose_below(self, log_start: int) -> None:
        """Offsets below the log start are lost; reading goes on there."""
        self._give_up(self._lost, log_start)

    def skip_rest(self) -> None:
        """A policy gives up everything that is left."""
        self._give_up(self._skipped, max([self.high, *(high for _, high in self._waiting)]))

    def covered(self) -> Ranges:
        """Offsets read to their end."""
        return Ranges.of([*self._covered, (self._low, self.position)])

    def lost(self) -> Ranges:
        """Offsets that the broker no longer held."""
        return Ranges.of(self._lost)

    def skipped(self) -> Ranges:
        """Offsets that a policy jumped over."""
        return Ranges.of(self._skipped)

    def counts(self, written: int, quarantined: int) -> Counts:
        """All counts of the partition.

        Args:
            written: records, from closed files.
            quarantined: bad records, from the closed quarantine.
        """
        return Counts(
            written=written,
            quarantined=quarantined,
            filtered=self.tally.filtered,
            gaps=self.gaps,
            lost=len(self.lost()),
            skipped=len(self.skipped()),
            records_out=self.tally.outputs,
            bytes_in=self.tally.bytes_in,
            null_values=self.tally.nulls,
        )

    def _give_up(self, spans: list[Span], end: int) -> None:
        while self.position < end and not self.done:
            upto = min(end, self.high)
            self._covered.append((self._low, self.position))
            spans.append((self.position, upto))
            self._low = self.position = upto
            if not self._turn_page():
                return

    def _turn_page(self) -> bool:
        """Go to the next range if the present one is finished and there is one."""
        if self.position < self.high or not self._waiting:
            return False
        self._next_range()
        return True

    def _next_range(self) -> None:
        self._covered.append((self._low, self.position))
        if self._waiting:
            self._low, self.high = self._waiting.pop(0)
            self.position = self._low
            self.page += 1


@dataclasses.dataclass(slots=True)
class _Cursor:
    """A tracker's place while a batch is looked through, before anything of it is taken."""

    position: int
    high: int
    waiting: list[Span]
    records_left: int | None
    bytes_left: int | None
    ended: bool = False
