"""Counters, meters, histograms and timers for user code and for the package; snapshots add up over tasks.

Names follow Dropwizard metrics, the vocabulary of Gobblin's users. Values are updated in the process that does the
work, travel as plain mappings in the task manifest, and are summed in the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

M = TypeVar("M", "Counter", "Meter", "Histogram", "Timer")


@dataclass(slots=True)
class Counter:
    """A number that goes up and down."""

    count: int = 0

    def inc(self, by: int = 1) -> None:
        """Add."""
        self.count += by

    def dec(self, by: int = 1) -> None:
        """Subtract."""
        self.count -= by

    def snapshot(self) -> dict[str, float]:
        """`count`."""
        return {"count": self.count}


@dataclass(slots=True)
class Meter:
    """How often something happens, and its mean rate since the meter was made."""

    clock: Callable[[], float] = time.monotonic
    count: int = 0
    started: float = field(default=-1.0)

    def mark(self, by: int = 1) -> None:
        """Note `by` events."""
        if self.started < 0:
            self.started = self.clock()
        self.count += by

    def snapshot(self) -> dict[str, float]:
        """`count` and `seconds` since the first event."""
        return {"count": self.count, "seconds": self.clock() - self.started if self.started >= 0 else 0.0}


@dataclass(slots=True)
class Histogram:
    """Distribution of whole numbers in buckets of powers of two, so that snapshots add up exactly."""

    count: int = 0
    total: float = 0.0
    least: float | None = None
    greatest: float | None = None
    buckets: dict[int, int] = field(default_factory=dict)

    def update(self, value: float) -> None:
        """Note a value; negative values count in the lowest bucket."""
        self.count += 1
        self.total += value
        self.least = value if self.least is None else min(self.least, value)
        self.greatest = value if self.greatest is None else max(self.greatest, value)
        bucket = max(int(value), 0).bit_length()
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def snapshot(self) -> dict[str, Any]:
        """`count`, `total`, `min`, `max` and `buckets` (upper bound -> count)."""
        return {
            "count": self.count,
            "total": self.total,
            "min": self.least,
            "max": self.greatest,
            "buckets": {str((1 << bit) - 1): n for bit, n in sorted(self.buckets.items())},
        }


@dataclass(slots=True)
class Timer:
    """Durations in milliseconds as a histogram."""

    clock: Callable[[], float] = time.monotonic
    histogram: Histogram = field(default_factory=Histogram)

    @contextmanager
    def time(self) -> Iterator[None]:
        """Measure the body of a `with` block."""
        start = self.clock()
        try:
            yield
        finally:
            self.histogram.update((self.clock() - start) * 1000)

    def snapshot(self) -> dict[str, Any]:
        """As `Histogram.snapshot`, in milliseconds."""
        return self.histogram.snapshot()


class Metrics:
    """Named metrics of one task.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._metrics: dict[str, Counter | Meter | Histogram | Timer] = {}

    def counter(self, name: str) -> Counter:
        """The counter of that name. Raises TypeError if the name is another kind of metric."""
        return self._get(name, Counter, Counter)

    def meter(self, name: str) -> Meter:
        """The meter of that name. Raises TypeError if the name is another kind of metric."""
        return self._get(name, Meter, lambda: Meter(clock=self._clock))

    def histogram(self, name: str) -> Histogram:
        """The histogram of that name. Raises TypeError if the name is another kind of metric."""
        return self._get(name, Histogram, Histogram)

    def timer(self, name: str) -> Timer:
        """The timer of that name. Raises TypeError if the name is another kind of metric."""
        return self._get(name, Timer, lambda: Timer(clock=self._clock))

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """All metrics as plain values: name -> {`kind`, …}."""
        return {
            name: {"kind": type(metric).__name__.lower(), **metric.snapshot()}
            for name, metric in sorted(self._metrics.items())
        }

    def _get(self, name: str, kind: type[M], make: Callable[[], M]) -> M:
        metric = self._metrics.get(name)
        if metric is None:
            metric = self._metrics[name] = make()
        if not isinstance(metric, kind):
            raise TypeError(f"metric {name!r} is a {type(metric).__name__.lower()}, not a {kind.__name__.lower()}")
        return metric


def add_snapshots(snapshots: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The sum of the snapshots of several tasks: counts and buckets add, least and greatest are kept.

    Args:
        snapshots: results of `Metrics.snapshot`.
    """
    total: dict[str, dict[str, Any]] = {}
    for snapshot in snapshots:
        for name, values in snapshot.items():
            have = total.get(name)
            total[name] = dict(values) if have is None else _add(have, values)
    return total


def _add(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(left)
    for key, value in right.items():
        have = result.get(key)
        if key == "kind" or value is None:
            continue
        if have is None:
            result[key] = value
        elif key in ("min", "max"):
            result[key] = min(have, value) if key == "min" else max(have, value)
        elif isinstance(value, Mapping):
            result[key] = {k: have.get(k, 0) + value.get(k, 0) for k in {**have, **value}}
        else:
            result[key] = have + value
    return result
