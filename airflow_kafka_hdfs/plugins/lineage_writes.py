"""The writing routes of `/lineage/api/v1`: each audited by Airflow, and closed to calls from other web sites."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request, status
from fastapi.responses import Response
from pydantic import Field

from airflow_kafka_hdfs.lineage import recording
from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.plugins.lineage_api import answer, looking
from airflow_kafka_hdfs.plugins.lineage_input import Body
from airflow_kafka_hdfs.plugins.lineage_security import AUDITED, OWN_SITE, User, may_edit, may_tell, name_of
from airflow_kafka_hdfs.ports.lineage_rows import RelationRow

router = APIRouter(dependencies=[OWN_SITE, AUDITED])

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Responsibility(Body):
    """Who has a role for a job or dataset."""

    entity: Name
    role: Annotated[str, Field(max_length=40)] = recording.STEWARD
    parties: Annotated[list[str], Field(max_length=recording.MAX_PARTIES)]


@router.put("/responsibilities")
def put_responsibilities(request: Request, user: User, body: Responsibility) -> Response:
    """Say who answers; needs the right to edit the job's DAG, or that of a job that touches the dataset."""
    with looking(request, user) as describer:
        _may_change(describer, user, body.entity, request.app.state.instance())
    with request.app.state.warehouse().transaction() as tx:
        rows = recording.set_responsible(
            tx, body.entity, body.role, body.parties, by=name_of(user), now=datetime.now(UTC)
        )
    return answer({"entity": body.entity, "role": body.role, "parties": [row.party for row in rows]})


def _may_change(describer: Describer, user: Any, entity_id: str, instance: str) -> None:
    """404 for what the caller may not see, 403 for what the caller may only see."""
    jobs = describer.job_rows([entity_id])
    if not jobs:
        view = describer.datasets([entity_id]).get(entity_id)
        if view is None or view.restricted:
            answer(None)
        related = describer.reader.rows(RelationRow, ("dataset_id",), [(entity_id,)])
        jobs = describer.job_rows(row.job_id for row in related)
    readable = [jobs[job_id] for job_id in describer.access.readable(jobs)]
    if not readable:
        answer(None)
    # A DAG of another deployment may have the name of one here.
    own = {job.dag_id for job in readable if job.instance == instance}
    if not may_edit(user, own) and not (len(own) < len(readable) and may_tell(user)):
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "needs the right to edit one of the DAGs behind it, or, for jobs outside this Airflow, to post events of "
            "assets",
        )
