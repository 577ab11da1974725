"""Faults between the store and HDFS: the real calls go through, but something happens before or after one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsCalls, HdfsStream
from airflow_kafka_hdfs.exceptions import StoreUnavailableError
from airflow_kafka_hdfs.model import FileStatus

T = TypeVar("T")


class InterceptedCalls(HdfsCalls):
    """Numbered calls with something planted at one of them.

    Args:
        calls: the real calls.
        before: called with number and name before the call.
        after: called with number and name after it had its effect.
    """

    def __init__(
        self,
        calls: HdfsCalls,
        *,
        before: Callable[[int, str], None] = lambda number, name: None,
        after: Callable[[int, str], None] = lambda number, name: None,
    ) -> None:
        self.names: list[str] = []
        self._calls = calls
        self._before = before
        self._after = after

    def status(self, action: str, path: str) -> FileStatus | None:
        return self._run("status", lambda: self._calls.status(action, path))

    def list(self, action: str, path: str) -> Iterable[FileStatus]:
        return self._run("list", lambda: self._calls.list(action, path))

    def read(self, action: str, path: str) -> bytes | None:
        return self._run("read", lambda: self._calls.read(action, path))

    def read_part(self, action: str, path: str, start: int, size: int) -> bytes | None:
        return self._run("read_part", lambda: self._calls.read_part(action, path, start, size))

    def write(self, action: str, path: str, data: bytes, mode: int | None) -> None:
        self._run("write", lambda: self._calls.write(action, path, data, mode))

    def open(self, path: str, mode: int | None) -> HdfsStream:
        return self._run("open", lambda: self._calls.open(path, mode))

    def rename(self, action: str, source: str, target: str) -> bool:
        return self._run("rename", lambda: self._calls.rename(action, source, target))

    def make_folders(self, action: str, path: str, mode: int | None) -> None:
        self._run("make_folders", lambda: self._calls.make_folders(action, path, mode))

    def delete(self, action: str, path: str, *, recursive: bool) -> None:
        self._run("delete", lambda: self._calls.delete(action, path, recursive=recursive))

    def _run(self, name: str, call: Callable[[], T]) -> T:
        self.names.append(name)
        number = len(self.names)
        self._before(number, name)
        result = call()
        self._after(number, name)
        return result


def at(wanted: int | str, happening: Callable[[], Any]) -> Callable[[int, str], None]:
    """Let something happen once: at the call of that number, or at the first call of that name."""
    happened = []

    def check(number: int, name: str) -> None:
        if wanted in (number, name) and not happened:
            happened.append(number)
            happening()

    return check


def connection_lost() -> None:
    raise StoreUnavailableError("test", "", "planted: the answer was lost")
