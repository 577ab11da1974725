"""A mapped task as a run does it, with the reader, steps, files and stores of the product; where its time goes."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import STORES_OWN, Modes, RunRef
from airflow_kafka_hdfs.ports.schemas import Compressor
from airflow_kafka_hdfs.ports.store import StagedWriter, Store
from tests.benchmarks.data import FRAME, Dataset
from tests.benchmarks.measuring import Sample
from tests.benchmarks.reading import READERS
from tests.fakes.registry import FakeRegistry
from tests.fakes.runtime import KnownRuns, ManualStop, RecordedProgress

STAGES = ("read", "pack", "compress", "store")
_numbers = itertools.count()


class Clockwork:
    """Seconds per stage, and when records came and reading ended."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.delivered = 0
        self.first = self.last = self.closed = 0.0
        self.cpu = 0.0

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] += time.perf_counter() - start


class Wrapped:
    """Anything, with the time that some of its methods take noted."""

    def __init__(self, inner: Any, clockwork: Clockwork, stage: str, *names: str) -> None:
        self._inner, self._clockwork, self._stage, self._names = inner, clockwork, stage, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._names:
            return found

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self._clockwork.of(self._stage):
                return found(*args, **kwargs)

        return timed


class TimedReader(Wrapped):
    """A reader that notes when records came."""

    def poll(self, max_records: int, timeout: float) -> Any:
        clockwork = self._clockwork
        with clockwork.of("read"):
            poll = self._inner.poll(max_records, timeout)
        if len(poll.batch):
            clockwork.last = time.perf_counter()
            if not clockwork.delivered:
                clockwork.first, clockwork.cpu = clockwork.last, time.process_time()
                clockwork.seconds.clear()
            clockwork.delivered += len(poll.batch)
        return poll

    def close(self) -> None:
        self._clockwork.closed = time.perf_counter()
        self._inner.close()


class TimedStore(Wrapped):
    """A store whose new files note the time that writing takes."""

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        with self._clockwork.of("store"):
            out = self._inner.create(path, modes=modes)
        return Wrapped(out, self._clockwork, "store", "write", "close")  # type: ignore[return-value] # all it needs


class TimedCodecs(StandardCodecs):
    """Codecs that note the time that compressing takes."""

    def __init__(self, clockwork: Clockwork) -> None:
        self._clockwork = clockwork

    def block(self, name: str) -> Compressor:
        return Wrapped(super().block(name), self._clockwork, "compress", "compress")  # type: ignore[return-value]


@dataclass
class Product:
    """Runs of one topic.

    Attributes:
        store: opens a store on a new place, by number.
        clean: removes what run number so and so left.
        arguments: of the ingestion, on top of those that the data need.
        share: of each partition that is read.
    """

    servers: str
    dataset: Dataset
    store: Callable[[int], Store]
    clean: Callable[[int], None]
    arguments: dict[str, Any] = field(default_factory=dict)
    share: float = 1.0

    def run(self, tier: str = "direct", task: int = 0, *, ready: Callable[[], object] = lambda: None) -> Sample:
        """Plan and one mapped task; the clock runs from the first record to the manifest."""
        number = next(_numbers)
        store = self.store(number)
        clockwork = Clockwork()
        ctx, sources, config = self._ports(store, clockwork, tier)
        plan = self._plan(ctx, sources, config)
        options = ExtractOptions.of(
            config,
            codecs=TimedCodecs(clockwork),
            stop=ManualStop(),
            progress=RecordedProgress(),
            tier=Wrapped(tiers.choose(tier), clockwork, "pack", "pack", "spans"),  # type: ignore[arg-type]
        )
        ready()
        done = extract(ctx, sources, plan, task, options)
        end, cpu = time.perf_counter(), time.process_time()
        wall = end - clockwork.first
        if done.faults or done.manifest is None:
            raise RuntimeError(f"the task failed: {done.faults}")
        records = sum(unit.counts.written for unit in done.manifest.units)
        facts: dict[str, float] = {stage: clockwork.seconds[stage] / wall for stage in STAGES}
        facts["rest"] = 1 - sum(facts.values())
        facts["delivered"] = clockwork.delivered / records
        facts["tail"] = clockwork.closed - clockwork.last
        self.clean(number)
        return Sample(records, wall, cpu - clockwork.cpu, facts)

    def _ports(self, store: Store, clockwork: Clockwork, tier: str) -> tuple[Context, Sources, IngestConfig]:
        settings = client_settings({"bootstrap.servers": self.servers})
        registry = FakeRegistry()
        for _ in range(int.from_bytes(FRAME[1:], "big")):  # up to the id that the data carry
            registry.register(self.dataset.name, json.dumps({**self.dataset.schema, "doc": str(next(_numbers))}))
        timed: Store = TimedStore(store, clockwork, "store")  # type: ignore[assignment] # hands all else on
        ctx = Context(
            log=CommitLog(store, timed, ThreadWorkers(), "bench"),
            run=RunRef(dag_id="bench", run_id="r"),
            clock=SystemClock(),
            ids=RandomIds(),
            run_states=KnownRuns(),
        )
        sources = Sources(
            catalog=KafkaCatalog(settings),
            open_reader=lambda: TimedReader(  # type: ignore[return-value] # hands all else on
                READERS.get(tier, KafkaReader)(settings), clockwork, "read"
            ),
            registry=registry,
            codec=FastavroCodec(),
        )
        config = IngestConfig.of(
            {
                "topics": [self.dataset.name],
                "destination": "file:///bench",
                "pipeline_id": "bench",
                "bootstrap": "earliest",
                "registry": "http://registry.bench",
                "value_format": "avro_confluent",
                "time_field": "header.time",
                "time_bounds": ("1980-01-01T00:00:00Z", "2100-01-01T00:00:00Z"),
                "codec": "null",
                "max_tasks": 1,
                **self.arguments,
            }
        )
        return ctx, sources, config

    def _plan(self, ctx: Context, sources: Sources, config: IngestConfig) -> Plan:
        plan = make_plan(ctx, sources, config, PlanRequest()).plan
        if self.share == 1.0:
            return plan
        import dataclasses

        tasks = [
            dataclasses.replace(
                task,
                units=tuple(
                    dataclasses.replace(
                        unit,
                        work_units=tuple(
                            dataclasses.replace(work, high=work.low + int((work.high - work.low) * self.share))
                            for work in unit.work_units
                        ),
                    )
                    for unit in task.units
                ),
            )
            for task in plan.tasks
        ]
        return dataclasses.replace(plan, tasks=tuple(tasks))
