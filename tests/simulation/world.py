"""One simulated pipeline: a disk, a Kafka cluster, a clock, and actors that run the real job code on them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.exceptions import KafkaHdfsError, PlanEndedError, Transient
from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.layout import DataPaths
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.outfitting import Tools
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.publishing import roll_forward_all
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef, TopicPartition
from tests.fakes.kafka import FakeCluster
from tests.fakes.runtime import KnownRuns, ManualClock, ManualStop, RecordedProgress, SeededIds, SerialWorkers
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import Disk, SimulatedStore, Violation

TOPIC = "events"
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What kind of trouble a world has.

    Attributes:
        lost_answers: share of changing store calls whose answer is lost after they took effect.
        stale_listings: share of listings that miss their newest file.
        crash_share: chance per step that the actor at hand dies.
    """

    lost_answers: float = 0.0
    stale_listings: float = 0.0
    crash_share: float = 0.01


@dataclass
class World:
    """Everything of one seed.

    Args:
        seed: decides all choices.
        variant: what trouble there is.
        arguments: of the ingestion, on top of small defaults.
    """

    seed: int
    variant: Variant = field(default_factory=Variant)
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.clock = ManualClock()
        self.disk = Disk(lambda: self.clock.now().timestamp())
        self.scheduler = Scheduler(self.seed, self.variant.crash_share)
        self.cluster = FakeCluster(clock=self.clock, on_call=self._pause)
        self.runs = KnownRuns()
        self.quiet = False
        self._actors = 0
        self.partitions = self.random.choice((1, 2, 3))
        self.cluster.create_topic(TOPIC, self.partitions)
        self.config = IngestConfig.of(
            {
                "topics": [TOPIC],
                "destination": "sim://disk",
                "pipeline_id": "p",
                "value_format": "json",
                "file_format": "jsonl",
                "bootstrap": "earliest",
                "max_tasks": 2,
                "target_task_bytes": 1024,
                **self.arguments,
            }
        )

    def _pause(self, label: str) -> None:
        if not self.quiet:
            self.scheduler.pause(label)

    def produce(self, records: int) -> None:
        """Append records that name themselves, in order of time."""
        for _ in range(records):
            partition = self.random.randrange(self.partitions)
            self.clock.advance(self.random.choice((1, 60, 900)))
            tp = TopicPartition(TOPIC, partition)
            quiet, self.quiet = self.quiet, True
            offsets = self.cluster.catalog().offsets([tp])[tp]
            self.quiet = quiet
            assert not isinstance(offsets, str)
            value = json.dumps({"t": TOPIC, "p": partition, "o": offsets.high_watermark}).encode()
            self.cluster.produce(TOPIC, partition, value)

    def ports(self, run_id: str) -> tuple[Context, Sources]:
        """Ports of one more process."""
        self._actors += 1
        chance = random.Random(f"{self.seed}/{self._actors}")

        def store(prefix: str) -> SimulatedStore:
            return SimulatedStore(
                self.disk,
                self._pause,
                chance,
                prefix=prefix,
                lost_answers=self.variant.lost_answers,
                stale_listings=self.variant.stale_listings,
            )

        home = DataPaths("p").home
        log = CommitLog(store(f"{home}/"), store(""), SerialWorkers(), "p")
        ctx = Context(
            log=log,
            run=RunRef(dag_id="d", run_id=run_id),
            clock=self.clock,
            ids=SeededIds(hash((self.seed, self._actors)) % 2**32),
            run_states=self.runs,
        )
        sources = Sources(
            catalog=self.cluster.catalog(),
            open_reader=lambda: self.cluster.reader(records_per_partition=2),
            registry=None,
            codec=FastavroCodec(),
        )
        return ctx, sources

    # what actors do

    def run(self, run_id: str, request: PlanRequest | None = None, *, tries: int = 1) -> Callable[[], None]:
        """A whole run in one process, each step with its retries; ends early when a step gives up."""

        def body() -> None:
            self.runs.alive[run_id] = True
            ctx, sources = self.ports(run_id)
            plan = self._tried(tries, lambda: make_plan(ctx, sources, self.config, request or PlanRequest()).plan)
            self._work(plan, run_id, tries)

        return body

    def _work(self, plan: Plan, run_id: str, tries: int) -> None:
        for task in plan.tasks:
            with suppress(KafkaHdfsError):
                self._tried(tries, self._extraction(plan, run_id, task.index))
        ctx, _ = self.ports(run_id)
        policy = self.config.commit_policy([TOPIC])
        self._tried(tries, lambda: finish(ctx, plan, policy, grace=self.config.gc_grace))
        judge(ctx, plan, wait=False)

    def _extraction(self, plan: Plan, run_id: str, task: int) -> Callable[[], object]:
        ctx, sources = self.ports(run_id)
        return lambda: extract(ctx, sources, plan, task, self.options())

    def options(self) -> ExtractOptions:
        """As the extract operator hands them in."""
        return ExtractOptions(
            tools=Tools(codecs=StandardCodecs(), settings={TOPIC: self.config.topic(TOPIC)}),
            stop=ManualStop(),
            progress=RecordedProgress(),
            reading=ReadOptions(batch_records=3),
        )

    def _tried(self, tries: int, step: Callable[[], Any]) -> Any:
        for left in reversed(range(tries)):
            try:
                return step()
            except Exception as error:
                if not isinstance(error, Transient) or not left:
                    raise
        return None

    def extract_again(self, run_id: str) -> Callable[[], None]:
        """A second attempt of each mapped task of a run's plan, beside the first, and a publish after it."""

        def body() -> None:
            ctx, sources = self.ports(run_id)
            plan = make_plan(ctx, sources, self.config, PlanRequest()).plan
            self._work(plan, run_id, 1)

        return body

    def operator(self) -> Callable[[], None]:
        """Somebody at the command line: recovers, and cleans without any grace."""

        def body() -> None:
            ctx, _ = self.ports("operator")
            for _ in range(2):
                roll_forward_all(ctx, ctx.log.read())
                collect(ctx, grace=timedelta(seconds=-1))

        return body

    # the end

    def settle(self) -> None:
        """After everything died or ended: a fresh run must bring each offset exactly once."""
        self.quiet = True
        self.variant = Variant(crash_share=0.0)
        for run_id in self.runs.alive:
            self.runs.alive[run_id] = False
        self.clock.advance(timedelta(days=2).total_seconds())
        for number in range(3):
            self.run(f"settle-{number}", tries=1)()
        wanted = {(TOPIC, record.partition, record.offset) for record in self.cluster.committed(TOPIC)}
        missing = sorted(wanted - set(self.disk.visible))
        if missing:
            raise Violation(f"offsets are lost: {missing}")
        extra = sorted(set(self.disk.visible) - wanted)
        if extra:
            raise Violation(f"visible, but not in Kafka: {extra}")
        leftovers = [path for path in self.disk.files if "/staging/" in path]
        if leftovers:
            raise Violation(f"staging was not cleaned: {leftovers}")


def check_errors(world: World) -> None:
    """Actors may end because the store went away or their plan was ended; anything else is a fault of ours."""
    for actor in world.scheduler.actors:
        error = actor.error
        if error is not None and not isinstance(error, Transient | PlanEndedError):
            raise Violation(f"{actor.name} ended with {error!r}") from error
