"""Every value format into every file format; what is bad in it is quarantined whole, with its reason."""

from __future__ import annotations

import io
import json
import zlib
from datetime import UTC, datetime
from decimal import Decimal

import avro.datafile
import avro.io
import fastavro
import pyarrow.parquet as pq
import pytest

from airflow_kafka_hdfs.ingest.datum.container import encode_long
from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.model import TimestampType
from tests.fakes.registry import FakeRegistry
from tests.unit.ingest.extracting import (
    EVENT,
    HOUR,
    MORNING,
    Task,
    confluent,
    counts_of,
    datum,
    event,
)

FOLDER = "events/2026/01/01/08"


def one_topic(*values: bytes | None, **changes) -> Task:
    task = Task()
    task.topic(**{"max_bad_share": None, **changes})
    task.cluster.produce("events", 0, *values, timestamp=MORNING)
    return task


def written(task: Task) -> list:
    unit = task.unit()
    assert unit.outcome is Outcome.DONE, unit.detail
    assert counts_of(unit).keys() == {"written"}, task.bad(unit)
    return task.data(unit)[FOLDER]


@pytest.mark.parametrize(
    ("value_format", "file_format", "values", "expected"),
    [
        ("bytes", "avro", [b"a\x00", b""], [{"value": b"a\x00"}, {"value": b""}]),
        ("string", "avro", ["é".encode()], [{"value": "é"}]),
        ("json", "avro", [b'{"a": 1}'], [{"value": '{"a": 1}'}]),
        ("json", "jsonl", [b'{\n "a": 1,\r\n "b": "x\\ny"}', b"[1]", b"null"], [{"a": 1, "b": "x\ny"}, [1], None]),
        ("string", "jsonl", ["é\n".encode()], [{"value": "é\n"}]),
        ("bytes", "jsonl", [b"\xff"], [{"value": "/w=="}]),
        ("bytes", "raw", [b"a", b"", b"c d"], [b"a", b"", b"c d"]),
        ("json", "raw", [b'{"a": 1}'], [b'{"a": 1}']),
    ],
)
def test_plain_values(value_format, file_format, values, expected):  # Gobblin 45
    assert written(one_topic(*values, value_format=value_format, file_format=file_format)) == expected


def test_raw_files_with_lengths_take_any_bytes():
    values = [b"a\nb", b"", b"\x00" * 300]
    assert written(one_topic(*values, file_format="raw", raw_framing="length")) == values


def by_fastavro(content: bytes) -> list:
    return list(fastavro.reader(io.BytesIO(content)))


def by_avro(content: bytes) -> list:
    return list(avro.datafile.DataFileReader(io.BytesIO(content), avro.io.DatumReader()))


@pytest.mark.parametrize(
    ("codec", "readers"),
    [
        ("null", [by_fastavro, by_avro]),
        ("deflate", [by_fastavro, by_avro]),
        ("snappy", [by_fastavro]),  # the other one needs a library that does not build everywhere
        ("zstandard", [by_avro]),  # likewise
    ],
)
def test_the_avro_libraries_read_every_codec(codec, readers):  # Gobblin 76
    task = Task()
    task.topic(value_format="avro_id16", time_field="header.time", codec=codec)
    task.registry = FakeRegistry(id_width=16)
    schema_id = task.registry.register("events", EVENT)
    values = [event(i, country="NL" * i) for i in range(300)]
    task.cluster.produce("events", 0, *(b"\x00" + bytes.fromhex(schema_id) + datum(value) for value in values))
    unit = task.unit()
    (entry,) = unit.files
    content = task.store.files()[entry.staged]
    for read in readers:
        assert read(content) == values
    reader = fastavro.block_reader(io.BytesIO(content))
    assert reader.metadata["kafka_hdfs.schema"] == entry.schema == schema_id
    assert json.loads(reader.metadata["kafka_hdfs.ranges"]) == {"0": [0, [[0, 300]]]}
    facts = {key.removeprefix("kafka_hdfs."): text for key, text in reader.metadata.items() if "kafka_hdfs." in key}
    del facts["version"], facts["ranges"], facts["schema"]
    assert facts == {
        "pipeline": "p",
        "plan": "20260101T000000Z-00000001",
        "task": "0",
        "index": "0",
        "topic": "events",
        "cluster_id": "fake-cluster",
        "topic_id": entry.topic_id,
    }


@pytest.mark.parametrize("codec", ["null", "gzip", "zstandard"])
@pytest.mark.parametrize("file_format", ["jsonl", "raw"])
def test_files_of_many_blocks_are_one_stream(file_format, codec):
    values = [json.dumps({"n": i, "text": "x" * 500}).encode() for i in range(400)]
    task = one_topic(*values, value_format="json", file_format=file_format, codec=codec)
    found = written(task)
    assert (found if file_format == "raw" else [json.dumps(v).encode() for v in found]) == values
    (name,) = task.staged()
    assert name.endswith({"null": "", "gzip": ".gz", "zstandard": ".zst"}[codec])


def test_bare_avro_has_the_schema_of_the_settings():
    task = one_topic(datum(event(1)), datum(event(2)), value_format="avro", schema=EVENT, time_field="header.time")
    assert written(task) == [event(1), event(2)]


def test_avro_as_json_lines_and_as_raw():
    task = Task()
    task.topic("lines", value_format="avro_confluent", file_format="jsonl", time_field="header.time")
    task.topic("raw", value_format="avro_confluent", file_format="raw", raw_framing="length")
    schema_id = task.registry.register("lines", EVENT)
    value = confluent(schema_id, event(1, country="NL"))
    for topic in ("lines", "raw"):
        task.cluster.produce(topic, 0, value, timestamp=MORNING)
    units = task.run().manifest.units
    assert task.data(units[0])["lines/2026/01/01/08"] == [event(1, country="NL")]
    assert task.data(units[1])["raw/2026/01/01/08"] == [value]


@pytest.mark.parametrize("codec", ["null", "snappy", "gzip", "zstandard"])
def test_parquet_files_hold_the_records_of_all_partitions_and_tell_what_avro_files_tell(codec):
    task = Task(per_poll=1)
    task.topic(
        partitions=2, value_format="avro_confluent", time_field="header.time", file_format="parquet", codec=codec
    )
    schema_id = task.registry.register("events", EVENT)
    values = [event(i, country="NL" if i % 2 else None) for i in range(6)]
    for i, value in enumerate(values):
        task.cluster.produce("events", i // 3, confluent(schema_id, value), timestamp=MORNING)
    unit = task.unit()
    (entry,) = unit.files
    content = task.store.files()[entry.staged]
    assert sorted(task.records(entry), key=lambda record: record["id"]) == values
    assert entry.path == f"{FOLDER}/events+20260101T000000Z-00000001+0+0.parquet"
    assert entry.offsets == {0: (0, 2, 3), 1: (0, 2, 3)}
    assert (entry.size, entry.records_out, entry.schema) == (len(content), 6, str(schema_id))
    assert entry.digest == f"crc32:{zlib.crc32(content):08x}"
    found = pq.read_metadata(io.BytesIO(content)).metadata
    facts = {key.decode().removeprefix("kafka_hdfs."): text.decode() for key, text in found.items()}
    assert json.loads(facts.pop("ranges")) == {"0": [0, [[0, 3]]], "1": [0, [[0, 3]]]}
    assert json.loads(facts.pop("avro_schema")) == EVENT
    del facts["version"]
    assert facts == {
        "pipeline": "p",
        "plan": "20260101T000000Z-00000001",
        "task": "0",
        "index": "0",
        "topic": "events",
        "cluster_id": "fake-cluster",
        "topic_id": entry.topic_id,
        "schema": str(schema_id),
    }


@pytest.mark.parametrize(
    ("value_format", "values", "expected"),
    [
        ("bytes", [b"a\x00", b"", None], [{"value": b"a\x00"}, {"value": b""}, {"value": None}]),
        ("string", ["é".encode()], [{"value": "é"}]),
        ("json", [b'{"a": 1}'], [{"value": '{"a": 1}'}]),
    ],
)
def test_plain_values_in_parquet(value_format, values, expected):
    task = one_topic(*values, value_format=value_format, file_format="parquet", on_null="write")
    assert task.data(task.unit())[FOLDER] == expected


def test_parquet_has_columns_of_kafka_s_own():
    columns = {"include_key": True, "include_headers": True, "include_kafka_metadata": True}
    task = Task()
    task.topic(file_format="parquet", **columns)
    task.cluster.produce("events", 0, b"v", timestamp=MORNING, key=b"k", headers=[("h", b"1"), ("h", None)])
    assert task.data(task.unit())[FOLDER] == [
        {
            "value": b"v",
            "_kafka_topic": "events",
            "_kafka_partition": 0,
            "_kafka_offset": 0,
            "_kafka_timestamp": datetime(2026, 1, 1, 8, tzinfo=UTC),
            "_kafka_timestamp_type": "create",
            "_kafka_key": b"k",
            "_kafka_headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        }
    ]


def test_a_decimal_that_no_column_holds_is_bad_and_the_rest_is_written():
    price = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    schema = {"type": "record", "name": "R", "fields": [{"name": "price", "type": price}]}
    values = [datum({"price": data}, schema) for data in (b"\x7b", b"\x03\xe8", b"\x85")]
    task = one_topic(*values, value_format="avro", schema=schema, file_format="parquet")
    unit = task.unit()
    assert task.data(unit)[FOLDER] == [{"price": Decimal("12.3")}, {"price": Decimal("-12.3")}]
    (bad,) = task.bad(unit)
    assert (bad["reason"], bad["value"]) == ("unencodable", values[1])


def test_a_number_too_large_for_its_column_is_bad():  # fastavro decodes it all the same
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    task = one_topic(b"\x0e", encode_long(2**31), value_format="avro", schema=schema, file_format="parquet")
    unit = task.unit()
    assert task.data(unit)[FOLDER] == [{"n": 7}]
    assert [bad["reason"] for bad in task.bad(unit)] == ["corrupt"]


def test_records_of_a_schema_that_no_table_has_are_bad():
    schema = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    task = Task()
    task.topic(value_format="avro_confluent", file_format="parquet", max_bad_share=None)
    schema_id = task.registry.register("events", schema)
    task.cluster.produce("events", 0, confluent(schema_id, {"next": None}, schema), timestamp=MORNING)
    (bad,) = task.bad(task.unit())
    assert bad["reason"] == "unusable_schema"
    assert "record R holds itself (at next)" in bad["detail"]


def test_only_schemas_of_files_must_fit_into_a_table():
    fields = [{"name": "n", "type": "long"}, {"name": "next", "type": ["null", "R"]}]
    schema = {"type": "record", "name": "R", "fields": fields}
    task = Task()
    table = {**schema, "fields": fields[:1]}
    task.topic(value_format="avro_confluent", file_format="parquet", on_schema_change="resolve", schema=table)
    schema_id = task.registry.register("events", schema)
    task.cluster.produce("events", 0, confluent(schema_id, {"n": 7, "next": None}, schema), timestamp=MORNING)
    assert written(task) == [{"n": 7}]


def test_converters_may_leave_out_fields_with_defaults_in_parquet_too():
    price = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    fields = [{"name": "n", "type": "long"}, {"name": "price", "type": ["null", price], "default": None}]
    schema = {"type": "record", "name": "R", "fields": fields}

    def number(record):
        return {"n": record.value}

    changes = {"converters": [number], "convert_schema": schema, "file_format": "parquet"}
    task = one_topic(b"7", value_format="json", **changes)
    assert written(task) == [{"n": 7, "price": None}]


# columns of Kafka's own


HEADERS = (("trace", b"\x01"), ("trace", None), ("é", b""))


@pytest.mark.parametrize("timestamp", [MORNING, -1])
def test_avro_columns_stand_behind_the_datum(timestamp):
    task = Task()
    task.topic(
        value_format="avro_confluent",
        time_field="header.time",
        codec="null",
        include_key=True,
        include_headers=True,
        include_kafka_metadata=True,
    )
    schema_id = task.registry.register("events", EVENT)
    task.cluster.produce(
        "events",
        0,
        confluent(schema_id, event(7)),
        timestamp=timestamp,
        timestamp_type=TimestampType.LOG_APPEND if timestamp > 0 else TimestampType.NONE,
        key=b"k" if timestamp > 0 else None,
        headers=HEADERS if timestamp > 0 else (),
    )
    (record,) = written(task)
    known = timestamp > 0
    assert record == {
        **event(7),
        "_kafka_topic": "events",
        "_kafka_partition": 0,
        "_kafka_offset": 0,
        "_kafka_timestamp": datetime.fromtimestamp(timestamp / 1000, tz=UTC) if known else None,
        "_kafka_timestamp_type": "log_append" if known else "none",
        "_kafka_key": b"k" if known else None,
        "_kafka_headers": [{"key": name, "value": value} for name, value in HEADERS] if known else [],
    }
    (path,) = task.staged()
    content = task.store.files()[path]
    assert datum(event(7)) in content
    (again,) = by_avro(content)
    assert again["_kafka_headers"] == record["_kafka_headers"]


def test_columns_of_plain_values_and_of_json_lines():
    both = {"include_key": True, "include_kafka_metadata": True}
    task = one_topic(b"v", **both)
    assert written(task)[0]["value"] == b"v"
    task = one_topic(b'{"a": 1}', b"[2]", value_format="json", file_format="jsonl", **both)
    first, second = written(task)
    assert (first["a"], first["_kafka_offset"], first["_kafka_key"]) == (1, 0, None)
    assert (second["value"], second["_kafka_offset"], second["_kafka_timestamp"]) == ([2], 1, MORNING)


@pytest.mark.parametrize("file_format", ["avro", "jsonl"])
def test_a_field_that_clashes_with_a_column_makes_the_record_bad(file_format):
    schema = {"type": "record", "name": "R", "fields": [{"name": "_kafka_key", "type": "string"}]}
    task = Task()
    task.topic(value_format="avro_confluent", include_key=True, file_format=file_format, max_bad_share=None)
    schema_id = task.registry.register("events", schema)
    task.cluster.produce("events", 0, confluent(schema_id, {"_kafka_key": "x"}, schema), timestamp=MORNING)
    (entry,) = task.bad(task.unit())
    assert entry["reason"] == ("unusable_schema" if file_format == "avro" else "clash")
    assert "'_kafka_key'" in entry["detail"]
    task = one_topic(datum({"_kafka_key": "x"}, schema), value_format="avro", schema=schema, include_key=True)
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "unusable_schema")


# bad records


GOOD_ID = b"\x00\x00\x00\x00\x01"


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (b"", "frame", "has 0 bytes"),
        (b"\x00\x00\x00", "frame", "has 3 bytes; byte 0 and the schema id alone have 5"),
        (b'{"a": 1}', "frame", "byte 0 is 0x7b, expected 0x00"),
        (b"\x00\xff\xff\xff\xff" + datum(event(1)), "frame", "schema id -1"),
        (b"\x00\x00\x00\x00\x00" + datum(event(1)), "frame", "schema id 0"),
        (b"\x00\x00\x00\x00\x09" + datum(event(1)), "unknown_schema", "schema id 9"),
        (b"\x00\x00\x00\x00\x02" + datum(5, "int"), "unusable_schema", "schema id 2: the schema is no record"),
        (b"\x00\x00\x00\x00\x03" + datum(event(1)), "unusable_schema", "schema id 3"),
        (GOOD_ID + datum(event(1))[:-2], "truncated", "does not end"),
        (GOOD_ID + datum(event(1, country="abc"))[:-2], "truncated", "does not end"),
        (GOOD_ID, "truncated", "does not end within its 0 bytes"),
        (GOOD_ID + datum(event(1)) + b"\x00", "trailing_bytes", "ends after"),
        (GOOD_ID + datum(event(1))[:-1] + b"\x09", "corrupt", ""),
        (GOOD_ID + datum(event(1, 12)), "bad_time", "12 ms (1970-01-01T00:00:00Z) lies outside time_bounds"),
        (GOOD_ID + datum(event(1, 2**62)), "bad_time", "beyond the calendar"),
        (GOOD_ID + datum(event(1, MORNING + 72 * HOUR)), "bad_time", "lies outside time_bounds"),
    ],
)
def test_bad_avro_is_quarantined_with_all_that_kafka_brought(value, reason, said):
    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time", max_bad_share=None)
    schema_id = task.registry.register("events", EVENT)
    task.registry.register("other", json.dumps("int"))
    task.registry.register("broken", json.dumps({"type": "record", "name": "R"}))
    task.cluster.produce("events", 0, confluent(schema_id, event(0)), timestamp=MORNING)
    task.cluster.produce("events", 0, value, timestamp=MORNING + 5, key=b"k", headers=HEADERS)
    task.cluster.produce("events", 0, confluent(schema_id, event(2)), timestamp=MORNING)
    unit = task.unit()
    assert unit.outcome is Outcome.DONE
    assert counts_of(unit) == {"written": 2, "quarantined": 1}
    assert task.data(unit)[FOLDER] == [event(0), event(2)]
    (bad,) = task.bad(unit)
    assert said in bad.pop("detail")
    known_id = reason != "frame"
    assert bad == {
        "topic": "events",
        "topic_id": unit.partitions[0].key.topic_id,
        "partition": 0,
        "offset": 1,
        "timestamp": MORNING + 5,
        "timestamp_type": "create",
        "key": b"k",
        "value": value,
        "headers": [{"key": name, "value": content} for name, content in HEADERS],
        "schema_id": str(int.from_bytes(value[1:5], "big")) if known_id else None,
        "reason": reason,
    }
    (entry,) = [entry for entry in unit.files if entry.quarantine]
    assert entry.path == ".kafka_hdfs/p/quarantine/events/events+20260101T000000Z-00000001+0.avro"
    assert task.store.is_private(entry.staged)
    assert (entry.records, entry.offsets) == (1, {0: (1, 1, 1)})


@pytest.mark.parametrize(
    ("value_format", "file_format", "value", "reason"),
    [
        ("string", "avro", b"\xff", "not_utf8"),
        ("json", "avro", b"\xff", "not_utf8"),
        ("json", "jsonl", b"{", "not_json"),
        ("json", "jsonl", b'{"a": NaN}', "not_json"),
        ("json", "jsonl", b"", "not_json"),
        ("json", "jsonl", b"[" * 100_000, "not_json"),
        ("json", "jsonl", b'"a\nb"', "not_json"),
        ("json", "jsonl", b"1" * 10_000, "not_json"),
        ("bytes", "raw", b"a\nb", "newline"),
    ],
)
def test_bad_plain_values(value_format, file_format, value, reason):
    task = one_topic(value, value_format=value_format, file_format=file_format)
    unit = task.unit()
    assert counts_of(unit) == {"quarantined": 1}
    (bad,) = task.bad(unit)
    assert (bad["reason"], bad["value"]) == (reason, value)


def test_a_record_without_any_time_is_bad_and_never_now():  # V19, bug 54, Gobblin's row 14
    task = Task()
    task.topic(max_bad_share=None)
    task.cluster.produce("events", 0, b"x", timestamp=-1, timestamp_type=TimestampType.NONE)
    unit = task.unit()
    assert [bad["reason"] for bad in task.bad(unit)] == ["bad_time"]
    assert task.data(unit) == {}


def test_kafka_time_may_take_the_place_of_a_bad_time():
    task = one_topic(b'{"t": 5}', b'{"t": "x"}', b"{}", value_format="json", time_field="t", on_bad_time="kafka_time")
    assert written(task) == [{"value": '{"t": 5}'}, {"value": '{"t": "x"}'}, {"value": "{}"}]


def test_a_bad_time_may_end_the_unit_in_front_of_the_record():
    good = json.dumps({"t": MORNING}).encode()
    task = one_topic(good, good, b'{"t": 5}', good, value_format="json", time_field="t", on_bad_time="fail")
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "bad_time")
    assert "events[0]@2: time_field 't': 5 ms" in unit.detail
    assert counts_of(unit) == {"written": 2}


def test_a_timestamp_type_tells_its_own_unit():
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "t", "type": ["null", micros]}]}
    value = datum({"t": MORNING * 1000 + 999}, schema)
    assert len(written(one_topic(value, value_format="avro", schema=schema, time_field="t"))) == 1


def test_partition_fields_make_folders():  # V29, V35
    values = (b'{"c": "a/b"}', b'{"c": null}', b'{"c": ""}', b"{}", b'{"c": 1.5}', b"7")
    task = one_topic(*values, partition_fields=["c"], value_format="json")
    unit = task.unit()
    assert {folder: len(records) for folder, records in task.data(unit).items()} == {
        "events/c=a%2Fb/2026/01/01/08": 1,
        "events/c=__HIVE_DEFAULT_PARTITION__/2026/01/01/08": 2,
        "events/c=/2026/01/01/08": 1,
    }
    assert [bad["reason"] for bad in task.bad(unit)] == ["bad_field", "bad_field"]


# null values


def test_null_values_end_the_unit_unless_a_policy_takes_them():  # bugs 93, 94
    task = one_topic(b"a", None, b"b")
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "null_value")
    assert "events[0]@1: the value is null; on_null 'skip'" in unit.detail
    task = one_topic(b"a", None, b"b", on_null="skip")
    unit = task.unit()
    assert counts_of(unit) == {"written": 2, "filtered": 1, "null_values": 1}


@pytest.mark.parametrize(
    ("changes", "nothing"),
    [
        ({}, {"value": None}),
        ({"value_format": "string"}, {"value": None}),
        ({"value_format": "json", "file_format": "jsonl"}, None),
        ({"value_format": "string", "file_format": "jsonl"}, {"value": None}),
    ],
)
def test_null_values_are_written_where_they_have_a_place(changes, nothing):
    task = one_topic(b'"a"', None, on_null="write", **changes)
    unit = task.unit()
    assert counts_of(unit) == {"written": 2, "null_values": 1}
    assert task.data(unit)[FOLDER][1] == nothing


def test_null_values_of_a_nullable_avro_schema():
    nullable = ["null", EVENT]
    task = one_topic(datum(event(1), nullable), None, value_format="avro", schema=nullable, on_null="write")
    unit = task.unit()
    assert task.data(unit)[FOLDER] == [event(1), None]


# several writer schemas


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


def test_each_schema_has_files_of_its_own_but_not_for_documentation():  # V44, V75, V78, bugs 59, 90
    unit = (task := two_schemas(0, 1, 0, 1, 2)).unit()
    assert [(entry.schema, entry.records) for entry in unit.files] == [("1", 3), ("2", 2)]
    first, second = (task.records(entry) for entry in unit.files)
    assert [record["id"] for record in first] == [0, 2, 4]
    assert [record["b"] for record in second] == [1, 1]


def test_all_schemas_may_be_resolved_to_one():  # V76, V80, bug 89
    task = two_schemas(1, 0, 1, on_schema_change="resolve", schema=WIDER)
    unit = task.unit()
    (entry,) = unit.files
    assert [record["b"] for record in task.records(entry)] == [1, 7, 1]
    task = two_schemas(1, 0, 1, on_schema_change="resolve")
    unit = task.unit(task.plan(schemas={"events": {"reader": json.dumps(EVENT)}}))
    assert [record.get("b") for entry in unit.files for record in task.records(entry)] == [None] * 3


def test_what_can_not_be_resolved_is_bad():
    other = {"type": "record", "name": "Event", "namespace": "shop", "fields": [{"name": "x", "type": "string"}]}
    task = two_schemas(0, on_schema_change="resolve", schema=other, max_bad_share=None)
    (bad,) = task.bad(task.unit())
    assert bad["reason"] == "unresolvable"
    assert bad["value"] == confluent(1, event(0))  # bug 91: what Kafka brought, not what was made of it


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


def test_the_registry_is_asked_once_per_id_whatever_it_answers():  # Gobblin 49
    task = Task()
    task.topic(value_format="avro_confluent", max_bad_share=None)
    schema_id = task.registry.register("events", EVENT)
    good, unknown = confluent(schema_id, event(1)), b"\x00\x00\x00\x00\x63" + datum(event(1))
    task.cluster.produce("events", 0, good, unknown, good, unknown, unknown, timestamp=MORNING)
    assert counts_of(task.unit()) == {"written": 2, "quarantined": 3}
    assert task.registry.calls["registry.by_id"] == 2
