"""A process may fork while its emitter works: no child inherits a lock that nobody will ever open."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from airflow_kafka_hdfs.plugins.lineage_forks import ForkGuard, GuardedBox
from tests.fakes.lineage import MemoryTopic

ROOT = Path(__file__).parents[3]


def told(name: str, guarded: bool = True) -> list[str]:
    """What became of the children of one process of `forking`."""
    words = [sys.executable, "-m", "tests.unit.lineage.forking", name, "guarded" if guarded else "bare"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


@pytest.mark.parametrize(("name", "children"), [("importing", 1), ("making", 20), ("inheriting", 3)])
def test_children_of_a_guarded_process_end(name, children):
    assert told(name) == ["ended"] * children


def test_a_child_of_an_import_hangs_without_the_guard():
    """What the guard is for; should Python mend it, this module can go."""
    assert told("importing", guarded=False) == ["hung"]


class Fork:
    """What a fork asks of a guard, without the fork."""

    def __init__(self, guard: ForkGuard) -> None:
        self.happened, self._over = threading.Event(), threading.Event()

        def run() -> None:
            guard._before()
            self.happened.set()
            self._over.wait()
            guard._after()

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def test_a_fork_waits_for_work_and_work_for_a_fork():
    guard = ForkGuard()
    with guard.working():
        fork = Fork(guard)
        assert not fork.happened.wait(0.1)
        with guard.pausing():
            assert fork.happened.wait(5)
            worked = threading.Event()

            def work() -> None:
                with guard.working():
                    worked.set()

            other = threading.Thread(target=work)
            other.start()
            assert not worked.wait(0.1)
            fork.end()
            assert worked.wait(5)
            other.join()


def test_work_without_end_lets_a_fork_happen_at_its_next_pause():
    guard, stop = ForkGuard(), threading.Event()

    def work() -> None:
        with guard.working():
            while not stop.is_set():
                with guard.pausing():
                    pass

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(20):
        fork = Fork(guard)
        assert fork.happened.wait(5)
        fork.end()
    stop.set()
    thread.join()


def test_a_thread_may_fork_amid_its_own_work_and_nobody_waits_for_ever(caplog):
    guard = ForkGuard(patience=0.2)
    with guard.working():
        guard._before()  # its own work holds nothing up
        guard._after()
        begun = time.monotonic()
        with caplog.at_level(logging.WARNING):
            fork = Fork(guard)
            assert fork.happened.wait(5)
        assert time.monotonic() - begun > 0.15
        assert "0.2 s in vain" in caplog.text
        fork.end()
    with guard.working():
        pass
    with guard.pausing():
        pass  # outside of work it means nothing
    fork = Fork(guard)
    assert fork.happened.wait(5)
    fork.end()


def test_a_fork_may_happen_while_the_brokers_are_waited_for():
    guard, topic = ForkGuard(), MemoryTopic()
    fork: list[Fork] = []

    class Slow(MemoryTopic):
        def flush(self, timeout: float) -> int:
            fork.append(Fork(guard))
            assert fork[0].happened.wait(5)
            fork[0].end()
            return topic.flush(timeout)

    box = GuardedBox(Slow(), guard)
    with guard.working():
        assert box.flush(1) == 0
        later = Fork(guard)
        assert not later.happened.wait(0.1)
    assert later.happened.wait(5)
    later.end()
