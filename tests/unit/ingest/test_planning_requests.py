"""Resets and date ranges that people ask for: carried out once, beside what goes on."""

from collections import Counter

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError, PlanningError
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.requests import PlanRequest, ResetTarget
from airflow_kafka_hdfs.ingest.selection import TopicKey
from tests.fakes.runtime import START
from tests.unit.ingest.piping import HOUR, World, ranges, reasons, records

# Resets


def test_a_reset_is_carried_out_once_though_the_run_is_cleared(world):
    world.run("run-1").whole()
    world.produce("events", 0, 4, 5)
    planned, verdict = world.run("run-2").whole({"reset": {"events": "latest"}})
    assert verdict.is_green
    assert planned.plan.is_empty
    (reset,) = [commit for commit in records(world) if commit.kind is Kind.RESET]
    assert (reset.who, reset.counts.skipped) == ("tester", 2)
    assert reset.why == "reset: events to latest (2 offsets skipped)"
    world.produce("events", 0, 6)
    again, _ = world.run("run-2").whole({"reset": {"events": "latest"}})
    assert reasons(again)["events[0]"] == "resumed"
    assert world.values() == Counter([1, 2, 3, 6, 11, 12])
    # Another run may ask again, also for the way back.
    world.run("run-3").whole({"reset": {"events": "earliest"}})
    assert world.values() == Counter([1, 2, 3, 4, 5, 6, 11, 12])


def test_a_reset_for_another_ingestion_of_the_dag_is_noted_and_planning_goes_on(world):
    run = world.run("run-1")
    request = PlanRequest(reset={TopicKey.of("reset", "clicks"): ResetTarget(word="latest")}, elsewhere=(("clicks",),))
    planned = make_plan(run.context(), run.sources(), run.config, request)
    assert planned.notes == ("reset: clicks is no topic of this ingestion",)
    assert not planned.plan.is_empty
    with pytest.raises(ConfigError, match="reset: got 'clicks'; allowed: events"):
        world.run("run-2").plan({"reset": {"clicks": "latest"}})


def test_a_reset_of_a_topic_that_can_not_be_read_changes_nothing(world):
    world.run("run-1").whole()
    before = world.store.files()
    world.cluster.lose_leader("events", 1)
    with pytest.raises(PlanningError, match="reset: topic events: no_leader"):
        world.run("run-2").plan({"reset": {"events": "latest"}})
    assert world.store.files() == before


# Date ranges


def hours(world, count=4):
    """Values 0-9 in partition 0 in the hour from the clock's start, 10-19 in the next, …; the clock stands after."""
    world.cluster.create_topic("events")
    for hour in range(count):
        for minute in range(10):
            world.produce("events", 0, hour * 10 + minute, at=START + hour * HOUR + minute * HOUR / 10)
    world.clock.advance(count * 3600)
    return world


def test_backfills_and_scheduled_runs_read_everything_once():
    world = hours(World())
    for hour in (2, 0):
        interval = (START + hour * HOUR, START + (hour + 1) * HOUR)
        planned, verdict = world.run(f"backfill-{hour}").whole(backfill=True, data_interval=interval)
        assert verdict.is_green
        assert planned.plan.kind is Kind.INTERVAL
        assert planned.plan.interval == (interval[0].isoformat(), interval[1].isoformat())
        assert reasons(planned) == {"events[0]": "interval"}
        assert planned.committed == ()
    assert world.values() == Counter([*range(10), *range(20, 30)])
    planned, verdict = world.run("scheduled").whole()
    assert ranges(planned) == {"events[0]": Ranges.of([(10, 20), (30, 40)])}
    assert verdict.is_green
    planned, verdict = world.run("backfill-again").whole(backfill=True, data_interval=interval)
    assert reasons(planned) == {"events[0]": "interval_settled"}
    assert verdict.is_green
    assert world.values() == Counter(range(40))


def test_a_backfill_waits_for_what_a_live_run_reads():
    world = hours(World())
    live = world.run("scheduled")
    planned = live.plan()
    world.runs.alive["scheduled"] = True
    backfill = world.run("backfill")
    waiting, verdict = backfill.whole({"range_start": START.isoformat(), "range_end": (START + HOUR).isoformat()})
    assert [item.plan for item in waiting.plan.waiting] == [planned.plan.plan]
    assert verdict.waiting_for == (planned.plan.plan,)
    live.extract(planned.plan, 0)
    live.finish(planned.plan)
    assert backfill.judge(waiting.plan).is_green
    assert world.values() == Counter(range(40))


def test_a_date_range_with_an_open_transaction_in_it_stays_open_until_that_ends():
    world = hours(World(), 1)
    txn = world.cluster.transaction()
    txn.produce("events", 0, b"77", timestamp=int(START.timestamp() * 1000) + 1)
    params = {"range_start": START.isoformat(), "range_end": (START + HOUR).isoformat()}
    _, verdict = world.run("backfill").whole(params)
    assert verdict.faults == (
        "topic events: events[0]: [10, 11) of the date range lie beyond the last stable offset 10: a transaction was "
        "open; run the same interval again once it has ended",
    )
    txn.commit()
    _, verdict = world.run("backfill").whole(params)
    assert verdict.is_green
    assert world.values() == Counter([*range(10), 77])


def test_a_replace_reads_again_what_its_files_held_and_is_carried_out_once():
    world = hours(World())
    world.run("scheduled").whole()
    before = {path for path in world.store.files() if path.startswith("events/")}
    params = {"range_start": START.isoformat(), "range_end": (START + HOUR).isoformat(), "replace": True}
    planned, verdict = world.run("again").whole(params)
    assert verdict.is_green
    assert planned.plan.kind is Kind.REPLACE
    assert planned.plan.request.startswith("replace:again:")
    assert {item.path for item in planned.plan.replaces} <= before
    assert world.values() == Counter(range(40))
    after = {path for path in world.store.files() if path.startswith("events/")}
    assert len(before & after) == len(before) - len(planned.plan.replaces)
    cleared, verdict = world.run("again").whole(params)
    assert (cleared.plan.kind, cleared.plan.is_empty, verdict.is_green) == (Kind.INTERVAL, True, True)
    assert {path for path in world.store.files() if path.startswith("events/")} == after


def test_a_replace_of_backfilled_data_doubles_nothing_though_the_topic_has_no_start_point():
    world = hours(World())
    params = {"range_start": START.isoformat(), "range_end": (START + HOUR).isoformat()}
    world.run("backfill").whole(params)
    planned, verdict = world.run("again").whole({**params, "replace": True})
    assert len(planned.plan.replaces) == 1
    assert verdict.is_green
    assert world.values() == Counter(range(10))


def test_a_replace_reads_all_that_it_takes_out_of_place_though_a_live_plan_holds_it_too():
    world = hours(World())
    live = world.run("scheduled")
    planned = live.plan()
    world.runs.alive["scheduled"] = False  # taken for dead for a while, so that another run reads the same
    world.run("twin").whole()
    world.runs.alive["scheduled"] = True
    params = {"range_start": START.isoformat(), "range_end": (START + HOUR).isoformat(), "replace": True}
    replaced, verdict = world.run("again").whole(params)
    assert (len(replaced.plan.replaces), verdict.is_green) == (1, True)
    assert world.values() == Counter(range(40))
    live.extract(planned.plan, 0)
    live.finish(planned.plan)
    assert world.values() == Counter(range(40))


def test_a_replace_that_kafka_can_not_serve_changes_nothing():
    world = hours(World())
    world.run("scheduled").whole()
    world.cluster.expire("events", 0, 5)
    before = world.store.files()
    params = {"range_start": START.isoformat(), "range_end": (START + HOUR).isoformat(), "replace": True}
    with pytest.raises(PlanningError, match=r"events\[0\]: \[0, 5\)"):
        world.run("again").plan(params)
    assert world.store.files() == before


def test_a_backfill_without_an_interval_is_refused(world):
    with pytest.raises(ConfigError, match="KafkaToHdfsDag turns it into CronDataIntervalTimetable"):
        world.run().plan(backfill=True)
    assert world.store.files() == {}
