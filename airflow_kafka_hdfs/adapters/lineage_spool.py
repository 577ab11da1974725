"""A spool of lineage messages in a folder: one file per message batch of a process, claimed by renaming."""

from __future__ import annotations

import base64
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow_kafka_hdfs.ports.lineage import SpoolBatch

log = logging.getLogger(__name__)
_WAITING = ".jsonl"
_CLAIMED = ".claimed"
_STALE = 600.0
"""Seconds after which a claim counts as left behind by a process that died; its messages may then go twice."""
_PER_FILE = 1_000


class FolderSpool:
    """Messages wait in files of a folder.

    Args:
        folder: made when the first message has to wait; readable by its owner alone.
        max_bytes: what may wait there, over all processes.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._name = ""
        self._lines = 0

    def put(self, topic: str, key: bytes, value: bytes) -> bool:
        """See `Spool.put`."""
        line = json.dumps([topic, *(base64.b64encode(part).decode("ascii") for part in (key, value))]) + "\n"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._size() + len(line) > self._max_bytes:
                return False
            # A file that was claimed in the meantime must not be written to: each name is used once.
            if not self._name or self._lines >= _PER_FILE or not (self._folder / self._name).exists():
                self._name = f"{time.time_ns():020d}-{os.getpid()}-{uuid.uuid4().hex}{_WAITING}"
                self._lines = 0
            with open(self._folder / self._name, "a", encoding="ascii") as file:
                file.write(line)
            self._lines += 1
        except OSError as error:
            log.warning("lineage spool %s: %s", self._folder, error)
            return False
        return True

    @contextmanager
    def take(self, at_most: int) -> Iterator[SpoolBatch]:
        """See `Spool.take`; a batch is what one file holds, which is at most 1,000 messages."""
        claimed = self._claim()
        batch = SpoolBatch([] if claimed is None else _read(claimed))
        try:
            yield batch
        finally:
            if claimed is not None:
                with suppress(OSError):
                    if batch.done or not batch.letters:
                        claimed.unlink()
                    else:
                        claimed.rename(claimed.with_suffix(_WAITING))

    def _claim(self) -> Path | None:
        if not self._folder.is_dir():
            return None
        now = time.time()
        for path in sorted(self._folder.iterdir()):
            with suppress(OSError):
                if path.suffix == _WAITING:
                    if path.name == self._name:
                        self._name = ""
                    claimed = path.with_suffix(_CLAIMED)
                elif path.suffix == _CLAIMED and now - path.stat().st_mtime > _STALE:
                    claimed = path.with_name(f"{path.stem}~{_CLAIMED}")
                else:
                    continue
                os.utime(path)
                path.rename(claimed)
                return claimed
        return None

    def _size(self) -> int:
        total = 0
        for path in self._folder.iterdir():
            with suppress(OSError):
                total += path.stat().st_size
        return total


def _read(path: Path) -> list[tuple[str, bytes, bytes]]:
    letters = []
    for line in path.read_text(encoding="ascii", errors="replace").splitlines():
        # The last line may be half written by a process that was killed.
        with suppress(ValueError):
            topic, key, value = json.loads(line)
            letters.append((str(topic), base64.b64decode(key), base64.b64decode(value)))
    return letters
