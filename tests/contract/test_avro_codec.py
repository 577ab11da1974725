"""Every `AvroCodec` behaves like this; the official `avro` package is the second opinion on bytes."""

from __future__ import annotations

import io
import json

import avro.io
import avro.schema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ports.schemas import AvroCodec
from tests.unit.ingest.datum import hostile
from tests.unit.ingest.datum.hostile import chained, doubling, nested, record

EVENT = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "header", "type": {"type": "record", "name": "Header", "fields": [{"name": "time", "type": "long"}]}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["VIEW", "BUY"]}},
        {"name": "user", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "price", "type": "double"},
        {"name": "weight", "type": "float"},
        {"name": "paid", "type": "boolean"},
        {"name": "token", "type": {"type": "fixed", "name": "Token", "size": 4}},
        {"name": "raw", "type": "bytes"},
    ],
}
VALUE = {
    "header": {"time": 1_700_000_000_000},
    "kind": "BUY",
    "user": "ünal",
    "tags": ["a", ""],
    "counts": {"x": -1},
    "price": 2.5,
    "weight": 0.5,
    "paid": True,
    "token": b"\x00\x01\x02\x03",
    "raw": b"\xff",
}
TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "a.b",
    "fields": [{"name": "children", "type": {"type": "array", "items": "Tree"}}],
}


@pytest.fixture(scope="module")
def codec() -> AvroCodec:
    return FastavroCodec()


def text(schema: object) -> str:
    return json.dumps(schema)


def official(schema: object, value: object) -> bytes:
    target = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(text(schema))).write(value, avro.io.BinaryEncoder(target))
    return target.getvalue()


def fails(reason: str, call, *arguments, **named) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        call(*arguments, **named)
    assert caught.value.reason == reason
    return caught.value


def test_values_come_back_as_they_went_in(codec: AvroCodec):
    data = codec.encode(text(EVENT), VALUE)
    assert data == official(EVENT, VALUE)
    assert codec.decode(text(EVENT), data) == VALUE


EVENTS = st.fixed_dictionaries(
    {
        "header": st.fixed_dictionaries({"time": st.integers(-(2**63), 2**63 - 1)}),
        "kind": st.sampled_from(["VIEW", "BUY"]),
        "user": st.none() | st.text(),
        "tags": st.lists(st.text(), max_size=5),
        "counts": st.dictionaries(st.text(), st.integers(-(2**31), 2**31 - 1), max_size=1),
        "price": st.floats(allow_nan=False),
        "weight": st.floats(width=32, allow_nan=False),
        "paid": st.booleans(),
        "token": st.binary(min_size=4, max_size=4),
        "raw": st.binary(),
    }
)


@given(value=EVENTS)
def test_any_value_comes_back_with_the_bytes_of_the_official_library(value):
    codec = FastavroCodec()
    data = codec.encode(text(EVENT), value)
    assert data == official(EVENT, value)
    assert codec.decode(text(EVENT), data) == value
    assert codec.encode(text(EVENT), value, check=False) == data


@given(value=EVENTS, data=st.data())
def test_a_cut_datum_never_passes_and_a_longer_one_neither(value, data):
    codec = FastavroCodec()
    whole = codec.encode(text(EVENT), value)
    cut = data.draw(st.integers(0, len(whole) - 1))
    fails("truncated", codec.decode, text(EVENT), whole[:cut])
    error = fails("trailing_bytes", codec.decode, text(EVENT), whole + b"\x00")
    assert error.detail == f"the datum ends after {len(whole)} of {len(whole) + 1} bytes"


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ("string", b"", "truncated"),
        ("string", b"\x06ab", "truncated"),
        ("string", b"\x01abc", "truncated"),
        ("string", b"\x06a\xffb", "corrupt"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "truncated"),
        ("long", b"\x80", "truncated"),
        ("double", b"\x00\x00", "truncated"),
        ("boolean", b"", "truncated"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc", "truncated"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\x04", "corrupt"),
        (["null", "string"], b"\x04", "corrupt"),
        ({"type": "array", "items": "int"}, b"\x02\x02", "truncated"),
        ({"type": "array", "items": "int"}, b"\x02\x02\x00\x09", "trailing_bytes"),
        ("null", b"x", "trailing_bytes"),
    ],
)
def test_damage_is_told_by_a_code(codec: AvroCodec, schema: object, data: bytes, reason: str):
    fails(reason, codec.decode, text(schema), data)


@pytest.mark.parametrize("schema", ["boolean", "long", "double", "string"])
def test_the_words_for_damage_are_the_same_in_each_attempt(codec: AvroCodec, schema: str):
    told = []
    for data in (b"", b"\x80", b"\x10abc"):
        if schema == "boolean" and data:
            continue
        with pytest.raises(DecodeError) as caught:
            codec.decode(f'"{schema}"', data)
        told.append(caught.value.detail)
    assert not [detail for detail in told if "0x" in detail]


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_data_nested_without_end_are_bad_data_and_not_the_end_of_the_process(codec: AvroCodec, levels: int):
    error = fails("corrupt", codec.decode, text(TREE), b"\x02" * levels + b"\x00" * (levels + 1))
    assert error.detail == "nested too deeply"


def test_large_data_of_a_recursive_schema_are_read(codec: AvroCodec):
    value = {"children": [{"children": [{"children": []}] * 50}] * 100}
    data = codec.encode(text(TREE), value)
    assert len(data) > 4_000
    assert codec.decode(text(TREE), data) == value


@pytest.mark.parametrize("logical", ["timestamp-millis", "timestamp-micros", "time-micros"])
def test_logical_types_stay_their_numbers_even_where_no_date_could_be_made(codec: AvroCodec, logical: str):
    schema = text({"type": "long", "logicalType": logical})
    assert codec.decode(schema, codec.encode(schema, 2**62)) == 2**62


def test_logical_types_of_fields_unions_and_items_are_left_alone_too(codec: AvroCodec):
    at = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "at", "type": ["null", at]},
            {"name": "all", "type": {"type": "array", "items": at}},
            {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
    value = {"at": 2**60, "all": [1, 2], "amount": b"\x00\x7f", "id": "no uuid at all"}
    assert codec.decode(text(schema), codec.encode(text(schema), value)) == value


A = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
B = {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]}


def test_a_union_of_look_alikes_remembers_which_one_it_was(codec: AvroCodec):
    schema = text([A, B])
    data = b"\x02\x0a"
    assert codec.decode(schema, data) == ("B", {"x": 5})
    assert codec.encode(schema, codec.decode(schema, data)) == data


def test_a_union_with_one_named_type_gives_the_value_alone(codec: AvroCodec):
    assert codec.decode(text(["null", A]), b"\x02\x0a") == {"x": 5}


def test_a_reader_schema_resolves(codec: AvroCodec):
    writer = text({**A, "fields": [{"name": "x", "type": "int"}, {"name": "gone", "type": "string"}]})
    reader = text({**A, "fields": [{"name": "new", "type": "string", "default": "?"}, {"name": "x", "type": "double"}]})
    data = codec.encode(writer, {"x": 3, "gone": "y"})
    assert codec.decode(writer, data, reader) == {"x": 3.0, "new": "?"}


@pytest.mark.parametrize(
    ("writer", "reader", "data"),
    [
        ("int", "string", b"\x02"),
        (["null", "string"], "string", b"\x00"),
        (A, {**A, "fields": [{"name": "y", "type": "int"}]}, b"\x02"),
    ],
)
def test_what_the_reader_has_no_place_for_is_unresolvable(codec: AvroCodec, writer, reader, data: bytes):
    fails("unresolvable", codec.decode, text(writer), data, text(reader))


def test_resolving_does_not_hide_bytes_behind_the_datum(codec: AvroCodec):
    fails("trailing_bytes", codec.decode, text("int"), b"\x02\x02", text("long"))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 2**31),
        ("int", True),
        ("int", "5"),
        ("long", 2**63),
        ("string", b"bytes"),
        ("string", "\ud800"),
        ("bytes", "text"),
        ("null", 0),
        (["null", "int"], "x"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc"),
        ({"type": "array", "items": "string"}, "ab"),
        ({"type": "map", "values": "int"}, {1: 2}),
        (A, {}),
        (A, {"x": 1, "y": 2}),
        (A, None),
        (A, {"x": None}),
    ],
)
def test_a_value_that_does_not_fit_is_not_written(codec: AvroCodec, schema: object, value: object):
    fails("unencodable", codec.encode, text(schema), value)


def test_fields_with_a_default_may_be_missing(codec: AvroCodec):
    schema = text({**A, "fields": [{"name": "x", "type": "int", "default": 7}]})
    assert codec.decode(schema, codec.encode(schema, {})) == {"x": 7}


@pytest.mark.parametrize(
    "bad",
    [
        "nope",
        "",
        "5",
        "null",
        "[]",
        "{}",
        '["null", "null"]',
        '["null", ["int"]]',
        '{"type": "record", "name": "R"}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Unknown"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "x"}]}',
        '{"type": "enum", "name": "E", "symbols": ["A", "A"]}',
        '{"type": "array"}',
        '{"type": "map"}',
        '{"type": "fixed", "name": "F"}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "fixed", "name": "F", "size": "4"}',
        '{"type": "fixed", "name": "F", "size": true}',
        '{"type": "fixed", "name": "F", "logicalType": "decimal", "precision": 9, "size": 1' + "0" * 400 + "}",
        '{"type": "record", "name": "R\\"", "fields": []}',
        '{"type": "record", "name": "R", "namespace": "a\\u001b[31m", "fields": []}',
        '{"type": "record", "name": "R", "namespace": 5, "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a\\",\\"type\\":\\"long", "type": "int"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "\\ud800", "type": "int"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": 5, "type": "int"}]}',
        '{"type": "record", "name": "R", "fields": 5, "__fastavro_parsed": true, "__named_schemas": {}}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "No"}], "__fastavro_parsed": true}',
    ],
)
def test_text_that_is_no_schema_is_refused_by_every_call(codec: AvroCodec, bad: str):
    for call in (
        lambda: codec.parse(bad),
        lambda: codec.canonical(bad),
        lambda: codec.decode(bad, b""),
        lambda: codec.decode('"int"', b"\x00", bad),
        lambda: codec.encode(bad, 1),
    ):
        with pytest.raises(UnusableSchemaError, match="no usable Avro schema"):
            call()


def test_long_texts_do_not_flood_the_error(codec: AvroCodec):
    with pytest.raises(UnusableSchemaError) as caught:
        codec.parse('{"type": "record", "name": "' + "R" * 100_000)
    assert len(str(caught.value)) < 1_000
    error = fails("unencodable", codec.encode, '"int"', "x" * 100_000)
    assert len(str(error)) < 1_000


def test_parsing_gives_plain_values_that_may_be_changed(codec: AvroCodec):
    parsed = codec.parse(text(EVENT))
    assert parsed == EVENT
    parsed["fields"].clear()
    assert codec.parse(text(EVENT)) == EVENT


@pytest.mark.parametrize(
    ("schema", "canonical"),
    [
        ("int", '"int"'),
        ({"type": "int"}, '"int"'),
        (["null", {"type": "string"}], '["null","string"]'),
        (
            {"fields": [], "doc": "d", "name": "R", "type": "record", "namespace": "a", "aliases": ["Q"]},
            '{"name":"a.R","type":"record","fields":[]}',
        ),
        (
            TREE,
            '{"name":"a.b.Tree","type":"record","fields":[{"name":"children","type":{"type":"array","items":"a.b.Tree"}}]}',
        ),
    ],
)
def test_the_canonical_form_keeps_what_matters(codec: AvroCodec, schema: object, canonical: str):
    assert codec.canonical(text(schema)) == canonical


def test_schemas_that_differ_in_remarks_alone_are_the_same(codec: AvroCodec):
    remarked = {**EVENT, "doc": "all that happens", "fields": [{**f, "doc": "x"} for f in EVENT["fields"]]}
    assert codec.canonical(text(remarked)) == codec.canonical(text(EVENT))
    assert codec.canonical(text(EVENT)) != codec.canonical(text({**EVENT, "fields": EVENT["fields"][:3]}))


def test_marks_of_a_library_in_a_schema_change_nothing(codec: AvroCodec):
    marked = {**A, "__fastavro_parsed": True, "__named_schemas": {"A": {"type": "int"}}}
    assert codec.canonical(text(marked)) == codec.canonical(text(A))
    assert codec.decode(text(marked), b"\x02") == {"x": 1}


def test_two_schemas_may_use_one_name_for_different_things(codec: AvroCodec):
    other = {**A, "fields": [{"name": "y", "type": "string"}]}
    assert codec.decode(text(A), b"\x02") == {"x": 1}
    assert codec.decode(text(other), b"\x02a") == {"y": "a"}
    assert codec.decode(text(A), b"\x04") == {"x": 2}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        *((schema, "1000 values|more than 16 values") for schema in hostile.EMPTY.values()),
        *((schema, "record E always holds a record of its own type") for schema in hostile.ENDLESS.values()),
        *((schema, "more than 65536 values|without end") for schema in hostile.DEFAULTS.values()),
        *((schema, "more than 128 levels|RecursionError") for schema in hostile.DEEP.values()),
    ],
    ids=[*hostile.EMPTY, *hostile.ENDLESS, *hostile.DEFAULTS, *hostile.DEEP],
)
def test_schemas_that_ask_for_more_than_memory_are_refused_by_every_call(codec: AvroCodec, schema: object, said: str):
    for call in (
        lambda: codec.parse(text(schema)),
        lambda: codec.canonical(text(schema)),
        lambda: codec.decode(text(schema), b""),
        lambda: codec.decode('"int"', b"\x00", text(schema)),
        lambda: codec.encode(text(schema), {}, check=False),
    ):
        with pytest.raises(UnusableSchemaError, match=f"no usable Avro schema: .*({said})"):
            call()


@pytest.mark.parametrize(
    "schema",
    [
        doubling(("x", "long")),  # a datum that is too short shows it at once
        doubling(("x", "null"), wrap=lambda inner: ["null", inner]),
        doubling(("x", "null"), levels=7),
        record("T", ("l", {"type": "array", "items": doubling(levels=3)})),
        record("E", ("a", ["null", "E"], None), ("b", {"type": "array", "items": "E"}, []), ("c", ["int", "E"], 0)),
        record("E", ("u", ["null", record("F", ("back", "E"))])),
        record("E", ("a", [{"type": "map", "values": "long"}, "E"], {})),
        record("E", ("a", ["null", "E"], {"a": None})),
        record("D", ("a", {"type": "array", "items": "string"}, ["x" * 60_000])),
        record("D", *((f"f{i}", ["null", "string"], None) for i in range(5_000))),
        nested(127),
        chained(120),
    ],
    ids=range(12),
)
def test_schemas_that_only_look_like_them_are_taken(codec: AvroCodec, schema: object):
    assert codec.parse(text(schema)) == schema
    codec.canonical(text(schema))
