"""Finding plans again, telling which are still open, and ending one by a record in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.context import Context, clock_text
from airflow_kafka_hdfs.ingest.layout import plan_clock, plan_key
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Kind, Manifest, PartitionKey

_CLOCKS_APART = timedelta(days=1)
"""Machines' clocks are not farther apart than that."""

_AT_ONCE = 20

NEWEST_PLANS = 256
"""Plans of other runs that planning looks at, newest first. Leaving ranges of open plans out is for efficiency only, so
the bound costs at most double reading, and start-up stays bounded however many runs a pipeline has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStanding:
    """What the log says of a plan.

    Attributes:
        commits: its records, in order, an abort record included.
        undecided: (task, topic) of units in no commit and not dropped, in order; empty once it was aborted.
        rest: of units that were taken in part, by (task, topic): offsets that went back to the log.
    """

    commits: tuple[Commit, ...]
    undecided: tuple[tuple[int, str], ...]
    rest: tuple[tuple[int, str], ...]

    @property
    def aborted(self) -> Commit | None:
        """The record that ended it."""
        return next((commit for commit in self.commits if commit.kind is Kind.ABORT), None)

    @property
    def is_open(self) -> bool:
        """Whether a commit of it may still come."""
        return bool(self.undecided) and self.aborted is None


def standing(view: LogView, plan: Plan) -> PlanStanding:
    """What the log says of a plan.

    Args:
        view: a reading with `since` at or below `plan.log_head`.
        plan: any plan of this pipeline.
    """
    commits = view.of_plan(plan.plan)
    taken = {(unit.task, unit.topic) for commit in commits for unit in (*commit.units, *commit.dropped)}
    rest = {(unit.task, unit.topic) for commit in commits for unit in (*commit.units, *commit.dropped) if unit.rest}
    ended = any(commit.kind is Kind.ABORT for commit in commits)
    undecided = () if ended else tuple(sorted(unit for unit in plan.units if unit not in taken))
    return PlanStanding(commits=tuple(commits), undecided=undecided, rest=tuple(sorted(rest)))


def load_plan(ctx: Context, path: str) -> Plan | None:
    """The plan stored at a path, None if there is none. Raises CorruptStateError, NewerFormatError."""
    data = ctx.state.get(path)
    return None if data is None else wire.decode(path, "plan", Plan, data)


def own_plans(ctx: Context) -> list[Plan]:
    """All plans of the context's run, oldest first; found by number, never by a listing."""
    key = plan_key(ctx.pipeline, ctx.run)
    plans: list[Plan] = []
    while (plan := load_plan(ctx, ctx.log.paths.plan(key, len(plans)))) is not None:
        plans.append(plan)
    return plans


def all_plans(ctx: Context, most: int | None = None) -> Iterator[Plan]:
    """Stored plans of every run, newest first where the store tells ages. A plan deleted meanwhile is left out."""
    files = [file for file in ctx.state.list(ctx.log.paths.plans) if not file.is_dir]
    files.sort(key=lambda file: (-(file.modified or 0.0), file.path))
    for plan in ctx.workers.map(lambda file: load_plan(ctx, file.path), files[:most]):
        if plan is not None:
            yield plan


def live_plans(ctx: Context, view: LogView) -> list[tuple[Plan, dict[PartitionKey, Ranges]]]:
    """Open plans of other runs that may be at work, each with the ranges that its undecided units read.

    A run whose state nobody can tell counts as alive: its ranges are read by its own plan, or by a later run once the
    plan has been ended.
    """
    own = plan_key(ctx.pipeline, ctx.run)
    plans = [plan for plan in all_plans(ctx, NEWEST_PLANS) if plan.key != own and plan.tasks]
    if not plans:
        return []
    view = ctx.log.read(since=min(plan.log_head for plan in plans), known=view)
    result = []
    for plan in plans:
        state = standing(view, plan)
        if state.is_open and ctx.run_states.is_alive(plan.run) is not False:
            ranges: dict[PartitionKey, Ranges] = {}
            units = plan.units
            for unit in state.undecided:
                for key, spans in units[unit].ranges().items():
                    ranges[key] = ranges.get(key, Ranges()) | spans
            result.append((plan, ranges))
    return result


def manifests(ctx: Context, plan: Plan, task: int) -> list[Manifest]:
    """All manifests of a mapped task, k = 0, 1, …; found by number, never by a listing."""
    found: list[Manifest] = []
    while True:
        path = ctx.log.paths.manifest(plan.plan, task, len(found))
        data = ctx.state.get(path)
        if data is None:
            return found
        found.append(wire.decode(path, "manifest", Manifest, data))


def records_of(ctx: Context, plan: str) -> list[Commit]:
    """Records of a plan that may be gone itself, oldest first; read from the head of the log back to its clock.

    Args:
        ctx: ports of this run.
        plan: its name.
    """
    made = plan_clock(plan)
    if made is None:
        return []
    oldest = clock_text(made - _CLOCKS_APART)
    found: list[Commit] = []
    head = ctx.log.read().head
    for last in range(head, -1, -_AT_ONCE):
        commits = [commit for commit, _ in ctx.log.records(range(max(last - _AT_ONCE + 1, 0), last + 1))]
        found[:0] = [commit for commit in commits if commit.plan == plan]
        if commits[0].clock < oldest:
            break
    return found


def abort_plan(ctx: Context, plan: Plan, why: str) -> LogView:
    """End a plan by a record in the log, unless nothing of it is open any more. It ends only what no commit lists.

    Args:
        plan: the plan to end.
        why: for people.

    Returns:
        The log as read last; `standing` of it tells how the plan ended.
    """
    view = ctx.log.read(since=plan.log_head)
    while standing(view, plan).is_open:
        record = Commit(
            number=view.head + 1,
            kind=Kind.ABORT,
            run=ctx.run,
            clock=ctx.timestamp(),
            attempt=ctx.ids.hex(16),
            plan=plan.plan,
            who=ctx.run.who,
            why=why,
        )
        ctx.log.append(record)
        view = ctx.log.read(known=view)
    return view
