"""How many small control files a run waits for, one after the other: each takes 0.2 to 0.5 s on HDFS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from tests.crash.job import Job
from tests.fakes.runtime import ManualClock
from tests.fakes.store import InMemoryStore

T = TypeVar("T")
R = TypeVar("R")

A_DAY = 86_400.0
MOST = 6
"""Control files in sequence on the critical path of a run."""


class SlowStore(InMemoryStore):
    """A control file takes a day of the job's clock, everything else no time."""

    clock: ManualClock

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.clock.advance(A_DAY)
        return super().put_if_absent(path, data)


class ParallelClock:
    """Workers whose calls all begin at the same moment; the last one to end tells the time."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        begin, last, results = self._clock.monotonic(), self._clock.monotonic(), []
        for item in items:
            self._clock._elapsed = begin
            results.append(call(item))
            last = max(last, self._clock.monotonic())
        self._clock._elapsed = last
        return results


def slow_job(state_uri: str | None = None) -> Job:
    store = SlowStore()
    job = Job(store)
    job.state_uri = state_uri
    store.clock = job.clock
    job.workers = ParallelClock(job.clock)
    job.recovering = True  # a job uses its workers only then; nothing dies here
    return job


def control_files(job: Job, run_id: str) -> int:
    """Of a whole run, in sequence; mapped tasks work side by side."""
    job.runs.alive = {run_id: True}
    steps, begin = 0.0, job.clock.monotonic()
    plan = job.plan(run_id)
    assert plan is not None
    steps += job.clock.monotonic() - begin
    times = []
    for task in plan.tasks:
        begin = job.clock.monotonic()
        job.extract(plan, task.index)
        times.append(job.clock.monotonic() - begin)
    steps += max(times, default=0.0)
    begin = job.clock.monotonic()
    job.publish(plan)
    return round((steps + job.clock.monotonic() - begin) / A_DAY)


@pytest.mark.parametrize("state_uri", [None, "file:///records"])
def test_a_run_waits_for_few_control_files(state_uri):
    """Also the first one, which takes the log and the topics and commits start points, and with copies of records."""
    job = slow_job(state_uri)
    assert control_files(job, "run-1") <= MOST
    job.produce(2)
    assert control_files(job, "run-2") <= MOST
    for copied in ("_owners", *(["_log"] if state_uri else [])):
        assert [path for path in job.store.files() if f".kafka_hdfs/{copied}/" in path]
    job.recovering = False
    job.check()


def test_a_run_with_nothing_new_waits_for_hardly_any():
    job = slow_job()
    control_files(job, "run-1")
    assert control_files(job, "run-2") <= 2


@pytest.mark.parametrize("runs", [12])
def test_it_does_not_grow_with_the_log(runs):
    job = slow_job()
    counts = []
    for number in range(runs):
        job.produce(1)
        counts.append(control_files(job, f"run-{number}"))
    assert max(counts[1:]) <= MOST, counts
