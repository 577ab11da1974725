"""Routes of `/lineage/api/v1/repair`: the plan, and its actions, each shown first and carried out only if confirmed."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, status
from fastapi.responses import Response
from pydantic import Field

from airflow_kafka_hdfs.lineage import repair
from airflow_kafka_hdfs.lineage.moments import moment
from airflow_kafka_hdfs.lineage.repair import RepairPlan, Step
from airflow_kafka_hdfs.plugins.lineage_actions import CallersAirflow, Done
from airflow_kafka_hdfs.plugins.lineage_api import answer, looking, seen
from airflow_kafka_hdfs.plugins.lineage_input import Body
from airflow_kafka_hdfs.plugins.lineage_security import AUDITED, OWN_SITE, User, may_edit, name_of
from airflow_kafka_hdfs.ports.lineage_rows import RepairFreezeRow

router = APIRouter(prefix="/repair")
writing = APIRouter(prefix="/repair", dependencies=[OWN_SITE, AUDITED])

Name = Annotated[str, Field(min_length=1, max_length=250)]


class Repair(Body):
    """Which repair is meant.

    Attributes:
        dag_ids: only these DAGs of the plan; all of it by default.
        confirm: False shows what would be done and does nothing.
    """

    dataset: Name
    start: Annotated[str, Field(alias="from", max_length=50)]
    end: Annotated[str, Field(alias="to", max_length=50)] = ""
    dag_ids: Annotated[list[Name] | None, Field(max_length=repair.MAX_JOBS)] = None
    confirm: bool = False


class Resume(Body):
    """Which repair is over; its recorded DAGs are resumed, no others."""

    repair_id: Name
    dag_ids: Annotated[list[Name] | None, Field(max_length=repair.MAX_JOBS)] = None
    confirm: bool = False


@router.get("")
def plan(
    request: Request,
    user: User,
    dataset: Annotated[str, Query(max_length=100)],
    start: Annotated[str, Query(alias="from", max_length=50)],
    end: Annotated[str, Query(alias="to", max_length=50)] = "",
) -> Response:
    """The plan, and which DAGs this repair keeps frozen."""
    found, frozen = _planned(request, user, dataset, start, end)
    return answer({"plan": found, "frozen": frozen})


def _planned(request: Request, user: Any, dataset: str, start: str, end: str) -> tuple[RepairPlan, tuple[str, ...]]:
    first, last = moment(start, "from", begins=True), moment(end, "to")
    if not start or first >= last:
        raise HTTPException(422, f"from {first.isoformat()} must lie before to {last.isoformat()}")
    with looking(request, user) as describer:
        found = repair.plan(describer, seen(describer, dataset), first, last, open_end=not end)
        rows = describer.reader.rows(RepairFreezeRow, ("repair_id",), [(found.id,)])
    own = {job.dag_id for job in found.freeze}
    return found, tuple(dag_id for dag_id in repair.frozen(rows) if dag_id in own)


@writing.post("/freeze")
def freeze(request: Request, user: User, body: Repair) -> Response:
    """Pause the DAGs downstream; those that were running are recorded, to be resumed later."""
    found, _ = _planned(request, user, body.dataset, body.start, body.end)
    jobs = {
        job.dag_id: job.id for job in found.freeze if job.link and (body.dag_ids is None or job.dag_id in body.dag_ids)
    }
    if not body.confirm:
        return answer({"repair_id": found.id, "would": {"pause": sorted(jobs)}, "refused": _refused(user, jobs)})
    done = [_freeze(request, user, found.id, dag_id, job_id) for dag_id, job_id in jobs.items()]
    return _told(done, repair_id=found.id)


def _freeze(request: Request, user: Any, repair_id: str, dag_id: str, job_id: str) -> Done:
    airflow, by = CallersAirflow(request), name_of(user)
    paused = airflow.is_paused(dag_id)
    if isinstance(paused, Done):
        return paused
    if paused:
        return Done(dag_id=dag_id, what="unchanged")
    warehouse, now = request.app.state.warehouse(), datetime.now(UTC)
    # Written down before it is done: whatever dies in between, what was running can be resumed.
    with warehouse.transaction() as tx:
        repair.note_frozen(tx, repair_id, {dag_id: job_id}, by=by, now=now)
    done = airflow.pause(dag_id, paused=True)
    if done.problem:
        with warehouse.transaction() as tx:
            repair.note_resumed(tx, repair_id, [dag_id], by=by, now=now)
    return done


@writing.post("/rerun")
def rerun(request: Request, user: User, body: Repair) -> Response:
    """Run jobs of the plan again: a backfill over their dates, or their runs cleared; frozen ones are resumed."""
    found, frozen = _planned(request, user, body.dataset, body.start, body.end)
    steps = [step for step in found.steps if step.job.link and step.job.dag_id in (body.dag_ids or ())]
    if not steps:
        raise HTTPException(422, "dag_ids: name DAGs of the plan's steps; they are run again one after the other")
    if not body.confirm:
        dag_ids = [step.job.dag_id for step in steps]
        would = {"run": steps, "resume": [dag_id for dag_id in dag_ids if dag_id in frozen]}
        return answer({"would": would, "refused": _refused(user, dag_ids)})
    done = [one for step in steps for one in _run_again(request, user, found.id, step, frozen)]
    return _told(done, repair_id=found.id)


def _run_again(request: Request, user: Any, repair_id: str, step: Step, frozen: Collection[str]) -> list[Done]:
    """Airflow starts no run of a paused DAG: one that this repair froze is resumed once its runs are waiting."""
    airflow, dag_id = CallersAirflow(request), step.job.dag_id
    done = airflow.run_again(step)
    if all(one.problem for one in done):
        return done
    if dag_id in frozen:
        resumed = airflow.pause(dag_id, paused=False)
        if not resumed.problem:
            with request.app.state.warehouse().transaction() as tx:
                repair.note_resumed(tx, repair_id, [dag_id], by=name_of(user), now=datetime.now(UTC))
        return [*done, resumed]
    waits = airflow.is_paused(dag_id) is True
    return [*done, Done(dag_id=dag_id, what="its runs wait: somebody paused this DAG")] if waits else done


@writing.post("/resume")
def resume(request: Request, user: User, body: Resume) -> Response:
    """Resume exactly the DAGs that the repair paused."""
    with looking(request, user) as describer:
        rows = describer.reader.rows(RepairFreezeRow, ("repair_id",), [(body.repair_id,)])
        jobs = describer.access.readable(row.job_id for row in rows)
        readable = {row.dag_id for row in rows if row.job_id in jobs}
    frozen = [
        dag_id
        for dag_id in repair.frozen(rows)
        if dag_id in readable and (body.dag_ids is None or dag_id in body.dag_ids)
    ]
    if not readable:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no such repair has paused a DAG that you may read")
    if not body.confirm:
        return answer({"would": {"resume": frozen}, "refused": _refused(user, frozen)})
    airflow = CallersAirflow(request)
    done = [airflow.pause(dag_id, paused=False) for dag_id in frozen]
    good = [item.dag_id for item in done if not item.problem]
    with request.app.state.warehouse().transaction() as tx:
        repair.note_resumed(tx, body.repair_id, good, by=name_of(user), now=datetime.now(UTC))
    return _told(done, repair_id=body.repair_id)


def _refused(user: Any, dag_ids: Any) -> list[str]:
    """Those that the caller may not change."""
    return sorted(set(dag_ids) - may_edit(user, dag_ids))


def _told(done: list[Done], **more: str) -> Response:
    return answer({**more, "done": done, "failed": sum(bool(item.problem) for item in done)})
