"""What to do when a dataset turns out to be wrong: find suspects, freeze what reads it, run again in order, resume.

The plan is made from the warehouse alone and changes nothing. Whoever carries it out does so through Airflow, with the
rights of the caller; which DAGs were paused by a repair is written down, so that exactly those are resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import networkx as nx

from airflow_kafka_hdfs.lineage.comparing import changes_between
from airflow_kafka_hdfs.lineage.describing import Describer, still_related, window_at
from airflow_kafka_hdfs.lineage.identity import digest
from airflow_kafka_hdfs.lineage.kept import refuse_unkept
from airflow_kafka_hdfs.lineage.registration import INPUT
from airflow_kafka_hdfs.lineage.traversal import levels
from airflow_kafka_hdfs.lineage.views import Change, DatasetView, JobView
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_reading import Direction, Window
from airflow_kafka_hdfs.ports.lineage_rows import EdgeRow, RelationRow, RepairFreezeRow, RunRow

MAX_DATASETS = 20_000
MAX_JOBS = 1_000
MAX_RUNS = 5_000
MAX_FAILED = 1_000
SUSPECT_HOPS = 3
RECENT = timedelta(days=7)
"""How long before the first bad moment a change counts as recent."""
REGULAR = "scheduled"
BACKFILL = "backfill"
CLEAR = "clear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A job that may have made the dataset wrong.

    Attributes:
        distance: hops from the dataset to what the job writes; 1 writes it itself.
        changes: what differs between its first run in the window (its last one before, if there is none) and its
            last run before the recent past.
        failed: ids of its failed runs in the window.
    """

    job: JobView
    distance: int
    changes: tuple[Change, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One job that has to run again.

    Attributes:
        order: jobs of one number may run side by side, after those with smaller numbers.
        how: `backfill` (a range of dates) or `clear` (run ids: runs without a date cannot be backfilled).
        first, last: of the dates to run again, for `backfill`.
        run_ids: the runs that read bad data.
        circle: True if the job feeds itself through others, so that no order is right.
    """

    order: int
    job: JobView
    how: str
    first: datetime | None
    last: datetime | None
    run_ids: tuple[str, ...]
    circle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """What a repair would do.

    Attributes:
        id: names the repair; DAGs that it pauses are recorded under it.
        suspects: nearest first, those with recent changes before the others.
        datasets: how many datasets are downstream; `restricted` of them can't be named.
        freeze: DAGs to pause, those that feed others first.
        steps: what to run again, in order of dependency.
        resume: DAGs to resume, in the same order as the steps.
        restricted_jobs: jobs downstream that the caller may not read: somebody else has to take care of them.
        truncated: True if a limit left something out.
    """

    id: str
    dataset: DatasetView
    start: datetime
    end: datetime
    suspects: tuple[Suspect, ...]
    datasets: int
    restricted: int
    freeze: tuple[JobView, ...]
    steps: tuple[Step, ...]
    resume: tuple[JobView, ...]
    restricted_jobs: int
    truncated: bool


def repair_id(dataset_id: str, start: datetime, end: datetime | None) -> str:
    """The name of a repair: the same for the same dataset and moments; None: it goes on until now, whenever that is."""
    return digest("repair", dataset_id, start.isoformat(), end.isoformat() if end else "")


def plan(
    describer: Describer, dataset_id: str, start: datetime, end: datetime, *, open_end: bool = False
) -> RepairPlan:
    """Plan the repair of a dataset that was wrong from one moment to another.

    Args:
        describer: reader and access.
        dataset_id: the dataset, one that the caller may see.
        start, end: when it was wrong; runs due in between read bad data.
        open_end: whether `end` is only the time of asking, so that it does not name the repair.

    Raises:
        ConfigError: runs of that time, or of the week before, have been deleted.
    """
    refuse_unkept(describer.reader, start - RECENT, "from (and 7 days before)")
    # Whatever held at some moment in between may have carried bad data on.
    reader, window = describer.reader, replace(window_at(start), at=end, since=start)
    reached: dict[str, int] = {dataset_id: 0}
    truncated = False
    for hop, level in enumerate(levels(reader, dataset_id, Direction.DOWN, window), 1):
        room = MAX_DATASETS - len(reached)
        truncated = truncated or len(level) > room
        reached.update(dict.fromkeys(level[:room], hop))
        if truncated:
            break
    edges = [edge for edge in reader.between(reached, reached, window) if edge.source_id != edge.target_id]
    related = reader.rows(RelationRow, ("dataset_id",), [(item,) for item in reached])
    rows = describer.job_rows(row.job_id for row in related)
    reading = {
        (row.job_id, row.dataset_id)
        for row in related
        if row.direction == INPUT
        and row.job_id in rows
        and (row.last_seen >= start or still_related(row, rows[row.job_id]))
    }
    order, circular = job_order(edges, reading)
    views = describer.jobs(order)
    named = [job_id for job_id in order if not views[job_id].restricted]
    truncated = truncated or len(named) > MAX_JOBS
    steps, cut = _steps(describer, named[:MAX_JOBS], order, circular, start, end)
    visible = describer.access.visible(reader, reached)
    running = [step.job for step in steps]
    return RepairPlan(
        id=repair_id(dataset_id, start, None if open_end else end),
        dataset=describer.datasets([dataset_id])[dataset_id],
        start=start,
        end=end,
        suspects=_suspects(describer, dataset_id, window),
        datasets=len(reached) - 1,
        restricted=len(reached) - len(visible),
        freeze=tuple(views[job_id] for job_id in named[:MAX_JOBS]),
        steps=steps,
        resume=(*running, *(views[j] for j in named[:MAX_JOBS] if views[j] not in running)),
        restricted_jobs=len(order) - len(named),
        truncated=truncated or cut,
    )


def job_order(
    edges: Iterable[EdgeRow], reading: Iterable[tuple[str, str]] = ()
) -> tuple[dict[str, int], frozenset[str]]:
    """Jobs in the order in which they have to run again: each after all that write what it reads.

    Args:
        edges: pairs of the jobs that count.
        reading: (job id, dataset id) of more reads, of jobs that write nothing.

    Returns:
        Job id -> number from 0 on, smallest first, and the jobs that stand in a circle: all of one get one number,
        since no order is right.
    """
    reads: dict[str, set[str]] = {}
    writers: dict[str, set[str]] = {}
    for edge in edges:
        reads.setdefault(edge.job_id, set()).add(edge.source_id)
        writers.setdefault(edge.target_id, set()).add(edge.job_id)
    for job_id, dataset_id in reading:
        reads.setdefault(job_id, set()).add(dataset_id)
    waits = {
        job_id: {writer for source in sources for writer in writers.get(source, ())} - {job_id}
        for job_id, sources in sorted(reads.items())
    }
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(waits)
    graph.add_edges_from((writer, job_id) for job_id, before in waits.items() for writer in before & waits.keys())
    circles = nx.condensation(graph)
    order: dict[str, int] = {}
    circular: set[str] = set()
    for number, generation in enumerate(nx.topological_generations(circles)):
        for circle in generation:
            members = circles.nodes[circle]["members"]
            order.update(dict.fromkeys(sorted(members), number))
            if len(members) > 1:
                circular |= members
    return order, frozenset(circular)


def _steps(
    describer: Describer,
    job_ids: list[str],
    order: Mapping[str, int],
    circular: frozenset[str],
    start: datetime,
    end: datetime,
) -> tuple[tuple[Step, ...], bool]:
    """What each job has to run again: its runs that were due in the window."""
    views = describer.jobs(job_ids)
    steps: list[Step] = []
    left = MAX_RUNS
    for job_id in job_ids:
        runs = describer.reader.runs(job_id, limit=left + 1, since=start, until=end)
        if len(runs) > left:
            return tuple(steps), True
        left -= len(runs)
        if runs:
            steps.append(_step(views[job_id], order[job_id], runs, circle=job_id in circular))
    return tuple(steps), False


def _step(job: JobView, number: int, runs: list[RunRow], *, circle: bool) -> Step:
    dates = sorted(row.logical_date for row in runs if row.logical_date is not None)
    regular = len(dates) == len(runs) and all(row.run_type in (REGULAR, BACKFILL) for row in runs)
    return Step(
        order=number,
        job=job,
        how=BACKFILL if regular else CLEAR,
        first=dates[0] if regular else None,
        last=dates[-1] if regular else None,
        run_ids=tuple(row.run_id for row in reversed(runs)),
        circle=circle,
    )


def _suspects(describer: Describer, dataset_id: str, window: Window) -> tuple[Suspect, ...]:
    reader, start, end = describer.reader, window.since or window.at, window.at
    distance: dict[str, int] = {}
    frontier = [dataset_id]
    walk = levels(reader, dataset_id, Direction.UP, window)
    for hop in range(1, SUSPECT_HOPS + 1):
        for _, job_id, _ in reader.attached(frontier, Direction.UP, window):
            distance.setdefault(job_id, hop)
        frontier = next(walk, [])
        if not frontier:
            break
    views = describer.jobs(distance)
    found = []
    for job_id, hop in distance.items():
        if views[job_id].restricted:
            continue
        inside = reader.runs(job_id, limit=MAX_FAILED, since=start, until=end)
        before = inside or reader.runs(job_id, limit=1, until=start)
        older = reader.runs(job_id, limit=1, until=start - RECENT)
        changes = changes_between(older[0], before[-1]) if older and before else ()
        found.append(
            Suspect(
                job=views[job_id],
                distance=hop,
                changes=tuple(change for change in changes if change.what != "run"),
                failed=tuple(row.run_id for row in inside if row.outcome == "failed"),
            )
        )
    return tuple(sorted(found, key=lambda s: (not (s.changes or s.failed), s.distance, s.job.dag_id, s.job.id)))


def note_frozen(
    tx: LoadTransaction, repair_id: str, jobs: Mapping[str, str], *, by: str, now: datetime
) -> tuple[str, ...]:
    """Write down which DAGs a repair has paused.

    Args:
        tx: a transaction.
        repair_id: names the repair.
        jobs: DAG id -> job id, of the DAGs that were running and are paused now.
        by: who paused them.
        now: when.

    Returns:
        All DAGs that this repair keeps frozen.
    """
    known = {row.dag_id: row for row in tx.rows(RepairFreezeRow, ("repair_id",), [(repair_id,)])}
    fresh = [
        RepairFreezeRow(repair_id=repair_id, dag_id=dag_id, job_id=job_id, frozen_at=now, frozen_by=by)
        for dag_id, job_id in sorted(jobs.items())
        if dag_id not in known or known[dag_id].resumed_at is not None
    ]
    tx.put(fresh)
    kept = [dag_id for dag_id, row in known.items() if row.resumed_at is None]
    return tuple(sorted({*kept, *(row.dag_id for row in fresh)}))


def frozen(rows: Iterable[RepairFreezeRow]) -> tuple[str, ...]:
    """The DAGs that are still to be resumed."""
    return tuple(sorted(row.dag_id for row in rows if row.resumed_at is None))


def note_resumed(
    tx: LoadTransaction, repair_id: str, dag_ids: Iterable[str], *, by: str, now: datetime
) -> tuple[str, ...]:
    """Write down which DAGs were resumed; the rest, which is returned, stays frozen."""
    wanted = set(dag_ids)
    rows = tx.rows(RepairFreezeRow, ("repair_id",), [(repair_id,)])
    done = [replace(row, resumed_at=now, resumed_by=by) for row in rows if row.dag_id in wanted]
    tx.put(done)
    return frozen(row for row in rows if row.dag_id not in wanted)
