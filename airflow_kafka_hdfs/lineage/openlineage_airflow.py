"""Events of Airflow's own OpenLineage provider: DAG runs with their task graph, and task instances.

Both become parts of one run of one job, the DAG, as if that Airflow had our plugin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_kafka_hdfs.lineage.events import Envelope, Message, MessageError, Run, RunMessage
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.json_part import Part
from airflow_kafka_hdfs.lineage.openlineage_datasets import DatasetReader
from airflow_kafka_hdfs.lineage.openlineage_jobs import has_ended, job_of, reason_of, report_of, state_of, versions_of
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskSpec, Use, Workflow, circle_in, key_text


class AirflowEvents:
    """Reads what Airflow's provider sends.

    Args:
        settings: naming, how pairs are derived.
        datasets: reads the datasets of events.
    """

    def __init__(self, settings: LineageSettings, datasets: DatasetReader) -> None:
        self._settings = settings
        self._datasets = datasets

    def message(self, event: Part, kind: str, happened: datetime) -> Message | None:
        """What a run event says, None if it is none of Airflow's."""
        facets = event.part("run").part("facets")
        if facets.part("airflow").has("dagRun") and facets.part("airflow").has("task"):
            return self._task(event, facets.part("airflow"), kind, happened)
        if facets.part("airflowDagRun").has("dagRun"):
            return self._dag(event, facets.part("airflowDagRun"), kind, happened)
        return None

    def _dag(self, event: Part, facet: Part, kind: str, happened: datetime) -> Message:
        """A DAG run: its first event has the task graph, its last one how the tasks ended."""
        about = _envelope(event, facet, happened)
        run = replace(
            about.run,
            started_at=about.run.started_at or (happened if kind == "START" else None),
            ended_at=about.run.ended_at or (happened if has_ended(kind) else None),
            outcome=state_of(kind),
            reason=reason_of(event, kind),
        )
        graph = _graph(event, facet, self._scheduled(facet))
        states = event.part("run").part("facets").part("airflowState").part("tasksState")
        return RunMessage(
            envelope=replace(about, run=run),
            structure_hash=graph.structure_hash if graph is not None else "",
            graph=graph,
            facts=RunFacts(states={(key_text(task), -1): (states.text(task), 1) for task in states.body}),
            options=self._settings.options,
        )

    def _task(self, event: Part, facet: Part, kind: str, happened: datetime) -> Message:
        """An attempt at a task instance. Its event names inlets only where nothing else is known, so they are added."""
        task, instance = facet.part("task"), facet.part("taskInstance")
        io = self._datasets.io(event)
        reads = [*io.reads, *(Use(found) for found in self._assets(task, "inlets"))]
        writes = [*io.writes, *(Use(found) for found in self._assets(task, "outlets"))]
        return report_of(
            _envelope(event, facet, happened),
            replace(io, reads=_distinct(reads), writes=_distinct(writes)),
            task_id=key_text(task.needed("task_id")),
            map_index=instance.whole("map_index", -1),
            try_number=instance.whole("try_number", 1),
            state=state_of(kind),
        )

    def _assets(self, task: Part, name: str) -> Iterator[DatasetId]:
        for item in _listed(task.body.get(name)):
            if isinstance(item, Mapping) and isinstance(item.get("uri"), str) and item["uri"]:
                yield self._asset(item["uri"])

    def _asset(self, uri: str) -> DatasetId:
        return self._settings.naming.resolve(uri).dataset

    def _scheduled(self, facet: Part) -> tuple[DatasetId, ...]:
        """The assets that trigger the DAG, wherever its timetable keeps them."""
        found: dict[DatasetId, None] = {}
        waiting: list[Any] = [facet.part("dag").body.get("timetable")]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Mapping):
                if isinstance(item.get("uri"), str) and item["uri"]:
                    found[self._asset(item["uri"])] = None
                waiting += item.values()
            elif isinstance(item, list):
                waiting += item
        return tuple(sorted(found))


def _distinct(uses: list[Use]) -> tuple[Use, ...]:
    """Each dataset once, as it was named first."""
    return tuple({use.dataset: use for use in reversed(uses)}.values())[::-1]


def _envelope(event: Part, facet: Part, happened: datetime) -> Envelope:
    dag, run = facet.part("dag"), facet.part("dagRun")
    logical, start = run.time("logical_date"), run.time("data_interval_start")
    due = run.time("run_after") or run.time("data_interval_end") or logical
    if due is None:
        raise run.wrong("run_after", "an ISO time with a zone")
    # Events of tasks tell of their task what events of DAGs tell of the DAG, which is the job here.
    owners = (owner.strip() for owner in dag.text("owner").split(","))
    file = dag.text("fileloc")[:2_000]
    job = replace(
        job_of(event),
        dag_id=key_text(dag.text("dag_id") or run.needed("dag_id")),
        owners=tuple(dict.fromkeys(owner for owner in owners if owner not in ("", "airflow"))),
        description=dag.text("description")[:2_000],
        config_file=file,
        relative_fileloc=file,
    )
    return Envelope(
        job=job,
        run=Run(
            run_id=key_text(run.needed("run_id")),
            clear_number=run.whole("clear_number"),
            run_type=run.text("run_type"),
            triggered_by=run.text("triggered_by"),
            logical_date=logical,
            interval_start=start,
            interval_end=run.time("data_interval_end"),
            run_after=due,
            started_at=run.time("start_date"),
            ended_at=run.time("end_date"),
        ),
        versions=replace(
            versions_of(event),
            bundle=run.text("dag_bundle_name"),
            bundle_version=run.text("dag_bundle_version"),
            dag_version=str(run.whole("dag_version_number") or ""),
        ),
        emitted_at=happened,
    )


def _graph(event: Part, facet: Part, schedule: tuple[DatasetId, ...]) -> Workflow | None:
    """The task graph that a run's first event carries; None for an event without one."""
    tasks = event.part("job").part("facets").part("airflow").part("tasks")
    if not tasks.body:
        return None
    upstream: dict[str, list[str]] = {key_text(name): [] for name in tasks.body}
    for name, task in tasks.named():
        for below in _listed(task.body.get("downstream_task_ids")):
            if below in upstream:
                upstream[below].append(name)
    _refuse_circle(upstream)
    return Workflow(
        tasks=tuple(
            TaskSpec(
                task_id=name,
                upstream=tuple(sorted(upstream[name])),
                group=task.text("task_group"),
                operator=task.text("operator"),
            )
            for name, task in sorted(tasks.named())
        ),
        schedule=schedule,
    )


def _refuse_circle(upstream: Mapping[str, list[str]]) -> None:
    circle = circle_in(upstream)
    if circle:
        raise MessageError("fields", f"job.facets.airflow.tasks: these wait for each other in a circle: {circle[:20]}")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
