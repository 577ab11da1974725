"""A store in memory: passes the contract suite of real stores, deterministic, cheap to copy.

Folders behave as on HDFS: they come with the first file below them and stay until they are deleted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_kafka_hdfs.adapters.storage.paths import check_content, check_folder, check_path, parent
from airflow_kafka_hdfs.adapters.storage.probe import ProvableStore
from airflow_kafka_hdfs.exceptions import StoreRefusedError
from airflow_kafka_hdfs.model import PRIVATE, STORES_OWN, FileStatus, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter


@dataclass(slots=True)
class _File:
    content: bytearray
    modified: float
    modes: Modes = STORES_OWN
    closed: bool = True


@dataclass(slots=True)
class _Tree:
    files: dict[str, _File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


class InMemoryStore(ProvableStore):
    """Files in a dict.

    Args:
        root: what `root` says; no more than a name.
        clock: seconds since the epoch for `FileStatus.modified`; without one, each change is one second later
            than the one before, from 1 on.
    """

    def __init__(self, root: str = "memory://store", clock: Callable[[], float] | None = None) -> None:
        self.root = root
        self._clock = clock
        self._ticks = 0
        self._tree = _Tree()
        self._lock = threading.RLock()

    # what tests look at

    def files(self) -> Mapping[str, bytes]:
        """Every file with its content, torn and unclosed ones too, sorted by path."""
        with self._lock:
            return {path: bytes(file.content) for path, file in sorted(self._tree.files.items())}

    def unclosed(self) -> list[str]:
        """Paths of files that were created and neither closed nor deleted."""
        with self._lock:
            return sorted(path for path, file in self._tree.files.items() if not file.closed)

    def is_private(self, path: str) -> bool:
        """Whether the file was made readable by its owner alone."""
        return self._tree.files[path].modes == PRIVATE

    def clone(self) -> InMemoryStore:
        """An independent copy, to go on from one state in several ways. Open writers stay with the original."""
        with self._lock:
            copy = InMemoryStore(self.root, self._clock)
            copy._ticks = self._ticks
            copy._tree.folders = set(self._tree.folders)
            copy._tree.files = {
                path: _File(bytearray(file.content), file.modified, file.modes, file.closed)
                for path, file in self._tree.files.items()
            }
            return copy

    # the port

    def put_if_absent(self, path: str, data: bytes) -> bool:
        check_content("put_if_absent", check_path("put_if_absent", path), len(data))
        with self._lock:
            self._make_parents("put_if_absent", path)
            self._refuse_folder("put_if_absent", path)
            have = self._tree.files.get(path)
            if have is not None:
                return have.content == data
            self._tree.files[path] = _File(bytearray(data), self._now())
            return True

    def create_blindly(self, path: str, data: bytes) -> bool:
        with self._lock:
            return path not in self._tree.files and self.put_if_absent(path, data)

    def move_blindly(self, source: str, target: str) -> bool:
        with self._lock:
            staged = self._tree.files.get(source)
            if staged is None or target in self._tree.files:
                return False
            return self.promote(source, target, len(staged.content))

    def get(self, path: str) -> bytes | None:
        check_path("get", path)
        with self._lock:
            file = self._tree.files.get(path)
            return None if file is None else bytes(file.content)

    def status(self, path: str) -> FileStatus | None:
        check_folder("status", path)
        with self._lock:
            return self._status(path)

    def list(self, path: str) -> list[FileStatus]:
        check_folder("list", path)
        with self._lock:
            names = [name for name in itertools.chain(self._tree.files, self._tree.folders) if parent(name) == path]
            return [status for name in sorted(names) if (status := self._status(name)) is not None]

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        check_path("create", path)
        with self._lock:
            self._make_parents("create", path)
            self._refuse_folder("create", path)
            if path in self._tree.files:
                raise StoreRefusedError("create", path, "a file stands there already; staged files need fresh names")
            file = self._tree.files[path] = _File(bytearray(), self._now(), modes, closed=False)
            return _Writer(self, path, file)

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        check_path("promote", source)
        check_path("promote", target)
        with self._lock:
            self._refuse_folder("promote", target)
            there = self._tree.files.get(target)
            if there is not None:
                if len(there.content) != size:
                    raise StoreRefusedError(
                        "promote", target, f"a file of {len(there.content)} bytes stands there, expected {size}"
                    )
                return True
            staged = self._tree.files.get(source)
            if staged is None:
                return False
            if len(staged.content) != size:
                raise StoreRefusedError("promote", source, f"has {len(staged.content)} bytes, expected {size}")
            self._make_parents("promote", target)
            self._tree.files[target] = self._tree.files.pop(source)
            return True

    def delete(self, path: str, *, recursive: bool = False) -> None:
        check_path("delete", path)
        with self._lock:
            if path in self._tree.files:
                del self._tree.files[path]
                return
            below = [name for name in (*self._tree.files, *self._tree.folders) if name.startswith(f"{path}/")]
            if below and not recursive:
                raise StoreRefusedError("delete", path, "the folder is not empty; delete it with recursive=True")
            for name in below:
                self._tree.files.pop(name, None)
                self._tree.folders.discard(name)
            self._tree.folders.discard(path)

    # inside

    def _now(self) -> float:
        self._ticks += 1
        return float(self._ticks) if self._clock is None else self._clock()

    def _status(self, path: str) -> FileStatus | None:
        if (file := self._tree.files.get(path)) is not None:
            return FileStatus(path=path, size=len(file.content), modified=file.modified)
        known = path in self._tree.folders or (path == "" and (self._tree.folders or self._tree.files))
        return FileStatus(path=path, size=0, is_dir=True) if known else None

    def _make_parents(self, action: str, path: str) -> None:
        folders = []
        folder = parent(path)
        while folder:
            if folder in self._tree.files:
                raise StoreRefusedError(action, path, f"{folder} is a file, not a folder")
            folders.append(folder)
            folder = parent(folder)
        self._tree.folders.update(folders)

    def _refuse_folder(self, action: str, path: str) -> None:
        if path in self._tree.folders:
            raise StoreRefusedError(action, path, "a folder stands there")


class _Writer(StagedWriter):
    def __init__(self, store: InMemoryStore, path: str, file: _File) -> None:
        self._store = store
        self._path = path
        self._file = file

    def write(self, data: bytes) -> None:
        with self._store._lock:
            self._check("write")
            self._file.content += data

    def close(self) -> None:
        with self._store._lock:
            self._check("close")
            check_content("close", self._path, len(self._file.content))
            self._file.modified = self._store._now()
            self._file.closed = True

    def abort(self) -> None:
        """What was written stays behind, as after a crash."""

    def _check(self, action: str) -> None:
        if self._file.closed:
            raise StoreRefusedError(action, self._path, "the writer is closed")
        if self._store._tree.files.get(self._path) is not self._file:
            raise StoreRefusedError(action, self._path, "the file was deleted or moved while it was being written")
