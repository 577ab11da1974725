"""Where the time of a mapped task goes: what an operator opens, wrapped so that the time it takes is noted.

The operators ask a few functions of the product for readers, stores, codecs and tiers. For a measured run these are
replaced by ones that wrap what the product's own return, so that the product needs no hooks for it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from airflow_kafka_hdfs.ingest.context import Sources
from airflow_kafka_hdfs.model import STORES_OWN, Modes
from tests.benchmarks.measuring import Sample

STAGES = ("read", "pack", "compress", "store")
SHARES = (*STAGES, "rest")
AROUND = {"start": "to the first record", "end": "after the last"}
"""Facts: seconds from `execute` on, and until it returns; with their texts."""


class Clockwork:
    """Seconds per stage from the first record on, and the moments of a task.

    A stage at which several threads are at work counts once. Two stages may overlap while files are closed side by
    side; what is in no stage counts as `rest`.
    """

    def __init__(self) -> None:
        self.delivered = 0
        self.entered = self.first = self.last = self.closed = self.manifest = self.returned = 0.0
        self.result: dict[str, Any] = {}
        self._cpu_first = self._cpu_manifest = 0.0
        self._seconds: Counter[str] = Counter()
        self._busy: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        self._lock = threading.Lock()

    def begin(self, stage: str) -> None:
        """A thread begins with a stage."""
        with self._lock:
            self._busy[stage] += 1
            if self._busy[stage] == 1:
                self._since[stage] = time.perf_counter()

    def end(self, stage: str) -> None:
        """It is done with it."""
        with self._lock:
            self._busy[stage] -= 1
            if not self._busy[stage]:
                self._seconds[stage] += time.perf_counter() - self._since[stage]

    def enter(self, _context: Any) -> None:
        """The operator's `execute` begins; a `pre_execute` of Airflow."""
        self.entered = time.perf_counter()

    def leave(self, _context: Any, result: Any = None) -> None:
        """It has returned; a `post_execute`."""
        self.returned = time.perf_counter()
        self.result = result

    def deliver(self, records: int) -> None:
        """Records came."""
        self.last = time.perf_counter()
        if not self.delivered:
            self.first, self._cpu_first = self.last, time.process_time()
            self._seconds.clear()
        self.delivered += records

    def put(self) -> None:
        """A record of the log was written; the last one of a task is its manifest."""
        self.manifest, self._cpu_manifest = time.perf_counter(), time.process_time()

    def sample(self) -> Sample:
        """Of the task that returned; its clock runs from the first record to the manifest."""
        records = self.result["counts"]["written"]
        wall = self.manifest - self.first
        facts = {stage: self._seconds[stage] / wall for stage in STAGES}
        facts["rest"] = 1 - sum(facts.values())
        facts["delivered"] = self.delivered / records
        facts["tail"] = self.closed - self.last
        facts["start"] = self.first - self.entered
        facts["end"] = self.returned - self.last
        facts["whole"] = records / (self.returned - self.entered)
        return Sample(records, wall, self._cpu_manifest - self._cpu_first, facts)


class Wrapped:
    """Anything, with the time that some of its methods take noted."""

    def __init__(self, inner: Any, clockwork: Clockwork, stage: str, *names: str) -> None:
        self._inner, self._clockwork, self._stage, self._names = inner, clockwork, stage, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in self._names:
            found = _timed(found, self._clockwork, self._stage)
        self.__dict__[name] = found  # some thousand calls a second come this way
        return found


def _timed(call: Callable[..., Any], clockwork: Clockwork, stage: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        clockwork.begin(stage)
        try:
            return call(*args, **kwargs)
        finally:
            clockwork.end(stage)

    return timed


class TimedReader(Wrapped):
    """A reader that notes when records came."""

    def __init__(self, inner: Any, clockwork: Clockwork) -> None:
        super().__init__(inner, clockwork, "read")
        self._poll = _timed(inner.poll, clockwork, "read")

    def poll(self, max_records: int, timeout: float) -> Any:
        poll = self._poll(max_records, timeout)
        if len(poll.batch):
            self._clockwork.deliver(len(poll.batch))
        return poll

    def close(self) -> None:
        self._clockwork.closed = time.perf_counter()
        self._inner.close()


class TimedStore(Wrapped):
    """A store that notes the time of its new files, and of records of the log."""

    def __init__(self, inner: Any, clockwork: Clockwork) -> None:
        super().__init__(inner, clockwork, "store")
        self._create = _timed(inner.create, clockwork, "store")
        self._put = _timed(inner.put_if_absent, clockwork, "store")

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> Any:
        return Wrapped(self._create(path, modes=modes), self._clockwork, "store", "write", "close")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        made: bool = self._put(path, data)
        self._clockwork.put()
        return made


class TimedCodecs(Wrapped):
    """Codecs that note the time that compressing takes."""

    def block(self, name: str) -> Any:
        return Wrapped(self._inner.block(name), self._clockwork, "compress", "compress")


@contextmanager
def measured(clockwork: Clockwork) -> Iterator[None]:
    """Operators that run in this process meanwhile are measured."""
    from airflow_kafka_hdfs.ingest.datum import tiers
    from airflow_kafka_hdfs.operators import ports

    real_sources, real_codecs, real_store, real_pick = (
        ports.open_sources,
        ports.open_codecs,
        ports.store_for,
        tiers.pick,
    )

    def open_sources(*args: Any, **kwargs: Any) -> Sources:
        sources = real_sources(*args, **kwargs)
        return replace(sources, open_reader=lambda: TimedReader(sources.open_reader(), clockwork))

    def open_codecs() -> TimedCodecs:
        return TimedCodecs(real_codecs(), clockwork, "compress")

    def store_for(*args: Any, **kwargs: Any) -> TimedStore:
        return TimedStore(real_store(*args, **kwargs), clockwork)

    def pick(*args: Any, **kwargs: Any) -> Wrapped | None:
        tier = real_pick(*args, **kwargs)
        return None if tier is None else Wrapped(tier, clockwork, "pack", "pack", "spans")

    with (
        patch.multiple(ports, open_sources=open_sources, open_codecs=open_codecs, store_for=store_for),
        patch.object(tiers, "pick", pick),
    ):
        yield
