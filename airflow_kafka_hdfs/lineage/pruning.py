"""Deletes runs that are older than anybody wants to know, in short transactions beside a loader that goes on.

A run goes when it was due, and all that is known of it was told, before a moment; then its pairs, reports and events go
with it. What is known over all runs stays as it is: datasets, jobs, pairs with their first and last run, how often they
ran, when they last wrote. For that, of each pair the newest old row stays, and the newest that wrote or promised it; of
each job the newest old run stays whole, so that the run before any later date is still there.

The moment is written down first. What was told before it is not loaded again, so a message that is read once more
brings nothing back and counts nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.job_facts import says_of_job
from airflow_kafka_hdfs.lineage.kept import ALL_JOBS, Floor, floor_of, unbroken
from airflow_kafka_hdfs.lineage.settings import LEAST_DAYS
from airflow_kafka_hdfs.ports.lineage import LoadTransaction, PairState
from airflow_kafka_hdfs.ports.lineage_pruning import LookBack, PrunableWarehouse, Rows
from airflow_kafka_hdfs.ports.lineage_rows import (
    DECLARED_RUN,
    EdgeRow,
    EdgeRunRow,
    ExportRow,
    JobVersionRow,
    OffsetRow,
    OpenLineageEventRow,
    OpenLineageSaidRow,
    PrunedRow,
    RawRow,
    RunRow,
    StageRow,
    TaskIoRow,
)
from airflow_kafka_hdfs.ports.runtime import Clock, StopSignal

ROWS_AT_ONCE = 2_000
"""About how many rows one transaction deletes: tenths of a second."""
LOOK_AGAIN = timedelta(days=1)
_WAIT = 60.0
_AT_A_TIME = 0.5
_PAGE = 500
_BY_AGE: tuple[type[Any], ...] = (
    TaskIoRow, OpenLineageEventRow, OpenLineageSaidRow, StageRow, JobVersionRow, RawRow, ExportRow
)  # fmt: skip
Counts = Mapping[str, int]
_Keys = dict[type[Any], list[tuple[Any, ...]]]


def age(text: str) -> timedelta:
    """An age as people write it: `400d`, `60w`.

    Raises:
        ConfigError: it is no age, or a smaller one than pages and facts need.
    """
    number, unit = text.strip()[:-1], text.strip()[-1:]
    allowed = f"days or weeks, such as 400d or 60w, at least {LEAST_DAYS}d"
    if unit not in ("d", "w") or not (number.isascii() and number.isdigit() and len(number) < 6):
        raise ConfigError("--older-than", text, allowed)
    found = timedelta(days=int(number) * (7 if unit == "w" else 1))
    if found < timedelta(days=LEAST_DAYS):
        raise ConfigError("--older-than", text, allowed, f"Pages and facts need the last {LEAST_DAYS - 1} days.")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """What was deleted, or would be.

    Attributes:
        before: the moment.
        rows: table -> rows.
    """

    before: datetime
    rows: Counts

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"before": self.before.isoformat(), "rows": dict(self.rows)}


@dataclass(frozen=True, slots=True)
class _Kept:
    """Which rows of old pairs of a job stay."""

    dates: Mapping[tuple[str, str], frozenset[tuple[str, datetime]]]

    @classmethod
    def of(cls, look: LookBack, job_id: str, before: datetime) -> _Kept:
        found = {}
        for pair in look.last_of_pairs(job_id, before):
            whens = (("", pair.last), ("written", pair.last_written), ("declared", pair.last_declared))
            found[pair.source_id, pair.target_id] = frozenset((why, when) for why, when in whens if when is not None)
        return cls(found)

    def has(self, row: EdgeRunRow) -> bool:
        dates = self.dates.get((row.source_id, row.target_id), frozenset())
        written = row.state == PairState.WRITTEN.value and ("written", row.run_after) in dates
        return ("", row.run_after) in dates or written or (row.declared and ("declared", row.run_after) in dates)


class Pruner:
    """Deletes old runs.

    Args:
        warehouse: where they are.
        clock: for when it was done.
        rows_at_once: about how many rows one transaction may delete.
    """

    def __init__(self, warehouse: PrunableWarehouse, clock: Clock, *, rows_at_once: int = ROWS_AT_ONCE) -> None:
        self._warehouse = warehouse
        self._clock = clock
        self._at_once = rows_at_once

    def run(self, before: datetime, *, dry_run: bool = False, stop: StopSignal | None = None) -> PruneReport:
        """Delete everything that is older than a moment. If this dies, a later call goes on where it stopped.

        Args:
            before: the moment.
            dry_run: only count, what goes since its last run goes too.
            stop: ends after the transaction at hand.

        Raises:
            WarehouseUnavailableError, LineageError: the database is away, or its tables are missing.
        """
        found: Counter[str] = Counter()
        for counts in self.steps(before, dry_run=dry_run):
            found.update(counts)
            if stop is not None and stop.is_set():
                break
        return PruneReport(before=before, rows=dict(sorted(found.items())))

    def steps(self, before: datetime, *, dry_run: bool = False) -> Iterator[Counts]:
        """The same in short steps, each with a transaction of its own at most; table -> rows, also where none went."""
        if not dry_run:
            self._mark(before, done=False)
        with self._warehouse.look_back() as look:
            jobs = look.old_jobs(before)
        for job_id in jobs:
            yield from self._job(job_id, before, dry_run=dry_run)
        for kind in _BY_AGE:
            yield from self._by_age(kind, before, dry_run=dry_run)
        if not dry_run:
            self._mark(before, done=True)

    def finished_at(self) -> datetime | None:
        """When all that was old was deleted last."""
        with self._warehouse.look_back() as look:
            rows = look.rows(PrunedRow, ("job_id",), [(ALL_JOBS,)])
        return rows[0].finished_at if rows else None

    def _mark(self, before: datetime, *, done: bool) -> None:
        """Write the moment down; it only ever moves on."""
        with self._warehouse.transaction() as tx:
            rows = tx.rows(PrunedRow, ("job_id",), [(ALL_JOBS,)])
            have = rows[0] if rows else PrunedRow(job_id=ALL_JOBS, before=before)
            finished = self._clock.now() if done else have.finished_at
            tx.put([replace(have, before=max(have.before, before), finished_at=finished)])

    def _job(self, job_id: str, before: datetime, *, dry_run: bool) -> Iterator[Counts]:
        with self._warehouse.look_back() as look:
            newest = _newest(look, job_id, before)
            runs = look.old_runs(job_id, before)
            kept = _Kept.of(look, job_id, before)
            floor = _floor(look, newest, before) if newest is not None else None
        doomed = [(run_id, pairs) for run_id, pairs in runs if newest is None or run_id != newest.run_id]
        gone: Counter[str] = Counter()
        yield {}
        for part in _parts(doomed, self._at_once):
            with self._warehouse.look_back() as look:
                keys, _ = _doomed(look, job_id, part, before, kept)
                if dry_run:
                    gone.update(row.structure_hash for row in look.rows(RunRow, RunRow.KEY, keys[RunRow]))
                    keys = _with_their_runs(look, keys, before)
            if any(keys.values()) and not dry_run:
                with self._warehouse.transaction() as tx:
                    # A loader may have told something new of these runs since.
                    keys, pairs = _doomed(tx, job_id, part, before, kept)
                    if keys[RunRow] and floor is not None:
                        tx.put([floor])
                    _sum_up(tx, pairs)
                    _delete(tx, keys)
            yield {kind.TABLE: len(found) for kind, found in keys.items() if found}
        if gone:
            with self._warehouse.look_back() as look:
                yield _structures(look, job_id, gone, before)

    def _by_age(self, kind: type[Any], before: datetime, *, dry_run: bool) -> Iterator[Counts]:
        after: tuple[Any, ...] | None = None
        while True:
            with self._warehouse.look_back() as look:
                keys = look.expired(kind, before, after=after, limit=self._at_once)
                if dry_run:
                    doomed = _still_old(look, kind, keys, before)
            if not keys:
                return
            after = keys[-1]
            if not dry_run:
                with self._warehouse.transaction() as tx:
                    doomed = _still_old(tx, kind, keys, before)
                    _delete(tx, {kind: doomed})
            yield {kind.TABLE: len(doomed)} if doomed else {}


def _parts(runs: Sequence[tuple[str, int]], at_once: int) -> Iterator[list[str]]:
    """Run ids in portions of about so many rows."""
    part: list[str] = []
    size = 0
    for run_id, pairs in runs:
        part.append(run_id)
        size += pairs + 5
        if size >= at_once:
            yield part
            part, size = [], 0
    if part:
        yield part


def _newest(look: LookBack, job_id: str, before: datetime) -> RunRow | None:
    """The newest run that was due before a moment."""
    found = look.runs(job_id, limit=2, until=before - timedelta(microseconds=1))
    return next((run for run in found if run.run_id != DECLARED_RUN), None)


def _floor(look: LookBack, newest: RunRow, before: datetime) -> PrunedRow:
    """What the newest old run says of its job and since when, as far as all old runs tell."""
    said = unbroken(_back_from(look, newest), says_of_job, floor_of(look, newest.job_id))
    return Floor(run_id=newest.run_id, said=said).row(newest.job_id, before)


def _back_from(look: LookBack, run: RunRow) -> Iterator[RunRow]:
    yield run
    page = [run]
    while page:
        page = look.runs(run.job_id, limit=_PAGE, before=(page[-1].run_after, page[-1].run_id))
        yield from page


def _doomed(
    access: Rows, job_id: str, run_ids: Collection[str], before: datetime, kept: _Kept
) -> tuple[_Keys, list[EdgeRunRow]]:
    """Keys of the rows of runs that may go, and the pairs among them; a run that was told of since then stays whole."""
    columns, wanted = ("job_id", "run_id"), [(job_id, run_id) for run_id in run_ids]
    runs = access.rows(RunRow, columns, wanted)
    pairs = access.rows(EdgeRunRow, columns, wanted)
    reports = access.rows(TaskIoRow, columns, wanted)
    said = access.rows(OpenLineageSaidRow, columns, wanted)
    late = {row.run_id for row in runs if row.run_after >= before or row.emitted_at >= before}
    late |= {row.run_id for row in pairs if row.run_after >= before or row.emitted_at >= before}
    late |= {row.run_id for row in reports if row.emitted_at >= before}
    late |= {row.run_id for row in said if row.happened_at >= before}
    gone = [row for row in pairs if row.run_id not in late and not kept.has(row)]
    keys: _Keys = {RunRow: [(job_id, row.run_id) for row in runs if row.run_id not in late]}
    keys[EdgeRunRow] = [(job_id, row.run_id, row.source_id, row.target_id) for row in gone]
    keys[TaskIoRow] = [(job_id, r.run_id, r.task_id, r.map_index) for r in reports if r.run_id not in late]
    keys[OpenLineageSaidRow] = [(job_id, row.run_id, row.event_id) for row in said if row.run_id not in late]
    return keys, gone


def _with_their_runs(look: LookBack, keys: _Keys, before: datetime) -> _Keys:
    """What goes with these runs or after them, as a dry run counts it: what has no run is found by its age alone."""
    runs = set(keys[RunRow])
    found = {kind: [key for key in of_kind if key[:2] in runs] for kind, of_kind in keys.items()}
    found[EdgeRunRow] = keys[EdgeRunRow]
    waiting = look.rows(StageRow, ("job_id", "run_id"), runs)
    return found | {StageRow: [(row.event_id,) for row in waiting if row.emitted_at < before]}


def _structures(look: LookBack, job_id: str, gone: Mapping[str, int], before: datetime) -> Counts:
    """How many structures of a job go after so many runs of each."""
    runs = look.runs_of_structures(job_id)
    last = [(job_id, structure) for structure, count in gone.items() if count == runs.get(structure)]
    rows = look.rows(JobVersionRow, JobVersionRow.KEY, last)
    old = sum(row.valid_to < before and row.emitted_at < before for row in rows)
    return {JobVersionRow.TABLE: old} if old else {}


def _sum_up(tx: LoadTransaction, pairs: Collection[EdgeRunRow]) -> None:
    """Note in the sums over all runs how many rows they lose, and from when the first one was."""
    gone: dict[tuple[str, str, str], list[datetime]] = {}
    for row in pairs:
        gone.setdefault((row.job_id, row.source_id, row.target_id), []).append(row.run_after)
    put = []
    for edge in tx.rows(EdgeRow, EdgeRow.KEY, list(gone)):
        dates = gone[edge.job_id, edge.source_id, edge.target_id]
        first = min(dates) if edge.pruned_first is None else min(edge.pruned_first, *dates)
        put.append(replace(edge, pruned_runs=edge.pruned_runs + len(dates), pruned_first=first))
    tx.put(put)


def _delete(tx: LoadTransaction, keys: _Keys) -> None:
    for kind, found in keys.items():
        if found:
            tx.delete(kind, found)


_TOLD: dict[type[Any], str] = {
    TaskIoRow: "emitted_at", StageRow: "emitted_at", OpenLineageSaidRow: "happened_at",
    JobVersionRow: "emitted_at", ExportRow: "sent_at",
}  # fmt: skip


def _still_old(
    access: Rows, kind: type[Any], keys: Sequence[tuple[Any, ...]], before: datetime
) -> list[tuple[Any, ...]]:
    """Those of the keys whose rows may go, now that no loader writes."""
    if kind is OpenLineageEventRow:
        return list(keys)
    if kind is RawRow:
        # The newest message of each partition tells when something was loaded last.
        places = {key[:2] for key in keys}
        newest = {
            (row.topic, row.partition, row.next_offset - 1)
            for row in access.rows(OffsetRow, ("topic", "partition"), places)
        }
        return [key for key in keys if key not in newest]
    told = _TOLD[kind]
    rows = [row for row in access.rows(kind, kind.KEY, keys) if getattr(row, told) < before]
    if kind in (TaskIoRow, StageRow, OpenLineageSaidRow):
        runs = {(row.job_id, row.run_id) for row in rows}
        kept = {(row.job_id, row.run_id) for row in access.rows(RunRow, ("job_id", "run_id"), runs)}
        if kind is OpenLineageSaidRow:
            said = access.rows(OpenLineageSaidRow, ("job_id", "run_id"), runs - kept)
            kept |= {(row.job_id, row.run_id) for row in said if row.happened_at >= before}
        rows = [row for row in rows if (row.job_id, row.run_id) not in kept]
    return [tuple(getattr(row, name) for name in kind.KEY) for row in rows]


class Retention:
    """Deletes what is older than some days, a step at a time, so that a loader can do it beside its work.

    Args:
        pruner: deletes.
        clock: the time.
        days: how long runs are kept.
    """

    def __init__(self, pruner: Pruner, clock: Clock, days: float) -> None:
        self._pruner = pruner
        self._clock = clock
        self._days = days
        self._steps: Iterator[Counts] | None = None
        self._look_at: float | None = None

    def step(self) -> bool:
        """Delete for half a second if anything is due: once a day. False if nothing is left to do.

        Raises:
            WarehouseUnavailableError, LineageError: a later call begins anew.
        """
        if self._steps is None and not self._due():
            return False
        steps = self._steps or self._pruner.steps(self._clock.now() - timedelta(days=self._days))
        self._steps = None
        started = self._clock.monotonic()
        while next(steps, None) is not None:
            if self._clock.monotonic() - started >= _AT_A_TIME:
                self._steps = steps
                return True
        return False

    def work(self, seconds: float, stop: StopSignal) -> None:
        """Step until nothing is left to do, for so many seconds at most. Raises as `step`."""
        started = self._clock.monotonic()
        while not stop.is_set() and self._clock.monotonic() - started < seconds and self.step():
            pass

    def _due(self) -> bool:
        """Whether the last deletion is a day ago; the warehouse is asked once a minute."""
        now = self._clock.monotonic()
        if self._look_at is not None and now < self._look_at:
            return False
        self._look_at = now + _WAIT
        finished = self._pruner.finished_at()
        return finished is None or self._clock.now() - finished >= LOOK_AGAIN
