"""A pipeline that is years old starts as fast as a young one: a run reads a bounded part, though no record goes."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_kafka_hdfs.ingest.log import CHECKPOINT_EVERY
from tests.fakes.faulty_store import FaultyStore
from tests.fakes.long_log import long_log
from tests.unit.ingest.piping import World

TOPICS = 30


def aged(commits: int) -> World:
    world = World(arguments={"topics": [f"topic-{number:03}" for number in range(TOPICS)]})
    long_log(world.store.put_if_absent, world.cluster, commits, TOPICS)
    return world


def calls_of_a_run(world: World) -> Counter[str]:
    """Calls of the store in a whole run that reads a record of each topic, by name."""
    calls: Counter[str] = Counter()
    steps = [world.run("new") for _ in range(4)]
    for step in steps:
        step.store = FaultyStore(world.store)
    planning, reading, publishing, judging = steps
    plan = planning.plan().plan
    assert len(plan.ranges()) == TOPICS
    assert {len(spans) for spans in plan.ranges().values()} == {1}, "nothing of the past is read again"
    for task in plan.tasks:
        reading.extract(plan, task.index)
    publishing.finish(plan)
    assert judging.judge(plan).is_green
    for step in steps:
        calls.update(call.name for call in step.store.calls)
    return calls


@pytest.mark.parametrize("since_checkpoint", [1, CHECKPOINT_EVERY - 1])
def test_a_run_asks_its_store_as_often_after_many_commits_as_after_few(since_checkpoint):
    young = calls_of_a_run(aged(3 * CHECKPOINT_EVERY + since_checkpoint + 1))
    old = calls_of_a_run(aged(60 * CHECKPOINT_EVERY + since_checkpoint + 1))
    # Checkpoints lie in folders of a thousand numbers; records only go into the log once.
    assert old == young


def test_the_start_of_a_run_reads_no_more_records_than_lie_between_two_checkpoints_and_a_window():
    world = aged(60 * CHECKPOINT_EVERY + CHECKPOINT_EVERY)
    run = world.run("new")
    run.store = FaultyStore(world.store)
    assert run.plan().plan.tasks
    read = [call.path for call in run.store.calls if call.name == "get"]
    assert sum(path.startswith("checkpoints/") for path in read) == 1
    assert len([path for path in read if path.startswith("commits/")]) < 2 * CHECKPOINT_EVERY + 16
    # The rest since the checkpoint, and what planning itself committed.
    assert len({path for path in read if path.startswith("commits/") and world.store.get(path)}) <= CHECKPOINT_EVERY
    assert len(read) < 100


def test_no_record_ever_goes():
    world = aged(2 * CHECKPOINT_EVERY + 1)
    before = set(world.store.files())
    calls_of_a_run(world)
    assert before <= set(world.store.files())
