"""An answer of HDFS proves little: what stands there decides, whichever way the answer was wrong."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsCalls, HdfsStore, HdfsStream
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StoreUnavailableError
from airflow_kafka_hdfs.model import FileStatus
from tests.fakes.store import InMemoryStore


class Calls(HdfsCalls):
    """HDFS in memory whose answer to `rename` may be planted: whether the file is moved, and what is said."""

    def __init__(self) -> None:
        self.files = InMemoryStore()
        self.moves = True
        self.says: bool | None = None

    def status(self, action: str, path: str) -> FileStatus | None:
        return self.files.status(path)

    def list(self, action: str, path: str) -> Iterable[FileStatus]:
        return self.files.list(path)

    def read(self, action: str, path: str) -> bytes | None:
        return self.files.get(path)

    def read_part(self, action: str, path: str, start: int, size: int) -> bytes | None:
        data = self.files.get(path)
        return None if data is None else data[start : start + size]

    def write(self, action: str, path: str, data: bytes, mode: int | None) -> None:
        self.files.put_if_absent(path, data)

    def open(self, path: str, mode: int | None) -> HdfsStream:
        raise AssertionError("these tests write whole files alone")

    def rename(self, action: str, source: str, target: str) -> bool:
        parent = target.rpartition("/")[0]
        there = self.files.status(parent) is not None
        done = self.moves and there and self.files.move_blindly(source, target)
        return done if self.says is None else self.says

    def make_folders(self, action: str, path: str, mode: int | None) -> None:
        self.files.put_if_absent(f"{path}/.made", b"x")
        self.files.delete(f"{path}/.made")

    def delete(self, action: str, path: str, *, recursive: bool) -> None:
        self.files.delete(path, recursive=recursive)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def store(calls: Calls) -> HdfsStore:
    calls.files.put_if_absent("staging/a", b"content")
    return HdfsStore(calls, root="hdfs://test", patience=Patience(seconds=0))


@pytest.mark.bug(1, 100)
@pytest.mark.parametrize("says", [False, True])
def test_a_rename_that_moved_nothing_is_no_success_whatever_it_says(calls: Calls, store: HdfsStore, says: bool):
    calls.moves, calls.says = False, says
    with pytest.raises(StoreUnavailableError, match="nothing is there after the move"):
        store.promote("staging/a", "data/a", 7)
    with pytest.raises(StoreUnavailableError, match="nothing is there after the move"):
        store.put_if_absent("log/0", b"record")
    assert [store.get(path) for path in ("staging/a", "data/a", "log/0")] == [b"content", None, None]
    calls.moves, calls.says = True, None
    assert store.promote("staging/a", "data/a", 7) is True
    assert store.put_if_absent("log/0", b"record") is True
    assert [store.get(path) for path in ("staging/a", "data/a", "log/0")] == [None, b"content", b"record"]


@pytest.mark.bug(1)
def test_a_rename_that_denies_what_it_did_is_a_success(calls: Calls, store: HdfsStore):
    calls.says = False
    assert store.promote("staging/a", "data/a", 7) is True
    assert calls.files.files() == {"data/a": b"content"}


@pytest.mark.bug(102)
def test_the_folder_of_the_first_file_of_an_hour_is_made(calls: Calls, store: HdfsStore):
    assert calls.rename("test", "staging/a", "data/2026/01/01/00/a") is False, "as HDFS, it makes no parents"
    assert store.promote("staging/a", "data/2026/01/01/00/a", 7) is True
    assert calls.files.get("data/2026/01/01/00/a") == b"content"
