"""Replay of quarantined records once a decoder, a converter or the registry is mended.

1. Draft: read what waits, decode it with the code and settings at hand, and tell what would come of it. Nothing is
   changed; records that are still bad stay where they are.
2. Store a plan, so that the collector knows whose staging it is.
3. Write what is good now to the staging of this attempt.
4. Commit: one record that lists the files and names each quarantined record that it takes. If another record came
   first, what it took or read again is left out, and the files are written anew without it.
5. Bring the files into place; whoever comes next finishes what a dead replay committed.

A record is taken at most once, since the commit that takes it is checked against every commit before it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_kafka_hdfs.exceptions import CorruptStateError, PlanEndedError, PlanningError, StorageError
from airflow_kafka_hdfs.ingest import layout, wire
from airflow_kafka_hdfs.ingest.committing import staged_files_stand
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources, clock_text
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.outfitting import file_facts, pinned_config
from airflow_kafka_hdfs.ingest.ownership import owned_elsewhere, refuse_foreign
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, own_plans, standing
from airflow_kafka_hdfs.ingest.plans import Plan, TaskPlan, UnitPlan, WorkUnit
from airflow_kafka_hdfs.ingest.publishing import Refusal, roll_forward
from airflow_kafka_hdfs.ingest.quarantine_reading import BadRecord, Choice, Fate, bad_records, quarantine_files
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import (
    Commit,
    Counts,
    FileEntry,
    Kind,
    Outcome,
    PartitionChange,
    PartitionKey,
    Replayed,
    UnitTaken,
)
from airflow_kafka_hdfs.ingest.redecoding import Decoded, StillBad, decoded
from airflow_kafka_hdfs.ingest.routes import Output, sinks_for
from airflow_kafka_hdfs.ingest.schema_pins import pin_schemas
from airflow_kafka_hdfs.ingest.writers.files import FileSet, TopicFiles
from airflow_kafka_hdfs.metrics import Metrics
from airflow_kafka_hdfs.ports.schemas import Codecs


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDraft:
    """What a replay would do.

    Attributes:
        names: records that are good now.
        folders: (topic, folder) -> records that go there; a filtered record goes nowhere.
        filtered: records that converters or `on_null` leave out now.
        still_bad: records that stay.
    """

    names: frozenset[Replayed] = frozenset()
    folders: Mapping[tuple[str, str], int] = field(default_factory=dict)
    filtered: int = 0
    still_bad: tuple[StillBad, ...] = ()

    @property
    def told(self) -> list[str]:
        """Lines for people."""
        lines = [f"topic {topic}: {count} records go to {folder}" for (topic, folder), count in self.folders.items()]
        if self.filtered:
            lines.append(f"{self.filtered} records are left out now by converters or `on_null`")
        reasons = Counter((bad.record.record.topic, bad.reason) for bad in self.still_bad)
        for (topic, reason), count in sorted(reasons.items()):
            first = next(bad for bad in self.still_bad if (bad.record.record.topic, bad.reason) == (topic, reason))
            where = first.record.record.where
            lines.append(f"topic {topic}: {count} records are still bad ({reason}), such as {where}: {first.detail}")
        return lines or ["nothing waits in the quarantine that was asked for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a replay did.

    Attributes:
        record: its commit; None if nothing was good any more when it came to it.
        refusals: files that the store refused to take to their places; `state recover` goes on.
    """

    record: Commit | None
    refusals: tuple[Refusal, ...] = ()


def draft_replay(ctx: Context, sources: Sources, config: IngestConfig, choice: Choice) -> ReplayDraft:
    """Look what would come of a replay; changes nothing.

    Args:
        ctx: ports of the command.
        sources: registry and codec.
        config: the pipeline's configuration, with the mended code.
        choice: which records.

    Raises:
        ConfigError, UnusableSchemaError: settings or schemas that can't be used.
        PlanningError, OwnedElsewhereError: a topic that this pipeline may not write.
        CorruptStateError: of the log or of a quarantine file.
        RegistryUnavailableError, StoreUnavailableError: a later try may do better.
    """
    view = ctx.log.read(since=-1)
    waiting = list(_waiting(ctx, sources, view, choice))
    plan = _plan(ctx, sources, config, view, waiting, counter=0)
    folders: Counter[tuple[str, str]] = Counter()
    names, filtered, bad = set(), 0, []
    for taken in decoded(sources, config, plan, waiting):
        if isinstance(taken, StillBad):
            bad.append(taken)
            continue
        names.add(taken.record.name)
        filtered += not taken.outputs
        if taken.outputs:
            folders[taken.record.record.topic, taken.outputs[0].place.folder] += 1
    return ReplayDraft(
        names=frozenset(names), folders=dict(sorted(folders.items())), filtered=filtered, still_bad=tuple(bad)
    )


def replay(
    ctx: Context,
    sources: Sources,
    config: IngestConfig,
    codecs: Codecs,
    names: frozenset[Replayed],
    why: str,
) -> Replay:
    """Take quarantined records through the log, each at most once. Doing it again is safe at any time.

    Args:
        ctx: ports of the command.
        sources: registry and codec.
        config: the pipeline's configuration, with the mended code.
        codecs: of files.
        names: which records, as `draft_replay` told; those that wait no longer, or are bad again, are left out.
        why: for people; stands in the commit beside who.

    Raises:
        PlanEndedError: somebody ended the plan of this replay (`state gc`); nothing was changed.
        Others as `draft_replay`, and StoreRefusedError; unless a commit was made, nothing was changed.
    """
    view = ctx.log.read(since=-1)
    waiting = list(_named(ctx, sources, view, names))
    if not waiting:
        return Replay(record=None)
    plan = _stored(ctx, sources, config, view, waiting)
    while True:
        attempt = _Attempt(ctx, sources, config, codecs, plan, view)
        try:
            attempt.write(waiting)
        except Exception:
            attempt.delete_staging()
            raise
        # After an error here nobody knows whether the commit stands: its staging is the collector's to judge.
        record = attempt.committed(why) if attempt.names else None
        view = ctx.log.read(known=view)
        if record is not None:
            return Replay(record=record, refusals=tuple(roll_forward(ctx, [record.number], view)))
        attempt.delete_staging()
        waiting = list(_named(ctx, sources, view, names)) if attempt.names else []
        if not waiting:
            abort_plan(ctx, plan, "nothing that it was to replay waits any more")
            return Replay(record=None)


def _waiting(ctx: Context, sources: Sources, view: LogView, choice: Choice) -> Iterator[BadRecord]:
    for file in quarantine_files(view, choice):
        if file.waits:
            yield from (
                record for record in bad_records(ctx.data, sources.codec, file, choice) if record.fate is Fate.WAITING
            )


def _named(ctx: Context, sources: Sources, view: LogView, names: frozenset[Replayed]) -> Iterator[BadRecord]:
    paths = {name.path for name in names}
    for file in quarantine_files(view):
        if file.entry.path in paths and file.waits:
            for record in bad_records(ctx.data, sources.codec, file):
                if record.name in names and record.fate is Fate.WAITING:
                    yield record


def _stored(ctx: Context, sources: Sources, config: IngestConfig, view: LogView, waiting: Iterable[BadRecord]) -> Plan:
    """A plan of this replay's own; other commands of the same name may store theirs at the same time."""
    waiting = list(waiting)
    while True:
        plan = _plan(ctx, sources, config, view, waiting, counter=len(own_plans(ctx)))
        if ctx.state.put_if_absent(ctx.log.paths.plan(plan.key, plan.counter), wire.encode("plan", plan)):
            return plan


def _plan(
    ctx: Context,
    sources: Sources,
    config: IngestConfig,
    view: LogView,
    waiting: Iterable[BadRecord],
    counter: int,
) -> Plan:
    """Settings and schemas pinned as any plan has them; its work units are the offsets that it replays."""
    spans: dict[str, dict[PartitionKey, list[tuple[int, int]]]] = {}
    for bad in waiting:
        offset = bad.record.offset
        spans.setdefault(bad.record.topic, {}).setdefault(bad.key, []).append((offset, offset + 1))
    _refuse_topics(ctx, view.state, spans)
    schemas, held = pin_schemas(sources, ctx.workers, config, sorted(spans))
    if held:
        raise PlanningError("; ".join(f"topic {item.topic}: {item.reason}: {item.detail}" for item in held))
    units = tuple(_unit(topic, keys) for topic, keys in sorted(spans.items()))
    clock = ctx.clock.now().replace(microsecond=0)
    return Plan(
        plan=layout.plan_id(clock, ctx.ids.hex(8)),
        key=layout.plan_key(ctx.pipeline, ctx.run),
        counter=counter,
        pipeline=ctx.pipeline,
        run=ctx.run,
        clock=clock_text(clock),
        log_head=view.head,
        kind=Kind.REPLAY,
        config={topic: wire.to_plain(config.topic(topic).config) for topic in sorted(spans)},
        config_digest=config.digest,
        schemas=schemas,
        tasks=(TaskPlan(index=0, label="quarantine replay", units=units),),
    )


def _unit(topic: str, keys: Mapping[PartitionKey, Iterable[tuple[int, int]]]) -> UnitPlan:
    work_units = tuple(
        WorkUnit(key=key, low=low, high=high)
        for key, pairs in sorted(keys.items())
        for low, high in Ranges.of(pairs).spans
    )
    return UnitPlan(topic=topic, work_units=work_units)


def _refuse_topics(ctx: Context, state: LogState, topics: Iterable[str]) -> None:
    if released := sorted(set(topics) & state.released):
        raise PlanningError(
            f"this pipeline gave up {', '.join(released)} by `state release`: nothing of it can be replayed here; "
            "choose other topics with --topic"
        )
    refuse_foreign(ctx, owned_elsewhere(ctx, set(topics)))


@dataclass(slots=True)
class _Sum:
    """What becomes of the records of one partition."""

    offsets: list[tuple[int, int]] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    times: list[int] = field(default_factory=list)


class _Attempt:
    """One writing of the records that are good now.

    Attributes:
        names: the records that it wrote or filtered.
    """

    def __init__(
        self, ctx: Context, sources: Sources, config: IngestConfig, codecs: Codecs, plan: Plan, view: LogView
    ) -> None:
        self.ctx, self.sources, self.config, self.codecs, self.plan, self.view = (
            ctx,
            sources,
            config,
            codecs,
            plan,
            view,
        )
        self.names: list[Replayed] = []
        self.metrics = Metrics(clock=ctx.clock.monotonic)
        self._staging = ctx.log.data_paths.staging(plan.plan, 0, ctx.ids.hex(32))
        self._open = FileSet(ctx.data, self._staging, ctx.workers)
        self._files: dict[tuple[str, str], TopicFiles] = {}
        self._sums: dict[PartitionKey, _Sum] = {}
        self._entries: list[FileEntry] = []
        self._newest: dict[str, datetime | None] = {}

    def write(self, waiting: Iterable[BadRecord]) -> None:
        """Write everything that is good now, and close every file."""
        try:
            for taken in decoded(self.sources, self.config, self.plan, waiting, self.metrics):
                if isinstance(taken, Decoded):
                    self._write(taken)
            for _, files in sorted(self._files.items()):
                self._entries += files.close()
        except BaseException:
            self._open.abort()
            raise

    def committed(self, why: str) -> Commit | None:
        """Make the record; None if another one took or re-read a part of what it takes.

        Raises:
            PlanEndedError: the plan was ended.
            CorruptStateError: a staged file is gone.
        """
        view = self.view
        while True:
            if standing(view, self.plan).aborted is not None:
                raise PlanEndedError(
                    f"plan {self.plan.plan} of this replay was ended by somebody; nothing was changed, run it again"
                )
            if not self._still_wait(view):
                return None
            record = self._record(view, why)
            if not staged_files_stand(self.ctx, record):
                raise CorruptStateError(self._staging, "a staged file of this replay is gone; run it again")
            if self.ctx.log.append(record):
                return record
            view = self.ctx.log.read(known=view)

    def delete_staging(self) -> None:
        """Best effort: what stays is the collector's."""
        try:
            self.ctx.data.delete(self._staging, recursive=True)
        except StorageError:
            return

    def _write(self, taken: Decoded) -> None:
        bad, record = taken.record, taken.record.record
        self.names.append(bad.name)
        files = self._files_of(bad.key)
        for number, output in enumerate(taken.outputs):
            source = (record.partition, record.offset)
            late = self._is_late(taken, output)
            files.append(output.place, output.schema, output.data, output.millis, source, first=number == 0, late=late)
        found = self._sums.setdefault(bad.key, _Sum())
        found.offsets.append((record.offset, record.offset + 1))
        found.times += [output.millis for output in taken.outputs]
        found.counts += Counts(
            written=bool(taken.outputs),
            filtered=not taken.outputs,
            records_out=len(taken.outputs),
            bytes_in=len(record.value or b""),
            null_values=record.value is None,
        )

    def _is_late(self, taken: Decoded, output: Output) -> bool:
        """Whether the topic had moved past the folder before this replay."""
        topic = taken.record.record.topic
        if topic not in self._newest:
            event = self.view.state.newest_event(topic)
            self._newest[topic] = None if event is None else taken.times.folder(event).start
        newest = self._newest[topic]
        return newest is not None and output.place.time.start < newest

    def _files_of(self, key: PartitionKey) -> TopicFiles:
        """Of a topic under one id: a file never mixes records of a topic and of its re-creation."""
        found = self._files.get((key.topic, key.topic_id))
        if found is None:
            config = pinned_config(self.plan, key.topic)
            (unit,) = (unit for unit in self.plan.tasks[0].units if unit.topic == key.topic)
            work = tuple(work for work in unit.work_units if work.key.topic_id == key.topic_id)
            facts = file_facts(self.plan, 0, UnitPlan(topic=key.topic, work_units=work), config)
            sinks = sinks_for(config, self.codecs)
            found = TopicFiles(self._open, sinks, facts, plan=self.plan.plan, task=0)
            self._files[key.topic, key.topic_id] = found
        return found

    def _still_wait(self, view: LogView) -> bool:
        """Whether every record that was written waits still, by the log as it is now."""
        wanted: dict[str, list[Replayed]] = {}
        for name in self.names:
            wanted.setdefault(name.path, []).append(name)
        files = {file.entry.path: file for file in quarantine_files(view) if file.entry.path in wanted}
        return all(
            files[path].fate(name.partition, name.offset) is Fate.WAITING
            for path, names in wanted.items()
            for name in names
        )

    def _record(self, view: LogView, why: str) -> Commit:
        ctx, topics = self.ctx, [unit.topic for unit in self.plan.tasks[0].units]
        return Commit(
            number=view.head + 1,
            kind=Kind.REPLAY,
            run=ctx.run,
            clock=ctx.timestamp(),
            attempt=ctx.ids.hex(16),
            plan=self.plan.plan,
            who=ctx.run.who,
            why=why,
            changes=tuple(_change(view.state, key, found) for key, found in sorted(self._sums.items())),
            files=tuple(self._entries),
            units=tuple(UnitTaken(task=0, topic=topic, k=0, outcome=Outcome.DONE.value) for topic in topics),
            replayed=tuple(sorted(self.names, key=lambda name: (name.path, name.partition, name.offset))),
            metrics=self.metrics.snapshot(),
        )


def _change(state: LogState, key: PartitionKey, found: _Sum) -> PartitionChange:
    """What it covers was covered before; it is named again so that a replace at work sees that its ground moved."""
    current = state.current.get(key.topic_partition)
    if current is not None and dataclasses.replace(current, cluster_id=key.cluster_id) == key:
        key = current  # the state was taken over to another cluster id
    return PartitionChange(
        key=key,
        covered=Ranges.of(found.offsets),
        counts=found.counts,
        event_times=(min(found.times), max(found.times)) if found.times else None,
    )
