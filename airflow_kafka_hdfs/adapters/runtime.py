"""The real clock, random ids, and threads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import TypeVar

from airflow_kafka_hdfs.ports.runtime import Clock, Ids, Workers

T = TypeVar("T")
R = TypeVar("R")


class SystemClock(Clock):
    """The machine's clocks."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some moment of this boot."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; nothing for zero and below."""
        if seconds > 0:
            time.sleep(seconds)


class RandomIds(Ids):
    """Ids from the system's source of randomness, so that forked processes never share them."""

    def hex(self, digits: int) -> str:
        """Random lower-case hex digits."""
        if digits < 1:
            raise ValueError(f"digits: got {digits}; allowed: 1 and more")
        return secrets.token_hex((digits + 1) // 2)[:digits]


class ThreadWorkers(Workers):
    """Independent calls in a few threads.

    Threads live for one `map` alone: nothing is left over when a task forks or ends.

    Args:
        size: how many calls run at the same time.
    """

    def __init__(self, size: int = 8) -> None:
        if size < 1:
            raise ValueError(f"size: got {size}; allowed: 1 and more")
        self._size = size

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Results in the order of the items; every call is over when the first error is raised."""
        todo = list(items)
        if len(todo) <= 1:
            return [call(item) for item in todo]
        with ThreadPoolExecutor(min(self._size, len(todo)), thread_name_prefix="kafka-hdfs") as pool:
            futures = [pool.submit(call, item) for item in todo]
            wait(futures)
        return [future.result() for future in futures]
