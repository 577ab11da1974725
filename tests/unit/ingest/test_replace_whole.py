"""A replace is all or nothing: what it can't read again stays where it is, and the run is red."""

from __future__ import annotations

import dataclasses

from airflow_kafka_hdfs.ingest import steering
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.records import Kind, Outcome
from airflow_kafka_hdfs.ingest.settings import Limits
from tests.unit.ingest.piping import Run, World


def ingested() -> World:
    world = World()
    world.cluster.create_topic("events")
    world.produce("events", 0, *range(10))
    world.run("first").whole()
    world.clock.advance(60)
    return world


def replace_plan(world: World) -> tuple[Run, object]:
    run = world.run("again")
    plan = run.plan({"replace": True, "range_end": world.clock.now().isoformat()}).plan
    assert plan.kind is Kind.REPLACE
    assert len(plan.replaces) == 1
    return run, plan


def once_each(world: World) -> bool:
    return world.values() == dict.fromkeys(range(10), 1)


def test_limits_do_not_cut_a_replace_short():
    world = ingested()
    run, plan = replace_plan(world)
    assert run.extract(plan, 0, ReadOptions(limits=Limits(records=3))) == []
    run.finish(plan)
    assert run.judge(plan).is_green
    assert once_each(world)


def test_retention_between_plan_and_extract_leaves_the_old_files_in_place():
    world = ingested()
    run, plan = replace_plan(world)
    world.cluster.expire("events", 0, before=6)
    assert "out_of_range" in run.extract(plan, 0)[0]
    record = run.finish(plan).record
    assert record.superseded == ()
    assert record.request is None
    assert not run.judge(plan).is_green
    assert once_each(world)


def test_a_manifest_that_was_limited_all_the_same_replaces_nothing():
    world = ingested()
    run, plan = replace_plan(world)
    forward = dataclasses.replace(plan, kind=Kind.INTERVAL)  # as an older version would have read it
    run.extract(forward, 0, ReadOptions(limits=Limits(records=3)))
    record = run.finish(plan).record
    assert record.superseded == ()
    assert "did not read everything again" in record.held[0].detail
    assert not run.judge(plan).is_green
    assert once_each(world)


def test_a_topic_released_meanwhile_keeps_its_old_files():
    world = ingested()
    run, plan = replace_plan(world)
    run.extract(plan, 0)
    steering.carry_out(run.context(), steering.release(("events",)), "handed over")
    record = run.finish(plan).record
    assert [unit.outcome for unit in record.dropped] == ["released"]
    assert record.superseded == ()
    assert any("nothing was replaced" in fault for fault in run.judge(plan).faults)
    assert once_each(world)


def test_a_limited_unit_is_still_what_a_limit_makes_of_other_runs():
    world = ingested()
    world.produce("events", 0, *range(10, 20))
    run = world.run("next")
    plan = run.plan().plan
    run.extract(plan, 0, ReadOptions(limits=Limits(records=3)))
    assert [unit.outcome for unit in run.finish(plan).record.units] == [Outcome.LIMITED]
