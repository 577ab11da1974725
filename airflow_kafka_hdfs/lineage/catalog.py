"""Search, and the pages of datasets and jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_hdfs.lineage.describing import DEPRECATED, FAILING, Describer, still_related
from airflow_kafka_hdfs.lineage.kept import kept_since
from airflow_kafka_hdfs.lineage.registration import INPUT, OUTPUT
from airflow_kafka_hdfs.lineage.views import (
    AttributeView,
    ColumnView,
    DatasetPage,
    DatasetView,
    Hit,
    JobPage,
    JobVersionView,
    JobView,
    NeighbourView,
    Page,
    PairView,
    RunView,
    SchemaView,
    StatsView,
)
from airflow_kafka_hdfs.ports.lineage_reading import Direction, Finding
from airflow_kafka_hdfs.ports.lineage_rows import (
    DatasetAliasRow,
    DatasetRow,
    DatasetSchemaRow,
    EdgeColumnRow,
    EdgeRow,
    EdgeRunRow,
    JobAttributeRow,
    JobRow,
    JobVersionRow,
    RelationRow,
)

NEIGHBOURS_SHOWN = 25
RUNS_SHOWN = 10
COLUMNS_SHOWN = 2_000
_JOBS_LOOKED_AT = 20_000


def search(describer: Describer, text: str, *, limit: int = 20) -> tuple[Hit, ...]:
    """Suggestions for what somebody types: datasets and jobs whose names hold every word, closest names first.

    Args:
        describer: reader and access.
        text: words, in any order.
        limit: at most this many.
    """
    words = tuple(text.split())
    if not words:
        return ()
    finding = Finding(words=words, among=describer.access.among)
    datasets = describer.reader.find(DatasetRow, finding, limit=limit)
    jobs = describer.reader.find(JobRow, finding, limit=limit)
    hits = [Hit(kind="dataset", id=row.dataset_id, name=row.name, namespace=row.ns) for row in datasets]
    hits += [Hit(kind="job", id=row.job_id, name=row.dag_id, namespace=row.instance) for row in jobs]
    return tuple(sorted(hits, key=lambda hit: _closeness(hit, words))[:limit])


def _closeness(hit: Hit, words: Sequence[str]) -> tuple[bool, bool, int, str, str]:
    last = hit.name.rsplit("/", 1)[-1].lower()
    word = words[0].lower()
    return last != word, not last.startswith(word), len(hit.name), hit.name, hit.id


def datasets(
    describer: Describer, text: str = "", *, equal: Mapping[str, Any] | None = None, limit: int, offset: int
) -> Page[DatasetView]:
    """Datasets by name, a page of them.

    Args:
        describer: reader and access.
        text: words that a name must hold.
        equal: column of `dataset` -> value.
        limit, offset: the page.
    """
    finding = Finding(words=tuple(text.split()), equal=equal, among=describer.access.among)
    rows = describer.reader.find(DatasetRow, finding, limit=limit, offset=offset)
    views = describer.described(rows)
    total = describer.reader.count(DatasetRow, finding)
    return Page(items=tuple(views[row.dataset_id] for row in rows), total=total, limit=limit, offset=offset)


def jobs(
    describer: Describer, text: str = "", *, equal: Mapping[str, Any] | None = None, limit: int, offset: int
) -> Page[JobView]:
    """Jobs by name, owner, team or tag, a page of them; as `datasets`."""
    finding = Finding(words=tuple(text.split()), equal=equal, among=describer.access.among)
    rows = describer.reader.find(JobRow, finding, limit=limit, offset=offset)
    total = describer.reader.count(JobRow, finding)
    return Page(items=tuple(map(describer.job, rows)), total=total, limit=limit, offset=offset)


def lookup(
    describer: Describer, *, schema_id: str = "", collection: str = "", table: str = "", schema_version: str = ""
) -> tuple[tuple[DatasetView, SchemaView | None], ...]:
    """Datasets by either identifier: the id of a schema, or the place (collection, table) with or without a version.

    Args:
        describer: reader and access.
        schema_id: exact.
        collection, table: of the place; both are needed.
        schema_version: of the place; empty for the newest.
    """
    reader = describer.reader
    if schema_id:
        schemas = reader.rows(DatasetSchemaRow, ("schema_id",), [(schema_id,)])
        found = {(row.dataset_id, row.schema_version): row for row in schemas}
        views = describer.datasets(dataset_id for dataset_id, _ in found)
        ordered = sorted(found.items(), key=lambda item: (item[1].seen, item[0]), reverse=True)
        return tuple(
            (views[dataset_id], _schema(row))
            for (dataset_id, _), row in ordered
            if dataset_id in views and not views[dataset_id].restricted
        )
    rows = reader.rows(DatasetRow, ("collection", "table"), [(collection, table)])
    views = describer.datasets(row.dataset_id for row in rows)
    wanted = [(row.dataset_id, schema_version or row.schema_version) for row in rows]
    known = {
        (row.dataset_id, row.schema_version): row
        for row in reader.rows(DatasetSchemaRow, ("dataset_id", "schema_version"), wanted)
    }
    return tuple(
        (views[key[0]], _schema(known[key]) if key in known else None)
        for key in sorted(wanted)
        if key[0] in views and not views[key[0]].restricted and (not schema_version or key in known)
    )


def _schema(row: DatasetSchemaRow) -> SchemaView:
    columns = json.loads(row.fields) if row.fields else []
    return SchemaView(
        schema_version=row.schema_version,
        schema_id=row.schema_id,
        seen=row.seen,
        columns=tuple((str(name), str(kind), str(text)) for name, kind, text in columns),
    )


def dataset_page(describer: Describer, dataset_id: str) -> DatasetPage | None:
    """Everything about one dataset; None if there is none, or the caller may not see it."""
    view = describer.datasets([dataset_id]).get(dataset_id)
    if view is None or view.restricted:
        return None
    reader = describer.reader
    key = [(dataset_id,)]
    around = {
        direction: sorted(reader.step([dataset_id], direction, describer.window) - {dataset_id})
        for direction in Direction
    }
    near = {direction: found[:NEIGHBOURS_SHOWN] for direction, found in around.items()}
    edges_in = reader.between(near[Direction.UP], [dataset_id], describer.window)
    edges_out = reader.between([dataset_id], near[Direction.DOWN], describer.window)
    attached = {
        direction: describer.jobs(job for _, job, _ in reader.attached([dataset_id], direction, describer.window))
        for direction in Direction
    }
    # A job may read and write nothing, so that it has no pair.
    rows = [row for row in reader.rows(RelationRow, ("dataset_id",), key) if row.direction == INPUT]
    known = describer.job_rows(row.job_id for row in rows)
    reading = {row.job_id for row in rows if row.job_id in known and still_related(row, known[row.job_id])}
    attached[Direction.DOWN] |= describer.jobs(reading - attached[Direction.DOWN].keys())
    columns = {into: _column_rows(describer, dataset_id, into=into) for into in (True, False)}
    # All that the page names is looked up at once; what follows finds it at hand.
    describer.datasets(
        {*near[Direction.UP], *near[Direction.DOWN]}
        | {_other(row, into=into) for into, rows in columns.items() for row in rows}
    )
    schemas = reader.rows(DatasetSchemaRow, ("dataset_id",), key)
    writers = _named(attached[Direction.UP].values())
    readers = _named(attached[Direction.DOWN].values())
    return DatasetPage(
        dataset=view,
        aliases=tuple(sorted((row.ns, row.name) for row in reader.rows(DatasetAliasRow, ("dataset_id",), key))),
        schemas=tuple(map(_schema, sorted(schemas, key=lambda row: (row.seen, row.schema_version), reverse=True))),
        responsibilities=describer.responsibilities(dataset_id),
        writers=writers,
        readers=readers,
        writers_restricted=len(attached[Direction.UP]) - len(writers),
        readers_restricted=len(attached[Direction.DOWN]) - len(readers),
        upstream=_neighbours(describer, near[Direction.UP], edges_in, up=True),
        downstream=_neighbours(describer, near[Direction.DOWN], edges_out, up=False),
        upstream_total=len(around[Direction.UP]),
        downstream_total=len(around[Direction.DOWN]),
        columns_in=_columns(describer, columns[True], into=True),
        columns_out=_columns(describer, columns[False], into=False),
        runs=_newest_runs(describer, writers),
    )


def _named(found: Iterable[JobView]) -> tuple[JobView, ...]:
    return tuple(sorted((job for job in found if not job.restricted), key=lambda job: (job.dag_id, job.id)))


def _neighbours(
    describer: Describer, ids: Sequence[str], edges: Sequence[EdgeRow], *, up: bool
) -> tuple[NeighbourView, ...]:
    views = describer.datasets(ids)
    jobs = describer.jobs(edge.job_id for edge in edges)
    found = []
    for dataset_id in ids:
        through = {edge.job_id for edge in edges if (edge.source_id if up else edge.target_id) == dataset_id}
        if dataset_id in views:
            ordered = sorted((jobs[job_id] for job_id in through), key=lambda job: (job.restricted, job.dag_id, job.id))
            found.append(NeighbourView(dataset=views[dataset_id], jobs=tuple(ordered)))
    return tuple(sorted(found, key=lambda item: (item.dataset.restricted, item.dataset.name, item.dataset.id)))


def _column_rows(describer: Describer, dataset_id: str, *, into: bool) -> list[EdgeColumnRow]:
    rows = describer.reader.rows(EdgeColumnRow, ("target_id" if into else "source_id",), [(dataset_id,)])
    readable = describer.access.readable(row.job_id for row in rows)
    return [row for row in rows if row.job_id in readable][:COLUMNS_SHOWN]


def _other(row: EdgeColumnRow, *, into: bool) -> str:
    return row.source_id if into else row.target_id


def _columns(describer: Describer, rows: Sequence[EdgeColumnRow], *, into: bool) -> tuple[ColumnView, ...]:
    views = describer.datasets(_other(row, into=into) for row in rows)
    found = []
    for row in rows:
        other = views.get(_other(row, into=into))
        if other is not None:
            found.append(
                ColumnView(
                    column=row.target_col if into else row.source_col,
                    dataset=other,
                    other_column=row.source_col if into else row.target_col,
                    direct=row.direct,
                    subtype=row.subtype,
                    masking=row.masking,
                )
            )
    return tuple(sorted(found, key=lambda item: (item.column, item.dataset.name, item.other_column)))


def _newest_runs(describer: Describer, writers: Sequence[JobView]) -> tuple[RunView, ...]:
    found = [run for job in writers[:RUNS_SHOWN] for run in runs(describer, job, limit=RUNS_SHOWN)]
    return tuple(sorted(found, key=lambda run: (run.run_after, run.run_id), reverse=True)[:RUNS_SHOWN])


def _sorted(found: Iterable[DatasetView]) -> tuple[DatasetView, ...]:
    return tuple(sorted(found, key=lambda dataset: (dataset.name, dataset.id)))


def runs(
    describer: Describer, job: JobView, *, limit: int, before: tuple[datetime, str] | None = None
) -> tuple[RunView, ...]:
    """Runs of a readable job, newest first."""
    rows = describer.reader.runs(job.id, limit=limit, before=before)
    return describer.runs(rows, job.dag_id, job.instance)


def job_page(describer: Describer, job_id: str) -> JobPage | None:
    """Everything about one job; None if there is none, or the caller may not see it."""
    view = describer.jobs([job_id])[job_id]
    if view.restricted:
        return None
    reader, key = describer.reader, [(job_id,)]
    row = describer.job_rows([job_id])[job_id]
    related = [item for item in reader.rows(RelationRow, ("job_id",), key) if still_related(item, row)]
    datasets = describer.datasets(item.dataset_id for item in related)
    by_direction = {
        direction: tuple(
            sorted(
                (
                    datasets[item.dataset_id]
                    for item in related
                    if item.direction == direction and item.dataset_id in datasets
                ),
                key=lambda dataset: (dataset.name, dataset.id),
            )
        )
        for direction in (INPUT, OUTPUT)
    }
    attributes = reader.rows(JobAttributeRow, ("job_id",), key)
    versions = reader.rows(JobVersionRow, ("job_id",), key)
    newest = runs(describer, view, limit=RUNS_SHOWN)
    return JobPage(
        job=view,
        attributes=tuple(
            AttributeView(id=item.attribute_id, name=item.name, value=item.value, changed_at=item.changed_at)
            for item in sorted(attributes, key=lambda item: item.name)
        ),
        responsibilities=describer.responsibilities(job_id),
        versions=tuple(
            JobVersionView(
                structure_hash=item.structure_hash,
                dag_version=item.dag_version,
                bundle=item.bundle,
                bundle_version=item.bundle_version,
                valid_from=item.valid_from,
                valid_to=item.valid_to,
            )
            for item in sorted(versions, key=lambda item: (item.valid_to, item.structure_hash), reverse=True)
        ),
        inputs=by_direction[INPUT],
        outputs=by_direction[OUTPUT],
        pairs=newest[0].pairs if newest else 0,
        runs=newest,
        kept_since=kept_since(reader),
    )


def pairs(describer: Describer, job_id: str, run_id: str = "", *, limit: int, offset: int) -> Page[PairView] | None:
    """Pairs of a job over its runs, or in one of them; None if the caller may not see the job."""
    job = describer.jobs([job_id])[job_id]
    if job.restricted:
        return None
    rows: list[EdgeRow | EdgeRunRow] = []
    if run_id:
        rows += describer.reader.rows(EdgeRunRow, ("job_id", "run_id"), [(job_id, run_id)])
    else:
        rows += describer.reader.rows(EdgeRow, ("job_id",), [(job_id,)])
    ordered = sorted(rows, key=lambda row: (row.source_id, row.target_id))
    shown = ordered[offset : offset + limit]
    views = describer.datasets(end for row in shown for end in (row.source_id, row.target_id))
    items = [_pair(job, row, views) for row in shown if row.source_id in views and row.target_id in views]
    return Page(items=tuple(items), total=len(ordered), limit=limit, offset=offset)


def _pair(job: JobView, row: EdgeRow | EdgeRunRow, views: Mapping[str, DatasetView]) -> PairView:
    source, target, evidence = views[row.source_id], views[row.target_id], tuple(row.evidence.split())
    if isinstance(row, EdgeRunRow):
        return PairView(
            job=job,
            source=source,
            target=target,
            state=row.state,
            evidence=evidence,
            outcome=row.outcome,
            run_id=row.run_id,
            first_seen=row.run_after,
            last_seen=row.run_after,
            path=tuple(json.loads(row.path)),
            instances=row.instances,
        )
    return PairView(
        job=job,
        source=source,
        target=target,
        state=row.last_state,
        evidence=evidence,
        outcome=row.last_outcome,
        run_id=row.last_run_id,
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        last_success=row.last_success,
        runs=row.run_count,
        valid_to=row.valid_to,
    )


def stats(describer: Describer) -> StatsView:
    """What a start page shows."""
    reader, finding = describer.reader, Finding(among=describer.access.among)
    views = [describer.job(row) for row in reader.find(JobRow, finding, limit=_JOBS_LOOKED_AT)]
    views.sort(key=lambda job: (job.last_run or job.first_seen or describer.now, job.id), reverse=True)
    failing = [job for job in views if FAILING in job.flags]
    gone = [job for job in views if DEPRECATED in job.flags]
    week = describer.now - timedelta(days=7)
    return StatsView(
        datasets=reader.count(DatasetRow, finding),
        jobs=reader.count(JobRow, finding),
        failing=tuple(failing[:RUNS_SHOWN]),
        failing_total=len(failing),
        deprecated=tuple(gone[:RUNS_SHOWN]),
        deprecated_total=len(gone),
        fresh=tuple(job for job in views if job.first_seen is not None and job.first_seen >= week)[:RUNS_SHOWN],
        last_loaded=reader.loaded(),
        kept_since=kept_since(reader),
    )
