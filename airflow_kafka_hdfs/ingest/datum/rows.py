"""Packing in Python: values are sorted by route, walked by a scan, placed, and laid end to end.

Two tiers share this code; they differ in the scan. Rows that the scan doubts are decided by the reference walk.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import cast

import numpy as np
from numpy.typing import NDArray

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.datum import reference, vector
from airflow_kafka_hdfs.ingest.datum.container import Chunk, encode_long
from airflow_kafka_hdfs.ingest.datum.packing import (
    BAD_TIME,
    FRAME,
    MAGIC,
    Bad,
    Batch,
    Group,
    Outcome,
    Packer,
    Recode,
    Refusal,
    Route,
)
from airflow_kafka_hdfs.ingest.datum.program import Program
from airflow_kafka_hdfs.ingest.datum.scratch import Scratch

Ints = NDArray[np.int64]
Scan = Callable[[Program, Ints, Callable[[], vector.Data]], vector.Scan]
"""From a program, the sizes of datums, and what gives them end to end with `vector.PADDING` behind."""

_scratch = Scratch()

_LARGE = 512
"""Bytes of a datum from which on it takes longer to move than to make an object of."""

SMALL = 24
"""Rows up to which the reference walk is faster than numpy."""


def reference_scan(_program: Program, sizes: Ints, _laid: Callable[[], vector.Data]) -> vector.Scan:
    """Doubts every row, so that the reference walk decides about each."""
    none = np.zeros(len(sizes), np.bool_)
    zeros = np.zeros(len(sizes), np.int64)
    return vector.Scan(none, none, zeros, zeros)


def numpy_scan(program: Program, sizes: Ints, laid: Callable[[], vector.Data]) -> vector.Scan:
    """Walks all rows side by side."""
    if len(sizes) <= SMALL:
        return reference_scan(program, sizes, laid)
    ends = np.cumsum(sizes)
    return vector.scan(program, laid(), ends - sizes, ends)


def pack(packer: Packer, batch: Batch, scan: Scan) -> Outcome:
    """See `Tier.pack`."""
    work = _Work(packer, batch, scan)
    foreign = work.sort()
    if foreign:
        return Outcome(foreign=foreign)
    return work.finish()


@dataclass(frozen=True, slots=True)
class _Laid:
    """All datums of a batch end to end, `vector.PADDING` behind them.

    Attributes:
        sizes, ends: of the datums.
    """

    data: vector.Data
    sizes: Ints
    ends: Ints

    def apart(self) -> list[bytes]:
        ends = self.ends.tolist()
        return [bytes(self.data[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


class _Work:
    def __init__(self, packer: Packer, batch: Batch, scan: Scan) -> None:
        count = len(batch.values)
        self.packer = packer
        self.batch = batch
        self.scan = scan
        self.laid: _Laid | None = None
        self._datums: list[bytes] | None = None  # once somebody wants them one by one
        self.times = np.zeros(count, np.int64)
        self.targets = np.zeros(count, np.int64)
        self.good = np.zeros(count, np.bool_)
        self.bad: list[Bad] = []
        self.nulls: list[int] = []
        self.by_frame: dict[bytes, Ints] = {}

    # Sorting by frame

    def sort(self) -> frozenset[bytes]:
        """Sort values by frame; returns frames without a route."""
        size, values = self.packer.frame_size, self.batch.values
        if self._all_under_one_frame():
            return frozenset()
        by_frame: dict[bytes, list[int]] = {}
        for i, value in enumerate(values):
            if value is None:
                self.nulls.append(i)
            elif len(value) < size or (size and value[:1] != MAGIC):
                self.bad.append(Bad(index=i, reason=FRAME, detail=bad_frame(value, size)))
            else:
                by_frame.setdefault(value[:size], []).append(i)
        self.by_frame = {frame: np.array(found, np.int64) for frame, found in by_frame.items()}
        self._datums = [b"" if value is None else value[size:] for value in values]
        return frozenset(self.by_frame.keys() - self.packer.routes.keys())

    def _all_under_one_frame(self) -> bool:
        """Lay the datums of a batch end to end, if all have the frame of the first: what most batches are."""
        values = cast("Sequence[bytes]", self.batch.values)
        if not len(values) or values[0] is None:
            return False
        frame = values[0][: self.packer.frame_size]
        if frame not in self.packer.routes:
            return False
        try:
            sizes = _sizes(values) - len(frame)
        except TypeError:  # a null among them, which has no size; looking for one first takes longer than sorting
            return False
        datums = map(bytes.removeprefix, values, repeat(frame))
        data = _lay(datums, len(values), int(sizes.sum()))
        if data is None:
            return False
        self.laid = _Laid(data, sizes, np.cumsum(sizes))
        self.by_frame[frame] = np.arange(len(values), dtype=np.int64)
        return True

    # Datums

    @property
    def datums(self) -> list[bytes]:
        """Datums one by one."""
        if self._datums is None:
            self._datums = [] if self.laid is None else self.laid.apart()
        return self._datums

    def _changing(self) -> list[bytes]:
        """Datums one by one, to be changed: what is known of them together holds no more."""
        datums = self.datums
        self.laid = None
        return datums

    def _datum(self, index: int) -> bytes:
        if self._datums is None and self.laid is not None:
            end = int(self.laid.ends[index])
            return bytes(self.laid.data[end - int(self.laid.sizes[index]) : end])
        return self.datums[index]

    # Walking

    def finish(self) -> Outcome:
        for frame, rows in self.by_frame.items():
            route = self.packer.routes[frame]
            if isinstance(route, Route):
                self._copy(route, rows)
            elif isinstance(route, Recode):
                self._recode(route, rows)
            else:
                self._refuse(route, rows)
        if self.packer.null is not None:
            self._write_nulls(self.packer.null)
        if self.batch.tails is not None:
            datums = self._changing()
            datums[:] = [datum + tail for datum, tail in zip(datums, self.batch.tails, strict=True)]
        self._check_bounds()
        groups, slots = _Gathering(self).gather()
        bad = sorted(self.bad, key=lambda bad: bad.index)
        return Outcome(groups=groups, slots=slots, times=self.times, bad=bad, nulls=self.nulls)

    def _copy(self, route: Route, rows: Ints) -> None:
        self.targets[rows] = route.target
        self.good[rows] = True
        if route.program is None:
            self._check_texts(route, rows)
            self._given_times(rows)
        else:
            self._walk(route.program, rows)
        if route.sized or route.lead or route.tail:
            datums = self._changing()
            for i in rows.tolist():
                datum = datums[i]
                size = encode_long(len(datum)) if route.sized else b""
                datums[i] = b"".join((route.lead, size, datum, route.tail))

    def _walk(self, program: Program, rows: Ints) -> None:
        if self.laid is not None:
            laid = self.laid
            found = self.scan(program, laid.sizes, lambda: laid.data)
        else:
            datums = [self.datums[i] for i in rows.tolist()]
            found = self.scan(program, _sizes(datums), lambda: b"".join((*datums, vector.PADDING)))
        if not program.has_time:
            self._given_times(rows)
        else:
            self.times[rows] = found.times
        for i in rows[~found.sound].tolist():
            self._judge(program, i)
        if not program.has_time:
            return
        for j in np.flatnonzero(found.sound & (found.sizes >= 0) & found.timed).tolist():
            self._set_text(int(rows[j]), int(found.times[j]), int(found.sizes[j]))
        for i in rows[found.sound & ~found.timed].tolist():
            self._fall_back(i, "the datum has no time: a null, or another branch of a union")

    def _judge(self, program: Program, index: int) -> None:
        """Let the reference decide about a row."""
        try:
            time = reference.walk(program, self._datum(index))
            if not program.has_time:
                return
            if isinstance(time, str):
                time = self.packer.text_time(time)
        except DecodeError as error:
            if error.reason == BAD_TIME:
                self._fall_back(index, error.detail)
            else:
                self._drop(index, error.reason, error.detail)
            return
        if time is None:
            self._fall_back(index, "the datum has no time: a null, or another branch of a union")
        else:
            self.times[index] = _fit(time)

    def _set_text(self, index: int, start: int, size: int) -> None:
        try:
            self.times[index] = _fit(self.packer.text_time(self._datum(index)[start : start + size].decode()))
        except DecodeError as error:
            self._fall_back(index, error.detail)

    def _given_times(self, at: Ints) -> None:
        times = self.batch.times
        if times is None:
            raise ValueError("the time does not come from the datum: Batch.times is needed")
        self.times[at] = np.asarray(times, np.int64)[at]

    def _check_texts(self, route: Route, rows: Ints) -> None:
        if not route.utf8:
            return
        for i in rows.tolist():
            try:
                self._datum(i).decode()
            except UnicodeDecodeError as error:
                self._drop(i, "corrupt", f"the value is not UTF-8 ({error.reason}) at byte {error.start}")

    def _recode(self, route: Recode, rows: Ints) -> None:
        datums = self._changing()
        for i in rows.tolist():
            try:
                datums[i], time = route.call(datums[i])
            except DecodeError as error:
                self._drop(i, error.reason, error.detail)
                continue
            self.targets[i] = route.target
            self.good[i] = True
            if time is None:
                self._fall_back(i, "the datum has no time")
            else:
                self.times[i] = _fit(time)

    def _refuse(self, refusal: Refusal, rows: Ints) -> None:
        for i in rows.tolist():
            self._drop(i, refusal.reason, refusal.detail)

    def _write_nulls(self, null: bytes) -> None:
        at = np.array(self.nulls, np.int64)
        if self.nulls:
            datums = self._changing()
            for i in self.nulls:
                datums[i] = null
        self.targets[at] = self.packer.null_target
        self.good[at] = True
        if len(at):
            self._given_times(at)
        self.nulls = []

    # Times

    def _fall_back(self, index: int, why: str) -> None:
        if self.batch.fallback is None:
            self._drop(index, BAD_TIME, why)
            return
        time = self.batch.fallback(index)
        low, high = self.packer.bounds
        if low <= time < high:
            self.times[index] = time
        else:
            self._drop(index, BAD_TIME, f"{why}; and Kafka's time {time} lies outside [{low}, {high})")

    def _check_bounds(self) -> None:
        low, high = self.packer.bounds
        out = self.good & ((self.times < low) | (self.times >= high))
        for i in np.flatnonzero(out).tolist():
            self._fall_back(i, f"{int(self.times[i])} ms since the epoch lies outside [{low}, {high})")

    def _drop(self, index: int, reason: str, detail: str) -> None:
        self.good[index] = False
        self.bad.append(Bad(index=index, reason=reason, detail=detail))


def bad_frame(value: bytes, size: int) -> str:
    """What is wrong with the beginning of a value."""
    if len(value) < size:
        return f"{len(value)} bytes are no frame of {size} bytes and a datum"
    return f"the frame starts with byte {value[0]}, not 0: no Avro of this value_format"


def _fit(time: int) -> int:
    """A time that numpy can hold; what does not fit is far out of all bounds."""
    return min(max(time, -(2**63)), 2**63 - 1)


def _lay(datums: Iterable[bytes], count: int, size: int) -> vector.Data | None:
    """Datums end to end, with `vector.PADDING` behind them; None if they have not the size that was expected."""
    if size < count * _LARGE:
        data: vector.Data = b"".join((*datums, vector.PADDING))
    else:
        data = _scratch.lay(chain(datums, [vector.PADDING]), size + len(vector.PADDING))
    return data if len(data) == size + len(vector.PADDING) else None


def _sizes(datums: Sequence[bytes]) -> Ints:
    return np.fromiter(map(len, datums), np.int64, len(datums))


class _Gathering:
    """Sorts good rows into groups."""

    def __init__(self, work: _Work) -> None:
        self.work = work
        self.packer = work.packer
        self.times = work.times

    def gather(self) -> tuple[list[Group], NDArray[np.int32]]:
        """Groups in the order of their first rows, and each row's group."""
        slots = np.full(len(self.times), -1, np.int32)
        keys: dict[tuple[int, Hashable], int] = {}
        rows = np.flatnonzero(self.work.good)
        targets = self.work.targets[rows]
        for target in np.unique(targets).tolist():
            for key, members in self.places(rows[targets == target]):
                slots[members] = keys.setdefault((target, key), len(keys))
        if len(keys) < 2:
            return [self.group(name, rows) for name in keys], slots
        return self.in_order(list(keys), slots)

    def places(self, rows: Ints) -> list[tuple[Hashable, Ints]]:
        """Rows by place; the first place is tried on all of them, since mostly there is no other."""
        times = self.times[rows]
        place = self.packer.locate(int(times[0]))
        inside = (times >= place.start) & (times < place.end)
        if inside.all():
            return [(place.key, rows)]
        found = [(place.key, rows[inside])]
        rest = rows[~inside]
        rest = rest[np.argsort(self.times[rest], kind="stable")]
        times = self.times[rest]
        at = 0
        while at < len(rest):
            place = self.packer.locate(int(times[at]))
            end = int(np.searchsorted(times, place.end, "left"))
            found.append((place.key, rest[at:end]))
            at = end
        return found

    def in_order(
        self, keys: list[tuple[int, Hashable]], slots: NDArray[np.int32]
    ) -> tuple[list[Group], NDArray[np.int32]]:
        """Groups and slots by first row, whatever the order in which places were found."""
        rows = np.argsort(slots, kind="stable")
        rows = rows[slots[rows] >= 0]
        bounds = np.flatnonzero(np.diff(slots[rows]))
        parts = np.split(rows, bounds + 1)
        order = sorted(range(len(parts)), key=lambda slot: int(parts[slot][0]))
        groups = [self.group(keys[slot], parts[slot]) for slot in order]
        renumbered = np.full(len(keys) + 1, -1, np.int32)  # the last one stands for slot -1
        renumbered[order] = np.arange(len(order), dtype=np.int32)
        return groups, renumbered[slots]

    def group(self, name: tuple[int, Hashable], rows: Ints) -> Group:
        """One group of rows in the order of the batch."""
        target, key = name
        laid = self.work.laid
        fill, limit = self.packer.room(target, key)
        if laid is not None and len(rows) == len(laid.sizes):
            ends, chunks = laid.ends, cut_laid(laid.data, laid.ends, fill, limit)
        else:
            datums = [self.work.datums[i] for i in rows.tolist()]
            ends = np.cumsum(_sizes(datums))
            chunks = cut(datums, ends, fill, limit)
        times = self.times[rows]
        return Group(
            target=target,
            key=key,
            count=len(rows),
            size=int(ends[-1]),
            least=int(times.min()),
            greatest=int(times.max()),
            chunks=chunks,
        )


def cut(datums: Sequence[bytes], ends: Ints, fill: int, limit: int) -> list[Chunk]:
    """Chunks that end where blocks end.

    Args:
        datums: in order.
        ends: running sum of their sizes.
        fill: bytes in the open block.
        limit: bytes that complete a block.
    """
    return [(b"".join(datums[at:end]), end - at) for at, end in _blocks(ends, fill, limit)]


def cut_laid(data: vector.Data, ends: Ints, fill: int, limit: int) -> list[Chunk]:
    """The same of datums that lie end to end."""
    chunks, start = [], 0
    for at, end in _blocks(ends, fill, limit):
        stop = int(ends[end - 1])
        chunks.append((bytes(data[start:stop]), end - at))
        start = stop
    return chunks


def _blocks(ends: Ints, fill: int, limit: int) -> Iterator[tuple[int, int]]:
    """First row of each block, and the one behind it."""
    at = base = 0
    while at < len(ends):
        end = min(int(np.searchsorted(ends, base + limit - fill, "left")) + 1, len(ends))
        yield at, end
        at, base, fill = end, int(ends[end - 1]), 0
