"""How long a run takes to start in a pipeline of 10,000 commits and 300 topics, whose records lie on a local disk."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from functools import cache
from pathlib import Path

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef
from tests.benchmarks.measuring import Row, Sample, stopwatch
from tests.fakes.faulty_store import FaultyStore
from tests.fakes.kafka import FakeCluster
from tests.fakes.long_log import long_log
from tests.fakes.registry import FakeRegistry
from tests.fakes.runtime import KnownRuns

COMMITS, TOPICS = 10_000, 300
YOUNG = 20
"""Commits of the pipeline beside it: as many as the old one has since its last checkpoint."""

_runs = itertools.count()


@cache
def _pipeline(commits: int) -> tuple[Path, FakeCluster, list[str]]:
    folder, cluster = Path(tempfile.mkdtemp(prefix="long-lived-")), FakeCluster()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def put(path: str, data: bytes) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    return folder, cluster, long_log(put, cluster, commits, TOPICS)


def start(commits: int) -> Sample:
    """All that `plan` does, in a process that has read nothing yet; Kafka answers at once."""
    folder, cluster, topics = _pipeline(commits)
    store = FaultyStore(LocalStore(folder))
    run = RunRef(dag_id="d", run_id=f"start-{next(_runs)}", group="ingest")
    config = IngestConfig.of({"topics": topics, "destination": f"file://{folder}", "pipeline_id": "p"})
    sources = Sources(
        catalog=cluster.catalog(), open_reader=cluster.reader, registry=FakeRegistry(), codec=FastavroCodec()
    )
    workers = ThreadWorkers()
    with stopwatch() as watch:
        ctx = Context(
            log=CommitLog(store, store, workers, "p"),
            run=run,
            clock=SystemClock(),
            ids=RandomIds(),
            run_states=KnownRuns(),
        )
        plan = make_plan(ctx, sources, config, PlanRequest()).plan
    if len(plan.ranges()) != TOPICS:
        raise RuntimeError(f"{len(plan.ranges())} partitions to read, expected {TOPICS}")
    shutil.rmtree(folder / "plans")  # else the next run would leave these ranges to this one
    sample = watch.sample(1)
    reads = sum(call.name == "get" for call in store.calls)
    return Sample(1, sample.wall, sample.cpu, {"reads": float(reads)})


def old() -> Sample:
    """After 10,000 commits."""
    return start(COMMITS)


def young() -> Sample:
    """After a few."""
    return start(YOUNG)


CASES = {"start old": old, "start young": young}

ROWS = [
    Row(
        id="long-lived-start",
        name="start of a run, 10,000 commits, 300 topics",
        over="start old",
        target=1,
        unit="s",
        better="lower",
        value=lambda sample: sample.wall,
    ),
    Row(
        id="long-lived-reads",
        name="files it reads",
        over="start old",
        target=100,
        unit="",
        better="lower",
        value=lambda sample: sample.facts["reads"],
    ),
    Row(
        id="long-lived-young",
        name="its speed ÷ that after 20 commits",
        over="start old",
        under="start young",
        target=0.7,
    ),
]
