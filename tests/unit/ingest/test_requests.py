"""What a run asks for: continuous or a date range, and requests that are refused before anything happens."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest.choices import Granularity
from airflow_kafka_hdfs.ingest.requests import Interval, PlanRequest, next_partition
from airflow_kafka_hdfs.model import RunRef

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
RUN = RunRef(dag_id="dag", run_id="manual__1", group="g")


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def interval(params=None, granularity=Granularity.HOURLY, timezone="UTC", **run):
    return PlanRequest.of(params or {}, **run).interval(NOW, granularity, timezone)


def test_a_scheduled_run_is_continuous_also_with_a_data_interval():
    assert interval() is None
    assert interval(data_interval=(at("2026-01-01"), at("2026-01-02"))) is None
    assert interval(partition_date=at("2026-01-01")) is None


def test_a_backfill_reads_its_data_interval():
    found = interval(backfill=True, data_interval=(at("2026-01-01"), at("2026-01-02")))
    assert found == Interval(start=at("2026-01-01"), end=at("2026-01-02"))
    assert found.as_texts() == ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")


def test_a_partition_run_reads_the_partition():
    found = interval(
        backfill=True, partition_date=at("2026-01-01T05"), data_interval=(at("2026-01-01"), at("2026-01-01"))
    )
    assert found == Interval(start=at("2026-01-01T05"), end=at("2026-01-01T06"))


@pytest.mark.parametrize(
    ("granularity", "start", "zone", "end"),
    [
        ("minutely", "2026-01-01T00:00", "UTC", "2026-01-01T00:01"),
        ("daily", "2026-01-01", "UTC", "2026-01-02"),
        ("daily", "2026-03-28T23:00", "Europe/Berlin", "2026-03-29T22:00"),  # a day of 23 hours
        ("daily", "2026-10-24T22:00", "Europe/Berlin", "2026-10-25T23:00"),  # a day of 25 hours
        ("daily", "2026-04-23T22:00", "Africa/Cairo", "2026-04-24T21:00"),  # a day that begins at 01:00
        ("daily", "2026-04-22T22:00", "Africa/Cairo", "2026-04-23T22:00"),  # and the one before it
        ("daily", "2026-04-24T22:00", "Africa/Cairo", "2026-04-25T22:00"),  # one that begins elsewhere keeps its time
        ("monthly", "2026-12-01", "UTC", "2027-01-01"),
        ("monthly", "2026-01-31T23:00", "Europe/Berlin", "2026-02-28T23:00"),
        ("yearly", "2026-01-01", "UTC", "2027-01-01"),
    ],
)
@pytest.mark.bug(48)
def test_the_next_partition_follows_the_wall_clock(granularity, start, zone, end):
    assert next_partition(at(start), Granularity(granularity), zone) == at(end)


def test_params_win_over_the_runs_own_interval():
    params = {"range_start": "2026-01-01T00:00:00Z", "range_end": "2026-01-01T01:00:00+00:00"}
    assert interval(params, backfill=True, data_interval=(at("2025-01-01"), at("2025-01-02"))) == Interval(
        start=at("2026-01-01"), end=at("2026-01-01T01")
    )


def test_one_side_alone_leaves_the_other_open():
    assert interval({"range_start": "2026-01-01T00:00:00Z"}) == Interval(start=at("2026-01-01"), end=NOW, is_open=True)
    found = interval({"range_end": "2026-01-01T00:00:00Z"})
    assert found == Interval(start=None, end=at("2026-01-01"))
    assert found.as_texts() == ("", "2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize(
    ("params", "run", "text"),
    [
        ({}, {"backfill": True}, "data interval: got 'none'.*CronDataIntervalTimetable"),
        (
            {},
            {"backfill": True, "data_interval": (at("2026-01-01"), at("2026-01-01"))},
            "data interval: got 'of no length, at 2026-01-01T00:00:00.*KafkaToHdfsDag turns it into",
        ),
        ({}, {"backfill": True, "data_interval": (at("2026-01-02"), at("2026-01-03"))}, "can't be read yet"),
        ({"range_end": "2026-01-02T12:00:01Z"}, {}, "range_end: got '2026-01-02T12:00:01.*a time not after"),
        (
            {"range_start": "2026-01-01T00:00:00Z", "range_end": "2026-01-01T00:00:00Z"},
            {},
            "range_end: got .*a time after the range's start",
        ),
        ({"range_start": "2026-01-02T13:00:00Z"}, {}, "range_start: got '2026-01-02T13:.*a time before 2026-01-02T12:"),
        ({"range_start": "yesterday"}, {}, "range_start: got 'yesterday'"),
        ({"range_start": "2026-01-01"}, {}, "the time has no zone: 2026-01-01T00:00:00Z would be UTC"),
        ({"range_start": "0001-01-01T00:00:00+05:00"}, {}, "range_start: got .*in UTC it lies outside the years 1 to"),
        ({"replace": True}, {}, "replace: got True; allowed: a run with range_start"),
        ({"replace": "yes"}, {}, "replace: got 'yes'; allowed: True, False"),
        ({"reset": {"a": "latest"}, "range_start": "2026-01-01T00:00:00Z"}, {}, "reset: got .*without a date range"),
        ({"reset": {"a": "latest"}}, {"backfill": True}, "reset: got .*without a date range"),
        ({"reset": {"a": "earliests"}}, {}, "reset\\['a'\\]: got 'earliests'.*did you mean 'earliest'"),
        ({"reset": {"[": "latest"}}, {}, "reset: got '\\['; allowed: a regular expression"),
        ({"reset": ["a"]}, {}, "reset: got \\['a'\\]; allowed: a mapping"),
        ({"dry_run": 1}, {}, "dry_run: got 1"),
    ],
)
def test_what_can_not_be_meant_is_refused(params, run, text):
    with pytest.raises(ConfigError, match=text):
        interval(params, **run)


def test_the_id_of_a_request_is_the_run_and_its_parameters():
    def request_id(params, run=RUN):
        return PlanRequest.of(params).request_id(run, "reset")

    latest = request_id({"reset": {"a": "latest"}})
    assert latest.startswith("reset:manual__1:")
    assert latest == request_id({"reset": {"a": "latest"}, "dry_run": True})
    assert latest != request_id({"reset": {"a": "earliest"}})
    assert latest != request_id({"reset": {"a": "latest"}}, RunRef(dag_id="dag", run_id="manual__2", group="g"))
    assert latest != request_id({"reset": {"a": "latest"}}, RunRef(dag_id="dag", run_id="manual__1", group="h"))
    day = timedelta(days=1)
    first = PlanRequest.of({}, backfill=True, data_interval=(NOW - 2 * day, NOW - day))
    other = PlanRequest.of({}, backfill=True, data_interval=(NOW - day, NOW))
    assert first.request_id(RUN, "replace") != other.request_id(RUN, "replace")
