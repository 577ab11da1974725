"""A mapped task in a process of its own: `python -m tests.benchmarks.worker TOPIC FOLDER TASKS TASK ARGUMENTS`.

The operators are called without Airflow's task runner, whose metadata database and API server a task does not have in
its process. Prints `ready` before the extract, waits for a line, does it, prints what it took and how much the process
grew over what it had imported by then.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.benchmarks.data import datasets
from tests.benchmarks.measuring import HELD, Sample
from tests.peak_memory import peak_memory


def main(topic: str, folder: str, tasks: str, task: str, more: str) -> None:
    """Plan, and do one of the tasks."""
    from airflow.sdk import DAG
    from airflow.sdk.bases.operator import ExecutorSafeguard

    from airflow_kafka_hdfs.operators.ingest import KafkaToHdfsExtractOperator, KafkaToHdfsPlanOperator
    from tests.benchmarks.product import arguments_of, registry_of
    from tests.benchmarks.stages import Clockwork, measured

    ExecutorSafeguard.test_mode = True  # lets `execute` be called by hand
    dataset = datasets(1)[topic]
    place = Path(folder) / f"worker-{task}"
    arguments = {
        **arguments_of(dataset, registry_of(dataset.name, dataset.schema_text), place.as_uri()),
        "max_tasks": int(tasks),
        "target_task_bytes": 1024,
        **json.loads(more),
    }
    context, clockwork = _context(), Clockwork()
    with HELD, DAG("bench", schedule=None), measured(clockwork):
        units = KafkaToHdfsPlanOperator(task_id="plan", **arguments).execute(context)
        extract = KafkaToHdfsExtractOperator(task_id="extract", work_unit=units[int(task)], **arguments)
        before = peak_memory()
        print("ready", flush=True)
        sys.stdin.readline()
        clockwork.enter(context)
        clockwork.leave(context, extract.execute(context))
        grown = peak_memory() - before
    sample = clockwork.sample()
    print(json.dumps({"records": sample.units, "wall": sample.wall, "cpu": sample.cpu, "grown": grown}), flush=True)


def _context() -> Any:
    """What the two operators ask Airflow for."""
    run = SimpleNamespace(run_type="manual", data_interval_start=None, data_interval_end=None, partition_date=None)
    ti = SimpleNamespace(xcom_push=lambda **_: None, get_dagrun_state=lambda *_: "running")
    return {"ti": ti, "dag_run": run, "run_id": "r", "params": {}}


def work(
    topic: str, folder: Path, workers: int, arguments: dict[str, Any] | None = None, tiers: str | None = None
) -> Sample:
    """The whole topic by so many processes at once; the fact `grown` is the greatest growth in MiB.

    Args:
        topic: to read.
        folder: where the workers write.
        workers: how many processes, each with its task.
        arguments: of the operators, besides those of every case.
        tiers: `[kafka_hdfs] tiers`; None: what a deployment has that says nothing.
    """
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.benchmarks.worker", topic, str(folder), str(workers)]
    started = [
        subprocess.Popen(
            [*command, str(task), json.dumps(arguments or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=_environment(tiers),
        )
        for task in range(workers)
    ]
    try:
        for process in started:
            _line(process)
        start = time.perf_counter()
        for process in started:
            process.stdin.write("go\n")  # type: ignore[union-attr] # a pipe
            process.stdin.flush()  # type: ignore[union-attr]
        told: Sequence[dict[str, float]] = [json.loads(_line(process)) for process in started]
        wall = time.perf_counter() - start
    finally:
        for process in started:
            process.kill()
            process.wait()
    for task in range(workers):
        shutil.rmtree(folder / f"worker-{task}", ignore_errors=True)
    records = int(sum(one["records"] for one in told))
    return Sample(records, wall, sum(one["cpu"] for one in told), {"grown": max(one["grown"] for one in told)})


def _environment(tiers: str | None) -> dict[str, str]:
    """What a worker of a deployment has, whose modules were compiled when they were installed."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return found if tiers is None else {**found, "AIRFLOW__KAFKA_HDFS__TIERS": tiers}


def _line(process: subprocess.Popen[str]) -> str:
    """The next line of a worker; structured logs of the process go the same way and are passed over."""
    for line in process.stdout or ():
        if line.startswith(("ready", "{")):
            return line
    raise RuntimeError("a worker ended without a word; see its errors above")


if __name__ == "__main__":
    main(*sys.argv[1:])
