"""The events of a run brought together: what their set says, in whatever order and however often they come.

Of each event it is kept that it came. A run is folded from the few of its events that still say something
(`openlineage_gist`), so that an event costs what it holds and not what came before it. A fold of more events is always
newer than one of fewer, so the last one stands. Datasets and jobs only ever grow, so they are noted event by event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, TypeVar

from airflow_kafka_hdfs.lineage.events import (
    DatasetDetail,
    EdgeMessage,
    Envelope,
    Message,
    RunMessage,
    TaskIoMessage,
)
from airflow_kafka_hdfs.lineage.expansion import STATES
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.message_json import decode, encode
from airflow_kafka_hdfs.lineage.openlineage import ORIGIN, SINGLE_HASH, OpenLineageEvent
from airflow_kafka_hdfs.lineage.openlineage_datasets import filled_in
from airflow_kafka_hdfs.lineage.openlineage_gist import EMPTY, Said, attempt, gist
from airflow_kafka_hdfs.lineage.openlineage_jobs import JOB, RUNNING
from airflow_kafka_hdfs.lineage.storage_text import compact, pack, unpack
from airflow_kafka_hdfs.lineage.workflow import ExplicitTarget, RunFacts, TaskIo
from airflow_kafka_hdfs.ports.lineage import LoadTransaction, PairState
from airflow_kafka_hdfs.ports.lineage_rows import DECLARED_RUN, OpenLineageEventRow, OpenLineageSaidRow

T = TypeVar("T")
RunKey = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What a batch of events means.

    Attributes:
        noted: what each new event says by itself; for everything that only grows.
        runs: the runs that it touches, from all their events.
    """

    noted: tuple[Message, ...] = ()
    runs: tuple[Message, ...] = ()


def fold(tx: LoadTransaction, events: Iterable[OpenLineageEvent]) -> Folded:
    """Keep new events and bring the runs that they touch together.

    Args:
        tx: a transaction.
        events: in any order, with or without repetitions.
    """
    batch = {(event.job_id, event.run_id, event.event_id): event for event in events}
    of_runs = [key for key, event in batch.items() if event.job_id]
    known = {(r.job_id, r.run_id, r.event_id) for r in tx.rows(OpenLineageEventRow, OpenLineageEventRow.KEY, of_runs)}
    fresh = [event for key, event in batch.items() if key not in known]
    touched: dict[RunKey, list[OpenLineageEvent]] = {}
    for event in fresh:
        if event.job_id:
            touched.setdefault((event.job_id, event.run_id), []).append(event)
    tx.put([_row(event) for found in touched.values() for event in found])
    return Folded(
        noted=tuple(
            replace(message, envelope=replace(message.envelope, origin=ORIGIN))
            for event in fresh
            for message in event.messages
        ),
        runs=tuple(_folded(tx, touched)),
    )


def _folded(tx: LoadTransaction, touched: dict[RunKey, list[OpenLineageEvent]]) -> Iterator[Message]:
    stored: dict[RunKey, dict[str, OpenLineageSaidRow]] = {}
    for row in tx.rows(OpenLineageSaidRow, ("job_id", "run_id"), list(touched)):
        stored.setdefault((row.job_id, row.run_id), {})[row.event_id] = row
    put: list[OpenLineageSaidRow] = []
    gone: list[tuple[str, str, str]] = []
    for key, fresh in sorted(touched.items()):
        before = stored.get(key, {})
        count = max((row.events for row in before.values()), default=0) + len(fresh)
        said = [_said(row) for row in before.values()]
        said += [Said(event_id=e.event_id, happened_at=e.happened_at, messages=e.messages) for e in fresh]
        said.sort(key=lambda item: item.rank)
        yield from _run(said, count)
        kept = gist(said)
        for item in said:
            if item.event_id in kept:
                row = _said_row(key, item, before.get(item.event_id), count if item is said[-1] else 0)
                if row != before.get(item.event_id):
                    put.append(row)
        gone += [(*key, event_id) for event_id in before if event_id not in kept]
    tx.delete(OpenLineageSaidRow, gone)
    tx.put(put)


def _row(event: OpenLineageEvent) -> OpenLineageEventRow:
    return OpenLineageEventRow(
        job_id=event.job_id, run_id=event.run_id, event_id=event.event_id, happened_at=event.happened_at
    )


def _said(row: OpenLineageSaidRow) -> Said:
    messages = tuple(decode(text.encode()) for text in json.loads(unpack(row.body)))
    return Said(event_id=row.event_id, happened_at=row.happened_at, messages=messages)


def _said_row(key: RunKey, item: Said, have: OpenLineageSaidRow | None, events: int) -> OpenLineageSaidRow:
    if have is not None:
        return have if have.events == events else replace(have, events=events)
    return OpenLineageSaidRow(
        job_id=key[0],
        run_id=key[1],
        event_id=item.event_id,
        happened_at=item.happened_at,
        events=events,
        body=pack(compact([encode(message).decode() for message in item.messages])),
    )


def _run(said: Sequence[Said], count: int) -> Iterator[Message]:
    """A run from its events, oldest first; `count` have come in all."""
    messages = [message for item in said for message in item.messages]
    runs = [message for message in messages if isinstance(message, RunMessage)]
    reports = [message for message in messages if isinstance(message, TaskIoMessage)]
    if said[0].envelope.run.run_id == DECLARED_RUN:
        runs, reports, messages = runs[-1:], [], list(runs[-1:])
    about = replace(
        _envelope([message.envelope for message in messages]),
        # Newer than every fold of fewer of these events.
        emitted_at=said[-1].happened_at + timedelta(microseconds=count),
        origin=ORIGIN,
    )
    if any(message.structure_hash == SINGLE_HASH for message in runs):
        yield from _single(about, runs, reports)
    else:
        yield from _of_tasks(about, runs, reports)


def _single(about: Envelope, runs: list[RunMessage], reports: list[TaskIoMessage]) -> Iterator[Message]:
    """A job with one task: events of a run add to each other."""
    named: dict[DatasetId, ExplicitTarget] = {}
    for message in reports:
        named.update((item.target, item) for item in message.report.explicit or ())
    reads = tuple(dict.fromkeys(use for message in reports for use in message.report.reads))
    writes = tuple(dict.fromkeys(use for message in reports for use in message.report.writes))
    state = next((m.report.state for m in reversed(reports) if m.report.complete), RUNNING)
    report = TaskIo(
        task_id=JOB,
        state=state,
        reads=reads,
        writes=writes,
        explicit=filled_in(tuple(named.values()), reads, writes) if named else None,
        columns=tuple(dict.fromkeys(edge for message in reports for edge in message.report.columns)),
        temporary=frozenset(found for message in reports for found in message.report.temporary),
    )
    yield replace(runs[-1], envelope=about, facts=RunFacts(states={(JOB, -1): (state, 1)}))
    yield TaskIoMessage(envelope=about, report=report)


def _of_tasks(about: Envelope, runs: list[RunMessage], reports: list[TaskIoMessage]) -> Iterator[Message]:
    """A run with a task graph: of each task instance the last event of its last attempt counts."""
    latest: dict[tuple[str, int], TaskIoMessage] = {}
    for message in reports:
        key = (message.report.task_id, message.report.map_index)
        if key not in latest or attempt(message) >= attempt(latest[key]):
            latest[key] = message
    graph = next((message for message in reversed(runs) if message.graph is not None), None)
    if graph is not None:
        current = [m for m in runs if m.envelope.run.clear_number == about.run.clear_number]
        states = {
            key: (m.report.state, m.report.try_number)
            for key, m in latest.items()
            if m.report.complete or m.envelope.run.clear_number == about.run.clear_number
        }
        mapped = {task_id for task_id, map_index in latest if map_index >= 0}
        for run in current:
            for (task_id, _), (state, _) in run.facts.states.items():
                if task_id not in mapped and state:
                    states[task_id, -1] = (state, states.get((task_id, -1), ("", 1))[1])
        yield replace(graph, envelope=about, facts=replace(graph.facts, states=states), details=())
    for message in latest.values():
        report = message.report
        if report.explicit is not None:
            report = replace(report, explicit=filled_in(report.explicit, report.reads, report.writes))
        yield replace(message, envelope=about, report=report)
    if graph is None:
        for message in reports:
            yield from _told(message)


def _told(message: TaskIoMessage) -> Iterator[EdgeMessage]:
    """The pairs of one task instance alone, for as long as the task graph of its run is unknown."""
    report = message.report
    if not report.complete:
        return
    targets = filled_in(report.explicit or (), report.reads, report.writes)
    for item in targets:
        for source in item.sources:
            yield EdgeMessage(
                envelope=replace(message.envelope, origin=ORIGIN),
                source=DatasetDetail(dataset=source),
                target=DatasetDetail(dataset=item.target),
                state=STATES.get(report.state, PairState.UNKNOWN),
                evidence=(item.evidence.value,),
                path=(report.task_id,),
            )


def _envelope(said: Sequence[Envelope]) -> Envelope:
    """What all events of a run say of it together: of each field what was said last."""
    clear = max(item.run.clear_number for item in said)
    current = [item.run for item in said if item.run.clear_number == clear]
    run = _last_said(current)
    ended = next((item for item in reversed(current) if item.outcome not in ("", RUNNING)), None)
    dated = next((item for item in current if item.logical_date is not None), None)
    started = [item.started_at for item in current if item.started_at is not None]
    return Envelope(
        job=_last_said([item.job for item in said]),
        run=replace(
            run,
            run_type=dated.run_type if dated is not None else run.run_type,
            run_after=min(item.run.run_after for item in said),
            started_at=min(started, default=None),
            ended_at=ended.ended_at if ended is not None else None,
            outcome=ended.outcome if ended is not None else RUNNING,
            reason=ended.reason if ended is not None else "",
        ),
        versions=_last_said([item.versions for item in said]),
        emitted_at=said[-1].emitted_at,
    )


def _last_said(values: Sequence[T]) -> T:
    """Of each field the last value that is not empty."""
    found: dict[str, Any] = {}
    for value in values:
        for item in fields(value):  # type: ignore[arg-type]  # every T is a dataclass
            said = getattr(value, item.name)
            if item.name not in found or said not in EMPTY:
                found[item.name] = said
    return type(values[0])(**found)
