"""Object stores through fsspec, as far as they can create an object only if there is none.

What is used of a file system object: `pipe_file` and `put_file` with `mode='create'`, `info`, `ls`, `find`,
`cat_file`, `get_file`, `cp_file`, `rm_file`; never `open('xb')`, `mv` or `rm`, which replace, glob or leave torn
objects behind in one library or another. Listings are never taken from a cache.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from airflow_kafka_hdfs.adapters.storage.errors import from_os_error
from airflow_kafka_hdfs.adapters.storage.paths import (
    check_content,
    check_folder,
    check_path,
    is_temp,
    join,
    temp_beside,
)
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StorageError, StoreRefusedError, StoreUnavailableError, UnsafeStoreError
from airflow_kafka_hdfs.model import STORES_OWN, FileStatus, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter, Store

T = TypeVar("T")

# Above this, s3fs copies in parts, and then without the condition.
_LARGEST_SERVER_COPY = 5 * 10**9
# Parts of an upload: s3fs would hold files of up to 100 MB in memory.
_S3_UPLOAD = {"chunksize": 8 * 1024 * 1024, "max_concurrency": 2}
# Errors of client libraries, by class name, that no further try will cure.
_REFUSED = {
    "NoCredentialsError": "no credentials found; give them in the extra of the connection",
    "PartialCredentialsError": "credentials are incomplete; see the extra of the connection",
    "CredentialRetrievalError": "credentials can't be fetched; see the extra of the connection",
    "ParamValidationError": "the store's client refuses the name or an option of the connection",
    "InvalidEndpointURL": "see endpoint_url in the extra of the connection",
    "NotImplementedError": "this file system does not offer what a store needs",
    "TypeError": "this file system does not offer what a store needs",
    "ValueError": "this file system can't do that with these arguments",
}
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated")


class ObjectStore(Store):
    """Objects below a prefix.

    Args:
        filesystem: an fsspec file system, made without a listings cache, used by this store alone.
        prefix: bucket and path below it, as the file system spells them.
        root: URI of the prefix, without credentials.
        patience: how long a call goes on trying.
    """

    has_modes = False

    def __init__(self, filesystem: Any, prefix: str, *, root: str, patience: Patience | None = None) -> None:
        self.root = root.rstrip("/")
        self._fs = filesystem
        self._prefix = prefix.rstrip("/")
        self._patience = patience or Patience()
        self._lock = threading.Lock()
        self._copy_is_safe: bool | None = None

    def __repr__(self) -> str:
        return f"ObjectStore({self.root!r})"

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See `Store.put_if_absent`."""
        check_content("put_if_absent", check_path("put_if_absent", path), len(data))

        def attempt() -> bool:
            there = self._status("put_if_absent", path)
            if there is not None and there.is_dir:
                raise StoreRefusedError("put_if_absent", path, "a folder stands there")
            if there is None and self.create_blindly(path, data):
                return True
            found = self._get("put_if_absent", path)
            if found is None:
                raise StoreUnavailableError("put_if_absent", path, "what stood there is gone again; try again")
            return found == data

        return self._patience.run(attempt)

    def create_blindly(self, path: str, data: bytes) -> bool:
        """Create an object without looking first; False if the name is taken. For the start-up probe."""
        self._refuse_emulation("put_if_absent", path, "pipe_file")
        return self._create("put_if_absent", path, lambda key: self._fs.pipe_file(key, data, mode="create"))

    def get(self, path: str) -> bytes | None:
        """See `Store.get`."""
        check_path("get", path)
        return self._patience.run(lambda: self._get("get", path))

    def get_part(self, path: str, start: int, size: int) -> bytes | None:
        """See `Store.get_part`."""
        check_path("get", path)

        def attempt() -> bytes | None:
            found = self._status("get", path)
            if found is None or found.is_dir:
                return None
            if start >= found.size:
                return b""
            with _library_errors("get", path):
                try:
                    return bytes(self._fs.cat_file(self._key(path), start=start, end=min(start + size, found.size)))
                except (FileNotFoundError, IsADirectoryError):
                    return None

        return self._patience.run(attempt)

    def status(self, path: str) -> FileStatus | None:
        """See `Store.status`."""
        check_folder("status", path)
        return self._patience.run(lambda: self._status("status", path))

    def list(self, path: str) -> list[FileStatus]:
        """See `Store.list`."""
        check_folder("list", path)

        def attempt() -> list[FileStatus]:
            key = self._key(path)
            with _library_errors("list", path):
                try:
                    self._fs.invalidate_cache()
                    entries = self._fs.ls(key, detail=True)
                except (FileNotFoundError, NotADirectoryError):
                    return []
            names = ((str(entry["name"]).rstrip("/"), entry) for entry in entries)
            found = [_to_status(join(path, name.rsplit("/", 1)[-1]), entry) for name, entry in names if name != key]
            return sorted((status for status in found if not is_temp(status.name)), key=lambda status: status.path)

        return self._patience.run(attempt)

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        """See `Store.create`. The content waits in a temporary file on local disk until `close`."""
        check_path("create", path)
        if self.status(path) is not None:
            raise StoreRefusedError("create", path, "the name is taken; staged files need fresh names")
        return _SpooledWriter(self, path)

    def promote(self, source: str, target: str, size: int, *, modes: Modes = STORES_OWN) -> bool:
        """See `Store.promote`. The copy is made first, then the source goes, so a crash leaves both, never none."""
        check_path("promote", source)
        check_path("promote", target)

        def attempt() -> bool:
            if not self._stands(target, size):
                staged = self._status("promote", source)
                if staged is None:
                    # Another publisher may have moved it between the two looks.
                    return self._stands(target, size)
                if staged.is_dir or staged.size != size:
                    raise StoreRefusedError("promote", source, f"{_describe(staged)}, expected {size} bytes")
                self._copy(source, target, size)
                if not self._stands(target, size):
                    raise StoreUnavailableError("promote", target, "the copy is not to be seen yet; try again")
            self._remove("promote", source)
            return True

        return self._patience.run(attempt)

    def move_blindly(self, source: str, target: str) -> bool:
        """Copy without looking first, then delete; False if the name is taken. For the start-up probe."""
        there = self._status("promote", source)
        if there is None or not self._copy(source, target, there.size):
            return False
        self._remove("promote", source)
        return True

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """See `Store.delete`. There are no folders here, so without `recursive` only an object goes."""
        check_path("delete", path)

        def attempt() -> None:
            self._remove("delete", path)
            if recursive:
                with _library_errors("delete", path):
                    self._fs.invalidate_cache()
                    keys = self._fs.find(self._key(path))
                for key in keys:
                    with _library_errors("delete", path), suppress(FileNotFoundError):
                        self._fs.rm_file(key)

        self._patience.run(attempt)

    def upload(self, path: str, file: Path, size: int) -> None:
        """Make an object of a local file; used by the writers of this store.

        Raises:
            StoreUnavailableError: it is unknown whether the object was made.
            StoreRefusedError: another object stands there, or the store refused.
        """

        def attempt() -> None:
            if not self._put_file("close", path, file):
                # The name is ours alone, so this is what an earlier try made, unless the size says otherwise.
                there = self._status("close", path)
                if there is None or there.is_dir or there.size != size:
                    raise StoreRefusedError("close", path, "another object stands there; staged files need fresh names")

        self._patience.run(attempt)

    def _key(self, path: str) -> str:
        return f"{self._prefix}/{path}" if path else self._prefix

    def _get(self, action: str, path: str) -> bytes | None:
        with _library_errors(action, path):
            try:
                return bytes(self._fs.cat_file(self._key(path)))
            except (FileNotFoundError, IsADirectoryError):
                return None

    def _status(self, action: str, path: str) -> FileStatus | None:
        with _library_errors(action, path):
            try:
                self._fs.invalidate_cache()
                return _to_status(path, self._fs.info(self._key(path)))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def _stands(self, target: str, size: int) -> bool:
        there = self._status("promote", target)
        if there is not None and (there.is_dir or there.size != size):
            raise StoreRefusedError("promote", target, f"{_describe(there)} stands there, expected {size} bytes")
        return there is not None

    def _create(self, action: str, path: str, make: Callable[[str], object]) -> bool:
        with _library_errors(action, path):
            try:
                make(self._key(path))
            except FileExistsError:
                return False
            except FileNotFoundError as error:
                raise StoreRefusedError(action, path, f"{error}; does the bucket exist?") from error
            except OSError as error:
                if _precondition_failed(error):
                    return False
                raise
            return True

    def _put_file(self, action: str, path: str, file: Path) -> bool:
        self._refuse_emulation(action, path, "put_file")
        options = _S3_UPLOAD if "s3" in self._protocols() else {}
        return self._create(action, path, lambda key: self._fs.put_file(str(file), key, mode="create", **options))

    def _refuse_emulation(self, action: str, path: str, method: str) -> None:
        """Refuse fsspec's own `mode='create'`, which looks first and then replaces: two writers may both win."""
        from fsspec import AbstractFileSystem

        if getattr(getattr(self._fs, method), "__func__", None) is getattr(AbstractFileSystem, method):
            raise UnsafeStoreError(
                action, path, f"{type(self._fs).__name__}.{method} can't create atomically; use another kind of store"
            )

    def _copy(self, source: str, target: str, size: int) -> bool:
        """Make a copy at a place where nothing stands; False if something does."""
        if size <= _LARGEST_SERVER_COPY and self._server_copy_is_safe():
            return self._copy_on_server(source, target)
        with tempfile.TemporaryDirectory(prefix="kafka-hdfs-") as folder:
            file = Path(folder, "copy")
            with _library_errors("promote", source):
                self._fs.get_file(self._key(source), str(file))
            return self._put_file("promote", target, file)

    def _copy_on_server(self, source: str, target: str) -> bool:
        def copy(key: str) -> None:
            try:
                # The condition is S3's own; fsspec has no word for it here.
                self._fs.cp_file(self._key(source), key, IfNoneMatch="*")
            except FileNotFoundError as error:
                raise StoreUnavailableError(
                    "promote", source, "it went away while it was copied; look again"
                ) from error

        return self._create("promote", target, copy)

    def _server_copy_is_safe(self) -> bool:
        """Whether this store's own copy respects the condition; tried once, as many S3 clones ignore it."""
        with self._lock:
            if self._copy_is_safe is None:
                self._copy_is_safe = "s3" in self._protocols() and self._try_server_copy()
            return self._copy_is_safe

    def _protocols(self) -> tuple[str, ...]:
        protocol = self._fs.protocol
        return (protocol,) if isinstance(protocol, str) else tuple(protocol)

    def _try_server_copy(self) -> bool:
        first, second = temp_beside("first"), temp_beside("second")
        try:
            self.create_blindly(first, b"first")
            self.create_blindly(second, b"second")
            return not self._copy_on_server(first, second) and self._get("promote", second) == b"second"
        except StoreRefusedError:
            return False
        finally:
            for path in (first, second):
                self._remove("promote", path)

    def _remove(self, action: str, path: str) -> None:
        with _library_errors(action, path), suppress(FileNotFoundError):
            self._fs.rm_file(self._key(path))


class _SpooledWriter(StagedWriter):
    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._size = 0
        self._folder = tempfile.TemporaryDirectory(prefix="kafka-hdfs-")
        self._name = Path(self._folder.name, "content")
        self._file = self._name.open("xb")

    def write(self, data: bytes) -> None:
        self._check("write")
        try:
            self._size += self._file.write(data)
        except OSError as error:
            raise from_os_error("write", f"{self._path} (in {self._name})", error) from error

    def close(self) -> None:
        self._check("close")
        try:
            check_content("close", self._path, self._size)
            self._file.close()
            self._store.upload(self._path, self._name, self._size)
        except OSError as error:
            raise from_os_error("close", f"{self._path} (in {self._name})", error) from error
        finally:
            self.abort()

    def abort(self) -> None:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._folder.cleanup()

    def _check(self, action: str) -> None:
        if self._file.closed:
            raise StoreRefusedError(action, self._path, "the writer is closed already")


@contextmanager
def _library_errors(action: str, path: str) -> Iterator[None]:
    """Turns what fsspec and the client below it raise in the body into errors of ours."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise from_os_error(action, path, error) from error
    except Exception as error:
        name = type(error).__name__
        if hint := _REFUSED.get(name):
            raise StoreRefusedError(action, path, f"{name}: {error}; {hint}") from error
        detail = f"{name}: {error}; the store may be away for a moment, try again"
        raise StoreUnavailableError(action, path, detail) from error


def _precondition_failed(error: OSError) -> bool:
    """S3 clones that answer 412 without saying which condition failed; ours is the only one."""
    response = getattr(error.__cause__, "response", None)
    answer = response.get("Error", {}) if isinstance(response, Mapping) else {}
    return answer.get("Code") in ("PreconditionFailed", "412")


def _to_status(path: str, info: Mapping[str, Any]) -> FileStatus:
    is_dir = info["type"] == "directory"
    modified = next((info[name] for name in _TIMES if info.get(name)), None)
    return FileStatus(
        path=path,
        size=0 if is_dir else int(info["size"]),
        is_dir=is_dir,
        modified=None if is_dir else _seconds(modified),
    )


def _seconds(modified: object) -> float | None:
    if isinstance(modified, datetime):
        return modified.timestamp()
    if isinstance(modified, str):
        with suppress(ValueError):
            return datetime.fromisoformat(modified).timestamp()
    return float(modified) if isinstance(modified, int | float) else None


def _describe(status: FileStatus) -> str:
    return "a folder" if status.is_dir else f"an object of {status.size} bytes"
