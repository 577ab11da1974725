"""Plans of live and of dead runs: the gate waits for them, planning sees them, the collector ends them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_hdfs.ingest.collecting import collect, time_of_folder
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.plan_book import live_plans, own_plans
from airflow_kafka_hdfs.ingest.plans import Waiting
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind, Outcome, Superseded
from airflow_kafka_hdfs.model import FileStatus
from tests.fakes.runtime import ManualClock
from tests.unit.ingest.scripted import RUNS, Job, key

FULL, SUCCESSFUL = (CommitPolicy(publish=name) for name in ("full", "successful"))
A, B = key(), key(partition=1)


def test_the_gate_waits_for_the_plan_of_a_live_run_and_then_judges_its_ranges():
    live, job = Job(run="live"), None
    live.start(A)
    theirs = live.plan([(A, 0, 5)])
    job = Job(live.store, run="backfill")
    ours = job.plan(
        [(A, 5, 8)],
        kind=Kind.INTERVAL,
        waiting=(Waiting(plan=theirs.plan, log_head=theirs.log_head, key=A, ranges=Ranges.span(2, 5)),),
    )
    job.extract(ours)
    finish(job.ctx, ours, FULL)
    assert judge(job.ctx, ours).waiting_for == (theirs.plan,)
    assert "were left to plan" in judge(job.ctx, ours, wait=False).faults[0]
    live.extract(theirs)
    finish(live.ctx, theirs, FULL)
    assert judge(job.ctx, ours).is_green


def test_open_plans_of_live_runs_are_seen_and_those_of_dead_ones_are_not():
    live, job = Job(run="live"), None
    live.start(A)
    theirs = live.plan([(A, 0, 5)])
    job = Job(live.store, run="mine")
    mine = job.plan([(A, 5, 6)])
    view = job.ctx.log.read()
    assert [(plan.plan, ranges) for plan, ranges in live_plans(job.ctx, view)] == [
        (theirs.plan, {A: Ranges.span(0, 5)})
    ]
    RUNS.alive["live"] = False
    try:
        assert live_plans(job.ctx, view) == []
    finally:
        del RUNS.alive["live"]
    assert [plan.plan for plan in own_plans(job.ctx)] == [mine.plan]


@pytest.mark.bug(105)
def test_the_collector_ends_plans_of_dead_runs_and_spares_unpublished_commits():
    dead, job = Job(run="dead"), None
    dead.start(A, B)
    plan = dead.plan([(A, 0, 5)], [(B, 0, 5)])
    (entry,) = dead.extract(plan, 0).units[0].files
    dead.extract(plan, 1, reach=1, outcome=Outcome.FAILED, reason="no_schema")
    commit_plan(dead.ctx, plan, SUCCESSFUL)
    job = Job(dead.store, run="later")
    RUNS.alive["dead"] = False
    try:
        assert collect(job.ctx, grace=timedelta(days=1)).aborted == ()
        late = timedelta(seconds=-1)
        first = collect(job.ctx, grace=late)
        assert first.aborted == (plan.plan,)
        assert first.plans == ()
        assert entry.staged in dead.store.files()
        finish(job.ctx, job.plan(), FULL, grace=late)
    finally:
        del RUNS.alive["dead"]
    assert entry.path in dead.store.files()
    assert not any("/staging/" in path or path.startswith("units/") for path in dead.store.files())
    assert own_plans(dead.ctx) == []


def committed():
    """A job with a commit whose file is still in staging, and that file's entry."""
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (entry,) = job.extract(plan, 0).units[0].files
    commit_plan(job.ctx, plan, FULL)
    return job, entry


def test_a_stale_listing_of_plans_costs_no_staging_even_without_any_grace(monkeypatch: pytest.MonkeyPatch):
    job, entry = committed()
    listed = job.store.list
    monkeypatch.setattr(job.store, "list", lambda path: [] if path == job.ctx.log.paths.plans else listed(path))
    assert collect(job.ctx, grace=timedelta(seconds=-1)).staging == ()
    assert entry.staged in job.store.files()


def test_a_stale_listing_costs_no_staging_however_long_the_pass_takes_after_it(monkeypatch: pytest.MonkeyPatch):
    job, entry = committed()
    listed = job.store.list
    on_clock(job, 0.5)

    def miss_plans(path: str) -> list[FileStatus]:
        if path != job.ctx.log.paths.plans:
            return listed(path)
        job.ctx.clock.advance(7200)
        return []

    monkeypatch.setattr(job.store, "list", miss_plans)
    assert collect(job.ctx, grace=timedelta(seconds=-1)).staging == ()
    assert entry.staged in job.store.files()


@pytest.mark.bug(105)
def test_staging_without_a_plan_goes_once_no_listing_can_have_missed_its_plan():
    job = Job()
    job.store.put_if_absent(f"{job.ctx.log.data_paths.staging('20260101T000000Z-0000abcd', 0, 'a')}/file", b"x")
    assert collect(job.ctx, grace=timedelta()).staging == ()
    job.ctx.clock.advance(3700)
    assert collect(job.ctx, grace=timedelta()).staging == ("20260101T000000Z-0000abcd",)


def on_clock(job: Job, hours: float) -> Job:
    """The same actor on a machine whose clock is off."""
    clock = ManualClock(job.ctx.clock.now() + timedelta(hours=hours))
    job.ctx = dataclasses.replace(job.ctx, clock=clock)
    return job


@pytest.mark.parametrize("alive", [True, None, False])
def test_a_plan_made_while_the_clock_was_set_back_is_there_when_the_gate_reads_it(alive):
    first = Job(run="before")
    first.start(A)
    planner = on_clock(Job(first.store, run="shifted"), -50)
    plan = planner.plan([(A, 0, 5)])
    planner.extract(plan)
    publisher = Job(first.store, run="shifted")
    finish(publisher.ctx, plan, FULL)
    other = Job(first.store, run="other")
    RUNS.alive["shifted"] = alive
    try:
        assert finish(other.ctx, other.plan([(A, 5, 6)]), FULL).collected.plans == ()
        assert own_plans(publisher.ctx) == [plan]
        assert judge(publisher.ctx, plan).is_green
    finally:
        del RUNS.alive["shifted"]


def test_an_open_plan_is_as_young_as_the_record_that_it_was_made_after():
    job = Job(run="before")
    job.start(A)
    planner = on_clock(Job(job.store, run="shifted"), -50)
    plan = planner.plan([(A, 0, 5)])
    RUNS.alive["shifted"] = False
    try:
        assert collect(job.ctx).aborted == ()
        assert collect(on_clock(job, 25).ctx).aborted == (plan.plan,)
    finally:
        del RUNS.alive["shifted"]


def test_settled_plans_go_once_their_last_record_is_older_than_the_grace_and_their_run_is_over():
    job = Job(run="done")
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    finish(job.ctx, plan, FULL, grace=timedelta(seconds=-1))
    assert own_plans(job.ctx) == [plan]
    later = on_clock(Job(job.store, run="later"), 25)
    RUNS.alive["done"] = True
    try:
        assert collect(later.ctx).plans == ()
        RUNS.alive["done"] = False
        assert collect(later.ctx).plans == (plan.plan,)
    finally:
        del RUNS.alive["done"]


def test_all_plans_of_a_run_that_is_gone_go_in_one_pass_the_newest_first():
    job = Job(run="command")
    job.start(A)
    plans = [job.plan([(A, low, low + 5)]) for low in (0, 5, 10)]
    deleted: list[str] = []
    delete = job.store.delete
    job.store.delete = lambda path, **how: (deleted.append(path), delete(path, **how))[1]
    later = Job(job.store, run="later")
    RUNS.alive["command"] = False
    try:
        done = collect(later.ctx, grace=timedelta(seconds=-1))
    finally:
        del RUNS.alive["command"]
    assert set(done.aborted) == set(done.plans) == {plan.plan for plan in plans}
    paths = [job.ctx.log.paths.plan(plan.key, plan.counter) for plan in reversed(plans)]
    assert [path for path in deleted if path in paths] == paths
    assert own_plans(job.ctx) == []


def test_superseded_files_are_as_young_as_the_record_before_theirs():
    job = Job()
    job.start(A)
    back = on_clock(Job(job.store), -50)
    gone = Superseded(path="events/old.txt", topic="events", size=1, commit=0)
    number = back.change(kind=Kind.REPLACE, superseded=(gone,)).number
    kept = job.ctx.log.data_paths.superseded(number, gone.path)
    job.store.put_if_absent(kept, b"x")
    job.store.put_if_absent(job.ctx.log.paths.published(number), b"x")
    assert collect(job.ctx).superseded == ()
    assert kept in job.store.files()
    assert collect(on_clock(job, 25).ctx).superseded == (number,)


def test_staging_without_a_plan_is_as_young_as_the_store_says():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    new = FileStatus(path="staging/20251201T000000Z-0000abcd", size=0, is_dir=True, modified=now.timestamp())
    assert time_of_folder(new) == "2026-01-01T00:00:00Z"
    assert time_of_folder(dataclasses.replace(new, modified=None)) == "2025-12-01T00:00:00Z"
    assert time_of_folder(dataclasses.replace(new, path="staging/99999999T999999Z-0000abcd")) == ""
    assert time_of_folder(dataclasses.replace(new, path="staging/somebody's")) == ""
