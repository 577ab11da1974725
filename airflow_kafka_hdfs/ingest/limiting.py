"""Limits of a task: fair shares of records and bytes over its partitions, and an even pace of the task or a topic.

Shares are even, so that no partition starves behind a busy one; who gets the odd record changes from plan to plan.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

from airflow_kafka_hdfs.model import TopicPartition
from airflow_kafka_hdfs.ports.runtime import Clock

K = TypeVar("K", bound=Hashable)

_ANY = 2**31
"""More records than any poll brings."""


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
    """Keeps to a rate.

    Args:
        clock: for waiting.
        rate: records per second, None for no limit.

    Attributes:
        rate: may change; what was read before counts at the rate of then.
    """

    LONGEST_WAIT = 0.5
    """Seconds between two looks at the stop signal."""

    def __init__(self, clock: Clock, rate: float | None) -> None:
        self._clock = clock
        self.rate = rate
        self._due = clock.monotonic()

    def room(self, wanted: int) -> int:
        """How many records to ask for at once: at most what half a second may bring, at least one."""
        return wanted if self.rate is None else max(1, min(wanted, int(self.rate * self.LONGEST_WAIT)))

    def took(self, records: int) -> None:
        """Note records that were read."""
        if self.rate is not None:
            self._due += records / self.rate

    def ahead(self) -> float:
        """Seconds until the rate is met again."""
        return 0.0 if self.rate is None else max(self._due - self._clock.monotonic(), 0.0)

    def wait(self) -> None:
        """Wait until the rate is met again, at most for `LONGEST_WAIT`."""
        seconds = min(self.ahead(), self.LONGEST_WAIT)
        if seconds > 0:
            self._clock.sleep(seconds)


class TopicPaces:
    """Keeps topics at rates of their own while others go on; each rate is shared evenly by the topic's partitions.

    A partition that has used its budget up is held: its reader is paused, and it goes on from the last record taken.
    What a poll brought of it beyond its budget is left, and read again.

    Args:
        clock: tells the time.
        rates: records per second by topic; topics left out have no rate.

    Attributes:
        held: partitions that wait for their budget.
    """

    LEAST_WAIT = 0.001

    def __init__(self, clock: Clock, rates: Mapping[str, float]) -> None:
        self.held: set[TopicPartition] = set()
        self._clock = clock
        self._rates = dict(rates)
        self._paces: dict[TopicPartition, Pace] = {}
        self._cut: set[TopicPartition] = set()

    def share_out(self, live: Collection[TopicPartition]) -> None:
        """Share each rate out anew.

        Args:
            live: partitions that are still read; the others have no share any more.
        """
        sharers = Counter(tp.topic for tp in live if tp.topic in self._rates)
        known = self._paces
        self._paces = {
            tp: known.get(tp) or Pace(self._clock, self._rates[tp.topic]) for tp in live if tp.topic in sharers
        }
        for tp, pace in self._paces.items():
            pace.rate = self._rates[tp.topic] / sharers[tp.topic]
        self.held &= self._paces.keys()

    def within(self, topic: str, partitions: Sequence[int], indexes: Sequence[int]) -> Sequence[int]:
        """What may be taken of a poll.

        Args:
            topic: of all the records.
            partitions: of each record of the batch.
            indexes: of the topic's records in the batch, ascending.

        Returns:
            Those of `indexes` that the budgets allow: of each partition the first ones.
        """
        if topic not in self._rates:
            return indexes
        left: dict[int, int] = {}
        allowed = []
        for i in indexes:
            number = partitions[i]
            if number not in left:
                left[number] = self._budget(TopicPartition(topic, number))
            if left[number] > 0:
                allowed.append(i)
            left[number] -= 1
        self._cut.update(TopicPartition(topic, number) for number, rest in left.items() if rest < 0)
        return allowed

    def took(self, partition: TopicPartition, records: int) -> None:
        """Note records that were taken."""
        if partition in self._paces:
            self._paces[partition].took(records)

    def was_cut(self, partition: TopicPartition) -> bool:
        """Whether the last poll brought more of it than it may have: the reader's position means nothing then."""
        return partition in self._cut

    def hold(self) -> list[TopicPartition]:
        """Partitions that must be paused now, since their budget is used up."""
        over = [tp for tp, pace in self._paces.items() if tp not in self.held and (tp in self._cut or pace.ahead())]
        self._cut.clear()
        self.held.update(over)
        return over

    def release(self) -> list[TopicPartition]:
        """Partitions whose budget lets them go on now."""
        free = [tp for tp in self.held if not self._paces[tp].ahead()]
        self.held.difference_update(free)
        return free

    def wait(self, longest: float) -> float:
        """Seconds that a poll may wait at most, so that no budget lies idle."""
        first = min((self._paces[tp].ahead() for tp in self.held), default=longest)
        return max(min(first, longest), self.LEAST_WAIT)

    def _budget(self, partition: TopicPartition) -> int:
        pace = self._paces.get(partition)
        return 0 if pace is None or partition in self.held or pace.ahead() else pace.room(_ANY)
