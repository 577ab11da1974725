"""Which events of a run still say something, so that the others need not be read again.

A run is told by the set of its events, and each part of what they tell together comes from one of them: the last that
names an owner, the first that names an input, the last of the last attempt at a task. The events that win a part are
the gist; folding the gist gives what folding all of them gives, whatever comes later. A job that says "still running"
two thousand times has a gist of a few events.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from airflow_kafka_hdfs.lineage.events import Envelope, Message, RunMessage, TaskIoMessage
from airflow_kafka_hdfs.lineage.openlineage import SINGLE_HASH
from airflow_kafka_hdfs.lineage.openlineage_jobs import RUNNING
from airflow_kafka_hdfs.ports.lineage_rows import DECLARED_RUN

EMPTY: tuple[Any, ...] = ("", None, ())
"""What a field holds that an event does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one event says of its run."""

    event_id: str
    happened_at: datetime
    messages: tuple[Message, ...]

    @property
    def rank(self) -> tuple[datetime, bool, str]:
        """Its place among the events of a run; of two of one moment the one that ends something counts as later."""
        return self.happened_at, any(map(_ends, self.messages)), self.event_id

    @property
    def envelope(self) -> Envelope:
        """All messages of one event have the same."""
        return self.messages[0].envelope


def _ends(message: Message) -> bool:
    if isinstance(message, TaskIoMessage):
        return message.report.complete
    return message.envelope.run.ended_at is not None


def attempt(message: TaskIoMessage) -> tuple[int, int, bool]:
    """Of the reports of one task instance that with the greatest counts, of equal ones the last."""
    return message.envelope.run.clear_number, message.report.try_number, message.report.complete


def gist(said: Sequence[Said]) -> frozenset[str]:
    """Ids of the events that are needed to fold a run.

    Args:
        said: of one run, in the order of their ranks, at least one.
    """
    if said[0].envelope.run.run_id == DECLARED_RUN:
        return frozenset([said[-1].event_id])
    found = _Winners(
        clear=max(item.envelope.run.clear_number for item in said),
        single=any(message.structure_hash == SINGLE_HASH for message in _runs(said)),
    )
    for item in said:
        found.take(item)
    return found.ids()


def _runs(said: Sequence[Said]) -> Iterator[RunMessage]:
    for item in said:
        yield from (message for message in item.messages if isinstance(message, RunMessage))


class _Winners:
    """Which event tells each part, as far as they were taken, in the order of their ranks.

    Args:
        clear: the greatest clear number among all events.
        single: whether the job has one task, so that its reports add up.
    """

    def __init__(self, *, clear: int, single: bool) -> None:
        self._clear = clear
        self._single = single
        self._first: dict[Hashable, str] = {}
        self._last: dict[Hashable, str] = {}
        self._best: dict[Hashable, tuple[Any, str]] = {}

    def ids(self) -> frozenset[str]:
        """The winners."""
        best = (event_id for _, event_id in self._best.values())
        return frozenset([*self._first.values(), *self._last.values(), *best])

    def take(self, item: Said) -> None:
        about, event_id = item.envelope, item.event_id
        self._last["newest"] = event_id
        self._fields(about.job, event_id)
        self._fields(about.versions, event_id)
        self._least("run_after", about.run.run_after, event_id)
        if about.run.clear_number == self._clear:
            self._fields(about.run, event_id)
            if about.run.outcome not in ("", RUNNING):
                self._last["ended"] = event_id
            if about.run.logical_date is not None:
                self._first.setdefault("dated", event_id)
            if about.run.started_at is not None:
                self._least("started", about.run.started_at, event_id)
        for message in item.messages:
            if isinstance(message, RunMessage):
                self._run(message, event_id)
            elif isinstance(message, TaskIoMessage):
                self._report(message, event_id)

    def _fields(self, value: Any, event_id: str) -> None:
        for item in fields(value):
            if getattr(value, item.name) not in EMPTY:
                self._last[type(value), item.name] = event_id

    def _least(self, part: str, value: Any, event_id: str) -> None:
        if part not in self._best or value < self._best[part][0]:
            self._best[part] = value, event_id

    def _run(self, message: RunMessage, event_id: str) -> None:
        self._last["run"] = event_id
        if message.graph is not None:
            self._last["graph"] = event_id
        if message.structure_hash == SINGLE_HASH:
            self._last["single"] = event_id
        if message.envelope.run.clear_number == self._clear:
            for (task_id, _), (state, _) in message.facts.states.items():
                if state:
                    self._last["state", task_id] = event_id

    def _report(self, message: TaskIoMessage, event_id: str) -> None:
        report = message.report
        if not self._single:
            part, counts = ("task", report.task_id, report.map_index), attempt(message)
            if part not in self._best or counts >= self._best[part][0]:
                self._best[part] = counts, event_id
            return
        if report.complete:
            self._last["complete"] = event_id
        for explicit in report.explicit or ():
            self._last["explicit", explicit.target] = event_id
            self._first.setdefault(("explicit", explicit.target), event_id)
        mentioned = {
            "read": report.reads, "write": report.writes, "column": report.columns, "temporary": report.temporary
        }  # fmt: skip
        for part_name, values in mentioned.items():
            for value in values:
                self._first.setdefault((part_name, value), event_id)
