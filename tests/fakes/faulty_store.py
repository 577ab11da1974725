"""A store that fails on purpose: the tool of crash tests and of the simulator.

Wrap one `FaultyStore` per actor (process) around a shared store. Every call of the port counts, calls of its writers
too, in the order in which they come; `calls` tells the sequence, so a test first runs without a fault to learn how
many calls a scenario makes, then once for every n:

    total = count(scenario)
    for n in range(1, total + 1):
        for fault in every_fault(n):
            store = FaultyStore(shared, fault)
            with pytest.raises((Crash, StoreUnavailableError)): scenario(store)
            recover(FaultyStore(shared)); check(shared)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from airflow_kafka_hdfs.adapters.storage.paths import parent
from airflow_kafka_hdfs.exceptions import StoreUnavailableError
from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter, Store

T = TypeVar("T")

MUTATIONS = frozenset({"put_if_absent", "create", "write", "close", "promote", "delete"})


class Crash(BaseException):
    """The process died here. No `except Exception` of the code under test can catch it."""


class Kind(StrEnum):
    """What happens at the n-th call."""

    CRASH_BEFORE = "crash_before"
    """The process dies, the call has no effect."""
    CRASH_AFTER = "crash_after"
    """The process dies, the call has its effect."""
    CRASH_TORN = "crash_torn"
    """The process dies in the middle of a `write`: half of its bytes arrive. As CRASH_BEFORE in other calls."""
    ANSWER_LOST = "answer_lost"
    """The call has its effect, then raises StoreUnavailableError; the process lives on."""
    UNAVAILABLE = "unavailable"
    """StoreUnavailableError without effect; the process lives on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong, and when.

    Attributes:
        at: number of the call, from 1.
        kind: what happens.
    """

    at: int
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the port. `name` is the method, `path` the (first) path."""

    number: int
    name: str
    path: str


def every_fault(at: int) -> Iterator[Fault]:
    """All kinds of fault at one call."""
    return (Fault(at=at, kind=kind) for kind in Kind)


class FaultyStore(Store):
    """A store with one planted fault.

    After a crash the store is dead: whatever is called then (in `finally`, in other threads) raises `Crash` again and
    has no effect, as nothing of a dead process has.

    Args:
        store: the store behind.
        fault: what goes wrong; None counts calls only.
        before_call: called before each call takes effect, for example to hand control to another actor.
        listing_lag: `list` shows its folder as it was before the last so many changed paths of this wrapper (a
            promote changes two): files made since are missing, files deleted or moved since are still shown.
    """

    def __init__(
        self,
        store: Store,
        fault: Fault | None = None,
        *,
        before_call: Callable[[Call], None] | None = None,
        listing_lag: int = 0,
    ) -> None:
        self.root = store.root
        self.calls: list[Call] = []
        self.dead = False
        self._store = store
        self._fault = fault
        self._before_call = before_call
        self._lag = listing_lag
        self._changes: list[tuple[str, FileStatus | None]] = []
        self._lock = threading.Lock()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self._call("put_if_absent", path, lambda: self._store.put_if_absent(path, data), changes=(path,))

    def get(self, path: str) -> bytes | None:
        return self._call("get", path, lambda: self._store.get(path))

    def status(self, path: str) -> FileStatus | None:
        return self._call("status", path, lambda: self._store.status(path))

    def list(self, path: str) -> list[FileStatus]:
        return self._call("list", path, lambda: sorted(self._stale(path, self._store.list(path)), key=_by_path))

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        writer = self._call("create", path, lambda: self._store.create(path, modes=modes), changes=(path,))
        return _FaultyWriter(self, path, writer)

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        return self._call(
            "promote",
            source,
            lambda: self._store.promote(source, target, size, modes=modes),
            changes=(source, target),
        )

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self._call("delete", path, lambda: self._store.delete(path, recursive=recursive), changes=(path,))

    def _call(
        self,
        name: str,
        path: str,
        effect: Callable[[], T],
        *,
        changes: tuple[str, ...] = (),
        torn: Callable[[], object] | None = None,
    ) -> T:
        with self._lock:
            self._die_if_dead()
            call = Call(number=len(self.calls) + 1, name=name, path=path)
            self.calls.append(call)
        if self._before_call is not None:
            self._before_call(call)
        kind = self._fault.kind if self._fault is not None and self._fault.at == call.number else None
        with self._lock:
            self._die_if_dead()
            self.dead = kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.CRASH_TORN)
        if kind is Kind.CRASH_TORN and torn is not None:
            torn()
        if kind in (Kind.CRASH_BEFORE, Kind.CRASH_TORN):
            raise Crash(f"before call {call.number}: {name} {path}")
        if kind is Kind.UNAVAILABLE:
            raise StoreUnavailableError(name, path, "planted fault, without effect")
        if name in MUTATIONS:
            self._remember(changes)
        result = effect()
        if kind is Kind.CRASH_AFTER:
            raise Crash(f"after call {call.number}: {name} {path}")
        if kind is Kind.ANSWER_LOST:
            raise StoreUnavailableError(name, path, "planted fault, the answer was lost after the effect")
        return result

    def _die_if_dead(self) -> None:
        if self.dead:
            raise Crash("the process is dead already")

    def _remember(self, paths: tuple[str, ...]) -> None:
        if self._lag:
            with self._lock:
                self._changes.extend((path, self._store.status(path)) for path in paths)

    def _stale(self, folder: str, now: Iterable[FileStatus]) -> Iterable[FileStatus]:
        """The listing before the last changes: what each changed path was then, put back in reverse order."""
        view = {status.path: status for status in now}
        for path, then in reversed(self._changes[-self._lag :] if self._lag else []):
            if parent(path) == folder:
                view.pop(path, None)
                if then is not None:
                    view[path] = then
        return view.values()


def _by_path(status: FileStatus) -> str:
    return status.path


class _FaultyWriter(StagedWriter):
    def __init__(self, store: FaultyStore, path: str, writer: StagedWriter) -> None:
        self._store = store
        self._path = path
        self._writer = writer

    def write(self, data: bytes) -> None:
        self._store._call(
            "write",
            self._path,
            lambda: self._writer.write(data),
            torn=lambda: self._writer.write(data[: len(data) // 2]),
        )

    def close(self) -> None:
        self._store._call("close", self._path, self._writer.close)

    def abort(self) -> None:
        if not self._store.dead:
            self._writer.abort()
