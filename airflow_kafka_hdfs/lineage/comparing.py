"""What changed in a job between two dates: versions, people, structure, inputs, outputs, pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.lineage.kept import refuse_unkept
from airflow_kafka_hdfs.lineage.views import Change, CompareView, DatasetView
from airflow_kafka_hdfs.ports.lineage_rows import EdgeRunRow, RunRow

_SAID = ("owners", "team", "tags", "config_file", "relative_fileloc", "description")
Ends = tuple[str, str]


def compare(describer: Describer, job_id: str, at: datetime, with_: datetime) -> CompareView | None:
    """Compare the runs of a job that were the newest at two moments.

    Args:
        describer: reader and access.
        job_id: the job.
        at: the earlier moment.
        with_: the later moment.

    Returns:
        None if there is no such job or the caller may not see it.

    Raises:
        ConfigError: runs of that time have been deleted.
    """
    job = describer.jobs([job_id])[job_id]
    if job.restricted:
        return None
    for name, moment in (("at", at), ("with", with_)):
        if job.first_seen is not None and job.first_seen <= moment:
            refuse_unkept(describer.reader, moment, name)
    runs = [next(iter(describer.reader.runs(job_id, limit=1, until=moment)), None) for moment in (at, with_)]
    first, second = runs
    pairs = [_pairs(describer, row) for row in runs]
    datasets = describer.datasets(end for found in pairs for pair in found for end in pair)
    changes = [*changes_between(first, second), *_ends_changed(pairs[0], pairs[1], datasets)]
    shown = [None if row is None else describer.runs([row], job.dag_id, job.instance)[0] for row in runs]
    return CompareView(
        job=job,
        at=shown[0],
        with_=shown[1],
        changes=tuple(changes),
        gained=_named(pairs[1] - pairs[0], datasets),
        lost=_named(pairs[0] - pairs[1], datasets),
    )


def _pairs(describer: Describer, row: RunRow | None) -> set[Ends]:
    if row is None:
        return set()
    found = describer.reader.rows(EdgeRunRow, ("job_id", "run_id"), [(row.job_id, row.run_id)])
    return {(edge.source_id, edge.target_id) for edge in found}


def changes_between(first: RunRow | None, second: RunRow | None) -> Iterator[Change]:
    """What a job said of itself in two runs, as far as it differs."""
    before, after = _said(first), _said(second)
    for what, name in sorted(before.keys() | after.keys()):
        one, other = before.get((what, name), ""), after.get((what, name), "")
        if one != other:
            yield Change(what=what, name=name, before=one, after=other)


def _said(row: RunRow | None) -> dict[tuple[str, str], str]:
    if row is None:
        return {}
    job: Mapping[str, Any] = json.loads(row.job)
    versions: Mapping[str, Any] = json.loads(row.versions)
    found = {("version", str(name)): str(value) for name, value in versions.items()}
    for name in _SAID:
        value = job.get(name, "")
        found["job", name] = ", ".join(value) if isinstance(value, list) else str(value)
    found["job", "structure"] = row.structure_hash
    found["run", "outcome"] = row.outcome
    return found


def _ends_changed(before: set[Ends], after: set[Ends], datasets: Mapping[str, DatasetView]) -> Iterator[Change]:
    for number, what in enumerate(("input", "output")):
        old, new = {pair[number] for pair in before}, {pair[number] for pair in after}
        for dataset_id in sorted(old ^ new):
            view = datasets.get(dataset_id)
            if view is not None and not view.restricted:
                name = f"{view.namespace}/{view.name.lstrip('/')}"
                gone = dataset_id in old
                yield Change(what=what, name=name, before=name if gone else "", after="" if gone else name)


def _named(pairs: set[Ends], datasets: Mapping[str, DatasetView]) -> tuple[tuple[DatasetView, DatasetView], ...]:
    return tuple(
        (datasets[source], datasets[target])
        for source, target in sorted(pairs)
        if source in datasets and target in datasets
    )
