"""Decoders and converters of the user: how they are called, what they may tell, what their errors mean."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.exceptions import DecodeError, KafkaUnavailableError
from airflow_kafka_hdfs.ingest.extraction import Extraction
from airflow_kafka_hdfs.ingest.usercode import UserRecord
from tests.unit.ingest.extracting import EVENT, MORNING, Task, confluent, counts_of, event, manifest_of

FOLDER = "events/2026/01/01/08"
SCHEMA = {"type": "record", "name": "Word", "fields": [{"name": "word", "type": "string"}]}


def words(record: UserRecord):
    """One output per word."""
    return [{"word": word} for word in record.value.decode().split()]


def shout(record: UserRecord):
    return {"word": record.value["word"].upper()}


def no_cats(record: UserRecord):
    return None if record.value["word"] == "CAT" else record.value


class Counting:
    """Made once per task."""

    def __init__(self, context):
        self.context = context
        context.metrics.counter("made").inc()

    def convert(self, record):
        self.context.metrics.counter("seen").inc()
        record.context.metrics.histogram("length").update(len(record.value["word"]))
        record.context.events.submit("word", word=record.value["word"], offset=record.offset)
        return record.value


class Upside:
    """A decoder with a method."""

    def __init__(self, context):
        assert context.topic == "events"

    def decode(self, record):
        if record.value == b"?":
            raise DecodeError("riddle", "a question is no answer")
        return {"word": record.value.decode()[::-1]}


def run(*values: bytes | None, **changes) -> tuple[Task, Extraction]:
    task = Task()
    task.topic(**{"max_bad_share": None, "convert_schema": SCHEMA, **changes})
    task.cluster.produce("events", 0, *values, timestamp=MORNING, key=b"k")
    return task, task.run()


def test_converters_make_none_one_or_several_outputs():
    task, result = run(b"a cat", b"cat", b"", b"dog eats cat", converters=[words, shout, no_cats])
    (unit,) = manifest_of(result).units
    assert [r["word"] for r in task.data(unit)[FOLDER]] == ["A", "DOG", "EATS"]
    assert counts_of(unit) == {"written": 2, "filtered": 2}
    assert unit.counts.records_out == 3
    (entry,) = unit.files
    assert (entry.records, entry.records_out, entry.offsets) == (2, 3, {0: (0, 3, 2)})


def test_classes_are_made_once_and_their_metrics_and_events_stand_in_the_manifest():
    task, result = run(b"a bb", b"ccc", converters=[words, Counting])
    metrics = manifest_of(result).metrics
    assert metrics["made"]["count"] == 1
    assert metrics["seen"]["count"] == 3
    assert (metrics["length"]["min"], metrics["length"]["max"]) == (1, 3)
    assert metrics["events.word"]["count"] == 3
    assert [(e.name, e.topic, e.data["word"], e.data["offset"]) for e in result.events][-1] == (
        "word",
        "events",
        "ccc",
        1,
    )


def test_a_flood_of_events_is_counted_and_kept_short():
    _, result = run(*[b"a " * 100] * 3, converters=[words, Counting])
    assert len(result.events) == 100
    assert manifest_of(result).metrics["events.word"]["count"] == 300


@pytest.mark.parametrize("decoder", [Upside, lambda record: {"word": record.value.decode()[::-1]}])
def test_decoders_are_classes_or_functions(decoder):
    task, result = run(b"abc", None, value_format=decoder, on_null="skip")
    (unit,) = manifest_of(result).units
    assert task.data(unit) == {FOLDER: [{"word": "cba"}]}


def test_a_decoder_may_say_why_a_record_is_bad():
    task, result = run(b"?", b"ok", value_format=Upside)
    (unit,) = manifest_of(result).units
    (bad,) = task.bad(unit)
    assert (bad["reason"], bad["detail"]) == ("riddle", "a question is no answer")
    assert manifest_of(result).metrics["kafka_hdfs.bad.riddle"]["count"] == 1


def test_reasons_of_the_user_are_counted_under_few_names():
    def decode(record):
        raise DecodeError(f"reason {record.offset}", "each its own")

    _, result = run(*[b"x"] * 80, value_format=decode)
    counted = {name: m["count"] for name, m in manifest_of(result).metrics.items() if ".bad." in name}
    assert len(counted) == 51
    assert counted["kafka_hdfs.bad.other"] == 30


@pytest.mark.bug(10)
def test_whatever_user_code_raises_makes_the_record_bad_and_reading_goes_on():
    def convert(record):
        if record.offset == 3:
            raise RuntimeError("boom")
        return {"word": "ok"}

    task, result = run(*[b"x"] * 10, converters=[convert])
    (unit,) = manifest_of(result).units
    assert counts_of(unit) == {"written": 9, "quarantined": 1}
    (bad,) = task.bad(unit)
    assert (bad["offset"], bad["reason"], bad["value"], bad["key"]) == (3, "converter", b"x", b"k")
    assert bad["detail"].endswith("convert raised RuntimeError: boom")


def test_an_outage_inside_user_code_is_no_bad_record():
    def convert(record):
        raise KafkaUnavailableError("the side topic is away")

    with pytest.raises(KafkaUnavailableError, match="side topic"):
        run(b"x", converters=[convert])


def test_several_outputs_of_a_bad_record_are_written_all_or_none():
    task, result = run(b"x", b"y", converters=[lambda r: [{"word": "good"}, {"word": 5 if r.value == b"x" else "z"}]])
    (unit,) = manifest_of(result).units
    assert [r["word"] for r in task.data(unit)[FOLDER]] == ["good", "z"]
    assert [(bad["offset"], bad["reason"]) for bad in task.bad(unit)] == [(0, "unencodable")]


def test_outputs_may_lie_in_several_folders_and_count_in_the_first():
    def spread(record):
        return [{"t": MORNING + hour * 3_600_000} for hour in (1, 0, 2)]

    task, result = run(
        b"x", converters=[spread], convert_schema=None, file_format="jsonl", value_format="json", time_field="t"
    )
    (unit,) = manifest_of(result).units
    assert counts_of(unit) == {"quarantined": 1}  # x is no JSON; nothing was asked of the converter
    task, result = run(
        b"1", converters=[spread], convert_schema=None, file_format="jsonl", value_format="json", time_field="t"
    )
    (unit,) = manifest_of(result).units
    found = {e.time_partition[11:13]: (e.records, e.records_out, e.offsets) for e in unit.files}
    assert found == {"09": (1, 1, {0: (0, 0, 1)}), "08": (0, 1, {0: (0, 0, 0)}), "10": (0, 1, {0: (0, 0, 0)})}


def test_converted_avro_is_encoded_anew_even_if_the_converter_changed_it_in_place():
    def rename(record):
        record.value["country"] = record.schema and "XX"
        return record.value

    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time", converters=[rename])
    schema_id = task.registry.register("events", EVENT)
    task.cluster.produce("events", 0, confluent(schema_id, event(1, country="NL")))
    assert task.data(task.unit()) == {FOLDER: [event(1, country="XX")]}


@pytest.mark.parametrize(
    ("value_format", "made", "stored"),
    [
        ("bytes", b"\xff", b"\xff"),
        ("bytes", "é", "é".encode()),
        ("string", "é", "é"),
        ("json", {"a": [1]}, '{"a":[1]}'),
        ("json", "text", "text"),
    ],
)
def test_converted_plain_values_go_into_the_field_value(value_format, made, stored):
    task, result = run(b"1", value_format=value_format, convert_schema=None, converters=[lambda record: made])
    assert task.data(manifest_of(result).units[0]) == {FOLDER: [{"value": stored}]}


@pytest.mark.parametrize(
    ("file_format", "made"), [("avro", 5), ("raw", {"a": 1}), ("jsonl", {"a": object()}), ("jsonl", 1e999)]
)
def test_what_a_format_has_no_place_for_is_bad(file_format, made):
    task, result = run(b"1", convert_schema=None, file_format=file_format, converters=[lambda record: made])
    (unit,) = manifest_of(result).units
    assert [bad["reason"] for bad in task.bad(unit)] == ["unencodable"]


def test_a_list_as_one_output_is_a_list_in_a_list():
    task, result = run(b"1", convert_schema=None, file_format="jsonl", converters=[lambda record: [[1, 2]]])
    assert task.data(manifest_of(result).units[0]) == {FOLDER: [[1, 2]]}
