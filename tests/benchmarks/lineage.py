"""Rows about lineage: a warehouse of a million edges read, messages loaded, pairs derived."""

from __future__ import annotations

import random
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from airflow_kafka_hdfs.adapters.runtime import SystemClock
from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES
from airflow_kafka_hdfs.lineage import catalog, traversal
from airflow_kafka_hdfs.lineage.access import EVERYTHING
from airflow_kafka_hdfs.lineage.describing import Describer, window_at
from airflow_kafka_hdfs.lineage.emitting import run_messages
from airflow_kafka_hdfs.lineage.events import Envelope, Job, Run, Versions
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.identity import DatasetId, digest
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.lineage.message_json import encode
from airflow_kafka_hdfs.lineage.pairs import Options
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskSpec, Use, Workflow
from airflow_kafka_hdfs.ports.lineage_reading import Direction
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, JobRow, RelationRow
from tests.benchmarks.measuring import HELD, Case, Row, Sample, stopwatch
from tests.fakes.lineage import MemoryTopic
from tests.stack.postgres import PostgresServer

EDGES = 1_000_000
DATASETS = 200_000
LAYERS = 10
INPUTS, OUTPUTS = 4, 12
"""Of one job."""
_WELL_USED = DATASETS // LAYERS * 4 + 10
NOW = datetime(2026, 11, 30, tzinfo=UTC)
_OLD = (NOW - timedelta(days=300)).replace(tzinfo=None).isoformat(" ", "microseconds")
_LATE = NOW.replace(tzinfo=None).isoformat(" ", "microseconds")


def dataset_id(number: int) -> str:
    """Id of a dataset by its number; those of one layer are neighbours."""
    return digest("hdfs://nn:8020", _name(number))


def well_used() -> str:
    """Id of a dataset that many jobs read and write."""
    return dataset_id(_WELL_USED)


def _name(number: int) -> str:
    return f"/data/layer{number * LAYERS // DATASETS}/table_{number}"


@cache
def big_warehouse() -> SqlWarehouse:
    """A million pairs of twenty thousand jobs in SQLite, in ten layers; some datasets are used more than others."""
    folder = Path(tempfile.mkdtemp(prefix="lineage-bench-"))
    HELD.callback(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "lineage.db"
    warehouse = SqlWarehouse(f"sqlite:///{path}")
    warehouse.migrate()
    with sqlite3.connect(path) as connection:
        indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        made = indexes.fetchall()
        for name, _ in made:
            connection.execute(f"DROP INDEX {name}")
        edges, relations, jobs = _random_rows()
        for kind, rows in ((EdgeRow, edges), (RelationRow, relations), (JobRow, jobs), (DatasetRow, _dataset_rows())):
            width = len(TABLES[kind].columns)
            marks = ",".join("?" * width)
            connection.executemany(f"INSERT INTO {kind.TABLE} VALUES ({marks})", rows)
        for _, sql in made:
            connection.execute(sql)
        connection.execute("ANALYZE")
    return warehouse


def _random_rows() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], list[tuple[object, ...]]]:
    rng = random.Random(1)
    per_layer = DATASETS // LAYERS
    edges: list[tuple[object, ...]] = []
    relations: list[tuple[object, ...]] = []
    jobs: list[tuple[object, ...]] = []

    def some(layer: int, count: int) -> list[str]:
        return [dataset_id(layer * per_layer + int(rng.random() ** 1.3 * per_layer)) for _ in range(count)]

    while len(edges) < EDGES:
        number = len(jobs)
        job_id, layer = digest("here", f"dag_{number}"), number % (LAYERS - 1)
        sources, targets = set(some(layer, INPUTS)), set(some(layer + 1, OUTPUTS))
        relations += [(job_id, source, "input", "runs", _LATE) for source in sources]
        relations += [(job_id, target, "output", "runs", _LATE) for target in targets]
        edges += [
            (job_id, source, target, _OLD, _LATE, _LATE, _LATE, "r", "written", "success", 10, "declared", 0, "", None,
             0, None)
            for source in sources
            for target in targets
        ]  # fmt: skip
        jobs.append(
            (job_id, "here", f"dag_{number}", "Airflow", f"owner{number % 50}", f"team{number % 20}", "", "", "", "",
             "h", _OLD, _OLD, _LATE, _LATE, "r", "success", "{}", "daily", 86400, 0, _LATE, "")
        )  # fmt: skip
    return sorted(edges, key=lambda row: row[:3]), sorted(relations), sorted(jobs)


def _dataset_rows() -> Iterator[tuple[object, ...]]:
    numbers = sorted(range(DATASETS), key=dataset_id)
    for number in numbers:
        folder, _, table = _name(number).rpartition("/")
        yield (
            dataset_id(number), "hdfs://nn:8020", _name(number), folder.strip("/"), table, "", "", None, 0, _OLD, _LATE,
        )  # fmt: skip


def _looked(ask: Callable[[Describer], int]) -> Sample:
    """One question to the big warehouse; the sample counts what it answers."""
    warehouse = big_warehouse()
    with stopwatch() as watch, warehouse.look() as reader:
        count = ask(Describer(reader, EVERYTHING, NOW + timedelta(hours=1), "here"))
    return watch.sample(count)


def read_page() -> Sample:
    """The page of a well-used dataset."""
    return _looked(lambda describer: 1 if catalog.dataset_page(describer, dataset_id(_WELL_USED)) else 0)


def read_hop() -> Sample:
    """One hop down from a well-used dataset."""
    return _looked(lambda d: len(d.reader.step([dataset_id(_WELL_USED)], Direction.DOWN, window_at(d.now))))


def read_reach() -> Sample:
    """All that lies downstream of a well-used source."""
    return _looked(
        lambda describer: (
            traversal.reach(describer.reader, dataset_id(5), Direction.DOWN, window_at(describer.now)).total
        )
    )


def derive_pairs() -> Sample:
    """The pairs of one run of a DAG with a thousand tasks: a hundred chains of ten that read and write."""
    tasks = []
    for chain in range(100):
        for number in range(10):
            reads = (Use(DatasetId("kafka://b:9092", f"t{chain}")),) if number == 0 else ()
            writes = (Use(DatasetId("hdfs://nn:8020", f"/d{chain}")),) if number == 9 else ()
            upstream = (f"t{chain}_{number - 1}",) if number else ()
            tasks.append(TaskSpec(task_id=f"t{chain}_{number}", upstream=upstream, reads=reads, writes=writes))
    workflow = Workflow(tasks=tuple(tasks))
    facts = RunFacts(states={(task.task_id, -1): ("success", 1) for task in tasks})
    with stopwatch() as watch:
        found = run_lineage(workflow, facts)
    return watch.sample(found.derivation.count)


JOBS, RUNS = 100, 20


@cache
def _letters() -> tuple[bytes, ...]:
    """Twenty daily runs of a hundred jobs with three inputs and three outputs each: ten messages a run, as at Yelp."""
    found: list[bytes] = []
    for day in range(RUNS):
        when = NOW + timedelta(days=day)
        for number in range(JOBS):
            reads = tuple(Use(DatasetId("kafka://b:9092", f"t{number}_{i}")) for i in range(3))
            writes = tuple(Use(DatasetId("hdfs://nn:8020", f"/d{number}_{i}")) for i in range(3))
            workflow = Workflow(
                tasks=(
                    TaskSpec(task_id="extract", reads=reads),
                    TaskSpec(task_id="clean", upstream=("extract",)),
                    TaskSpec(task_id="load", upstream=("clean",), writes=writes),
                )
            )
            about = Envelope(
                job=Job(instance="here", dag_id=f"dag{number}", owners=("ann",), team="data"),
                run=Run(run_id=f"r{day}", run_type="scheduled", run_after=when, logical_date=when, outcome="success"),
                versions=Versions(airflow="3.3.2"),
                emitted_at=when,
            )
            facts = RunFacts(states={(task.task_id, -1): ("success", 1) for task in workflow.tasks})
            found += [encode(m) for m in run_messages(about, workflow, facts, Options(), with_graph=day == 0)]
    return tuple(found)


def _load(url: str) -> Sample:
    topic = MemoryTopic(partitions=1)
    for value in _letters():
        topic.send("lineage", b"k", value)
    topic.flush(1)
    warehouse = SqlWarehouse(url)
    warehouse.migrate()
    loader = Loader(topic, warehouse, SystemClock(), topics=["lineage"])
    with stopwatch() as watch:
        report = loader.load_available()
    warehouse.close()
    return watch.sample(report.letters)


def load_sqlite() -> Sample:
    """Messages into SQLite."""
    with tempfile.TemporaryDirectory(prefix="lineage-bench-") as folder:
        return _load(f"sqlite:///{folder}/lineage.db")


@cache
def postgres() -> PostgresServer:
    """The server of all rows that need one."""
    folder = Path(tempfile.mkdtemp(prefix="lineage-bench-"))
    HELD.callback(shutil.rmtree, folder, ignore_errors=True)
    return HELD.enter_context(PostgresServer(folder))


def load_postgres() -> Sample:
    """Messages into PostgreSQL."""
    return _load(postgres().create_database(f"bench_{secrets.token_hex(4)}"))


CASES: dict[str, Case] = {
    "lineage pairs": derive_pairs,
    "lineage sqlite": load_sqlite,
    "lineage postgres": load_postgres,
    "lineage page": read_page,
    "lineage hop": read_hop,
    "lineage reach": read_reach,
}


def _milliseconds(sample: Sample) -> float:
    return sample.wall * 1000


ROWS = [
    Row(
        id="lineage-pairs", name="pairs of a DAG of 1,000 tasks", over="lineage pairs", target=10, unit="ms",
        better="lower", value=_milliseconds,
    ),
    Row(
        id="lineage-sqlite", name="loader into SQLite", over="lineage sqlite", target=5_000, unit="messages/s",
        better="higher", value=lambda sample: sample.rate,
    ),
    Row(
        id="lineage-postgres", name="loader into PostgreSQL", over="lineage postgres", target=5_000,
        unit="messages/s", better="higher", value=lambda sample: sample.rate,
    ),
    Row(
        id="lineage-page", name="page of a dataset at 1,000,000 edges", over="lineage page", target=50, unit="ms",
        better="lower", value=_milliseconds,
    ),
    Row(
        id="lineage-hop", name="one hop at 1,000,000 edges", over="lineage hop", target=10, unit="ms",
        better="lower", value=_milliseconds,
    ),
    Row(
        id="lineage-reach", name="reach, for each 100,000 datasets", over="lineage reach", target=1, unit="s",
        better="lower", value=lambda sample: sample.wall * 100_000 / sample.units,
    ),
]  # fmt: skip
