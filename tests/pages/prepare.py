"""`python -m tests.pages.prepare`: the metadata database of the API server: tables, the story's DAGs, one run."""

from __future__ import annotations

import sqlalchemy as sa
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType, DagRunType

from tests.airflow.conftest import store_dag
from tests.pages.story import DAGS, NOW, run_id_of

RUN_DAG = "marts"
"""The DAG with a run that Airflow knows."""


def main() -> None:
    """Make it."""
    initdb()
    for dag_id in DAGS:
        store_dag(DAG(dag_id, schedule=None))
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
