"""A mapped task in a process of its own: `python -m tests.benchmarks.worker SERVERS TOPIC FOLDER TASKS TASK ARGUMENTS`.

Prints `ready`, waits for a line, does the task, prints what it took and how much the process grew over its imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.data import datasets
from tests.benchmarks.measuring import Sample
from tests.peak_memory import peak_memory


def main(servers: str, topic: str, folder: str, tasks: str, task: str, arguments: str) -> None:
    from airflow_kafka_hdfs.adapters.storage.local import LocalStore
    from airflow_kafka_hdfs.ingest.datum import tiers
    from tests.benchmarks.product import Product

    tiers.choose()

    def ready() -> None:
        print("ready", flush=True)
        sys.stdin.readline()

    before = peak_memory()
    more = {"max_tasks": int(tasks), "target_task_bytes": 1024, **json.loads(arguments)}
    place = Path(folder) / f"worker-{task}"
    product = Product(servers, datasets(1)[topic], lambda _: LocalStore(place), lambda _: None, more)
    sample = product.run(task=int(task), ready=ready)
    grown = peak_memory() - before
    print(json.dumps({"records": sample.units, "wall": sample.wall, "cpu": sample.cpu, "grown": grown}), flush=True)


def work(servers: str, topic: str, folder: Path, workers: int, arguments: dict[str, Any] | None = None) -> Sample:
    """The whole topic by so many processes at once; the fact `grown` is the greatest growth in MiB."""
    import shutil

    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.benchmarks.worker", servers, topic, str(folder), str(workers)]
    started = [
        subprocess.Popen(
            [*command, str(task), json.dumps(arguments or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
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


def _line(process: subprocess.Popen[str]) -> str:
    """The next line of a worker; structured logs of the process go the same way and are passed over."""
    for line in process.stdout or ():
        if line.startswith(("ready", "{")):
            return line
    raise RuntimeError("a worker ended without a word; see its errors above")


if __name__ == "__main__":
    main(*sys.argv[1:])
