"""Small inputs on which other tools were reported to lose, double or mangle records, where no other test has them."""

from collections import Counter

import pytest

from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from tests.unit.ingest.extracting import FOLDER, MORNING, Task, confluent, counts_of, on_poll
from tests.unit.ingest.piping import World, ranges, reasons, records


@pytest.mark.bug(15)
def test_a_topic_that_was_left_out_of_a_run_goes_on_where_it_stood():
    world = World(arguments={"topics": TopicFilter(), "bootstrap": "latest"})
    for topic in ("clicks", "events"):
        world.cluster.create_topic(topic)
    world.run("run-1").whole()
    for topic in ("clicks", "events"):
        world.produce(topic, 0, 1, 2)
    world.run("run-2").whole()
    world.produce("events", 0, 3)
    planned, _ = world.run("run-3", topics=TopicFilter(deny=["events"])).whole()
    assert set(reasons(planned)) == {"clicks[0]"}
    world.produce("events", 0, 4)
    planned, _ = world.run("run-4").whole()
    assert ranges(planned) == {"events[0]": Ranges.span(2, 4)}
    assert world.values() == Counter([1, 2, 3, 4])


@pytest.mark.bug(23, 35, 104)
def test_runs_without_news_between_others_neither_move_nor_forget_anything(world):
    world.run("run-1").whole()
    before = world.values()
    for number in range(2, 5):
        planned, verdict = world.run(f"run-{number}").whole()
        assert verdict.is_green
        assert planned.plan.is_empty
        assert {(entry.previous, entry.log_end) for entry in planned.plan.entries} == {(3, 3), (2, 2)}
    assert world.values() == before
    world.produce("events", 0, 4)
    planned, _ = world.run("run-9").whole()
    assert ranges(planned) == {"events[0]": Ranges.span(3, 4)}


@pytest.mark.bug(30)
def test_files_that_were_moved_away_are_not_read_again(world):
    world.run("run-1").whole()
    for path in world.store.files():
        if path.startswith("events/"):
            world.store.delete(path)
    world.produce("events", 0, 4)
    planned, verdict = world.run("run-2").whole()
    assert verdict.is_green
    assert ranges(planned) == {"events[0]": Ranges.span(3, 4)}
    assert world.values() == Counter([4])


@pytest.mark.bug(31)
def test_where_files_lie_decides_nothing_about_what_is_read(world):
    world.arguments["path_template"] = "landing/{time}/{topic}-v2"
    world.run("run-1").whole()
    assert any(path.startswith("landing/2026/") for path in world.store.files())
    assert world.run("run-2").plan().plan.is_empty
    world.produce("events", 1, 13)
    planned = world.run("run-3", path_template="{topic}/{time}").plan()
    assert ranges(planned) == {"events[1]": Ranges.span(2, 3)}


@pytest.mark.bug(74)
def test_a_deleted_topic_holds_its_place_and_is_told(world):
    world.run("run-1").whole()
    world.cluster.create_topic("clicks")
    world.produce("clicks", 0, 7)
    world.cluster.delete_topic("events")
    planned, verdict = world.run("run-2", topics=["events", "clicks"]).whole()
    assert [(held.topic, held.reason) for held in planned.plan.held] == [("events", "missing")]
    assert "topic events is held back" in verdict.faults[0]
    assert world.values("clicks") == Counter([7])
    state = world.run().context().log.read().state
    assert {state.coverage[key].watermark for key in state.known("events").values()} == {3, 2}
    assert len(records(world)[-1].held) == 1


@pytest.mark.bug(55)
def test_an_hour_without_records_ends_no_file():
    task = Task(per_poll=1)
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 5, timestamp=MORNING)
    plan = task.plan()
    on_poll(task, 2, lambda: task.clock.advance(3600))
    (entry,) = task.unit(plan).files
    assert entry.records == 5


@pytest.mark.bug(92)
def test_what_parquet_has_no_place_for_spoils_nothing_beside_it():
    items = {"type": "array", "items": ["null", "int"]}
    listed = {"type": "record", "name": "Listed", "fields": [{"name": "a", "type": items}]}
    inner = {"type": "record", "name": "Inner", "fields": []}
    empty = {"type": "record", "name": "Empty", "fields": [{"name": "a", "type": inner}]}
    task = Task()
    task.topic(value_format="avro_confluent", file_format="parquet", max_bad_share=None)
    for schema, value in ((listed, {"a": [1, None]}), (empty, {"a": {}}), (listed, {"a": []})):
        schema_id = task.registry.register("events", schema)
        task.cluster.produce("events", 0, confluent(schema_id, value, schema), timestamp=MORNING)
    unit = task.unit()
    assert unit.outcome is Outcome.DONE
    assert task.data(unit)[FOLDER] == [{"a": [1, None]}, {"a": []}]
    assert counts_of(unit) == {"written": 2, "quarantined": 1}
    (bad,) = task.bad(unit)
    assert (bad["offset"], bad["reason"]) == (1, "unusable_schema")
    assert "has no fields" in bad["detail"]
