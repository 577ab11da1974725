"""One pipeline on any store: processes that may die at a store call, one recovery, and what must hold after it."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.exceptions import KafkaHdfsError
from airflow_kafka_hdfs.ingest.bulk import bulk_steps
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.doctor import data_files, examine
from airflow_kafka_hdfs.ingest.examining import Severity
from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract
from airflow_kafka_hdfs.ingest.finishing import finish, owed_events
from airflow_kafka_hdfs.ingest.judging import Verdict, judge
from airflow_kafka_hdfs.ingest.layout import DataPaths
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.outfitting import Tools
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.publishing import announce
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes, RunRef, TopicPartition
from airflow_kafka_hdfs.ports.runtime import Workers
from airflow_kafka_hdfs.ports.store import StagedWriter, Store
from tests.fakes.faulty_store import Call, Crash, Fault, FaultyStore
from tests.fakes.kafka import FakeCluster
from tests.fakes.runtime import KnownRuns, ManualClock, ManualStop, RecordedProgress, SeededIds, SerialWorkers

T = TypeVar("T")

TOPICS = {"clicks": 2, "events": 2}
"""Topic -> partitions; small enough for one mapped task each. Clicks are read one by one, events in whole batches."""

FAST = bulk_steps(tiers.choose())

STATE = DataPaths("p").home


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Which call goes wrong: the one of this number in this process (both from 1)."""

    process: int
    fault: Fault

    def __str__(self) -> str:
        return f"{self.fault.kind} at call {self.fault.at} of process {self.process}"


@functools.cache
def config(policy: str = "full", state_uri: str | None = None) -> IngestConfig:
    """Of the ingestion, with a publish policy and a place of the log."""
    return IngestConfig.of(
        {
            "topics": sorted(TOPICS),
            "destination": "file:///data",
            "pipeline_id": "p",
            **({} if state_uri is None else {"state_uri": state_uri}),
            "value_format": "json",
            "file_format": "jsonl",
            "bootstrap": "earliest",
            "max_tasks": 2,
            "target_task_bytes": 1024,
            "publish_policy": policy,
            "topic_overrides": {"events": {"value_format": "bytes", "file_format": "raw"}},
        }
    )


class Job:
    """A pipeline, its cluster and its clock.

    Args:
        store: the destination.
        death: what goes wrong, None to learn what calls a scenario makes.
        workers: of the recovery and the checks; processes that may die call one after the other, so that the number
            of a call means the same each time.
        cluster: with topics and records.

    Attributes:
        state_uri: None for the default place of the log; anything else gives it an owner and copies.
        calls: of each process, in order.
        events: commit -> how often its events were sent.
        ended: processes that ended with an error, with it.
    """

    def __init__(
        self, store: Store, death: Death | None = None, *, workers: Workers | None = None, seed: int = 0
    ) -> None:
        self.store = store
        self.death = death
        self.workers = workers or SerialWorkers()
        self.clock = ManualClock()
        self.cluster = FakeCluster(clock=self.clock)
        self.runs = KnownRuns()
        self.seed = seed
        self.calls: list[list[Call]] = []
        self.events: Counter[int] = Counter()
        self.ended: list[tuple[str, BaseException]] = []
        self.recovering = False
        self.state_uri: str | None = None
        for topic, partitions in TOPICS.items():
            self.cluster.create_topic(topic, partitions)
        self.produce(2)

    # the world around

    def produce(self, each: int) -> None:
        """So many more records in every partition, which name themselves."""
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                for _ in range(each):
                    self.clock.advance(60)
                    offset = self.cluster._log(TopicPartition(topic, partition)).end
                    self.cluster.produce(
                        topic, partition, json.dumps({"t": topic, "p": partition, "o": offset}).encode()
                    )

    # processes

    def process(
        self,
        name: str,
        body: Callable[[Context, Sources], T],
        *,
        run_id: str,
        before: Callable[[Call], None] | None = None,
    ) -> T | None:
        """Do something in a process of its own; None if it died or gave up.

        Args:
            before: called before each of its store calls, for others to come between.
        """
        number = len(self.calls) + 1
        fault = self.death.fault if self.death is not None and self.death.process == number else None
        store = FaultyStore(self.store, fault, before_call=before)
        self.calls.append(store.calls)
        workers = self.workers if self.recovering else SerialWorkers()
        ctx, sources = self.ports(store, run_id, workers, number)
        try:
            return body(ctx, sources)
        except (Crash, KafkaHdfsError) as error:
            if self.recovering:
                raise
            self.ended.append((f"{name} of {run_id}", error))
            return None

    def ports(self, store: Store, run_id: str, workers: Workers, number: int = 0) -> tuple[Context, Sources]:
        ctx = Context(
            log=CommitLog(Below(store, STATE), store, workers, "p", copies=self.state_uri is not None),
            run=RunRef(dag_id="d", run_id=run_id),
            clock=self.clock,
            ids=SeededIds(1000 * self.seed + number),
            run_states=self.runs,
        )
        sources = Sources(
            catalog=self.cluster.catalog(), open_reader=self.cluster.reader, registry=None, codec=FastavroCodec()
        )
        return ctx, sources

    # steps of a run

    def plan(
        self, run_id: str, request: Mapping[str, Any] | None = None, before: Callable[[Call], None] | None = None
    ) -> Plan | None:
        asked = PlanRequest.of(request or {})
        return self.process(
            "plan",
            lambda ctx, sources: make_plan(ctx, sources, config(state_uri=self.state_uri), asked).plan,
            run_id=run_id,
            before=before,
        )

    def extract(self, plan: Plan, task: int, before: Callable[[Call], None] | None = None) -> None:
        options = ExtractOptions(
            tools=Tools(codecs=StandardCodecs(), settings=config().topic, fast=FAST),
            stop=ManualStop(),
            progress=RecordedProgress(),
        )
        self.process(
            f"extract[{task}]",
            lambda ctx, sources: extract(ctx, sources, plan, task, options),
            run_id=plan.run.run_id,
            before=before,
        )

    def publish(self, plan: Plan, policy: str = "full", before: Callable[[Call], None] | None = None) -> None:
        """The publish step, its events, and the word of the gate that they were sent."""
        commit_policy = config(policy).commit_policy(TOPICS)

        def body(ctx: Context, sources: Sources) -> None:
            done = finish(ctx, plan, commit_policy)
            self.events.update(commit.number for commit in done.to_announce)
            announce(ctx, [commit.number for commit in done.to_announce])

        self.process("publish", body, run_id=plan.run.run_id, before=before)

    def work(self, plan: Plan | None, policy: str = "full") -> None:
        """What follows `plan`: without a plan nothing, otherwise each task, however the others end."""
        if plan is not None:
            for task in plan.tasks:
                self.extract(plan, task.index)
            self.publish(plan, policy)

    def run(self, run_id: str, request: Mapping[str, Any] | None = None) -> Plan | None:
        """A whole run."""
        self.runs.alive[run_id] = True
        plan = self.plan(run_id, request)
        self.work(plan)
        return plan

    # the end

    def recover(self) -> Verdict:
        """Everybody is gone for good; one fresh run."""
        self.recovering = True
        self.runs.alive = dict.fromkeys(self.runs.alive, False)
        self.clock.advance(timedelta(days=2).total_seconds())
        plan = self.run("recovery")
        assert plan is not None
        ctx, _ = self.ports(self.store, "recovery", self.workers)
        return judge(ctx, plan, wait=False)

    def check(self) -> None:
        """Every record visible once, no file without a record, nothing for the doctor to do, no event owed."""
        ctx, _ = self.ports(self.store, "check", self.workers)
        assert self.visible(ctx) == Counter(
            (record.topic, record.partition, record.offset)
            for topic in TOPICS
            for record in self.cluster.committed(topic)
        )
        worse = [finding for finding in examine(ctx) if finding.severity is not Severity.NOTE]
        assert not worse, worse
        view = ctx.log.read(since=-1)
        assert not ctx.log.unpublished(view)
        assert not owed_events(ctx, view)
        silent = [n for n, commit in view.records.items() if commit.datasets and not self.events[n]]
        assert not silent, f"no events of commits {silent}"

    def visible(self, ctx: Context) -> Counter[tuple[str, int, int]]:
        """What a reader of the destination sees."""
        paths = [file.path for file in data_files(ctx, TOPICS)]
        lines = [line for data in self.workers.map(self.store.get, paths) for line in (data or b"").splitlines()]
        return Counter((item["t"], item["p"], item["o"]) for item in map(json.loads, lines))


class Below(Store):
    """The part of a store below a folder, as a store of its own."""

    def __init__(self, store: Store, folder: str) -> None:
        self.root = f"{store.root}/{folder}"
        self._store = store
        self._folder = folder

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._store.put_if_absent(self._full(path), data)

    def get(self, path: str) -> bytes | None:
        return self._store.get(self._full(path))

    def status(self, path: str) -> FileStatus | None:
        found = self._store.status(self._full(path))
        return None if found is None else self._short(found)

    def list(self, path: str) -> list[FileStatus]:
        return [self._short(found) for found in self._store.list(self._full(path))]

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        return self._store.create(self._full(path), modes=modes)

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        return self._store.promote(self._full(source), self._full(target), size, modes=modes)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self._store.delete(self._full(path), recursive=recursive)

    def _full(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder

    def _short(self, found: FileStatus) -> FileStatus:
        return replace(found, path=found.path[len(self._folder) + 1 :])
