"""Who calls, and what the caller may see and change: everything that we take from Airflow's API server.

A plugin's app is mounted without any check, so each route asks for a user here. The module path that it imports from
is not declared public by Airflow; it is used in this file alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.models.team import dag_bundle_team_association_table
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request, status

User = GetUserDep
"""The caller; refused with 401 if there is none."""

_AT_ONCE = 1_000
"""Ids in one statement; every database of Airflow takes that many."""

AUDITED = Depends(action_logging())
"""Writes the call into Airflow's audit log."""


def secret() -> bytes:
    """The key of handles; equal in all API servers of a deployment."""
    return b"lineage:" + str(conf.get("api", "secret_key", fallback="")).encode()


def login_of(user: Any) -> str:
    """A text that is equal for equal logins: who somebody is and what the login says of rights."""
    return json.dumps(get_auth_manager().serialize_user(user), sort_keys=True, default=str)


def readable_dags(user: Any, dag_ids: Collection[str]) -> set[str]:
    """Those of some DAGs that a caller may read, each asked for with its team, as Airflow itself asks.

    A DAG that is gone from Airflow is asked for by its id alone; with teams switched on nobody reads those, since
    their team is gone with them.

    Args:
        user: as `User` gives.
        dag_ids: of this deployment, known to Airflow or not.
    """
    manager = get_auth_manager()
    by_team: dict[str | None, set[str]] = {}
    known = set()
    for dag_id, team in _teams_of(dag_ids):
        by_team.setdefault(team, set()).add(dag_id)
        known.add(dag_id)
    if (gone := set(dag_ids) - known) and not _with_teams():
        by_team.setdefault(None, set()).update(gone)
    found: set[str] = set()
    for team, some in by_team.items():
        found |= manager.filter_authorized_dag_ids(dag_ids=some, user=user, method="GET", team_name=team)
    return found


def all_readable_dags(user: Any, dag_ids: Collection[str]) -> set[str]:
    """As `readable_dags`, in the way that auth managers make quick for all DAGs there are."""
    manager = get_auth_manager()
    readable = manager.get_authorized_dag_ids(user=user, method="GET")
    others = set(dag_ids) - readable
    if others and not _with_teams() and (gone := others - _known_dags()):
        readable = readable | manager.filter_authorized_dag_ids(dag_ids=gone, user=user, method="GET")
    return readable


def _with_teams() -> bool:
    return conf.getboolean("core", "multi_team", fallback=False)


def _teams_of(dag_ids: Collection[str]) -> list[tuple[str, str | None]]:
    """(DAG id, team or None) of those that Airflow knows."""
    linked = dag_bundle_team_association_table
    query = sa.select(DagModel.dag_id, linked.c.team_name).join(
        linked, linked.c.dag_bundle_name == DagModel.bundle_name, isouter=True
    )
    wanted = sorted(dag_ids)
    with create_session(scoped=False) as session:
        return [
            (row[0], row[1])
            for start in range(0, len(wanted), _AT_ONCE)
            for row in session.execute(query.where(DagModel.dag_id.in_(wanted[start : start + _AT_ONCE])))
        ]


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
