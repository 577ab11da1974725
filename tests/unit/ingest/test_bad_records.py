"""What is bad is quarantined whole, with its reason; null values follow their policy."""

from __future__ import annotations

import json

import pytest

from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.model import TimestampType
from tests.unit.ingest.datum import hostile
from tests.unit.ingest.extracting import (
    EVENT,
    FOLDER,
    HEADERS,
    HOUR,
    MORNING,
    Task,
    confluent,
    counts_of,
    datum,
    event,
    one_topic,
    written,
)

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


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (hostile.EMPTY["records of nulls"], "takes no byte and holds more than 1000 values"),
        (hostile.ENDLESS["itself"], "record E always holds a record of its own type"),
        (hostile.DEFAULTS["numbers"], "come to more than 65536 values"),
        (hostile.DEEP["nested"], "more than 128 levels deep"),
    ],
    ids=["empty", "endless", "defaults", "deep"],
)
def test_records_of_schemas_that_ask_for_more_than_memory_are_quarantined(schema, said):
    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time", max_bad_share=None)
    good = task.registry.register("events", EVENT)
    bad_id = task.registry.register("hostile", json.dumps(schema))
    task.cluster.produce("events", 0, b"\x00" + bad_id.to_bytes(4, "big"), timestamp=MORNING)
    task.cluster.produce("events", 0, b"\x00" + bad_id.to_bytes(4, "big") + bytes(9), timestamp=MORNING)
    task.cluster.produce("events", 0, confluent(good, event(1)), timestamp=MORNING)
    unit = task.unit()
    assert (unit.outcome, counts_of(unit)) == (Outcome.DONE, {"written": 1, "quarantined": 2})
    bad = task.bad(unit)[1]
    assert bad["reason"] == "unusable_schema"
    assert f"schema id {bad_id}: " in bad["detail"]
    assert said in bad["detail"]


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


@pytest.mark.bug(54)
def test_a_record_without_any_time_is_bad_and_never_now():
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


def test_partition_fields_make_folders():
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


@pytest.mark.bug(93, 94)
def test_null_values_end_the_unit_unless_a_policy_takes_them():
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
