"""Airflow's API server alone, as a process of its own, with lineage switched on and a filled warehouse."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import requests

from tests.fakes.auth_manager import RIGHTS
from tests.pages.story import DAGS, INSTANCE, fill
from tests.stack.airflow import AirflowStandalone
from tests.stack.process import run, wait_until

ROOT = Path(__file__).parents[2]


class ApiServer:
    """Up when made; `close` ends it. `ann` may read all DAGs of the story but `secret`, `admin` all.

    Args:
        folder: for its home.
        warehouse: URL of a filled warehouse; one with the story by default.
        instance: name of the deployment in it.
        dags: with a `warehouse`, how many DAGs Airflow knows: `dag_0` and so on.
        admins: more users like `admin`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        warehouse: str = "",
        instance: str = INSTANCE,
        dags: int = 0,
        admins: Iterable[str] = (),
    ) -> None:
        own = warehouse or f"sqlite:///{folder}/lineage.db"
        readable = [dag_id for dag_id in DAGS if dag_id != "secret"]
        env = {
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            "AIRFLOW__CORE__AUTH_MANAGER": "tests.fakes.auth_manager.DagRights",
            RIGHTS: json.dumps({"ann": {"read": readable, "edit": []}}),
            "AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED": "True",
            "AIRFLOW__KAFKA_HDFS_LINEAGE__INSTANCE": instance,
            "AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE": own,
        }
        home, dags_folder = folder / "home", folder / "dags"
        dags_folder.mkdir(parents=True)
        users = {"admin": "admin", "ann": "viewer", **dict.fromkeys(admins, "admin")}
        airflow = AirflowStandalone(home, dags_folder, None, env=env, users=users, triggerer=False)
        self.url = airflow.url
        passwords = home / "simple_auth_manager_passwords.json.generated"
        passwords.write_text(json.dumps({name: name for name in airflow.users}))
        self._part = airflow.part("api-server")
        run(
            [sys.executable, "-m", "tests.pages.prepare", *([str(dags)] if warehouse else [])],
            what="prepare Airflow's database",
            timeout=180,
            env=airflow.env,
            cwd=ROOT,
        )
        self._part.start()
        if not warehouse:
            fill(own)
        health = f"{self.url}/api/v2/monitor/health"
        wait_until(
            lambda: requests.get(health, timeout=10).ok,
            what="the API server answers",
            timeout=180,
            children=[self._part],
        )

    def token(self, user: str) -> str:
        """What a browser gets by logging in."""
        answer = requests.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=30)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def log(self) -> str:
        """The end of what the server wrote."""
        return self._part.log_tail()

    def close(self) -> None:
        """End the process."""
        self._part.stop()
