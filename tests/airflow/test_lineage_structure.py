"""Which version of a DAG a run worked with: the same at once and in a later catch-up."""

from __future__ import annotations

import pytest
from airflow.sdk import DAG

from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.plugins import lineage_runs, lineage_structure
from airflow_kafka_hdfs.plugins.lineage_snapshot import snapshot
from airflow_kafka_hdfs.plugins.lineage_structure import Structures
from tests.airflow.conftest import store_dag


@pytest.fixture
def settings():
    return LineageSettings(enabled=True)


@pytest.fixture
def structures(airflow_db, settings):
    return Structures(settings)


def versions(name, *tasks):
    """Store a DAG with these tasks."""
    from airflow.providers.standard.operators.empty import EmptyOperator

    with DAG(name, schedule=None) as dag:
        for task_id in tasks:
            EmptyOperator(task_id=task_id)
    store_dag(dag)
    return dag


def tasks(found):
    return {spec.task_id for spec in found.workflow.tasks}, found.dag_version


def test_a_change_after_the_end_of_a_run_is_not_its_own(structures, settings, run_dag, unique_name):
    run = run_dag(versions(unique_name, "a")).run
    versions(unique_name, "a", "b")
    assert tasks(structures.of(unique_name, run.run_id)) == ({"a"}, "1")
    assert tasks(Structures(settings).of(unique_name, run.run_id)) == ({"a"}, "1")


def test_a_change_in_the_midst_of_a_run_is(structures, run_dag, unique_name):
    import sqlalchemy as sa
    from airflow.models.dag_version import DagVersion
    from airflow.models.taskinstance import TaskInstance

    run = run_dag(versions(unique_name, "a")).run
    assert tasks(structures.of(unique_name, run.run_id)) == ({"a"}, "1")
    versions(unique_name, "a", "b")
    with lineage_runs.session() as own:  # what the scheduler does with tasks that are not finished
        newest = own.scalar(sa.select(DagVersion.id).filter_by(dag_id=unique_name, version_number=2))
        own.execute(sa.update(TaskInstance).filter_by(run_id=run.run_id).values(dag_version_id=newest))
    assert tasks(structures.of(unique_name, run.run_id)) == ({"a", "b"}, "2")


def test_a_version_that_no_task_is_of_yet_may_change_in_place(structures, unique_name):
    versions(unique_name, "a")
    assert tasks(structures.of(unique_name, "no run")) == ({"a"}, "")
    versions(unique_name, "b")
    assert tasks(structures.of(unique_name, "no run")) == ({"b"}, "")


def test_what_is_at_hand_is_read_once_and_bounded(settings, airflow_db, unique_name, monkeypatch):
    read = []
    monkeypatch.setattr(lineage_structure, "snapshot", lambda dag: (read.append(dag.dag_id[-1]), snapshot(dag))[1])
    structures = Structures(settings, tasks_kept=3)
    for dag in "xyz":
        versions(f"{unique_name}_{dag}", "a", "b")
    for dag in "xxyxz":
        structures.of(f"{unique_name}_{dag}", "no run")
    assert read == ["x", "y", "x", "z"]
    assert structures.of(f"{unique_name}_none", "no run") is None
