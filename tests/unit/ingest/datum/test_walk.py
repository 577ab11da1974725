"""The reference walk: what it accepts every reader reads, what it finds is the time, and nothing makes it stumble."""

import io
import json
import time

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.datum.program import MAX_EMPTY_ITEMS, MAX_FRAMES, Op, compile_program
from airflow_kafka_hdfs.ingest.datum.reference import walk
from airflow_kafka_hdfs.ingest.datum.schema import read_schema
from airflow_kafka_hdfs.ingest.datum.timing import holds_itself
from tests.unit.ingest.datum.avro_data import Judge, cuts, damaged, encode, laws, names_of, shapes, timed

REASONS = ("truncated", "trailing_bytes", "corrupt")


def reason(schema, data, **options):
    with pytest.raises(DecodeError) as caught:
        walk(compile_program(schema, **options), data)
    return caught.value.reason


def verdict(schema, data):
    """None if the datum is whole, else the reason."""
    try:
        walk(compile_program(schema), data)
    except DecodeError as error:
        return error.reason
    return None


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


@laws
@given(st.data())
def test_every_datum_of_every_schema_is_walked_to_its_end(data):
    shape = data.draw(shapes())
    value = data.draw(shape.values)
    datum = encode(shape.schema, value, names_of(shape.schema), data.draw(cuts()))
    assert Judge(shape.schema).reads_whole(datum)
    assert walk(compile_program(shape.schema), datum) is None


@laws
@given(st.data())
def test_the_time_is_found_wherever_it_stands(data):
    shape = data.draw(timed())
    value, expected = data.draw(shape.rows)
    datum = encode(shape.schema, value, names_of(shape.schema), data.draw(cuts()))
    assert walk(compile_program(shape.schema, shape.path, shape.unit), datum) == expected


@laws
@given(st.data())
def test_no_damaged_datum_is_accepted_that_fastavro_does_not_read_whole(data):
    shape = data.draw(shapes())
    datum = encode(shape.schema, data.draw(shape.values), names_of(shape.schema))
    broken = data.draw(damaged(datum))
    found = verdict(shape.schema, broken)
    assert found in REASONS or (found is None and Judge(shape.schema).reads_whole(broken))


@laws
@given(st.data())
def test_every_part_of_a_datum_is_truncated_and_every_longer_one_has_trailing_bytes(data):
    shape = data.draw(shapes())
    datum = encode(shape.schema, data.draw(shape.values), names_of(shape.schema))
    program = compile_program(shape.schema)
    if datum:
        with pytest.raises(DecodeError) as caught:
            walk(program, datum[: data.draw(st.integers(0, len(datum) - 1))])
        assert caught.value.reason == "truncated"
    with pytest.raises(DecodeError) as caught:
        walk(program, datum + b"\x00")
    assert caught.value.reason == "trailing_bytes"


@pytest.mark.parametrize(
    ("schema", "data", "code"),
    [
        ("boolean", b"\x02", "corrupt"),
        ("int", encode_long(2**31), "corrupt"),
        ("int", encode_long(-(2**31) - 1), "corrupt"),
        ("int", b"\x80\x80\x80\x80\x80\x00", "corrupt"),
        ("long", b"\xff" * 9 + b"\x02", "corrupt"),
        ("long", b"\x80" * 10 + b"\x00", "corrupt"),
        ("long", b"\x80" * 9, "truncated"),
        ("string", b"\x01", "corrupt"),
        ("string", b"\x02\xff", "corrupt"),
        ("string", b"\x06\xed\xa0\x80", "corrupt"),
        ("bytes", encode_long(2**62) + b"x", "truncated"),
        ("bytes", b"", "truncated"),
        (["null", "long"], b"\x04", "corrupt"),
        (["null", "long"], b"\x01", "corrupt"),
        ([], b"\x00", "corrupt"),
        ({"type": "enum", "name": "E", "symbols": ["a"]}, b"\x02", "corrupt"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc", "truncated"),
        ({"type": "array", "items": "long"}, encode_long(2**62), "truncated"),
        ({"type": "array", "items": "long"}, encode_long(-(2**63)) + b"\x00", "corrupt"),
        ({"type": "array", "items": "double"}, encode_long(2**62), "truncated"),
        ({"type": "array", "items": "null"}, encode_long(MAX_EMPTY_ITEMS + 1) + b"\x00", "corrupt"),
        ({"type": "array", "items": "null"}, encode_long(MAX_EMPTY_ITEMS) + b"\x02\x00", "corrupt"),
        ({"type": "array", "items": "long"}, b"\x01\x04\x00\x00", "corrupt"),
        ({"type": "array", "items": "double"}, b"\x01\x12" + bytes(9) + b"\x00", "corrupt"),
        ({"type": "array", "items": "long"}, b"\x01\x01\x00\x00", "corrupt"),
        ({"type": "array", "items": "long"}, b"\x01\x7e\x00\x00", "truncated"),
        ({"type": "map", "values": "null"}, b"\x02\x02\xc3\x00", "corrupt"),
    ],
)
def test_each_kind_of_damage_has_its_code(schema, data, code):
    assert reason(schema, data) == code


def test_numbers_padded_with_empty_bytes_are_read_as_java_reads_them():
    assert walk(compile_program(record(("t", "int")), "t"), b"\x82\x80\x80\x80\x00") == 1
    assert walk(compile_program(record(("t", "long")), "t"), b"\x82" + b"\x80" * 8 + b"\x00") == 1


@laws
@given(st.binary(max_size=200), st.sampled_from(["list", "twin", "bare", "nulls"]))
def test_recursion_without_end_ends_in_an_error(data, kind):
    schema = {
        "list": record(("next", ["null", "R"])),
        "twin": record(("kids", {"type": "array", "items": {"type": "map", "values": "R"}})),
        "bare": record(("self", "R"), ("again", "R")),
        "nulls": {"type": "array", "items": {"type": "array", "items": "null"}},
    }[kind]
    assert verdict(schema, data) in (REASONS if kind == "bare" else (*REASONS, None))


def test_a_list_as_deep_as_allowed_is_read_by_fastavro_too_and_a_deeper_one_is_corrupt():
    schema = record(("next", ["null", "R"]))
    program = compile_program(schema)
    deepest = b"\x02" * (MAX_FRAMES - 1) + b"\x00"
    assert walk(program, deepest) is None
    assert Judge(schema).reads_whole(deepest)
    assert reason(schema, b"\x02" + deepest) == "corrupt"


def test_a_schema_that_doubles_at_each_level_makes_a_program_in_proportion_to_its_text():
    schema = record(("x", "string"), name="T0")
    for level in range(1, 60):
        schema = record(("a", schema), ("b", f"T{level - 1}"), name=f"T{level}")
    assert len(compile_program(schema).code) < 1_000
    empty = record(name="T0")
    for level in range(1, 60):
        empty = record(("a", empty), ("b", f"T{level - 1}"), name=f"T{level}")
    assert compile_program(empty).code == (Op.END,)
    assert walk(compile_program(empty), b"") is None


def test_records_that_hold_themselves_are_found_in_time_even_if_each_level_stands_twice():
    schema = record(("x", "string"), name="T0")
    for level in range(1, 60):
        schema = record(("a", {"type": "array", "items": schema}), ("b", ["null", f"T{level - 1}"]), name=f"T{level}")
    assert not holds_itself(read_schema(schema))
    inmost = record(("x", ["null", "T0"]), name="T0")
    assert holds_itself(read_schema(record(("a", "long"), ("b", {"type": "map", "values": inmost}))))
    assert holds_itself(read_schema(record(("twin", record(name="E")), ("again", "E"), ("self", ["null", "R"]))))


def test_a_hostile_megabyte_takes_no_more_than_its_length_asks_for():
    hostile = [
        ({"type": "array", "items": "null"}, (encode_long(MAX_EMPTY_ITEMS)) * 250_000),
        (record(("self", "R"), ("again", "R")), b"\x00" * 1_000_000),
        ({"type": "array", "items": record(("k", {"type": "array", "items": "R"}))}, b"\x02" * 1_000_000),
    ]
    started = time.monotonic()
    for schema, data in hostile:
        assert reason(schema, data) in REASONS
    assert time.monotonic() - started < 120  # it ends


def test_fixed_parts_side_by_side_are_one_step():
    program = compile_program(record(("a", "double"), ("b", "float"), ("c", "null"), ("d", "boolean")))
    assert program.code == (Op.SKIP, 12, Op.BOOL, Op.END)


def test_names_are_resolved_by_the_namespace_they_stand_in():
    schema = {
        "type": "record",
        "name": "shop.Order",
        "fields": [
            {"name": "a", "type": {"type": "fixed", "name": "Id", "size": 3}},
            {
                "name": "b",
                "type": {"type": "record", "name": "other.Line", "fields": [{"name": "c", "type": "shop.Id"}]},
            },
            {"name": "d", "type": "Id"},
            {"name": "e", "type": ["null", "other.Line", "Order"]},
        ],
    }
    fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert compile_program(schema).code[:5] == (Op.CALL, 3, Op.END, Op.SKIP, 9)


def test_a_schema_that_fastavro_has_parsed_gives_the_same_program():
    schema = record(("a", record(("b", ["null", "R"]), name="S")), ("c", ["null", "S"]))
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert compile_program(parsed, None).code == compile_program(schema).code


@pytest.mark.parametrize(
    ("path", "unit", "text"),
    [
        ("x", "ms", "no such field"),
        ("n", "iso", "it is a long"),
        ("real", "ms", "it is a double"),
        ("n.deeper", "ms", "'deeper' is looked for in a long"),
        ("many.t", "ms", "'t' is looked for in a items"),
        ("inner", "ms", "it is a record"),
        ("n", "days", "time_unit: got 'days'"),
    ],
)
def test_a_time_field_that_can_not_be_walked_to_is_refused_with_the_reason(path, unit, text):
    schema = record(
        ("n", "long"),
        ("text", "string"),
        ("real", ["null", "double"]),
        ("many", {"type": "array", "items": record(("t", "long"), name="I")}),
        ("inner", record(("t", "long"), name="J")),
    )
    with pytest.raises(UnusableSchemaError) as caught:
        compile_program(schema, path, unit)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "unit", "number", "millis"),
    [
        ("long", "s", 1_767_225_600, 1_767_225_600_000),
        ("long", "us", -1, -1),
        ("long", "ns", 1_999_999, 1),
        ({"type": "long", "logicalType": "timestamp-micros"}, "s", 5_000, 5),
        ({"type": "int", "logicalType": "date"}, "iso", 2, 172_800_000),
        ("long", "s", 2**62, (2**63 - 1) // 1_000 * 1_000),
        ("long", "ms", -(2**63), -(2**63)),
    ],
)
def test_numbers_become_milliseconds_and_a_timestamp_tells_its_unit_itself(kind, unit, number, millis):
    assert walk(compile_program(record(("t", kind)), "t", unit), encode_long(number)) == millis


def test_a_union_may_hold_the_time_as_number_or_text():
    program = compile_program(record(("t", ["null", "long", "string"])), "t", "s")
    found = [walk(program, data) for data in (b"\x00", b"\x02" + encode_long(3), b"\x04" + encode_bytes(b"17"))]
    assert found == [None, 3_000, "17"]


@pytest.mark.parametrize(
    "schema",
    [
        "txt",
        5,
        {"name": "x"},
        {"type": "array"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "enum", "name": "E", "symbols": "ab"},
        {"type": "record", "name": "R", "fields": {}},
        {"type": "record", "name": "R", "fields": [{"type": "int"}]},
        {"type": "record", "name": 3, "fields": []},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "B"}]},
    ],
)
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(UnusableSchemaError, match=r"schema|record|enum|fixed"):
        compile_program(schema)


def test_a_schema_nested_without_end_is_refused():
    schema = "int"
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(UnusableSchemaError, match="nested deeper than 128"):
        compile_program(schema)


def test_the_time_of_another_branch_counts_as_absent():
    schema = record(("u", ["null", record(("t", "long"), name="A"), record(("s", "string"), name="B")]))
    program = compile_program(schema, "u.t")
    assert walk(program, b"\x00") is None
    assert walk(program, b"\x02" + encode_long(77)) == 77
    assert walk(program, b"\x04" + encode_bytes(b"77")) is None


def test_the_judge_reads_what_our_test_encoder_writes():
    schema = record(("a", {"type": "array", "items": "long"}), ("m", {"type": "map", "values": "boolean"}))
    value = {"a": [1, 2, 3], "m": {"k": True}}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    assert encode(schema, value) == out.getvalue()
