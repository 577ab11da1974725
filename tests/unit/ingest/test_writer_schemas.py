"""Schemas: which share a file, what type stands at a path, and what the registry's answers are worth."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_hdfs.exceptions import DecodeError, RegistryUnavailableError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.choices import TimeUnit
from airflow_kafka_hdfs.ingest.datum.schema import read_schema
from airflow_kafka_hdfs.ingest.datum.timing import time_doubt
from airflow_kafka_hdfs.ingest.writer_schemas import SchemaBook, is_record_like, schema_key, types_at
from tests.fakes.registry import FakeRegistry
from tests.unit.ingest.datum import hostile
from tests.unit.ingest.extracting import CODEC, EVENT

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


def record(name: str, **fields) -> dict:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"doc": "explained"}, True),
        ({"fields": [{**field, "doc": "x"} for field in EVENT["fields"]]}, True),
        ({"fields": list(reversed(EVENT["fields"]))}, False),
        ({"name": "Other"}, False),
        ({"version": 2}, False),
        ({"fields": [*EVENT["fields"], {"name": "x", "type": "int", "default": 1}]}, False),
        ({"fields": [{"name": "header", "type": MILLIS}, *EVENT["fields"][1:]]}, False),
    ],
)
def test_only_documentation_leaves_files_alone(change, same):
    assert (schema_key({**EVENT, **change}) == schema_key(EVENT)) is same


def test_a_default_that_looks_like_documentation_is_data():
    one, two = (record("R") for _ in range(2))
    one["fields"] = [{"name": "m", "type": {"type": "map", "values": "int"}, "default": {"doc": 1}}]
    two["fields"] = [{"name": "m", "type": {"type": "map", "values": "int"}, "default": {"doc": 2}}]
    assert schema_key(one) != schema_key(two)


@pytest.mark.bug(90)
def test_enums_nested_anywhere_tell_schemas_apart():
    def wrapped(symbols):
        return record("R", f={"type": "array", "items": {"type": "enum", "name": "E", "symbols": symbols}})

    assert schema_key(wrapped(["A"])) != schema_key(wrapped(["A", "B"]))


@pytest.mark.parametrize(
    ("schema", "path", "found"),
    [
        (record("R", t=MILLIS), "t", [MILLIS]),
        (record("R", t=["null", MILLIS]), "t", ["null", MILLIS]),
        (record("R", h=record("H", t=MICROS)), "h.t", [MICROS]),
        (record("R", h=["null", record("H", t=MICROS)]), "h.t", [MICROS]),
        (["null", record("R", t="long"), record("S", t=MILLIS)], "t", ["long", MILLIS]),
        (record("R", a=record("H", t=MICROS), b="H"), "b.t", [MICROS]),
        (record("R", t="long", next=["null", "R"]), "next.next.t", ["long"]),
        (record("R", t="long"), "x", []),
        (record("R", t="long"), "t.x", []),
        ({"type": record("R", t=MILLIS)}, "t", [MILLIS]),
    ],
)
def test_types_at_a_path(schema, path, found):
    assert list(types_at(schema, tuple(path.split(".")))) == found


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("levels", "width"), [(30, 2), (4, 200)])
def test_a_path_that_forks_at_each_level_is_followed_in_time(levels, width):
    schema = hostile.forking(levels, width)
    path = ("a",) * (levels + 1)
    assert list(types_at(schema, path)) == ["long"] * width
    assert time_doubt(read_schema(schema), path, "s", "ms") == "a long is read in 's' when decoded"
    assert not time_doubt(read_schema(schema), path, "ms", "ms")


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        (MILLIS, TimeUnit.MILLIS),
        (["null", MICROS], TimeUnit.MICROS),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, TimeUnit.NANOS),
        ("long", None),
        ({"type": "long", "logicalType": {"of": "nobody"}}, None),
        ({"type": "int", "logicalType": "date"}, TimeUnit.DAYS),
    ],
)
def test_a_timestamp_type_tells_the_unit(kind, unit):
    book = SchemaBook(CODEC, time_field=("t",))
    assert book.of_text(json.dumps(record("R", t=kind))).time_unit is unit


@pytest.mark.parametrize(
    ("schema", "table"),
    [
        (EVENT, True),
        (["null", EVENT], True),
        ("string", False),
        (["null"], False),
        (["null", "string"], False),
        ([EVENT, "int"], False),
        ({"type": "array", "items": EVENT}, False),
    ],
)
def test_files_of_tables_need_records(schema, table):
    assert is_record_like(schema) is table
    assert SchemaBook(CODEC, tables_only=False).of_text(json.dumps(schema)).text
    if not table:
        with pytest.raises(UnusableSchemaError, match="no record"):
            SchemaBook(CODEC).of_text(json.dumps(schema))


def test_a_type_in_a_type_is_what_it_holds():
    assert is_record_like({"type": EVENT})
    assert not is_record_like({"type": {"type": "string"}})


def test_answers_are_remembered_and_outages_are_not():
    registry = FakeRegistry()
    schema_id = registry.register("events", EVENT)
    book = SchemaBook(CODEC, registry)
    registry.down = True
    for _ in range(2):
        with pytest.raises(RegistryUnavailableError):
            book.of_id(schema_id)
    registry.down = False
    assert book.of_id(schema_id) is book.of_id(schema_id)
    for _ in range(3):
        with pytest.raises(DecodeError, match="unknown_schema: schema id 99"):
            book.of_id(99)
    assert registry.calls["registry.by_id"] == 4


def test_a_topic_of_garbage_does_not_fill_the_memory_and_forgets_no_good_schema():
    registry = FakeRegistry()
    schema_id = registry.register("events", EVENT)
    book = SchemaBook(CODEC, registry)
    good = book.of_id(schema_id)
    for unknown in range(10, 3_000):
        with pytest.raises(DecodeError):
            book.of_id(unknown)
    assert len(book._by_id) <= 1_001
    assert book.of_id(schema_id) is good


def test_an_id_without_a_registry_is_a_fault_of_the_settings():
    with pytest.raises(UnusableSchemaError, match="no registry to ask"):
        SchemaBook(CODEC).of_id(1)
