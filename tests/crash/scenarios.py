"""What a pipeline may be doing when the store dies. Each scenario is a function over a `Job`; a step whose process dies
ends there, the others go on as Airflow would let them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from airflow_kafka_hdfs.ports.runtime import Workers
from airflow_kafka_hdfs.ports.store import Store
from tests.crash.job import Death, Job
from tests.fakes.faulty_store import MUTATIONS, Call, Fault, Kind
from tests.fakes.store import InMemoryStore

Scenario = Callable[[Job], object]

PAST = {"range_start": "2026-01-01T00:00:00Z", "range_end": "2026-01-01T00:04:30Z"}
"""A date range that holds a part of the first records of a job."""


def plain(job: Job) -> None:
    """One run, as it should be."""
    job.run("run-1")


def second(job: Job) -> None:
    """A run after a whole one, with news."""
    job.run("run-1")
    job.produce(1)
    job.run("run-2")


def retry(job: Job) -> None:
    """Every task of a run is tried again, whatever became of its first attempt."""
    job.runs.alive["run-1"] = True
    job.plan("run-1")
    plan = job.plan("run-1")
    if plan is not None:
        for task in plan.tasks:
            job.extract(plan, task.index)
            job.extract(plan, task.index)
        job.publish(plan)
        job.publish(plan)


def clear_of_one_task(job: Job) -> None:
    """A mapped task is cleared with everything after it, once the run is over."""
    plan = job.run("run-1")
    if plan is not None and plan.tasks:
        job.extract(plan, 0)
        job.publish(plan)


def clear_of_the_run(job: Job) -> None:
    """The whole run is cleared, when there is more to read."""
    job.run("run-1")
    job.produce(1)
    job.run("run-1")


def two_runs(job: Job) -> None:
    """Two runs read the same offsets, since each takes the other for dead."""
    job.runs.alive = {"run-1": False, "run-2": False}
    one = job.plan("run-1")
    two = job.plan("run-2")
    for plan in (one, two):
        if plan is not None:
            for task in plan.tasks:
                job.extract(plan, task.index)
    for plan in (two, one):
        if plan is not None:
            job.publish(plan)


def backfill_beside_a_scheduled_run(job: Job) -> None:
    """A date range is read again while a run that holds the same offsets is at work."""
    job.runs.alive = {"run-1": False, "backfill": True}
    one = job.plan("run-1")
    back = job.plan("backfill", PAST)
    for plan in (back, one):
        job.work(plan)


def late_plan(job: Job) -> None:
    """The first attempt of `plan` sleeps before it stores its plan; the second one does the whole run meanwhile."""
    job.runs.alive["run-1"] = True
    job.plan("run-1", before=once("put_if_absent", "/plans/", lambda: job.work(job.plan("run-1"))))


def late_extract(job: Job) -> None:
    """The first attempt of a task sleeps before it hands in its manifest; its run is over when it wakes up."""
    _late_task(job, "put_if_absent", "/units/")


def late_writer(job: Job) -> None:
    """The first attempt of a task sleeps in the middle of writing; its run is over when it wakes up."""
    _late_task(job, "close", "/staging/")


def _late_task(job: Job, name: str, part: str) -> None:
    job.runs.alive["run-1"] = True
    plan = job.plan("run-1")
    if plan is not None and plan.tasks:
        job.extract(plan, 0, before=once(name, part, lambda: job.work(plan)))


def late_commit(job: Job) -> None:
    """The first attempt of `publish` sleeps before its commit; another one does it, and a run comes after."""
    _late_publish(job, "put_if_absent", "/commits/")


def late_promote(job: Job) -> None:
    """The first attempt of `publish` sleeps before it brings the first file into place."""
    _late_publish(job, "promote", "/staging/")


def _late_publish(job: Job, name: str, part: str) -> None:
    job.runs.alive["run-1"] = True
    plan = job.plan("run-1")
    if plan is None:
        return

    def meanwhile() -> None:
        job.publish(plan)
        job.produce(1)
        job.run("run-2")

    for task in plan.tasks:
        job.extract(plan, task.index)
    job.publish(plan, before=once(name, part, meanwhile))


def partial_commit_and_repair(job: Job) -> None:
    """A topic can't be read, the others commit; then the topic is mended, and its task cleared."""
    job.runs.alive["run-1"] = True
    plan = job.plan("run-1")
    if plan is None:
        return
    job.cluster.deny("events", read_only=True)
    job.work(plan, "successful")
    job.cluster.allow("events")
    job.work(plan, "successful")


SCENARIOS: list[Scenario] = [
    plain,
    second,
    retry,
    clear_of_one_task,
    clear_of_the_run,
    two_runs,
    backfill_beside_a_scheduled_run,
    late_plan,
    late_extract,
    late_writer,
    late_commit,
    late_promote,
    partial_commit_and_repair,
]


def once(name: str, part: str, then: Callable[[], object]) -> Callable[[Call], None]:
    """Do something before the first call of a name whose path has a part in it."""
    done: list[bool] = []

    def look(call: Call) -> None:
        if not done and call.name == name and part in call.path:
            done.append(True)
            then()

    return look


def calls_of(scenario: Scenario) -> list[list[Call]]:
    """What a scenario asks of the store when nothing goes wrong, by process."""
    job = Job(InMemoryStore())
    scenario(job)
    return job.calls


def deaths(calls: list[list[Call]], kinds: Iterable[Kind] = Kind) -> Iterator[Death]:
    """Every call of a scenario with each kind of fault that differs there."""
    wanted = set(kinds)
    for process, made in enumerate(calls, 1):
        for call, following in zip_longest(made, made[1:]):
            for kind in sorted(wanted & _kinds(call, following)):
                yield Death(process=process, fault=Fault(at=call.number, kind=kind))


def _kinds(call: Call, following: Call | None) -> set[Kind]:
    """Faults that differ from each other: every call and every effect is covered, none twice.

    A call that changes nothing has no effect that could be there or not, only a write can be torn, and to die after a
    call is to die before the next one of the process, unless others may come in between: where it changes something.
    """
    if call.name not in MUTATIONS:
        return {Kind.CRASH_BEFORE, Kind.UNAVAILABLE}
    kinds = set(Kind) if call.name == "write" else set(Kind) - {Kind.CRASH_TORN}
    return kinds if following is None or following.name in MUTATIONS else kinds - {Kind.CRASH_AFTER}


def sampled(deaths: Iterable[Death], number: int, seed: str) -> list[Death]:
    """Some of them, the same for the same seed."""
    every = list(deaths)
    return random.Random(seed).sample(every, min(number, len(every)))


def dies(scenario: Scenario, death: Death, store: Store, workers: Workers | None = None) -> None:
    """A scenario with one death in it, a recovery, and the checks."""
    job = Job(store, death, workers=workers)
    scenario(job)
    assert len(job.calls[death.process - 1]) >= death.fault.at, f"{death}: the scenario did not come that far"
    settle(job)


def settle(job: Job) -> None:
    """One recovery, and what must hold after it."""
    where = f"{job.death}, ended: {job.ended}"
    verdict = job.recover()
    assert verdict.is_green, f"{where}: {verdict}"
    try:
        job.check()
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
