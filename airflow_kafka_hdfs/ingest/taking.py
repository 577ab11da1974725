"""Taking records of one topic: what of a batch goes into files, what into the quarantine, what ends the unit.

A step takes records in the order in which they arrived and tells how many it took. What it has taken is final: it
stands in a file, in the quarantine, or is filtered, and the position goes past it. Where a policy ends the unit, the
step stops before the record in question (after it, where it is the last bad record that a flood allows), so that the
unit ends at an exact position with everything before it kept.

`ReferenceStep` goes record by record. A faster step may take whole batches: it looks at a batch first and writes it
only if nothing about it is doubtful (`BatchStep.try_take`). Doubtful records go through the reference, one by one at
their place in the order; what stands between a few of them goes in batches all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from airflow_kafka_hdfs.exceptions import DecodeError, TopicFaultError
from airflow_kafka_hdfs.ingest.choices import OnBadTime, OnNull, OnSchemaChange
from airflow_kafka_hdfs.ingest.committing import BadRecordLimits
from airflow_kafka_hdfs.ingest.decoding import frame_id
from airflow_kafka_hdfs.ingest.quarantine import FLOOD, Quarantine, surely_over
from airflow_kafka_hdfs.ingest.reasons import WAY, BadReason, UnitReason
from airflow_kafka_hdfs.ingest.routes import ID_SIZES, Output, Route
from airflow_kafka_hdfs.ingest.tracking import Tally
from airflow_kafka_hdfs.ingest.writers.files import TopicFiles
from airflow_kafka_hdfs.metrics import Metrics
from airflow_kafka_hdfs.model import ConsumerRecord
from airflow_kafka_hdfs.ports.kafka import RecordBatch

_COUNTED_REASONS = 50

REFERENCE = "reference"
"""The way of records that are taken one by one."""

_MANY_DOUBTS = 8
"""One doubt in so many records: the batch goes record by record, since packing its parts would cost more."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a step did with the records at some indexes of a batch.

    Attributes:
        count: how many of them it took, from the first on.
        fault: why the unit ends there, None if it goes on.
    """

    count: int
    fault: TopicFaultError | None = None


class BatchStep(Protocol):
    """A faster way for whole batches.

    Attributes:
        name: of the way.
    """

    @property
    def name(self) -> str:
        """See above."""

    def try_take(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> Sequence[int]:
        """Take all records at these indexes, or none.

        Args:
            batch: records as columns.
            indexes: ascending; all of one topic.
            values: the batch's column of values, made once.

        Returns:
            Nothing if all were taken; otherwise nothing was done, and these are the doubtful ones: places within
            `indexes`, ascending, at least one.

        Raises:
            StoreUnavailableError, StoreRefusedError, RegistryUnavailableError: the attempt is of no use any more.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the records of a unit end up, and what is counted on the way.

    Attributes:
        tallies: by Kafka partition.
        newest_folder: first moment of the newest folder that the topic had published before, None for none; records of
            older folders are late.
        limits: how many bad records the topic may have in the whole run.
        planned: offsets that the whole run is to read of it.
    """

    topic: str
    files: TopicFiles
    quarantine: Quarantine
    tallies: Mapping[int, Tally]
    metrics: Metrics
    limits: BadRecordLimits = field(default_factory=BadRecordLimits)
    planned: int = 0
    newest_folder: datetime | None = None


class ReferenceStep:
    """Takes one record after the other.

    Args:
        route: the way of the topic's records.
        destination: where they end up.
        fast: tried first with every batch.

    Attributes:
        ways: how many records took which way.
    """

    def __init__(self, route: Route, destination: Destination, fast: BatchStep | None = None) -> None:
        self._route = route
        self._to = destination
        self._fast = fast
        self._read = 0
        self._id_size = ID_SIZES.get(route.config.value_format)
        self._reasons: set[str] = set()
        self.ways: Counter[str] = Counter()

    def take(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> Taken:
        """Take records.

        Args:
            batch: records as columns.
            indexes: ascending; all of this step's topic.
            values: the batch's column of values, made once.

        Raises:
            StoreUnavailableError, StoreRefusedError, RegistryUnavailableError: the attempt is of no use any more.
        """
        if self._fast is None:
            return self._take_singly(batch, indexes)
        doubts = self._take_whole(self._fast, batch, indexes, values)
        if not doubts:
            return Taken(len(indexes))
        if len(doubts) * _MANY_DOUBTS > len(indexes):
            return self._take_singly(batch, indexes)
        done = 0
        for start, end in _around(doubts, len(indexes)):
            part = indexes[start:end]
            if end - start > 1 and not self._take_whole(self._fast, batch, part, values):
                done = end
                continue
            taken = self._take_singly(batch, part)
            done += taken.count
            if taken.fault is not None:
                return Taken(done, taken.fault)
        return Taken(done)

    def _take_whole(
        self, fast: BatchStep, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]
    ) -> Sequence[int]:
        doubts = fast.try_take(batch, indexes, values)
        if not doubts:
            self._read += len(indexes)
            self._note(fast.name, len(indexes))
        return doubts

    def _take_singly(self, batch: RecordBatch, indexes: Sequence[int]) -> Taken:
        fault: TopicFaultError | None = None
        done = 0
        for index in indexes:
            record = batch.record(index)
            try:
                fault = self._take(record)
            except TopicFaultError as error:
                fault = error
                break
            self._read += 1
            done += 1
            if fault is not None:
                break
        self._note(REFERENCE, done)
        return Taken(done, fault)

    def _note(self, way: str, count: int) -> None:
        self.ways[way] += count
        self._to.metrics.counter(WAY + way).inc(count)

    def _take(self, record: ConsumerRecord) -> TopicFaultError | None:
        """Take one record; returns why the unit ends behind it. Raises TopicFaultError where it ends before it."""
        tally = self._to.tallies[record.partition]
        if record.value is None and self._is_skipped(record):
            tally.nulls += 1
            tally.filtered += 1
            return None
        try:
            outputs = self._route.outputs(record)
        except DecodeError as error:
            return self._bad(record, error, tally)
        if self._route.config.on_schema_change is OnSchemaChange.FAIL:
            self._same_schema(record, outputs)
        tally.nulls += record.value is None
        if not outputs:
            tally.filtered += 1
            return None
        newest = self._to.newest_folder
        for number, output in enumerate(outputs):
            late = newest is not None and output.place.time.start < newest
            source = (record.partition, record.offset)
            self._to.files.append(
                output.place, output.schema, output.data, output.millis, source, first=number == 0, late=late
            )
            tally.saw(output.millis, output.millis)
        tally.outputs += len(outputs)
        return None

    def _is_skipped(self, record: ConsumerRecord) -> bool:
        policy = self._route.config.on_null
        if policy is OnNull.FAIL:
            detail = f"{record.where}: the value is null; on_null 'skip' leaves such records out, 'write' keeps them"
            raise TopicFaultError(self._to.topic, UnitReason.NULL_VALUE, detail)
        return policy is OnNull.SKIP

    def _bad(self, record: ConsumerRecord, error: DecodeError, tally: Tally) -> TopicFaultError | None:
        if error.reason == BadReason.BAD_TIME and self._route.config.on_bad_time is OnBadTime.FAIL:
            raise TopicFaultError(self._to.topic, BadReason.BAD_TIME, f"{record.where}: {error.detail}") from error
        tally.nulls += record.value is None
        quarantine = self._to.quarantine
        quarantine.add(record, error, self._schema_id(record))
        self._to.metrics.counter(f"kafka_hdfs.bad.{self._counted(error.reason)}").inc()
        if quarantine.count < FLOOD:
            return None
        over = surely_over(self._to.limits, quarantine.count, self._read + 1, self._to.planned)
        if over is None:
            return None
        detail = (
            f"{over}, the last at {record.where}: {error}; they stand in {quarantine.staged}, below the destination; "
            "mend the cause or raise the limit, then clear this task with everything after it"
        )
        return TopicFaultError(self._to.topic, UnitReason.BAD_RECORDS, detail)

    def _counted(self, reason: str) -> str:
        """The reason as a metric names it: decoders of the user may give any text, metrics stay few."""
        if reason not in self._reasons and len(self._reasons) >= _COUNTED_REASONS:
            return "other"
        self._reasons.add(reason)
        return reason

    def _same_schema(self, record: ConsumerRecord, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if output.schema is None:
                continue
            if self._route.only_key is None:
                self._route.only_key = output.schema.key
            if output.schema.key != self._route.only_key:
                detail = (
                    f"{record.where}: schema {output.schema.label} differs from that of the records before it; "
                    "on_schema_change 'new_file' gives each schema files of its own, 'resolve' brings all to one"
                )
                raise TopicFaultError(self._to.topic, UnitReason.SCHEMA_CHANGED, detail)

    def _schema_id(self, record: ConsumerRecord) -> int | str | None:
        if self._id_size is None or record.value is None:
            return None
        try:
            return frame_id(record.value, self._id_size)
        except DecodeError:
            return None


def _around(doubts: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
    """Pieces of a batch: each doubtful record by itself, and what stands between them."""
    at = 0
    for doubt in doubts:
        if doubt > at:
            yield at, doubt
        yield doubt, doubt + 1
        at = doubt + 1
    if at < count:
        yield at, count
