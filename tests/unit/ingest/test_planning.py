"""The plan step over real steps and fakes: retries, owners, races, requests, and what a dry run leaves alone."""

from collections import Counter
from datetime import datetime

import pytest

from airflow_kafka_hdfs.exceptions import (
    ClusterChangedError,
    ConfigError,
    KafkaUnavailableError,
    OwnedElsewhereError,
    PlanningError,
    RegistryUnavailableError,
    StateMissingError,
)
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.ownership import MOST_LISTINGS
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.requests import PlanRequest, ResetTarget
from airflow_kafka_hdfs.ingest.selection import TopicFilter, TopicKey
from tests.fakes.faulty_store import FaultyStore
from tests.fakes.runtime import START
from tests.unit.ingest.piping import HOUR, World

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


@pytest.fixture
def world():
    made = World()
    made.cluster.create_topic("events", 2)
    made.produce("events", 0, 1, 2, 3)
    made.produce("events", 1, 11, 12)
    return made


def reasons(planned):
    return {str(entry.key): entry.reason for entry in planned.plan.entries}


def ranges(planned):
    return {str(key): spans for key, spans in planned.plan.ranges().items()}


def records(world, run="reader"):
    view = world.run(run).context().log.read(since=-1)
    return [commit for _, commit in sorted(view.records.items())]


def overtaken(run, folder, what):
    """Let something happen in the moment before a run first creates a file in a folder; what it returned."""
    done = []

    def before(call):
        if call.name == "put_if_absent" and call.path.startswith(folder) and not done:
            done.append(None)
            done[0] = what()

    run.store = FaultyStore(run.world.store, before_call=before)
    return done


# Runs one after the other


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


def test_what_a_dead_publisher_left_is_rolled_forward_first(world):
    run = world.run("run-1")
    planned = run.plan()
    run.extract(planned.plan, 0)
    commit_plan(run.context(), planned.plan, run.config.commit_policy(planned.plan.config))
    assert world.values() == Counter()
    world.run("run-2").plan()
    assert world.values() == Counter([1, 2, 3, 11, 12])


# Owners, lost state


def test_a_second_pipeline_is_refused_with_both_names_and_changes_nothing(world):
    world.run().whole()
    before = world.store.files()
    for params in ({}, {"dry_run": True}, {"reset": {"events": "latest"}}):
        with pytest.raises(OwnedElsewhereError, match=r"pipeline other may not.*events is owned by pipeline p \("):
            world.run("run-9", pipeline_id="other").plan(params)
    assert world.store.files() == before
    assert world.states["other"].files() == {}


def test_a_topic_of_another_pipeline_is_held_and_the_others_go_on(world):
    world.run(pipeline_id="other").whole()
    world.cluster.create_topic("clicks")
    world.produce("clicks", 0, 7)
    for params in ({"dry_run": True}, {"reset": {".*": "earliest"}}, {}):
        run = world.run(f"run-{len(params)}{'reset' in params}", topics=["events", "clicks"])
        planned, verdict = (run.plan(params), None) if "dry_run" in params else run.whole(params)
        (held,) = planned.plan.held
        assert (held.topic, held.reason) == ("events", "owned_elsewhere")
        assert "topic events is owned by pipeline other" in held.detail
        assert "state release" in held.detail
        if verdict is not None:
            assert verdict.faults == (f"topic events is held back: owned_elsewhere: {held.detail}",)
    assert world.values("clicks") == Counter([7])
    with pytest.raises(OwnedElsewhereError, match="events is owned by pipeline other"):
        world.run("run-8", topics=["events", "clicks"]).plan({"reset": {"events": "latest"}})
    world.clock.advance(60)
    run = world.run("run-9", topics=["events", "clicks"])
    assert [held.reason for held in run.plan({"range_end": "2026-01-01T00:00:30Z"}).plan.held] == ["owned_elsewhere"]


def test_a_topic_that_another_pipeline_takes_in_the_last_moment_is_held(world):
    world.cluster.create_topic("clicks")
    world.produce("clicks", 0, 7)
    run = world.run(topics=["events", "clicks"])
    overtaken(run, ".kafka_hdfs/_owners/events", lambda: world.run("x", pipeline_id="other").plan())
    planned = run.plan()
    assert [(held.topic, held.reason) for held in planned.plan.held] == [("events", "owned_elsewhere")]
    assert {entry.key.topic for entry in planned.plan.entries} == {"clicks"}


def test_owner_files_are_made_before_the_first_plan_and_only_for_topics_that_start():
    world = World(arguments={"topics": TopicFilter(), "topic_overrides": {"idle": {"bootstrap": "skip"}}})
    world.cluster.create_topic("events")
    world.cluster.create_topic("idle")
    world.run().plan({"dry_run": True})
    assert world.store.files() == {}
    world.run().plan()
    owners = [path for path in world.store.files() if "/_owners/" in path]
    assert owners == [".kafka_hdfs/_owners/events"]
    assert b'"pipeline":"p"' in world.store.get(owners[0])


def lose_state(world):
    for path in list(world.store.files()):
        if path.startswith(("commits/", "plans/", "units/", "published/")):
            world.store.delete(path)


def test_data_without_a_log_is_refused_and_names_the_way_out(world):
    world.run().whole()
    lose_state(world)
    with pytest.raises(StateMissingError, match=r"data of events stands below.*state rebuild.*Param `reset`"):
        world.run("run-2").plan()
    world.clock.advance(60)
    with pytest.raises(StateMissingError):
        world.run("run-2").plan({"range_end": "2026-01-01T00:00:30Z"})


def test_files_of_others_are_no_data_of_ours():
    world = World()
    world.cluster.create_topic("events")
    world.produce("events", 0, 1)
    for path in ("events/2026/readme.txt", "events/_tmp/events+20260101T000000Z-00000000+0+0.jsonl"):
        world.store.put_if_absent(path, b"x")
    assert world.run().plan().plan.tasks


def test_a_tree_of_foreign_folders_holds_planning_up_for_a_bounded_time(world):
    for number in range(MOST_LISTINGS + 50):
        world.store.put_if_absent(f"events/{number}/{number}/foreign.txt", b"x")
    run = world.run()
    run.store = FaultyStore(world.store)
    assert run.plan().plan.tasks
    listed = [call for call in run.store.calls if call.name == "list" and call.path.startswith("events")]
    assert len(listed) == MOST_LISTINGS


def test_a_start_point_may_be_chosen_beside_data_without_a_log(world):
    world.run().whole()
    lose_state(world)
    world.produce("events", 0, 4)
    world.clock.advance(60)
    planned, verdict = world.run("run-2").whole({"reset": {"events": "2026-01-01T00:00:01Z"}})
    assert verdict.is_green
    assert planned.plan.is_empty
    assert [commit.kind for commit in records(world)] == [Kind.RESET, Kind.FORWARD]


def test_data_of_a_topic_that_the_log_has_no_word_of_holds_that_topic(world):
    world.run().whole()
    world.cluster.create_topic("clicks")
    world.produce("clicks", 0, 1)
    world.store.put_if_absent("clicks/2026/01/01/00/clicks+20260101T000000Z-00000000+0+0.jsonl", b"1\n")
    planned = world.run("run-2", topics=["events", "clicks"]).plan()
    (held,) = planned.plan.held
    assert (held.topic, held.reason) == ("clicks", "data_without_state")
    assert records(world)[-1].selection.waiting == ("clicks",)


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


# Faults


def test_a_fault_of_one_topic_leaves_the_others_alone():
    world = World(arguments={"topics": ["events", "gone", "secret"]})
    world.cluster.create_topic("events")
    world.cluster.create_topic("secret")
    world.cluster.deny("secret")
    world.produce("events", 0, 1)
    planned, verdict = world.run().whole()
    assert [(held.topic, held.reason) for held in planned.plan.held] == [("gone", "missing"), ("secret", "denied")]
    assert world.values() == Counter([1])
    assert not verdict.is_green
    assert any("gone" in line for line in verdict.faults)


def test_another_cluster_is_refused(world):
    world.run().whole()
    world.cluster.cluster_id = "elsewhere"
    with pytest.raises(ClusterChangedError, match="cluster id elsewhere, the commit log knows fake-cluster"):
        world.run("run-2").plan()


def test_an_outage_of_kafka_is_for_a_retry(world):
    world.cluster.down = True
    with pytest.raises(KafkaUnavailableError):
        world.run().plan()


def test_truncation_is_noted_and_reading_goes_on(world):
    world.run("run-1").whole()
    world.cluster.truncate("events", 0, 1)
    world.produce("events", 0, 21, 22)
    planned, verdict = world.run("run-2").whole()
    assert verdict.is_green
    # Offsets 1 and 2 were decided before, the log ends at 3 again: that can't be seen.
    assert reasons(planned)["events[0]"] == "no_data"
    world.cluster.truncate("events", 0, 1)
    planned, verdict = world.run("run-3").whole()
    assert reasons(planned)["events[0]"] == "reset_too_late"
    assert "truncated to 1" in planned.notes[0]
    assert told(planned) == ["event truncated: events[0]: goes on as generation 1"]
    world.produce("events", 0, 31)
    _, verdict = world.run("run-4").whole()
    assert verdict.is_green
    assert world.values()[31] == 1


def told(planned):
    return [str(incident) for incident in planned.incidents]


def test_what_happened_to_a_topic_is_told_by_the_run_that_goes_on(world):
    assert told(world.run("run-1").whole()[0]) == []
    world.cluster.delete_topic("events")
    topic_id = world.cluster.create_topic("events", 2)
    first = world.run("run-2").whole()[0]
    assert told(first) == [f"event topic_recreated: events[{n}]: goes on under topic id {topic_id}" for n in (0, 1)]
    assert told(world.run("run-3").whole()[0]) == []

    world.produce("events", 0, *range(50, 60))
    world.cluster.expire("events", 0, 4)
    dry = world.run("run-4").plan({"dry_run": True, "reset": {"events": "latest"}})
    assert told(dry) == []
    moved = world.run("run-4").plan({"reset": {"events": "latest"}})
    assert told(moved) == ["event lost: events[0]: 4 offsets"]
    assert moved.skipped["events"] == 6


# Schemas


def avro_world(**arguments):
    world = World(arguments={"value_format": "avro_confluent", "registry": "r", "file_format": "avro", **arguments})
    world.cluster.create_topic("events")
    world.cluster.produce("events", 0, b"\x00\x00\x00\x00\x01\x02")
    return world


def test_the_reader_schema_is_pinned_where_records_are_resolved_to_the_latest():
    world = avro_world(on_schema_change="resolve")
    schema_id = world.registry.register("events", RECORD)
    planned = world.run().plan()
    assert planned.plan.schemas["events"]["reader_id"] == str(schema_id)
    assert '"name": "R"' in planned.plan.schemas["events"]["reader"]


def test_a_topic_without_a_schema_to_resolve_to_is_held_but_started():
    world = avro_world(on_schema_change="resolve")
    planned = world.run().plan()
    assert [(held.topic, held.reason) for held in planned.plan.held] == [("events", "no_schema")]
    assert planned.plan.tasks == ()
    world.registry.register("events", RECORD)
    assert ranges(world.run("run-2").plan()) == {"events[0]": Ranges.span(0, 1)}


def test_writer_schemas_need_no_registry_at_planning():
    world = avro_world()
    world.registry.down = True
    assert world.run().plan().plan.tasks
    assert not world.registry.calls


def test_an_outage_of_the_registry_is_for_a_retry_and_moves_no_start_point():
    world = avro_world(on_schema_change="resolve", bootstrap="latest")
    world.registry.register("events", RECORD)
    world.run("run-0").plan()
    world.cluster.produce("events", 0, b"\x00\x00\x00\x00\x01\x02")
    world.registry.down = True
    with pytest.raises(RegistryUnavailableError):
        world.run().plan()
    world.registry.down = False
    world.runs.alive["run-0"] = False
    assert ranges(world.run().plan()) == {"events[0]": Ranges.span(1, 2)}


def test_fields_that_clash_with_our_columns_are_found_before_anything_is_read():
    clash = {**RECORD, "fields": [{"name": "_kafka_offset", "type": "long"}]}
    world = avro_world(include_kafka_metadata=True)
    world.registry.register("events", clash)
    (held,) = world.run().plan().plan.held
    assert (held.reason, "_kafka_offset" in held.detail) == ("unusable_schema", True)
    fixed = avro_world(value_format="avro", schema=clash, include_kafka_metadata=True)
    with pytest.raises(ConfigError, match="schema: got .*_kafka_offset.*clashes"):
        fixed.run().plan()


def test_a_fixed_schema_that_is_none_is_refused():
    world = avro_world(value_format="avro", schema={"type": "recorrd", "name": "R"})
    with pytest.raises(ConfigError, match="schema: got"):
        world.run().plan()


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
