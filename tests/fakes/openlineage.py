"""Events of OpenLineage for tests, in the shapes that its clients and Airflow's provider send."""

from __future__ import annotations

import uuid
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 3, 1, 6, tzinfo=UTC)
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


def dataset(name: str, namespace: str = "test", **facets: Any) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, "facets": facets}


def event(
    kind: str,
    minutes: float = 0,
    inputs: Any = (),
    outputs: Any = (),
    *,
    job: str = "app",
    run: int = 1,
    run_facets: dict[str, Any] | None = None,
    job_facets: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One event of a job that is no DAG; inputs and outputs are names or whole datasets."""
    return {
        "eventType": kind,
        "eventTime": at(minutes),
        "producer": "https://example.org/producer",
        "schemaURL": SPEC,
        "run": {"runId": str(uuid.UUID(int=run)), "facets": run_facets or {}},
        "job": {"namespace": "spark", "name": job, "facets": job_facets or {}},
        "inputs": [dataset(item) if isinstance(item, str) else item for item in inputs],
        "outputs": [dataset(item) if isinstance(item, str) else item for item in outputs],
    }


def _dag(dag_id: str) -> dict[str, Any]:
    return {"dag_id": dag_id, "fileloc": f"/dags/{dag_id}.py", "owner": "ann, airflow", "tags": "['team:data']"}


def _dag_run(dag_id: str, clear: int) -> dict[str, Any]:
    due = START.isoformat()
    return {
        "clear_number": clear,
        "conf": {},
        "dag_id": dag_id,
        "data_interval_end": due,
        "data_interval_start": due,
        "logical_date": due,
        "run_after": due,
        "run_id": "scheduled__1",
        "run_type": "scheduled",
        "start_date": at(0),
    }


def dag_event(
    kind: str,
    minutes: float,
    *,
    dag_id: str = "dag",
    graph: dict[str, list[str]] | None = None,
    states: dict[str, str] | None = None,
    clear: int = 0,
) -> dict[str, Any]:
    """A DAG run of another Airflow: `graph` is task -> tasks below it (first event), `states` how they ended (last)."""
    facets: dict[str, Any] = {"airflowDagRun": {"dag": _dag(dag_id), "dagRun": _dag_run(dag_id, clear)}}
    if states is not None:
        facets["airflowState"] = {"dagRunState": "success", "tasksState": states, "tasksDuration": {}}
    tasks = {task: {"downstream_task_ids": below, "operator": "x.Op"} for task, below in (graph or {}).items()}
    made = event(kind, minutes, job=dag_id, run=100 + clear, run_facets=facets)
    made["job"]["namespace"] = "other"
    made["job"]["facets"] = {
        "jobType": {"integration": "AIRFLOW", "jobType": "DAG", "processingType": "BATCH"},
        "tags": {"tags": [{"key": "team:data", "value": "team:data", "source": "AIRFLOW"}]},
    } | ({"airflow": {"taskTree": {}, "taskGroups": {}, "tasks": tasks}} if graph is not None else {})
    return made


def task_event(
    kind: str,
    minutes: float,
    task_id: str,
    inputs: Any = (),
    outputs: Any = (),
    *,
    dag_id: str = "dag",
    attempt: int = 1,
    map_index: int | None = None,
    clear: int = 0,
    inlets: Any = (),
    outlets: Any = (),
    **job_facets: Any,
) -> dict[str, Any]:
    """An attempt at a task instance of another Airflow; inlets and outlets are URIs."""
    instance = {"try_number": attempt} | ({} if map_index is None else {"map_index": map_index})
    task = {
        "task_id": task_id,
        "inlets": [{"uri": uri, "extra": {}, "type": "asset"} for uri in inlets],
        "outlets": [{"uri": uri, "extra": {}, "type": "asset"} for uri in outlets],
    }
    facet = {"dag": _dag(dag_id), "dagRun": _dag_run(dag_id, clear), "task": task, "taskInstance": instance}
    number = 1_000 + zlib.crc32(f"{task_id} {attempt} {map_index}".encode())
    made = event(kind, minutes, inputs, outputs, job=f"{dag_id}.{task_id}", run=number, run_facets={"airflow": facet})
    made["job"] = {
        "namespace": "other",
        "name": f"{dag_id}.{task_id}",
        "facets": {"jobType": {"integration": "AIRFLOW", "jobType": "TASK", "processingType": "BATCH"}, **job_facets},
    }
    return made
