"""Lineage messages for tests: short to write, with every field that matters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from airflow_kafka_hdfs.lineage.events import (
    DatasetDetail,
    EdgeMessage,
    Envelope,
    Job,
    Run,
    RunMessage,
    TaskIoMessage,
    Versions,
)
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.pairs import Options
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskIo, Workflow
from airflow_kafka_hdfs.ports.lineage import PairState

START = datetime(2026, 3, 1, tzinfo=UTC)


def envelope(
    dag_id: str = "dag",
    day: int = 0,
    *,
    clear: int = 0,
    emitted: float = 0,
    outcome: str = "success",
    run_type: str = "scheduled",
    owner: str = "ann",
    team: str = "data",
    image: str = "",
) -> Envelope:
    """What a message says of job and run; the run is due at the start of day `day`, told `emitted` hours later."""
    due = START + timedelta(days=day)
    return Envelope(
        job=Job(instance="test", dag_id=dag_id, owners=(owner,), team=team, relative_fileloc=f"{dag_id}.py"),
        run=Run(
            run_id=f"{run_type}__{day}",
            clear_number=clear,
            run_type=run_type,
            run_after=due,
            started_at=due,
            ended_at=due + timedelta(minutes=5),
            outcome=outcome,
        ),
        versions=Versions(airflow="3.3.2", image=image),
        emitted_at=due + timedelta(hours=1 + emitted),
    )


def run_message(
    about: Envelope,
    workflow: Workflow,
    states: Mapping[tuple[str, int], tuple[str, int]] | None = None,
    *,
    with_graph: bool = True,
    options: Options | None = None,
) -> RunMessage:
    """A run whose tasks all succeeded, unless told otherwise."""
    if states is None:
        states = {(task.task_id, -1): ("success", 1) for task in workflow.tasks}
    facts = RunFacts(states=states)
    found = run_lineage(workflow, facts, options=options).derivation
    return RunMessage(
        envelope=about,
        structure_hash=workflow.structure_hash,
        graph=workflow if with_graph else None,
        facts=facts,
        options=options or Options(),
        pairs=found.count,
        compressed=found.compressed,
    )


def edge_message(
    about: Envelope, source: DatasetId, target: DatasetId, state: PairState = PairState.WRITTEN
) -> EdgeMessage:
    return EdgeMessage(
        envelope=about,
        source=DatasetDetail(dataset=source),
        target=DatasetDetail(dataset=target),
        state=state,
        evidence=("declared",),
        path=("t",),
        declared=True,
    )


def report_message(about: Envelope, report: TaskIo) -> TaskIoMessage:
    return TaskIoMessage(envelope=about, report=report)
