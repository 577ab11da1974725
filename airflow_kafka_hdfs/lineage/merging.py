"""From messages to rows: what a batch changes in the warehouse.

Every table is a function of the set of messages, so order, repetition and batching of messages never matter: runs,
reports and edge messages keep the newest of their kind, pairs of a run are derived anew from what is kept, and an
edge is summed up from its runs. A guess that could depend on the order of arrival is computed from rows instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.lineage.edge_sums import EdgeSums
from airflow_kafka_hdfs.lineage.events import EdgeMessage, Message, RunMessage, TaskIoMessage
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache, PairRow, RunPairs
from airflow_kafka_hdfs.lineage.identity import ALIAS_NAMESPACE, DatasetId
from airflow_kafka_hdfs.lineage.job_facts import JobFacts
from airflow_kafka_hdfs.lineage.kept import of_kept_range
from airflow_kafka_hdfs.lineage.message_json import decode_facts, decode_report
from airflow_kafka_hdfs.lineage.message_rows import FROM_MESSAGE, edge_row, report_row, run_row, version_row
from airflow_kafka_hdfs.lineage.openlineage import OpenLineageEvent
from airflow_kafka_hdfs.lineage.openlineage_runs import fold
from airflow_kafka_hdfs.lineage.registration import Registration
from airflow_kafka_hdfs.lineage.storage_text import compact, unpack
from airflow_kafka_hdfs.lineage.workflow import Workflow, decode_workflow
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_rows import EdgeRunRow, JobVersionRow, RunRow, StageRow, TaskIoRow

RunKey = tuple[str, str]
FROM_GRAPH = "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a batch changed.

    Attributes:
        runs: runs whose pairs were derived anew.
        edges: pairs written or taken back.
        new_jobs, updated_jobs: ids of DAGs seen for the first time, and of those whose structure is new.
        waiting: runs whose task graph has not arrived.
        old: messages and events passed over, since what was told then has been deleted.
    """

    runs: int = 0
    edges: int = 0
    new_jobs: tuple[str, ...] = ()
    updated_jobs: tuple[str, ...] = ()
    waiting: int = 0
    old: int = 0


@dataclass(slots=True)
class _RunState:
    """One touched run while it is merged."""

    before: RunRow | None = None
    row: RunRow | None = None
    reports: dict[tuple[str, int], TaskIoRow] = field(default_factory=dict)
    edges: dict[tuple[str, str], EdgeRunRow] = field(default_factory=dict)
    told: dict[tuple[str, str], EdgeRunRow] = field(default_factory=dict)
    fresh_told: list[EdgeMessage] = field(default_factory=list)
    fresh_reports: list[TaskIoRow] = field(default_factory=list)


class Merge:
    """Merges one batch in one transaction.

    Args:
        transaction: where rows are read and written.
        cache: graphs kept over batches.
    """

    def __init__(self, transaction: LoadTransaction, cache: GraphCache) -> None:
        self._tx = transaction
        self._cache = cache
        self._runs: dict[RunKey, _RunState] = {}
        self._registration = Registration(transaction)
        self._jobs = JobFacts(transaction)
        self._edges = EdgeSums(transaction)
        self._versions: dict[tuple[str, str], JobVersionRow] = {}

    def apply(self, messages: Iterable[Message], events: Iterable[OpenLineageEvent] = ()) -> Merged:
        """Merge messages and write what they change.

        Args:
            messages: in any order, with or without repetitions.
            events: of OpenLineage, likewise.

        Raises:
            LineageError: a stored row can't be read.
            WarehouseUnavailableError: the database is away.
        """
        own, others, old = of_kept_range(self._tx, list(messages), list(events))
        foreign = fold(self._tx, others)
        batch = [*own, *foreign.runs]
        self._registration.note([*own, *foreign.noted])
        self._load({(m.envelope.job.job_id, m.envelope.run.run_id) for m in batch})
        for message in batch:
            self._take(message)
        of_jobs = [*batch, *(m for m in foreign.noted if m.envelope.job.dag_id)]
        new_jobs, updated_jobs, waiting = self._write_versions(
            m for m in of_jobs if isinstance(m, RunMessage) and m.structure_hash
        )
        self._write_runs()
        for key, state in self._runs.items():
            self._derive(key, state)
        self._tx.put([row for state in self._runs.values() if (row := state.row) and row != state.before])
        edges = self._edges.write()
        self._jobs.write(
            {key: (state.before, state.row) for key, state in self._runs.items() if state.row},
            # What a task of ours reports knows its job by name alone.
            [m for m in of_jobs if m.envelope.origin or not isinstance(m, TaskIoMessage)],
        )
        self._registration.write()
        self._tx.end_edges({job_id for job_id, _ in self._runs})
        return Merged(
            runs=len(self._runs), edges=edges, new_jobs=new_jobs, updated_jobs=updated_jobs, waiting=waiting, old=old
        )

    def _load(self, keys: set[RunKey]) -> None:
        fresh = [key for key in keys if key not in self._runs]
        for key in fresh:
            self._runs[key] = _RunState()
        columns = ("job_id", "run_id")
        for run in self._tx.rows(RunRow, columns, fresh):
            state = self._runs[run.job_id, run.run_id]
            state.before = state.row = run
        for report in self._tx.rows(TaskIoRow, columns, fresh):
            self._runs[report.job_id, report.run_id].reports[report.task_id, report.map_index] = report
        for edge in self._tx.rows(EdgeRunRow, columns, fresh):
            state = self._runs[edge.job_id, edge.run_id]
            state.edges[edge.source_id, edge.target_id] = edge
            if edge.origin == FROM_MESSAGE:
                state.told[edge.source_id, edge.target_id] = edge

    def _take(self, message: Message) -> None:
        state = self._runs[message.envelope.job.job_id, message.envelope.run.run_id]
        if isinstance(message, RunMessage):
            row = run_row(message)
            if state.row is None or _run_rank(row) > _run_rank(state.row):
                state.row = row
        elif isinstance(message, TaskIoMessage):
            report = report_row(message)
            key = (report.task_id, report.map_index)
            have = state.reports.get(key)
            if have is None or _report_rank(report) > _report_rank(have):
                state.reports[key] = report
                state.fresh_reports.append(report)
        elif message.target.dataset.namespace != ALIAS_NAMESPACE:
            state.fresh_told.append(message)

    def _write_versions(self, messages: Iterable[RunMessage]) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        batch = list(messages)
        self._load_versions({(m.envelope.job.job_id, m.structure_hash) for m in batch})
        known_jobs = self._jobs.load(job_id for job_id, _ in self._runs)
        before = dict(self._versions)
        for message in batch:
            self._take_version(message)
        changed = {key: row for key, row in self._versions.items() if before.get(key) != row}
        self._tx.put(list(changed.values()))
        arrived = {key for key, row in changed.items() if row.graph and not (key in before and before[key].graph)}
        self._wake(arrived)
        waiting = self._stage()
        new = {job for job, _ in changed if job not in known_jobs}
        updated = {job for job, _ in changed.keys() - before.keys() if job in known_jobs}
        return tuple(sorted(new)), tuple(sorted(updated)), waiting

    def _load_versions(self, more: set[tuple[str, str]]) -> None:
        """Read the structures of the runs at hand, and some more."""
        wanted = more | {(row.job_id, row.structure_hash) for s in self._runs.values() if (row := s.row)}
        missing = wanted - self._versions.keys()
        for version in self._tx.rows(JobVersionRow, ("job_id", "structure_hash"), missing):
            self._versions[version.job_id, version.structure_hash] = version

    def _take_version(self, message: RunMessage) -> None:
        key = (message.envelope.job.job_id, message.structure_hash)
        have, fresh = self._versions.get(key), version_row(message)
        if message.graph is not None:
            self._cache.add(message.structure_hash, message.graph)
        if have is None:
            self._versions[key] = fresh
            return
        newest = max(have, fresh, key=lambda row: (row.emitted_at, row.dag_version, row.bundle, row.bundle_version))
        self._versions[key] = JobVersionRow(
            job_id=have.job_id,
            structure_hash=have.structure_hash,
            graph=have.graph or fresh.graph,
            dag_version=newest.dag_version,
            bundle=newest.bundle,
            bundle_version=newest.bundle_version,
            valid_from=min(have.valid_from, fresh.valid_from),
            valid_to=max(have.valid_to, fresh.valid_to),
            emitted_at=newest.emitted_at,
        )

    def _wake(self, arrived: set[tuple[str, str]]) -> None:
        """Take up the runs that waited for the graphs that are here now."""
        if not arrived:
            return
        waited = self._tx.rows(StageRow, ("job_id", "structure_hash"), arrived)
        self._load({(row.job_id, row.run_id) for row in waited})
        self._load_versions(set())
        self._tx.delete(StageRow, [(row.event_id,) for row in waited])

    def _stage(self) -> int:
        """Note the runs that have to wait for their graph."""
        waiting = [
            StageRow(
                event_id=row.event_id,
                job_id=row.job_id,
                run_id=row.run_id,
                structure_hash=row.structure_hash,
                emitted_at=row.emitted_at,
            )
            for state in self._runs.values()
            if (row := state.row) is not None and not self._versions[row.job_id, row.structure_hash].graph
        ]
        self._tx.put(waiting)
        return len(waiting)

    def _write_runs(self) -> None:
        """Reports are written before pairs are derived; run rows after, with what was derived."""
        self._tx.put([row for state in self._runs.values() for row in _last_of_each(state.fresh_reports)])

    def _graph(self, row: RunRow) -> Workflow | None:
        version = self._versions[row.job_id, row.structure_hash]
        if not version.graph:
            return None
        graph = self._cache.get(row.structure_hash)
        if graph is None:
            graph = decode_workflow(json.loads(unpack(version.graph)))
            self._cache.add(row.structure_hash, graph)
        return graph

    def _derive(self, key: RunKey, state: _RunState) -> None:
        row = state.row
        told = max(
            (
                *(edge.clear_number for edge in state.told.values()),
                *(message.envelope.run.clear_number for message in state.fresh_told),
            ),
            default=-1,
        )
        graph = self._graph(row) if row is not None and row.clear_number >= told else None
        if row is not None and graph is not None:
            edges, row = self._from_graph(row, graph, state)
            state.row = row
        else:
            # Only here do single messages matter: while the graph is known, pairs are derived from it.
            for message in state.fresh_told:
                fresh = edge_row(message)
                pair = (fresh.source_id, fresh.target_id)
                have = state.told.get(pair)
                if have is None or _edge_rank(fresh) > _edge_rank(have):
                    state.told[pair] = fresh
            clear = max(told, row.clear_number if row is not None else 0)
            edges = {pair: edge for pair, edge in state.told.items() if edge.clear_number == clear}
            if row is not None and edges:
                told_facts = {"pairs": len(edges), "compressed": False, "attempts": 1, "incomplete": "[]"}
                row = state.row = _changed(row, told_facts)
        self._edges.note(key, state.edges, edges)

    def _from_graph(
        self, row: RunRow, graph: Workflow, state: _RunState
    ) -> tuple[dict[tuple[str, str], EdgeRunRow], RunRow]:
        bodies = tuple(sorted(r.body for r in state.reports.values() if r.clear_number == row.clear_number))
        found = self._cache.derived(
            (row.structure_hash, row.facts, bodies), lambda: self._run_pairs(row, graph, bodies)
        )
        rows = {
            (pair.source_id, pair.target_id): EdgeRunRow(
                job_id=row.job_id,
                run_id=row.run_id,
                source_id=pair.source_id,
                target_id=pair.target_id,
                run_after=row.run_after,
                state=pair.state,
                outcome=row.outcome,
                evidence=pair.evidence,
                instances=pair.instances,
                path=pair.path,
                declared=pair.declared,
                origin=FROM_GRAPH,
                clear_number=row.clear_number,
                columns=pair.columns,
                emitted_at=row.emitted_at,
            )
            for pair in found.pairs
        }
        return rows, _changed(row, found.changes)

    def _run_pairs(self, row: RunRow, graph: Workflow, bodies: tuple[str, ...]) -> RunPairs:
        """The pairs of a run, as far as they do not depend on which run it is."""
        facts, options = decode_facts(json.loads(unpack(row.facts)))
        reports = [decode_report(json.loads(unpack(body))) for body in bodies]
        declared = self._cache.declared(row.structure_hash, graph, options)
        found = run_lineage(graph, facts, reports, options, declared)
        columns: dict[tuple[DatasetId, DatasetId], list[list[Any]]] = {}
        for edge in found.columns:
            columns.setdefault((edge.source, edge.target), []).append(
                [edge.source_field, edge.target_field, edge.direct, edge.subtype, edge.masking]
            )
        return RunPairs(
            pairs=tuple(
                PairRow(
                    source_id=pair.source.key,
                    target_id=pair.target.key,
                    state=pair.state.value,
                    evidence=" ".join(pair.evidence),
                    instances=pair.instances,
                    path=compact(list(pair.path)),
                    declared=(pair.source, pair.target) in found.declared,
                    columns=compact(columns[pair.source, pair.target]) if (pair.source, pair.target) in columns else "",
                )
                for pair in found.derivation.pairs
            ),
            changes={
                "pairs": found.derivation.count,
                "compressed": found.derivation.compressed,
                "attempts": found.attempts,
                "incomplete": compact(list(found.incomplete)),
            },
        )


def _changed(row: RunRow, changes: Mapping[str, Any]) -> RunRow:
    return RunRow(**{name: changes.get(name, getattr(row, name)) for name in RunRow.__slots__})


def _last_of_each(reports: list[TaskIoRow]) -> list[TaskIoRow]:
    return list({(report.task_id, report.map_index): report for report in reports}.values())


def _run_rank(row: RunRow) -> tuple[Any, ...]:
    return (
        not row.origin,
        row.clear_number,
        row.emitted_at,
        row.outcome,
        row.structure_hash,
        row.facts,
        row.job,
        row.versions,
    )


def _report_rank(row: TaskIoRow) -> tuple[Any, ...]:
    if row.origin:
        # Folded from all events that are known: the fold of most of them is the newest.
        return False, row.clear_number, row.emitted_at
    return True, row.clear_number, row.try_number, row.complete, row.emitted_at, row.body


def _edge_rank(row: EdgeRunRow) -> tuple[Any, ...]:
    said = (row.state, row.outcome, row.evidence, row.path, row.columns, row.declared, row.instances)
    return row.clear_number, row.emitted_at, *said
