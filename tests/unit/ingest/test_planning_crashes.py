"""The plan step dies at any call of the store: one more attempt, and everything is read once."""

from collections import Counter

import pytest

from airflow_kafka_hdfs.exceptions import PlanningError, StoreUnavailableError
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.records import Kind as CommitKind
from airflow_kafka_hdfs.model import TopicPartition
from tests.fakes.faulty_store import Crash, FaultyStore, Kind, every_fault
from tests.unit.ingest.piping import World


def fresh():
    world = World()
    world.cluster.create_topic("events", 2)
    world.produce("events", 0, 1, 2, 3)
    world.produce("events", 1, 11, 12)
    return world


def first_run():
    return fresh(), {}, {}, Counter([1, 2, 3, 11, 12])


def own_plan_of_another_configuration():
    world = fresh()
    world.run("run-1").plan()
    return world, {"granularity": "daily"}, {}, Counter([1, 2, 3, 11, 12])


def reset_and_new_partition():
    world = fresh()
    world.run("run-0").whole()
    world.produce("events", 0, 4, 5)
    world.cluster.add_partitions("events", 3)
    world.produce("events", 2, 21)
    return world, {}, {"reset": {"events": "latest"}}, Counter([1, 2, 3, 11, 12])


def half_published():
    world = fresh()
    run = world.run("run-0")
    planned = run.plan()
    run.extract(planned.plan, 0)
    commit_plan(run.context(), planned.plan, run.config.commit_policy(planned.plan.config))
    world.produce("events", 0, 4)
    return world, {}, {}, Counter([1, 2, 3, 4, 11, 12])


def date_range():
    world = fresh()
    world.clock.advance(60)
    params = {"range_start": "2026-01-01T00:00:00Z", "range_end": "2026-01-01T00:00:30Z"}
    return world, {}, params, Counter([1, 2, 3, 11, 12])


def replace():
    world, _, params, expected = date_range()
    world.run("run-0").whole()
    return world, {}, {**params, "replace": True}, expected


SCENARIOS = [first_run, own_plan_of_another_configuration, reset_and_new_partition, half_published, date_range, replace]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.bug(3)
def test_the_plan_step_may_die_anywhere(scenario):
    world, changes, params, expected = scenario()
    start = world.store.clone()
    counting = FaultyStore(world.store)
    run = world.run("run-1", **changes)
    run.store = counting
    run.plan(params)
    for number in range(1, len(counting.calls) + 1):
        for fault in every_fault(number):
            world.store = start.clone()
            run = world.run("run-1", **changes)
            run.store = FaultyStore(world.store, fault)
            with pytest.raises((Crash, StoreUnavailableError)):
                run.plan(params)
            planned, verdict = world.run("run-1", **changes).whole(params)
            where = f"{fault}: {counting.calls[number - 1]}"
            assert verdict.is_green, where
            assert world.values() == expected, where
            resets = [
                c for c in world.run().context().log.read(since=-1).records.values() if c.kind is CommitKind.RESET
            ]
            assert len(resets) == bool(params.get("reset")), where
            assert planned.refusals == (), where
    assert len(counting.calls) * len(Kind) > 40


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_another_whole_run_may_come_between_any_two_calls(scenario):
    """At each call of the store or of Kafka another run does all its steps, with news in the topic."""
    world, changes, params, expected = scenario()
    start, lengths = world.store.clone(), {p: len(world.cluster._log(tp).entries) for p, tp in tps(world).items()}
    calls = interrupted(world, world.run("run-1", **changes), params, at=0)
    for at in range(1, calls + 1):
        world.store = start.clone()
        for partition, length in lengths.items():
            del world.cluster._log(tps(world)[partition]).entries[length:]
        run = world.run("run-1", **changes)
        interrupted(world, run, params, at=at)
        _, verdict = world.run("run-3").whole()
        assert verdict.is_green, at
        found = world.values()
        assert max(found.values()) == 1, at
        assert set(expected) <= set(found) <= {*expected, 900 + at, 4, 5, 21}, at
        assert all(key.generation == 0 for key in world.run().context().log.read().state.coverage), at


def tps(world):
    (topic,) = world.cluster._topics
    return {p: TopicPartition(topic, p) for p in world.cluster._topics[topic].logs}


def interrupted(world, run, params, at):
    """Plan and do a run, another one at its `at`-th call while planning; the number of calls."""
    count = 0

    def tick(*_):
        nonlocal count
        if run.store is None:
            return
        count += 1
        if count == at:
            store, run.store = run.store, None
            world.produce("events", 0, 900 + at)
            world.run("run-2").whole()
            run.store = store

    run.store = FaultyStore(world.store, before_call=tick)
    world.cluster.on_call = tick
    try:
        planned = run.plan(params).plan
    except PlanningError:
        planned = None  # a replace may find that another run has changed what it was to replace
    run.store = None
    world.cluster.on_call = lambda name: None
    if planned is not None:
        for task in planned.tasks:
            run.extract(planned, task.index)
        run.finish(planned)
    return count
