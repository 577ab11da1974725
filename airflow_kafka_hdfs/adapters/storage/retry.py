"""Patience with a store that is away for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from airflow_kafka_hdfs.exceptions import StoreUnavailableError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one call of a store goes on trying.

    Attributes:
        seconds: no new try starts later than this after the first one; 0 means one try.
        first_pause: seconds between the first two tries; doubles from try to try.
        longest_pause: seconds.
        clock: monotonic seconds.
        sleep: waits so many seconds.
    """

    seconds: float = 60.0
    first_pause: float = 0.1
    longest_pause: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self, attempt: Callable[[], T]) -> T:
        """The result of the first try that the store answers.

        Args:
            attempt: one try. It starts by looking at the state that an earlier try may have left: an answer that was
                lost says nothing about whether the call had its effect.

        Raises:
            StoreUnavailableError: the last one, once the time is up.
        """
        deadline = self.clock() + self.seconds
        pause = self.first_pause
        while True:
            try:
                return attempt()
            except StoreUnavailableError:
                if self.clock() + pause > deadline:
                    raise
            self.sleep(pause)
            pause = min(pause * 2, self.longest_pause)
