"""Four jobs in a chain, `orders -> /raw -> /clean -> /secret -> /report`, each with three daily runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.lineage.events import DatasetDetail, Envelope, Job, Run, RunMessage, Versions
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.identity import DatasetId, digest
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskSpec, Use, Workflow

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
DAGS = {"api_ingest": ("orders", "/raw"), "api_clean": ("/raw", "/clean"), "api_secret": ("/clean", "/secret")}
AFTER = ("/secret", "/report")


def dataset(name):
    return DatasetId("hdfs://nn:8020" if name.startswith("/") else "kafka://b:9092", name)


def key(name):
    return dataset(name).key


def job_id(dag_id, instance="here"):
    return digest(instance, dag_id)


def run_message(dag_id, source, target, when, *, outcome="success", version="1"):
    task = TaskSpec(task_id="t", reads=(Use(dataset(source)),), writes=(Use(dataset(target)),), operator=f"v{version}")
    workflow = Workflow(tasks=(task,))
    return RunMessage(
        envelope=Envelope(
            job=Job(instance="here", dag_id=dag_id, owners=(f"{dag_id}_owner",), team=f"{dag_id}_team"),
            run=Run(run_id=f"r{when:%Y%m%d}", run_type="scheduled", run_after=when, outcome=outcome),
            versions=Versions(image=version),
            emitted_at=when,
        ),
        structure_hash=workflow.structure_hash,
        graph=workflow,
        facts=RunFacts(states={("t", -1): (outcome, 1)}),
        pairs=1,
        details=(
            DatasetDetail(
                dataset=dataset(target), schema_id="77", schema_version=version, fields=(("id", "long", "key"),)
            ),
        ),
    )


def chain_warehouse(url, newest=NOW):
    """A warehouse with the chain, whose newest runs are of this moment."""
    warehouse = SqlWarehouse(url)
    warehouse.migrate()
    messages = [
        run_message(dag_id, *ends, newest - days * DAY, version="2" if days == 0 else "1")
        for dag_id, ends in {**DAGS, "api_after": AFTER}.items()
        for days in (2, 1, 0)
    ]
    with warehouse.transaction() as tx:
        Merge(tx, GraphCache()).apply(messages)
    return warehouse
