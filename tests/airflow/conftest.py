"""Airflow for tests: whole DAGs with `dag.test()` on a database of their own, beside real Kafka and local files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from tests.airflow.commands import command, dag_file, pipeline, quarantined
from tests.airflow.lineage_server import call, server
from tests.airflow.stored import store_dag
from tests.fakes.lineage import MemoryTopic
from tests.stack.kafka import KafkaCluster

# Fixtures of the commands, and of the API server.
__all__ = ["call", "command", "dag_file", "pipeline", "quarantined", "server"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/airflow/" in item.path.as_posix():
            item.add_marker(pytest.mark.airflow)


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """The metadata database of this session, in SQLite."""
    from airflow.utils.db import initdb

    initdb()


@dataclass(frozen=True)
class Ran:
    """A run that ended.

    Attributes:
        states: `task` or `task[map index]` -> state.
        labels: map index of the mapped task -> its label.
        events: (asset URI, partition key, extra) of the asset events that the run sent, in order.
    """

    run: Any
    states: dict[str, str | None]
    labels: dict[int, str | None]
    events: list[tuple[str, str | None, dict]]

    @property
    def state(self) -> str:
        return str(self.run.state.value)

    def xcom(self, task_id: str, key: str = "return_value") -> Any:
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        query = select(XComModel.value).where(
            XComModel.dag_id == self.run.dag_id,
            XComModel.run_id == self.run.run_id,
            XComModel.task_id == task_id,
            XComModel.key == key,
        )
        with create_session() as session:
            value = session.scalar(query)
        return json.loads(value) if isinstance(value, str) else value


RunDag = Callable[..., Ran]


@pytest.fixture
def run_dag(airflow_db) -> RunDag:
    """Store a DAG and run it in this process, with the real runner, API server and database: `run_dag(dag, conf)`.

    A run with `conf` leaves its values in the Params of the DAG object, so give each run with one a DAG of its own.
    """
    return _run


def _run(dag: DAG, conf: dict | None = None, **fields: Any) -> Ran:
    store_dag(dag)
    return look_at(dag.test(run_conf=conf, **{"logical_date": None, **fields}))


def look_at(run: Any) -> Ran:
    """What a run left in the metadata database."""
    from airflow.models.asset import AssetEvent
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        instances = session.scalars(
            select(TaskInstance).where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
        ).all()
        events = session.scalars(
            select(AssetEvent)
            .where(AssetEvent.source_dag_id == run.dag_id, AssetEvent.source_run_id == run.run_id)
            .order_by(AssetEvent.id)
        ).all()
        return Ran(
            run=run,
            states={
                one.task_id + (f"[{one.map_index}]" if one.map_index >= 0 else ""): one.state and str(one.state)
                for one in instances
            },
            labels={one.map_index: one.rendered_map_index for one in instances if one.map_index >= 0},
            events=[(event.asset.uri, event.partition_key, event.extra) for event in events],
        )


@pytest.fixture
def kafka(kafka_single: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaCluster]:
    """Real Kafka behind the connection `kafka_default`."""
    extra = {"bootstrap.servers": kafka_single.bootstrap_servers}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    return kafka_single


@pytest.fixture
def produce(kafka: KafkaCluster) -> Callable[..., None]:
    """`produce(topic, [value, …], partition=0, timestamp=ms)`; values that are no bytes become JSON."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, "log_level": 0})

    def send(topic: str, values: list[Any], *, partition: int = 0, timestamp: int = 0) -> None:
        for value in values:
            data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            producer.produce(topic, data, partition=partition, timestamp=timestamp)
        assert producer.flush(30) == 0

    return send


def lines_of(folder: Path, topic: str) -> dict[str, list[Any]]:
    """Time folder -> the JSON lines in its files."""
    found: dict[str, list[Any]] = {}
    root = folder / topic
    for path in sorted(root.rglob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found.setdefault(path.parent.relative_to(root).as_posix(), []).extend(lines)
    return found


# Of the tests of lineage that is sent.


@pytest.fixture
def settings(tmp_path, unique_name):
    return LineageSettings(enabled=True, instance=unique_name, spool_dir=str(tmp_path / "spool"))


@pytest.fixture
def topic():
    return MemoryTopic()


@pytest.fixture
def emitter(airflow_db, settings, topic):
    """Sends what it is told into `topic`."""
    from airflow_kafka_hdfs.plugins.lineage_thread import Emitter

    return Emitter(LineageHook(settings), box=lambda: topic)
