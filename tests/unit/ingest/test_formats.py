"""Every value format into every file format, with every codec, and with columns of Kafka's own."""

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
    FOLDER,
    HEADERS,
    MORNING,
    Task,
    confluent,
    datum,
    event,
    one_topic,
    written,
)


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
def test_plain_values(value_format, file_format, values, expected):
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
def test_the_avro_libraries_read_every_codec(codec, readers):
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
