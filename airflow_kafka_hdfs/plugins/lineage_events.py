"""What others tell over `/lineage/api/v1`: events of OpenLineage, and relations between jobs and datasets.

Who may tell: of a DAG of this Airflow whoever may edit it, of anything else whoever may post events of assets. What is
told never shows the caller a dataset that was hidden before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, status
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage import receiving
from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.lineage.events import DatasetDetail, Job
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.openlineage import EventReader, OpenLineageEvent
from airflow_kafka_hdfs.lineage.registration import datasets_of
from airflow_kafka_hdfs.lineage.relations import MAX_RELATIONS, post_relations
from airflow_kafka_hdfs.lineage.workflow import decode_dataset, key_text
from airflow_kafka_hdfs.plugins.lineage_api import answer, looking
from airflow_kafka_hdfs.plugins.lineage_input import Body
from airflow_kafka_hdfs.plugins.lineage_security import AUDITED, OWN_SITE, User, audit, may_edit, may_tell
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, JobRow

router = APIRouter(dependencies=[OWN_SITE])
MAX_BODY = 16 * 1024 * 1024
MAX_EVENTS = 1_000

Name = Annotated[str, Field(min_length=1, max_length=2_000)]


async def _body(request: Request, user: User) -> bytes:
    """The body, read only for callers that are logged in and only up to the limit."""
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > MAX_BODY:
            raise HTTPException(413, f"the body has more than {MAX_BODY} bytes; send fewer events at once")
    return bytes(found)


@router.post("/events")
def post_events(request: Request, user: User, raw: Annotated[bytes, Depends(_body)]) -> Response:
    """One event of OpenLineage, or a list of them; those that can't be used are told, and kept with the reason."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise HTTPException(422, f"the body is no JSON: {type(error).__name__}") from error
    documents = body if isinstance(body, list) else [body]
    if len(documents) > MAX_EVENTS:
        raise HTTPException(422, f"got {len(documents)} events, at most {MAX_EVENTS} at once")
    settings = request.app.state.hook.settings
    taken = receiving.take(EventReader(settings), documents)
    events = [item.event for item in taken if item.event is not None]
    jobs = {message.envelope.job for event in events for message in event.messages}
    _may_tell_of(user, jobs, settings.instance, others=len(events) < len(taken))
    with looking(request, user) as describer:
        for event in events:
            _refuse_hidden(request, describer, _job(event), datasets_of(event.messages))
        taken = receiving.without_old(describer.reader, taken)
        events = [item.event for item in taken if item.event is not None]
    with request.app.state.warehouse().transaction() as tx:
        fresh = receiving.store(tx, taken, datetime.now(UTC))
    rejected = [{"index": number, "reason": item.problem} for number, item in enumerate(taken) if item.problem]
    audit(user, "post_lineage_events", accepted=len(events), rejected=len(rejected), jobs=_names(jobs))
    told = {"accepted": len(events), "new": fresh, "rejected": rejected}
    if rejected and not events:
        return JSONResponse({"detail": rejected[0]["reason"], **told}, status_code=422)
    return answer(told)


def _job(event: OpenLineageEvent) -> Job:
    return event.messages[0].envelope.job


def _names(jobs: Iterable[Job]) -> list[str]:
    return sorted({f"{job.instance}/{job.dag_id}" for job in jobs if job.dag_id})[:20]


def _may_tell_of(user: Any, jobs: Collection[Job], instance: str, *, others: bool = False) -> None:
    """403 unless the caller may tell of every one of these jobs; `others`: and of what is no job of ours."""
    own = {job.dag_id for job in jobs if job.instance == instance and job.dag_id}
    refused = own - may_edit(user, own) if own else set()
    if refused:
        raise HTTPException(
            status.HTTP_403_FORBIDDEN, f"needs the right to edit DAG {', '.join(sorted(refused)[:5])} of this Airflow"
        )
    if (others or any(job.instance != instance or not job.dag_id for job in jobs)) and not may_tell(user):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN, "needs the right to post events of assets, for jobs outside this Airflow"
        )


def _refuse_hidden(request: Request, describer: Describer, job: Job, datasets: Iterable[DatasetId]) -> None:
    """403 if a job that the caller can see would make a dataset visible that the caller can't."""
    settings = request.app.state.hook.settings
    if job.instance != settings.instance and job.instance not in settings.open_instances:
        return
    keys = {dataset.key: dataset for dataset in datasets}
    reader = describer.reader
    known = {row.dataset_id for row in reader.rows(DatasetRow, ("dataset_id",), [(key,) for key in keys])}
    hidden = known - describer.access.visible(reader, known)
    if hidden:
        name = min(str(keys[key]) for key in hidden)
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"dataset {name}: you may not read any DAG that touches it")


class DatasetRef(Body):
    """One dataset: by id, by URI, or by namespace and name."""

    id: Annotated[str, Field(max_length=100)] = ""
    uri: Annotated[str, Field(max_length=2_500)] = ""
    namespace: Annotated[str, Field(max_length=500)] = ""
    name: Annotated[str, Field(max_length=2_000)] = ""


class JobRef(Body):
    """One job: by id, or by name; without a namespace it is a DAG of this Airflow."""

    id: Annotated[str, Field(max_length=100)] = ""
    namespace: Annotated[str, Field(max_length=500)] = ""
    name: Annotated[str, Field(max_length=500)] = ""


class Relations(Body):
    """What a job reads and writes.

    Attributes:
        replace: what was posted of the job before is taken back first.
    """

    job: JobRef
    inputs: Annotated[list[DatasetRef], Field(max_length=MAX_RELATIONS)] = []
    outputs: Annotated[list[DatasetRef], Field(max_length=MAX_RELATIONS)] = []
    replace: bool = False


@router.post("/relations", dependencies=[AUDITED])
def relations(request: Request, user: User, body: Relations) -> Response:
    """Say what a job reads and writes; pairs follow from that by themselves."""
    with looking(request, user) as describer:
        job = _known_job(request, describer, body.job)
        _may_tell_of(user, [job], request.app.state.instance())
        inputs, outputs = (
            [_dataset(request, describer, found) for found in refs] for refs in (body.inputs, body.outputs)
        )
        _refuse_hidden(request, describer, job, [detail.dataset for detail in (*inputs, *outputs)])
    with request.app.state.warehouse().transaction() as tx:
        now = datetime.now(UTC)
        posted = post_relations(tx, job, inputs, outputs, now=now, take_back=body.replace)
    return answer(posted)


def _known_job(request: Request, describer: Describer, ref: JobRef) -> Job:
    if ref.id:
        row: JobRow | None = describer.job_rows([ref.id]).get(ref.id)
        if row is None or not describer.access.reads(ref.id):
            answer(None)
        else:
            return Job(instance=row.instance, dag_id=row.dag_id, domain=row.domain)
    if not ref.name:
        raise HTTPException(422, "job: give id, or name (and namespace for a job outside this Airflow)")
    instance = ref.namespace or request.app.state.instance()
    try:
        domain = "Airflow" if instance == request.app.state.instance() else "OpenLineage"
        return Job(instance=key_text(instance), dag_id=key_text(ref.name), domain=domain)
    except ValueError as error:
        raise HTTPException(422, f"job: {error}") from error


def _dataset(request: Request, describer: Describer, ref: DatasetRef) -> DatasetDetail:
    if ref.id:
        view = describer.datasets([ref.id]).get(ref.id)
        if view is None or view.restricted:
            answer(None)
        else:
            return DatasetDetail(dataset=DatasetId(view.namespace, view.name))
    naming = request.app.state.hook.settings.naming
    try:
        found = naming.resolve(ref.uri) if ref.uri else naming.of_pair(ref.namespace, ref.name)
        dataset = decode_dataset(found.dataset.namespace, found.dataset.name)
    except (LineageError, ValueError) as error:
        raise HTTPException(422, str(error)) from error
    if "\x00" in str(dataset):
        raise HTTPException(422, "dataset: a name can't hold a NUL character")
    return DatasetDetail(dataset=dataset)
