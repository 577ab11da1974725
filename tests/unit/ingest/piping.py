"""Whole runs in a few lines: a cluster and a store in memory, every step the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract
from airflow_kafka_hdfs.ingest.finishing import Finished, finish
from airflow_kafka_hdfs.ingest.judging import Verdict, judge
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.outfitting import Tools
from airflow_kafka_hdfs.ingest.planning import Planned, make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.faulty_store import FaultyStore
from tests.fakes.kafka import FakeCluster
from tests.fakes.registry import FakeRegistry
from tests.fakes.runtime import KnownRuns, ManualClock, ManualStop, RecordedProgress, SeededIds, SerialWorkers
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import FAST, read_back


@dataclass
class World:
    """What all runs share, and the arguments of the DAG."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    store: Any = field(default_factory=InMemoryStore)
    registry: FakeRegistry = field(default_factory=FakeRegistry)
    runs: KnownRuns = field(default_factory=KnownRuns)
    arguments: dict[str, Any] = field(default_factory=dict)
    seeds: int = 0
    states: dict[str, InMemoryStore] = field(default_factory=dict)

    def config(self, **changes: Any) -> IngestConfig:
        given = {
            "topics": ["events"],
            "destination": "file:///data",
            "pipeline_id": "p",
            "file_format": "jsonl",
            "value_format": "json",
            "bootstrap": "earliest",
            **self.arguments,
            **changes,
        }
        return IngestConfig.of(given)

    @property
    def clock(self) -> ManualClock:
        return self.cluster.clock

    def produce(self, topic: str, partition: int, *values: int, at: datetime | None = None) -> None:
        """Records whose value is a number in JSON."""
        self.cluster.produce(
            topic,
            partition,
            *(str(value).encode() for value in values),
            timestamp=None if at is None else millis(at),
        )

    def run(self, run_id: str = "run-1", **changes: Any) -> Run:
        """An actor that belongs to a run."""
        self.seeds += 1
        return Run(world=self, run_id=run_id, config=self.config(**changes), seed=self.seeds)

    def values(self, topic: str = "events") -> Counter[int]:
        """Every value in the visible files of a topic, with how often it stands there."""
        found: Counter[int] = Counter()
        for path, content in self.store.files().items():
            if path.startswith(f"{topic}/") and FileName.parse(path.rsplit("/", 1)[-1]) is not None:
                found.update(read_back(path, content))
        return found


@dataclass
class Run:
    """One attempt of the tasks of one run."""

    world: World
    run_id: str
    config: IngestConfig
    seed: int = 0
    store: Any = None
    on_call: Callable[[str], None] | None = None

    def context(self) -> Context:
        store = self.store or self.world.store
        pipeline = self.config.pipeline
        state = store if pipeline == "p" else self.world.states.setdefault(pipeline, InMemoryStore())
        return Context(
            log=CommitLog(state, store, SerialWorkers(), pipeline),
            run=RunRef(dag_id="dag", run_id=self.run_id, group="ingest", who="tester"),
            clock=self.world.clock,
            ids=SeededIds(self.seed),
            run_states=self.world.runs,
        )

    def sources(self) -> Sources:
        return Sources(
            catalog=self.world.cluster.catalog(),
            open_reader=self.world.cluster.reader,
            registry=self.world.registry,
            codec=FastavroCodec(),
        )

    def plan(self, params: Mapping[str, Any] | None = None, **run: Any) -> Planned:
        self.seed += 100
        return make_plan(self.context(), self.sources(), self.config, PlanRequest.of(params or {}, **run))

    def extract(self, plan: Plan, task: int, reading: ReadOptions | None = None) -> list[str]:
        """Do one mapped task; its faults."""
        self.seed += 100
        options = ExtractOptions(
            tools=Tools(codecs=StandardCodecs(), settings=self.config.topic, fast=FAST),
            stop=ManualStop(),
            progress=RecordedProgress(),
            reading=reading or ReadOptions(),
        )
        return extract(self.context(), self.sources(), plan, task, options).faults

    def finish(self, plan: Plan) -> Finished:
        self.seed += 100
        return finish(self.context(), plan, self.config.commit_policy(plan.config))

    def judge(self, plan: Plan) -> Verdict:
        return judge(self.context(), plan)

    def whole(self, params: Mapping[str, Any] | None = None, **run: Any) -> tuple[Planned, Verdict]:
        """Every step, one after the other."""
        planned = self.plan(params, **run)
        for task in planned.plan.tasks:
            self.extract(planned.plan, task.index)
        self.finish(planned.plan)
        return planned, self.judge(planned.plan)


HOUR = timedelta(hours=1)
RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


def reasons(planned):
    return {str(entry.key): entry.reason for entry in planned.plan.entries}


def ranges(planned):
    return {str(key): spans for key, spans in planned.plan.ranges().items()}


def records(world, run="reader"):
    view = world.run(run).context().log.read(since=-1)
    return [commit for _, commit in sorted(view.records.items())]


def overtaken(run, folder, what):
    """Let something happen in the moment before a run first creates a file in a folder; what it returned."""
    done = []

    def before(call):
        if call.name == "put_if_absent" and call.path.startswith(folder) and not done:
            done.append(None)
            done[0] = what()

    run.store = FaultyStore(run.world.store, before_call=before)
    return done
