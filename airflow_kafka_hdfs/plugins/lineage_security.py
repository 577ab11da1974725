"""Who calls, and what the caller may see and change: everything that we take from Airflow's API server.

A plugin's app is mounted without any check, so each route asks for a user here. The module path that it imports from
is not declared public by Airflow; it is used in this file alone.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request, status

from airflow_kafka_hdfs.lineage.access import Access
from airflow_kafka_hdfs.ports.lineage_reading import LineageReader
from airflow_kafka_hdfs.ports.lineage_rows import JobRow

User = GetUserDep
"""The caller; refused with 401 if there is none."""

_LOGINS_KEPT = 200

AUDITED = Depends(action_logging())
"""Writes the call into Airflow's audit log."""


def secret() -> bytes:
    """The key of handles; equal in all API servers of a deployment."""
    return b"lineage:" + str(conf.get("api", "secret_key", fallback="")).encode()


def access_of(user: Any, reader: LineageReader, instance: str, open_instances: Collection[str] = ()) -> Access:
    """What a caller may see: the jobs whose DAGs Airflow lets the caller read.

    A DAG that is gone from Airflow is asked for by its id alone; with teams switched on nobody reads those, since
    their team is gone with them. Jobs of other deployments stay restricted, unless they are open to everybody.

    Args:
        user: as `User` gives.
        reader: knows all jobs.
        instance: name of this deployment.
        open_instances: other deployments and namespaces whose jobs everybody may see who is logged in.
    """
    jobs = reader.job_names()
    manager = get_auth_manager()
    readable = manager.get_authorized_dag_ids(user=user, method="GET")
    others = {dag_id for _, owner, dag_id in jobs if owner == instance} - readable
    if others and not conf.getboolean("core", "multi_team", fallback=False):
        gone = others - _known_dags()
        readable = readable | manager.filter_authorized_dag_ids(dag_ids=gone, user=user, method="GET")
    found = frozenset(
        job_id
        for job_id, owner, dag_id in jobs
        if (dag_id in readable if owner == instance else owner in open_instances)
    )
    return Access(job_ids=None if len(found) == len(jobs) else found, secret=secret())


class RememberedAccess:
    """`access_of`, asked again after a few seconds: with thousands of DAGs it takes longer than any answer.

    What a login says and how many jobs there are is part of the question, so a new login and a new job count at once;
    rights that are taken away hold on for at most `seconds`.

    Args:
        seconds: how long an answer holds.
        clock: monotonic seconds; for tests.
    """

    def __init__(self, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._known: OrderedDict[tuple[str, int], tuple[float, Access]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, user: Any, reader: LineageReader, instance: str, open_instances: Collection[str] = ()) -> Access:
        """What a caller may see; arguments as those of `access_of`."""
        login = json.dumps(get_auth_manager().serialize_user(user), sort_keys=True, default=str)
        key = (login, reader.count(JobRow))
        with self._lock:
            since, access = self._known.get(key, (0.0, None))
        if access is not None and self._clock() - since < self._seconds:
            return access
        asked = self._clock()
        access = access_of(user, reader, instance, open_instances)
        with self._lock:
            self._known.pop(key, None)
            self._known[key] = asked, access
            while len(self._known) > _LOGINS_KEPT:
                self._known.popitem(last=False)
        return access


def _known_dags() -> set[str]:
    with create_session(scoped=False) as session:
        return set(session.scalars(sa.select(DagModel.dag_id)))


def may_edit(user: Any, dag_ids: Collection[str]) -> set[str]:
    """Those of the DAGs that the caller may change."""
    return set(dag_ids) & get_auth_manager().get_authorized_dag_ids(user=user, method="PUT")


def may_tell(user: Any) -> bool:
    """Whether the caller may say what happened to data outside this Airflow, as for posting events of assets."""
    return bool(get_auth_manager().is_authorized_asset(method="POST", user=user))


def audit(user: Any, event: str, **extra: Any) -> None:
    """Write a call into Airflow's audit log without its body, which may be long or hold what is not for it."""
    with create_session(scoped=False) as session:
        session.add(Log(event=event, owner=name_of(user), owner_display_name=name_of(user), extra=json.dumps(extra)))


def name_of(user: Any) -> str:
    """The caller's name, for records."""
    return str(user.get_name())


def same_origin(request: Request) -> None:
    """Refuse writing calls that another web site could have made with the caller's cookie.

    A bearer token is never sent by a browser of its own accord. With a cookie the `Origin` must be this server, by the
    name that the browser called or by `[api] base_url`.
    """
    if request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    origin = urlsplit(request.headers.get("origin", ""))
    base = urlsplit(conf.get("api", "base_url", fallback="") or "")
    if not origin.netloc or origin.netloc.lower() not in {request.headers.get("host", "").lower(), base.netloc.lower()}:
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "a writing call needs a bearer token, or an Origin header that names this server",
        )


OWN_SITE = Depends(same_origin)
"""For every route that writes."""
