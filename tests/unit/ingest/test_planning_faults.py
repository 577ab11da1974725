"""Faults of topics, clusters and registries: held, told, or left for a retry."""

from collections import Counter

import pytest

from airflow_kafka_hdfs.exceptions import (
    ClusterChangedError,
    ConfigError,
    KafkaUnavailableError,
    RegistryUnavailableError,
)
from airflow_kafka_hdfs.ingest.ranges import Ranges
from tests.unit.ingest.datum import hostile
from tests.unit.ingest.piping import RECORD, World, ranges, reasons


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


@pytest.mark.timeout(60)
def test_a_topic_to_be_resolved_to_a_schema_whose_defaults_double_is_held_and_a_fixed_one_is_refused():
    world = avro_world(on_schema_change="resolve")
    world.registry.register("events", hostile.DEFAULTS["numbers"])
    (held,) = world.run().plan().plan.held
    assert held.reason == "unusable_schema"
    assert "come to more than 65536 values" in held.detail
    fixed = avro_world(value_format="avro", schema=hostile.DEFAULTS["numbers"])
    with pytest.raises(ConfigError, match="schema: got .*come to more than 65536 values"):
        fixed.run().plan()
