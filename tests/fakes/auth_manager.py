"""An auth manager that knows permissions per DAG, for Airflow in this process or in processes of its own."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

RIGHTS = "KAFKA_HDFS_TEST_DAG_RIGHTS"
"""JSON: user -> {"read": [DAG ids], "edit": [DAG ids]}; a user who is not named may do what the role allows."""


@cache
def _read(text: str) -> dict[str, Any]:
    """Once: it is asked for each of thousands of DAGs, and benchmarks shall not measure this."""
    found: dict[str, Any] = json.loads(text)
    return found


class DagRights(SimpleAuthManager):
    """Airflow's simple auth manager with rights on single DAGs."""

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        rights = _read(os.environ.get(RIGHTS, "{}")).get(user.username)
        if rights is None or details is None or details.id is None:
            return super().is_authorized_dag(method=method, user=user, access_entity=access_entity, details=details)
        return details.id in rights.get("read" if method == "GET" else "edit", [])
