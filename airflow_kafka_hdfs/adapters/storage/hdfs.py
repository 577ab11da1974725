"""How HDFS is used as a store, whichever way its calls are made (WebHDFS or native RPC).

A small file is written whole under a fresh hidden name beside its place, closed, and moved without overwriting; the
name node does that atomically. An answer proves little: a lost one may have had its effect, and WebHDFS answers
"done" when it moved a file *into* a folder that stands at the target. So the state is looked at before and after.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Protocol

from airflow_kafka_hdfs.adapters.storage.paths import (
    check_content,
    check_folder,
    check_path,
    is_temp,
    join,
    parent,
    temp_beside,
)
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StorageError, StoreRefusedError, StoreUnavailableError
from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter, Store

# Writers keep this much in memory: a smaller file goes out in one call, which can be repeated, a larger one in chunks.
CHUNK_BYTES = 64 * 1024


class HdfsStream(Protocol):
    """A new file that is written in chunks. Errors as in `HdfsCalls`."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send a chunk."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""

    @abstractmethod
    def abort(self) -> None:
        """Let go of the connection; never raises."""


class HdfsCalls(Protocol):
    """Single calls of HDFS, each with a time-out, none repeated. Paths are relative to the store's root.

    All raise StoreUnavailableError (also: unknown whether it had its effect; the next call uses another connection)
    and StoreRefusedError. `action` is the operation of the store that the call belongs to, for messages.
    """

    @abstractmethod
    def status(self, action: str, path: str) -> FileStatus | None:
        """Size and kind, None if nothing is there."""

    @abstractmethod
    def list(self, action: str, path: str) -> Iterable[FileStatus]:
        """Direct children; nothing for a missing folder or a file."""

    @abstractmethod
    def read(self, action: str, path: str) -> bytes | None:
        """Content of a file, None if there is no file."""

    @abstractmethod
    def read_part(self, action: str, path: str, start: int, size: int) -> bytes | None:
        """Bytes `[start, start + size)` of a file as far as it goes, None if there is no file."""

    @abstractmethod
    def write(self, action: str, path: str, data: bytes, mode: int | None) -> None:
        """Make a new file with its whole content and close it; missing parents are made."""

    @abstractmethod
    def open(self, path: str, mode: int | None) -> HdfsStream:
        """Start a new file; missing parents are made."""

    @abstractmethod
    def rename(self, action: str, source: str, target: str) -> bool:
        """Move without overwriting; False if the name node said no (something is missing or in the way)."""

    @abstractmethod
    def make_folders(self, action: str, path: str, mode: int | None) -> None:
        """Make a folder and its missing parents; fine if it exists."""

    @abstractmethod
    def delete(self, action: str, path: str, *, recursive: bool) -> None:
        """Delete; missing is fine."""


class HdfsStore(Store):
    """Files below a folder of HDFS.

    Args:
        calls: the way to HDFS.
        root: URI of the root, without credentials.
        file_mode: permission bits of new files; None leaves them to HDFS.
        dir_mode: permission bits of new folders; None leaves them to HDFS.
        patience: how long a call goes on trying.
    """

    def __init__(
        self,
        calls: HdfsCalls,
        *,
        root: str,
        file_mode: int | None = None,
        dir_mode: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.root = root.rstrip("/")
        self._calls = calls
        self._file_mode = file_mode
        self._dir_mode = dir_mode
        self._patience = patience or Patience()

    def __repr__(self) -> str:
        return f"HdfsStore({self.root!r})"

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `Store.put_if_absent`. Five calls for a new file, one or two for one that exists."""
        check_content("put_if_absent", check_path("put_if_absent", path), len(data))
        hand = _Hand(self, path, data)

        def attempt() -> bool:
            there = self._file("put_if_absent", path)
            if there is None:
                moved = hand.move()
                there = self._file("put_if_absent", path, strayed=moved)
                if moved is not None and there is not None:
                    return True
            if there is None:
                raise StoreUnavailableError("put_if_absent", path, "nothing is there after the move; try again")
            return there.size == len(data) and self._calls.read("put_if_absent", path) == data

        with hand:
            return self._patience.run(attempt)

    def create_blindly(self, path: str, data: bytes) -> bool:
        """Create a file without looking first; False if the name is taken. For the start-up probe."""
        with _Hand(self, path, data) as hand:
            return hand.move() is not None

    def get(self, path: str) -> bytes | None:
        """See `Store.get`."""
        check_path("get", path)
        return self._patience.run(lambda: self._calls.read("get", path))

    def get_part(self, path: str, start: int, size: int) -> bytes | None:
        """See `Store.get_part`."""
        check_path("get", path)
        return self._patience.run(lambda: self._calls.read_part("get", path, start, size))

    def status(self, path: str) -> FileStatus | None:
        """See `Store.status`."""
        check_folder("status", path)
        return self._patience.run(lambda: self._calls.status("status", path))

    def list(self, path: str) -> list[FileStatus]:
        """See `Store.list`."""
        check_folder("list", path)
        found = self._patience.run(lambda: list(self._calls.list("list", path)))
        return sorted((status for status in found if not is_temp(status.name)), key=lambda status: status.path)

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        """See `Store.create`. The first 64 KiB wait in memory; the file appears with the next byte or at `close`."""
        check_path("create", path)
        if self.status(path) is not None:
            raise StoreRefusedError("create", path, "the name is taken; staged files need fresh names")
        self._patience.run(lambda: self.make_parents("create", path, modes))
        return _HdfsWriter(self, path, modes.file_or(self._file_mode))

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        """See `Store.promote`. Five calls for a move, one for a file that stands there already."""
        check_path("promote", source)
        check_path("promote", target)

        def attempt() -> bool:
            if self._stands(target, size):
                return True
            staged = self._calls.status("promote", source)
            if staged is None:
                # Another publisher may have moved it between the two looks.
                return self._stands(target, size)
            if staged.is_dir or staged.size != size:
                raise StoreRefusedError("promote", source, f"{_describe(staged)}, expected a file of {size} bytes")
            self._calls.make_folders("promote", parent(target), modes.folder_or(self._dir_mode))
            moved = self.move_blindly(source, target)
            if self._stands(target, size, strayed=source if moved else None):
                return True
            raise StoreUnavailableError("promote", target, "nothing is there after the move; try again")

        return self._patience.run(attempt)

    def move_blindly(self, source: str, target: str) -> bool:
        """Move a file without looking first; False if it isn't there or the name is taken. For the start-up probe."""
        return self._calls.rename("promote", source, target)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """See `Store.delete`."""
        check_path("delete", path)
        self._patience.run(lambda: self._calls.delete("delete", path, recursive=recursive))

    # for the writers of this store

    def write_whole(self, path: str, data: bytes, mode: int | None) -> None:
        """Make a staged file in one call, or by the way over a hidden name if that call's answer was lost.

        A request that was given up may still reach HDFS and leave a torn file at the path. It can't replace anything,
        so a whole file that was moved there is safe.
        """
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                self._calls.write("close", path, data, mode)
                return
            temp = temp_beside(path)
            self._calls.write("close", temp, data, mode)
            self._calls.delete("close", path, recursive=False)
            if not self._calls.rename("close", temp, path):
                raise StoreUnavailableError("close", path, "an earlier request for this file is still under way")

        self._patience.run(attempt)

    def open_stream(self, path: str, mode: int | None) -> tuple[HdfsStream, str]:
        """Start a staged file; where it is written: at a hidden name if the answer to the first try was lost.

        A request that was given up may reach HDFS at any later moment and hold the path; see `settle`.
        """
        tries = 0

        def attempt() -> tuple[HdfsStream, str]:
            nonlocal tries
            tries += 1
            # The look makes sure that the name node at hand is the active one: a stream can't be repeated.
            if self._calls.status("write", path) is not None and tries == 1:
                raise StoreRefusedError("write", path, "the name was taken since `create`")
            place = path if tries == 1 else temp_beside(path)
            return self._calls.open(place, mode), place

        return self._patience.run(attempt)

    def settle(self, place: str, path: str) -> None:
        """Move a staged file from a hidden name to its path, over what an earlier request left there."""

        def attempt() -> None:
            if self._calls.status("close", place) is None:
                return  # an earlier try has moved it
            self._calls.delete("close", path, recursive=False)
            if not self._calls.rename("close", place, path):
                raise StoreUnavailableError("close", path, "an earlier request for this file is still under way")

        self._patience.run(attempt)

    def check_size(self, path: str, size: int) -> None:
        """Raise StoreUnavailableError unless a file of that size is there."""
        there = self._patience.run(lambda: self._calls.status("close", path))
        if there is None or there.size != size:
            found = "nothing is there" if there is None else f"{_describe(there)} is there"
            raise StoreUnavailableError("close", path, f"{found}, expected {size} bytes; write the file again")

    def forget(self, path: str) -> bool:
        """Delete what is left of a file that was given up; False if HDFS did not answer at once."""
        try:
            self._calls.delete("abort", path, recursive=False)
        except StorageError:
            return False
        return True

    def make_parents(self, action: str, path: str, modes: Modes = STORES_OWN) -> None:
        """Make the parents of a file where HDFS would give them another mode than asked for."""
        mode = modes.folder_or(self._dir_mode)
        if mode is not None:
            self._calls.make_folders(action, parent(path), mode)

    def write_temp(self, path: str, data: bytes) -> None:
        """Write a hidden file that is about to be moved."""
        self.make_parents("put_if_absent", path)
        self._calls.write("put_if_absent", path, data, self._file_mode)

    # looks

    def _file(self, action: str, path: str, *, strayed: str | None = None) -> FileStatus | None:
        """Status of a file; a folder there is an error, and a file that was moved into it is taken out again."""
        there = self._calls.status(action, path)
        if there is not None and there.is_dir:
            if strayed is not None:
                self._calls.rename(action, join(path, strayed.rpartition("/")[2]), strayed)
            raise StoreRefusedError(
                action, path, "a folder stands there; data folders hold our files only, move it away"
            )
        return there

    def _stands(self, target: str, size: int, *, strayed: str | None = None) -> bool:
        there = self._file("promote", target, strayed=strayed)
        if there is not None and there.size != size:
            raise StoreRefusedError("promote", target, f"{_describe(there)} stands there, expected {size} bytes")
        return there is not None


class _Hand:
    """A small file on its way: written once under a hidden name, then moved, as often as it takes.

    At the end of the `with` block what was written and not moved is deleted, unless the process is being ended.
    """

    def __init__(self, store: HdfsStore, path: str, data: bytes) -> None:
        self._store = store
        self._path = path
        self._data = data
        self._temp: str | None = None
        self._litter: list[str] = []

    def __enter__(self) -> _Hand:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, Exception):
            # One that HDFS does not delete at once ends the tidying: the caller has waited long enough.
            all(self._store.forget(temp) for temp in self._litter)

    def move(self) -> str | None:
        """One move without looking; the hidden name that the file had, None if HDFS said no."""
        if self._temp is None:
            temp = temp_beside(self._path)
            self._litter.append(temp)
            try:
                self._store.write_temp(temp, self._data)
            except StorageError as error:
                raise type(error)(error.action, self._path, error.detail) from error  # not the hidden name
            self._temp = temp
        temp = self._temp
        if not self._store.move_blindly(temp, self._path):
            return None
        self._litter.remove(temp)
        self._temp = None
        return temp


class _HdfsWriter(StagedWriter):
    def __init__(self, store: HdfsStore, path: str, mode: int | None) -> None:
        self._store = store
        self._path = path
        self._mode = mode
        self._buffer = bytearray()
        self._stream: HdfsStream | None = None
        self._place = path
        self._size = 0
        self._closed = False

    def write(self, data: bytes) -> None:
        self._check("write")
        self._size += len(data)
        if len(self._buffer) + len(data) < CHUNK_BYTES:
            self._buffer += data
            return
        if self._stream is None:
            self._stream, self._place = self._store.open_stream(self._path, self._mode)
        self._flush(self._stream)
        self._stream.write(data)

    def close(self) -> None:
        self._check("close")
        try:
            check_content("close", self._path, self._size)
            if self._stream is None:
                self._store.write_whole(self._path, bytes(self._buffer), self._mode)
            else:
                self._flush(self._stream)
                self._stream.close()
                if self._place != self._path:
                    self._store.settle(self._place, self._path)
            self._store.check_size(self._path, self._size)
        except StorageError:
            self.abort()
            raise
        self._closed = True

    def abort(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._buffer.clear()
        if self._stream is not None:
            self._stream.abort()
            if self._store.forget(self._place) and self._place != self._path:
                self._store.forget(self._path)

    def _flush(self, stream: HdfsStream) -> None:
        if self._buffer:
            chunk = bytes(self._buffer)
            self._buffer.clear()
            stream.write(chunk)

    def _check(self, action: str) -> None:
        if self._closed:
            raise StoreRefusedError(action, self._path, "the writer is closed already")


def _describe(status: FileStatus) -> str:
    return "a folder" if status.is_dir else f"a file of {status.size} bytes"
