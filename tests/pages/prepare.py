"""`python -m tests.pages.prepare [N]`: the metadata database of the API server: tables, the story's DAGs, one run.

With a number: instead, N DAGs that nobody ever parsed, as the benchmark of a large warehouse needs them.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType

from tests.airflow.stored import store_dag
from tests.pages.story import DAGS, NOW, run_id_of

RUN_DAG = "marts"
"""The DAG with a run that Airflow knows."""


DAILY_DAG = "board"
"""The one with a schedule."""


def many(count: int) -> None:
    """`dag_0` and so on, as rows alone."""
    with create_session() as session:
        session.add(DagBundleModel(name="many"))
        session.flush()
        same = {"bundle_name": "many", "is_paused": False, "is_stale": False}
        same |= {"max_active_tasks": 16, "max_active_runs": 16, "max_consecutive_failed_dag_runs": 0}
        same["has_task_concurrency_limits"] = False
        rows = [{"dag_id": f"dag_{number}", **same} for number in range(count)]
        session.execute(sa.insert(DagModel), rows)


def main() -> None:
    """Make it."""
    initdb()
    if len(sys.argv) > 1:
        many(int(sys.argv[1]))
        return
    for dag_id in DAGS:
        # A job whose runs have dates is run again by a backfill, which needs a schedule.
        schedule = "@daily" if dag_id == DAILY_DAG else None
        store_dag(DAG(dag_id, schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False))
    when = NOW
    with create_session() as session:
        session.execute(sa.update(DagModel).values(is_paused=False))
        session.add(
            DagRun(
                dag_id=RUN_DAG,
                run_id=run_id_of(when),
                run_after=when,
                start_date=when,
                state="success",
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.REST_API,
            )
        )


if __name__ == "__main__":
    main()
