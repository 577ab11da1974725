"""The real runtime and its fakes keep the same promises."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.ports.runtime import Clock, Ids, Workers
from tests.fakes.runtime import ManualClock, SeededIds, SerialWorkers


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()], ids=["system", "manual"])
def test_clocks_are_aware_and_never_go_back(clock: Clock):
    assert clock.now().tzinfo is UTC
    before = clock.monotonic()
    clock.sleep(0.01)
    assert clock.monotonic() >= before + 0.01
    clock.sleep(0)


def test_the_system_clock_tells_the_time():
    assert abs(SystemClock().now() - datetime.now(UTC)) < timedelta(seconds=5)
    SystemClock().sleep(-1)


def test_the_manual_clock_moves_only_when_told():
    clock = ManualClock()
    assert clock.now() == clock.now()
    clock.advance(90)
    assert (clock.now() - ManualClock().now()).total_seconds() == clock.monotonic() == 90
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(-1)


@pytest.mark.parametrize("ids", [RandomIds(), SeededIds(3)], ids=["random", "seeded"])
@pytest.mark.parametrize("digits", [1, 7, 8, 32])
def test_ids_have_the_wanted_digits_and_differ(ids: Ids, digits: int):
    made = [ids.hex(digits) for _ in range(50)]
    assert all(len(one) == digits and set(one) <= set("0123456789abcdef") for one in made)
    if digits > 6:
        assert len(set(made)) == 50


def test_seeded_ids_repeat():
    assert [SeededIds(1).hex(8) for _ in range(3)] == [SeededIds(1).hex(8)] * 3
    assert SeededIds(1).hex(8) != SeededIds(2).hex(8)


def test_random_ids_need_digits():
    with pytest.raises(ValueError, match="digits"):
        RandomIds().hex(0)


@pytest.fixture(params=[ThreadWorkers(3), SerialWorkers()], ids=["threads", "serial"])
def workers(request: pytest.FixtureRequest) -> Workers:
    return request.param


def test_results_come_in_the_order_of_the_items(workers: Workers):
    assert workers.map(lambda n: n * n, iter(range(20))) == [n * n for n in range(20)]
    assert workers.map(str, []) == []
    assert workers.map(str, [7]) == ["7"]


def test_every_call_is_over_before_the_first_error_is_raised(workers: Workers):
    over: list[int] = []
    lock = threading.Lock()

    def call(n: int) -> None:
        if n > 2:
            time.sleep(0.01)
        with lock:
            over.append(n)
        if n in (2, 5):
            raise ValueError(f"call {n}")

    with pytest.raises(ValueError, match="call 2"):
        workers.map(call, range(9))
    assert sorted(over) == list(range(9))


def test_threads_work_side_by_side_and_never_more_than_allowed():
    barrier = threading.Barrier(3, timeout=10)  # breaks if fewer than three calls run at once
    running, most, lock = 0, 0, threading.Lock()

    def call(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait()
        with lock:
            running -= 1

    ThreadWorkers(3).map(call, range(9))
    assert most == 3
    with pytest.raises(ValueError, match="size"):
        ThreadWorkers(0)
