"""What the runs of a job tell about it: how often it runs, whether it is still alive, whether it keeps failing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

RUNS_FOR_FREQUENCY = 30
FAILURES_FOR_FAILING = 3
DEPRECATED_AFTER_DAYS = 30

_HOUR = 3600
_DAY = 24 * _HOUR
_CLASSES: tuple[tuple[str, float, float], ...] = (
    ("quarter-hourly", 900, 900),
    ("hourly", _HOUR, _HOUR),
    ("six-hourly", 6 * _HOUR, 6 * _HOUR),
    ("daily", _DAY, _DAY),
    ("weekly", 7 * _DAY, 7 * _DAY),
    ("monthly", 28 * _DAY, 31 * _DAY),
)
_TOLERANCE = 0.25
_LARGEST_SPREAD = 0.5
_LEAST_GAPS = 3


@dataclass(frozen=True, slots=True)
class Frequency:
    """How often a job runs.

    Attributes:
        name: `quarter-hourly`, `hourly`, `six-hourly`, `daily`, `weekly`, `monthly`, `other` (steady, none of
            these), `irregular` or `unknown`.
        period: median gap between runs; zero if unknown.
    """

    name: str
    period: timedelta


def frequency(dates: Sequence[datetime]) -> Frequency:
    """Frequency from run dates.

    The median gap of the last 30 distinct dates, called by the class that it is within 25 % of. A median deviation
    above half of it makes the job irregular; fewer than three gaps tell nothing.

    Args:
        dates: run dates of scheduled and asset-triggered runs, in any order.
    """
    distinct = sorted(set(dates))[-RUNS_FOR_FREQUENCY:]
    gaps = [(later - earlier).total_seconds() for earlier, later in zip(distinct, distinct[1:], strict=False)]
    if len(gaps) < _LEAST_GAPS:
        return Frequency("unknown", timedelta(0))
    middle = median(gaps)
    period = timedelta(seconds=middle)
    if median(abs(gap - middle) for gap in gaps) > _LARGEST_SPREAD * middle:
        return Frequency("irregular", period)
    for name, low, high in _CLASSES:
        if low * (1 - _TOLERANCE) <= middle <= high * (1 + _TOLERANCE):
            return Frequency(name, period)
    return Frequency("other", period)


def deprecated(
    last_run: datetime, now: datetime, period: timedelta, *, after_days: int = DEPRECATED_AFTER_DAYS, factor: float = 2
) -> bool:
    """Whether a job counts as no longer in use.

    Args:
        last_run: date of its last run.
        now: the time.
        period: inferred period, zero if unknown.
        after_days: days without a run after which it may count so.
        factor: periods without a run after which it may count so; both must have passed. 0 leaves the days alone.
    """
    return now - last_run > max(timedelta(days=after_days), period * factor)


def failing(outcomes: Sequence[str], *, least: int = FAILURES_FOR_FAILING) -> bool:
    """Whether the last runs all failed.

    Args:
        outcomes: `success` or `failed` of finished runs that are no backfills, newest last.
        least: how many failures in a row it takes.
    """
    return len(outcomes) >= least and all(outcome == "failed" for outcome in outcomes[-least:])
