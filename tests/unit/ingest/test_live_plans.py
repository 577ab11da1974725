"""Plans of live and of dead runs: the gate waits for them, planning sees them, the collector ends them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.plan_book import live_plans, own_plans
from airflow_kafka_hdfs.ingest.plans import Waiting
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind, Outcome
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


def test_a_stale_listing_of_plans_costs_no_staging_even_without_any_grace(monkeypatch: pytest.MonkeyPatch):
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (entry,) = job.extract(plan, 0).units[0].files
    commit_plan(job.ctx, plan, FULL)
    listed = job.store.list
    monkeypatch.setattr(job.store, "list", lambda path: [] if path == job.ctx.log.paths.plans else listed(path))
    assert collect(job.ctx, grace=timedelta(seconds=-1)).staging == ()
    assert entry.staged in job.store.files()


def test_staging_without_a_plan_goes_once_no_listing_can_have_missed_its_plan():
    job = Job()
    job.store.put_if_absent(f"{job.ctx.log.data_paths.staging('20260101T000000Z-0000abcd', 0, 'a')}/file", b"x")
    assert collect(job.ctx, grace=timedelta()).staging == ()
    job.ctx.clock.advance(3700)
    assert collect(job.ctx, grace=timedelta()).staging == ("20260101T000000Z-0000abcd",)
