"""Files on a local or mounted disk.

Nothing is ever replaced: a file gets its name by a hard link, which fails if the name is taken, and it is on disk
before that. Network file systems may answer "exists" to the repetition of a link that they made themselves, so what
stands there is looked at, never the answer alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

from airflow_kafka_hdfs.adapters.storage.errors import os_errors
from airflow_kafka_hdfs.adapters.storage.paths import (
    check_content,
    check_folder,
    check_path,
    is_temp,
    join,
    temp_beside,
)
from airflow_kafka_hdfs.exceptions import StorageError, StoreRefusedError, StoreUnavailableError
from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter, Store

_MOST_HELD = 2 << 20
"""Bytes that a file being written holds back, so that one call takes many blocks: the kernel then works with large
pages, which halves the cost of a byte."""

_HELD_TOGETHER = 8 << 20
"""Bytes that all files being written hold back; the more they are, the less each."""

_MOST_PIECES = 512
"""Pieces of one call; Linux takes 1,024."""

_PUSH_BYTES = 4 << 20
"""The disk is set to work after so many bytes, so that a close does not wait for all of a file."""

_LIBC = ctypes.CDLL(None)
_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of Linux."""

_LEAST_RESERVED = 4 << 20
_MOST_RESERVED = 32 << 20
"""Room that is asked for at once, ahead of what is written: with a file that grows, the file system looks for it block
by block, which takes longer than the copy."""

_RESERVED_TOGETHER = 128 << 20
"""Room ahead of all files being written: while it is set aside, nobody else can write there."""

_PLENTY = 2 << 30
"""Free bytes below which no room is set aside: what others need now goes before what we may need later."""


class LocalStore(Store):
    """Files below a folder of one file system that has hard links.

    Args:
        folder: absolute; made when the first file is written.
        file_mode: permission bits of new files; None leaves them to the umask.
        dir_mode: permission bits of new folders; None leaves them to the umask.
    """

    def __init__(self, folder: str | Path, *, file_mode: int | None = None, dir_mode: int | None = None) -> None:
        self._folder = os.path.abspath(folder)
        self.root = Path(self._folder).as_uri()
        self._file_mode = file_mode
        self._dir_mode = dir_mode
        self._held = _Held()

    def __repr__(self) -> str:
        return f"LocalStore({self.root!r})"

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `Store.put_if_absent`."""
        check_content("put_if_absent", check_path("put_if_absent", path), len(data))
        with os_errors("put_if_absent", path):
            there = self._read("put_if_absent", path)
            if there is not None:
                return there == data
            if self.create_blindly(path, data):
                return True
            there = self._read("put_if_absent", path)
        if there is None:
            raise StoreUnavailableError("put_if_absent", path, "what stood there is gone again; try again")
        return there == data

    def create_blindly(self, path: str, data: bytes) -> bool:
        """Create a file without looking first; False if the name is taken. For the start-up probe."""
        with os_errors("put_if_absent", path):
            target, temp = (self._resolve("put_if_absent", place) for place in (path, temp_beside(path)))
            self._make_folders(os.path.dirname(target), self._dir_mode)
            try:
                with self._open_new(temp, self._file_mode) as file:
                    _write_all(file.fileno(), [data])
                    os.fsync(file.fileno())
                return _link(temp, target)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temp)

    def get(self, path: str) -> bytes | None:
        """See `Store.get`."""
        with os_errors("get", check_path("get", path)), suppress(IsADirectoryError, NotADirectoryError):
            return self._read("get", path)
        return None

    def get_part(self, path: str, start: int, size: int) -> bytes | None:
        """See `Store.get_part`."""
        found = (IsADirectoryError, NotADirectoryError, FileNotFoundError)
        with (
            os_errors("get", check_path("get", path)),
            suppress(*found),
            open(self._resolve("get", path), "rb") as file,
        ):
            file.seek(start)
            return file.read(size)
        return None

    def status(self, path: str) -> FileStatus | None:
        """See `Store.status`."""
        with os_errors("status", check_folder("status", path)):
            found = _stat(self._resolve("status", path))
            return None if found is None else _status(path, found)

    def list(self, path: str) -> list[FileStatus]:
        """See `Store.list`."""
        with os_errors("list", check_folder("list", path)):
            try:
                names = sorted(os.listdir(self._resolve("list", path)))
            except (FileNotFoundError, NotADirectoryError):
                return []
            found = ((name, _stat(os.path.join(self._folder, path, name))) for name in names if not is_temp(name))
            return [_status(join(path, name), status) for name, status in found if status is not None]

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        """See `Store.create`."""
        with os_errors("create", check_path("create", path)):
            place = self._resolve("create", path)
            self._make_folders(os.path.dirname(place), modes.folder_or(self._dir_mode))
            try:
                return _LocalWriter(path, place, self._open_new(place, modes.file_or(self._file_mode)), self._held)
            except FileExistsError:
                raise StoreRefusedError("create", path, "the name is taken; staged files need fresh names") from None

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        """See `Store.promote`."""
        check_path("promote", source)
        check_path("promote", target)
        with os_errors("promote", target):
            there, staged = self._resolve("promote", target), self._resolve("promote", source)
            if self._stands(target, there, size):
                _finish_move(staged, there)
                return True
            found = _stat(staged)
            if found is None:
                # Another publisher may have moved it between the two looks.
                return self._stands(target, there, size)
            if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                raise StoreRefusedError("promote", source, f"{_describe(found)}, expected a file of {size} bytes")
            self._make_folders(os.path.dirname(there), modes.folder_or(self._dir_mode))
            self.move_blindly(source, target)
            return self._stands(target, there, size)

    def move_blindly(self, source: str, target: str) -> bool:
        """Move a file without looking first; False if it isn't there or the name is taken. For the start-up probe."""
        with os_errors("promote", target):
            staged, there = self._resolve("promote", source), self._resolve("promote", target)
            try:
                linked = _link(staged, there)
            except FileNotFoundError:
                if _stat(staged) is not None:
                    raise  # the target's folder went away
                return False
            _finish_move(staged, there)
            return linked

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """See `Store.delete`."""
        with os_errors("delete", check_path("delete", path)):
            place = self._resolve("delete", path)
            if not os.path.isdir(place) or os.path.islink(place):
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(place)
            elif not recursive:
                os.rmdir(place)
            else:
                while os.path.lexists(place):
                    # Somebody else may be deleting the same folder: what vanished meanwhile is fine.
                    with suppress(FileNotFoundError):
                        shutil.rmtree(place)

    def _resolve(self, action: str, path: str) -> str:
        """Place on disk of a checked path; symbolic links may not lead out of the root."""
        place = os.path.join(self._folder, path) if path else self._folder
        root = os.path.realpath(self._folder)
        if os.path.commonpath([root, os.path.realpath(place)]) != root:
            raise StoreRefusedError(action, path, f"a symbolic link leads out of the root {self._folder}")
        return place

    def _read(self, action: str, path: str) -> bytes | None:
        try:
            with open(self._resolve(action, path), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _stands(self, target: str, there: str, size: int) -> bool:
        found = _stat(there)
        if found is None:
            return False
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            raise StoreRefusedError("promote", target, f"{_describe(found)} stands there, expected {size} bytes")
        return True

    def _open_new(self, place: str, mode: int | None) -> FileIO:
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode)
        if mode is not None:
            os.fchmod(handle, mode)  # the umask has no say in a mode that was asked for
        return FileIO(handle, "wb")

    def _make_folders(self, folder: str, mode: int | None) -> None:
        """Make a folder and its parents so that they survive a crash."""
        if os.path.isdir(folder):
            return
        above = os.path.dirname(folder)
        self._make_folders(above, mode)
        try:
            os.mkdir(folder, 0o777 if mode is None else mode)
        except FileExistsError:
            if os.path.isdir(folder):
                return
            raise NotADirectoryError(f"{folder} is a file, not a folder") from None
        if mode is not None:
            os.chmod(folder, mode)
        _sync_folder(above)


class _Held:
    """What each of the files being written may hold back, and how much room it may have set aside."""

    def __init__(self) -> None:
        self.each = _MOST_HELD
        self.ahead = _MOST_RESERVED
        self._files = 0
        self._lock = threading.Lock()

    def change(self, files: int) -> None:
        """So many files more are being written, or fewer."""
        with self._lock:
            self._files += files
            self.each = min(_MOST_HELD, _HELD_TOGETHER // max(self._files, 1))
            self.ahead = min(_MOST_RESERVED, _RESERVED_TOGETHER // max(self._files, 1))


class _LocalWriter(StagedWriter):
    def __init__(self, path: str, place: str, file: FileIO, held: _Held) -> None:
        self._path = path
        self._place = place
        self._file = file
        self._held = held
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._size = 0
        self._pushed = 0
        self._reserved = 0
        self._may_reserve = True
        self._whole = False
        held.change(1)

    def write(self, data: bytes) -> None:
        self._check("write")
        self._pieces.append(data)
        self._waiting += len(data)
        if self._waiting >= self._held.each or len(self._pieces) >= _MOST_PIECES:
            with os_errors("write", self._path):
                self._flush()

    def close(self) -> None:
        self._check("close")
        try:
            check_content("close", self._path, self._size + self._waiting)
            self._may_reserve = False  # it grows no more
            with os_errors("close", self._path), self._file:
                self._flush()
                if self._reserved > self._size:
                    os.ftruncate(self._file.fileno(), self._size)  # gives back what was not needed
                os.fsync(self._file.fileno())
            with os_errors("close", self._path):
                _sync_folder(os.path.dirname(self._place))
                if os.stat(self._place).st_size != self._size:
                    raise StoreUnavailableError("close", self._path, f"the file does not have its {self._size} bytes")
        except StorageError:
            self.abort()
            raise
        self._whole = True
        self._held.change(-1)

    def abort(self) -> None:
        if self._whole:
            return
        self._whole = True  # as far as it goes
        self._held.change(-1)
        self._pieces = []
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._place)

    def _flush(self) -> None:
        handle = self._file.fileno()
        pieces, self._pieces = self._pieces, []
        if self._may_reserve and self._reserved < self._size + self._waiting:
            self._reserve(handle)
        _write_all(handle, pieces)
        self._size += self._waiting
        self._waiting = 0
        if self._size - self._pushed >= _PUSH_BYTES:
            _push(handle, self._pushed, self._size - self._pushed)
            self._pushed = self._size

    def _reserve(self, handle: int) -> None:
        """Ask for room ahead; a file that has little so far may stay small."""
        more = min(self._size, self._held.ahead)
        if more < _LEAST_RESERVED:
            return
        self._may_reserve = _has_plenty(handle) and _reserve(handle, self._size, self._waiting + more)
        if self._may_reserve:
            self._reserved = self._size + self._waiting + more

    def _check(self, action: str) -> None:
        if self._file.closed:
            raise StoreRefusedError(action, self._path, "the writer is closed already")


def _write_all(handle: int, pieces: Sequence[bytes | memoryview]) -> None:
    """Write pieces behind each other; the kernel may take less than it is given."""
    while pieces:
        written = os.writev(handle, pieces)
        at = 0
        while at < len(pieces) and written >= len(pieces[at]):
            written -= len(pieces[at])
            at += 1
        pieces = pieces[at:]
        if written:
            pieces = [memoryview(pieces[0])[written:], *pieces[1:]]


def _reserve(handle: int, start: int, size: int) -> bool:
    """Let the file system set room aside behind the end of a file, without making it larger; whether it did.

    `os.posix_fallocate` won't do: it makes the file larger, and writes it full where the file system can't reserve.
    """
    fallocate = getattr(_LIBC, "fallocate64", None)  # Linux has it
    if fallocate is None:
        return False
    done: bool = fallocate(handle, _KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(size)) == 0
    if not done:  # where room ends in the midst of it (disk, quota), ext4 keeps for the file what it has got so far
        with suppress(OSError):
            os.ftruncate(handle, start)
    return done


def _has_plenty(handle: int) -> bool:
    try:
        found = os.fstatvfs(handle)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= _PLENTY


def _push(handle: int, start: int, size: int) -> None:
    """Let the disk begin with a part of a file; what is on disk already leaves the memory to who reads again."""
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # advice only
            os.posix_fadvise(handle, start, size, os.POSIX_FADV_DONTNEED)


def _link(source: str, target: str) -> bool:
    """Give a file a second name and make that last; False if the name is taken."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return False
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
        raise OSError(
            errno.ENOTSUP,
            "hard links are refused: the file system has none, or the file belongs to another user "
            "(fs.protected_hardlinks)",
        ) from error
    _sync_folder(os.path.dirname(target))
    return True


def _finish_move(source: str, target: str) -> None:
    """Remove the first name of a file that has its second one for good.

    The count of links guards against one place reached by two paths, where there is no second name.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        staged = os.lstat(source)
        if staged.st_nlink > 1 and os.path.samestat(staged, os.lstat(target)):
            _sync_folder(os.path.dirname(target))
            os.unlink(source)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some mounts can't do this for folders, and need it no more than that
            raise
    finally:
        os.close(handle)


def _stat(place: str) -> os.stat_result | None:
    try:
        return os.stat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _status(path: str, found: os.stat_result) -> FileStatus:
    is_dir = stat.S_ISDIR(found.st_mode)
    return FileStatus(path=path, size=0 if is_dir else found.st_size, is_dir=is_dir, modified=found.st_mtime)


def _describe(found: os.stat_result) -> str:
    if stat.S_ISDIR(found.st_mode):
        return "a folder"
    return f"a file of {found.st_size} bytes" if stat.S_ISREG(found.st_mode) else "something that is no plain file"
