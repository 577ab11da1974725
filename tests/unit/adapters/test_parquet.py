"""Parquet files hold what the datums say, whichever way their rows went."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters import codecs
from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.adapters.parquet import odd
from airflow_kafka_hdfs.exceptions import ConfigError, CorruptStateError, DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.container import header
from airflow_kafka_hdfs.ingest.tables import MAX_COLUMNS, MAX_OPTIONAL_FIXED, TableProof, container_schema, row_type
from airflow_kafka_hdfs.ingest.writers.columns import ParquetSink, ParquetSinks
from airflow_kafka_hdfs.ingest.writers.sinks import OpenAs
from tests.unit.ingest.datum.avro_data import Branch, Names, Shape, cuts, encode, laws, names_of, shapes
from tests.unit.ingest.datum.hostile import doubling

SYNC = b"s" * 16


class Kept:
    """A staged file in memory."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None: ...

    def abort(self) -> None: ...


def opened(schema: Any, codec: str = "snappy", group_bytes: int = 1 << 20) -> tuple[Kept, ParquetSink]:
    out = Kept()
    how = OpenAs(schema=json.dumps(schema), sync=SYNC, metadata={"kafka_hdfs.plan": "p1"})
    sink = ParquetSinks(StandardCodecs(), codec, group_bytes).open(out, how)
    assert isinstance(sink, ParquetSink)
    return out, sink


def written(schema: Any, datums: list[bytes], codec: str = "snappy") -> pq.ParquetFile:
    out, sink = opened(schema, codec)
    for data in datums:
        sink.append(data)
    closed = sink.close()
    assert (closed.size, closed.records_out) == (len(out.data), len(datums))
    return pq.ParquetFile(io.BytesIO(out.data))


def seen(scalar: Any) -> Any:
    """What stands in a file, numbers as numbers: not every date is one of Python's."""
    if isinstance(scalar, pa.MapScalar):
        return None if not scalar.is_valid else {k.as_py(): seen(v) for k, v in zip(*_entries(scalar), strict=True)}
    if isinstance(scalar, pa.StructScalar):
        return {name: seen(scalar[name]) for name in scalar} if scalar.is_valid else None
    if isinstance(scalar, pa.ListScalar):
        return [seen(item) for item in scalar.values] if scalar.is_valid else None
    if isinstance(scalar, pa.TimestampScalar | pa.Date32Scalar | pa.Time32Scalar | pa.Time64Scalar):
        return scalar.value
    return scalar.as_py()


def _entries(scalar: Any) -> tuple[Any, Any]:
    return scalar.values.field(0), scalar.values.field(1)


def rows(file: pq.ParquetFile) -> list[Any]:
    table = file.read()
    assert table.schema.metadata is not None
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return [{name: seen(column[i]) for name, column in columns.items()} for i in range(table.num_rows)]


def expected(schema: Any, value: Any, named: dict[str, Any], *, in_union: bool = False) -> Any:
    """What should stand there, from the value that was encoded; written without a look at the product."""
    if isinstance(schema, list):
        others = [i for i, branch in enumerate(schema) if branch != "null"]
        if value.value is None and schema[value.index] == "null":
            return None
        inner = expected(schema[value.index], value.value, named, in_union=in_union or len(others) > 1)
        if len(others) == 1:
            return inner
        return {f"member{at}": inner if i == value.index else None for at, i in enumerate(others)}
    if isinstance(schema, str) and schema.rpartition(".")[2] in named:
        schema = named[schema.rpartition(".")[2]]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {f["name"]: expected(f["type"], value[f["name"]], named, in_union=in_union) for f in schema["fields"]}
    if kind == "array":
        return [expected(schema["items"], item, named, in_union=in_union) for item in value]
    if kind == "map":
        return {key: expected(schema["values"], item, named, in_union=in_union) for key, item in value.items()}
    if (
        isinstance(schema, dict)
        and schema.get("logicalType") == "decimal"
        and schema["precision"] <= 76
        and not in_union
    ):
        return Decimal(f"{int.from_bytes(value, 'big', signed=True)}E-{schema['scale']}")
    return value


def _number(kind: str, logical: str) -> Shape:
    bits = 31 if kind == "int" else 63
    return Shape({"type": kind, "logicalType": logical}, st.integers(-(2**bits), 2**bits - 1))


@st.composite
def logicals(draw: Any) -> Shape:
    kind = draw(st.sampled_from(["number", "uuid", "decimal", "fixed"]))
    if kind == "number":
        names = ["timestamp", "local-timestamp"]
        longs = [_number("long", f"{name}-{unit}") for name in names for unit in ("millis", "micros", "nanos")]
        return draw(st.sampled_from([*longs, _number("int", "date")]))
    if kind == "uuid":
        return Shape({"type": "string", "logicalType": "uuid"}, st.uuids().map(str) | st.text(max_size=3))
    size = 0 if kind == "decimal" else draw(st.integers(1, 33))
    most = 80 if kind == "decimal" else len(str(2 ** (8 * size - 1) - 1)) - 1
    precision = draw(st.integers(1, max(most, 1)))
    if most < 1:
        return Shape({"type": "string", "logicalType": "uuid"}, st.text(max_size=3))
    schema: dict[str, Any] = {
        "logicalType": "decimal",
        "precision": precision,
        "scale": draw(st.integers(0, precision)),
    }
    numbers = st.integers(-(10**precision) + 1, 10**precision - 1)
    if kind == "decimal":
        lengths = st.integers(0, 3)
        data = st.tuples(numbers, lengths).map(
            lambda p: p[0].to_bytes((8 + p[0].bit_length()) // 8 + p[1], "big", signed=True)
        )
        return Shape({"type": "bytes", **schema}, data)
    name = f"D{draw(st.integers(0, 10**9))}"
    return Shape(
        {"type": "fixed", "name": name, "size": size, **schema},
        numbers.map(lambda n: n.to_bytes(size, "big", signed=True)),
    )


@st.composite
def tables(draw: Any) -> Shape:
    """Rows of all kinds; half of them such that polars reads them."""
    fields: dict[str, Shape] = {}
    names, known = Names(), []
    for i in range(draw(st.integers(1, 4))):
        shape = draw(st.one_of(logicals(), shapes(2, names, True, known)))
        wrap = draw(st.sampled_from(["", "null", "array", "group"]))
        if wrap == "null" and not isinstance(shape.schema, list) and shape.schema != "null":
            first = draw(st.booleans())
            schema = ["null", shape.schema] if first else [shape.schema, "null"]
            none = st.just(Branch(int(not first), None))
            shape = Shape(schema, none | shape.values.map(lambda v, at=int(first): Branch(at, v)))
        elif wrap == "array":
            shape = Shape({"type": "array", "items": shape.schema}, st.lists(shape.values, max_size=3))
        elif wrap == "group":
            group = {"type": "record", "name": f"G{i}", "fields": [{"name": "in", "type": shape.schema}]}
            some = shape.values.map(lambda v: Branch(1, {"in": v}))
            shape = Shape(["null", group], st.just(Branch(0, None)) | some)
        fields[f"f{i}"] = shape
    schema = {"type": "record", "name": "Row", "fields": [{"name": n, "type": s.schema} for n, s in fields.items()]}
    return Shape(schema, st.fixed_dictionaries({name: shape.values for name, shape in fields.items()}))


@settings(laws, max_examples=60)
@given(st.data())
def test_rows_equal_the_values_that_were_encoded(data):
    shape = data.draw(tables())
    values = data.draw(st.lists(shape.values, min_size=1, max_size=5))
    blocks = data.draw(cuts())
    named = names_of(shape.schema)
    datums = [encode(shape.schema, value, named, blocks) for value in values]
    try:
        row_type(shape.schema)
    except UnusableSchemaError as error:
        said = ("holds itself", "has no fields", "is defined twice")
        assert any(words in str(error) for words in said)  # noqa: PT017 - each of them is right
        return
    file = written(shape.schema, datums, data.draw(st.sampled_from(["null", "snappy", "gzip", "zstandard"])))
    assert rows(file) == [expected(shape.schema, value, named) for value in values]


def record(*fields: tuple[str, Any], name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def test_types_are_those_that_every_reader_of_parquet_knows():
    fields = {
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "here": {"type": "long", "logicalType": "local-timestamp-micros"},
        "clock": {"type": "int", "logicalType": "time-millis"},
        "price": ["null", DECIMAL],
        "id": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
        "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
        "tags": {"type": "map", "values": "long"},
        "either": ["null", "int", "string"],
    }
    value = {**dict.fromkeys(["day", "at", "here", "clock"], 0), "price": Branch(0, None), "id": b"i" * 16, "kind": "A"}
    value |= {"tags": {}, "either": Branch(0, None)}
    schema = record(*fields.items())
    file = written(schema, [encode(schema, value)])
    assert {field.name: (str(field.type), field.nullable) for field in file.schema_arrow} == {
        "day": ("date32[day]", False),
        "at": ("timestamp[ms, tz=UTC]", False),
        "here": ("timestamp[us]", False),
        "clock": ("time32[ms]", False),
        "price": ("decimal128(4, 2)", True),
        "id": ("fixed_size_binary[16]", False),
        "kind": ("string", False),
        "tags": ("map<string, int64 ('tags')>", False),
        "either": ("struct<member0: int32, member1: string>", True),
    }


@pytest.mark.parametrize(
    ("levels", "nullable"), [(41, False), (42, False), (80, False), (30, True), (60, True)], ids=str
)
def test_rows_so_deep_that_polars_refuses_them_are_decoded_one_by_one(levels, nullable):
    schema, value, wanted = "long", 7, 7
    for level in range(levels):
        schema, value, wanted = record(("x", schema), name=f"R{level}"), {"x": value}, {"x": wanted}
        if nullable:
            schema, value = ["null", schema], Branch(1, value)
    schema = record(("v", schema), ("text", ["null", "string"]))
    values = [{"v": value, "text": Branch(0, None)}, {"v": value, "text": Branch(1, "é")}]
    file = written(schema, [encode(schema, value, names_of(schema)) for value in values])
    assert rows(file) == [{"v": wanted, "text": None}, {"v": wanted, "text": "é"}]


@pytest.mark.parametrize("levels", [44, 45])
@pytest.mark.parametrize("kind", ["array", "map"])
def test_columns_too_deep_for_readers_are_refused_before_a_file_has_them(kind, levels):
    schema: Any = "long"
    for _ in range(levels):
        schema = {"type": kind, "items" if kind == "array" else "values": schema}
    schema = record(("v", schema))
    if levels > 44:
        with pytest.raises(UnusableSchemaError, match="more than 90 levels deep"):
            row_type(schema)
        return
    assert written(schema, [b"\x00"]).read().num_rows == 1


def test_the_footer_tells_what_the_header_of_an_avro_file_tells():
    schema = record(("a", "long"))
    footer = written(schema, [b"\x02"]).metadata
    assert {key.decode(): text.decode() for key, text in footer.metadata.items()} == {
        "kafka_hdfs.plan": "p1",
        "kafka_hdfs.avro_schema": json.dumps(schema),
    }


def test_row_groups_end_by_bytes_and_a_file_tells_what_it_holds():
    schema = record(("a", "bytes"))
    datum = encode(schema, {"a": b"x" * 10_000})
    out, sink = opened(schema, "null", group_bytes=200_000)
    sizes = []
    for _ in range(50):
        if sink.append(datum):
            sizes.append((sink.size, sink.held))
    assert [size > 0 for size, _ in sizes] == [False, False, True, True, True, True, True]
    assert max(held for _, held in sizes) < 200_000
    sink.close()
    footer = pq.ParquetFile(io.BytesIO(out.data)).metadata
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [21, 21, 8]


def test_text_has_dictionaries_wherever_it_stands_and_numbers_have_none():
    inner = record(("t", "string"), ("n", "long"), name="Inner")
    schema = record(
        ("t", ["null", "string"]),
        ("b", "bytes"),
        ("list", {"type": "array", "items": inner}),
        ("map", {"type": "map", "values": "string"}),
        ("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
    )
    value = {"t": Branch(1, "x"), "b": b"x", "list": [{"t": "x", "n": 1}], "map": {"k": "v"}, "e": "A"}
    group = written(schema, [encode(schema, value)]).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert [column.path_in_schema for column in columns if column.has_dictionary_page] == [
        "t",
        "list.list.element.t",
        "map.key_value.key",
        "map.key_value.value",
        "e",
    ]


def test_equal_rows_make_equal_bytes():
    schema = record(("a", "long"), ("m", {"type": "map", "values": "int"}))
    datums = [encode(schema, {"a": i, "m": {"k": i}}) for i in range(100)]
    contents = []
    for _ in range(2):
        out, sink = opened(schema)
        for data in datums:
            sink.append(data)
        sink.close()
        contents.append(out.data)
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (record(("next", ["null", "Row"])), r"record Row holds itself \(at next\)"),
        (record(("a", record(name="Empty"))), r"record Empty \(at a\) has no fields"),
        (record(*((f"f{i}", "int") for i in range(MAX_COLUMNS))), f"more than {MAX_COLUMNS} columns"),
    ],
)
def test_rows_that_no_table_has_are_refused(schema, said):
    with pytest.raises(UnusableSchemaError, match=said):
        row_type(schema)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [2_000, 2**31 - 1])
def test_decimals_with_room_for_millions_of_digits_are_judged_by_those_they_say(size):
    kind = {"type": "fixed", "name": "F", "size": size, "logicalType": "decimal", "precision": 9}
    (column,) = row_type(record(("d", kind))).inner
    assert (column.kind, column.precision) == ("decimal", 9)


@pytest.mark.timeout(60)
def test_a_record_that_doubles_at_each_level_makes_too_many_columns():
    with pytest.raises(UnusableSchemaError, match=f"more than {MAX_COLUMNS} columns"):
        row_type(doubling(("x", "int")))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("decimal", [{}, {"logicalType": "decimal", "precision": 9}], ids=["bytes", "decimal"])
def test_nulls_of_a_huge_fixed_type_take_no_room(decimal):
    kind = {"type": "fixed", "name": "F", "size": 2**31 - 1, **decimal}
    for schema, null in (
        (record(("f", ["null", kind])), {"f": None}),
        (record(("r", ["null", record(("f", kind), name="In")])), {"r": None}),
        (record(("l", {"type": "array", "items": ["null", kind]})), {"l": [None]}),
    ):
        datum = b"\x02\x00\x00" if "l" in null else b"\x00"
        assert rows(written(schema, [datum] * 5)) == [null] * 5


@pytest.mark.parametrize("size", [MAX_OPTIONAL_FIXED, MAX_OPTIONAL_FIXED + 1])
def test_optional_fixed_types_keep_their_bytes_whatever_their_size(size):
    schema = record(("f", ["null", {"type": "fixed", "name": "F", "size": size}]), ("g", "F"))
    value = bytes(range(size))
    file = written(schema, [b"\x00" + value, b"\x02" + value + value])
    assert rows(file) == [{"f": None, "g": value}, {"f": value, "g": value}]
    kinds = file.schema_arrow
    assert kinds.field("g").type == pa.binary(size)
    assert (kinds.field("f").type == pa.binary(size)) is (size <= MAX_OPTIONAL_FIXED)


def test_a_union_on_the_top_level_is_one_column():
    schema = ["null", record(("a", "int"))]
    assert rows(written(schema, [b"\x00", b"\x02\x0e"])) == [{"value": None}, {"value": {"a": 7}}]
    both = [record(("a", "int"), name="A"), record(("a", "int"), name="B")]
    assert rows(written(both, [b"\x02\x0e"])) == [{"value": {"member0": None, "member1": {"a": 7}}}]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (DECIMAL, b"\x27\x10", "more than the 4 digits"),  # 10000
        (["null", DECIMAL], Branch(1, b"\xd8\xf0"), "more than the 4 digits"),  # -10000
        ({"type": "array", "items": DECIMAL}, [b"\x00", b"\x27\x10"], "more than the 4 digits"),
        ({"type": "map", "values": DECIMAL}, {"k": b"\x27\x10"}, "more than the 4 digits"),
        ("int", 2**31, "32 bits"),
    ],
)
def test_what_has_no_place_in_its_column_is_found_before_a_file_has_it(kind, value, said):
    schema = record(("a", kind))
    datum, proof = encode(schema, {"a": value}), TableProof(schema)
    with pytest.raises(DecodeError, match=said):
        proof.prove(datum, lambda: FastavroCodec().decode(json.dumps(schema), datum))


def test_decimals_that_fit_are_let_through():
    proof = TableProof(record(("a", ["null", DECIMAL]), ("b", ["int", DECIMAL])))
    proof.prove(b"\x02\x04\x27\x0f\x02\x04\x27\x10", lambda: {"a": b"\x27\x0f", "b": b"\x27\x10"})
    assert proof.decimals
    assert not TableProof(record(("a", "bytes"))).decimals


def test_what_goes_the_slow_way_is_named():
    schema = record(("a", record(("m", {"type": "map", "values": "int"}), name="Inner")), ("b", ["null", "int"]))
    assert odd(row_type(schema)) == ["a.m: map"]


def test_rows_that_went_astray_are_noticed():
    schema = record(("a", "int"))
    row = row_type(schema)
    container = header(container_schema(row), "null", {}, SYNC) + b"\x02\x02\x0e" + SYNC
    writer = StandardCodecs().table("snappy").writer(row, {})
    with pytest.raises(CorruptStateError, match="1 rows were read, 2 were written"):
        writer.write(container, 2)


def test_without_the_extra_the_format_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(codecs, "find_spec", lambda name: None if name == "polars" else object())
    with pytest.raises(ConfigError, match=r"polars not found: pip install 'airflow-provider-kafka-hdfs\[parquet\]'"):
        StandardCodecs().table("snappy")


def test_other_codecs_are_refused():
    with pytest.raises(ConfigError, match="codec: got 'deflate'; allowed: null, snappy, gzip, zstandard"):
        StandardCodecs().table("deflate")
