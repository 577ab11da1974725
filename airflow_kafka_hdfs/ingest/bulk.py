"""Whole batches of one topic: packed by a tier of `datum`, written as chunks, with what the reference would count.

A batch is looked at before anything of it is written. Records that the packer can't take, and batches whose files
would be cut in the midst, are handed back; the reference, which decodes, has the last word about them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest import placing
from airflow_kafka_hdfs.ingest.bulk_routes import BulkRoutes, why_not
from airflow_kafka_hdfs.ingest.choices import OnBadTime, OnNull
from airflow_kafka_hdfs.ingest.datum.packing import Batch, Group, Outcome, Packer, Place, Span, Tier
from airflow_kafka_hdfs.ingest.eventtime import NO_TIMESTAMP, to_millis
from airflow_kafka_hdfs.ingest.routes import RECODED, Route
from airflow_kafka_hdfs.ingest.taking import BatchStep, Destination
from airflow_kafka_hdfs.ingest.writers.files import Part
from airflow_kafka_hdfs.ports.kafka import RecordBatch, picked

log = logging.getLogger(__name__)

_NEVER = -(2**63)
"""A time outside all bounds."""

_CAREFUL_BYTES = 2_000
"""Larger values of schemas that hold themselves may nest deeper than decoders bear; the reference decides."""


def bulk_steps(tier: Tier) -> Callable[[Route, Destination], BatchStep | None]:
    """Makes the steps of a task's topics.

    Args:
        tier: how batches are packed.
    """

    def step(route: Route, destination: Destination) -> BatchStep | None:
        reason = why_not(route.config)
        if reason:
            log.info("topic %s: record by record: %s", destination.topic, reason)
            return None
        log.info("topic %s: in whole batches, tier %s", destination.topic, tier.name)
        return BulkStep(route, destination, tier)

    return step


class BulkStep:
    """Takes whole batches of one topic.

    Args:
        route: the topic's reference way.
        destination: where records end up.
        tier: how batches are packed.

    Attributes:
        name: of the tier.
    """

    def __init__(self, route: Route, destination: Destination, tier: Tier) -> None:
        self.name = tier.name
        self._route = route
        self._to = destination
        self._tier = tier
        self._routes = BulkRoutes(route)
        self._skips_null = route.config.on_null is OnNull.SKIP
        self._recoded = destination.metrics.counter(RECODED)
        unit = route.config.time_unit
        self._packer = Packer(
            routes=self._routes.by_frame,
            frame_size=self._routes.frame_size,
            locate=self._locate,
            room=self._room,
            bounds=route.event_time.bounds,
            text_time=lambda text: to_millis(text, unit),
            null=self._routes.null,
        )

    def try_take(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> Sequence[int]:
        """See `BatchStep.try_take`."""
        doubts: list[int] = []
        shaped = picked(values, indexes)
        if self._routes.shape is not None:
            shaped, doubts = self._routes.shape(shaped)
        if self._routes.careful:
            doubts += [i for i, value in enumerate(shaped) if value is not None and len(value) > _CAREFUL_BYTES]
        if doubts or not self._routes.by_frame and not self._routes.frame_size:
            return doubts or range(len(indexes))
        self._routes.recoded = 0
        try:
            packed = self._packed(self._columns(batch, indexes, shaped))
        except DecodeError as error:  # a folder beyond the calendar
            log.debug("topic %s: %s", self._to.topic, error)
            return range(len(indexes))
        if not isinstance(packed, Outcome):
            return packed
        doubts = [bad.index for bad in packed.bad]
        if packed.nulls and not self._skips_null:
            doubts = sorted([*doubts, *packed.nulls])
        if doubts:
            return doubts
        partitions = picked(batch.partitions(), indexes)
        spans = self._tier.spans(packed, partitions, picked(batch.offsets(), indexes))
        parts = self._parts(packed, spans, shaped)
        if not self._to.files.keeps_whole(parts):
            return range(len(indexes))
        self._to.files.extend(parts, () if len(parts) < 2 else _by_last(packed))
        self._count(spans, packed, partitions, shaped)
        return ()

    def _columns(self, batch: RecordBatch, indexes: Sequence[int], values: Sequence[bytes | None]) -> Batch:
        """What the packer has to know of a batch."""
        times = self._route.event_time
        columns = self._route.columns
        tails = None
        if columns:
            tails = [columns.suffix(batch.record(i)) for i in indexes]
        if times.field:
            fallback = None
            if times.on_bad is OnBadTime.KAFKA_TIME:
                fallback = lambda i: _known(batch.record(indexes[i]).timestamp)  # noqa: E731 - a line of its own
            return Batch(values=values, fallback=fallback, tails=tails)
        stamps = picked(batch.timestamps(), indexes)
        low, high = times.bounds
        if low <= NO_TIMESTAMP < high:
            stamps = [_known(stamp) for stamp in stamps]
        return Batch(values=values, times=stamps, fallback=stamps.__getitem__, tails=tails)

    def _packed(self, batch: Batch) -> Outcome | Sequence[int]:
        """The batch packed, or the indexes of values under frames that have no way here."""
        outcome = self._tier.pack(self._packer, batch)
        if not outcome.foreign:
            return outcome
        strange = {frame for frame in sorted(outcome.foreign) if not self._routes.learn(frame)}
        if strange:
            size = self._packer.frame_size
            return [i for i, value in enumerate(batch.values) if value is not None and value[:size] in strange]
        if self._routes.careful:  # which was not known when the values were looked at
            return range(len(batch.values))
        outcome = self._tier.pack(self._packer, batch)
        return range(len(batch.values)) if outcome.foreign else outcome

    def _parts(self, packed: Outcome, spans: Sequence[dict[int, Span]], values: Sequence[bytes | None]) -> list[Part]:
        return [
            self._part(number, group, span, packed, values)
            for number, (group, span) in enumerate(zip(packed.groups, spans, strict=True))
        ]

    def _part(
        self, number: int, group: Group, spans: dict[int, Span], packed: Outcome, values: Sequence[bytes | None]
    ) -> Part:
        place = group.key
        if not isinstance(place, placing.Place):
            raise TypeError(f"{place!r} is no place")
        schema = self._routes.schema(group.target)
        if self._routes.frame_size and not self._to.files.is_open(place, schema):
            schema = self._routes.schema(group.target, values[int(np.argmax(packed.slots == number))])
        newest = self._to.newest_folder
        late = group.count if newest is not None and place.time.start < newest else 0
        return Part(place, schema, group.count, group.size, group.chunks, spans, late)

    def _count(
        self,
        spans: Sequence[dict[int, Span]],
        packed: Outcome,
        partitions: Sequence[int],
        values: Sequence[bytes | None],
    ) -> None:
        tallies = self._to.tallies
        for by_partition in spans:
            for partition, span in by_partition.items():
                tally = tallies[partition]
                tally.outputs += span.records
                tally.saw(span.least, span.greatest)
        for partition, count in Counter(partitions[i] for i in packed.nulls).items():
            tallies[partition].nulls += count
            tallies[partition].filtered += count
        if self._packer.null is not None and None in values:
            for partition, value in zip(partitions, values, strict=True):
                tallies[partition].nulls += value is None
        if self._routes.recoded:
            self._recoded.inc(self._routes.recoded)

    def _locate(self, millis: int) -> Place:
        start, end, folder = self._route.placing.times.around(millis)
        return Place(start, end, self._route.placing.plain(folder))

    def _room(self, target: int, key: object) -> tuple[int, int]:
        if not isinstance(key, placing.Place):
            raise TypeError(f"{key!r} is no place")
        return self._to.files.room(key, self._routes.schema(target))


def _known(timestamp: int) -> int:
    """A Kafka timestamp, and for none a time that nobody believes."""
    return _NEVER if timestamp == NO_TIMESTAMP else timestamp


def _by_last(packed: Outcome) -> list[int]:
    """Groups in the order of their last records."""
    last = np.zeros(len(packed.groups), np.int64)
    at = np.flatnonzero(packed.slots >= 0)
    last[packed.slots[at]] = at  # of several writes to one place the last one stays
    return [int(number) for number in np.argsort(last)]
