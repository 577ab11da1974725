"""The plan step: from the log and one look at the cluster to a stored plan.

1. The log is read; every commit without a marker is rolled forward.
2. The run's own newest plan is used unchanged while the log has no record of it and the deployed configuration is the
   one that it was made from; otherwise it is ended if a unit of it is undecided.
3. The cluster is looked at, and each partition decided (`decisions`, `intervals`, `resets`).
4. What planning itself decides (start points, lost offsets, resets) is committed; if another record came first, all of
   step 3 is done again, on the log as it is then.
5. What the plans of live runs read is left out; schemas are pinned; the rest is packed into tasks.
6. The plan is stored, write once.

A dry run does none of the writing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from airflow_kafka_hdfs.ingest import layout, wire
from airflow_kafka_hdfs.ingest.cluster_view import ClusterView, look
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources, clock_text
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import Decisions, decide, new_selection, times_needed
from airflow_kafka_hdfs.ingest.estimating import estimate
from airflow_kafka_hdfs.ingest.incidents import Incident, incidents
from airflow_kafka_hdfs.ingest.intervals import (
    decide_interval,
    decide_replace,
    find_bounds,
    leave_to_others,
    left_to_replays,
)
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.newcomers import newcomers, take, uncovered, without_foreign
from airflow_kafka_hdfs.ingest.ownership import check_log, claim, owned_elsewhere, refuse_foreign, refuse_foreign_start
from airflow_kafka_hdfs.ingest.packing import pack
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, live_plans, own_plans, standing
from airflow_kafka_hdfs.ingest.plans import Plan, Waiting
from airflow_kafka_hdfs.ingest.publishing import Refusal, roll_forward_all
from airflow_kafka_hdfs.ingest.records import Commit, Kind, PartitionChange, PartitionKey, Selection, Superseded
from airflow_kafka_hdfs.ingest.requests import Interval, PlanRequest
from airflow_kafka_hdfs.ingest.resets import decide_resets, describe, foreign_keys, targets
from airflow_kafka_hdfs.ingest.schema_pins import pin_schemas
from airflow_kafka_hdfs.ingest.selection import TopicKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What the plan step did.

    Attributes:
        reused: the plan is the run's own of an earlier attempt.
        committed: records that planning itself made.
        incidents: what they tell of: truncated and re-created topics, lost offsets.
        skipped: topic -> offsets that they gave up by policy or by a reset.
        notes: what people should know of the plan.
        refusals: files of earlier commits that the store refused to take to their places.
    """

    plan: Plan
    reused: bool = False
    committed: tuple[int, ...] = ()
    incidents: tuple[Incident, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """Decisions with all that the plan record needs beside them."""

    view: LogView
    decided: Decisions
    kind: Kind
    interval: Interval | None = None
    request: str | None = None
    waiting: tuple[Waiting, ...] = ()
    replaces: tuple[Superseded, ...] = ()
    committed: tuple[int, ...] = ()
    incidents: tuple[Incident, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def make_plan(ctx: Context, sources: Sources, config: IngestConfig, request: PlanRequest) -> Planned:
    """Plan a run. Doing it again in the same run is safe at any time, also while an earlier attempt still works.

    Args:
        ctx: ports of this run.
        sources: the cluster and its schemas.
        config: the deployed configuration.
        request: what the run asks for.

    Returns:
        The plan, stored unless it is a dry run.

    Raises:
        ConfigError: the request or a schema can't be used; a backfill has no interval.
        ClusterChangedError, OwnedElsewhereError, StateMissingError, PlanningError: nothing can be planned safely.
        CorruptStateError, NewerFormatError: of the log.
        KafkaUnavailableError, RegistryUnavailableError, StoreUnavailableError: a later attempt may do better.
    """
    clock = ctx.clock.now().replace(microsecond=0)
    interval = request.interval(clock, config.base.config.granularity, config.base.config.timezone)
    check_log(ctx, config.state_uri)
    view = ctx.log.read()
    if request.dry_run:
        draft = _drafted(ctx, sources, config, request, interval, view, clock)
        plan = _plan(ctx, sources, config, request, draft, clock, counter=0)
        return Planned(plan=plan, notes=draft.notes)
    refusals = tuple(roll_forward_all(ctx, view))
    while True:
        own = own_plans(ctx)
        if own:
            view = ctx.log.read(since=own[-1].log_head, known=view)
            if _is_reusable(view, own[-1], config):
                return Planned(plan=own[-1], reused=True, refusals=refusals)
            view = _ended(ctx, own[-1], view, config)
        draft = _drafted(ctx, sources, config, request, interval, view, clock)
        plan = _plan(ctx, sources, config, request, draft, clock, counter=len(own))
        if _stored(ctx, plan, draft):
            return Planned(
                plan=plan,
                committed=draft.committed,
                incidents=draft.incidents,
                skipped=draft.skipped,
                notes=draft.notes,
                refusals=refusals,
            )
        view = ctx.log.read(known=draft.view)  # another attempt of this run was faster: its plan is ours


def _stored(ctx: Context, plan: Plan, draft: _Draft) -> bool:
    """Store a plan, and beside it what may come late: the copy of planning's own records."""
    path = ctx.log.paths.plan(plan.key, plan.counter)
    steps = [lambda: ctx.state.put_if_absent(path, wire.encode("plan", plan))]
    if draft.committed:
        steps.append(lambda: ctx.log.copy(draft.committed[-1]))
    return all(ctx.workers.map(lambda step: step(), steps))


def _is_reusable(view: LogView, plan: Plan, config: IngestConfig) -> bool:
    """Whether an attempt goes on with the run's own plan. One without work is made anew: there may be some by now."""
    state = standing(view, plan)
    return bool(state.undecided) and not state.commits and plan.config_digest == config.digest


def _ended(ctx: Context, plan: Plan, view: LogView, config: IngestConfig) -> LogView:
    if not standing(view, plan).is_open:
        return view
    changed = plan.config_digest != config.digest
    why = "the configuration has changed since" if changed else "the run planned anew after a commit of a part"
    return abort_plan(ctx, plan, why)


def _drafted(
    ctx: Context,
    sources: Sources,
    config: IngestConfig,
    request: PlanRequest,
    interval: Interval | None,
    view: LogView,
    clock: datetime,
) -> _Draft:
    if interval is None:
        return _forward(ctx, sources, config, request, view, clock)
    return _interval(ctx, sources, config, request, interval, view)


def _forward(
    ctx: Context, sources: Sources, config: IngestConfig, request: PlanRequest, view: LogView, clock: datetime
) -> _Draft:
    """Continuous planning, with its own commits; starts over from the log whenever another record came first."""
    moved: set[PartitionKey] = set()
    foreign: tuple[TopicKey, ...] = ()
    committed: list[int] = []
    happened: list[Incident] = []
    skipped: Counter[str] = Counter()

    def tell(state: LogState, record: Commit) -> None:
        committed.append(record.number)
        happened.extend(incidents(state, record.changes))
        for change in record.changes:
            skipped[change.key.topic] += change.counts.skipped

    while True:
        refuse_foreign_start(ctx, view)
        cluster = look(sources.catalog, config.topics, view.state)
        if request.reset:
            foreign = foreign_keys(request.reset, cluster, request.elsewhere, sources.catalog.topics)
        reset = _reset(ctx, sources, request, view, cluster, foreign)
        if reset is not None:
            moved |= {change.key for change in reset.changes}
            if not request.dry_run and not ctx.log.append(reset, copy=False):
                view = ctx.log.read(known=view)
                continue
            tell(view.state, reset)
            view = _with(view, reset)
        needed = times_needed(view.state, cluster, config, clock)
        times = sources.catalog.offsets_for_times(needed) if needed else {}
        decided = decide(view.state, cluster, config, clock, times, moved)
        decided = without_foreign(ctx, config, view.state, decided, chosen={key.topic for key in moved})
        selection = new_selection(view.state, cluster, config, decided)
        record = None
        if decided.changes or selection is not None:
            record = _record(ctx, view, Kind.FORWARD, decided.changes, _why(decided), selection=selection)
        if not request.dry_run:
            append = None if record is None else partial(ctx.log.append, record, copy=False)
            made, held = take(ctx, config, newcomers(view.state, decided), beside=append)
            if not made:
                view = ctx.log.read(known=view)
                continue
            decided = decided.holding(held)
        if record is not None:
            tell(view.state, record)
            view = _with(view, record)
        plans = live_plans(ctx, view) if decided.ranges else []
        entries, _ = leave_to_others(decided.entries, plans)
        return _Draft(
            view=view,
            decided=decided.with_entries(entries),
            kind=Kind.FORWARD,
            committed=() if request.dry_run else tuple(committed),
            incidents=tuple(happened),
            skipped=skipped,
            notes=(
                *decided.notes,
                *(f"reset: {text} is no topic of this ingestion" for text in sorted(k.text for k in foreign)),
            ),
        )


def _interval(
    ctx: Context,
    sources: Sources,
    config: IngestConfig,
    request: PlanRequest,
    interval: Interval,
    view: LogView,
) -> _Draft:
    """Planning of a date range: an interval run, or a replace that was not carried out yet."""
    refuse_foreign_start(ctx, view)
    cluster = look(sources.catalog, config.topics, view.state)
    bounds = find_bounds(sources.catalog.offsets_for_times, cluster, interval)
    decided = decide_interval(view.state, cluster, config, interval, bounds)
    request_id = request.request_id(ctx.run, "replace") if request.replace else None
    replaces: tuple[Superseded, ...] = ()
    commits: list[Commit] = []
    kind = Kind.INTERVAL
    plans = live_plans(ctx, view) if decided.ranges or request_id is not None else []
    if request_id is not None and request_id not in view.state.requests:
        kind = Kind.REPLACE
        commits = [commit for _, commit in sorted(ctx.log.read(since=-1, known=view).records.items())]
        commits = commits[: view.head + 1]
        unpublished = ctx.log.unpublished(view)
        decided, replaces = decide_replace(view.state, cluster, interval, decided, commits, unpublished, plans)
    else:
        request_id = None
    decided = without_foreign(ctx, config, view.state, decided)
    if not request.dry_run:
        decided = decided.holding(take(ctx, config, newcomers(view.state, decided))[1])
    # A replace reads all that it takes out of place, also what another plan holds: one of the two commits comes second
    # and is dropped. Left out here, those offsets would be in no file any more.
    holders = left_to_replays(plans, commits) if kind is Kind.REPLACE else plans
    entries, waiting = leave_to_others(decided.entries, holders)
    return _Draft(
        view=view,
        decided=decided.with_entries(entries),
        kind=kind,
        interval=interval,
        request=request_id,
        waiting=waiting,
        replaces=replaces,
        notes=decided.notes,
    )


def _reset(
    ctx: Context,
    sources: Sources,
    request: PlanRequest,
    view: LogView,
    cluster: ClusterView,
    foreign: Collection[TopicKey],
) -> Commit | None:
    """The record of the run's `reset`, None if it asks for none or the log has it. Claims topics that it starts."""
    if not request.reset:
        return None
    request_id = request.request_id(ctx.run, "reset")
    if request_id in view.state.requests:
        return None
    wanted = targets(request.reset, cluster, foreign)
    uncertain = uncovered(view.state, wanted)
    taken = owned_elsewhere(ctx, uncertain)
    # A regex speaks of this pipeline's topics; whoever names a topic is told that it can't be had.
    refuse_foreign(ctx, {name: owner for name, owner in taken.items() if TopicKey(text=name) in request.reset})
    wanted = {topic: target for topic, target in wanted.items() if topic not in taken}
    if not wanted:
        return None
    changes = decide_resets(view.state, cluster, wanted, sources.catalog.offsets_for_times)
    if not request.dry_run:
        refuse_foreign(ctx, claim(ctx, uncertain & wanted.keys()))
    return _record(ctx, view, Kind.RESET, changes, describe(changes, wanted), request=request_id)


def _record(
    ctx: Context,
    view: LogView,
    kind: Kind,
    changes: tuple[PartitionChange, ...],
    why: str,
    *,
    request: str | None = None,
    selection: Selection | None = None,
) -> Commit:
    return Commit(
        number=view.head + 1,
        kind=kind,
        run=ctx.run,
        clock=ctx.timestamp(),
        attempt=ctx.ids.hex(16),
        pipeline=ctx.pipeline,
        request=request,
        who=ctx.run.who,
        why=why,
        changes=changes,
        selection=selection,
    )


def _with(view: LogView, record: Commit) -> LogView:
    """The log with a record of planning's own; a dry run only supposes it."""
    digest = wire.bytes_digest(wire.encode("commit", record))
    return LogView(
        state=view.state.fold([(record, digest)]),
        records={**view.records, record.number: record},
        checkpoint=view.checkpoint,
    )


def _why(decided: Decisions) -> str:
    starts = sum(change.start is not None for change in decided.changes)
    parts = [f"start points of {starts} partitions"] if starts else []
    parts += decided.notes[:20]
    if len(decided.notes) > 20:
        parts.append(f"and {len(decided.notes) - 20} more like that")
    return "planning: " + ("; ".join(parts) or "what `topics` asks for")


def _plan(
    ctx: Context,
    sources: Sources,
    config: IngestConfig,
    request: PlanRequest,
    draft: _Draft,
    clock: datetime,
    counter: int,
) -> Plan:
    """Pin, pack, and put the record together."""
    topics = sorted({key.topic for key in draft.decided.ranges})
    schemas, held = pin_schemas(sources, ctx.workers, config, topics)
    decided = draft.decided.holding(held)
    tasks = pack(estimate(decided.ranges, draft.view.state.coverage), config.packing)
    pinned: dict[str, Mapping[str, Any]] = {
        topic: wire.to_plain(config.topic(topic).config)
        for topic in sorted({unit.topic for task in tasks for unit in task.units})
    }
    return Plan(
        plan=layout.plan_id(clock, ctx.ids.hex(8)),
        key=layout.plan_key(ctx.pipeline, ctx.run),
        counter=counter,
        pipeline=ctx.pipeline,
        run=ctx.run,
        clock=clock_text(clock),
        log_head=draft.view.head,
        kind=draft.kind,
        interval=None if draft.interval is None else draft.interval.as_texts(),
        request=draft.request,
        config=pinned,
        config_digest=config.digest,
        schemas=schemas,
        entries=decided.entries,
        tasks=tasks,
        held=decided.held,
        waiting=draft.waiting,
        replaces=draft.replaces,
        dry_run=request.dry_run,
    )
