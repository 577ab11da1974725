"""Whole batches and single records: the same files byte for byte, the same section of the manifest, the same bad
records, whatever the values, settings and batches."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.bulk import bulk_steps
from airflow_kafka_hdfs.ingest.bulk_routes import why_not
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.datum.container import encode_long
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.records import Outcome
from tests.fakes.librdkafka import direct_batch
from tests.unit.ingest.datum.avro_data import damaged, encode, laws, names_of, records
from tests.unit.ingest.extracting import EVENT, FAST, HOUR, MORNING, Task, confluent, datum, event, manifest_of

STEPS = {name: bulk_steps(tiers.choose(name)) for name in ("direct", "compiled", "numpy")}
GROWN = {**EVENT, "fields": [*EVENT["fields"], {"name": "n", "type": "int", "default": 7}]}
OTHER = {**EVENT, "fields": [EVENT["fields"][0], {"name": "id", "type": "double"}, EVENT["fields"][2]]}
TOLD = {**EVENT, "doc": "the same in other words"}
MICROS = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "id", "type": "long"},
    ],
}
AVRO = {"value_format": "avro_confluent", "time_field": "header.time", "max_bad_share": None}


def ways(task: Task) -> Counter:
    """How many records took which way."""
    metrics = task.last.metrics
    return Counter({name.rpartition(".")[2]: m["count"] for name, m in metrics.items() if ".way." in name})


def outcome(tier, values, *, batch, partitions, keys=(), timestamps=None, most=256, schemas=(EVENT,), **arguments):
    """Everything that an attempt leaves, and the ways."""
    task = Task(reading=ReadOptions(batch_records=batch), fast=STEPS.get(tier), max_open_files=most)
    if tier == "direct":
        task.batch_of = direct_batch
    task.topic(partitions=partitions, **arguments)
    for schema in schemas:
        task.registry.register("events", schema)
    for i, value in enumerate(values):
        stamp = MORNING if timestamps is None else timestamps[i]
        task.cluster.produce("events", i % partitions, value, timestamp=stamp, key=keys[i] if keys else None)
    plan = task.plan(schemas={"events": {"reader": json.dumps(schemas[0])}})
    task.last = manifest_of(task.run(plan))
    (unit,) = task.last.units
    contents = {entry.path: task.store.files()[entry.staged] for entry in unit.files}
    # Attempts have folders of their own; two ways take different seconds.
    files = [dataclasses.replace(entry, staged="") for entry in unit.files]
    parts = [dataclasses.replace(part, seconds=0.0) for part in unit.partitions]
    section = dataclasses.replace(unit, files=tuple(files), partitions=tuple(parts))
    return section, contents, task.bad(unit), task


def same(values, *, by_value=False, **options):
    """The attempt of each tier, after a look that it left what the reference leaves."""
    section, contents, bad, task = outcome("reference", values, **options)
    assert not ways(task) - Counter(reference=len(values))
    found = []
    for name in STEPS:
        other, bytes_of, bad_ones, fast = outcome(name, values, **options)
        assert bad_ones == bad
        if by_value:  # blocks of arrays and sizes may differ where the reference encoded anew
            assert fast.data(fast.last.units[0]) == task.data(task.last.units[0])
        else:
            assert bytes_of == contents
            assert other == section
        found.append((name, other, fast))
    return found


def id_of(number):
    return number + 1


mixed = st.sampled_from(["good", "good", "good", "good", "bad", "null", "late", "early", "frame", "told", "grown"])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_avro_in_batches_leaves_what_single_records_leave(data):
    values = []
    for number, kind in enumerate(data.draw(st.lists(mixed, min_size=1, max_size=60))):
        time = MORNING + data.draw(st.integers(-3, 3)) * HOUR // 2
        time = {"early": -1, "late": 10**14}.get(kind, time)
        value = event(number, time, "x" * data.draw(st.sampled_from([0, 5, 3_000])))
        schema, at = {"told": (TOLD, 2), "grown": (GROWN, 3)}.get(kind, (EVENT, 1))
        encoded = confluent(at, {**value, "n": 1} if kind == "grown" else value, schema)
        encoded = encoded[:5] + data.draw(damaged(encoded[5:])) if kind == "bad" else encoded
        values.append(None if kind == "null" else b"\x00\x00\x00\x00\x63" + encoded if kind == "frame" else encoded)
    count = len(values)
    options = {
        "batch": data.draw(st.integers(1, 70)),
        "partitions": data.draw(st.integers(1, 3)),
        "keys": [bytes([i % 251]) for i in range(count)],
        "timestamps": [MORNING + data.draw(st.sampled_from([0, HOUR])) for _ in range(count)],
        "most": data.draw(st.sampled_from([1, 3, 256])),
        "schemas": (EVENT, TOLD, GROWN),
        "on_null": data.draw(st.sampled_from(["skip", "skip", "fail"])),
        "on_bad_time": data.draw(st.sampled_from(["quarantine", "kafka_time", "fail"])),
        "on_schema_change": data.draw(st.sampled_from(["new_file", "fail"])),
        "include_key": data.draw(st.booleans()),
        "include_kafka_metadata": data.draw(st.booleans()),
        "file_format": data.draw(st.sampled_from(["avro", "avro", "parquet"])),
        "codec": data.draw(st.sampled_from(["null", "snappy"])),
        "max_file_bytes": data.draw(st.sampled_from([1_024, 30_000, 10**6])),
        "max_file_records": data.draw(st.sampled_from([None, None, 7])),
    }
    same(values, **AVRO, **options)


@given(st.data())
@settings(laws, max_examples=25)
def test_values_of_any_schema_and_damage_to_them_leave_what_single_records_leave(data):
    shape = data.draw(records())
    values = []
    for value in data.draw(st.lists(shape.values, min_size=1, max_size=12)):
        encoded = encode(shape.schema, value, names_of(shape.schema))
        encoded = data.draw(damaged(encoded)) if data.draw(st.integers(0, 3)) == 0 else encoded
        values.append(b"\x00\x00\x00\x00\x01" + encoded)
    options = {
        "value_format": "avro_confluent",
        "max_bad_share": None,
        "include_kafka_metadata": data.draw(st.booleans()),
        "file_format": data.draw(st.sampled_from(["avro", "parquet"])),
    }
    same(values, batch=10, partitions=1, schemas=(shape.schema,), **options)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_bytes_and_text_in_batches_leave_what_single_records_leave(data):
    value = st.one_of(st.none(), st.binary(max_size=9), st.text(max_size=9).map(str.encode), st.just(b"y" * 40_000))
    values = data.draw(st.lists(value, min_size=1, max_size=50))
    file_format = data.draw(st.sampled_from(["avro", "raw"]))
    on_null = ["skip", "fail"] if file_format == "raw" else ["skip", "fail", "write"]
    stamps = st.sampled_from([MORNING, MORNING + HOUR, -1])
    same(
        values,
        batch=data.draw(st.integers(1, 60)),
        partitions=data.draw(st.integers(1, 3)),
        timestamps=[data.draw(stamps) for _ in values],
        value_format=data.draw(st.sampled_from(["bytes", "string"])),
        file_format=file_format,
        on_null=data.draw(st.sampled_from(on_null)),
        raw_framing=data.draw(st.sampled_from(["newline", "length"])),
        include_headers=file_format == "avro" and data.draw(st.booleans()),
        time_bounds=data.draw(st.sampled_from([None, ("1960-01-01T00:00:00Z", None)])),
        max_bad_share=None,
        max_file_bytes=data.draw(st.sampled_from([50_000, 10**9])),
    )


def test_good_batches_do_not_touch_the_reference():
    values = [confluent(1, event(i, MORNING + i % 5 * HOUR)) for i in range(300)]
    for name, section, task in same(values, batch=100, partitions=2, **AVRO):
        assert ways(task) == {name: 300}
        assert section.counts.written == 300
        assert task.progress.reports[-1]["ways"] == {name: 300}


def test_a_few_bad_records_do_not_slow_down_the_good_ones_beside_them():
    values = [confluent(1, event(i)) for i in range(200)]
    values[50] += b"!"
    values[51] = b"\x01"
    for name, section, task in same(values, batch=200, partitions=1, **AVRO):
        assert ways(task) == {name: 198, "reference": 2}
        assert section.counts.quarantined == 2


def test_batches_of_many_bad_records_go_one_by_one():
    values = [confluent(1, event(i)) + b"!" * (i % 4 == 0) for i in range(100)]
    for _, section, task in same(values, batch=100, partitions=1, **AVRO):
        assert ways(task) == {"reference": 100}
        assert section.counts.quarantined == 25


def test_fields_that_the_files_have_more_are_laid_behind_the_datum():
    values = [
        confluent(i % 2 + 1, event(i), EVENT) if i % 2 else confluent(1, {**event(i), "n": i}, GROWN) for i in range(90)
    ]
    options = {**AVRO, "on_schema_change": "resolve", "schemas": (GROWN, EVENT)}
    for name, _, task in same(values, batch=30, partitions=1, by_value=True, **options):
        assert ways(task) == {name: 90}
        assert task.last.metrics["kafka_hdfs.recoded"]["count"] == 0
        (records,) = task.data(task.last.units[0]).values()
        assert [record["n"] for record in records] == [7 if i % 2 else i for i in range(90)]


def test_schemas_of_other_types_are_decoded_and_encoded_again_and_that_is_told(caplog):
    caplog.set_level("INFO")
    values = [confluent(2 if i % 3 else 1, event(i), EVENT if i % 3 else OTHER) for i in range(90)]
    options = {**AVRO, "on_schema_change": "resolve", "schemas": (OTHER, EVENT)}
    for name, _, task in same(values, batch=30, partitions=1, by_value=True, **options):
        assert ways(task) == {name: 90}
        assert task.last.metrics["kafka_hdfs.recoded"]["count"] == 60
    assert "values of schema 2 are decoded and encoded again: field 'id' has to become of another type" in caplog.text
    assert f"records by way: 90 {name}" in caplog.text


def test_a_timestamp_type_tells_its_own_unit():
    values = [b"\x00\x00\x00\x00\x01" + datum({"at": (MORNING + i * HOUR) * 1_000, "id": i}, MICROS) for i in range(30)]
    values += [b"\x00\x00\x00\x00\x01" + datum({"at": None, "id": 1}, MICROS)]
    options = {**AVRO, "time_field": "at", "schemas": (MICROS,), "on_bad_time": "kafka_time"}
    for name, section, task in same(values, batch=100, partitions=1, **options):
        assert ways(task) == {name: 31}
        assert len(section.files) == 30


def dated(time_type):
    return {**EVENT, "fields": [{"name": "at", "type": time_type}]}


@pytest.mark.parametrize(
    ("time_type", "values", "fast"),
    [
        ({"type": "int", "logicalType": "date"}, [20_000], True),
        ("string", ["1767254400000", "2026-01-01"], True),
        (["null", {"type": "long", "logicalType": "timestamp-millis"}, "string"], [None, MORNING, str(MORNING)], True),
        (["null", {"type": "long", "logicalType": "timestamp-micros"}, "string"], [None, str(MORNING)], False),
        (["string", "double"], [str(MORNING), 1.5], True),
    ],
)
def test_times_are_those_of_decoded_values_whatever_type_they_have(time_type, values, fast):
    schema = dated(time_type)
    found = [b"\x00\x00\x00\x00\x01" + datum({"at": value}, schema) for value in values] * 20
    options = {**AVRO, "time_field": "at", "schemas": (schema,), "on_bad_time": "kafka_time"}
    for name, _, task in same(found, batch=100, partitions=1, **options):
        assert ways(task) == {name if fast else "reference": len(found)}


def test_a_time_that_lies_in_a_map_is_decoded():
    record = {"type": "record", "name": "R", "fields": [{"name": "time", "type": "long"}]}
    schema = {**EVENT, "fields": [{"name": "header", "type": [record, {"type": "map", "values": "long"}]}]}
    found = [b"\x00\x00\x00\x00\x01" + datum({"header": {"time": MORNING}}, schema)] * 10
    found += [b"\x00\x00\x00\x00\x01\x02\x02\x08time" + datum(MORNING, "long") + b"\x00"] * 10
    for _, section, task in same(found, batch=100, partitions=1, **{**AVRO, "schemas": (schema,)}):
        assert ways(task) == {"reference": 20}
        assert section.counts.written == 20


def test_what_can_not_be_walked_is_found_out_once_and_not_in_each_batch(caplog):
    caplog.set_level("INFO")
    schema = {**EVENT, "fields": [{"name": "header", "type": [{"type": "map", "values": "long"}]}]}
    found = [b"\x00\x00\x00\x00\x01\x00\x02\x08time" + datum(MORNING, "long") + b"\x00"] * 50
    _, _, _, task = outcome("compiled", found, batch=10, partitions=1, schemas=(schema,), **AVRO)
    assert ways(task) == {"reference": 50}
    assert caplog.text.count("values of schema 1 are decoded") == 1


def test_large_values_of_schemas_that_hold_themselves_are_decoded():
    fields = [{"name": "time", "type": "long"}, {"name": "inner", "type": ["null", "Node"]}]
    schema = {"type": "record", "name": "Node", "fields": fields}

    def nested(depth):
        return b"\x00\x00\x00\x00\x01" + (datum(MORNING, "long") + b"\x02") * depth + datum(MORNING, "long") + b"\x00"

    values = [nested(3)] * 50 + [nested(2_000)] + [nested(3)] * 50
    options = {**AVRO, "time_field": "time", "schemas": (schema,)}
    for name, section, task in same(values, batch=50, partitions=1, **options):
        assert ways(task) == {"reference": 51, name: 50}
        assert section.counts.quarantined == 1


def test_records_that_hold_themselves_get_no_columns_since_nobody_could_read_them():
    chain = {**EVENT, "fields": [*EVENT["fields"], {"name": "next", "type": ["null", "Event"], "default": None}]}
    values = [confluent(1, {**event(1), "next": event(2)}, chain)] * 3
    options = {"batch": 10, "partitions": 1, "schemas": (chain,), **AVRO}
    same(values, include_kafka_metadata=True, **options)
    _, contents, bad, _ = outcome("compiled", values, include_kafka_metadata=True, **options)
    assert [entry["reason"] for entry in bad] == ["unusable_schema"] * 3
    assert len(contents) == 1  # the quarantine
    same(values, **options)


@pytest.mark.parametrize("change", ["new_file", "resolve"])
@pytest.mark.parametrize("empty", ["null", {"type": "record", "name": "None", "fields": []}], ids=["null", "record"])
def test_a_few_bytes_that_claim_any_number_of_items_take_no_memory(empty, change):
    def with_items(schema):
        many = {"name": "many", "type": {"type": "array", "items": empty}}
        return {**schema, "fields": [*schema["fields"], many]}

    schemas = (with_items(OTHER), with_items(EVENT)) if change == "resolve" else (with_items(EVENT),)
    good = b"\x00\x00\x00\x00" + bytes([len(schemas)]) + datum({**event(1), "many": []}, schemas[-1])
    values = [good, good[:-1] + encode_long(2**40) + b"\x00", good, good]
    options = {**AVRO, "schemas": schemas, "on_schema_change": change}
    for _, section, _ in same(values, batch=10, partitions=1, by_value=True, **options):
        assert (section.counts.written, section.counts.quarantined) == (3, 1)


def test_late_records_and_folders_over_the_limit_of_open_files_are_counted_alike():
    values = [confluent(1, event(i, MORNING + i * 7 % 11 * HOUR)) for i in range(150)]
    for _, section, task in same(values, batch=40, partitions=2, most=4, **AVRO):
        assert set(ways(task)) == {"reference"}
        assert section.outcome is Outcome.DONE


def test_the_words_for_topics_that_are_never_taken_in_batches():
    task = Task(fast=FAST)
    reasons = {
        "converters": {"converters": [ways], "convert_schema": EVENT},
        "partition_fields": {"value_format": "avro", "schema": EVENT, "partition_fields": ["id"]},
        "JSON": {"value_format": "json"},
        "jsonl": {"file_format": "jsonl"},
        "raw": {"value_format": "avro", "schema": EVENT, "file_format": "raw"},
    }
    for word, arguments in reasons.items():
        task.configure(**arguments)
        assert word in why_not(task.settings["events"].config)
    task.configure(value_format="avro", schema=EVENT)
    assert why_not(task.settings["events"].config) == ""


@pytest.mark.parametrize(("logical", "way"), [({}, "compiled"), ({"logicalType": "decimal"}, "reference")])
def test_parquet_is_taken_in_batches_unless_decimals_have_to_be_proved(logical, way):
    fields = [{"name": "price", "type": {"type": "bytes", "precision": 3, **logical}}]
    schema = {"type": "record", "name": "R", "fields": fields}
    values = [datum({"price": bytes([i])}, schema) for i in range(50)]
    _, _, _, task = outcome(
        "compiled", values, batch=20, partitions=1, value_format="avro", schema=schema, file_format="parquet"
    )
    assert ways(task) == {way: 50}
