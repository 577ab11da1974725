"""Forks of a process whose other thread works: they wait until that thread stands where a child can live with it.

A child of a fork gets memory as it is, and one thread. A lock that another thread held stays locked in it for good: the
lock of a module that was being imported, or one inside of librdkafka while a client is made. A LocalExecutor forks its
workers while the emitter of the scheduler makes its first look; a worker that inherits such a lock never runs a task.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_kafka_hdfs.ports.lineage import LetterBox

log = logging.getLogger(__name__)
_PATIENCE = 30.0
"""Seconds that a fork waits at most. A look at the database or a first import takes a part of that."""
_SETTLED = 0.25
"""Seconds after which the threads of a new Kafka client stand. They take locks of the whole process while they begin: a
quarter of the children that were forked right then could not end a client of their own, and none of 200 later."""


class ForkGuard:
    """Lets threads work between two forks, and forks happen between two pieces of work.

    Args:
        patience: seconds that a fork waits at most; then it happens all the same, with a warning.
    """

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._installed = False
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._at_work: set[int] = set()
        self._forks = 0

    def install(self) -> None:
        """Have forks of this process wait from now on; once is enough, and it can't be undone."""
        if not self._installed:
            self._installed = True
            os.register_at_fork(before=self._before, after_in_parent=self._after, after_in_child=self._begin)

    @contextmanager
    def working(self) -> Iterator[None]:
        """No fork happens meanwhile; waits until those that wait have happened."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Within work: forks may happen meanwhile. The thread holds nothing here that a child would miss."""
        worked = self._leave()
        try:
            yield
        finally:
            if worked:
                self._enter()

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forks)
            self._at_work.add(threading.get_ident())

    def _leave(self) -> bool:
        me = threading.get_ident()
        with self._changed:
            worked = me in self._at_work
            self._at_work.discard(me)
            self._changed.notify_all()
        return worked

    def _before(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self._forks += 1
            if not self._changed.wait_for(lambda: not self._at_work - {me}, self._patience):
                log.warning("lineage: a fork waited %g s in vain for the emitter; going on", self._patience)

    def _after(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()


class GuardedBox(LetterBox):
    """A letter box whose waiting for the brokers holds no fork up. To be made within work; that takes a moment.

    Args:
        box: where to send; just made.
        guard: of the thread that sends.
    """

    def __init__(self, box: LetterBox, guard: ForkGuard) -> None:
        self._box = box
        self._guard = guard
        time.sleep(_SETTLED)

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        """See `LetterBox.send`."""
        self._box.send(topic, key, value)

    def flush(self, timeout: float) -> int:
        """See `LetterBox.flush`."""
        with self._guard.pausing():
            return self._box.flush(timeout)

    def close(self) -> None:
        """See `LetterBox.close`."""
        self._box.close()

    def abandon(self) -> None:
        """See `LetterBox.abandon`."""
        self._box.abandon()
