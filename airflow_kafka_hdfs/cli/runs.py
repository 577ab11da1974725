"""Whether a run may be at work, asked of the metadata database, which commands can reach."""

from __future__ import annotations

from airflow_kafka_hdfs.hooks.runs import ALIVE
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.runtime import RunStates


class MetadataRunStates(RunStates):
    """Looks the run up in the metadata database."""

    def is_alive(self, run: RunRef) -> bool | None:
        """True while it is queued or running, False once it ended or was deleted, None if the database is away."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from sqlalchemy import select
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with create_session() as session:
                state = session.scalar(
                    select(DagRun.state).where(DagRun.dag_id == run.dag_id, DagRun.run_id == run.run_id)
                )
        except SQLAlchemyError:
            return None
        return state is not None and str(getattr(state, "value", state)) in ALIVE
