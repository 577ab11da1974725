"""The reading routes of `/lineage/api/v1`. Shapes of the answers: `lineage/views.py`, told in docs/lineage/rest.md."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, status
from fastapi.responses import JSONResponse, Response

from airflow_kafka_hdfs.exceptions import KafkaHdfsError
from airflow_kafka_hdfs.lineage import catalog, comparing, traversal
from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.lineage.identity import digest
from airflow_kafka_hdfs.lineage.moments import moment
from airflow_kafka_hdfs.lineage.popularity import POPULAR_DAYS, by_day, most_popular
from airflow_kafka_hdfs.lineage.views import ImpactItem, to_json
from airflow_kafka_hdfs.plugins.lineage_input import public
from airflow_kafka_hdfs.plugins.lineage_security import User
from airflow_kafka_hdfs.ports.lineage_reading import Direction, Show
from airflow_kafka_hdfs.ports.lineage_rows import StageRow

log = logging.getLogger(__name__)
router = APIRouter()

Limit = Annotated[int, Query(ge=1, le=traversal.PAGE_MAX)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
Hops = Annotated[int, Query(ge=0, le=50)]
Id = Annotated[str, Query(min_length=1, max_length=100)]
Text = Annotated[str, Query(max_length=500)]
_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@contextmanager
def looking(request: Request, user: Any) -> Iterator[Describer]:
    """One look at the warehouse with the eyes of the caller."""
    state = request.app.state
    with state.warehouse().look() as reader:
        access = state.access(user, reader, state.instance(), state.hook.settings.open_instances)
        yield Describer(reader, access, datetime.now(UTC), state.instance())


def answer(view: Any) -> JSONResponse:
    """A view as JSON; 404 for None, which also stands for what the caller may not see."""
    if view is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such thing, or you may not read its DAGs")
    return JSONResponse(to_json(view))


def seen(describer: Describer, dataset_id: str) -> str:
    """The id of a dataset that the caller may see; 404 if it is none."""
    view = describer.datasets([dataset_id]).get(dataset_id)
    if view is None or view.restricted:
        answer(None)
    return dataset_id


@router.get("/search")
def search(request: Request, user: User, q: Text = "", limit: Annotated[int, Query(ge=1, le=50)] = 20) -> Response:
    """Suggestions while somebody types."""
    with looking(request, user) as describer:
        return answer({"items": catalog.search(describer, q, limit=limit)})


@router.get("/datasets")
def datasets(
    request: Request, user: User, q: Text = "", namespace: Text = "", limit: Limit = 50, offset: Offset = 0
) -> Response:
    """Datasets by name."""
    equal = {"ns": namespace} if namespace else None
    with looking(request, user) as describer:
        return answer(catalog.datasets(describer, q, equal=equal, limit=limit, offset=offset))


@router.get("/datasets/lookup")
def lookup(
    request: Request,
    user: User,
    schema_id: Text = "",
    collection: Text = "",
    table: Text = "",
    schema_version: Text = "",
) -> Response:
    """Datasets by the id of a schema, or by place and version."""
    if bool(schema_id) == bool(collection and table):
        raise HTTPException(422, "give schema_id, or collection and table (and schema_version)")
    with looking(request, user) as describer:
        found = catalog.lookup(
            describer, schema_id=schema_id, collection=collection, table=table, schema_version=schema_version
        )
        return answer({"items": [{"dataset": dataset, "schema": schema} for dataset, schema in found]})


@router.get("/datasets/{dataset_id}")
def dataset(request: Request, user: User, dataset_id: str) -> Response:
    """Everything about one dataset."""
    with looking(request, user) as describer:
        return answer(catalog.dataset_page(describer, dataset_id))


@router.get("/jobs")
def jobs(
    request: Request,
    user: User,
    q: Text = "",
    team: Text = "",
    domain: Text = "",
    limit: Limit = 50,
    offset: Offset = 0,
) -> Response:
    """Jobs by DAG id, owner, team or tag."""
    equal = {name: value for name, value in (("team", team), ("domain", domain)) if value}
    with looking(request, user) as describer:
        return answer(catalog.jobs(describer, q, equal=equal, limit=limit, offset=offset))


@router.get("/jobs/by-dag/{dag_id}")
def job_of_dag(request: Request, user: User, dag_id: str) -> Response:
    """Everything about the job that is a DAG of this deployment."""
    with looking(request, user) as describer:
        return answer(catalog.job_page(describer, digest(request.app.state.instance(), dag_id)))


@router.get("/jobs/{job_id}")
def job(request: Request, user: User, job_id: str) -> Response:
    """Everything about one job."""
    with looking(request, user) as describer:
        return answer(catalog.job_page(describer, job_id))


@router.get("/jobs/{job_id}/runs")
def runs(
    request: Request, user: User, job_id: str, limit: Limit = 50, before: Text = "", before_run: Text = ""
) -> Response:
    """Runs of a job, newest first; `before` and `before_run` are `run_after` and `run_id` of the last one shown."""
    with looking(request, user) as describer:
        view = describer.jobs([job_id])[job_id]
        if view.restricted:
            return answer(None)
        start = (moment(before, "before"), before_run) if before else None
        return answer({"items": catalog.runs(describer, view, limit=limit, before=start)})


@router.get("/jobs/{job_id}/pairs")
def pairs(
    request: Request, user: User, job_id: str, run_id: Text = "", limit: Limit = 100, offset: Offset = 0
) -> Response:
    """Pairs of a job, over its runs or in one."""
    with looking(request, user) as describer:
        return answer(catalog.pairs(describer, job_id, run_id, limit=limit, offset=offset))


@router.get("/jobs/{job_id}/compare")
def compare(
    request: Request, user: User, job_id: str, at: Text, with_: Annotated[str, Query(alias="with", max_length=50)] = ""
) -> Response:
    """What changed in a job between two dates; the second is now by default."""
    with looking(request, user) as describer:
        return answer(comparing.compare(describer, job_id, moment(at, "at"), moment(with_, "with")))


@router.get("/graph")
def graph(
    request: Request,
    user: User,
    node: Id,
    up: Hops = 1,
    down: Hops = 1,
    limit: Annotated[int, Query(ge=1, le=traversal.GRAPH_MAX)] = traversal.GRAPH_LIMIT,
    as_of: Text = "",
    show: Show = Show.ALL,
) -> Response:
    """The surroundings of a dataset."""
    with looking(request, user) as describer:
        root, at = seen(describer, node), moment(as_of, "as_of")
        return answer(traversal.graph(describer, root, up=up, down=down, limit=limit, as_of=at, show=show))


@router.get("/impact")
def impact(
    request: Request,
    user: User,
    node: Id,
    direction: Direction = Direction.DOWN,
    as_of: Text = "",
    limit: Limit = traversal.PAGE_LIMIT,
    offset: Offset = 0,
    format: Annotated[str, Query(pattern="^(json|csv)$")] = "json",  # noqa: A002 - the name of the parameter
) -> Response:
    """All that a change reaches, or all that something may come from."""
    with looking(request, user) as describer:
        root, at = seen(describer, node), moment(as_of, "as_of")
        if format == "csv":
            return _csv(traversal.all_impact(describer, root, direction, at))
        return answer(traversal.impact(describer, root, direction=direction, as_of=at, limit=limit, offset=offset))


def _csv(items: Iterator[ImpactItem]) -> Response:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["distance", "namespace", "name", "owners", "teams", "flags", "jobs"])
    for item in items:
        view = item.dataset
        jobs_ = " ".join(job.dag_id for job in item.jobs if not job.restricted)
        name = view.id if view.restricted else view.name
        row = [str(item.distance), view.namespace, name, *map(" ".join, (view.owners, view.teams, view.flags)), jobs_]
        # A spreadsheet would carry out what looks like a formula.
        writer.writerow([f"'{cell}" if cell.startswith(_STARTS_FORMULA) else cell for cell in row])
    headers = {"Content-Disposition": 'attachment; filename="impact.csv"'}
    return Response(out.getvalue(), media_type="text/csv", headers=headers)


@router.get("/path")
def path(
    request: Request,
    user: User,
    source: Annotated[str, Query(alias="from", max_length=100)],
    target: Annotated[str, Query(alias="to", max_length=100)],
    as_of: Text = "",
) -> Response:
    """A shortest way from one dataset to another."""
    with looking(request, user) as describer:
        ends = seen(describer, source), seen(describer, target)
        return answer(traversal.path(describer, *ends, as_of=moment(as_of, "as_of")))


@router.get("/popularity")
def popularity(
    request: Request,
    user: User,
    dataset: Text = "",
    days: Annotated[int, Query(ge=1, le=366)] = POPULAR_DAYS,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Response:
    """How much one dataset is read day by day; without one, the most read datasets."""
    with looking(request, user) as describer:
        if dataset:
            return answer(by_day(describer, dataset, days=days))
        return answer({"items": most_popular(describer, limit=limit)})


@router.get("/stats")
def stats(request: Request, user: User) -> Response:
    """Numbers for the start page, of what the caller may see."""
    with looking(request, user) as describer:
        return answer(catalog.stats(describer))


@router.get("/health")
def health(request: Request, user: User) -> Response:
    """Whether the warehouse answers, and how far it was loaded."""
    try:
        with looking(request, user) as describer:
            loaded = describer.reader.loaded()
            waiting = describer.reader.count(StageRow)
    except KafkaHdfsError as error:
        log.warning("lineage: the warehouse is unhealthy: %s", error)
        return JSONResponse({"status": "unhealthy", "problem": public(error)}, status_code=503)
    return answer({"status": "healthy", "last_loaded": loaded, "runs_waiting": waiting})
