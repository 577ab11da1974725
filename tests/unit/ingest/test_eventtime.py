"""A record's time is what its field or Kafka says, or an error that names what was found; never now."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.choices import OnBadTime, TimeUnit
from airflow_kafka_hdfs.ingest.eventtime import EventTime, millis_of, parse_iso, to_millis
from airflow_kafka_hdfs.ingest.settings import TimeBounds

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BOUNDS = TimeBounds().of_plan(NOW)
MS = TimeUnit.MILLIS
ANY = (-(2**70), 2**70)


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1994-11-05T08:15:30-05:00", 784041330000),
        ("2014-02-01 01:15:27 UTC", 1391217327000),
        ("2014-02-01T01:15:27Z", 1391217327000),
        ("2014-02-01T01:15:27", 1391217327000),
        (" 2014-02-01T01:15:27.123456789Z ", 1391217327123),
        ("2014-02-01T01:15:27.5GMT", 1391217327500),
        ("2014-02-01", 1391212800000),
    ],
)
def test_iso_texts(text, millis):
    assert parse_iso(text) == millis
    assert to_millis(text, TimeUnit.ISO) == millis


@pytest.mark.parametrize(
    ("value", "unit", "millis"),
    [
        (1420272000, TimeUnit.SECONDS, 1420272000000),
        (1557786583000, MS, 1557786583000),
        (1557786583000999, TimeUnit.MICROS, 1557786583000),
        (1557786583000999999, TimeUnit.NANOS, 1557786583000),
        (-1, TimeUnit.NANOS, -1),
        ("1557786583000", MS, 1557786583000),
        ("-1", MS, -1),
        ("0", MS, 0),
        ("-9223372036854775808", MS, -(2**63)),
        ("9223372036854775807", MS, 2**63 - 1),
        (datetime(2014, 2, 1, 1, 15, 27, 999_999, tzinfo=UTC), TimeUnit.SECONDS, 1391217327999),
        (datetime(2014, 2, 1, 1, 15, 27), MS, 1391217327000),  # noqa: DTZ001 - Avro's local timestamps have no zone
        (datetime(2014, 2, 1, 2, 15, 27, tzinfo=timezone(timedelta(hours=1))), MS, 1391217327000),
        (date(2014, 2, 1), MS, 1391212800000),
    ],
)
def test_values_of_time_fields(value, unit, millis):
    assert to_millis(value, unit) == millis


@pytest.mark.parametrize("value", ["def", "1.5", "", 1.5, True, None, [1], {"a": 1}, b"1"])
def test_what_is_no_time_is_named_with_field_and_type(value):
    rule = EventTime(bounds=BOUNDS, field=("header", "time"))
    with pytest.raises(DecodeError, match=r"bad_time: time_field 'header\.time'") as caught:
        rule.of({"header": {"time": value}}, 0)
    if value is not None and not isinstance(value, str):
        assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize("value", ["def", "12", 12, 1.5])
def test_texts_and_numbers_are_not_taken_for_each_other(value):
    with pytest.raises(DecodeError, match="bad_time"):
        to_millis(value, TimeUnit.ISO)


@pytest.mark.parametrize("value", [{}, {"nested": None}, {"nested": 5}, {"nested": {}}, 7, None, "text"])
def test_a_missing_field_or_parent_is_an_error_not_the_epoch(value):
    rule = EventTime(bounds=BOUNDS, field=("nested", "timestamp"))
    with pytest.raises(DecodeError, match="is missing or no record"):
        rule.of(value, 1557786583000)


def test_times_outside_the_bounds_name_value_and_bounds():
    rule = EventTime(bounds=BOUNDS, field=("time",))
    assert rule.of({"time": BOUNDS[0]}, -1) == BOUNDS[0]
    assert rule.of({"time": BOUNDS[1] - 1}, -1) == BOUNDS[1] - 1
    for millis in (BOUNDS[0] - 1, BOUNDS[1], -(2**63), 2**63 - 1):
        with pytest.raises(DecodeError, match=rf"{millis} ms .*outside time_bounds \[1980-01-01T00:00:00Z, 2026-01-03"):
            rule.of({"time": millis}, -1)


@pytest.mark.bug(54)
def test_kafka_time_needs_a_timestamp():  # -1 is "no timestamp", not 1969
    rule = EventTime(bounds=ANY)
    assert rule.of(None, 5) == 5
    assert rule.of(None, -2) == -2
    with pytest.raises(DecodeError, match="no Kafka timestamp"):
        rule.of(None, -1)


def test_the_fallback_to_kafka_time_obeys_the_bounds_too():
    rule = EventTime(bounds=BOUNDS, field=("time",), on_bad=OnBadTime.KAFKA_TIME)
    good = BOUNDS[0] + 5
    assert rule.of({"time": 12}, good) == good
    assert rule.of({}, good) == good
    with pytest.raises(DecodeError, match="outside time_bounds.*; and the record has no Kafka timestamp"):
        rule.of({"time": 12}, -1)
    with pytest.raises(DecodeError, match="outside time_bounds.*; and Kafka timestamp: 3 ms"):
        rule.of({"time": 12}, 3)


@given(st.datetimes(timezones=st.timezones()), st.sampled_from([TimeUnit.SECONDS, MS, TimeUnit.MICROS]))
def test_numbers_and_texts_of_one_moment_agree(moment, unit):
    millis = millis_of(moment)
    if moment.utcoffset() % timedelta(minutes=1):
        return  # ISO texts of such zones are Python's alone
    assert parse_iso(moment.isoformat()) == millis
    scale = {TimeUnit.SECONDS: 1, MS: 1_000, TimeUnit.MICROS: 1_000_000}[unit]
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert to_millis(micros * scale // 1_000_000, unit) in (millis, millis // 1_000 * 1_000)


def test_a_date_is_its_midnight_in_utc_as_number_and_as_what_a_decoder_makes_of_it():
    day = date(2026, 1, 31)
    midnight = millis_of(datetime(2026, 1, 31, tzinfo=UTC))
    assert to_millis((day - date(1970, 1, 1)).days, TimeUnit.DAYS) == to_millis(day, TimeUnit.MILLIS) == midnight
    assert to_millis(-1, TimeUnit.DAYS) == -86_400_000
