from __future__ import annotations

import json

import pytest

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.schema_references import inline_references
from airflow_kafka_hdfs.exceptions import UnusableSchemaError

CODEC = FastavroCodec()


def record(name: str, namespace: str | None = None, **fields: object) -> dict:
    schema = {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    return schema if namespace is None else {**schema, "namespace": namespace}


def whole(schema: object, *references: object) -> str:
    return inline_references(json.dumps(schema), map(json.dumps, references))


def round_trip(text: str, value: object) -> None:
    assert CODEC.decode(text, CODEC.encode(text, value)) == value


def test_a_type_is_written_at_its_first_use_and_named_after():
    text = whole(record("Pair", "a", left="a.Point", right="a.Point"), record("Point", "a", x="int"))
    round_trip(text, {"left": {"x": 1}, "right": {"x": 2}})
    assert text.count('"name": "x"') == 1


def test_a_name_without_a_dot_is_looked_up_in_its_namespace_first():
    local, root = record("Point", "a", x="int"), record("Point", "", y="string")
    round_trip(whole(record("R", "a", p="Point"), local, root), {"p": {"x": 1}})
    round_trip(whole(record("R", "", p="Point"), local, root), {"p": {"y": "s"}})


def test_a_type_without_namespace_keeps_its_name_inside_another_namespace():
    text = whole(record("R", "a.b", p=["null", "Point"]), record("Point", "", x="int"))
    round_trip(text, {"p": {"x": 1}})
    assert '"name":"Point"' in CODEC.canonical(text)


def test_references_use_each_other_in_any_order():
    address, person = record("Address", "x", zip="string"), record("Person", "y", home="x.Address")
    team = record("Team", "z", members={"type": "array", "items": "y.Person"}, seat="x.Address")
    for references in ((address, person), (person, address)):
        value = {"members": [{"home": {"zip": "1"}}], "seat": {"zip": "2"}}
        round_trip(whole(team, *references), value)


def test_types_inside_of_referenced_types_are_known_by_their_own_names():
    outer = record("Outer", "o", inner=record("Inner", None, kind={"type": "enum", "name": "Kind", "symbols": ["A"]}))
    text = whole(record("R", "r", kind="o.Kind", inner={"type": "map", "values": "o.Inner"}), outer)
    round_trip(text, {"kind": "A", "inner": {"k": {"kind": "A"}}})


def test_a_referenced_type_may_use_itself():
    tree = record("Tree", "t", children={"type": "array", "items": "Tree"})
    round_trip(whole(record("Wood", "w", trees={"type": "array", "items": "t.Tree"}), tree), {"trees": []})


def test_what_the_schema_defines_itself_is_not_replaced():
    own = record("R", "a", first=record("Point", None, x="int"), second="Point")
    round_trip(whole(own, record("Point", "a", other="string")), {"first": {"x": 1}, "second": {"x": 2}})


def test_a_reference_may_be_a_union_of_types():
    union = [record("A", "u", x="int"), record("B", "u", y="int")]
    round_trip(whole(record("R", "r", a="u.A", b="u.B"), union), {"a": {"x": 1}, "b": {"y": 2}})


def test_without_references_nothing_changes():
    schema = record("R", "a", x=["null", {"type": "fixed", "name": "F", "size": 2}], y="F")
    assert json.loads(whole(schema)) == {**schema, "fields": [schema["fields"][0], {"name": "y", "type": "a.F"}]}


@pytest.mark.parametrize("bad", ["no json", "5", "null", "{}"])
def test_texts_that_are_no_schema_are_unusable(bad: str):
    with pytest.raises(UnusableSchemaError):
        inline_references(bad, [])
    with pytest.raises(UnusableSchemaError):
        inline_references('"int"', [bad])
