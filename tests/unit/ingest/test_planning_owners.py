"""Owners of topics, and data whose log is gone: what planning refuses, holds or starts."""

from collections import Counter

import pytest

from airflow_kafka_hdfs.exceptions import OwnedElsewhereError, StateMissingError
from airflow_kafka_hdfs.ingest.ownership import MOST_LISTINGS, claim, owner_of
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.ingest.steering import carry_out, release, remove_owners
from tests.fakes.faulty_store import FaultyStore
from tests.unit.ingest.piping import World, overtaken, records


@pytest.mark.bug(40)
def test_a_second_pipeline_is_refused_with_both_names_and_changes_nothing(world):
    world.run().whole()
    before = world.store.files()
    for params in ({}, {"dry_run": True}, {"reset": {"events": "latest"}}):
        with pytest.raises(OwnedElsewhereError, match=r"pipeline other may not.*events is owned by pipeline p \("):
            world.run("run-9", pipeline_id="other").plan(params)
    assert world.store.files() == before
    assert world.states["other"].files() == {}


@pytest.mark.parametrize("params", [{}, {"dry_run": True}, {"range_end": "2026-01-01T00:00:00Z"}])
def test_a_log_of_another_pipeline_is_refused_and_nothing_changes(world, params):
    world.states["other"] = world.store  # what state_uri says
    world.run(state_uri="file:///records").whole()
    world.clock.advance(60)
    before = world.store.files()
    other = world.run("run-2", pipeline_id="other", destination="file:///elsewhere", state_uri="file:///records")
    with pytest.raises(OwnedElsewhereError, match="that of pipeline p: .*pipeline_id='p'"):
        other.plan(params)
    assert world.store.files() == before
    assert world.run("run-3", state_uri="file:///records").whole()[1].is_green


@pytest.mark.parametrize("first", ["owner", "commits"])
def test_of_two_pipelines_that_begin_one_log_at_the_same_moment_none_takes_start_points_of_the_other(world, first):
    world.states["other"] = world.store
    ours = world.run(state_uri="file:///records", bootstrap="latest")
    told = []

    def other_begins():
        other = world.run("x", pipeline_id="other", destination="file:///elsewhere", state_uri="file:///records")
        other.store = FaultyStore(world.store)
        try:
            other.plan()
        except OwnedElsewhereError as error:
            told.append(str(error))

    overtaken(ours, first, other_begins)
    if first == "owner":  # our start points stand, our claim of the log is still to come
        ours.plan()
        assert "that of pipeline p" in told[0]
        other_begins()
        assert len(told) == 2
    else:
        with pytest.raises(OwnedElsewhereError, match="that of pipeline other"):
            ours.plan()
        assert not told
    assert len(records(world)) == 1


def test_a_log_in_the_default_place_of_another_pipeline_is_refused(world):
    for name, is_fine in (("p", True), ("other", False)):
        run = world.run(name, state_uri=f"file:///data/.kafka_hdfs/{name}/")
        if is_fine:
            assert run.plan().plan.tasks
        else:
            with pytest.raises(OwnedElsewhereError, match="that of pipeline other"):
                run.plan()


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
    # The start points of both are in this pipeline's log by then: it is the later plans that must not trust it.
    overtaken(run, ".kafka_hdfs/_owners/events", lambda: world.run("x", pipeline_id="other").plan())
    for planned in (run.plan(), world.run("run-2", topics=["events", "clicks"]).plan()):
        assert [(held.topic, held.reason) for held in planned.plan.held] == [("events", "owned_elsewhere")]
        assert {entry.key.topic for entry in planned.plan.entries} == {"clicks"}


def test_a_pipeline_that_died_before_its_claim_makes_it_later_or_is_held(world):
    class Death(Exception):
        """The process is gone."""

    def die():
        raise Death

    for name in ("run-1", "run-2"):
        run = world.run(name)
        overtaken(run, ".kafka_hdfs/_owners/events", die)
        with pytest.raises(Death):
            run.plan()
    assert [commit.kind for commit in records(world)] == [Kind.FORWARD]
    assert not [path for path in world.store.files() if "/_owners/" in path]
    later = {"range_end": "2026-01-01T00:00:30Z"}
    world.clock.advance(60)
    assert world.run("run-3").plan(later).plan.tasks
    assert b'"pipeline":"p"' in world.store.get(".kafka_hdfs/_owners/events")
    world.store.delete(".kafka_hdfs/_owners/events")
    world.run("x", pipeline_id="other").plan()
    for params in ({}, later, {"dry_run": True}):
        planned = world.run(f"run-4{len(params)}").plan(params)
        assert [held.reason for held in planned.plan.held] == ["owned_elsewhere"]


def test_a_topic_given_up_while_it_is_claimed_is_owned_afterwards(world):
    other = world.run("x", pipeline_id="other").context()
    claim(other, ["events"])
    run = world.run()
    path = other.log.data_paths.owner("events")

    def before(call):
        if call.name == "get" and call.path == path:
            world.store.delete(path)

    run.store = FaultyStore(world.store, before_call=before)
    assert claim(run.context(), ["events"]) == {}
    assert owner_of(world.run().context(), "events") == "p"


def test_a_topic_lost_to_another_pipeline_and_given_up_by_it_is_not_read_from_the_old_start_point(world):
    run = world.run()
    overtaken(run, ".kafka_hdfs/_owners/events", lambda: world.run("x", pipeline_id="other").whole())
    assert run.plan().plan.held  # with start points in the log
    other = world.run("y", pipeline_id="other").context()
    carry_out(other, release(("events",)), "hand it over")
    remove_owners(other, ("events",))
    before = world.values()
    world.clock.advance(60)
    for name, params in (("run-2", {}), ("run-3", {"range_end": "2026-01-01T00:00:30Z"}), ("run-4", {"dry_run": True})):
        (held,) = world.run(name).plan(params).plan.held
        assert (held.topic, held.reason) == ("events", "data_without_state")
    world.produce("events", 0, 77)
    reset = {"reset": {"events": "2026-01-01T00:01:00Z"}}
    assert not world.run("run-5").plan({**reset, "dry_run": True}).plan.held
    world.run("run-5").plan(reset)  # and it dies; the next attempt needs no further word of the choice
    assert world.run("run-5").whole(reset)[1].is_green
    assert world.values() == before + Counter([77])


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


@pytest.mark.bug(4)
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
