"""Fakes of `ports/runtime.py`: time that moves only when told, ids from a seed, work one after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.runtime import Clock, Ids, Progress, RunStates, StopSignal, Workers

T = TypeVar("T")
R = TypeVar("R")

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock(Clock):
    """Stands still until `advance` or `sleep`.

    Attributes:
        sleeps: every pause that was asked for, in seconds.
        on_sleep: called after each sleep, for example to end an outage at a known moment.
    """

    def __init__(self, start: datetime = START, on_sleep: Callable[[float], None] | None = None) -> None:
        self._start = start
        self._elapsed = 0.0
        self.sleeps: list[float] = []
        self.on_sleep = on_sleep

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.advance(seconds)
        if self.on_sleep is not None:
            self.on_sleep(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"time does not go backwards: {seconds}")
        self._elapsed += seconds

    def millis(self) -> int:
        """The time in milliseconds since the epoch, as Kafka counts."""
        return round(self.now().timestamp() * 1000)


class SeededIds(Ids):
    """The same ids in the same order for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def hex(self, digits: int) -> str:
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"


class SerialWorkers(Workers):
    """Calls in the order of the items; like real workers, it finishes all before it raises the first error."""

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        results: list[R] = []
        first: Exception | None = None
        for item in items:
            try:
                results.append(call(item))
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
        return results


@dataclass
class KnownRuns(RunStates):
    """Runs by run id: True alive, False gone; others nobody can tell."""

    alive: dict[str, bool] = field(default_factory=dict)

    def is_alive(self, run: RunRef) -> bool | None:
        return self.alive.get(run.run_id)


@dataclass
class ManualStop(StopSignal):
    """Set it to ask the code to stop; with `after` it sets itself at the n-th look (1-based)."""

    stopped: bool = False
    after: int | None = None
    looks: int = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.stopped or (self.after is not None and self.looks >= self.after)


@dataclass
class RecordedProgress(Progress):
    """Keeps every report."""

    reports: list[Mapping[str, Any]] = field(default_factory=list)

    def report(self, values: dict[str, Any]) -> None:
        self.reports.append(dict(values))
