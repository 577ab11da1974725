"""Limits of a task: fair shares of records and bytes over its partitions, and an even pace.

Shares are even, so that no partition starves behind a busy one; who gets the odd record changes from plan to plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from typing import TypeVar

from airflow_kafka_hdfs.ports.runtime import Clock

K = TypeVar("K", bound=Hashable)


def fair_shares(total: int, wants: Mapping[K, int], salt: str = "") -> dict[K, int]:
    """Divide a number so that nobody gets more than wanted, and nobody less than another one without wanting less.

    Args:
        total: what there is.
        wants: the most that each can use.
        salt: decides who gets the rest where it does not divide evenly.

    Returns:
        Shares whose sum is the smaller of `total` and all wants.
    """
    shares = dict.fromkeys(wants, 0)
    open_ = {key: want for key, want in wants.items() if want > 0}
    left = total
    while open_ and left > 0:
        each = left // len(open_)
        if not each:
            for key in sorted(open_, key=lambda key: _rank(salt, key))[:left]:
                shares[key] += 1
            break
        for key in list(open_):
            part = min(each, open_[key])
            shares[key] += part
            left -= part
            open_[key] -= part
            if not open_[key]:
                del open_[key]
    return shares


def _rank(salt: str, key: Hashable) -> bytes:
    return hashlib.sha256(f"{salt}/{key}".encode()).digest()


class Pace:
    """Keeps a task at a rate.

    Args:
        clock: for waiting.
        rate: records per second, None for no limit.
    """

    LONGEST_WAIT = 0.5
    """Seconds between two looks at the stop signal."""

    def __init__(self, clock: Clock, rate: float | None) -> None:
        self._clock = clock
        self._rate = rate
        self._start = clock.monotonic()
        self._taken = 0

    def room(self, wanted: int) -> int:
        """How many records to ask for at once: at most what half a second may bring, at least one."""
        return wanted if self._rate is None else max(1, min(wanted, int(self._rate / 2)))

    def took(self, records: int) -> None:
        """Note records that were read."""
        self._taken += records

    def ahead(self) -> float:
        """Seconds by which the task is ahead of its rate."""
        if self._rate is None:
            return 0.0
        return max(self._taken / self._rate - (self._clock.monotonic() - self._start), 0.0)

    def wait(self) -> None:
        """Wait until the rate is met again, at most for `LONGEST_WAIT`."""
        seconds = min(self.ahead(), self.LONGEST_WAIT)
        if seconds > 0:
            self._clock.sleep(seconds)
