"""What the demo shows: read from the commit log and from the files themselves, not from what the tasks say."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro

from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.layout import ROOT, DataPaths
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.plan_book import all_plans
from airflow_kafka_hdfs.ingest.records import sum_counts
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.model import RunRef


class NobodyKnows:
    """The report asks nobody whether runs are alive."""

    def is_alive(self, run: RunRef) -> None:
        """Unknown."""


def open_pipeline(destination: Path, pipeline: str) -> Context:
    """The commit log of a pipeline on local disk."""
    data = LocalStore(destination)
    state = LocalStore(destination / DataPaths(pipeline).home)
    log = CommitLog(state, data, ThreadWorkers(), pipeline)
    return Context(
        log=log, run=RunRef(dag_id="", run_id=""), clock=SystemClock(), ids=RandomIds(), run_states=NobodyKnows()
    )


def run_totals(ctx: Context, run_id: str, seconds: float) -> dict[str, Any]:
    """Counts of one run, as its plans and commits have them."""
    plans = [plan for plan in all_plans(ctx) if plan.run.run_id == run_id]
    names = {plan.plan for plan in plans}
    commits = [c for c in ctx.log.read(since=-1).records.values() if c.run.run_id == run_id or c.plan in names]
    counts = sum_counts(commit.counts for commit in commits)
    return {
        "run": run_id,
        "read": counts.read,
        "written": counts.written,
        "quarantined": counts.quarantined,
        "filtered": counts.filtered,
        "gaps": counts.gaps,
        "lost": counts.lost,
        "files": sum(not entry.quarantine for commit in commits for entry in commit.files),
        "work_units": sum(len(unit.work_units) for plan in plans for unit in plan.units.values()),
        "tasks": sum(len(plan.tasks) for plan in plans),
        "seconds": round(seconds, 1),
    }


def watermarks(ctx: Context) -> Iterator[str]:
    """One line per partition."""
    state = ctx.log.read().state
    for key in sorted(state.current.values()):
        yield f"{key!s:<16} {state.coverage[key].watermark:>8}"


def event_ids(destination: Path) -> Counter[str]:
    """How often each event stands in a visible file."""
    found: Counter[str] = Counter()
    for path in data_files(destination):
        if path.suffix == ".jsonl":
            found.update(json.loads(line)["event_id"] for line in path.read_text().splitlines())
        else:
            with path.open("rb") as file:
                found.update(record["event_id"] for record in fastavro.reader(file))  # type: ignore[index,call-overload]
    return found


def quarantined(destination: Path) -> int:
    """Records in quarantine files."""
    total = 0
    for path in (destination / ROOT).glob("*/quarantine/**/*.avro"):
        with path.open("rb") as file:
            total += sum(1 for _ in fastavro.reader(file))
    return total


def lineage(warehouse: Path) -> list[dict[str, str]]:
    """Every pair that the lineage warehouse holds."""
    query = """
        SELECT source.ns, source.name, target.ns, target.name, job.dag_id FROM edge
        JOIN dataset AS source ON source.dataset_id = edge.source_id
        JOIN dataset AS target ON target.dataset_id = edge.target_id
        JOIN job ON job.job_id = edge.job_id ORDER BY 1, 2, 3, 4, 5
    """
    with closing(sqlite3.connect(warehouse)) as connection:
        return [
            {"source": _uri(source_ns, source), "target": _uri(target_ns, target), "job": job}
            for source_ns, source, target_ns, target, job in connection.execute(query)
        ]


def lineage_runs(warehouse: Path, dag_id: str) -> set[str]:
    """Ids of the runs of a DAG that the lineage warehouse knows."""
    query = "SELECT run.run_id FROM run JOIN job ON job.job_id = run.job_id WHERE job.dag_id = ?"
    with closing(sqlite3.connect(warehouse)) as connection:
        return {run_id for (run_id,) in connection.execute(query, (dag_id,))}


def a_target(warehouse: Path) -> str:
    """Id of a dataset that something flows into."""
    with closing(sqlite3.connect(warehouse)) as connection:
        (found,) = connection.execute("SELECT min(target_id) FROM edge").fetchone()
    return str(found)


def _uri(namespace: str, name: str) -> str:
    return str(DatasetId(namespace, name)) if "://" in namespace else f"{namespace}://{name}"


def data_files(destination: Path) -> list[Path]:
    """Visible data files."""
    return sorted(p for p in destination.rglob("*") if p.is_file() and ROOT not in p.parts)


def tree(destination: Path) -> Iterator[str]:
    """Folders with the number and size of their files."""
    folders: dict[Path, list[int]] = {}
    for path in data_files(destination):
        folders.setdefault(path.parent.relative_to(destination), []).append(path.stat().st_size)
    for folder, sizes in sorted(folders.items()):
        yield f"{folder!s:<32} {len(sizes):>3} files {sum(sizes):>9,} bytes"
