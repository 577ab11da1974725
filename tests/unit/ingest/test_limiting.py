"""Limits are shared out evenly, and a rate is kept."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.limiting import Pace, fair_shares
from tests.fakes.runtime import ManualClock

wants = st.dictionaries(st.integers(0, 50), st.integers(0, 1_000), max_size=12)


@given(st.integers(0, 5_000), wants, st.text(max_size=3))
def test_shares_are_fair_and_use_up_what_there_is(total, wanted, salt):
    shares = fair_shares(total, wanted, salt)
    assert shares.keys() == wanted.keys()
    assert sum(shares.values()) == min(total, sum(wanted.values()))
    for key, share in shares.items():
        assert 0 <= share <= wanted[key]
        for other, more in shares.items():
            # Whoever has clearly less than another one has all it wanted.
            assert share == wanted[key] or share >= more - 1 or other == key


def test_the_odd_records_change_hands_from_plan_to_plan():
    wanted = dict.fromkeys(range(100), 10)
    lucky = [frozenset(k for k, n in fair_shares(30, wanted, f"plan-{i}").items() if n) for i in range(20)]
    assert len(set(lucky)) == 20
    assert frozenset().union(*lucky) == frozenset(wanted)


def test_a_rate_is_kept_within_five_percent():
    clock, chance = ManualClock(), random.Random(7)
    pace = Pace(clock, 20.0)
    taken = 0
    while taken < 100:
        taken += pace.room(500)
        pace.took(pace.room(500))
        clock.advance(chance.uniform(0, 0.009))
        while pace.ahead():
            pace.wait()
    assert taken / clock.monotonic() == pytest.approx(20, rel=0.05)
    assert max(clock.sleeps) <= 0.5


def test_without_a_rate_nobody_waits():
    clock = ManualClock()
    pace = Pace(clock, None)
    assert pace.room(500) == 500
    pace.took(10**9)
    pace.wait()
    assert clock.sleeps == []


@pytest.mark.parametrize(("rate", "room"), [(0.1, 1), (20.0, 10), (1e6, 500)])
def test_a_slow_rate_asks_for_few_records(rate, room):
    assert Pace(ManualClock(), rate).room(500) == room
