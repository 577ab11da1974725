"""Time, unique ids, side-by-side work, the state of other runs, and the wish to stop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar

from airflow_kafka_hdfs.model import RunRef

T = TypeVar("T")
R = TypeVar("R")


class Clock(Protocol):
    """Wall clock for names and ages, monotonic clock for durations."""

    @abstractmethod
    def now(self) -> datetime:
        """The time, aware, in UTC."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds that never go backwards."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Wait; used for pauses between tries and by rate limits."""


class Ids(Protocol):
    """Unique ids, so that no two attempts ever share a place."""

    @abstractmethod
    def hex(self, digits: int) -> str:
        """Random lower-case hex digits."""


class Workers(Protocol):
    """Does independent calls side by side."""

    @abstractmethod
    def map(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Results in the order of the items.

        All calls are finished before the first error (in order of the items) is raised.
        """


class RunStates(Protocol):
    """Whether another run may still be at work; a wrong guess costs double reading, never correctness."""

    @abstractmethod
    def is_alive(self, run: RunRef) -> bool | None:
        """True or False where it is known, None where nobody can tell."""


class StopSignal(Protocol):
    """Set when Airflow wants the task to end."""

    @abstractmethod
    def is_set(self) -> bool:
        """Whether to stop now."""


class Progress(Protocol):
    """Where a running task tells how far it is."""

    @abstractmethod
    def report(self, values: dict[str, Any]) -> None:
        """Latest totals (records, bytes, lag, rate, seconds left); called at most every few seconds, never raises."""
