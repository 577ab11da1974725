"""Dates and times as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.moments import moment

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_date_is_the_end_of_its_day_or_where_something_begins_the_start():
    assert moment("2026-03-01", "at") == MIDNIGHT + timedelta(days=1, microseconds=-1)
    assert moment("2026-03-01", "from", begins=True) == MIDNIGHT
    assert moment("9999-12-31", "at").year == 9999


@pytest.mark.parametrize("text", ["2026-03-01T00:00", "2026-03-01T00:00Z", "2026-03-01T02:00+02:00"])
def test_a_time_is_in_utc_unless_it_says_otherwise(text):
    assert moment(text, "at") == moment(text, "from", begins=True) == MIDNIGHT


def test_no_text_means_now():
    assert abs(moment("", "at") - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    "text", ["now", "2026-02-30", "0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:00-14:00"]
)
def test_what_is_no_moment_is_told_with_its_name(text):
    with pytest.raises(ConfigError, match=rf"^at: got '{text[:4]}.*allowed: an ISO date or time"):
        moment(text, "at")
