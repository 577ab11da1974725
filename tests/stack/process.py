"""The one place where the stack starts and ends processes.

Every process is the leader of a session of its own, writes to a log file, and is known by pid *and* start
time, so that nothing is ever signalled because it happens to have an old number. Processes of a test session
are handed to a guard (``guard.py``) before they run: it ends them when this process is gone, however it went.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import psutil

from tests.stack.guard import ProcessId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

_T = TypeVar("_T")
_LONG_LINE = 500
_GUARD = Path(__file__).with_name("guard.py")
# Linux hands out the ports from 32768 up to whoever connects to something: a restarted server could find its
# own port taken by a client that is trying to reach it. So ours lie below.
_PORTS = range(20_000, 32_000)


class ServiceError(Exception):
    """A service did not start, did not answer in time, or ended; the text shows the end of its log."""


_ports_lock = threading.Lock()
_ports_given: set[int] = set()


def free_port() -> int:
    """A TCP port that nobody listens on; never the same twice in one process."""
    with _ports_lock:
        for port in random.sample(_PORTS, 500):
            if port not in _ports_given and _is_free(port):
                _ports_given.add(port)
                return port
    raise ServiceError(f"found no free TCP port in {_PORTS.start}-{_PORTS.stop - 1}")


def port_of(folder: Path, name: str) -> int:
    """The port of the part `name` of the service in `folder`: the one it had last time, if that is still free.

    So a service that is started again on its folder is found where it was.
    """
    book = folder / "ports.json"
    ports: dict[str, int] = json.loads(book.read_text()) if book.exists() else {}
    if name not in ports or not _is_free(ports[name]):
        ports[name] = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        book.write_text(json.dumps(ports, indent=1))
    return ports[name]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a former server linger
        try:
            probe.bind(("", port))  # any address: the second HDFS name node listens on 127.0.0.2
        except OSError:
            return False
    return True


class _Guard:
    """The guard process of this process: started with the first child, told of every further one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def tell(self, *words: object) -> None:
        with self._lock:
            if self._process is None or self._owner != os.getpid():  # a forked child needs one of its own
                self._process = subprocess.Popen(
                    [sys.executable, "-I", str(_GUARD)], stdin=subprocess.PIPE, start_new_session=True
                )
                self._owner = os.getpid()
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                raise ServiceError("the guard process of the stack has ended: start a new Python process") from None


_guard = _Guard()


def guard_folder(folder: Path, *, keep: bool = False) -> None:
    """Have the guard remove `folder`, one for temporary files, when this process is gone; or not, after all."""
    _guard.tell("keep" if keep else "folder", folder)


class Child:
    """One process of a service: start, signal, stop, start again; its output is appended to one log file.

    Args:
        name: Used in messages and as the name of the log file.
        command: Program and arguments.
        log_folder: Folder for ``<name>.log``; created.
        env: The whole environment of the process; None = ours.
        cwd: Working folder; None = ours.
        user: Name of the user to run as (only possible for root); None = ours.
        stop_signal: What asks the program to end in an orderly way.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log_folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
        stop_signal: int = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log_path = log_folder / f"{name}.log"
        self._env = env
        self._cwd = cwd
        self._user = user
        self._stop_signal = stop_signal
        self._detached = False
        self._popen: subprocess.Popen[bytes] | None = None
        self._id: ProcessId | None = None
        log_folder.mkdir(parents=True, exist_ok=True)

    @property
    def process_id(self) -> ProcessId:
        """Number and start time of the process started last."""
        if self._id is None:
            raise ServiceError(f"{self.name} has not been started")
        return self._id

    @property
    def pid(self) -> int:
        """Number of the process started last."""
        return self.process_id.pid

    def start(self) -> None:
        """Start the program; does nothing if it runs."""
        if self.is_running():
            return
        # The shell waits for a word from us, which comes after the guard has been told: should we die in
        # between, it reads the end of the pipe instead and the program is never started. `exec` keeps the
        # number.
        gate = ["/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh", *self.command]
        with self.log_path.open("ab") as log:
            popen = subprocess.Popen(
                gate,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                user=self._user,
                start_new_session=True,
            )
        self._popen = popen
        self._id = ProcessId(name=self.name, pid=popen.pid, started=psutil.Process(popen.pid).create_time())
        if not self._detached:
            _guard.tell("process", popen.pid, self._id.started, self.name)
        assert popen.stdin is not None
        popen.stdin.write(b"go\n")
        popen.stdin.close()

    def is_running(self) -> bool:
        """Whether the process started last is alive (a paused one is)."""
        return self._popen is not None and self._popen.poll() is None

    def is_paused(self) -> bool:
        """Whether the process started last is frozen by `pause`."""
        process = self.process_id.process()
        return process is not None and bool(process.status() == psutil.STATUS_STOPPED)

    def exit_status(self) -> int | None:
        """Exit status of the process started last, None while it runs; negative = ended by that signal."""
        return None if self._popen is None else self._popen.poll()

    def stop(self, grace: float = 10.0) -> None:
        """Ask the program to end, kill it after `grace` seconds; its descendants never outlive it."""
        self._end(self._stop_signal, grace)

    def kill(self) -> None:
        """End the program and its descendants with SIGKILL, as a crash of the machine would."""
        self._end(signal.SIGKILL, 10.0)

    def pause(self) -> None:
        """Freeze the program (SIGSTOP): its connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused program go on."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the log."""
        if not self.log_path.exists():
            return "(no log)"
        found = self.log_path.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join(line[:_LONG_LINE] for line in found)

    def detach(self) -> None:
        """Let the process outlive this one: the guard forgets it."""
        self._detached = True
        _guard.tell("ended", self.pid)

    def _end(self, signal_number: int, grace: float) -> None:
        if self._popen is None or self._id is None:
            return
        left = self._id.end(signal_number=signal_number, grace=grace)
        if left:
            raise ServiceError(f"{self.name}: processes {left} are still there after SIGKILL")
        self._popen.wait(timeout=10)
        if not self._detached:
            _guard.tell("ended", self._id.pid)

    def _signal(self, signal_number: int) -> None:
        process = self.process_id.process()
        if process is None:
            raise ServiceError(f"{self.name} (pid {self.pid}) does not run, so it can't be sent signal {signal_number}")
        process.send_signal(signal_number)


def wait_until(
    ask: Callable[[], _T | None],
    *,
    what: str,
    timeout: float,
    children: Iterable[Child] = (),
    every: float = 0.1,
) -> _T:
    """Ask until the answer is something else than None or False, and return it.

    Args:
        ask: The question; an exception counts as "not yet" and is shown if the time runs out.
        what: What is waited for, for the message: "Kafka is ready".
        timeout: Seconds.
        children: Processes that must stay alive meanwhile.
        every: Seconds between two questions.

    Raises:
        ServiceError: The time ran out, or a process ended.
    """
    watched = list(children)
    deadline = time.monotonic() + timeout
    trouble: Exception | None = None
    while True:
        try:
            answer = ask()
            trouble = None
            if answer is not None and answer is not False:
                return answer
        except Exception as error:
            trouble = error
        ended = [child for child in watched if not child.is_running()]
        if ended:
            raise ServiceError(f"waited until {what}, but {_ended_text(ended)}")
        if time.monotonic() > deadline:
            last = f"; the last try failed: {trouble!r}" if trouble else ""
            raise ServiceError(f"waited {timeout:g} s in vain until {what}{last}{_tails(watched)}") from trouble
        time.sleep(every)


def _ended_text(children: list[Child]) -> str:
    states = ", ".join(f"{child.name} ended with status {child.exit_status()}" for child in children)
    return states + _tails(children)


def _tails(children: list[Child]) -> str:
    return "".join(f"\n--- end of {child.log_path}:\n{child.log_tail()}" for child in children)


def run(
    command: Sequence[str | Path],
    *,
    what: str,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: str | None = None,
    stdin: str | None = None,
) -> str:
    """Run a program to its end and return what it printed (both streams).

    Raises:
        ServiceError: It failed or did not end in `timeout` seconds; the text shows the end of its output.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env=env,
            cwd=cwd,
            user=user,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        output = error.output.decode(errors="replace") if isinstance(error.output, bytes) else error.output or ""
        raise ServiceError(f"{what} did not end in {timeout:g} s:\n{output[-3000:]}") from None
    if done.returncode != 0:
        raise ServiceError(f"{what} failed with status {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


class Service(ABC):
    """Something that is made of processes, can be started, and is always stopped: use it in a ``with``."""

    @property
    @abstractmethod
    def children(self) -> Sequence[Child]:
        """Every process of the service, running or not."""

    @abstractmethod
    def start(self) -> Self:
        """Start everything and wait until the service answers."""

    def stop(self, grace: float = 15.0) -> None:
        """End every process in order, all side by side; data and logs stay in the folder."""
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda child: child.stop(grace), self.children))

    def kill(self) -> None:
        """End every process at once, as a crash of the machine would; data and logs stay in the folder."""
        for child in self.children:
            child.kill()

    def detach(self) -> None:
        """Let the service outlive this process; without this word it never does."""
        for child in self.children:
            child.detach()

    def close(self) -> None:
        """What the end of a ``with`` does: end everything the fastest way, nobody needs it any more."""
        self.kill()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
