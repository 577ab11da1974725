"""Runs that were not told when they ended, and what stands in their way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import DAG, Asset

from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.plugins import lineage_runs
from airflow_kafka_hdfs.plugins.lineage_thread import Emitter
from tests.airflow.stored import messages, store_dag


@pytest.fixture
def ended(airflow_db, unique_name):
    """`ended(dag_id, run_id, when)` stores a run that ended then."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    def store(dag_id, run_id, when):
        kinds = {"run_type": DagRunType.MANUAL, "triggered_by": DagRunTriggeredByType.TEST}
        with create_session() as session:
            run = DagRun(dag_id=dag_id, run_id=run_id, state="success", **kinds)
            run.end_date = when
            session.add(run)

    return store


def copying(name, *, pairs=None):
    """A DAG with one task; `pairs` is what its operator says of them in the DAG file."""
    from airflow.sdk import BaseOperator

    class Copy(BaseOperator):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.lineage_pairs = pairs

        @classmethod
        def get_serialized_fields(cls):
            return super().get_serialized_fields() | {"lineage_pairs"}

    with DAG(name, schedule=None) as dag:
        Copy(task_id="copy", inlets=[Asset("kafka://b:9092/orders")], outlets=[Asset("hdfs://nn/orders")])
    store_dag(dag)
    return name


def told_runs(topic, name):
    found = [(m["job"]["dag_id"], m["run"]["run_id"]) for m in messages(topic, "run")]
    return [run_id for dag_id, run_id in found if dag_id.startswith(name)]


def test_a_dag_that_cannot_be_read_keeps_no_other_run_from_being_sent(
    emitter, settings, topic, ended, unique_name, caplog
):
    now = datetime.now(UTC)
    lineage_runs.acknowledge(settings.instance, now)
    good, bad = copying(f"{unique_name}_good"), copying(f"{unique_name}_bad", pairs=["one that is no pair"])
    for number, dag_id in enumerate((good, bad, good)):
        ended(dag_id, f"r{number}", now + timedelta(seconds=number))
        emitter.put(dag_id, f"r{number}", "success")
    emitter.step(0.1)
    assert told_runs(topic, unique_name) == ["r0", "r2"]
    fresh = Emitter(LineageHook(settings), box=lambda: topic)
    fresh.catch_up()
    fresh.catch_up()
    assert told_runs(topic, unique_name) == ["r0", "r2"] * 2
    assert lineage_runs.acknowledged(settings.instance) == now + timedelta(seconds=2)
    assert caplog.text.count(f"DAG {bad} can't be read; run r1 is not sent") == 2


def test_runs_wait_while_the_database_of_airflow_is_away(emitter, topic, ended, unique_name, monkeypatch):
    from sqlalchemy.exc import OperationalError

    dag_id, now = copying(unique_name), datetime.now(UTC)
    for number in range(3):
        ended(dag_id, f"r{number}", now)
        emitter.put(dag_id, f"r{number}", "success")

    def away():
        raise OperationalError("", {}, Exception("away"))

    with monkeypatch.context() as patch:
        patch.setattr(lineage_runs, "session", away)
        with pytest.raises(OperationalError):
            emitter.step(0.1)
    emitter.step(0.1)
    assert told_runs(topic, unique_name) == ["r0", "r1", "r2"]


def test_catching_up_looks_at_all_runs_however_many_ended_at_once(
    emitter, settings, topic, ended, unique_name, monkeypatch
):
    now = datetime.now(UTC)
    lineage_runs.acknowledge(settings.instance, now)
    dag_id = copying(unique_name)
    for number in range(7):
        ended(dag_id, f"r{number}", now + timedelta(seconds=number // 5))
    monkeypatch.setattr(lineage_runs.finished_since, "__defaults__", (2,))
    emitter.catch_up()
    assert told_runs(topic, unique_name) == [f"r{number}" for number in range(7)]
    assert lineage_runs.acknowledged(settings.instance) >= now + timedelta(seconds=1)
