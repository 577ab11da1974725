"""What a repair does to Airflow, through Airflow's public REST and with the caller's own login.

So Airflow checks the caller's rights and writes its audit log, as for a click on its pages. The call stays inside this
process: no address of the server has to be known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from anyio import from_thread
from fastapi import HTTPException, Request

from airflow_kafka_hdfs.lineage.repair import BACKFILL, Step
from airflow_kafka_hdfs.plugins.lineage_app import AIRFLOW

_KEPT = ("authorization", "cookie")
_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What became of one action.

    Attributes:
        problem: why it could not be done, empty if it was.
    """

    dag_id: str
    what: str
    problem: str = ""


class CallersAirflow:
    """Airflow's REST as the caller of a request sees it.

    Args:
        request: whose login is used.
    """

    def __init__(self, request: Request) -> None:
        app = request.scope.get(AIRFLOW)
        if app is None:
            raise HTTPException(501, "this server is not Airflow's API server: it cannot act on DAGs")
        self._app: Any = app
        self._headers = {name: request.headers[name] for name in _KEPT if name in request.headers}
        self._host = f"{request.url.scheme}://{request.url.netloc}"

    def is_paused(self, dag_id: str) -> bool | Done:
        """Whether a DAG is paused; what was the problem if the caller may not know."""
        found = self._call("GET", _dag(dag_id))
        if found.is_success:
            return bool(found.json()["is_paused"])
        return Done(dag_id=dag_id, what="look", problem=_problem(found))

    def pause(self, dag_id: str, *, paused: bool) -> Done:
        """Pause or resume a DAG."""
        found = self._call("PATCH", f"{_dag(dag_id)}?update_mask=is_paused", {"is_paused": paused})
        return Done(dag_id=dag_id, what="paused" if paused else "resumed", problem=_problem(found))

    def run_again(self, step: Step) -> list[Done]:
        """Run a job again: one backfill over its dates, or its runs cleared one by one."""
        dag_id = step.job.dag_id
        if step.how == BACKFILL and step.first is not None and step.last is not None:
            body = {
                "dag_id": dag_id,
                "from_date": step.first.isoformat(),
                "to_date": step.last.isoformat(),
                "reprocess_behavior": "completed",
            }
            return [Done(dag_id=dag_id, what=BACKFILL, problem=_problem(self._call("POST", "/api/v2/backfills", body)))]
        done = []
        for run_id in step.run_ids:
            answer = self._call("POST", f"{_dag(dag_id)}/dagRuns/{quote(run_id, safe='')}/clear", {"dry_run": False})
            done.append(Done(dag_id=dag_id, what=f"clear {run_id}", problem=_problem(answer)))
        return done

    def _call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url=self._host, timeout=_SECONDS) as client:
                return await client.request(method, path, json=body, headers=self._headers)

        return from_thread.run(call)


def _problem(answer: httpx.Response) -> str:
    if answer.is_success:
        return ""
    try:
        detail = answer.json().get("detail", answer.text)
    except (ValueError, AttributeError):
        detail = answer.text
    return f"{answer.status_code}: {str(detail)[:300]}"


def _dag(dag_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id, safe='')}"
