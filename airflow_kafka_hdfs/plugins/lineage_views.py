"""Where Airflow shows the pages of lineage: its navigation, and tabs on a DAG and on a run. Loads nothing."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

ROUTE = "lineage"
"""The pages are at `/plugin/lineage` in Airflow. A tab has a route of its own: Airflow takes the first view of one."""


def external_views(base_url: str, prefix: str) -> list[dict[str, Any]]:
    """The entries of Airflow's navigation and the tabs of its pages.

    Args:
        base_url: `[api] base_url`; Airflow may be served under a path.
        prefix: where the app is mounted.
    """
    root = urlsplit(base_url).path.rstrip("/") + prefix
    shared = {
        "name": "Lineage",
        "icon": f"{root}/static/icon/lineage.svg",
        "icon_dark_mode": f"{root}/static/icon/lineage-dark.svg",
    }
    return [
        shared | {"href": f"{root}/", "url_route": ROUTE, "destination": "nav", "category": "browse"},
        shared | {"href": f"{root}/dag?dag_id={{DAG_ID}}", "url_route": f"{ROUTE}-dag", "destination": "dag"},
        shared
        | {
            "href": f"{root}/dag?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
            "url_route": f"{ROUTE}-run",
            "destination": "dag_run",
        },
    ]
