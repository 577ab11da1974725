"""What tests ask Airflow over REST: tokens, DAGs, runs, tasks, logs, backfills."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import requests

from tests.stack.process import Child, ServiceError, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]

_ENDED = ("success", "failed")


class AirflowRest(ABC):
    """The REST face of a running Airflow."""

    _token: str | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Base of the pages and of REST: ``http://127.0.0.1:port``."""

    @property
    @abstractmethod
    def users(self) -> Mapping[str, str]:
        """Name -> role; the password is the name. Empty = everyone is admin."""

    @property
    @abstractmethod
    def children(self) -> Sequence[Child]:
        """The processes that must stay alive while something is waited for."""

    def token(self, user: str | None = None) -> str:
        """A bearer token of one of `users` (None: the first)."""
        if not self.users:
            answer = requests.get(f"{self.url}/auth/token", timeout=30)
        else:
            name = user or next(iter(self.users))
            body = {"username": name, "password": name}
            answer = requests.post(f"{self.url}/auth/token", json=body, timeout=30)
        return str(_checked(answer)["access_token"])

    def request(self, method: str, path: str, body: Json | None = None, **parameters: object) -> Any:
        """One REST call: `path` below ``/api/v2`` if it does not start with a slash; returns the JSON answer.

        Raises:
            ServiceError: Any answer but success; the text shows it.
        """
        self._token = self._token or self.token()
        answer = requests.request(
            method,
            self.url + (path if path.startswith("/") else f"/api/v2/{path}"),
            json=body,
            params={name: str(value) for name, value in parameters.items()},
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=60,
        )
        return _checked(answer)

    def get(self, path: str, **parameters: object) -> Any:
        """GET, see `request`."""
        return self.request("GET", path, None, **parameters)

    def post(self, path: str, body: Json) -> Any:
        """POST, see `request`."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: Json) -> Any:
        """PATCH, see `request`."""
        return self.request("PATCH", path, body)

    def wait_dag(self, dag_id: str, timeout: float = 90.0) -> Json:
        """Wait until the DAG processor has stored a DAG, and return it; an import error ends the wait."""

        def found() -> Json | None:
            self.raise_import_errors()
            answer = requests.get(f"{self.url}/api/v2/dags/{dag_id}", headers=self._headers(), timeout=30)
            return None if answer.status_code == requests.codes.not_found else _checked(answer)

        return wait_until(found, what=f"DAG {dag_id} is known", timeout=timeout, children=self.children, every=0.5)

    def raise_import_errors(self) -> None:
        """Raise ``ImportError`` with the text of each DAG file that can't be imported."""
        errors = self.get("importErrors")["import_errors"]
        if errors:
            raise ImportError("\n".join(f"{one['filename']}: {one['stack_trace']}" for one in errors))

    def unpause(self, dag_id: str) -> None:
        """Wait until a DAG is known, and let its schedule and its runs go."""
        self.wait_dag(dag_id)
        self.patch(f"dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: Json | None = None, **fields: object) -> str:
        """Start a run (without a logical date, unless `fields` name one) and return its id."""
        body = {"logical_date": None, "conf": conf or {}} | fields
        return str(self.post(f"dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        """State of a run: queued, running, success, failed."""
        return str(self.get(f"dags/{dag_id}/dagRuns/{run_id}")["state"])

    def wait_run(self, dag_id: str, run_id: str, timeout: float = 180.0) -> str:
        """Wait until a run has ended and return its state; a time-out names the states of its tasks."""

        def ended() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in _ENDED else None

        try:
            return wait_until(ended, what=f"run {run_id} ends", timeout=timeout, children=self.children, every=0.5)
        except ServiceError as error:
            states = {_label(one): one["state"] for one in self.task_instances(dag_id, run_id)}
            raise ServiceError(f"{error}\n--- tasks: {states}") from error

    def run_to_end(self, dag_id: str, conf: Json | None = None, *, timeout: float = 180.0) -> tuple[str, str]:
        """Unpause, trigger, wait: returns the run id and the state."""
        self.unpause(dag_id)
        run_id = self.trigger(dag_id, conf)
        return run_id, self.wait_run(dag_id, run_id, timeout)

    def runs(self, dag_id: str, **filters: object) -> list[Json]:
        """Runs of a DAG, for example ``run_type="backfill"``, oldest first."""
        answer = self.get(f"dags/{dag_id}/dagRuns", limit=100, order_by="id", **filters)
        found: list[Json] = answer["dag_runs"]
        return found

    def task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """All task instances of a run, each index of a mapped task for itself (``map_index``)."""
        found: list[Json] = []
        while True:
            path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances"
            page = self.get(path, limit=100, offset=len(found))
            found += page["task_instances"]
            if len(found) >= page["total_entries"] or not page["task_instances"]:
                return found

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """``task`` or ``task[map index]`` -> state."""
        return {_label(one): one["state"] for one in self.task_instances(dag_id, run_id)}

    def xcom(self, dag_id: str, run_id: str, task_id: str, *, key: str = "return_value", map_index: int = -1) -> Any:
        """A value that a task left, as JSON gives it."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.get(path, map_index=map_index, deserialize=False)["value"]

    def state_store(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> Json:
        """Key -> value of the task state store of one task instance; empty before it wrote anything."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store"
        entries = self.get(path, map_index=map_index, limit=100)["task_state_store"]
        return {entry["key"]: entry["value"] for entry in entries}

    def logs(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1, attempt: int = 1) -> str:
        """The log of one attempt of a task, a line per event, with the traceback of a failure."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{attempt}"
        content = self.get(path, map_index=map_index, full_content=True)["content"]
        return "\n".join(line if isinstance(line, str) else _log_line(line) for line in content)

    def clear(
        self,
        dag_id: str,
        run_id: str,
        tasks: Sequence[str | tuple[str, int]] | None = None,
        *,
        downstream: bool = True,
        only_failed: bool = False,
    ) -> list[str]:
        """Clear tasks of a run, so that they run again, and return their names.

        Args:
            dag_id: DAG.
            run_id: Run.
            tasks: Task ids, or (task id, map index); None = all.
            downstream: Also what comes after them.
            only_failed: Leave those that succeeded.
        """
        body: Json = {
            "dry_run": False,
            "dag_run_id": run_id,
            "include_downstream": downstream,
            "only_failed": only_failed,
        }
        if tasks is not None:
            body["task_ids"] = [task if isinstance(task, str) else list(task) for task in tasks]
        answer = self.post(f"dags/{dag_id}/clearTaskInstances", body)
        return [_label(one) for one in answer["task_instances"]]

    def backfill(
        self,
        dag_id: str,
        from_date: str,
        to_date: str,
        *,
        max_active_runs: int = 1,
        reprocess: str = "none",
        conf: Json | None = None,
        backwards: bool = False,
    ) -> int:
        """Create a backfill over both dates (ISO texts, both included) and return its id."""
        body = {
            "dag_id": dag_id,
            "from_date": from_date,
            "to_date": to_date,
            "max_active_runs": max_active_runs,
            "reprocess_behavior": reprocess,
            "run_backwards": backwards,
            "dag_run_conf": conf or {},
        }
        return int(self.post("backfills", body)["id"])

    def wait_backfill(self, dag_id: str, runs: int, timeout: float = 300.0) -> dict[str, str]:
        """Wait until `runs` backfill runs of a DAG exist and all have ended: run id -> state.

        The mark of the backfill itself comes up to half a minute later, so it is not what is waited for.
        """

        def ended() -> dict[str, str] | None:
            states = {one["dag_run_id"]: one["state"] for one in self.runs(dag_id, run_type="backfill")}
            return states if len(states) >= runs and set(states.values()) <= set(_ENDED) else None

        what = f"{runs} backfill runs of {dag_id} have ended"
        return wait_until(ended, what=what, timeout=timeout, children=self.children, every=0.5)

    def wait_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        *states: str,
        map_index: int = -1,
        timeout: float = 120.0,
    ) -> Json:
        """Wait until a task instance has one of `states`, and return it."""

        def reached() -> Json | None:
            for one in self.task_instances(dag_id, run_id):
                if (one["task_id"], one["map_index"]) == (task_id, map_index) and one["state"] in states:
                    return one
            return None

        what = f"{task_id}[{map_index}] of {run_id} is {' or '.join(states)}"
        return wait_until(reached, what=what, timeout=timeout, children=self.children, every=0.3)

    def _headers(self) -> dict[str, str]:
        self._token = self._token or self.token()
        return {"Authorization": f"Bearer {self._token}"}


def _checked(answer: requests.Response) -> Any:
    if not answer.ok:
        raise ServiceError(
            f"{answer.request.method} {answer.request.path_url} -> {answer.status_code}: {answer.text[:2000]}"
        )
    return answer.json() if answer.content else None


def _label(instance: Json) -> str:
    task, index = str(instance["task_id"]), instance["map_index"]
    return task if index < 0 else f"{task}[{index}]"


def _log_line(line: Json) -> str:
    details = line.get("error_detail") or []
    trouble = "".join(f"\n  {one.get('exc_type')}: {one.get('exc_value')}" for one in details)
    return f"{line.get('timestamp') or ''} {line.get('level') or ''} {line.get('event')}{trouble}".strip()
