"""Fixtures: Airflow's API server with lineage's REST in it, and calls to it."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from airflow.sdk import DAG
from fastapi.testclient import TestClient

from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from tests.airflow.stored import store_dag
from tests.fakes.auth_manager import RIGHTS
from tests.fakes.lineage_chain import DAGS, chain_warehouse

API = "/lineage/api/v1"


@pytest.fixture(scope="module")
def server(airflow_db, tmp_path_factory):
    """As `serving`, on a warehouse in SQLite."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('lineage-api')}/lineage.db") as found:
        yield found


@contextmanager
def serving(url):
    """Airflow's API server in this process, with the app mounted and four DAGs in a chain; `ann` may read two."""
    from airflow.api_fastapi.app import create_app as create_airflow
    from airflow.api_fastapi.app import get_auth_manager, purge_cached_app

    from airflow_kafka_hdfs.plugins.lineage_app import PREFIX, LazyApp, create_app

    for dag_id in [*DAGS, "api_after"]:
        store_dag(DAG(dag_id, schedule=None))
    warehouse = chain_warehouse(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.fakes.auth_manager.DagRights")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "s" * 64)
        ann = {"read": ["api_ingest", "api_clean", "api_after"], "edit": ["api_clean"]}
        patch.setenv(RIGHTS, json.dumps({"ann": ann, "bob": {"read": ["api_secret"], "edit": []}}))
        purge_cached_app()
        airflow = create_airflow(apps="core")
        settings = LineageSettings(enabled=True, instance="here", warehouse=url, open_instances=frozenset({"spark"}))
        hook = LineageHook(settings)
        airflow.mount(PREFIX, LazyApp(lambda: create_app(hook)))
        airflow.router.routes.insert(0, airflow.router.routes.pop())
        with TestClient(airflow, base_url="http://airflow.test") as client:
            yield client, get_auth_manager()
        purge_cached_app()
    warehouse.close()


@pytest.fixture
def call(server):
    """`call(user, path)`: the answer's JSON; the user's name is given by a bearer token, none by None."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    client, manager = server

    def ask(user, path, *, method="GET", code=200, role="viewer", **more):
        token = user and manager.generate_jwt(SimpleAuthManagerUser(username=user, role=role))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = client.request(method, f"{API}{path}", headers=headers | more.pop("headers", {}), **more)
        assert answer.status_code == code, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    return ask
