"""A task of extract in a few lines: a cluster in memory, a plan made by hand, files read back by other libraries."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro
import zstandard

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.bulk import bulk_steps
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.extraction import Extraction, ExtractOptions, extract
from airflow_kafka_hdfs.ingest.layout import plan_id, plan_key
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.outfitting import Tools
from airflow_kafka_hdfs.ingest.plans import Plan, TaskPlan, UnitPlan, WorkUnit
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.records import FileEntry, Kind, Manifest, Outcome, PartitionKey, UnitResult
from airflow_kafka_hdfs.ingest.routes import sinks_for
from airflow_kafka_hdfs.ingest.settings import DEFAULTS, TopicSettings, topic_settings
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.kafka import FakeCluster, FakeReader
from tests.fakes.kafka_parts import FakeBatch
from tests.fakes.registry import FakeRegistry
from tests.fakes.runtime import KnownRuns, ManualClock, ManualStop, RecordedProgress, SeededIds, SerialWorkers
from tests.fakes.store import InMemoryStore

CODEC = FastavroCodec()
EVENT = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "header", "type": {"type": "record", "name": "Header", "fields": [{"name": "time", "type": "long"}]}},
        {"name": "id", "type": "long"},
        {"name": "country", "type": ["null", "string"], "default": None},
    ],
}
FAST = bulk_steps(tiers.choose())
"""As the operator has it; None leaves all to the reference."""
MORNING = 1_767_254_400_000
"""2026-01-01T08:00:00Z in ms, a while after the clock of the fakes starts."""
HOUR = 3_600_000
FOLDER = "events/2026/01/01/08"
"""Of a record of the topic `events` at `MORNING`."""
HEADERS = (("trace", b"\x01"), ("trace", None), ("é", b""))


def event(number: int, millis: int = MORNING, country: str | None = None) -> dict[str, Any]:
    return {"header": {"time": millis}, "id": number, "country": country}


def datum(value: Any, schema: Any = EVENT) -> bytes:
    return CODEC.encode(json.dumps(schema), value)


def confluent(schema_id: int, value: Any, schema: Any = EVENT) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + datum(value, schema)


@dataclass
class Task:
    """One pipeline and its cluster."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    store: Any = field(default_factory=InMemoryStore)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    stop: ManualStop = field(default_factory=ManualStop)
    progress: RecordedProgress = field(default_factory=RecordedProgress)
    reading: ReadOptions = field(default_factory=ReadOptions)
    settings: dict[str, TopicSettings] = field(default_factory=dict)
    readers: list[FakeReader] = field(default_factory=list)
    max_open_files: int = 256
    per_poll: int = 1_000_000
    batch_of: Any = FakeBatch
    seed: int = 0
    run_id: str = "run-1"
    fast: Any = field(default_factory=lambda: FAST)
    codec: Any = CODEC
    sinks: Any = sinks_for

    def topic(self, name: str = "events", partitions: int = 1, **changes: Any) -> str:
        """Make a topic with settings that differ from the defaults in `changes`."""
        self.cluster.create_topic(name, partitions)
        self.configure(name, **changes)
        return name

    def configure(self, name: str = "events", **changes: Any) -> None:
        self.settings[name] = topic_settings({**DEFAULTS, **changes})

    @property
    def clock(self) -> ManualClock:
        return self.cluster.clock

    def context(self) -> Context:
        log = CommitLog(self.store, self.store, SerialWorkers(), "p")
        return Context(
            log=log,
            run=RunRef(dag_id="d", run_id=self.run_id),
            clock=self.clock,
            ids=SeededIds(self.seed),
            run_states=KnownRuns(),
        )

    def sources(self) -> Sources:
        def open_reader() -> FakeReader:
            self.readers.append(self.cluster.reader(records_per_partition=self.per_poll, batch_of=self.batch_of))
            return self.readers[-1]

        return Sources(
            catalog=self.cluster.catalog(), open_reader=open_reader, registry=self.registry, codec=self.codec
        )

    def key(self, topic: str = "events", partition: int = 0) -> PartitionKey:
        info = self.cluster.catalog().describe([topic])[topic]
        return PartitionKey(
            topic=topic, partition=partition, cluster_id=self.cluster.cluster_id, topic_id=info.topic_id
        )

    def plan(self, *ranges: tuple[str, int, int, int], **fields: Any) -> Plan:
        """A plan of one task; each range is (topic, partition, low, high), by default all that is there."""
        if not ranges:
            ranges = tuple(self._all_there())
        units = tuple(
            UnitPlan(
                topic=topic,
                work_units=tuple(
                    WorkUnit(key=self.key(topic, p), low=low, high=high) for t, p, low, high in ranges if t == topic
                ),
            )
            for topic in sorted({topic for topic, _, _, _ in ranges})
        )
        ctx = self.context()
        plan = Plan(
            plan=plan_id(self.clock.now(), f"{int(self.run_id.rpartition('-')[2]):08x}"),
            key=plan_key("p", ctx.run),
            counter=0,
            pipeline="p",
            run=ctx.run,
            clock=ctx.timestamp(),
            log_head=ctx.log.read().head,
            kind=Kind.FORWARD,
            config={topic: wire.to_plain(settings.config) for topic, settings in self.settings.items()},
            config_digest="",
            tasks=(TaskPlan(index=0, label="0", units=units),),
            **fields,
        )
        return wire.decode("plan", "plan", Plan, wire.encode("plan", plan))

    def run(self, plan: Plan | None = None) -> Extraction:
        """Do the task."""
        self.seed += 1
        options = ExtractOptions(
            tools=Tools(
                codecs=StandardCodecs(),
                settings=self.settings.__getitem__,
                max_open_files=self.max_open_files,
                fast=self.fast,
                sinks=self.sinks,
            ),
            stop=self.stop,
            progress=self.progress,
            reading=self.reading,
        )
        return extract(self.context(), self.sources(), plan or self.plan(), 0, options)

    def unit(self, plan: Plan | None = None) -> UnitResult:
        """Do the task of one topic; its section."""
        manifest = self.run(plan).manifest
        assert manifest is not None
        (unit,) = manifest.units
        return unit

    def records(self, entry: FileEntry) -> list[Any]:
        """What a staged file holds."""
        return list(read_back(entry.staged, self.store.files()[entry.staged]))

    def bad(self, unit: UnitResult) -> list[dict[str, Any]]:
        """Entries of a unit's quarantine."""
        return [record for entry in unit.files if entry.quarantine for record in self.records(entry)]

    def data(self, unit: UnitResult) -> dict[str, list[Any]]:
        """Folder -> everything in its files."""
        found: dict[str, list[Any]] = {}
        for entry in unit.files:
            if not entry.quarantine:
                found.setdefault(entry.path.rpartition("/")[0], []).extend(self.records(entry))
        return found

    def staged(self) -> list[str]:
        return [path for path in self.store.files() if "/staging/" in path]

    def _all_there(self) -> Iterator[tuple[str, int, int, int]]:
        catalog = self.cluster.catalog()
        for name in self.settings:
            for partition in catalog.describe([name])[name].partitions:
                key = self.key(name, partition)
                offsets = catalog.offsets([key.topic_partition])[key.topic_partition]
                yield name, partition, offsets.log_start, offsets.last_stable


def read_back(path: str, content: bytes) -> Iterator[Any]:
    """Records of a file by its extension."""
    if path.endswith(".gz"):
        path, content = path[:-3], gzip.decompress(content)
    elif path.endswith(".zst"):
        with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as stream:
            path, content = path[:-4], stream.read()
    if path.endswith(".avro"):
        yield from fastavro.reader(io.BytesIO(content))
    elif path.endswith(".parquet"):
        import pyarrow.parquet as pq  # here: it is a large import for the tests of memory

        yield from pq.read_table(io.BytesIO(content)).to_pylist()
    elif path.endswith(".jsonl"):
        assert content.endswith(b"\n")
        yield from (json.loads(line) for line in content.split(b"\n")[:-1])
    elif path.endswith(".txt"):
        assert content.endswith(b"\n")
        yield from content.split(b"\n")[:-1]
    elif path.endswith(".bin"):
        while content:
            size = int.from_bytes(content[:4], "big")
            yield content[4 : 4 + size]
            content = content[4 + size :]
    else:
        raise ValueError(path)


def counts_of(unit: UnitResult) -> dict[str, int]:
    """Counts that are not zero."""
    plain: Mapping[str, int] = wire.to_plain(unit.counts)
    return {name: number for name, number in plain.items() if number and name not in ("records_out", "bytes_in")}


def manifest_of(result: Extraction) -> Manifest:
    assert result.manifest is not None
    return result.manifest


def one_topic(*values: bytes | None, **changes) -> Task:
    """A task for values in `events[0]`, with as many bad ones as may come."""
    task = Task()
    task.topic(**{"max_bad_share": None, **changes})
    task.cluster.produce("events", 0, *values, timestamp=MORNING)
    return task


def written(task: Task) -> list:
    """What the task wrote into `FOLDER`, all of it good."""
    unit = task.unit()
    assert unit.outcome is Outcome.DONE, unit.detail
    assert counts_of(unit).keys() == {"written"}, task.bad(unit)
    return task.data(unit)[FOLDER]


def two_topics(**changes) -> Task:
    """Four records in `bad`, which is changed as the test wants it, and four in `good`."""
    task = Task()
    task.topic("bad", **changes)
    task.topic("good", partitions=2)
    for topic in ("bad", "good"):
        task.cluster.produce(topic, 0, *[b"x"] * 4, timestamp=MORNING)
    return task


def outcomes(result) -> dict[str, tuple[str, str, int]]:
    """Topic -> outcome, reason, records written."""
    return {u.topic: (u.outcome.value, u.reason, u.counts.written) for u in manifest_of(result).units}


def on_poll(task: Task, number: int, act) -> None:
    """Let something happen at the n-th poll."""
    seen = []

    def on_call(name: str) -> None:
        if name == "kafka.poll":
            seen.append(name)
            if len(seen) == number:
                act()

    task.cluster.on_call = on_call
