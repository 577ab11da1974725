"""The structure that a run worked with, read from Airflow's database in a session of the emitter's own.

A listener on the scheduler's thread copies no structure: a DAG of a thousand tasks would cost it 20 ms per run. Airflow
keeps every version of a DAG, so the emitter reads the version of the run and remembers what it made of it.
"""

from __future__ import annotations

import platform
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import sqlalchemy as sa

from airflow_kafka_hdfs.lineage.events import Envelope, Job, Run, Versions, team_of
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import Workflow
from airflow_kafka_hdfs.plugins.lineage_runs import session
from airflow_kafka_hdfs.plugins.lineage_snapshot import RawDag, snapshot, workflow_of

_TASKS_KEPT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What a DAG looked like when a run ended.

    Attributes:
        raw: as copied from the serialized DAG.
        workflow: in the words of lineage.
        bundle, bundle_version, dag_version: where that version came from; empty if the run's version is gone and the
            newest one stands for it.
    """

    raw: RawDag
    workflow: Workflow
    bundle: str = ""
    bundle_version: str = ""
    dag_version: str = ""


class Structures:
    """Structures of runs; those of the last used versions stay at hand.

    Args:
        settings: for the names of datasets.
        tasks_kept: at most this many tasks of all structures at hand; the last one used always stays.
    """

    def __init__(self, settings: LineageSettings, tasks_kept: int = _TASKS_KEPT) -> None:
        self._settings = settings
        self._tasks_kept = tasks_kept
        self._tasks = 0
        self._known: OrderedDict[tuple[Any, str], tuple[RawDag, Workflow]] = OrderedDict()

    def of(self, dag_id: str, run_id: str) -> Structure | None:
        """The structure of a finished run; None if Airflow has none of this DAG any more.

        It is that of the newest version that the run or one of its task instances is of: a DAG that changes while a run
        goes on moves its unfinished tasks to the new version, and what changes after the run's end moves nothing. So
        the answer is the same at once and in a later catch-up.

        Args:
            dag_id: of the run.
            run_id: of the run.
        """
        with session() as own:
            found = own.execute(_versions(dag_id, run_id)).first()
            newest = own.execute(_versions(dag_id)).first() if found is None else None
            row = found or newest
            if row is None:
                return None
            # A version that no task instance is of yet is changed in place, so its id alone does not tell its content.
            key = (row.id, row.dag_hash)
            if key not in self._known:
                self._keep(key, _read(own, row.id))
        self._known.move_to_end(key)
        raw, workflow = self._known[key]
        if found is None:
            return Structure(raw=raw, workflow=workflow)
        return Structure(
            raw=raw,
            workflow=workflow,
            bundle=row.bundle_name or "",
            bundle_version=row.bundle_version or "",
            dag_version=str(row.version_number or ""),
        )

    def _keep(self, key: tuple[Any, str], raw: RawDag) -> None:
        self._known[key] = raw, workflow_of(raw, self._settings)
        self._tasks += len(raw.tasks)
        while self._tasks > self._tasks_kept and len(self._known) > 1:
            _, (dropped, _) = self._known.popitem(last=False)
            self._tasks -= len(dropped.tasks)


def _versions(dag_id: str, run_id: str | None = None) -> sa.Select[Any]:
    """The newest version of a DAG, or of those that a run has been of; columns only, no structure."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance

    columns: tuple[Any, ...] = (
        SerializedDagModel.id, SerializedDagModel.dag_hash,
        DagVersion.bundle_name, DagVersion.bundle_version, DagVersion.version_number,
    )  # fmt: skip
    query = (
        sa.select(*columns)
        .join(DagVersion, DagVersion.id == SerializedDagModel.dag_version_id)
        .where(DagVersion.dag_id == dag_id)
        .order_by(DagVersion.version_number.desc())
        .limit(1)
    )
    if run_id is None:
        return query
    worked = sa.select(TaskInstance.dag_version_id).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    made = sa.select(DagRun.created_dag_version_id).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    return query.where(sa.or_(DagVersion.id.in_(worked), DagVersion.id.in_(made)))


def _read(own: Any, serialized_id: Any) -> RawDag:
    from airflow.models.serialized_dag import SerializedDagModel

    return snapshot(own.get_one(SerializedDagModel, serialized_id).dag)


def envelope_of(structure: Structure, run: Run, settings: LineageSettings, now: datetime) -> Envelope:
    """What every message of a run carries."""
    raw = structure.raw
    return Envelope(
        job=Job(
            instance=settings.instance,
            dag_id=raw.dag_id,
            owners=raw.owners,
            team=settings.team or team_of(raw.tags),
            tags=raw.tags,
            config_file=raw.relative_fileloc,
            relative_fileloc=raw.relative_fileloc,
            description=raw.description,
        ),
        run=run,
        versions=Versions(
            airflow=_version("apache-airflow-core") or _version("apache-airflow"),
            provider=_version("airflow-provider-kafka-hdfs"),
            python=platform.python_version(),
            bundle=structure.bundle,
            bundle_version=structure.bundle_version,
            dag_version=structure.dag_version,
            service=settings.service,
            image=settings.image,
        ),
        emitted_at=now,
    )


@cache
def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
