"""How much work a range of offsets is, from what the last commits measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from airflow_kafka_hdfs.ingest.coverage import Coverage
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import PartitionKey

UNKNOWN_BYTES = 1024.0
"""Bytes of a record of which nothing is known."""

UNKNOWN_RATE = 20e6
"""Bytes per second where nothing was measured yet; only its ratio to measured rates matters."""

LEAST_SECONDS, MOST_SECONDS = 1e-7, 0.1
"""Bounds of the measured time per record: one stalled task must not look like slow records for ever."""


class Load(NamedTuple):
    """A range of one partition with its estimated cost; a named tuple, since there may be a hundred thousand.

    Attributes:
        bytes: of values.
        seconds: of one task.
    """

    key: PartitionKey
    low: int
    high: int
    bytes: float
    seconds: float


def estimate(ranges: Mapping[PartitionKey, Ranges], coverage: Mapping[PartitionKey, Coverage]) -> list[Load]:
    """The cost of every range.

    A partition counts with its own last measurement, else with the geometric mean of its topic's partitions. Without
    any, its bytes count, at the rate of all partitions that were measured.

    Args:
        ranges: what is to be read.
        coverage: the log's sum, with the mean size and time per record of each partition.
    """
    topics = {key.topic for key in ranges}
    measured: dict[str, list[Coverage]] = {}
    for key, have in coverage.items():
        if key.topic in topics:
            measured.setdefault(key.topic, []).append(have)
    bytes_of = {topic: _mean(have.mean_bytes for have in found) for topic, found in measured.items()}
    seconds_of = {topic: _mean(_seconds(have) for have in found) for topic, found in measured.items()}
    both = [have for found in measured.values() for have in found if have.mean_bytes > 0 and have.mean_seconds > 0]
    per_byte = _mean(_seconds(have) / have.mean_bytes for have in both) or 1 / UNKNOWN_RATE
    loads = []
    for key, spans in ranges.items():
        own = coverage.get(key) or Coverage(start=0)
        record_bytes = own.mean_bytes or bytes_of.get(key.topic, 0.0) or UNKNOWN_BYTES
        record_seconds = _seconds(own) or seconds_of.get(key.topic, 0.0) or _bounded(record_bytes * per_byte)
        for low, high in spans:
            size = high - low
            loads.append(Load(key, low, high, size * record_bytes, size * record_seconds))
    return loads


def _seconds(have: Coverage) -> float:
    return _bounded(have.mean_seconds) if have.mean_seconds > 0 else 0.0


def _bounded(seconds: float) -> float:
    return min(max(seconds, LEAST_SECONDS), MOST_SECONDS)


def _mean(values: Iterable[float]) -> float:
    """Geometric mean of the positive values, 0 if there are none: one outlier moves it little."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else 0.0
