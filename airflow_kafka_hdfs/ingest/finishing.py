"""The publish step: commit, bring files into place, tell which commits are owed events, keep the log short, clean up.

1. `committing.commit_plan`: one record, or none if nothing new is to be said.
2. Staging of dropped units goes.
3. Every commit without a marker is rolled forward, other runs' too; beside it the record gets its copy.
4. Commits that are whole and not announced are handed to the caller, who sends their events.
5. A checkpoint if one is due, and a bounded part of the collector's work.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from airflow_kafka_hdfs.exceptions import KafkaHdfsError
from airflow_kafka_hdfs.ingest.collecting import GRACE, Collected, collect
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.plan_book import standing
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.publishing import Refusal, roll_forward
from airflow_kafka_hdfs.ingest.records import Commit, Kind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What the publish step did.

    Attributes:
        record: the commit of this plan that it made, None if there was nothing left to record.
        found: commits of this plan that earlier attempts made, oldest first.
        recovered: commits that nobody is known to have told of, oldest first: of this plan, made by an attempt that
            died before it could tell, and of plans of runs that are gone.
        to_announce: published commits with datasets whose events are owed, this one and recovered ones.
        refusals: files that the store refused; their commits wait for `state recover` or the next run.
        view: the log afterwards.
        collected: what the collector did.
    """

    record: Commit | None
    found: tuple[Commit, ...] = ()
    recovered: tuple[Commit, ...] = ()
    to_announce: tuple[Commit, ...]
    refusals: tuple[Refusal, ...]
    view: LogView
    collected: Collected

    @property
    def own(self) -> tuple[Commit, ...]:
        """Commits of this plan that this attempt has to tell of, oldest first; if none is new, the newest one again."""
        made = () if self.record is None else (self.record,)
        own = {commit.plan for commit in (*self.found, *made)}
        return (*(commit for commit in self.recovered if commit.plan in own), *made) or self.found[-1:]


def finish(ctx: Context, plan: Plan, policy: CommitPolicy, *, grace: timedelta = GRACE) -> Finished:
    """Do the whole publish step of a run; doing it again is safe at any time.

    Raises:
        PlanEndedError, CorruptStateError: see `commit_plan`, `roll_forward`.
        StoreUnavailableError: the store went away; a retry goes on where this one stopped.
    """
    result = commit_plan(ctx, plan, policy)
    ctx.workers.map(ctx.data.delete, result.dropped_staging)
    open_ = ctx.log.unpublished(result.view)
    refusals: list[Refusal] = []
    made = None if result.record is None else result.record.number

    def copy() -> None:
        if made is not None:
            ctx.log.copy(made)

    ctx.workers.map(lambda step: step(), (lambda: refusals.extend(roll_forward(ctx, open_, result.view)), copy))
    owed = owed_events(ctx, result.view)
    listed = [commit for commit in standing(result.view, plan).commits if commit.kind is not Kind.ABORT]
    found = tuple(commit for commit in listed if commit.number != made)
    untold = {*open_, *(commit.number for commit in owed)}
    silent = [commit for commit in found if commit.number in untold]
    silent += [commit for commit in owed if commit.plan not in (None, plan.plan) and _is_orphan(ctx, commit)]
    ctx.log.checkpoint_if_due(result.view)
    collected = _collected(ctx, plan, grace)
    return Finished(
        record=result.record,
        found=found,
        recovered=tuple(sorted(silent, key=lambda commit: commit.number)),
        to_announce=owed,
        refusals=tuple(refusals),
        view=result.view,
        collected=collected,
    )


def _is_orphan(ctx: Context, commit: Commit) -> bool:
    """Whether the run that made a commit is gone, so that it will not tell of it any more."""
    return ctx.run_states.is_alive(commit.run) is False


def _collected(ctx: Context, plan: Plan, grace: timedelta) -> Collected:
    """Cleaning is a courtesy: its trouble must not make a finished publish red. A later pass goes on."""
    try:
        return collect(ctx, grace=grace, spare=plan.key)
    except KafkaHdfsError as error:
        log.warning("left-overs of earlier runs were not cleaned away: %s", error)
        return Collected()


def owed_events(ctx: Context, view: LogView) -> tuple[Commit, ...]:
    """Published commits with datasets whose asset events are not known to have been sent."""
    open_ = set(ctx.log.unpublished(view))
    numbers = [number for number in ctx.log.unannounced(view) if number not in open_]
    known = [view.records[number] for number in numbers if number in view.records]
    read = [commit for commit, _ in ctx.log.records(n for n in numbers if n not in view.records)]
    return tuple(sorted((*known, *read), key=lambda commit: commit.number))
