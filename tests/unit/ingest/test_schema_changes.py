"""Records of several writer schemas in one topic: files of their own, one schema for all, or an end."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_hdfs.adapters.schema_registry import MixedIdRegistry
from airflow_kafka_hdfs.ingest.records import Outcome
from tests.fakes.registry import FakeRegistry
from tests.unit.ingest.extracting import EVENT, MORNING, Task, confluent, counts_of, datum, event, manifest_of

WIDER = {**EVENT, "fields": [*EVENT["fields"], {"name": "b", "type": "int", "default": 7}]}
DOCUMENTED = {**EVENT, "doc": "the same, explained"}


def two_schemas(*order: int, **changes) -> Task:
    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time", **changes)
    schemas = [EVENT, WIDER, DOCUMENTED]
    ids = [task.registry.register("events", schema) for schema in schemas]
    for number, which in enumerate(order):
        value = {**event(number), **({"b": 1} if which == 1 else {})}
        task.cluster.produce("events", 0, confluent(ids[which], value, schemas[which]), timestamp=MORNING)
    return task


@pytest.mark.bug(90)
def test_each_schema_has_files_of_its_own_but_not_for_documentation():
    unit = (task := two_schemas(0, 1, 0, 1, 2)).unit()
    assert [(entry.schema, entry.records) for entry in unit.files] == [("1", 3), ("2", 2)]
    first, second = (task.records(entry) for entry in unit.files)
    assert [record["id"] for record in first] == [0, 2, 4]
    assert [record["b"] for record in second] == [1, 1]


@pytest.mark.bug(89)
def test_all_schemas_may_be_resolved_to_one():
    task = two_schemas(1, 0, 1, on_schema_change="resolve", schema=WIDER)
    unit = task.unit()
    (entry,) = unit.files
    assert [record["b"] for record in task.records(entry)] == [1, 7, 1]
    task = two_schemas(1, 0, 1, on_schema_change="resolve")
    unit = task.unit(task.plan(schemas={"events": {"reader": json.dumps(EVENT)}}))
    assert [record.get("b") for entry in unit.files for record in task.records(entry)] == [None] * 3


@pytest.mark.bug(91)
def test_what_can_not_be_resolved_is_bad():
    other = {"type": "record", "name": "Event", "namespace": "shop", "fields": [{"name": "x", "type": "string"}]}
    task = two_schemas(0, on_schema_change="resolve", schema=other, max_bad_share=None)
    (bad,) = task.bad(task.unit())
    assert bad["reason"] == "unresolvable"
    assert bad["value"] == confluent(1, event(0))  # what Kafka brought, not what was made of it


def test_a_change_of_schema_may_end_the_unit():
    task = two_schemas(0, 2, 0, 1, 0, on_schema_change="fail")
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "schema_changed")
    assert "events[0]@3: schema 2 differs" in unit.detail
    assert counts_of(unit) == {"written": 3}


def test_a_pinned_schema_is_the_only_one_under_fail():
    task = two_schemas(1, 1, on_schema_change="fail")
    unit = task.unit(task.plan(schemas={"events": {"reader": json.dumps(EVENT)}}))
    assert (unit.reason, unit.counts.written) == ("schema_changed", 0)


def test_topics_with_narrow_and_with_wide_ids_are_read_by_one_task():
    task, wide = Task(), FakeRegistry(id_width=16)
    narrow = task.registry
    task.registry = MixedIdRegistry(narrow, wide, lambda topic: topic == "wide")
    task.topic("narrow", value_format="avro_confluent")
    task.topic("wide", value_format="avro_id16")
    schema_id = wide.register("wide", EVENT)
    task.cluster.produce("narrow", 0, confluent(narrow.register("narrow", EVENT), event(1)), timestamp=MORNING)
    task.cluster.produce("wide", 0, b"\x00" + bytes.fromhex(schema_id) + datum(event(2)), timestamp=MORNING)
    units = manifest_of(task.run()).units
    assert {unit.topic: list(task.data(unit).values()) for unit in units} == {
        "narrow": [[event(1)]],
        "wide": [[event(2)]],
    }


def test_the_registry_is_asked_once_per_id_whatever_it_answers():
    task = Task()
    task.topic(value_format="avro_confluent", max_bad_share=None)
    schema_id = task.registry.register("events", EVENT)
    good, unknown = confluent(schema_id, event(1)), b"\x00\x00\x00\x00\x63" + datum(event(1))
    task.cluster.produce("events", 0, good, unknown, good, unknown, unknown, timestamp=MORNING)
    assert counts_of(task.unit()) == {"written": 2, "quarantined": 3}
    assert task.registry.calls["registry.by_id"] == 2
