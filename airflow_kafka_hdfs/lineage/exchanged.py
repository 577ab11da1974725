"""Rows of the warehouse as events for others: the relations of a job, and its runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.describing import window_at
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.openlineage_making import About, Exchanged, Fields, job_event, run_event, run_id
from airflow_kafka_hdfs.lineage.registration import FROM_RUNS, INPUT, OUTPUT
from airflow_kafka_hdfs.ports.lineage import PairState
from airflow_kafka_hdfs.ports.lineage_reading import LineageReader
from airflow_kafka_hdfs.ports.lineage_rows import (
    DatasetRow,
    DatasetSchemaRow,
    EdgeRow,
    EdgeRunRow,
    JobRow,
    RelationRow,
    RunRow,
)

_RUNS = 1_000
_FINISHED = ("success", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanges:
    """Makes events of what the warehouse knows.

    Args:
        instance: the deployment whose jobs are told.
        namespace: of its jobs in OpenLineage.
    """

    instance: str
    namespace: str

    def relations(
        self, reader: LineageReader, job_ids: Collection[str], now: datetime
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(subject, event) of each of the jobs that reads or writes anything.

        Args:
            reader: where to look.
            job_ids: jobs.
            now: the moment whose edges count.
        """
        jobs = _jobs(reader, job_ids)
        window = window_at(now)
        edges: dict[str, list[EdgeRow]] = {}
        for edge in reader.rows(EdgeRow, ("job_id",), [(job_id,) for job_id in jobs]):
            alive = edge.last_declared is not None or edge.last_seen >= window.alive_since
            if (edge.valid_to is None or edge.valid_to > now) and alive:
                edges.setdefault(edge.job_id, []).append(edge)
        sides: dict[tuple[str, str], set[str]] = {}
        for row in reader.rows(RelationRow, ("job_id",), [(job_id,) for job_id in jobs]):
            since = jobs[row.job_id].structure_since
            if row.origin != FROM_RUNS or since is None or row.last_seen >= since:
                sides.setdefault((row.job_id, row.direction), set()).add(row.dataset_id)
        for job_id, found in edges.items():
            sides.setdefault((job_id, INPUT), set()).update(edge.source_id for edge in found)
            sides.setdefault((job_id, OUTPUT), set()).update(edge.target_id for edge in found)
        names = _Datasets(reader, {key for keys in sides.values() for key in keys})
        for job_id, job in sorted(jobs.items()):
            inputs, outputs = sides.get((job_id, INPUT), set()), sides.get((job_id, OUTPUT), set())
            if inputs or outputs:
                known = names.exchanged(inputs, outputs, edges.get(job_id, ()))
                yield f"job/{job_id}", job_event(self._about(job), known, now)

    def runs(
        self, reader: LineageReader, job_ids: Collection[str], since: datetime
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """(subject, event) of each finished run of the jobs that was due since a moment; at most 1,000 a job."""
        for job_id, job in sorted(_jobs(reader, job_ids).items()):
            runs = [
                run for run in reader.runs(job_id, limit=_RUNS) if run.outcome in _FINISHED and run.run_after >= since
            ]
            edges: dict[str, list[EdgeRunRow]] = {}
            for edge in reader.rows(EdgeRunRow, ("job_id", "run_id"), [(job_id, run.run_id) for run in runs]):
                edges.setdefault(edge.run_id, []).append(edge)
            names = _Datasets(
                reader, {key for found in edges.values() for edge in found for key in (edge.source_id, edge.target_id)}
            )
            for run in reversed(runs):
                written = [edge for edge in edges.get(run.run_id, ()) if edge.state == PairState.WRITTEN.value]
                yield f"run/{job_id}/{run.run_id}", self._run_event(job, run, names, written)

    def _run_event(self, job: JobRow, run: RunRow, names: _Datasets, edges: list[EdgeRunRow]) -> dict[str, Any]:
        done = names.exchanged({edge.source_id for edge in edges}, {edge.target_id for edge in edges}, edges)
        nominal = (run.interval_start, run.interval_end)
        return run_event(
            self._about(job),
            done,
            run=run_id(self.namespace, job.dag_id, run.clear_number, run.logical_date or run.run_after),
            outcome=run.outcome,
            at=run.ended_at or run.run_after,
            nominal=(nominal[0], nominal[1]) if nominal[0] is not None and nominal[1] is not None else None,
            engine=str(json.loads(run.versions).get("airflow", "")),
        )

    def _about(self, job: JobRow) -> About:
        return About(
            namespace=self.namespace,
            name=job.dag_id,
            description=job.description,
            owners=_list(job.owners),
            tags=_list(job.tags),
            file=job.config_file,
        )


class _Datasets:
    """Names and columns of datasets by id."""

    def __init__(self, reader: LineageReader, dataset_ids: Iterable[str]) -> None:
        rows = reader.rows(DatasetRow, ("dataset_id",), [(key,) for key in sorted(dataset_ids)])
        self._names = {row.dataset_id: DatasetId(row.ns, row.name) for row in rows}
        wanted = [(row.dataset_id, row.schema_version) for row in rows if row.schema_version]
        self._fields: dict[DatasetId, Fields] = {}
        for schema in reader.rows(DatasetSchemaRow, ("dataset_id", "schema_version"), wanted):
            if schema.fields:
                fields = tuple((str(n), str(t), str(d)) for n, t, d in json.loads(schema.fields))
                self._fields[self._names[schema.dataset_id]] = fields

    def exchanged(
        self, inputs: Iterable[str], outputs: Iterable[str], edges: Iterable[EdgeRow | EdgeRunRow]
    ) -> Exchanged:
        """Ids in names."""
        found = [edge for edge in edges if edge.source_id in self._names and edge.target_id in self._names]
        ins, outs = (
            tuple(sorted(self._names[key] for key in keys if key in self._names)) for keys in (inputs, outputs)
        )
        fields: Mapping[DatasetId, Fields] = {
            dataset: self._fields[dataset] for dataset in (*ins, *outs) if dataset in self._fields
        }
        return Exchanged(
            inputs=ins,
            outputs=outs,
            pairs=frozenset((self._names[edge.source_id], self._names[edge.target_id]) for edge in found),
            columns=tuple(
                ColumnEdge(self._names[edge.source_id], source, self._names[edge.target_id], target, *more)
                for edge in found
                if edge.columns
                for source, target, *more in json.loads(edge.columns)
            ),
            fields=fields,
        )


def _jobs(reader: LineageReader, job_ids: Collection[str]) -> dict[str, JobRow]:
    return {row.job_id: row for row in reader.rows(JobRow, ("job_id",), [(job_id,) for job_id in job_ids])}


def _list(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(", ") if part)
