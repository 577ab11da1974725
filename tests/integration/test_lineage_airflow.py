"""Lineage under a real scheduler with two workers: Kafka's connection only in the metadata database, runs queued."""

from __future__ import annotations

import json
import textwrap
import time

import pytest

from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterSource, create_topics
from airflow_kafka_hdfs.adapters.runtime import SystemClock
from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, RunRow
from tests.stack.airflow import AirflowStandalone

pytestmark = pytest.mark.airflow
TOPIC = "airflow.lineage"
RUNS = 20

DAG = textwrap.dedent(
    '''
    """Two sources, a join, two targets, as in the figure of Yelp's Spark-Lineage; and a task with hook lineage."""
    import datetime as dt

    from airflow.sdk import Asset, dag, task
    from airflow.sdk.lineage import get_hook_lineage_collector


    @dag(schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), max_active_runs=20)
    def figure():
        @task(inlets=[Asset("kafka://b:9092/one")])
        def r1(): ...

        @task(inlets=[Asset("kafka://b:9092/two")])
        def r2(): ...

        @task
        def j(): ...

        @task(outlets=[Asset("hdfs://nn/p")])
        def o1(): ...

        @task(outlets=[Asset("hdfs://nn/q")])
        def o2(): ...

        @task
        def hooked():
            get_hook_lineage_collector().add_output_asset(None, uri="hdfs://nn/hooked")

        first, join = r1(), j()
        [first, r2()] >> join >> o1()
        first >> o2()
        first >> hooked()


    figure()
    '''
)


@pytest.fixture(scope="module")
def lineage_airflow(postgres_server, kafka_single, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lineage-airflow")
    (folder / "dags").mkdir()
    (folder / "dags" / "figure.py").write_text(DAG)
    settings = client_settings({"bootstrap.servers": kafka_single.bootstrap_servers})
    create_topics(settings, [TOPIC], partitions=3, replication=1)
    env = {
        "AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED": "True",
        "AIRFLOW__KAFKA_HDFS_LINEAGE__INSTANCE": "test",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # the first answer of a busy machine takes longer than 5 s
    }
    airflow = AirflowStandalone(folder / "home", folder / "dags", postgres_server, env=env, triggerer=False)
    with airflow:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka_single.bootstrap_servers}}
        airflow.cli("connections", "add", "kafka_default", "--conn-json", json.dumps(connection), timeout=400)
        yield airflow, settings, folder


@pytest.mark.timeout(900)
def test_queued_runs_complete_and_each_is_in_the_warehouse(lineage_airflow):
    airflow, settings, folder = lineage_airflow
    airflow.unpause("figure")
    run_ids = [airflow.trigger("figure") for _ in range(RUNS)]
    for run_id in run_ids:
        assert airflow.wait_run("figure", run_id, timeout=600) == "success"
    warehouse = SqlWarehouse(f"sqlite:///{folder}/lineage.db")
    warehouse.migrate()
    source = KafkaLetterSource(settings)
    loader = Loader(source, warehouse, SystemClock(), topics=[TOPIC])
    deadline = time.monotonic() + 120
    found: set[str] = set()
    while found < set(run_ids) and time.monotonic() < deadline:
        loader.load_available()
        with warehouse.reading() as connection:
            found = {row.run_id for row in connection.execute(TABLES[RunRow].select())}
    with warehouse.reading() as connection:
        names = {row.dataset_id: row.name for row in connection.execute(TABLES[DatasetRow].select())}
        edges = {
            (names[row.source_id], names[row.target_id]): (row.run_count, row.last_state)
            for row in connection.execute(TABLES[EdgeRow].select())
        }
    source.close()
    warehouse.close()
    assert found == set(run_ids)
    assert edges == {
        ("one", "/p"): (RUNS, "written"),
        ("one", "/q"): (RUNS, "written"),
        ("two", "/p"): (RUNS, "written"),
        ("one", "/hooked"): (RUNS, "written"),
    }
