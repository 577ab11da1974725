"""HDFS by its native protocol, through `hdfs-native`: no Java, high availability from the Hadoop configuration."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from airflow_kafka_hdfs.adapters.storage.errors import from_hadoop, from_os_error, hadoop_exception
from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsCalls, HdfsStream
from airflow_kafka_hdfs.adapters.storage.paths import join
from airflow_kafka_hdfs.exceptions import StorageError, StoreUnavailableError
from airflow_kafka_hdfs.model import FileStatus

T = TypeVar("T")

# What HDFS gives to new folders by default (fs.permissions.umask-mode 022); the client asks for a number.
_DEFAULT_FOLDER = 0o755
_RPC_ERROR = re.compile(r'RPCError\("(?P<name>[^"]*)", "(?P<text>(?:[^"\\]|\\.)*)')
_CLIENT_ERROR = re.compile(r'(?P<name>[A-Z]\w+)\("(?P<text>(?:[^"\\]|\\.)*)')


class NativeCalls(HdfsCalls):
    """Calls through a client of `hdfs-native`.

    The client has no time-out for its calls: each one runs in a thread of its own that is left to itself when the
    time is up, and the client with it.

    Args:
        connect: makes a client (`hdfs_native.Client`).
        folder: absolute path of the root in HDFS.
        timeout: seconds for one call.
    """

    def __init__(self, connect: Callable[[], Any], folder: str, *, timeout: float) -> None:
        self._connect = connect
        self._folder = folder.rstrip("/")
        self._timeout = timeout
        self._client: Any = None
        self._lock = threading.Lock()

    def status(self, action: str, path: str) -> FileStatus | None:
        """See `HdfsCalls.status`."""
        found = self._call_or_none(action, path, lambda client: client.get_file_info(self._absolute(path)))
        return None if found is None else _to_status(path, found)

    def list(self, action: str, path: str) -> Iterator[FileStatus]:
        """See `HdfsCalls.list`."""
        place = self._absolute(path)
        found = self._call_or_none(action, path, lambda client: list(client.list_status(place)))
        # Of a file the client lists the file itself.
        children = (status for status in found or [] if status.path != place)
        return (_to_status(join(path, status.path.rpartition("/")[2]), status) for status in children)

    def read(self, action: str, path: str) -> bytes | None:
        """See `HdfsCalls.read`."""
        return self._call_or_none(action, path, lambda client: bytes(client.read(self._absolute(path)).read()))

    def read_part(self, action: str, path: str, start: int, size: int) -> bytes | None:
        """See `HdfsCalls.read_part`."""

        def read(client: Any) -> bytes:
            file = client.read(self._absolute(path))
            wanted = min(size, len(file) - start)
            return bytes(file.read_range(start, wanted)) if wanted > 0 else b""

        return self._call_or_none(action, path, read)

    def write(self, action: str, path: str, data: bytes, mode: int | None) -> None:
        """See `HdfsCalls.write`."""

        def write(client: Any) -> None:
            writer = self._create(client, path, mode)
            writer.write(data)
            writer.close()

        self._call(action, path, write)

    def open(self, path: str, mode: int | None) -> HdfsStream:
        """See `HdfsCalls.open`."""
        writer = self._call("write", path, lambda client: self._create(client, path, mode))
        return _Stream(path, writer, lambda action, call: self._call(action, path, lambda _: call()))

    def rename(self, action: str, source: str, target: str) -> bool:
        """See `HdfsCalls.rename`."""

        def rename(client: Any) -> bool:
            try:
                client.rename(self._absolute(source), self._absolute(target), overwrite=False)
            except (FileExistsError, FileNotFoundError):
                return False
            return True

        return self._call(action, target, rename)

    def make_folders(self, action: str, path: str, mode: int | None) -> None:
        """See `HdfsCalls.make_folders`."""
        permission = _DEFAULT_FOLDER if mode is None else mode
        self._call(action, path, lambda client: client.mkdirs(self._absolute(path), permission, create_parent=True))

    def delete(self, action: str, path: str, *, recursive: bool) -> None:
        """See `HdfsCalls.delete`."""
        self._call_or_none(action, path, lambda client: client.delete(self._absolute(path), recursive))

    def _absolute(self, path: str) -> str:
        return f"{self._folder}/{path}" if path else self._folder or "/"

    def _create(self, client: Any, path: str, mode: int | None) -> Any:
        from hdfs_native import WriteOptions

        options = WriteOptions(overwrite=False, create_parent=True, permission=mode)
        return client.create(self._absolute(path), options)

    def _call_or_none(self, action: str, path: str, call: Callable[[Any], T]) -> T | None:
        """As `_call`, with None where there is nothing of that kind at the path."""

        def call_or_none(client: Any) -> T | None:
            try:
                return call(client)
            except FileNotFoundError:
                return None
            except RuntimeError as error:
                # Below a file HDFS answers with a denied access.
                if "(is not a directory)" in str(error).lower():
                    return None
                raise

        return self._call(action, path, call_or_none)

    def _call(self, action: str, path: str, call: Callable[[Any], T]) -> T:
        client = None
        try:
            client = self._connected()
            return within(self._timeout, lambda: call(client))
        except TimeoutError:
            failure: StorageError = StoreUnavailableError(action, path, f"no answer within {self._timeout:g} s")
            self._let_go(client, failure)
            raise failure from None
        except (OSError, RuntimeError, ValueError) as error:
            failure = from_client_error(action, path, error)
            self._let_go(client, failure)
            raise failure from error

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _let_go(self, client: Any, failure: StorageError) -> None:
        with self._lock:
            if self._client is client and isinstance(failure, StoreUnavailableError):
                self._client = None


class _Stream(HdfsStream):
    def __init__(self, path: str, writer: Any, call: Callable[[str, Callable[[], object]], object]) -> None:
        self._path = path
        self._writer = writer
        self._call = call

    def write(self, data: bytes) -> None:
        self._call("write", lambda: self._writer.write(data))

    def close(self) -> None:
        self._call("close", lambda: self._writer.close())

    def abort(self) -> None:
        """Without the writer its lease is not renewed any more; the store deletes the file."""
        self._writer = None


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call that can't be broken off, or TimeoutError; the call then goes on in its own thread."""
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that waits
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name="hdfs-native call", daemon=True).start()
    if not done.wait(seconds):
        raise TimeoutError
    if errors:
        raise errors[0]
    return results[0]


def from_client_error(action: str, path: str, error: Exception) -> StorageError:
    """The error of ours for one of `hdfs-native`: an OSError, or a RuntimeError with a Java class in its text."""
    text = str(error)
    if isinstance(error, OSError):
        exception = {FileExistsError: "FileAlreadyExistsException", PermissionError: "AccessControlException"}.get(
            type(error), ""
        )
        return from_hadoop(action, path, exception, text) if exception else from_os_error(action, path, error)
    if found := _RPC_ERROR.search(text):
        return from_hadoop(action, path, hadoop_exception(found["name"]), _unquote(found["text"]))
    if found := _CLIENT_ERROR.match(text):
        return from_hadoop(action, path, hadoop_exception(text) or found["name"], _unquote(found["text"]))
    return from_hadoop(action, path, hadoop_exception(text), text)


def _unquote(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")


def _to_status(path: str, found: Any) -> FileStatus:
    is_dir = bool(found.isdir)
    return FileStatus(
        path=path, size=0 if is_dir else int(found.length), is_dir=is_dir, modified=found.modification_time / 1000
    )
