"""The shared simulated store, one handle per actor, and the invariants that hold after every single change of it."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable
from contextlib import suppress

from airflow_kafka_hdfs.exceptions import StoreRefusedError, StoreUnavailableError
from airflow_kafka_hdfs.ingest.collecting import ORPHAN_GRACE
from airflow_kafka_hdfs.ingest.layout import ROOT
from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter, Store
from tests.fakes.faulty_store import Crash

Id = tuple[str, int, int]

LONGEST_LAG = ORPHAN_GRACE.total_seconds()
"""Seconds for which a listing may miss a file: the collector counts on it that none does for longer."""


class Violation(AssertionError):
    """An invariant is broken: something is lost, doubled, out of its place, or the doctor objects."""


class Ended(AssertionError):
    """An actor ended with an error that no actor should end with; the data may be in order all the same."""


class Disk:
    """All files, with a check at each change.

    Visible data files hold one JSON object per line that names its topic, partition and offset, so that what is visible
    can be told from the bytes alone.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.files: dict[str, bytes] = {}
        self.times: dict[str, float] = {}
        self.visible: dict[Id, str] = {}
        self.logs: dict[str, dict[int, dict]] = {}
        self.listed: dict[str, int] = {}
        self.staged: dict[str, str] = {}
        self.superseded: set[str] = set()
        self.claims: dict[tuple[str, str, int], dict[str, tuple[int, int, str]]] = {}

    @property
    def commits(self) -> list[dict]:
        """The records of all logs."""
        return [record for log in self.logs.values() for record in log.values()]

    # changes

    def put(self, path: str, data: bytes) -> None:
        self.files[path] = data
        self.times[path] = self.clock()
        if "/commits/" in path:
            self._commit(path, data)

    def move(self, source: str, target: str) -> None:
        data = self.files.pop(source)
        self.times.pop(source)
        self._hidden(source, data)
        self.files[target] = data
        self.times[target] = self.clock()
        self._shown(target, data)
        self._stands(source)

    def copy(self, source: str, target: str) -> None:
        self.files[target] = self.files[source]
        self.times[target] = self.clock()
        self._shown(target, self.files[target])

    def remove(self, path: str) -> None:
        data = self.files.pop(path, None)
        self.times.pop(path, None)
        if data is not None:
            self._hidden(path, data)
            if "/commits/" in path:
                raise Violation(f"a commit record was deleted: {path}")
            self._stands(path)

    # invariants

    def _commit(self, path: str, data: bytes) -> None:
        record = json.loads(data)
        number = record["number"]
        log = self.logs.setdefault(path.partition("/commits/")[0], {})
        if number in log:
            raise Violation(f"commit {number} was written twice")
        if number and number - 1 not in log:
            raise Violation(f"commit {number} was written before commit {number - 1}")
        log[number] = record
        for item in record["superseded"]:
            self.superseded.add(item["path"])
        for entry in record["files"]:
            self.listed[entry["path"]] = number
            self.staged[entry["staged"]] = entry["path"]
            if not self._is_at(entry["staged"], entry["path"]):
                raise Violation(f"commit {number} lists {entry['staged']}, which does not stand")

    def _shown(self, path: str, data: bytes) -> None:
        if path.startswith(ROOT):
            return
        if path not in self.listed:
            raise Violation(f"a file is visible that no record names: {path}")
        for record in records(data):
            if record in self.visible:
                raise Violation(f"{record} is visible twice: in {self.visible[record]} and in {path}")
            self.visible[record] = path

    def _hidden(self, path: str, data: bytes) -> None:
        if not path.startswith(ROOT):
            if path not in self.superseded:
                raise Violation(f"a live file was taken away: {path}")
            for record in records(data):
                self.visible.pop(record, None)

    def _stands(self, source: str) -> None:
        target = self.staged.get(source)
        if target is not None and target not in self.superseded and not self._is_at(source, target):
            raise Violation(f"the file of a record stands neither in staging nor in place: {target}")

    def _is_at(self, staged: str, target: str) -> bool:
        return staged in self.files or target in self.files or target in self.superseded


def records(data: bytes) -> list[Id]:
    """(topic, partition, offset) of each line of a visible file."""
    return [_identity(line) for line in data.splitlines()]


@functools.cache
def _identity(line: bytes) -> Id:
    with_identity = json.loads(line)
    return with_identity["t"], with_identity["p"], with_identity["o"]


class Chance:
    """A generator that is seeded when it is first asked for: that takes a while, and few processes ever ask."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._made: random.Random | None = None

    def __call__(self) -> random.Random:
        if self._made is None:
            self._made = random.Random(self._seed)
        return self._made


class SimulatedStore(Store):
    """One actor's handle of the disk.

    Args:
        disk: shared by all.
        prefix: path of the root on the disk.
        pause: called before each call.
        chance: decides on lost answers, torn writes and stale listings.
        lost_answers: share of changing calls whose answer is lost after they took effect.
        stale_listings: share of listings that miss the newest file, if it is younger than `LONGEST_LAG`.
        copies: nothing can be renamed, as in object stores: a file is put under its new name if there is none, then its
            old name goes; in between both stand.
    """

    def __init__(
        self,
        disk: Disk,
        pause: Callable[[str], None],
        chance: Chance,
        *,
        prefix: str = "",
        lost_answers: float = 0.0,
        stale_listings: float = 0.0,
        copies: bool = False,
    ) -> None:
        self.root = f"sim://{prefix}"
        self._disk = disk
        self._pause = pause
        self._chance = chance
        self._prefix = prefix
        self._lost = lost_answers
        self._stale = stale_listings
        self._copies = copies

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._pause("put")
        full = self._prefix + path
        have = self._disk.files.get(full)
        if have is None:
            self._disk.put(full, data)
        self._maybe_lose("put_if_absent", path)
        return have is None or have == data

    def get(self, path: str) -> bytes | None:
        self._pause("get")
        return self._disk.files.get(self._prefix + path)

    def status(self, path: str) -> FileStatus | None:
        self._pause("status")
        full = self._prefix + path
        data = self._disk.files.get(full)
        if data is not None:
            return FileStatus(path=path, size=len(data), modified=self._disk.times[full])
        is_folder = any(name.startswith(full + "/") for name in self._disk.files)
        return FileStatus(path=path, size=0, is_dir=True) if is_folder else None

    def list(self, path: str) -> list[FileStatus]:
        self._pause("list")
        start = f"{self._prefix}{path}/" if path else self._prefix
        found: dict[str, FileStatus] = {}
        skip = len(start)
        for name in [name for name in self._disk.files if name.startswith(start)]:
            head, is_deeper, _ = name[skip:].partition("/")
            child = f"{path}/{head}" if path else head
            if is_deeper:
                if child not in found:
                    found[child] = FileStatus(path=child, size=0, is_dir=True)
            else:
                size, modified = len(self._disk.files[name]), self._disk.times[name]
                found[child] = FileStatus(path=child, size=size, modified=modified)
        if found and self._stale and self._chance().random() < self._stale:
            newest = max(found, key=lambda child: found[child].modified or 0.0)
            made = found[newest].modified
            if made is None or self._disk.clock() - made < LONGEST_LAG:  # nobody knows when a folder was made
                del found[newest]
        return [found[child] for child in sorted(found)]

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        self._pause("create")
        full = self._prefix + path
        if full in self._disk.files:
            raise StoreRefusedError("create", path, "exists")
        self._disk.put(full, b"")
        return _Writer(self, full)

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        self._pause("promote")
        full_source, full_target = self._prefix + source, self._prefix + target
        there = self._disk.files.get(full_target)
        if there is not None and len(there) != size:
            raise StoreRefusedError("promote", target, f"{len(there)} bytes stand there, expected {size}")
        if there is None and full_source not in self._disk.files:
            return False
        if there is None and len(self._disk.files[full_source]) != size:
            raise StoreRefusedError("promote", source, "other size")
        if self._copies:
            if there is None:
                self._disk.copy(full_source, full_target)
                self._pause("copied")
            self._disk.remove(full_source)
        elif there is None:
            self._disk.move(full_source, full_target)
        if there is None:
            self._maybe_lose("promote", target)
        return True

    def delete(self, path: str, *, recursive: bool = False) -> None:
        self._pause("delete")
        full = self._prefix + path
        names = [full] if full in self._disk.files else []
        if recursive:
            names += [name for name in self._disk.files if name.startswith(full + "/")]
        for name in sorted(names):
            self._disk.remove(name)

    def _maybe_lose(self, action: str, path: str) -> None:
        if self._lost and self._chance().random() < self._lost:
            raise StoreUnavailableError(action, path, "the answer was lost after success")


class _Writer(StagedWriter):
    def __init__(self, store: SimulatedStore, path: str) -> None:
        self._store = store
        self._path = path
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data

    def close(self) -> None:
        try:
            self._store._pause("close")
        except Crash:
            with suppress(KeyError):
                self._torn()
            raise
        if self._path in self._store._disk.files:
            self._store._disk.files[self._path] = bytes(self._data)

    def _torn(self) -> None:
        cut = self._store._chance().randrange(len(self._data) + 1)
        if self._path in self._store._disk.files:
            self._store._disk.files[self._path] = bytes(self._data[:cut])

    def abort(self) -> None:
        return
