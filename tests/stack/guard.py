"""Processes known by number and start time, and the guard that ends them when their starter is gone.

``python guard.py`` is the guard. It runs as a process of its own, reads what to look after from its standard
input, and acts when that ends (the starter died, or exited) or when it gets another parent (a forked child of the
starter may keep the pipe open). Lines: ``process <pid> <start time> <name>`` and ``ended <pid>`` for what to end,
``folder <path>`` and ``keep <path>`` for what to remove.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

_START_TIME_TOLERANCE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process by number and start time (seconds since the epoch): a number used anew is another one."""

    name: str
    pid: int
    started: float

    def process(self) -> psutil.Process | None:
        """The running process, or None if it has ended (also when another one got its number)."""
        try:
            process = psutil.Process(self.pid)
            ours = abs(process.create_time() - self.started) <= _START_TIME_TOLERANCE
            return process if ours and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def family(self) -> list[psutil.Process]:
        """The process and its descendants, with what is left of its session when it has ended."""
        leader = self.process()
        if leader is None and _lives(self.pid):
            return []  # the number belongs to a stranger now, and so would its session
        found: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            if leader is not None:
                found = {p.pid: p for p in [leader, *leader.children(recursive=True)]}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                if os.getsid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.setdefault(process.pid, process)
        return list(found.values())

    def end(self, *, signal_number: int = signal.SIGTERM, grace: float = 10.0) -> list[int]:
        """Signal the process, and kill what is left of it and its family after `grace` seconds.

        Returns:
            The numbers of processes that are still there, which SIGKILL should have made impossible.
        """
        family = self.family()
        leader = self.process()
        if leader is not None and signal_number != signal.SIGKILL:
            with contextlib.suppress(psutil.NoSuchProcess):
                leader.send_signal(signal_number)
                leader.resume()  # a paused process would not see the signal
            psutil.wait_procs([leader], timeout=grace)
        victims = {p.pid: p for p in [*family, *self.family()]}
        for process in victims.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _, alive = psutil.wait_procs(list(victims.values()), timeout=10)
        return [process.pid for process in alive]


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def main() -> None:
    """Listen until the starter is gone, then clean up after it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes: dict[int, ProcessId] = {}
    folders: set[Path] = set()
    for line in _lines_while_the_starter_lives():
        word, _, rest = line.partition(" ")
        if word == "process":
            pid, started, name = rest.split(" ", 2)
            processes[int(pid)] = ProcessId(name=name, pid=int(pid), started=float(started))
        elif word == "ended":
            processes.pop(int(rest), None)
        elif word == "folder":
            folders.add(Path(rest))
        elif word == "keep":
            folders.discard(Path(rest))
    for process in processes.values():
        process.end(signal_number=signal.SIGKILL)
    for folder in folders:
        if Path(tempfile.gettempdir()) in folder.parents:
            shutil.rmtree(folder, ignore_errors=True)


def _lines_while_the_starter_lives() -> Iterator[str]:
    starter = os.getppid()
    buffer = b""
    while os.getppid() == starter:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if not readable:
            continue
        chunk = os.read(sys.stdin.fileno(), 65536)
        if not chunk:
            return
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        yield from (line.decode() for line in lines)


if __name__ == "__main__":
    main()
