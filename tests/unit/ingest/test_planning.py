"""The plan step over real steps and fakes: runs in a row and at once, retries, and what a dry run leaves alone."""

from collections import Counter
from datetime import datetime

import pytest

from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from tests.fakes.runtime import START
from tests.unit.ingest.piping import World, overtaken, ranges, reasons, records

# Runs one after the other


@pytest.mark.bug(56)
def test_runs_read_what_is_new_each_once(world):
    planned, verdict = world.run("run-1").whole()
    assert verdict.is_green
    assert reasons(planned) == {"events[0]": "bootstrap_earliest", "events[1]": "bootstrap_earliest"}
    assert [task.label for task in planned.plan.tasks] == ["events[0-1]"]
    assert planned.committed == (0,)
    world.produce("events", 0, 4)
    planned, verdict = world.run("run-2").whole()
    assert verdict.is_green
    assert reasons(planned) == {"events[0]": "resumed", "events[1]": "no_data"}
    assert ranges(planned) == {"events[0]": Ranges.span(3, 4)}
    assert planned.committed == ()
    assert world.values() == Counter([1, 2, 3, 4, 11, 12])


def test_a_run_without_news_has_no_tasks_and_no_commit(world):
    world.run("run-1").whole()
    before = len(records(world))
    planned, verdict = world.run("run-2").whole()
    assert planned.plan.is_empty
    assert planned.plan.config == {}
    assert verdict.is_green
    assert len(records(world)) == before


@pytest.mark.bug(24)
def test_a_first_run_that_finds_nothing_commits_its_start_points():
    world = World(arguments={"bootstrap": "latest"})
    world.cluster.create_topic("events")
    world.produce("events", 0, 1, 2)
    planned, _ = world.run("run-1").whole()
    assert planned.plan.is_empty
    (start,) = records(world)
    assert (start.kind, start.plan, start.who, start.changes[0].start) == (Kind.FORWARD, None, "tester", 2)
    assert start.why == "planning: start points of 1 partitions"
    # So a failed first run can't move them.
    world.produce("events", 0, 3)
    world.run("run-2").whole()
    assert world.values() == Counter([3])


def test_a_stored_plan_pins_what_shapes_bytes_and_places(world):
    planned = world.run().plan()
    path = world.run().context().log.paths.plan(planned.plan.key, 0)
    stored = wire.decode(path, "plan", Plan, world.store.get(path))
    assert stored == planned.plan
    assert stored.config["events"]["path_pattern"] == "yyyy/MM/dd/HH"
    assert stored.config_digest == world.config().digest
    assert (stored.log_head, stored.kind, stored.interval, stored.request) == (0, Kind.FORWARD, None, None)
    assert stored.clock == "2026-01-01T00:00:00Z"
    assert stored.plan.startswith("20260101T000000Z-")


# Retries and clears of the same run


def test_a_retry_takes_its_own_plan_unchanged_even_if_kafka_has_more(world):
    first = world.run().plan()
    world.produce("events", 0, 4)
    again = world.run().plan()
    assert again.reused
    assert again.plan == first.plan


def test_a_plan_without_work_is_made_anew(world):
    world.run("run-0").whole()
    first = world.run("run-1").plan()
    world.produce("events", 0, 4)
    again = world.run("run-1").plan()
    assert not again.reused
    assert (first.plan.counter, again.plan.counter) == (0, 1)
    assert ranges(again) == {"events[0]": Ranges.span(3, 4)}


def test_a_changed_configuration_ends_the_own_plan_and_plans_anew(world):
    first = world.run().plan()
    again = world.run(granularity="daily").plan()
    assert again.plan.counter == 1
    assert again.plan.ranges() == first.plan.ranges()
    assert again.plan.config["events"]["granularity"] == "daily"
    (abort,) = [commit for commit in records(world) if commit.kind is Kind.ABORT]
    assert (abort.plan, abort.why) == (first.plan.plan, "the configuration has changed since")


def test_limits_do_not_end_a_plan(world):
    first = world.run().plan()
    assert world.run(record_limit=5, publish_policy="partial", max_bad_share=0.5).plan().plan == first.plan


def test_clearing_plan_after_its_commit_plans_what_is_new(world):
    world.run().whole()
    world.produce("events", 1, 13)
    planned, verdict = world.run().whole()
    assert planned.plan.counter == 1
    assert verdict.is_green
    assert world.values() == Counter([1, 2, 3, 11, 12, 13])
    assert not [commit for commit in records(world) if commit.kind is Kind.ABORT]


def test_clearing_plan_after_a_partial_commit_ends_the_rest_first():
    world = World(arguments={"topics": ["events", "clicks"], "max_tasks": 2, "target_task_bytes": 1024})
    for topic in ("events", "clicks"):
        world.cluster.create_topic(topic)
        world.produce(topic, 0, 1, 2, 3)
    run = world.run()
    planned = run.plan()
    assert len(planned.plan.tasks) == 2
    run.extract(planned.plan, 0)
    run.finish(planned.plan)
    assert not run.judge(planned.plan).is_green
    again, verdict = world.run().whole()
    assert verdict.is_green
    assert len(again.plan.ranges()) == 1
    assert [c.why for c in records(world) if c.kind is Kind.ABORT] == ["the run planned anew after a commit of a part"]
    assert world.values("events") == world.values("clicks") == Counter([1, 2, 3])


def test_two_attempts_of_plan_at_once_end_up_with_one_plan(world):
    late = world.run()
    faster = overtaken(late, "plans/", lambda: world.run().plan())
    planned = late.plan()
    assert planned.reused
    assert planned.plan == faster[0].plan


# Other runs


@pytest.mark.bug(17)
def test_ranges_of_live_runs_are_left_out_and_those_of_dead_ones_are_not(world):
    world.run("run-1").plan()
    world.produce("events", 0, 4)
    world.runs.alive["run-1"] = True
    planned = world.run("run-2").plan()
    assert reasons(planned) == {"events[0]": "resumed", "events[1]": "held_by_open_plan"}
    assert ranges(planned) == {"events[0]": Ranges.span(3, 4)}
    assert planned.plan.waiting == ()
    world.runs.alive["run-1"] = False
    assert len(ranges(world.run("run-3").plan())["events[0]"]) in (3, 4)


def test_a_lost_race_is_decided_again_on_the_log_as_it_is_then(world):
    slow = world.run("run-1")
    raced = overtaken(slow, "commits/", lambda: world.run("run-2").whole())
    planned = slow.plan()
    assert raced[0][1].is_green
    assert planned.plan.is_empty
    assert reasons(planned) == {"events[0]": "no_data", "events[1]": "no_data"}
    assert planned.committed == ()


def test_a_commit_between_the_looks_is_no_truncation(world):
    # The log is read again before Kafka is asked again: else offsets decided meanwhile would lie above the old answer.
    slow = world.run("run-1")

    def grow_and_run():
        world.produce("events", 0, 4, 5, 6)
        world.run("run-2").whole()

    overtaken(slow, "commits/", grow_and_run)
    assert reasons(slow.plan()) == {"events[0]": "no_data", "events[1]": "no_data"}


@pytest.mark.bug(4)
def test_what_a_dead_publisher_left_is_rolled_forward_first(world):
    run = world.run("run-1")
    planned = run.plan()
    run.extract(planned.plan, 0)
    commit_plan(run.context(), planned.plan, run.config.commit_policy(planned.plan.config))
    assert world.values() == Counter()
    world.run("run-2").plan()
    assert world.values() == Counter([1, 2, 3, 11, 12])


# Dry runs


def test_a_dry_run_shows_the_plan_and_changes_nothing(world):
    planned = world.run().plan({"dry_run": True})
    assert planned.plan.dry_run
    assert planned.plan.tasks
    assert reasons(planned) == {"events[0]": "bootstrap_earliest", "events[1]": "bootstrap_earliest"}
    assert planned.committed == ()
    assert world.store.files() == {}
    reset = world.run().plan({"dry_run": True, "reset": {"events": "latest"}})
    assert reasons(reset) == {"events[0]": "reset", "events[1]": "reset"}
    assert reset.plan.is_empty
    assert world.store.files() == {}


# Size


def test_a_thousand_partitions_are_one_look_and_twenty_tasks():
    calls = []
    world = World(arguments={"topics": TopicFilter(), "target_task_bytes": 1024})
    for topic in range(10):
        world.cluster.create_topic(f"t{topic}", 100)
        for partition in range(100):
            world.produce(f"t{topic}", partition, 1)
    world.cluster.on_call = calls.append
    planned = world.run().plan()
    assert calls == ["kafka.cluster_id", "kafka.topics", "kafka.offsets"]
    assert len(planned.plan.tasks) == 20
    assert sum(len(unit.work_units) for task in planned.plan.tasks for unit in task.units) == 1000
    assert all(len(task.label) <= 200 for task in planned.plan.tasks)


def test_the_clock_of_a_plan_is_pinned_to_the_second(world):
    world.clock.advance(0.75)
    planned = world.run().plan()
    assert datetime.fromisoformat(planned.plan.clock) == START
