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
from typing import TYPE_CHECKING, Self

import psutil
import requests

from tests.stack.airflow_rest import AirflowRest, Json
from tests.stack.process import Child, Service, ServiceError, free_port, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.stack.postgres import PostgresServer

_READY_SECONDS = 240.0


class AirflowStandalone(AirflowRest, Service):
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
    ) -> None:
        self.home = home
        self.dags_folder = dags_folder
        self.port = free_port()
        self._users = {"admin": "admin"} if users is None else dict(users)
        self._postgres = postgres
        self._database = f"airflow_{secrets.token_hex(4)}"
        self._parallelism = parallelism
        self._extra = dict(env or {})
        self.env = self._make_env()
        home.mkdir(parents=True, exist_ok=True)
        names = ["api-server", "scheduler", "dag-processor", *(["triggerer"] if triggerer else [])]
        self._parts = {name: Child(name, self._command(name), home / "logs" / "parts", env=self.env) for name in names}

    @property
    def children(self) -> Sequence[Child]:
        return list(self._parts.values())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def users(self) -> Mapping[str, str]:
        return self._users

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
            return all(answer[part]["status"] == "healthy" for part in wanted) and self._scheduler_is_new(answer)

        def serves_workers() -> bool:
            return requests.get(f"{self.url}/execution/health/ping", timeout=60).ok

        wait_until(healthy, what="Airflow is healthy", timeout=timeout, children=self.children, every=0.5)
        wait_until(serves_workers, what="Airflow's API serves its workers", timeout=60, children=self.children)

    def cli(self, *words: str, timeout: float = 120.0) -> str:
        """Run ``airflow <words>`` in the environment of this Airflow and return what it printed."""
        return run(
            self._command(*words),
            what=" ".join(["airflow", *words]),
            timeout=timeout,
            env=self.env,
            cwd=self.home,
        )

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
        """Whether the heartbeat is the running scheduler's: a killed one counts as healthy for 30 s."""
        heartbeat = dt.datetime.fromisoformat(health["scheduler"]["latest_scheduler_heartbeat"])
        return heartbeat.timestamp() >= self._parts["scheduler"].process_id.started

    # -- Settings

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "airflow", *words]

    def _make_env(self) -> dict[str, str]:
        """Our environment without settings of another Airflow, with those that make this one quick."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        settings = {
            "CORE__DAGS_FOLDER": str(self.dags_folder),
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": str(self._parallelism),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in self.users.items()),
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
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",  # a changed file is parsed at the next refresh
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
            # A busy machine: by default a request over 5 s counts as failed, and three of them end a healthy task.
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            "WORKERS__MAX_FAILED_HEARTBEATS": "10",
        }
        if self._postgres is not None:
            url = self._postgres.sqlalchemy_url(self._database)
            settings["DATABASE__SQL_ALCHEMY_CONN"] = url
            settings["DATABASE__SQL_ALCHEMY_CONN_ASYNC"] = self._postgres.sqlalchemy_url(self._database, "asyncpg")
        bin_folder = Path(sys.executable).parent  # scripts that tasks and listeners may call
        path = os.pathsep.join([str(bin_folder), os.environ.get("PATH", os.defpath)])
        named = {f"AIRFLOW__{name}": value for name, value in settings.items()}
        return kept | {"AIRFLOW_HOME": str(self.home), "PATH": path} | named | self._extra
