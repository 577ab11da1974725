"""Taking records of one topic: what of a batch goes into files, what into the quarantine, what ends the unit.

A step takes records in the order in which they arrived and tells how many it took. What it has taken is final: it
stands in a file, in the quarantine, or is filtered, and the position goes past it. Where a policy ends the unit, the
step stops before the record in question (after it, where it is the last bad record that a flood allows), so that the
unit ends at an exact position with everything before it kept.

`ReferenceStep` goes record by record. A faster step may take whole batches: it looks at a batch first, writes it only
if nothing about it is doubtful, and leaves it to the reference otherwise (`BatchStep.try_take`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from airflow_kafka_hdfs.exceptions import DecodeError, TopicFaultError
from airflow_kafka_hdfs.ingest.choices import OnBadTime, OnNull, OnSchemaChange
from airflow_kafka_hdfs.ingest.committing import BadRecordLimits
from airflow_kafka_hdfs.ingest.decoding import frame_id
from airflow_kafka_hdfs.ingest.quarantine import FLOOD, Quarantine, surely_over
from airflow_kafka_hdfs.ingest.reasons import BadReason, UnitReason
from airflow_kafka_hdfs.ingest.routes import ID_SIZES, Output, Route
from airflow_kafka_hdfs.ingest.tracking import Tally
from airflow_kafka_hdfs.ingest.writers.files import TopicFiles
from airflow_kafka_hdfs.metrics import Metrics
from airflow_kafka_hdfs.model import ConsumerRecord
from airflow_kafka_hdfs.ports.kafka import RecordBatch

_COUNTED_REASONS = 50


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
    """A faster way for whole batches."""

    def try_take(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> bool:
        """Take all records at these indexes, or none.

        Args:
            batch: records as columns.
            indexes: ascending; all of one topic.
            values: the batch's column of values, made once.

        Returns:
            False if nothing was done, since something about the batch is doubtful: the reference takes it then.

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
    """

    def __init__(self, route: Route, destination: Destination, fast: BatchStep | None = None) -> None:
        self._route = route
        self._to = destination
        self._fast = fast
        self._read = 0
        self._id_size = ID_SIZES.get(route.config.value_format)
        self._schema_key = route.pinned_key()
        self._reasons: set[str] = set()

    def take(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> Taken:
        """Take records.

        Args:
            batch: records as columns.
            indexes: ascending; all of this step's topic.
            values: the batch's column of values, made once.

        Raises:
            StoreUnavailableError, StoreRefusedError, RegistryUnavailableError: the attempt is of no use any more.
        """
        if self._fast is not None and self._fast.try_take(batch, indexes, values):
            self._read += len(indexes)
            return Taken(len(indexes))
        for done, index in enumerate(indexes):
            record = batch.record(index)
            try:
                flooded = self._take(record)
            except TopicFaultError as fault:
                return Taken(done, fault)
            self._read += 1
            if flooded is not None:
                return Taken(done + 1, flooded)
        return Taken(len(indexes))

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
        detail = f"{over}, the last at {record.where}: {error}; see `airflow kafka-hdfs quarantine list`"
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
            if self._schema_key is None:
                self._schema_key = output.schema.key
            if output.schema.key != self._schema_key:
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
