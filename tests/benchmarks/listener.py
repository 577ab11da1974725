"""What the run listener costs the scheduler: `python -m tests.benchmarks.listener` in an Airflow of its own.

The metadata is in PostgreSQL, and the listener is called as the scheduler calls it: on its thread, inside its
transaction, with a run of a DAG of 1,000 tasks whose emitter works beside it.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.benchmarks.lineage import postgres
from tests.benchmarks.measuring import HELD, Case, Row, Sample, stopwatch

TASKS, CALLS = 1_000, 30
ROOT = Path(__file__).parents[2]
_ROUNDS = itertools.count()


@cache
def _samples() -> list[tuple[float, float]]:
    """Seconds of each call, wall and CPU of this thread; measured once, handed out round by round."""
    from tests.stack.airflow import AirflowStandalone
    from tests.stack.process import run

    folder = Path(HELD.enter_context(tempfile.TemporaryDirectory(prefix="listener-bench-")))
    (folder / "dags").mkdir()
    url = postgres().create_database("listener")
    env = {
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url,
        "AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED": "True",
        "AIRFLOW__KAFKA_HDFS_LINEAGE__SPOOL_DIR": str(folder / "spool"),
    }
    airflow = AirflowStandalone(folder / "home", folder / "dags", None, env=env, triggerer=False)
    said = run(
        [sys.executable, "-m", "tests.benchmarks.listener"],
        what="the listener",
        timeout=400,
        env=airflow.env | {"AIRFLOW_HOME": str(folder / "home")},
        cwd=ROOT,
    )
    return [(wall, cpu) for wall, cpu in json.loads(said.splitlines()[-1])]


def listen() -> Sample:
    """One notification about a finished run; beside it, what the first one in its process took."""
    first, *others = _samples()
    wall, cpu = others[next(_ROUNDS) % len(others)]
    return Sample(1, wall, cpu, {"first": first[0]})


CASES: dict[str, Case] = {"lineage listener": listen}
ROWS = [
    Row(
        id="lineage-listener",
        name="run listener, 1,000 tasks, PostgreSQL",
        over="lineage listener",
        target=5,
        unit="ms",
        better="lower",
        value=lambda sample: sample.wall * 1_000,
    ),
    Row(
        id="lineage-listener-first",
        name="run listener, first call in a process",
        over="lineage listener",
        target=5,
        unit="ms",
        better="lower",
        value=lambda sample: sample.facts["first"] * 1_000,
    ),
]


def main() -> None:
    """Make the DAG and its run, then call the listener."""
    import time
    from datetime import UTC, datetime
    from types import SimpleNamespace

    from airflow.models.dagrun import DagRun
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG, Asset
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    from airflow_kafka_hdfs.plugins.lineage_listener import RunListener
    from tests.airflow.conftest import store_dag

    initdb()
    with DAG("thousand", schedule=None) as dag:
        before = None
        for number in range(TASKS):
            task = EmptyOperator(task_id=f"t{number}", inlets=[Asset("kafka://b:9092/orders")])
            if before is not None:
                before >> task
            before = task
    store_dag(dag)
    listener, seconds = RunListener(), []
    with create_session() as session:
        stored = session.scalar(SerializedDagModel.latest_item_select_object("thousand")).dag
        for number in range(CALLS):
            stored.create_dagrun(
                run_id=f"r{number}",
                run_after=datetime.now(UTC),
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.RUNNING,
                session=session,
            )
    for number in range(CALLS):
        if number == 1:  # the first call finds no emitter, as in an API server where somebody sets the state of a run
            listener.on_starting(SimpleNamespace(job_type="SchedulerJob"))
        with create_session() as session:
            run = session.query(DagRun).filter_by(dag_id="thousand", run_id=f"r{number}").one()
            run.dag = session.scalar(SerializedDagModel.latest_item_select_object("thousand")).dag
            run.set_state(DagRunState.SUCCESS)
            with stopwatch() as watch:
                listener.on_dag_run_success(dag_run=run, msg="")
            sample = watch.sample(1)
            seconds.append((sample.wall, sample.cpu))
        time.sleep(0.2)  # runs do not end in one moment, and the emitter has its turn as in a scheduler
    print(json.dumps(seconds))
    sys.stdout.flush()
    os._exit(0)  # the emitter would go on looking for Kafka


if __name__ == "__main__":
    main()
