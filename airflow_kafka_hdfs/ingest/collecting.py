"""The collector: plans of runs that are gone are ended in the log, then their staging may go.

Order is everything here: only an abort record in the log ends a plan, and only what no commit lists. Staging of open
plans is never touched, and neither are files of a commit without its `published` marker.

Ages are counted by the log's own time: nothing is older than the newest clock among the records that were there before
it. So a plan made on a machine whose clock went back does not look old at once. And whatever the clocks say, a plan of
a run that is at work stays, settled or not, since the steps that follow still read it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from airflow_kafka_hdfs.ingest.context import Context, clock_text
from airflow_kafka_hdfs.ingest.layout import plan_clock
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, all_plans, standing
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.records import Commit, Kind
from airflow_kafka_hdfs.model import FileStatus
from airflow_kafka_hdfs.ports.store import Store

GRACE = timedelta(hours=24)
"""Default grace period: longer than any task that a sane deployment lets run."""

ORPHAN_GRACE = timedelta(hours=1)
"""Least age of staging that no plan seems to have. That no plan has it is known from a listing alone, and listings of
object stores may be stale, so even without any grace it has to be older than what a listing may miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What one pass did.

    Attributes:
        aborted: plans that were ended.
        plans: settled plans whose records and staging were deleted.
        staging: folders of staging that no plan knows.
        superseded: numbers of commits whose superseded files were deleted.
    """

    aborted: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    staging: tuple[str, ...] = ()
    superseded: tuple[int, ...] = ()


def collect(
    ctx: Context,
    *,
    grace: timedelta = GRACE,
    most: int = 20,
    spare: str | None = None,
    why: str = "its run is gone",
    dry_run: bool = False,
) -> Collected:
    """Do a bounded part of the cleaning.

    Args:
        grace: age below which nothing is touched; folders without a plan must be `ORPHAN_GRACE` old as well.
        most: plans looked at in this pass, oldest first.
        spare: key of the run at whose end this is done; its plans stay, whatever others say of the run.
        why: stands in the records that end plans.
        dry_run: only look what there is to do.

    Raises:
        CorruptStateError, StoreUnavailableError, StoreRefusedError: nothing was lost; a later pass goes on.
    """
    # How far listings may lag is counted from when they are asked for, however long this pass takes after that.
    now = ctx.clock.now()
    folders = _folders(ctx)
    plans = sorted(all_plans(ctx), key=lambda plan: plan.plan)
    known = {plan.plan for plan in plans}
    old = [plan for plan in plans if plan.key != spare and is_old(now, plan.clock, grace)]
    view, times = read_times(ctx, old)
    due = [plan for plan in old if is_old(now, times.of_plan(view, plan), grace)][:most]
    aborted: list[str] = []
    finished: list[Plan] = []
    for plan in due:
        state = standing(view, plan)
        alive = ctx.run_states.is_alive(plan.run)
        if alive or (state.is_open and alive is None):
            continue
        if state.is_open:
            aborted.append(plan.plan)
            if not dry_run:
                view = ctx.log.read(since=plan.log_head, known=abort_plan(ctx, plan, why))
                state = standing(view, plan)
        if all(_is_published(ctx, commit) for commit in state.commits):
            finished.append(plan)
    settled = _newest_first(finished, plans)
    if not dry_run:
        for plan in settled:
            _delete(ctx, plan)
    return Collected(
        aborted=tuple(aborted),
        plans=tuple(plan.plan for plan in settled),
        staging=tuple(_orphans(folders, known, now, max(grace, ORPHAN_GRACE), dry_run=dry_run)),
        superseded=tuple(_superseded(ctx, view, times, now, grace, most, dry_run=dry_run)),
    )


class LogTimes:
    """The log's own time: after record n it is the newest clock of the records up to n.

    Args:
        view: of the log; clocks of records that it does not hold are not known.
    """

    def __init__(self, view: LogView) -> None:
        self._numbers = sorted(view.records)
        self._clocks = list(accumulate((view.records[number].clock for number in self._numbers), max))

    def at(self, number: int) -> str:
        """The time after a record, ISO, UTC; empty where nothing is known of it."""
        index = bisect_right(self._numbers, number)
        return self._clocks[index - 1] if index else ""

    def of_plan(self, view: LogView, plan: Plan) -> str:
        """When a plan was last heard of: made, or committed in part. Being ended by others does not make it younger."""
        own = (commit.number for commit in view.of_plan(plan.plan) if commit.kind is not Kind.ABORT)
        return max(plan.clock, self.at(max(own, default=plan.log_head)))


def read_times(ctx: Context, plans: list[Plan]) -> tuple[LogView, LogTimes]:
    """The log with every record since the last one that stood before the oldest of these plans, and its times."""
    heads = [max(plan.log_head - 1, -1) for plan in plans]
    view = ctx.log.read(since=min(heads, default=None))
    return view, LogTimes(view)


def _newest_first(finished: list[Plan], plans: list[Plan]) -> list[Plan]:
    """What may go of finished plans. A run finds its plans by counting up, so none goes before a newer one of its."""
    counters: dict[str, list[int]] = {}
    for plan in sorted(plans, key=lambda plan: plan.counter):
        counters.setdefault(plan.key, []).append(plan.counter)
    going = []
    for plan in sorted(finished, key=lambda plan: plan.counter, reverse=True):
        if counters[plan.key][-1] == plan.counter:
            counters[plan.key].pop()
            going.append(plan)
    return going


def _is_published(ctx: Context, commit: Commit) -> bool:
    """Asked for each commit after the plan's end was read: only then no further commit can list its staging."""
    return not commit.has_effects or ctx.state.status(ctx.log.paths.published(commit.number)) is not None


def _delete(ctx: Context, plan: Plan) -> None:
    """Staging first, the plan's record last, so that a crash in between is found again by the next pass."""
    ctx.data.delete(ctx.log.data_paths.staging(plan.plan), recursive=True)
    ctx.state.delete(ctx.log.paths.units(plan.plan), recursive=True)
    ctx.state.delete(ctx.log.paths.plan(plan.key, plan.counter))


def _folders(ctx: Context) -> list[tuple[Store, FileStatus]]:
    """Folders of staging and of manifests; asked for before the plans.

    A plan is stored before it has any, so a folder whose plan is not found afterwards has none.
    """
    parents = ((ctx.data, f"{ctx.log.data_paths.home}/staging"), (ctx.state, "units"))
    return [(store, folder) for store, parent in parents for folder in store.list(parent)]


def _orphans(
    folders: list[tuple[Store, FileStatus]], known: set[str], now: datetime, grace: timedelta, *, dry_run: bool
) -> list[str]:
    """Staging and manifests of plans that have no record: left by a delete that died half-way, or by a late task."""
    found = set()
    for store, folder in folders:
        if folder.name not in known and is_old(now, time_of_folder(folder), grace):
            found.add(folder.name)
            if not dry_run:
                store.delete(folder.path, recursive=True)
    return sorted(found)


def _superseded(
    ctx: Context, view: LogView, times: LogTimes, now: datetime, grace: timedelta, most: int, *, dry_run: bool
) -> list[int]:
    found = []
    for folder in ctx.data.list(f"{ctx.log.data_paths.home}/superseded")[:most]:
        if not folder.name.isdigit() or int(folder.name) > view.head:
            continue
        number = int(folder.name)
        before_and_it = [commit for commit, _ in ctx.log.records(range(max(number - 1, 0), number + 1))]
        commit = before_and_it[-1]
        time = max(times.at(number), *(item.clock for item in before_and_it), "")
        if _is_published(ctx, commit) and is_old(now, time, grace):
            found.append(commit.number)
            if not dry_run:
                ctx.data.delete(folder.path, recursive=True)
    return found


def time_of_folder(folder: FileStatus) -> str:
    """The clock in the name of a plan's folder, or the store's own if that is newer; empty if the name is none of ours.

    The store's clock is that of another machine, so it catches a plan whose maker's clock had gone back.
    """
    named = plan_clock(folder.name)
    if named is None:
        return ""
    seen = named if folder.modified is None else max(named, datetime.fromtimestamp(folder.modified, UTC))
    return clock_text(seen)


def is_old(now: datetime, time: str, grace: timedelta) -> bool:
    """Whether a time, ISO, UTC, lies further back than the grace period; one that nobody knows never does."""
    return "" < time < clock_text(now - grace)
