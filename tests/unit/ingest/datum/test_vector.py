"""The numpy walk against the reference: never sound where the reference refuses, and the same times where sound."""

import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.datum.program import compile_program
from airflow_kafka_hdfs.ingest.datum.reference import walk
from airflow_kafka_hdfs.ingest.datum.vector import PADDING, scan
from tests.unit.ingest.datum.avro_data import cuts, damaged, encode, laws, names_of, shapes, timed


def scan_all(program, rows):
    """What the numpy walk finds per row: `doubt`, or the time."""
    sizes = np.array([len(row) for row in rows], np.int64)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    data = b"".join(rows) + PADDING
    found = scan(program, data, starts, ends)
    out = []
    for i in range(len(rows)):
        at, size = int(found.times[i]), int(found.sizes[i])
        value = rows[i][at : at + size].decode(errors="replace") if size >= 0 else at
        out.append((value if found.timed[i] else None) if found.sound[i] else "doubt")
    return out


def walk_all(program, rows):
    out = []
    for row in rows:
        try:
            out.append(walk(program, row))
        except DecodeError:
            out.append("doubt")
    return out


@laws
@given(st.data())
def test_the_numpy_walk_finds_the_times_that_the_reference_finds(data):
    shape = data.draw(timed())
    rows = data.draw(st.lists(shape.rows, max_size=8))
    blocks = data.draw(cuts())
    datums = [encode(shape.schema, value, names_of(shape.schema), blocks) for value, _ in rows]
    program = compile_program(shape.schema, shape.path, shape.unit)
    assert scan_all(program, datums) == [expected for _, expected in rows]


@laws
@given(st.data())
def test_damage_to_some_rows_is_seen_in_these_rows_and_nowhere_else(data):
    shape = data.draw(st.one_of(timed(), shapes()))
    is_timed = hasattr(shape, "path")
    values = data.draw(st.lists(shape.rows if is_timed else shape.values, min_size=1, max_size=6))
    datums = [encode(shape.schema, v[0] if is_timed else v, names_of(shape.schema)) for v in values]
    program = compile_program(shape.schema, *((shape.path, shape.unit) if is_timed else ()))
    rows = [data.draw(damaged(d)) if data.draw(st.booleans()) else d for d in datums]
    for row, datum, found, expected in zip(rows, datums, scan_all(program, rows), walk_all(program, rows), strict=True):
        assert found == expected or (found == "doubt" and row != datum)


@laws
@given(st.data())
def test_random_bytes_are_sound_only_where_the_reference_says_so(data):
    shape = data.draw(shapes())
    rows = data.draw(st.lists(st.binary(max_size=40), max_size=30))
    program = compile_program(shape.schema)
    for found, expected in zip(scan_all(program, rows), walk_all(program, rows), strict=True):
        assert found in (expected, "doubt")


NUMBERS = [0, 1, -1, 63, 64, -65, 2**31 - 1, -(2**31), 2**55 - 1, 2**55, -(2**55) - 1, 2**62, 2**63 - 1, -(2**63)]


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def test_numbers_of_every_length_are_read_whole():
    rows = [encode_long(n) + encode_long(m) for n in NUMBERS for m in NUMBERS]
    program = compile_program(record(("skipped", "long"), ("t", "long")), "t")
    assert scan_all(program, rows) == [m for _ in NUMBERS for m in NUMBERS]
    program = compile_program(record(("t", "long"), ("skipped", "long")), "t")
    assert scan_all(program, rows) == [n for n in NUMBERS for _ in NUMBERS]


@pytest.mark.parametrize("kind", ["int", "t"])
def test_numbers_that_do_not_fit_an_int_are_in_doubt(kind):
    rows = [encode_long(n) for n in NUMBERS] + [b"\x80\x80\x80\x80\x80\x00", b"\x82\x80\x80\x80\x00"]
    schema = record(("t", "int"))
    program = compile_program(schema, "t") if kind == "t" else compile_program(schema)
    sound = [found != "doubt" for found in scan_all(program, rows)]
    assert sound == [-(2**31) <= n < 2**31 for n in NUMBERS] + [False, True]


def test_numbers_padded_beyond_their_type_are_in_doubt():
    rows = [b"\x82" + b"\x80" * n + b"\x00" for n in range(11)] * 3
    for schema in ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, ["null", "null", "null"][:2], "int", "long"):
        program = compile_program(schema)
        assert scan_all(program, rows) == walk_all(program, rows)


@laws
@given(st.lists(st.one_of(st.text(max_size=150), st.binary(max_size=150)), min_size=1, max_size=20))
def test_texts_are_checked_to_be_utf_8(texts):
    rows = [encode_bytes(text.encode() if isinstance(text, str) else text) for text in texts]
    program = compile_program("string")
    assert scan_all(program, rows) == walk_all(program, rows)


def test_collections_of_many_rows_are_walked_side_by_side():
    random.seed(7)
    schema = record(("a", {"type": "array", "items": ["null", "string"]}), ("t", "long"))
    rows = []
    for i in range(300):
        items = [b"\x00" if random.random() < 0.5 else b"\x02" + encode_bytes(b"x" * i) for _ in range(i % 17)]
        sized = bool(i % 2) and bool(items)
        body = b"".join(items)
        head = encode_long(-len(items)) + encode_long(len(body)) if sized else encode_long(len(items))
        rows.append((head + body + b"\x00" if items else b"\x00") + encode_long(i))
    assert scan_all(compile_program(schema, "t"), rows) == list(range(300))


def test_one_row_with_a_million_items_does_not_hold_up_the_batch():
    schema = {"type": "array", "items": "long"}
    rows = [b"\x00"] * 100 + [encode_long(1_000_000) + b"\x02" * 1_000_000 + b"\x00"]
    started = time.monotonic()
    assert scan_all(compile_program(schema), rows) == [None] * 100 + ["doubt"]
    assert time.monotonic() - started < 60  # it ends


def nested(levels, items):
    """Arrays of so many items each, so many levels deep, and the longs in them."""
    schema, data = "long", b"\x02"
    for _ in range(levels):
        schema, data = {"type": "array", "items": schema}, encode_long(items) + items * data + b"\x00"
    return schema, data


@pytest.mark.parametrize(
    ("schema", "slow"),
    [
        ({"type": "array", "items": "long"}, b"\x02\x02" * 200_000 + b"\x00"),
        ({"type": "array", "items": "double"}, (b"\x02" + bytes(8)) * 200_000 + b"\x00"),
        ({"type": "array", "items": "null"}, b"\x02" * 200_000 + b"\x00"),
        nested(4, 16),
    ],
    ids=["items with a body", "items of one size", "items of no size", "items in items"],
)
def test_a_row_of_very_many_small_blocks_does_not_hold_up_the_batch(schema, slow):
    short = b"\x00"
    rows = [short] * 50 + [slow] + [short] * 50
    started = time.process_time()
    assert scan_all(compile_program(schema), rows) == [None] * 50 + ["doubt"] + [None] * 50
    assert time.process_time() - started < 2  # a fifth of what it took; the reference needs a tenth of a second


@pytest.mark.parametrize(
    "fields",
    [
        [("a", "R"), ("b", "R"), ("c", {"type": "array", "items": "R"})],
        [("a", {"type": "array", "items": "R"}), ("b", {"type": "array", "items": "R"})],
        [("a", ["null", "R"]), ("b", ["null", "R"]), ("c", {"type": "map", "values": "R"})],
    ],
)
def test_trees_that_lack_their_ends_do_not_walk_through_the_data_of_others(fields):
    program = compile_program(record(*fields))
    rows = [bytes([2, 2, 0, 2, 4][i % 5] for i in range(n, n + n % 60)) for n in range(2_000)]
    started = time.monotonic()
    for found, expected in zip(scan_all(program, rows), walk_all(program, rows), strict=True):
        assert found in (expected, "doubt")
    assert time.monotonic() - started < 120  # it ends


def test_an_empty_batch_and_empty_datums_are_fine():
    assert scan_all(compile_program("long"), []) == []
    assert scan_all(compile_program("null"), [b"", b"", b"x"]) == [None, None, "doubt"]
    assert scan_all(compile_program("long"), [b"", b"\x02", b""]) == ["doubt", None, "doubt"]
