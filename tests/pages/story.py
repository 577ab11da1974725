"""A small company's lineage, loaded by the real loader: shops and clicks, names that attack, and 1,000 tables."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.lineage.events import (
    DatasetDetail,
    Envelope,
    Job,
    Run,
    RunMessage,
    Versions,
    message_key,
)
from airflow_kafka_hdfs.lineage.identity import DatasetId, digest
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.lineage.message_json import encode
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskSpec, Use, Workflow
from tests.fakes.lineage import MemoryTopic
from tests.fakes.runtime import ManualClock

INSTANCE = "test"
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
HDFS, KAFKA = "hdfs://nn:8020", "kafka://b1:9092"
WIDE = 1_000
EVIL_NAME = '/evil/"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
EVIL_OWNER = "<svg onload=window.hacked=1>"
EVIL_FILE = "javascript:window.hacked=1"
Pair = tuple[str, str]


def dataset(name: str) -> DatasetId:
    return DatasetId(HDFS if name.startswith("/") else KAFKA, name)


def key(name: str) -> str:
    return dataset(name).key


def job_key(dag_id: str) -> str:
    return digest(INSTANCE, dag_id)


def run_id_of(when: datetime) -> str:
    """The id of the run of a moment; with signs that an address has to escape."""
    return f"scheduled__{when:%Y-%m-%dT%H:%M:%S}+00:00"


STORY: dict[str, tuple[str, str, list[Pair]]] = {
    # DAG id -> owner, team, pairs
    "ingest_shop": ("ann", "platform", [("orders", "/lake/raw/orders"), ("customers", "/lake/raw/customers")]),
    "ingest_clicks": ("ann", "platform", [("clicks", "/lake/raw/clicks")]),
    "clean_orders": (
        "bob",
        "warehouse",
        [("/lake/raw/orders", "/lake/clean/orders"), ("/lake/raw/customers", "/lake/clean/orders")],
    ),
    "sessions": ("cleo", "web", [("/lake/raw/clicks", "/lake/clean/sessions")]),
    "marts": (
        "bob",
        "finance",
        [
            ("/lake/clean/orders", "/marts/revenue"),
            ("/lake/clean/orders", "/marts/churn"),
            ("/lake/clean/sessions", "/marts/churn"),
        ],
    ),
    "board": ("dora", "finance", [("/marts/revenue", "/reports/board")]),
    "secret": ("eve", "hr", [("/lake/clean/orders", "/hr/bonus")]),
}
DAGS = [*STORY]


def message(
    dag_id: str,
    pairs: Sequence[Pair],
    when: datetime,
    *,
    owner: str = "ann",
    team: str = "",
    outcome: str = "success",
    file: str = "",
    version: str = "1.4",
    described: bool = False,
) -> RunMessage:
    """A run whose tasks each make one of the pairs."""
    sources: dict[str, list[str]] = {}
    for source, target in pairs:
        sources.setdefault(target, []).append(source)
    tasks = tuple(
        TaskSpec(
            task_id=f"t{number}",
            reads=tuple(Use(dataset(source)) for source in found),
            writes=(Use(dataset(target)),),
        )
        for number, (target, found) in enumerate(sources.items())
    )
    workflow = Workflow(tasks=tasks)
    columns = (("order_id", "long", "key of the order"), ("amount", "decimal", ""), ("placed_at", "timestamp", "UTC"))
    return RunMessage(
        envelope=Envelope(
            job=Job(
                instance=INSTANCE,
                dag_id=dag_id,
                owners=(owner,),
                team=team,
                config_file=file,
                description=f"Runs {dag_id} every day",
            ),
            run=Run(
                run_id=run_id_of(when),
                run_type="scheduled",
                logical_date=when,
                run_after=when,
                started_at=when,
                ended_at=when + timedelta(minutes=7),
                outcome=outcome,
            ),
            versions=Versions(airflow="3.3.2", image=f"etl:{version}"),
            emitted_at=when + HOUR / 4,
        ),
        structure_hash=workflow.structure_hash,
        graph=workflow,
        facts=RunFacts(states={(task.task_id, -1): (outcome, 1) for task in tasks}),
        pairs=len(pairs),
        details=tuple(
            DatasetDetail(dataset=dataset(target), schema_id="4711", schema_version="3", fields=columns)
            for target in (sources if described else ())
        ),
    )


def wide_pairs(count: int = WIDE) -> list[Pair]:
    """A tree with cross links from `/wide/0`: `count` datasets in six layers."""
    rng = random.Random(7)
    layers = [1, 20, 80, 200, 300]
    layers.append(count - sum(layers))
    pairs: list[Pair] = []
    before, made = ["/wide/0"], 1
    for size in layers[1:]:
        now = [f"/wide/{made + number}" for number in range(size)]
        made += size
        for number, name in enumerate(now):
            near = number * len(before) // size
            parents = {near, min(len(before) - 1, max(0, near + rng.choice([-2, -1, 1, 2])))} if number % 3 else {near}
            pairs += [(before[parent], name) for parent in sorted(parents)]
        before = now
    return pairs


def messages() -> Iterator[RunMessage]:
    for dag_id, (owner, team, pairs) in STORY.items():
        for days in (40, 4, 3, 2, 1, 0):
            outcome = "failed" if dag_id == "sessions" and days < 3 else "success"
            when = NOW - days * DAY
            version = "1.4" if days > 1 else "1.5"
            described = dag_id == "clean_orders"
            yield message(
                dag_id, pairs, when, owner=owner, team=team, outcome=outcome, version=version, described=described
            )
    yield message("old_export", [("/lake/raw/orders", "/old/export")], NOW - 90 * DAY, owner="fay")
    yield message(
        "evil", [("/lake/raw/orders", EVIL_NAME)], NOW - HOUR, owner=EVIL_OWNER, team=EVIL_OWNER, file=EVIL_FILE
    )
    by_job: dict[str, list[Pair]] = {}
    for source, target in wide_pairs():
        by_job.setdefault(f"wide_{int(target.rsplit('/', 1)[1]) // 20}", []).append((source, target))
    for number, (dag_id, pairs) in enumerate(by_job.items()):
        yield message(dag_id, pairs, NOW - HOUR, owner=f"owner{number % 7}", team=f"team{number % 3}")


def fill(url: str) -> None:
    """Make the tables and load the story, message by message as from Kafka."""
    topic, name = MemoryTopic(), "airflow.lineage"
    for one in messages():
        topic.send(name, message_key(one.envelope), encode(one))
    topic.flush(1)
    warehouse = SqlWarehouse(url)
    warehouse.migrate()
    report = Loader(topic, warehouse, ManualClock(), topics=[name]).load_available()
    warehouse.close()
    assert not report.bad
