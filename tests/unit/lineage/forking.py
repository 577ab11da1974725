"""Processes that fork while another of their threads works: `python -m tests.unit.lineage.forking NAME guarded|bare`.

They are processes of their own since a guard that is installed stays installed. Each prints what became of its
children: `ended` or `hung`, a word per child.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterBox
from airflow_kafka_hdfs.plugins.lineage_forks import ForkGuard, GuardedBox

NOBODY = client_settings({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
_PATIENCE = 5.0
"""Seconds within which a child must end; each has next to nothing to do."""


def child(work: Callable[[], object]) -> str:
    """Fork, let the child work, and say what became of it."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return "ended"
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"


def beside(work: Callable[[], object]) -> None:
    """Let another thread work."""
    threading.Thread(target=work, daemon=True).start()


def box() -> KafkaLetterBox:
    return KafkaLetterBox(NOBODY)


def importing(guard: ForkGuard) -> list[str]:
    """A thread imports a module that takes a while, and the child needs that module."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "slowly_imported.py").write_text("import time\ntime.sleep(0.5)\n")
        sys.path.insert(0, folder)
        begun = threading.Event()

        def work() -> None:
            with guard.working():
                begun.set()
                __import__("slowly_imported")

        beside(work)
        begun.wait()
        time.sleep(0.1)
        return [child(lambda: __import__("slowly_imported"))]


def making(guard: ForkGuard) -> list[str]:
    """A thread makes clients and leaves them, without end; so does each child, once."""

    def work() -> None:
        while True:
            with guard.working():
                GuardedBox(box(), guard).flush(0.01)

    beside(work)
    return [child(lambda: box().close()) for _ in range(20)]


def inheriting(guard: ForkGuard) -> list[str]:
    """A child lets go of the client of its parent, and makes one of its own."""
    kept = [GuardedBox(box(), guard)]

    def work() -> None:
        kept.pop().abandon()
        box().close()

    told = [child(work) for _ in range(3)]
    assert kept
    kept.pop().close()
    return told


def main(name: str, guarded: str) -> None:
    guard = ForkGuard()
    if guarded == "guarded":
        guard.install()
    print(*{"importing": importing, "making": making, "inheriting": inheriting}[name](guard))


if __name__ == "__main__":
    main(*sys.argv[1:])
