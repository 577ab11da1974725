"""Values that JSON and raw files have no form of their own for."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from uuid import UUID

import pytest

from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.columns import Columns
from airflow_kafka_hdfs.ingest.decoding import Decoded
from airflow_kafka_hdfs.ingest.encoding import JsonLineEncoder, PlainEncoder, RawEncoder
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType

RECORD = ConsumerRecord(
    topic="t", partition=0, offset=0, timestamp=-1, timestamp_type=TimestampType.NONE, key=b"\xff", value=b"v"
)
LINES = JsonLineEncoder(Columns(), wrapped=False)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"\xff", "/w=="),
        (bytearray(b"a"), "YQ=="),
        (datetime(2026, 1, 1, 8, 0, 0, 500, tzinfo=UTC), "2026-01-01T08:00:00.000500Z"),
        (datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=1))), "2026-01-01T08:00:00Z"),
        (datetime(2026, 1, 1, 9), "2026-01-01T09:00:00"),  # noqa: DTZ001 - a local time
        (date(2026, 1, 1), "2026-01-01"),
        (time(8, 30), "08:30:00"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (("name", {"a": 1}), ["name", {"a": 1}]),
        ("é\u2028", "é\u2028"),
        ("\ud800", "\ud800"),
    ],
)
def test_json_lines_of_other_values(value, written):
    line, schema = LINES.encode(RECORD, Decoded({"v": value}))
    assert schema is None
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"v": written}


def test_keys_in_json_lines_are_base64():
    line, _ = JsonLineEncoder(Columns(key=True, headers=True), wrapped=False).encode(RECORD, Decoded({"a": 1}))
    assert json.loads(line) == {"a": 1, "_kafka_key": "/w==", "_kafka_headers": []}


def test_values_nested_too_deeply_are_bad():
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(DecodeError, match="unencodable"):
        LINES.encode(RECORD, Decoded(nested))


def test_text_in_raw_files_and_in_fields_is_utf8():
    raw = RawEncoder(lengths=True, original=False)
    assert raw.encode(RECORD, Decoded("é")) == (b"\x00\x00\x00\x02\xc3\xa9", None)
    for encoder in (raw, PlainEncoder("string", nullable=False, columns=Columns())):
        with pytest.raises(DecodeError, match="no place in UTF-8"):
            encoder.encode(RECORD, Decoded("\ud800"))


def test_a_null_value_needs_a_place():
    with pytest.raises(DecodeError, match="not nullable"):
        PlainEncoder("bytes", nullable=False, columns=Columns()).encode(RECORD, Decoded(None))
    with pytest.raises(DecodeError, match="no place in a raw file"):
        RawEncoder(lengths=False, original=False).encode(RECORD, Decoded(None))


def test_columns_need_a_record():
    with pytest.raises(UnusableSchemaError, match="none on its top level"):
        Columns(key=True).added_to(["null", {"type": "record", "name": "R", "fields": []}])
    chain = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    with pytest.raises(UnusableSchemaError, match="record R holds itself: with the columns of include_"):
        Columns(key=True).added_to(chain)
    Columns(key=True).check_names(chain)  # JSON has room for them
    theirs = {"type": "enum", "name": "airflow_kafka_hdfs.KafkaHeader", "symbols": ["a"]}
    with pytest.raises(UnusableSchemaError, match="'airflow_kafka_hdfs.KafkaHeader' is defined twice"):
        Columns(headers=True).added_to({"type": "record", "name": "R", "fields": [{"name": "a", "type": theirs}]})
    assert Columns().added_to("string") == "string"
