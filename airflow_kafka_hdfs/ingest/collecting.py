"""The collector: plans of runs that are gone are ended in the log, then their staging may go.

Order is everything here: only an abort record in the log ends a plan, and only what no commit lists. Staging of open
plans is never touched, and neither are files of a commit without its `published` marker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.layout import is_plan_id
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, all_plans, standing
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.records import Commit
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


def collect(ctx: Context, *, grace: timedelta = GRACE, most: int = 20) -> Collected:
    """Do a bounded part of the cleaning.

    Args:
        grace: age below which nothing is touched; folders without a plan must be `ORPHAN_GRACE` old as well.
        most: plans looked at in this pass, oldest first.

    Raises:
        CorruptStateError, StoreUnavailableError, StoreRefusedError: nothing was lost; a later pass goes on.
    """
    folders = _folders(ctx)
    plans = sorted(all_plans(ctx), key=lambda plan: plan.plan)
    known = {plan.plan for plan in plans}
    old = [plan for plan in plans if is_old(ctx, plan.plan, grace)][:most]
    aborted: list[str] = []
    settled: list[str] = []
    view = ctx.log.read(since=min((plan.log_head for plan in old), default=None))
    for plan in old:
        state = standing(view, plan)
        if state.is_open:
            if ctx.run_states.is_alive(plan.run) is not False:
                continue
            view = abort_plan(ctx, plan, "its run is gone")
            view = ctx.log.read(since=plan.log_head, known=view)
            state = standing(view, plan)
            aborted.append(plan.plan)
        newest = max(other.counter for other in plans if other.key == plan.key)
        # A run finds its plans by counting up, so the newest goes first; the others follow in later passes.
        if plan.counter == newest and all(_is_published(ctx, commit) for commit in state.commits):
            _delete(ctx, plan)
            settled.append(plan.plan)
    return Collected(
        aborted=tuple(aborted),
        plans=tuple(settled),
        staging=tuple(_orphans(ctx, folders, known, max(grace, ORPHAN_GRACE))),
        superseded=tuple(_superseded(ctx, view, grace, most)),
    )


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


def _orphans(ctx: Context, folders: list[tuple[Store, FileStatus]], known: set[str], grace: timedelta) -> list[str]:
    """Staging and manifests of plans that have no record: left by a delete that died half-way, or by a late task."""
    found = set()
    for store, folder in folders:
        if folder.name not in known and is_old(ctx, folder.name, grace):
            store.delete(folder.path, recursive=True)
            found.add(folder.name)
    return sorted(found)


def _superseded(ctx: Context, view: LogView, grace: timedelta, most: int) -> list[int]:
    found = []
    for folder in ctx.data.list(f"{ctx.log.data_paths.home}/superseded")[:most]:
        if not folder.name.isdigit() or int(folder.name) > view.head:
            continue
        ((commit, _),) = ctx.log.records([int(folder.name)])
        if _is_published(ctx, commit) and commit.clock < (ctx.clock.now() - grace).strftime("%Y-%m-%dT%H:%M:%SZ"):
            ctx.data.delete(folder.path, recursive=True)
            found.append(commit.number)
    return found


def is_old(ctx: Context, plan: str, grace: timedelta) -> bool:
    """By the clock in the plan's name; a name that is none of ours is never old."""
    return is_plan_id(plan) and plan.split("-")[0] < (ctx.clock.now() - grace).strftime("%Y%m%dT%H%M%SZ")
