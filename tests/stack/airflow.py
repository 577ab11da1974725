"""A whole Airflow on the loopback address: scheduler with local workers, DAG processor, API server,
triggerer.

The parts of ``airflow standalone``, each a process of its own: that is one Python program less than the
command itself, gives each part its log, and lets a test end one of them.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
import requests

from tests.stack.process import Child, Service, ServiceError, free_port, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.stack.postgres import PostgresServer

Json = dict[str, Any]

_ENDED = ("success", "failed")
_READY_SECONDS = 180.0


class AirflowStandalone(Service):
    """Airflow with its metadata in PostgreSQL, or in SQLite (whose lock errors can take the scheduler down).

    Args:
        home: AIRFLOW_HOME: configuration, task logs, the logs of the parts (``logs/parts``).
        dags_folder: Folder with the DAG files.
        postgres: A running server; the metadata goes into a new database on it. None = SQLite in `home`.
        parallelism: Number of workers of the LocalExecutor.
        env: Variables on top of ours, such as ``AIRFLOW_CONN_…`` and ``AIRFLOW__…``.
        users: Name -> role (``admin``, ``op``, ``user``, ``viewer``); the password is the name. Empty =
            everyone is admin and no page asks for a name.
        triggerer: False spares a process if no task is deferrable.
        detached: The processes outlive this one.
    """

    def __init__(
        self,
        home: Path,
        dags_folder: Path,
        postgres: PostgresServer | None,
        *,
        parallelism: int = 2,
        env: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        triggerer: bool = True,
        detached: bool = False,
    ) -> None:
        self.home = home
        self.dags_folder = dags_folder
        self.port = free_port()
        self.users = {"admin": "admin"} if users is None else dict(users)
        self._postgres = postgres
        self._database = f"airflow_{secrets.token_hex(4)}"
        self._parallelism = parallelism
        self._extra = dict(env or {})
        self._token: str | None = None
        self.env = self._make_env()
        home.mkdir(parents=True, exist_ok=True)
        names = ["api-server", "scheduler", "dag-processor", *(["triggerer"] if triggerer else [])]
        self._parts = {
            name: Child(name, self._command(name), home / "logs" / "parts", env=self.env, detached=detached)
            for name in names
        }

    @property
    def children(self) -> Sequence[Child]:
        return list(self._parts.values())

    @property
    def url(self) -> str:
        """Base of the pages and of REST: ``http://127.0.0.1:port``."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        if self._postgres is not None and not (self.home / "migrated").exists():
            self._postgres.create_database(self._database)
        passwords = self.home / "simple_auth_manager_passwords.json.generated"
        passwords.write_text(json.dumps({name: name for name in self.users}))
        self.cli("db", "migrate", timeout=300)
        (self.home / "migrated").touch()
        for child in self.children:
            child.start()
        self.wait_ready()
        return self

    def wait_ready(self, timeout: float = _READY_SECONDS) -> None:
        """Wait until the API server answers and all other parts send heartbeats."""
        wanted = {"metadatabase", *(name.replace("-", "_") for name in self._parts if name != "api-server")}

        def healthy() -> bool:
            answer = requests.get(f"{self.url}/api/v2/monitor/health", timeout=10).json()
            return all(answer[part]["status"] == "healthy" for part in wanted) and self._scheduler_is_new(
                answer
            )

        wait_until(healthy, what="Airflow is healthy", timeout=timeout, children=self.children, every=0.5)

    def cli(self, *words: str, timeout: float = 120.0) -> str:
        """Run ``airflow <words>`` in the environment of this Airflow and return what it printed."""
        return run(
            self._command(*words),
            what=" ".join(["airflow", *words]),
            timeout=timeout,
            env=self.env,
            cwd=self.home,
        )

    # -- REST

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

    # -- DAGs and runs

    def wait_dag(self, dag_id: str, timeout: float = 90.0) -> Json:
        """Wait until the DAG processor has stored a DAG, and return it; an import error ends the wait."""

        def found() -> Json | None:
            self.raise_import_errors()
            answer = requests.get(f"{self.url}/api/v2/dags/{dag_id}", headers=self._headers(), timeout=30)
            return None if answer.status_code == requests.codes.not_found else _checked(answer)

        return wait_until(
            found, what=f"DAG {dag_id} is known", timeout=timeout, children=self.children, every=0.5
        )

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
        """Wait until a run has ended and return its state; the states of its tasks stand in a time-out's text."""

        def ended() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in _ENDED else None

        try:
            return wait_until(
                ended, what=f"run {run_id} ends", timeout=timeout, children=self.children, every=0.5
            )
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

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, *, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """A value that a task left, as JSON gives it."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.get(path, map_index=map_index, deserialize=False)["value"]

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
        """Create a backfill over both dates (ISO texts, both included) and return its id; see `wait_backfill`."""
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

    # -- Accidents

    def kill_task(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> int:
        """End the process of a running task by SIGKILL and return its number."""
        instance = self.wait_task(dag_id, run_id, task_id, "running", map_index=map_index)
        pid = instance["pid"]
        ours = {process.pid: process for process in self._parts["scheduler"].process_id.family()}
        if pid not in ours:
            raise ServiceError(f"process {pid} of {task_id} is not one of our scheduler's: {sorted(ours)}")
        ours[pid].kill()
        return int(pid)

    def kill_scheduler(self) -> None:
        """End the scheduler and its workers by SIGKILL."""
        self._parts["scheduler"].kill()

    def start_scheduler(self) -> None:
        """Start the scheduler again, and wait until it sends heartbeats."""
        self._parts["scheduler"].start()
        self.wait_ready()

    def part(self, name: str) -> Child:
        """The process of a part: ``api-server``, ``scheduler``, ``dag-processor``, ``triggerer``."""
        return self._parts[name]

    def memory(self) -> int:
        """Bytes of memory that belong to this Airflow alone, over all its processes (Linux: USS)."""
        return sum(
            int(process.memory_full_info().uss)
            for child in self.children
            if child.is_running()
            for process in child.process_id.family()
            if process.status() != psutil.STATUS_ZOMBIE
        )

    def _scheduler_is_new(self, health: Json) -> bool:
        """Whether the heartbeat is of the process that runs: a killed one counts as healthy for half a minute."""
        heartbeat = dt.datetime.fromisoformat(health["scheduler"]["latest_scheduler_heartbeat"])
        return heartbeat.timestamp() >= self._parts["scheduler"].process_id.started

    # -- Settings

    def _headers(self) -> dict[str, str]:
        self._token = self._token or self.token()
        return {"Authorization": f"Bearer {self._token}"}

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "airflow", *words]

    def _make_env(self) -> dict[str, str]:
        """Our environment without any setting of another Airflow, with those that make this one quick and alone."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        settings = {
            "CORE__DAGS_FOLDER": str(self.dags_folder),
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(self._parallelism),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{name}:{role}" for name, role in self.users.items()
            ),
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": str(not self.users),
            # All parts must sign and check tokens with one key; each would make up its own.
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "API__SECRET_KEY": secrets.token_hex(32),
            "API__HOST": "127.0.0.1",
            "API__PORT": str(self.port),
            "API__BASE_URL": f"http://127.0.0.1:{self.port}",  # without it the workers call port 8080
            "API__WORKERS": "1",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "DAG_PROCESSOR__REFRESH_INTERVAL": "3",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3",
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        if self._postgres is not None:
            url = self._postgres.sqlalchemy_url(self._database)
            settings["DATABASE__SQL_ALCHEMY_CONN"] = url
            settings["DATABASE__SQL_ALCHEMY_CONN_ASYNC"] = self._postgres.sqlalchemy_url(
                self._database, "asyncpg"
            )
        bin_folder = Path(sys.executable).parent  # scripts that tasks and listeners may call
        path = os.pathsep.join([str(bin_folder), os.environ.get("PATH", os.defpath)])
        named = {f"AIRFLOW__{name}": value for name, value in settings.items()}
        return kept | {"AIRFLOW_HOME": str(self.home), "PATH": path} | named | self._extra


def _checked(answer: requests.Response) -> Any:
    if not answer.ok:
        raise ServiceError(
            f"{answer.request.method} {answer.request.path_url}: HTTP {answer.status_code}:
            {answer.text[:2000]}"
        )
    return answer.json() if answer.content else None


def _label(instance: Json) -> str:
    task, index = str(instance["task_id"]), instance["map_index"]
    return task if index < 0 else f"{task}[{index}]"


def _log_line(line: Json) -> str:
    details = line.get("error_detail") or []
    trouble = "".join(f"\n  {one.get('exc_type')}: {one.get('exc_value')}" for one in details)
    return f"{line.get('timestamp') or ''} {line.get('level') or ''} {line.get('event')}{trouble}".strip()
