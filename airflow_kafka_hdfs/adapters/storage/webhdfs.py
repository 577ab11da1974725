"""HDFS over WebHDFS, by the client of the `hdfs` library.

The adapter gets clients from a factory, because a client may be bound to one name node: after a standby answer, a
connection error or a time-out it asks for another one.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import requests
import urllib3
from hdfs import HdfsError

from airflow_kafka_hdfs.adapters.storage.errors import from_hadoop
from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsCalls, HdfsStream
from airflow_kafka_hdfs.adapters.storage.paths import join
from airflow_kafka_hdfs.exceptions import StorageError, StoreRefusedError, StoreUnavailableError
from airflow_kafka_hdfs.model import FileStatus

T = TypeVar("T")

# The client replaces such an element by the name of the newest file in the folder.
_EXPANDED = re.compile(r"#LATEST(?:{\d+})?$")
_QUEUED_CHUNKS = 2


class WebHdfsCalls(HdfsCalls):
    """Calls through a client of the `hdfs` library.

    Args:
        connect: makes a client (`hdfs.Client`) that talks to the active name node, with a time-out of its own for
            every request. What it raises counts as "store unavailable", unless it is an error of ours.
        folder: absolute path of the root in HDFS.
        timeout: seconds that a data node may take for one chunk, or to finish a file.
    """

    def __init__(self, connect: Callable[[], Any], folder: str, *, timeout: float) -> None:
        self._connect = connect
        self._folder = folder.rstrip("/")
        self._timeout = timeout
        self._client: Any = None
        self._lock = threading.Lock()

    def status(self, action: str, path: str) -> FileStatus | None:
        """See `HdfsCalls.status`."""
        found = self._call_or_none(action, path, lambda client: client.status(self._absolute(action, path)))
        return None if found is None else _to_status(path, found)

    def list(self, action: str, path: str) -> Iterator[FileStatus]:
        """See `HdfsCalls.list`."""
        found = self._call_or_none(action, path, lambda client: client.list(self._absolute(action, path), status=True))
        return (_to_status(join(path, name), status) for name, status in found or [])

    def read(self, action: str, path: str) -> bytes | None:
        """See `HdfsCalls.read`."""

        def read(client: Any) -> bytes:
            with client.read(self._absolute(action, path)) as reader:
                return bytes(reader.read())

        return self._call_or_none(action, path, read)

    def read_part(self, action: str, path: str, start: int, size: int) -> bytes | None:
        """See `HdfsCalls.read_part`."""

        def read(client: Any) -> bytes | None:
            place = self._absolute(action, path)
            found = client.status(place)
            if found["type"] == "DIRECTORY":
                return None
            length = int(found["length"])  # a start beyond the end is refused by the data node
            if start >= length:
                return b""
            with client.read(place, offset=start, length=min(size, length - start)) as reader:
                return bytes(reader.read())

        return self._call_or_none(action, path, read)

    def write(self, action: str, path: str, data: bytes, mode: int | None) -> None:
        """See `HdfsCalls.write`."""
        place, permission = self._absolute(action, path), _octal(mode)
        self._call(action, path, lambda client: client.write(place, data=data, permission=permission))

    def open(self, path: str, mode: int | None) -> HdfsStream:
        """See `HdfsCalls.open`."""
        place, permission = self._absolute("write", path), _octal(mode)

        def send(chunks: Iterator[bytes]) -> None:
            self._call("write", path, lambda client: client.write(place, data=chunks, permission=permission))

        upload = _Upload(path, send, self._timeout)
        upload.wait_for_data_node()
        return upload

    def rename(self, action: str, source: str, target: str) -> bool:
        """See `HdfsCalls.rename`."""
        places = self._absolute(action, source), self._absolute(action, target)

        def rename(client: Any) -> bool:
            try:
                client.rename(*places)
            except HdfsError as error:
                # The name node answered `false`, for whatever reason; other errors carry the server's exception.
                if error.exception is None and str(error).startswith("Unable to rename"):
                    return False
                raise
            return True

        return self._call(action, target, rename)

    def make_folders(self, action: str, path: str, mode: int | None) -> None:
        """See `HdfsCalls.make_folders`."""
        place, permission = self._absolute(action, path), _octal(mode)
        self._call(action, path, lambda client: client.makedirs(place, permission=permission))

    def delete(self, action: str, path: str, *, recursive: bool) -> None:
        """See `HdfsCalls.delete`."""
        place = self._absolute(action, path)
        self._call_or_none(action, path, lambda client: client.delete(place, recursive=recursive))

    def _absolute(self, action: str, path: str) -> str:
        if any(_EXPANDED.search(element) for element in path.split("/")):
            raise StoreRefusedError(action, path, "the WebHDFS client gives #LATEST a meaning; use another name")
        return f"{self._folder}/{path}" if path else self._folder or "/"

    def _call_or_none(self, action: str, path: str, call: Callable[[Any], T]) -> T | None:
        """As `_call`, with None where there is nothing of that kind at the path."""

        def call_or_none(client: Any) -> T | None:
            try:
                return call(client)
            except HdfsError as error:
                if _is_missing(error):
                    return None
                raise

        return self._call(action, path, call_or_none)

    def _call(self, action: str, path: str, call: Callable[[Any], T]) -> T:
        client = self._connected(action, path)
        try:
            return call(client)
        except HdfsError as error:
            failure = _from_hdfs_error(action, path, error)
            self._let_go(client, failure)
            raise failure from error
        except requests.exceptions.SSLError as error:
            detail = f"{_without_query(error)}; see `verify` and `cert` in the extra of the connection"
            raise StoreRefusedError(action, path, detail) from None
        except (requests.RequestException, urllib3.exceptions.HTTPError, KeyError, TypeError) as error:
            # The text of the cause may hold the URL with a delegation token, so it is not chained.
            failure = StoreUnavailableError(action, path, f"{_without_query(error)}; is WebHDFS up there?")
            self._let_go(client, failure)
            raise failure from None

    def _connected(self, action: str, path: str) -> Any:
        with self._lock:
            if self._client is None:
                try:
                    self._client = self._connect()
                except StorageError:
                    raise
                except Exception as error:  # noqa: BLE001 - whatever a factory of others raises: there is no client
                    detail = f"no client for an active name node: {_without_query(error)}"
                    raise StoreUnavailableError(action, path, detail) from None
            return self._client

    def _let_go(self, client: Any, failure: StorageError) -> None:
        with self._lock:
            if self._client is client and isinstance(failure, StoreUnavailableError):
                self._client = None


class _Upload(HdfsStream):
    """A request that takes its body from a short queue, in a thread of its own; memory stays bounded."""

    def __init__(self, path: str, send: Callable[[Iterator[bytes]], None], timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._queue: queue.Queue[bytes | BaseException | None] = queue.Queue(_QUEUED_CHUNKS)
        self._failure: BaseException | None = None
        self._answered = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(send,), name=f"upload {path}", daemon=True)
        self._thread.start()

    def wait_for_data_node(self) -> None:
        """Return when a data node takes the body; up to there a failure has sent nothing and can be repeated."""
        if not self._answered.wait(self._timeout * 2):
            self.abort()
            raise StoreUnavailableError("write", self._path, f"no data node after {self._timeout * 2:g} s")
        if self._failure is not None:
            self._raise("write", self._failure)

    def write(self, data: bytes) -> None:
        self._put("write", data)

    def close(self) -> None:
        self._put("close", None)
        # A stuck data node is noticed by the time-outs of the request; this one is for all of the rest.
        self._thread.join(self._timeout * 3)
        if self._thread.is_alive():
            raise StoreUnavailableError("close", self._path, f"not finished after {self._timeout * 3:g} s")
        if self._failure is not None:
            self._raise("close", self._failure)

    def abort(self) -> None:
        while not self._ended.is_set():
            try:
                self._queue.put_nowait(_GivenUpError())
                return
            except queue.Full:
                with suppress(queue.Empty):
                    self._queue.get_nowait()

    def _put(self, action: str, item: bytes | None) -> None:
        try:
            if not self._ended.is_set():
                self._queue.put(item, timeout=self._timeout)
        except queue.Full:
            detail = f"the data node took nothing for {self._timeout:g} s"
            raise StoreUnavailableError(action, self._path, detail) from None
        if self._ended.is_set() and self._failure is not None:
            self._raise(action, self._failure)
        if self._ended.is_set() and item is not None:
            raise StoreUnavailableError(action, self._path, "the data node ended the request before the file was whole")

    def _raise(self, action: str, failure: BaseException) -> None:
        if isinstance(failure, StorageError):
            raise type(failure)(action, self._path, failure.detail) from failure
        raise StoreUnavailableError(action, self._path, f"{type(failure).__name__} while sending") from failure

    def _run(self, send: Callable[[Iterator[bytes]], None]) -> None:
        try:
            send(self._chunks())
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that writes
            self._failure = error
        finally:
            self._ended.set()
            self._answered.set()
            with suppress(queue.Empty):  # a writer that waits for room goes on and finds the failure
                while True:
                    self._queue.get_nowait()

    def _chunks(self) -> Iterator[bytes]:
        self._answered.set()
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item


class _GivenUpError(Exception):
    """The writer was aborted: the request must break off, not end."""


def _is_missing(error: HdfsError) -> bool:
    if error.exception in ("FileNotFoundException", "ParentNotDirectoryException"):
        return True
    # Below a file HDFS answers with a denied access, and the client has a text of its own for listing a file.
    text = str(error.message)
    return "(is not a directory)" in text.lower() or (error.exception is None and "is not a directory" in text)


def _from_hdfs_error(action: str, path: str, error: HdfsError) -> StorageError:
    message = error.message.decode(errors="replace") if isinstance(error.message, bytes) else str(error.message)
    exception = error.exception or ("SecurityException" if message.startswith("Authentication failure") else "")
    return from_hadoop(action, path, exception, message)


def _without_query(error: BaseException) -> str:
    """What went wrong, without the query of any URL: it may hold a token."""
    cause = error.args[0] if error.args else error
    reason = getattr(cause, "reason", None) or error
    return f"{type(error).__name__}: " + re.sub(r"\?[^\s'\")]*", "", str(reason)).split("\n", 1)[0]


def _to_status(path: str, found: dict[str, Any]) -> FileStatus:
    return FileStatus(
        path=path,
        size=int(found["length"]),
        is_dir=found["type"] == "DIRECTORY",
        modified=found["modificationTime"] / 1000,
    )


def _octal(mode: int | None) -> str | None:
    return None if mode is None else f"{mode:o}"
