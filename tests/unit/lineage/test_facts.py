"""What runs tell about a job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.facts import deprecated, failing, frequency

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def dates(*gaps):
    found = [NOW]
    for gap in gaps:
        found.append(found[-1] + gap)
    return found


@pytest.mark.parametrize(
    ("gaps", "name"),
    [
        ([DAY] * 4, "daily"),
        ([DAY, DAY, DAY, 7 * DAY], "daily"),
        ([DAY], "unknown"),
        ([DAY, DAY], "unknown"),
        ([timedelta(minutes=15)] * 4, "quarter-hourly"),
        ([timedelta(hours=1)] * 4, "hourly"),
        ([timedelta(hours=6)] * 4, "six-hourly"),
        ([7 * DAY] * 3, "weekly"),
        ([31 * DAY, 28 * DAY, 31 * DAY, 30 * DAY], "monthly"),
        ([timedelta(hours=2)] * 4, "other"),
        ([DAY, 9 * DAY, DAY, 9 * DAY, 4 * DAY], "irregular"),
        ([timedelta(hours=1)] * 40 + [DAY] * 30, "daily"),
    ],
)
def test_frequency_is_the_class_of_the_median_gap(gaps, name):
    assert frequency(dates(*gaps)).name == name


@given(st.permutations(dates(*[DAY] * 5)))
def test_frequency_knows_no_order_and_no_doubles(shuffled):
    assert frequency(shuffled + shuffled[:3]).name == "daily"


def test_a_daily_job_is_deprecated_after_a_month_and_a_monthly_one_is_not():
    last = NOW - 31 * DAY
    assert deprecated(last, NOW, DAY)
    assert not deprecated(last, NOW, 30 * DAY)
    assert deprecated(last, NOW, 30 * DAY, factor=0)
    assert not deprecated(NOW - 30 * DAY, NOW, DAY)
    assert deprecated(last, NOW, timedelta(0))


@pytest.mark.parametrize(
    ("outcomes", "is_failing"),
    [("FFSFF", False), ("FFF", True), ("FF", False), ("SFFF", True), ("FFFS", False), ("", False)],
)
def test_a_job_fails_repeatedly_after_three_failures_in_a_row(outcomes, is_failing):
    assert failing([{"F": "failed", "S": "success"}[o] for o in outcomes]) is is_failing
