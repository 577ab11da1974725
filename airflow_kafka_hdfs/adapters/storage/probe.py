"""Whether a store keeps what exactly once rests on: a name is given once, and a file appears whole or not at all.

The adapters look before they act, which hides a store that replaces files. So the probe uses their single steps
without a look, once in a row and then with several writers at once.
"""

from __future__ import annotations

import threading
import uuid
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol

from airflow_kafka_hdfs.exceptions import StorageError, UnsafeStoreError
from airflow_kafka_hdfs.ports.store import Store

_WRITERS = 4
_ROUNDS = 2
_FIRST = b"first content"
_OTHER = b"other content, longer"


class ProvableStore(Store, Protocol):
    """A store that shows its single steps to the probe."""

    @abstractmethod
    def create_blindly(self, path: str, data: bytes) -> bool:
        """Create a file without looking first; False if the name is taken."""

    @abstractmethod
    def move_blindly(self, source: str, target: str) -> bool:
        """Move a file without looking first; False if the name is taken or the source missing."""


def probe(store: ProvableStore) -> None:
    """Try what is needed in a fresh hidden folder of the store, and delete it afterwards.

    Run it once before the first write of a run: some twenty small calls, half of them side by side.

    Args:
        store: the store, with rights to write below its root.

    Raises:
        UnsafeStoreError: a file was replaced, vanished, or differs from what was written.
        StoreUnavailableError: the store is away.
        StoreRefusedError: permission, quota, and the like.
    """
    folder = f".probe-{uuid.uuid4().hex}"
    try:
        _create_twice(store, f"{folder}/record")
        _stage_and_promote(store, folder)
        for number in range(_ROUNDS):
            _create_at_once(store, f"{folder}/race-{number}")
    except StorageError:
        with suppress(StorageError):
            store.delete(folder, recursive=True)
        raise
    store.delete(folder, recursive=True)
    _expect(store, folder, store.list(folder) == [], "a deleted folder still shows files")


def _create_twice(store: ProvableStore, path: str) -> None:
    _expect(store, path, store.create_blindly(path, _FIRST), "a new file could not be created, as if it existed")
    _expect(store, path, not store.create_blindly(path, _OTHER), "a file was created where one existed already")
    _expect(store, path, store.get(path) == _FIRST, "the first content did not stay")
    _expect(store, path, store.put_if_absent(path, _FIRST), "the same content is not taken for the same")
    _expect(store, path, not store.put_if_absent(path, _OTHER), "other content is taken for the same")


def _stage_and_promote(store: ProvableStore, folder: str) -> None:
    staged, taken, target = f"{folder}/staged", f"{folder}/record", f"{folder}/data/target"
    writer = store.create(staged)
    try:
        writer.write(_OTHER)
        writer.close()
    except StorageError:
        writer.abort()
        raise
    status = store.status(staged)
    _expect(store, staged, status is not None and status.size == len(_OTHER), "a closed file lacks its size")
    _expect(store, taken, not store.move_blindly(staged, taken), "a file was moved onto one that existed already")
    _expect(store, taken, store.get(taken) == _FIRST, "a moved file replaced another one")
    for _ in range(2):
        _expect(store, target, store.promote(staged, target, len(_OTHER)), "a file could not be moved to its place")
    _expect(store, target, store.get(target) == _OTHER, "a moved file has another content")
    _expect(store, staged, store.status(staged) is None, "a moved file still stands at its old place")
    _expect(store, target, [s.path for s in store.list(f"{folder}/data")] == [target], "a new file is not listed")


def _create_at_once(store: ProvableStore, path: str) -> None:
    start = threading.Barrier(_WRITERS)

    def create(number: int) -> bool:
        start.wait()
        return store.create_blindly(path, b"writer %d" % number)

    with ThreadPoolExecutor(_WRITERS) as pool:
        answers = list(pool.map(create, range(_WRITERS)))
    winners = [number for number, answer in enumerate(answers) if answer]
    _expect(store, path, len(winners) == 1, f"of {_WRITERS} writers at once {len(winners)} won the same name")
    _expect(store, path, store.get(path) == b"writer %d" % winners[0], "the content is not the winner's")


def _expect(store: Store, path: str, holds: bool, what: str) -> None:
    if not holds:
        raise UnsafeStoreError(
            "probe", f"{store.root}/{path}", f"{what}; exactly once can't be had on this store, use another one"
        )
