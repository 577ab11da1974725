"""`python -m tests.benchmarks`: the table of ratios, on a real broker started for it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.airflow_home import settings_of
from tests.benchmarks.data import datasets, load
from tests.benchmarks.measuring import Case, Row, Samples, report, run_apart, say
from tests.benchmarks.reading import Reading
from tests.benchmarks.rows import ROWS, TASKS, group_of, kafka_cases, offline_cases, product_cases, topic_of
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster

_WARM_UP = 10
"""Readings of each topic before anything is measured: a broker compiles its code while it serves, on the same cores."""

_REPORTING = Path("/sys/module/page_reporting/parameters/page_reporting_order")
_BALLOON = Path("/sys/bus/virtio/drivers/virtio_balloon")
_LEAST_ORDER = 10
"""Of blocks of free memory that are rare enough to do no harm."""


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
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=options.folder))
    os.environ.update(settings_of(str(folder / "airflow")))  # nothing has imported Airflow yet
    try:
        groups = _groups(rows)
        samples = {
            **_over_topics({group: groups[group] for group in groups if group not in TASKS}, folder / "inner", options),
            **_offline(groups, options),
            **_over_topics({group: groups[group] for group in groups if group in TASKS}, folder / "whole", options),
        }
        good = report(groups, samples, options.json)
        if _gives_memory_back():
            print(
                "\nThis machine gives free memory back to its host, so that at times a file is written to memory that\n"
                "has to be fetched first, and rows about files scatter. For the time of a measurement, as root:\n"
                f"  echo {_LEAST_ORDER} > {_REPORTING}"
            )
        return 0 if good else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _gives_memory_back() -> bool:
    """Whether a host takes memory away as soon as it is free (page reporting of a virtual machine)."""
    try:
        return any(_BALLOON.glob("virtio*")) and int(_REPORTING.read_text()) < _LEAST_ORDER
    except (OSError, ValueError):
        return False


def _groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    return groups


def _over_topics(groups: Mapping[str, list[Row]], folder: Path, options: argparse.Namespace) -> dict[str, Samples]:
    """Samples of those of the groups that read from Kafka.

    Args:
        groups: rows by group.
        folder: where broker and files live; made here.
        options: of the command line.
    """
    wanted = {group: _needed(rows) for group, rows in groups.items() if any(map(topic_of, _needed(rows)))}
    if not wanted:
        return {}
    files, place = folder / "files", folder / "tasks"
    files.mkdir(parents=True)
    place.mkdir()
    found: dict[str, Samples] = {}
    with KafkaCluster(folder / "kafka", quick=False, heap_mb=768) as kafka:
        topics = {}
        for name, dataset in datasets(options.scale).items():
            topics[name] = Reading(kafka.bootstrap_servers, files, dataset, dataset.count)
            if any(name in map(topic_of, cases) for cases in wanted.values()):
                say(f"\rloading {name}: {dataset.count:,} records")
                load(kafka, dataset)
                for _ in range(_WARM_UP):
                    topics[name].bare()
        for number, (group, cases) in enumerate(wanted.items()):
            # The process of a group inherits it; runs of one group are not in the database of another.
            os.environ.update(settings_of(str(folder / f"airflow-{number}")))
            with ExitStack() as stack:
                hdfs = None
                if any(case.startswith(("product webhdfs", "product native")) for case in cases):
                    say("\rstarting HDFS")
                    hdfs = stack.enter_context(HdfsCluster(folder / "hdfs"))
                known = kafka_cases(topics) | product_cases(kafka.bootstrap_servers, place, hdfs)
                found[group] = run_apart(_chosen(known, cases), options.rounds)
    return found


def _offline(groups: Mapping[str, list[Row]], options: argparse.Namespace) -> dict[str, Samples]:
    """Samples of all other groups."""
    cases = {group: _chosen(offline_cases(), _needed(rows)) for group, rows in groups.items()}
    return {group: run_apart(known, options.rounds) for group, known in cases.items() if known}


def _needed(rows: Sequence[Row]) -> set[str]:
    return {case for row in rows for case in row.cases}


def _chosen(cases: dict[str, Case], needed: set[str]) -> dict[str, Case]:
    return {name: case for name, case in cases.items() if name in needed}


if __name__ == "__main__":
    sys.exit(main())
