"""Airflow on the stack: runs, mapped tasks, logs, backfills, and what happens when parts of it are killed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.stack.airflow import AirflowStandalone
from tests.stack.process import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.stack.postgres import PostgresServer

pytestmark = pytest.mark.airflow

DAG = textwrap.dedent(
    """
    import datetime as dt
    import time
    from pathlib import Path

    from airflow.sdk import dag, get_current_context, task


    @dag(schedule="@hourly", start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), catchup=False)
    def doubles():
        @task
        def plan() -> list[int]:
            return [1, 2, 3]

        @task(retries=1, retry_delay=dt.timedelta(seconds=1))
        def double(number: int) -> int:
            context = get_current_context()
            if context["dag_run"].conf.get("wait") and number == 2 and context["ti"].try_number == 1:
                time.sleep(120)
            print("doubling", number)
            return 2 * number

        @task
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        total(double.expand(number=plan()))


    doubles()
    """
)


@pytest.fixture(scope="module")
def airflow(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStandalone]:
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "dags").mkdir()
    (folder / "dags" / "doubles.py").write_text(DAG)
    with AirflowStandalone(folder / "home", folder / "dags", postgres_server, triggerer=False) as airflow:
        yield airflow


def test_a_run_with_mapped_tasks_leaves_results_and_logs(airflow: AirflowStandalone) -> None:
    run_id, state = airflow.run_to_end("doubles")
    assert state == "success"
    states = airflow.task_states("doubles", run_id)
    assert states == dict.fromkeys(["plan", "double[0]", "double[1]", "double[2]", "total"], "success")
    assert airflow.xcom("doubles", run_id, "total") == 12
    assert "doubling 3" in airflow.logs("doubles", run_id, "double", map_index=2)
    assert airflow.clear("doubles", run_id, [("double", 1)]) == ["double[1]", "total"]
    assert airflow.wait_run("doubles", run_id) == "success"
    assert [one["try_number"] for one in airflow.task_instances("doubles", run_id) if one["task_id"] == "total"] == [2]


def test_a_backfill_makes_a_run_per_hour(airflow: AirflowStandalone) -> None:
    airflow.unpause("doubles")
    airflow.backfill("doubles", "2026-02-01T00:00:00Z", "2026-02-01T01:00:00Z", max_active_runs=2)
    states = airflow.wait_backfill("doubles", runs=2)
    assert list(states.values()) == ["success", "success"]
    assert all(name.startswith("backfill__2026-02-01T0") for name in states)


def test_a_killed_task_is_tried_again(airflow: AirflowStandalone) -> None:
    airflow.unpause("doubles")
    run_id = airflow.trigger("doubles", {"wait": True})
    airflow.kill_task("doubles", run_id, "double", map_index=1)
    assert airflow.wait_run("doubles", run_id) == "success"
    tries = {one["map_index"]: one["try_number"] for one in airflow.task_instances("doubles", run_id)}
    assert tries[1] == 2


def test_a_killed_scheduler_goes_on_where_it_was(airflow: AirflowStandalone) -> None:
    airflow.kill_scheduler()
    airflow.start_scheduler()
    assert airflow.run_to_end("doubles")[1] == "success"


def test_commands_and_errors_name_what_they_are_about(airflow: AirflowStandalone) -> None:
    assert "doubles" in airflow.cli("dags", "list", "-o", "plain")
    with pytest.raises(ServiceError, match=r"dags/nothing.*404"):
        airflow.get("dags/nothing")
