"""A store of files: the only way in which the core touches local disk, HDFS or an object store."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol

from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes


class StagedWriter(Protocol):
    """One new file being written. Its content may become visible before `close`; nobody reads it before."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            StoreUnavailableError: transient; the file is of no use any more.
            StoreRefusedError: permission, quota, no space.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish the file so that it survives a crash of this machine, as far as the store can promise that.

        Raises:
            StoreUnavailableError: it is unknown whether the file is whole; it must not be listed in a manifest.
            StoreRefusedError: as in `write`.
        """

    @abstractmethod
    def abort(self) -> None:
        """Give the file up; never raises. What was written may stay behind as garbage in staging."""


class Store(Protocol):
    """Files below one root. Paths are relative, `/`-separated, without `.` and `..`.

    Implementations are thread-safe: independent calls run side by side. Listings are never cached. The empty path
    is the root itself, for `status` and `list` alone. A path that leaves the root or that some store can't hold
    (`:`, control characters, elements over 255 bytes) is refused by every store with StoreRefusedError.
    """

    root: str
    has_modes: bool = True
    """Whether files and folders have permission bits; where not, modes are of no effect."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create a small file atomically with its whole content, unless one exists.

        Args:
            path: where; missing parents are created.
            data: content, never empty.

        Returns:
            True if what stands there now is `data` byte for byte (made by this call or before), False if other
            content stands there. After an answer was lost, the state is looked at before the call is repeated.

        Raises:
            StoreUnavailableError: it is unknown whether the file was made.
            StoreRefusedError: permission, quota, a folder in the way.
        """

    @abstractmethod
    def get(self, path: str) -> bytes | None:
        """Whole content of a file, None if there is no file (a folder is none).

        Raises:
            StoreUnavailableError: the store is away.
            StoreRefusedError: permission.
        """

    def get_part(self, path: str, start: int, size: int) -> bytes | None:
        """A part of a file, for headers and footers of large ones.

        Args:
            path: the file.
            start: first byte, from 0 up.
            size: bytes that are wanted, at least one; there are fewer where the file ends before.

        Returns:
            The bytes, None if there is no file. Raises as `get`.
        """
        data = self.get(path)
        return None if data is None else data[start : start + size]

    @abstractmethod
    def status(self, path: str) -> FileStatus | None:
        """Size and kind of a path, None if nothing is there. Raises StoreUnavailableError, StoreRefusedError."""

    @abstractmethod
    def list(self, path: str) -> list[FileStatus]:
        """Direct children of a folder, sorted by path; empty if the folder does not exist.

        On object stores a listing may be stale; nothing is decided on a listing alone.
        """

    @abstractmethod
    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        """Open a new file for writing at a path that nobody else uses (it holds a fresh unique id).

        Args:
            path: where; missing parents are created.
            modes: of the file and of missing parents.

        Raises:
            StoreUnavailableError: the store is away.
            StoreRefusedError: the name is taken, permission, quota.
        """

    @abstractmethod
    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        """Move a file to its place without ever replacing one there. Idempotent.

        Args:
            source: the staged file.
            target: its place; missing parents are created.
            size: bytes that the file must have.
            modes: of missing parents; the file keeps its own.

        Returns:
            True if the file stands at `target` with `size` bytes (moved now or before), False if neither
            `source` nor `target` exists. After a lost answer both places are looked at.

        Raises:
            StoreRefusedError: something else stands at `target` (other size, or a folder), permission, quota.
            StoreUnavailableError: it is unknown whether the file was moved.
        """

    @abstractmethod
    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, or with `recursive` a folder and all in it; missing is fine.

        Raises:
            StoreUnavailableError: it is unknown whether all of it is gone.
            StoreRefusedError: permission, or a folder that is not empty without `recursive`.
        """
