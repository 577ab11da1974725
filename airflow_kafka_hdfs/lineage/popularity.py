"""How much datasets are read: by how many jobs and teams, day by day."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_kafka_hdfs.lineage.describing import Describer, still_related
from airflow_kafka_hdfs.lineage.kept import kept_since
from airflow_kafka_hdfs.lineage.registration import FROM_RUNS, INPUT
from airflow_kafka_hdfs.lineage.views import PopularityView
from airflow_kafka_hdfs.ports.lineage_reading import Direction
from airflow_kafka_hdfs.ports.lineage_rows import RelationRow

POPULAR_DAYS = 30


def by_day(describer: Describer, dataset_id: str, *, days: int = POPULAR_DAYS) -> PopularityView | None:
    """How much a dataset is read, day by day; None if the caller may not see it.

    A job that reads it and writes nothing has no pair; it reads in each of its runs, as far as its structure is the one
    that it has now.

    Args:
        describer: reader and access.
        dataset_id: the dataset.
        days: how far back to look.
    """
    view = describer.datasets([dataset_id]).get(dataset_id)
    if view is None or view.restricted:
        return None
    since = describer.now - timedelta(days=days)
    kept = kept_since(describer.reader)
    readings = _readings(describer, dataset_id, max(since, kept) if kept is not None else since)
    jobs = describer.job_rows(job_id for job_id, _ in readings)
    on_day: dict[str, list[tuple[str, str]]] = {}
    for run, when in readings.items():
        on_day.setdefault(f"{when:%Y-%m-%d}", []).append(run)
    teams = {job_id: row.team for job_id, row in jobs.items() if row.team}
    readable = describer.access.readable(teams)
    return PopularityView(
        dataset=view,
        kept_since=kept if kept is not None and kept > since else None,
        readers=len({job_id for job_id, _ in readings}),
        runs=len(readings),
        teams=tuple(sorted({teams[job_id] for job_id in readable})),
        days=tuple(
            (
                day,
                len(found),
                len({job_id for job_id, _ in found}),
                len({teams[job_id] for job_id, _ in found if job_id in teams}),
            )
            for day, found in sorted(on_day.items())
        ),
    )


def _readings(describer: Describer, dataset_id: str, since: datetime) -> dict[tuple[str, str], datetime]:
    """(job id, run id) -> due date of the runs since a moment that read a dataset."""
    reader = describer.reader
    found = {(job_id, run_id): when for _, job_id, run_id, when in reader.readings([dataset_id], since)}
    related = {row.job_id: row for row in reader.rows(RelationRow, ("dataset_id",), [(dataset_id,)]) if _reads(row)}
    paired = {job_id for _, job_id, _ in reader.attached([dataset_id], Direction.DOWN, describer.window)}
    jobs = describer.job_rows(related.keys() - paired)
    bare = [job_id for job_id, job in jobs.items() if still_related(related[job_id], job)]
    for job_id, run_id, when in reader.run_dates(bare, since):
        row, job = related[job_id], jobs[job_id]
        if when >= (job.structure_since or job.first_seen) and (row.origin != FROM_RUNS or when <= row.last_seen):
            found[job_id, run_id] = when
    return found


def _reads(row: RelationRow) -> bool:
    return row.direction == INPUT


def most_popular(describer: Describer, *, limit: int = 20) -> tuple[PopularityView, ...]:
    """The datasets with the most reading jobs among those that the caller may see; only jobs with pairs count."""
    found = describer.reader.most_read(limit, describer.access.among)
    views = describer.datasets(dataset_id for dataset_id, _, _ in found)
    attached = describer.reader.attached([dataset_id for dataset_id, _, _ in found], Direction.DOWN, describer.window)
    jobs = describer.jobs(job_id for _, job_id, _ in attached)
    teams: dict[str, set[str]] = {}
    for dataset_id, job_id, _ in attached:
        teams.setdefault(dataset_id, set()).update({jobs[job_id].team} - {""})
    return tuple(
        PopularityView(
            dataset=views[dataset_id],
            readers=readers,
            runs=runs_,
            teams=tuple(sorted(teams.get(dataset_id, ()))),
        )
        for dataset_id, readers, runs_ in found
        if dataset_id in views
    )
