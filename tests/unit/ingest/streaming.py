"""A task over an endless-looking topic that is never in memory as a whole; a store that keeps nothing.

As a program it tells what a task costs: `python -m tests.unit.ingest.streaming FORMAT CODEC RECORDS FOLDERS [BYTES]`.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Collection, Mapping, Sequence

from airflow_kafka_hdfs.model import STORES_OWN, ConsumerRecord, Modes, TimestampType, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Poll, RecordBatch, RecordReader
from airflow_kafka_hdfs.ports.store import StagedWriter
from tests.fakes.store import InMemoryStore
from tests.peak_memory import peak_memory
from tests.unit.ingest.extracting import EVENT, HOUR, MORNING, Task, confluent, event, manifest_of


class Columns(RecordBatch):
    """Records of one partition."""

    def __init__(self, first: int, values: Sequence[bytes], times: Sequence[int]) -> None:
        self._first, self._values, self._times = first, values, times

    def __len__(self) -> int:
        return len(self._values)

    def topics(self) -> Sequence[str]:
        return ["events"] * len(self)

    def partitions(self) -> Sequence[int]:
        return [0] * len(self)

    def offsets(self) -> Sequence[int]:
        return range(self._first, self._first + len(self))

    def values(self) -> Sequence[bytes]:
        return self._values

    def timestamps(self) -> Sequence[int]:
        return self._times

    def record(self, index: int) -> ConsumerRecord:
        return ConsumerRecord(
            topic="events",
            partition=0,
            offset=self._first + index,
            timestamp=self._times[index],
            timestamp_type=TimestampType.CREATE,
            key=None,
            value=self._values[index],
        )


class EndlessReader(RecordReader):
    """Gives the same values over and over, each with the time of another folder."""

    def __init__(self, values: Sequence[bytes], folders: int) -> None:
        self._values, self._folders = values, folders
        self._at = 0

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        (self._at,) = positions.values()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._at = offset

    def poll(self, max_records: int, timeout: float) -> Poll:
        values = [self._values[(self._at + i) % len(self._values)] for i in range(max_records)]
        times = [MORNING - (self._at + i) % self._folders * HOUR for i in range(max_records)]
        batch = Columns(self._at, values, times)
        self._at += max_records
        return Poll(batch=batch, positions={TopicPartition("events", 0): self._at})

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def resume(self, positions: Mapping[TopicPartition, int]) -> None:
        (self._at,) = positions.values()

    def trouble(self) -> str:
        return ""

    def close(self) -> None: ...


class ForgetfulStore(InMemoryStore):
    """Keeps small files and forgets what is written into new ones."""

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        return _Nothing()


class _Nothing(StagedWriter):
    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


SETTINGS = {
    "bytes": {},
    "avro": {"value_format": "avro_confluent", "time_field": "header.time"},
    "jsonl": {"value_format": "json", "file_format": "jsonl", "time_field": "header.time"},
    "parquet": {"value_format": "avro_confluent", "time_field": "header.time", "file_format": "parquet"},
    "raw": {"file_format": "raw"},
}


def values_of(kind: str, folders: int, schema_id: int, size: int = 100) -> list[bytes]:
    """As many different values as there are folders, about so many bytes each; tiny ones for `raw`."""
    events = [event(i, MORNING - i * HOUR, "x" * (size - 20)) for i in range(folders)]
    if kind in ("avro", "parquet"):
        return [confluent(schema_id, value) for value in events]
    if kind == "jsonl":
        return [json.dumps(value).encode() for value in events]
    return [b"tiny" if kind == "raw" else b"x" * size] * folders


def measure(kind: str, codec: str, records: int, folders: int, size: int = 100) -> dict[str, float]:
    """Seconds, records per second, and the growth of the process in MiB."""
    task = Task(store=ForgetfulStore())
    task.topic("warm", **SETTINGS[kind], codec=codec)  # imports and caches that any task has
    schema_id = task.registry.register("warm", EVENT)
    task.cluster.produce("warm", 0, *values_of(kind, 5, schema_id), timestamp=MORNING)
    task.run()
    task = Task(store=ForgetfulStore(), registry=task.registry)
    task.topic(**SETTINGS[kind], codec=codec)
    values = values_of(kind, folders, schema_id, size)
    sources = task.sources()
    task.sources = lambda: type(sources)(
        catalog=sources.catalog,
        open_reader=lambda: EndlessReader(values, folders),
        registry=sources.registry,
        codec=sources.codec,
    )
    plan = task.plan(("events", 0, 0, records))
    base, before = peak_memory(), resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    (unit,) = manifest_of(task.run(plan)).units
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    if unit.counts.written != records:
        raise ValueError(f"{unit.counts}")
    return {
        "records_per_second": records / seconds,
        "cpu_microseconds": (after.ru_utime - before.ru_utime) / records * 1e6,
        "grown_mib": peak_memory() - base,
        "files": len(unit.files),
        "base_mib": base,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))))
