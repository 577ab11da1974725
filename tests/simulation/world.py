"""One simulated pipeline: a disk, a Kafka cluster, a clock, and actors that run the real job code on them."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.exceptions import OwnedElsewhereError, PlanEndedError, PlanningError, Transient
from airflow_kafka_hdfs.ingest.bulk import bulk_steps
from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.examining import Severity
from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.layout import DataPaths
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.outfitting import Tools
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.publishing import announce, roll_forward_all
from airflow_kafka_hdfs.ingest.quarantine_reading import Choice
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.replaying import draft_replay, replay
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.ingest.steering import carry_out, start_points
from airflow_kafka_hdfs.ingest.usercode import UserRecord
from airflow_kafka_hdfs.model import RunRef, TopicPartition
from tests.fakes.kafka import FakeCluster, FakeTransaction
from tests.fakes.runtime import START, KnownRuns, ManualClock, ManualStop, RecordedProgress, SeededIds, SerialWorkers
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import Chance, Disk, Ended, SimulatedStore, Violation

TOPIC = "events"
PIPELINES = (PIPELINE, STRANGER) = ("p", "q")
"""Of one destination; the second one is after the same topic in some seeds."""

BAD = b"\xff"
HOUR = timedelta(hours=1)
FAST = bulk_steps(tiers.choose())


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What kind of trouble a world has.

    Attributes:
        lost_answers: share of changing store calls whose answer is lost after they took effect.
        stale_listings: share of listings that miss their newest file.
        crash_share: chance per step that the actor at hand dies.
        stickiness: chance per step that the same actor goes on.
        copies: the store puts under a new name and deletes the old one, as object stores do.
    """

    lost_answers: float = 0.0
    stale_listings: float = 0.0
    crash_share: float = 0.01
    stickiness: float = 0.0
    copies: bool = False


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
        self.disk = Disk(lambda: START.timestamp() + self.clock.monotonic())
        self.scheduler = Scheduler(self.seed, self.variant.crash_share, self.variant.stickiness)
        self.cluster = FakeCluster(clock=self.clock, on_call=self._pause)
        self.runs = KnownRuns()
        self.copies = self.variant.copies
        self.quiet = False
        self._actors = 0
        self.events: set[tuple[str, int]] = set()
        self.partitions = self.random.choice((1, 2, 3))
        self.cluster.create_topic(TOPIC, self.partitions)
        self.given = tuple(sorted(self.arguments.items()))
        self.config = _config(PIPELINE, self.given)
        self.bad_share = 0.0
        self.transactions: list[FakeTransaction] = []

    def _pause(self, label: str) -> None:
        if not self.quiet:
            self.scheduler.pause(label)

    # what happens in Kafka

    def produce(self, records: int, transaction: FakeTransaction | None = None) -> None:
        """Append records that name themselves, in order of time."""
        for _ in range(records):
            partition = self.random.randrange(self.partitions)
            self.clock.advance(self.random.choice((1, 60, 900)))
            offset = self.cluster._log(TopicPartition(TOPIC, partition)).end
            value = json.dumps({"t": TOPIC, "p": partition, "o": offset}).encode()
            if self.random.random() < self.bad_share:
                value = BAD + value
            (transaction or self.cluster).produce(TOPIC, partition, value)

    def begin_transaction(self) -> None:
        """A transaction with a few records, which holds the last stable offset until it ends."""
        self.transactions.append(self.cluster.transaction())
        self.produce(self.random.randint(1, 3), self.transactions[-1])

    def end_transactions(self) -> None:
        """Commit or abort what is open."""
        for transaction in self.transactions:
            if transaction.state == "open":
                self.random.choice((transaction.commit, transaction.abort))()

    def compact(self) -> None:
        """Remove some records; only before anybody has read them, or files would hold more than Kafka does."""
        for partition in range(self.partitions):
            end = self.cluster._log(TopicPartition(TOPIC, partition)).end
            self.cluster.compact(TOPIC, partition, *(o for o in range(end) if self.random.random() < 0.3))

    def ports(self, run_id: str, pipeline: str = PIPELINE) -> tuple[Context, Sources]:
        """Ports of one more process."""
        self._actors += 1
        chance = Chance(f"{self.seed}/{self._actors}")

        def store(prefix: str) -> SimulatedStore:
            return SimulatedStore(
                self.disk,
                self._pause,
                chance,
                prefix=prefix,
                lost_answers=self.variant.lost_answers,
                stale_listings=self.variant.stale_listings,
                copies=self.copies,
            )

        home = DataPaths(pipeline).home
        log = CommitLog(store(f"{home}/"), store(""), SerialWorkers(), pipeline)
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

    def run(
        self,
        run_id: str,
        request: PlanRequest | None = None,
        *,
        tries: int = 1,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        looks_alive: bool = True,
        pipeline: str = PIPELINE,
    ) -> Callable[[], None]:
        """A whole run in one process, each step with its retries; ends early when a step gives up.

        Args:
            looks_alive: what the others are told of it; a wrong word may cost work, never records.
        """

        def body() -> None:
            self.runs.alive[run_id] = looks_alive
            ctx, sources = self.ports(run_id, pipeline)
            config = _config(pipeline, self.given)
            plan = self._tried(tries, lambda: make_plan(ctx, sources, config, request or PlanRequest()).plan)
            self._work(plan, run_id, tries, limits)

        return body

    def resetting(self, run_id: str, to: str) -> Callable[[], None]:
        """A run that is asked to move the start point before it plans."""

        def body() -> None:
            ctx, _ = self.ports(run_id)
            # It would set the first start point, and nobody was promised anything below that.
            reset = {TOPIC: to} if ctx.log.read().state.topics else {}
            self.run(run_id, PlanRequest.of({"reset": reset}))()

        return body

    def _work(self, plan: Plan, run_id: str, tries: int, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        for task in plan.tasks:
            try:
                self._tried(tries, self._extraction(plan, run_id, task.index, limits))
            except Exception as error:
                if not isinstance(error, Transient | PlanEndedError):
                    raise
                # The task is red; `publish` follows all the same.
        ctx, _ = self.ports(run_id, plan.pipeline)
        policy = self.config.commit_policy([TOPIC])

        def publish() -> None:
            done = finish(ctx, plan, policy, grace=self.config.gc_grace)
            numbers = [commit.number for commit in done.to_announce]
            self.events.update((plan.pipeline, number) for number in numbers)
            announce(ctx, numbers)

        self._tried(tries, publish)
        judge(ctx, plan, wait=False)

    def _extraction(self, plan: Plan, run_id: str, task: int, limits: Limits) -> Callable[[], object]:
        ctx, sources = self.ports(run_id, plan.pipeline)
        return lambda: extract(ctx, sources, plan, task, self.options(limits))

    def options(self, limits: Limits) -> ExtractOptions:
        """As the extract operator hands them in."""
        return ExtractOptions(
            tools=Tools(codecs=StandardCodecs(), settings=self.config.topic, fast=FAST),
            stop=ManualStop(),
            progress=RecordedProgress(),
            reading=ReadOptions(batch_records=3, limits=limits),
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
            self.runs.alive.setdefault(run_id, True)
            ctx, sources = self.ports(run_id)
            plan = make_plan(ctx, sources, self.config, PlanRequest()).plan
            self._work(plan, run_id, 1)

        return body

    def dead_after_commit(self, run_id: str) -> Callable[[], None]:
        """A run that dies right after its commit: no file of it is in place."""

        def body() -> None:
            ctx, sources = self.ports(run_id)
            plan = make_plan(ctx, sources, self.config, PlanRequest()).plan
            for task in plan.tasks:
                self._extraction(plan, run_id, task.index, Limits())()
            commit_plan(ctx, plan, self.config.commit_policy([TOPIC]))
            self.runs.alive[run_id] = False

        return body

    def operator(self) -> Callable[[], None]:
        """Somebody at the command line: recovers or not, and cleans without any grace."""

        def body() -> None:
            ctx, _ = self.ports("operator")
            for _ in range(2):
                if self.random.random() < 0.5:
                    roll_forward_all(ctx, ctx.log.read())
                collect(ctx, grace=timedelta(seconds=-1))

        return body

    def replayer(self, pipeline: str = PIPELINE) -> Callable[[], None]:
        """Somebody at the command line takes bad records in, with a decoder that knows them by now."""

        def body() -> None:
            ctx, sources = self.ports("replayer", pipeline)
            mended = _mended(pipeline, self.given)
            draft = draft_replay(ctx, sources, mended, Choice())
            replay(ctx, sources, mended, StandardCodecs(), draft.names, "simulated")

        return body

    def setter(self, to: str) -> Callable[[], None]:
        """Somebody at the command line moves the start point."""

        def body() -> None:
            ctx, sources = self.ports("setter")
            if not ctx.log.read().state.topics:
                return  # it would set the first start point, and nobody was promised anything below that
            carry_out(ctx, start_points(sources, self.config, {TOPIC: to}), "simulated")

        return body

    # the end

    def settle(self) -> None:
        """After everything died or ended: one fresh run must bring each offset exactly once."""
        self.quiet = True
        self.variant = Variant(crash_share=0.0)
        # Airflow knows no run of a command, which is an answer: it is gone.
        self.runs.alive = {**dict.fromkeys(self.runs.alive, False), "replayer": False}
        self.end_transactions()
        self.cluster.allow(TOPIC)
        self.clock.advance(timedelta(days=2).total_seconds())
        owner = self.owner or PIPELINE
        self.run("settle", pipeline=owner)()
        self._settle_losers(owner)
        before = len(self.disk.commits)
        if self.bad_share:
            self.replayer(owner)()
        if len(self.disk.commits) > before:
            self.run("settle again", pipeline=owner)()  # which sends the events of the replay
        self._check_records(owner)
        self._check_log(owner)
        for pipeline in PIPELINES:
            ctx, _ = self.ports("settle", pipeline)
            collect(ctx, grace=self.config.gc_grace)
        leftovers = [path for path in self.disk.files if "/staging/" in path]
        if leftovers:
            raise Violation(f"staging was not cleaned: {leftovers}")

    @property
    def owner(self) -> str | None:
        """The pipeline that has the topic."""
        data = self.disk.files.get(DataPaths(PIPELINE).owner(TOPIC))
        return None if data is None else str(json.loads(data)["pipeline"])

    def _settle_losers(self, owner: str) -> None:
        """A pipeline that came too late gets no part of the topic, however often it tries."""
        for pipeline in PIPELINES:
            if pipeline != owner and DataPaths(pipeline).home in self.disk.logs:
                with suppress(OwnedElsewhereError):
                    self.run("settle late", pipeline=pipeline)()

    def _check_records(self, owner: str) -> None:
        given_up = self._given_up(owner)
        committed = {(TOPIC, record.partition, record.offset) for record in self.cluster.committed(TOPIC)}
        wanted = {
            (TOPIC, record.partition, record.offset)
            for record in self.cluster.committed(TOPIC)
            if not Ranges.span(record.offset, record.offset + 1) & given_up.get(record.partition, Ranges())
        }
        missing = sorted(wanted - set(self.disk.visible))
        if missing:
            raise Violation(f"offsets are lost: {missing}")
        extra = sorted(set(self.disk.visible) - committed)
        if extra:
            raise Violation(f"visible, but not in Kafka: {extra}")

    def _given_up(self, owner: str) -> dict[int, Ranges]:
        """Offsets that the log says were skipped on somebody's word; what it is silent about has to be there."""
        ctx, _ = self.ports("settle", owner)
        state = ctx.log.read().state
        return {key.partition: state.coverage[key].skipped for key in state.current.values()}

    def _check_log(self, owner: str) -> None:
        ctx, _ = self.ports("settle", owner)
        worse = [finding for finding in examine(ctx) if finding.severity is not Severity.NOTE]
        if worse:
            raise Violation(f"the doctor finds: {worse}")
        with_data = {
            (owner, commit["number"])
            for commit in self.disk.commits
            if any(not entry["quarantine"] for entry in commit["files"])
        }
        if silent := sorted(with_data - self.events):
            raise Violation(f"no events were sent of commits {silent}")


@functools.cache
def _config(pipeline: str, arguments: tuple[tuple[str, Any], ...]) -> IngestConfig:
    return IngestConfig.of(
        {
            "topics": [TOPIC],
            "destination": "sim://disk",
            "pipeline_id": pipeline,
            "value_format": "json",
            "file_format": "jsonl",
            "bootstrap": "earliest",
            "max_bad_share": None,
            "max_tasks": 2,
            "target_task_bytes": 1024,
            **dict(arguments),
        }
    )


def decode_mended(record: UserRecord) -> Any:
    """Knows what was bad: a byte in front of the JSON."""
    return json.loads(record.value.removeprefix(BAD))


@functools.cache
def _mended(pipeline: str, arguments: tuple[tuple[str, Any], ...]) -> IngestConfig:
    given = dict(arguments)
    if given.get("value_format", "json") == "json":
        given["value_format"] = decode_mended
    return _config(pipeline, tuple(sorted(given.items())))


def check_errors(world: World) -> None:
    """Actors may end because the store went away, their plan was ended or a replace is refused; all else is a fault."""
    for actor in world.scheduler.actors:
        error = actor.error
        if isinstance(error, Violation):
            raise error
        if error is not None and not isinstance(error, Transient | PlanEndedError | PlanningError):
            raise Ended(f"{actor.name} ended with {error!r}") from error
