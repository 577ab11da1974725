"""`python -m tests.benchmarks`: the table of ratios, on a real broker started for it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.airflow_home import settings_of
from tests.benchmarks.data import datasets, load
from tests.benchmarks.measuring import HELD, Case, report, run_rounds, say
from tests.benchmarks.reading import Reading
from tests.benchmarks.rows import ROWS, kafka_cases, offline_cases, product_cases, topic_of
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster


def main() -> int:
    """Run; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="poe bench", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose id or name fits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the 1,000,000 small and 200,000 large records"
    )
    parser.add_argument("--folder", type=Path, help="where broker and files live; a disk that others use spoils rows")
    options = parser.parse_args()
    try:
        wanted = re.compile(options.only, re.IGNORECASE)
    except re.error as error:
        parser.error(f"--only {options.only!r} is no regular expression: {error}")
    rows = [row for row in ROWS if wanted.search(row.id) or wanted.search(row.name)]
    if not rows:
        parser.error(f"--only {options.only!r} fits no row; ids: {', '.join(row.id for row in ROWS)}")
    needed = {case for row in rows for case in row.cases}
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=options.folder))
    os.environ.update(settings_of(str(folder / "airflow")))  # nothing has imported Airflow yet
    try:
        if not any(map(topic_of, needed)):
            samples = run_rounds(_chosen(offline_cases(), needed), options.rounds)
        else:
            with ExitStack() as stack:
                kafka = stack.enter_context(KafkaCluster(folder / "kafka", quick=False, heap_mb=768))
                cases = _cases(kafka, folder, needed, options.scale)
                hdfs = None
                if any(case.startswith(("product webhdfs", "product native")) for case in needed):
                    say("\rstarting HDFS")
                    hdfs = stack.enter_context(HdfsCluster(folder / "hdfs"))
                place = folder / "tasks"
                place.mkdir()
                cases |= _chosen(product_cases(kafka.bootstrap_servers, place, hdfs), needed)
                samples = run_rounds(cases, options.rounds)
        return 0 if report(rows, samples, options.json) else 1
    finally:
        HELD.close()
        shutil.rmtree(folder, ignore_errors=True)


def _cases(kafka: KafkaCluster, folder: Path, needed: set[str], scale: float) -> dict[str, Case]:
    topics = {}
    files = folder / "files"
    files.mkdir()
    for name, dataset in datasets(scale).items():
        topics[name] = Reading(kafka.bootstrap_servers, files, dataset, dataset.count)
        if name in set(map(topic_of, needed)):
            say(f"\rloading {name}: {dataset.count:,} records")
            load(kafka, dataset)
    return _chosen({**kafka_cases(topics), **offline_cases()}, needed)


def _chosen(cases: dict[str, Case], needed: set[str]) -> dict[str, Case]:
    return {name: case for name, case in cases.items() if name in needed}


if __name__ == "__main__":
    sys.exit(main())
