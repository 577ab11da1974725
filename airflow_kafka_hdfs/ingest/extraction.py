"""Extract: one mapped task of a plan, from its work units to its manifest.

1. Look at the log and at the task's manifests: what is still to be read of this task?
2. Check that cluster and topics are the ones that were planned.
3. Read (`reading`), writing into a staging folder of this attempt alone.
4. Check cluster and topics again; close every file.
5. Create the manifest, unless another attempt was faster: then its manifest counts, and this staging goes.

A fault of one topic ends that unit at an exact position and stands in the manifest. A transient fault leaves no
manifest: the attempt is repeated.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_kafka_hdfs.exceptions import PlanEndedError, StorageError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.bulk import bulk_steps
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.datum.packing import Tier
from airflow_kafka_hdfs.ingest.identity_check import identity_faults
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.outfitting import Outfitter, Tools
from airflow_kafka_hdfs.ingest.plan_book import PlanStanding, manifests, records_of, standing
from airflow_kafka_hdfs.ingest.plans import Plan, UnitPlan
from airflow_kafka_hdfs.ingest.reading import BATCH_RECORDS, ReadOptions, Surroundings, TaskReading
from airflow_kafka_hdfs.ingest.records import Commit, Kind, Manifest, Outcome, UnitResult
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.ingest.unit_reading import UnitReading
from airflow_kafka_hdfs.ingest.usercode import Event
from airflow_kafka_hdfs.metrics import Metrics
from airflow_kafka_hdfs.model import PartitionOffsets
from airflow_kafka_hdfs.ports.runtime import Progress, StopSignal
from airflow_kafka_hdfs.ports.schemas import Codecs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractOptions:
    """How a task is done.

    Attributes:
        tools: what the running code brings.
        reading: how the task reads, its limits among it.
    """

    tools: Tools
    stop: StopSignal
    progress: Progress
    reading: ReadOptions = ReadOptions()

    @classmethod
    def of(
        cls,
        config: IngestConfig,
        *,
        codecs: Codecs,
        stop: StopSignal,
        progress: Progress,
        tier: Tier | None = None,
        limits: Limits | None = None,
    ) -> ExtractOptions:
        """Options from the configuration at hand.

        Args:
            config: of the pipeline; its limits, callables and `max_bad_*` count, the rest comes from the plan.
            codecs: compressors.
            stop: Airflow's wish to end the task.
            progress: where it tells how far it is.
            tier: packs whole batches; None leaves all to the reference.
            limits: of this run, where they differ from the configuration's.
        """
        return cls(
            tools=Tools(codecs=codecs, settings=config.topic, fast=None if tier is None else bulk_steps(tier)),
            stop=stop,
            progress=progress,
            reading=ReadOptions(
                batch_records=BATCH_RECORDS if tier is None else tier.batch_size,
                limits=config.limits if limits is None else limits,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What became of a task.

    Attributes:
        manifest: that counts; None if every unit was committed before and nothing was to be done.
        read: whether this attempt read anything; False if every unit was finished before.
        made: whether this attempt made the manifest; False if another one was faster.
        gone: units whose rest went back to the log, as the text of an error; empty for none.
        events: of user code, of this attempt.
    """

    manifest: Manifest | None
    read: bool = False
    made: bool = False
    gone: str = ""
    events: tuple[Event, ...] = field(default=())

    @property
    def failed(self) -> list[UnitResult]:
        """Units that failed; the caller fails the task, and no retry would help."""
        if self.manifest is None or not self.read:
            return []
        return [unit for unit in self.manifest.units if unit.outcome is Outcome.FAILED]

    @property
    def faults(self) -> list[str]:
        """Lines that tell why the task has to fail; empty for a good one."""
        lines = [f"topic {unit.topic}: {unit.reason}: {unit.detail}" for unit in self.failed]
        return [*lines, self.gone] if self.gone else lines


def extract(ctx: Context, sources: Sources, plan: Plan, task: int, options: ExtractOptions) -> Extraction:
    """Do one mapped task of a plan.

    Args:
        ctx: ports of this run.
        sources: where records and schemas come from.
        plan: the plan, as stored.
        task: index of the mapped task.
        options: what the running code brings.

    Returns:
        The manifest that counts; look at `faults`.

    Raises:
        PlanEndedError: the plan was ended, or all that is left of the task went back to the log.
        Stopped: Airflow wants the task to end.
        KafkaUnavailableError, RegistryUnavailableError, StoreUnavailableError: transient; no manifest was made.
        StoreRefusedError, CorruptStateError, ConfigError: no manifest was made.
    """
    view = ctx.log.read(since=plan.log_head)
    state = standing(view, plan)
    _refuse_ended(plan.plan, state.aborted)
    before = manifests(ctx, plan, task)
    units, gone = _to_read(plan, task, state, before)
    if not units:
        if gone:
            raise PlanEndedError(gone)
        return Extraction(manifest=before[-1] if before else None)
    return _Attempt(ctx, sources, plan, task, options, view, before).run(units, gone)


def is_long_settled(ctx: Context, plan: str, task: int) -> bool:
    """Whether a task of a plan whose record is gone has nothing left to do: all of it was committed.

    Args:
        ctx: ports of this run.
        plan: name of the plan.
        task: index of the mapped task.

    Returns:
        False if the log has no word of the plan.

    Raises:
        PlanEndedError: the plan was ended, or what failed in the task went back to the log.
        StoreUnavailableError, StoreRefusedError, CorruptStateError: from reading the log.
    """
    commits = records_of(ctx, plan)
    for commit in commits:
        if commit.kind is Kind.ABORT:
            _refuse_ended(plan, commit)
    gone = [
        f"topic {unit.topic}: the rest went back in commit {commit.number}"
        for commit in commits
        for unit in commit.units
        if unit.task == task and unit.outcome == Outcome.FAILED and unit.rest
    ]
    if gone:
        raise PlanEndedError(_went_back(gone))
    return bool(commits)


def _went_back(gone: Sequence[str]) -> str:
    return "; ".join(gone) + ": clear `plan` or wait for the next run"


def _refuse_ended(plan: str, ended: Commit | None) -> None:
    if ended is None:
        return
    raise PlanEndedError(
        f"plan {plan} was ended by commit {ended.number} ({ended.why}, by {ended.who or ended.run.run_id}): its "
        "offsets went back to the log; clear `plan` or wait for the next run"
    )


def _to_read(plan: Plan, task: int, state: PlanStanding, before: Sequence[Manifest]) -> tuple[list[UnitPlan], str]:
    """Units that no commit has taken and no manifest has finished; and what to say of those whose rest is gone."""
    latest = {result.topic: result for manifest in before for result in manifest.units}
    undecided = set(state.undecided)
    units, gone = [], []
    for unit in plan.tasks[task].units:
        known = latest.get(unit.topic)
        if (task, unit.topic) in undecided:
            if known is None or known.outcome is Outcome.FAILED:
                units.append(unit)
        elif known is not None and known.outcome is Outcome.FAILED and (task, unit.topic) in state.rest:
            number = next(
                commit.number
                for commit in state.commits
                for taken in (*commit.units, *commit.dropped)
                if (taken.task, taken.topic) == (task, unit.topic)
            )
            gone.append(f"topic {unit.topic}: the rest went back in commit {number}")
    return units, _went_back(gone) if gone else ""


class _Attempt:
    """One attempt at the units that are left of a task."""

    def __init__(
        self,
        ctx: Context,
        sources: Sources,
        plan: Plan,
        task: int,
        options: ExtractOptions,
        view: LogView,
        before: Sequence[Manifest],
    ) -> None:
        self.ctx = ctx
        self.sources = sources
        self.plan = plan
        self.task = task
        self.options = options
        self.k = len(before)
        self.attempt = ctx.ids.hex(32)
        self.staging = ctx.log.data_paths.staging(plan.plan, task, self.attempt)
        self.metrics = Metrics(clock=ctx.clock.monotonic)
        self.outfitter = Outfitter(
            ctx,
            sources,
            plan,
            task,
            options.tools,
            staging=self.staging,
            metrics=self.metrics,
            newest_event=view.state.newest_event,
            first_index=_next_index(before),
        )

    def run(self, plans: Sequence[UnitPlan], gone: str) -> Extraction:
        """Read, check, close, and make the manifest."""
        start = self.ctx.clock.monotonic()
        readings = [self.outfitter.reading(unit) for unit in plans]
        try:
            self._refuse_strangers(readings)
            seconds_per_record = self._read(readings)
            results = self._results(readings, seconds_per_record)
        except BaseException as error:
            self.outfitter.files.abort()
            for reading in readings:
                reading.abort()
            if isinstance(error, Exception) and not self.options.stop.is_set():
                self._delete_staging()
            raise
        manifest = Manifest(
            plan=self.plan.plan,
            task=self.task,
            k=self.k,
            attempt=self.attempt,
            units=tuple(results),
            seconds=round(self.ctx.clock.monotonic() - start, 3),
            metrics=self.metrics.snapshot(),
        )
        return self._put(manifest, gone)

    def _refuse_strangers(self, readings: Sequence[UnitReading]) -> None:
        """Units whose cluster or topic is another one, or can't be described, end before anything is read."""
        for topic, fault in identity_faults(self.sources.catalog, [reading.plan for reading in readings]).items():
            for reading in readings:
                if reading.topic == topic:
                    reading.fail(fault.error(topic))

    def _read(self, readings: Sequence[UnitReading]) -> float:
        """Read all units; returns seconds per record."""
        for reading in readings:
            if reading.outcome is None:
                self.outfitter.equip(reading)
        if not any(tracker.active for reading in readings for tracker in reading.trackers.values()):
            for reading in readings:
                reading.end_if_done()
            return 0.0
        reader = self.sources.open_reader()
        try:
            around = Surroundings(
                reader, self.sources.catalog, self.ctx.clock, self.options.stop, self.options.progress
            )
            options = self.options.reading
            if self.plan.kind is Kind.REPLACE:  # what a limit left unread would be taken out of place all the same
                options = dataclasses.replace(options, limits=Limits())
            task = TaskReading(readings, around, options, self.plan.plan)
            task.run()
            return task.seconds / task.records if task.records else 0.0
        finally:
            reader.close()

    def _results(self, readings: Sequence[UnitReading], seconds_per_record: float) -> list[UnitResult]:
        faults = identity_faults(self.sources.catalog, [reading.plan for reading in readings])
        self._look_at_log_ends(readings)
        results = []
        for reading in readings:
            fault = faults.get(reading.topic)
            if fault is not None and fault.is_other:
                for path in reading.abort():
                    self.ctx.data.delete(path)
                results.append(reading.nothing_read(fault.reason, fault.detail))
            else:
                results.append(reading.result(seconds_per_record, self.staging))
                ways = ", ".join(f"{count} {way}" for way, count in sorted(reading.ways.items())) or "none"
                log.info("topic %s: %s; records by way: %s", reading.topic, results[-1].outcome.value, ways)
        return results

    def _look_at_log_ends(self, readings: Sequence[UnitReading]) -> None:
        trackers = {t.topic_partition: t for reading in readings for t in reading.trackers.values()}
        for tp, found in self.sources.catalog.offsets(list(trackers)).items():
            if isinstance(found, PartitionOffsets):
                trackers[tp].log_start, trackers[tp].log_end = found.log_start, found.last_stable

    def _put(self, manifest: Manifest, gone: str) -> Extraction:
        path = self.ctx.log.paths.manifest(self.plan.plan, self.task, self.k)
        events = self.outfitter.events()
        if self.ctx.state.put_if_absent(path, wire.encode("manifest", manifest)):
            return Extraction(manifest=manifest, read=True, made=True, gone=gone, events=events)
        log.info("another attempt was faster: its manifest %s counts, this staging goes", path)
        self._delete_staging()
        made = manifests(self.ctx, self.plan, self.task)
        if len(made) > self.k:
            return Extraction(manifest=made[self.k], read=True, gone=gone, events=events)
        # The plan was settled since, and its manifests were cleaned away with it.
        state = standing(self.ctx.log.read(since=self.plan.log_head), self.plan)
        _refuse_ended(self.plan.plan, state.aborted)
        return Extraction(manifest=None, gone=gone)

    def _delete_staging(self) -> None:
        """Best effort: what stays is the collector's."""
        try:
            self.ctx.data.delete(self.staging, recursive=True)
        except StorageError as error:
            log.info("staging %s stays for the collector: %s", self.staging, error)


def _next_index(before: Sequence[Manifest]) -> int:
    """Number of a task's next file: no two manifests of it use a name twice."""
    names = (entry.staged.rpartition("/")[2] for manifest in before for unit in manifest.units for entry in unit.files)
    return 1 + max((name.index for text in names if (name := FileName.parse(text)) is not None), default=-1)
