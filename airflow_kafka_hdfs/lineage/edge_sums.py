"""An edge over all runs of a job, kept equal to the sum of its rows per run without reading them all each time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from airflow_kafka_hdfs.ports.lineage import LoadTransaction, PairState
from airflow_kafka_hdfs.ports.lineage_rows import EdgeColumnRow, EdgeRow, EdgeRunRow

EdgeKey = tuple[str, str, str]
Ends = tuple[str, str]
_WRITTEN = PairState.WRITTEN.value


class EdgeSums:
    """Collects which rows of `edge_run` change and brings `edge` and `edge_column` up to date.

    Args:
        transaction: where rows are read and written.
    """

    def __init__(self, transaction: LoadTransaction) -> None:
        self._tx = transaction
        self._gone: list[EdgeRunRow] = []
        self._put: list[EdgeRunRow] = []
        self._changes: dict[EdgeKey, list[tuple[EdgeRunRow | None, EdgeRunRow | None]]] = {}

    def note(self, run: tuple[str, str], before: Mapping[Ends, EdgeRunRow], after: Mapping[Ends, EdgeRunRow]) -> None:
        """A run had these pairs and has those now.

        Args:
            run: (job id, run id).
            before: stored rows by (source id, target id).
            after: rows as they shall be.
        """
        if not before:  # a run that was never loaded
            self._put += after.values()
            for ends, row in after.items():
                self._changes.setdefault((run[0], *ends), []).append((None, row))
            return
        for ends in before.keys() | after.keys():
            old, new = before.get(ends), after.get(ends)
            if old == new:
                continue
            if new is not None:
                self._put.append(new)
            elif old is not None:
                self._gone.append(old)
            self._changes.setdefault((run[0], *ends), []).append((old, new))

    def write(self) -> int:
        """Write rows of runs, then the sums.

        Returns:
            How many rows of runs were written or deleted.
        """
        self._tx.delete(EdgeRunRow, [(r.job_id, r.run_id, r.source_id, r.target_id) for r in self._gone])
        self._tx.put(self._put)
        columns = ("job_id", "source_id", "target_id")
        stored = {
            (row.job_id, row.source_id, row.target_id): row
            for row in self._tx.rows(EdgeRow, columns, list(self._changes))
        }
        fresh: dict[EdgeKey, EdgeRow] = {}
        again: list[EdgeKey] = []
        for key, changes in self._changes.items():
            row = _applied(stored.get(key), changes)
            if row is None:
                again.append(key)
            else:
                fresh[key] = row
        fresh.update(self._summed(again, stored))
        emptied = [key for key in again if key not in fresh]
        self._tx.delete(EdgeRow, emptied)
        changed = [row for key, row in fresh.items() if stored.get(key) != row]
        self._tx.put(changed)
        self._write_columns(stored, fresh, emptied)
        return len(self._put) + len(self._gone)

    def _summed(self, keys: list[EdgeKey], stored: Mapping[EdgeKey, EdgeRow]) -> dict[EdgeKey, EdgeRow]:
        rows: dict[EdgeKey, list[EdgeRunRow]] = {}
        for row in self._tx.edge_runs(keys):
            rows.setdefault((row.job_id, row.source_id, row.target_id), []).append(row)
        found = {key: summed(per_run, stored.get(key)) for key, per_run in rows.items()}
        for key in keys:
            have = stored.get(key)
            if key not in found and have is not None and have.pruned_runs:
                found[key] = replace(have, run_count=have.pruned_runs)
        return found

    def _write_columns(
        self, stored: Mapping[EdgeKey, EdgeRow], fresh: Mapping[EdgeKey, EdgeRow], emptied: Iterable[EdgeKey]
    ) -> None:
        gone: list[tuple[str, str, str, str, str]] = []
        put: dict[tuple[str, str, str, str, str], EdgeColumnRow] = {}
        for key in {*fresh, *emptied}:
            before = _columns(stored.get(key))
            after = _columns(fresh.get(key))
            put.update({name: row for name, row in after.items() if before.get(name) != row})
            gone += [name for name in before if name not in after]
        self._tx.delete(EdgeColumnRow, gone)
        self._tx.put(list(put.values()))


def _columns(edge: EdgeRow | None) -> dict[tuple[str, str, str, str, str], EdgeColumnRow]:
    if edge is None or not edge.columns:
        return {}
    found = {}
    for source_col, target_col, direct, subtype, masking in json.loads(edge.columns):
        row = EdgeColumnRow(
            job_id=edge.job_id,
            source_id=edge.source_id,
            source_col=source_col,
            target_id=edge.target_id,
            target_col=target_col,
            direct=direct,
            subtype=subtype,
            masking=masking,
            last_seen=edge.last_seen,
        )
        found[row.job_id, row.source_id, row.source_col, row.target_id, row.target_col] = row
    return found


def _applied(edge: EdgeRow | None, changes: list[tuple[EdgeRunRow | None, EdgeRunRow | None]]) -> EdgeRow | None:
    """The sum with new and changed runs; None where one takes something back, so that it must be made anew."""
    added: list[EdgeRunRow] = []
    for old, new in changes:
        if new is None:
            return None
        if old is None:
            added.append(new)
            continue
        if added:
            edge, added = _plus(edge, added), []
        edge = None if edge is None else _replaced(edge, old, new)
        if edge is None:
            return None
    return _plus(edge, added) if added else edge


def _replaced(edge: EdgeRow, old: EdgeRunRow, new: EdgeRunRow) -> EdgeRow | None:
    """The sum after a run tells more of the edge than before: a run that goes on is told of again and again."""
    when = new.run_after
    success_gone = _succeeded(old) and not _succeeded(new) and edge.last_success == when
    promise_gone = old.declared and not new.declared and edge.last_declared == when
    if old.run_after != when or success_gone or promise_gone:
        return None
    edge = replace(
        edge,
        last_success=_latest(edge.last_success, [when] if _succeeded(new) else []),
        last_declared=_latest(edge.last_declared, [when] if new.declared else []),
    )
    if (when, new.run_id) != (edge.last_seen, edge.last_run_id):
        return edge
    return replace(edge, last_state=new.state, last_outcome=new.outcome, evidence=new.evidence, columns=new.columns)


def _one(row: EdgeRunRow) -> EdgeRow:
    return EdgeRow(
        job_id=row.job_id,
        source_id=row.source_id,
        target_id=row.target_id,
        first_seen=row.run_after,
        last_seen=row.run_after,
        last_success=row.run_after if _succeeded(row) else None,
        last_declared=row.run_after if row.declared else None,
        last_run_id=row.run_id,
        last_state=row.state,
        last_outcome=row.outcome,
        run_count=1,
        evidence=row.evidence,
        self=row.source_id == row.target_id,
        columns=row.columns,
    )


def _plus(edge: EdgeRow | None, rows: list[EdgeRunRow]) -> EdgeRow:
    """The sum with rows of more runs, at least one."""
    newest = max(rows, key=_when)
    fresh = _one(newest)
    base = fresh if edge is None else edge
    last = fresh if edge is None or _when(newest) > (edge.last_seen, edge.last_run_id) else edge
    # Field by field: this is made for each pair of a batch, and `replace` takes three times as long.
    return EdgeRow(
        job_id=base.job_id,
        source_id=base.source_id,
        target_id=base.target_id,
        first_seen=min(base.first_seen, *[row.run_after for row in rows]),
        last_seen=last.last_seen,
        last_success=_latest(base.last_success, [row.run_after for row in rows if _succeeded(row)]),
        last_declared=_latest(base.last_declared, [row.run_after for row in rows if row.declared]),
        last_run_id=last.last_run_id,
        last_state=last.last_state,
        last_outcome=last.last_outcome,
        run_count=len(rows) + (0 if edge is None else edge.run_count),
        evidence=last.evidence,
        self=base.self,
        columns=last.columns,
        valid_to=base.valid_to,
        pruned_runs=base.pruned_runs,
        pruned_first=base.pruned_first,
    )


def summed(rows: list[EdgeRunRow], before: EdgeRow | None = None) -> EdgeRow:
    """The sum over rows of one edge, and over what was pruned before.

    Args:
        rows: all rows of the edge, at least one.
        before: the stored sum; what it says of pruned rows and of its end is kept.
    """
    edge = _plus(None, rows)
    if before is None:
        return edge
    first = edge.first_seen if before.pruned_first is None else min(edge.first_seen, before.pruned_first)
    return replace(
        edge,
        first_seen=first,
        run_count=edge.run_count + before.pruned_runs,
        valid_to=before.valid_to,
        pruned_runs=before.pruned_runs,
        pruned_first=before.pruned_first,
    )


def _succeeded(row: EdgeRunRow) -> bool:
    return row.state == _WRITTEN


def _when(row: EdgeRunRow) -> tuple[datetime, str]:
    return row.run_after, row.run_id


def _latest(known: datetime | None, more: list[datetime]) -> datetime | None:
    if known is not None:
        more.append(known)
    return max(more, default=None)
