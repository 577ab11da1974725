"""Where Airflow shows the pages: once in its navigation, and as tabs of DAGs and runs."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.plugins.lineage_views import external_views


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://localhost:8080", "/lineage"),
        ("https://host/airflow/", "/airflow/lineage"),
        ("https://host/a/b", "/a/b/lineage"),
        ("", "/lineage"),
    ],
)
def test_addresses_follow_the_path_under_which_airflow_is_served(base_url, root):
    nav, dag, run = external_views(base_url, "/lineage")
    assert nav["href"] == f"{root}/"
    assert dag["href"] == f"{root}/dag?dag_id={{DAG_ID}}"
    assert run["href"] == f"{root}/dag?dag_id={{DAG_ID}}&run_id={{RUN_ID}}"


def test_every_place_has_a_route_of_its_own():
    views = external_views("", "/lineage")
    assert [view["destination"] for view in views] == ["nav", "dag", "dag_run"]
    assert len({view["url_route"] for view in views}) == 3
