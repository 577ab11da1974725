"""On HDFS, through both adapters: every call of a plain run's commit and promote, and each scenario at a call by seed.

A case waits for name node and data node nearly all the time, so several stand side by side, each in its own folder.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_kafka_hdfs.adapters.runtime import ThreadWorkers
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ports.store import Store
from tests.contract.stores import native_bench, webhdfs_bench
from tests.crash.job import Death, Job
from tests.crash.scenarios import SCENARIOS, calls_of, deaths, dies, sampled, settle
from tests.fakes.store import InMemoryStore
from tests.stack.hdfs import HdfsCluster

pytestmark = pytest.mark.timeout(1200)  # about a minute each on a quiet machine

BENCHES = {"webhdfs": webhdfs_bench, "native": native_bench}
SIDE_BY_SIDE = 8


@pytest.fixture(params=sorted(BENCHES))
def fresh(request: pytest.FixtureRequest, hdfs_cluster: HdfsCluster, unique_name: str) -> Callable[[int], Store]:
    """Makes a store on a folder of its own for each number."""
    make = BENCHES[request.param]
    return lambda number: make(hdfs_cluster, f"/crash/{unique_name}/{number}").open()


def test_a_plain_run_may_die_at_any_call_of_commit_and_promote(fresh: Callable[[int], Store]):
    job = Job(InMemoryStore())
    job.publish(extracted(job))
    publish = len(job.calls)
    chance = random.Random(publish)
    by_call: dict[int, list[Death]] = {}
    for death in deaths(job.calls):
        if death.process == publish:
            by_call.setdefault(death.fault.at, []).append(death)
    names = {call.name for call in job.calls[-1]}
    assert {"put_if_absent", "promote"} <= names
    all_of(publish_dies, [chance.choice(of_call) for of_call in by_call.values()], fresh)


def test_each_scenario_may_die_at_a_call(fresh: Callable[[int], Store]):
    cases = [(scenario, sampled(deaths(calls_of(scenario)), 1, scenario.__name__)[0]) for scenario in SCENARIOS]
    all_of(lambda case, store: dies(*case, store, ThreadWorkers()), cases, fresh)


def extracted(job: Job) -> Plan:
    job.runs.alive["run-1"] = True
    plan = job.plan("run-1")
    assert plan is not None
    for task in plan.tasks:
        job.extract(plan, task.index)
    return plan


def publish_dies(death: Death, store: Store) -> None:
    """Plan and extract have been done (in memory, and copied); `publish` dies; one recovery."""
    before = InMemoryStore()
    job = Job(before, death, workers=ThreadWorkers())
    plan = extracted(job)

    def copy(item: tuple[str, bytes]) -> None:
        writer = store.create(item[0])
        writer.write(item[1])
        writer.close()

    job.workers.map(copy, before.files().items())
    job.store = store
    job.publish(plan)
    assert len(job.calls[death.process - 1]) >= death.fault.at
    settle(job)


def all_of(case: Callable[..., None], items: Iterable[object], fresh: Callable[[int], Store]) -> None:
    """Every case in a folder of its own; all faults are told at once."""
    faults: list[str] = []

    def one(item: tuple[int, object]) -> None:
        number, death = item
        try:
            case(death, fresh(number))
        except Exception as error:
            faults.append(f"{death}: {error!r}")

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        list(pool.map(one, enumerate(items)))
    assert not faults, "\n".join(faults)
