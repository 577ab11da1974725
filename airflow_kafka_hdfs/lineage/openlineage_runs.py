"""The events of a run brought together: what their set says, in whatever order and however often they come.

Events are kept, each once, and a run is folded from all that are known of it. A fold of more events is always newer
than one of fewer, so the last one stands. Datasets and jobs only ever grow, so they are noted event by event.
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
from airflow_kafka_hdfs.lineage.openlineage import DECLARED, ORIGIN, SINGLE_HASH, OpenLineageEvent
from airflow_kafka_hdfs.lineage.openlineage_datasets import filled_in
from airflow_kafka_hdfs.lineage.openlineage_jobs import JOB, RUNNING
from airflow_kafka_hdfs.lineage.pairs import PairState
from airflow_kafka_hdfs.lineage.storage_text import pack, unpack
from airflow_kafka_hdfs.lineage.workflow import ExplicitTarget, RunFacts, TaskIo
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_rows import OpenLineageEventRow

T = TypeVar("T")
RunKey = tuple[str, str]
_Said = tuple[OpenLineageEventRow, tuple[Message, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What a batch of events means.

    Attributes:
        noted: what each new event says by itself; for everything that only grows.
        runs: the runs that it touches, from all their events.
        fresh: ids of the events that were not known before.
    """

    noted: tuple[Message, ...] = ()
    runs: tuple[Message, ...] = ()
    fresh: frozenset[str] = frozenset()


def fold(tx: LoadTransaction, events: Iterable[OpenLineageEvent]) -> Folded:
    """Keep new events and bring the runs that they touch together.

    Args:
        tx: a transaction.
        events: in any order, with or without repetitions.
    """
    batch = {(event.job_id, event.run_id, event.event_id): event for event in events}
    keys = {(job_id, run_id) for job_id, run_id, _ in batch if job_id}
    stored = tx.rows(OpenLineageEventRow, ("job_id", "run_id"), keys)
    known = {(row.job_id, row.run_id, row.event_id): row for row in stored}
    added = [_row(event) for key, event in batch.items() if event.job_id and key not in known]
    tx.put(added)
    runs: dict[RunKey, list[_Said]] = {}
    for row in (*stored, *added):
        said = tuple(decode(text.encode()) for text in json.loads(unpack(row.body)))
        runs.setdefault((row.job_id, row.run_id), []).append((row, said))
    touched = {(row.job_id, row.run_id) for row in added}
    return Folded(
        noted=tuple(_noted(batch.values(), known)),
        runs=tuple(message for key in sorted(touched) for message in _run(runs[key])),
        fresh=frozenset(row.event_id for row in added) | {e.event_id for e in batch.values() if not e.job_id},
    )


def _row(event: OpenLineageEvent) -> OpenLineageEventRow:
    return OpenLineageEventRow(
        job_id=event.job_id,
        run_id=event.run_id,
        event_id=event.event_id,
        happened_at=event.happened_at,
        body=pack(json.dumps([encode(message).decode() for message in event.messages], separators=(",", ":"))),
    )


def _noted(events: Iterable[OpenLineageEvent], known: Iterable[tuple[str, str, str]]) -> Iterator[Message]:
    have = set(known)
    for event in events:
        if (event.job_id, event.run_id, event.event_id) not in have:
            for message in event.messages:
                yield replace(message, envelope=replace(message.envelope, origin=ORIGIN))


def _run(said: list[_Said]) -> Iterator[Message]:
    """A run from its events, oldest first; of two of one moment the one that ends something counts as later."""
    said.sort(key=lambda item: (item[0].happened_at, _ends(item[1]), item[0].event_id))
    messages = [message for _, found in said for message in found]
    runs = [message for message in messages if isinstance(message, RunMessage)]
    reports = [message for message in messages if isinstance(message, TaskIoMessage)]
    if said[0][0].run_id == DECLARED:
        runs, reports, messages = runs[-1:], [], list(runs[-1:])
    about = replace(
        _envelope([message.envelope for message in messages]),
        # Newer than every fold of fewer of these events.
        emitted_at=said[-1][0].happened_at + timedelta(microseconds=len(said)),
        origin=ORIGIN,
    )
    if any(message.structure_hash == SINGLE_HASH for message in runs):
        yield from _single(about, runs, reports)
    else:
        yield from _of_tasks(about, runs, reports)


def _ends(messages: Sequence[Message]) -> bool:
    return any(
        message.report.complete if isinstance(message, TaskIoMessage) else message.envelope.run.ended_at is not None
        for message in messages
    )


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
        if key not in latest or _attempt(message) >= _attempt(latest[key]):
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


def _attempt(message: TaskIoMessage) -> tuple[int, int, bool]:
    return message.envelope.run.clear_number, message.report.try_number, message.report.complete


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
            if item.name not in found or said not in ("", None, ()):
                found[item.name] = said
    return type(values[0])(**found)
