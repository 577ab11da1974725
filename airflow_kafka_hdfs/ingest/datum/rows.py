"""Packing in Python: values are sorted by route, walked by a scan, placed, and laid end to end.

Two tiers share this code; they differ in the scan. Rows that the scan doubts are decided by the reference walk.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import repeat

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

Ints = NDArray[np.int64]
Scan = Callable[[Program, Sequence[bytes], Ints, Callable[[], bytes]], vector.Scan]
"""From a program, datums, their sizes, and what lays them end to end with `vector.PADDING` behind."""

SMALL = 24
"""Rows up to which the reference walk is faster than numpy."""


def reference_scan(_program: Program, datums: Sequence[bytes], _sizes: Ints, _laid: Callable[[], bytes]) -> vector.Scan:
    """Doubts every row, so that the reference walk decides about each."""
    none = np.zeros(len(datums), np.bool_)
    zeros = np.zeros(len(datums), np.int64)
    return vector.Scan(none, none, zeros, zeros)


def numpy_scan(program: Program, datums: Sequence[bytes], sizes: Ints, laid: Callable[[], bytes]) -> vector.Scan:
    """Walks all rows side by side."""
    if len(datums) <= SMALL:
        return reference_scan(program, datums, sizes, laid)
    ends = np.cumsum(sizes)
    return vector.scan(program, laid(), ends - sizes, ends)


def pack(packer: Packer, batch: Batch, scan: Scan) -> Outcome:
    """See `Tier.pack`."""
    work = _Work(packer, batch, scan)
    foreign = work.sort()
    if foreign:
        return Outcome(foreign=foreign)
    return work.finish()


class _Work:
    def __init__(self, packer: Packer, batch: Batch, scan: Scan) -> None:
        count = len(batch.values)
        self.packer = packer
        self.batch = batch
        self.scan = scan
        self.datums: list[bytes] = [b""] * count
        self.sizes: Ints | None = None  # of the datums, as long as they are known
        self.times = np.zeros(count, np.int64)
        self.targets = np.zeros(count, np.int64)
        self.good = np.zeros(count, np.bool_)
        self.bad: list[Bad] = []
        self.nulls: list[int] = []
        self.by_frame: dict[bytes, Ints] = {}
        self.stripped = False  # whether the datums are already without their frames
        self.laid: bytes | None = None  # all datums end to end, if they were laid so and `sizes` are known

    # Sorting by frame

    def sort(self) -> frozenset[bytes]:
        """Sort values by frame; returns frames without a route."""
        size, values = self.packer.frame_size, self.batch.values
        if len(self.packer.routes) == 1 and self._all_under_one_frame():
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
        return frozenset(self.by_frame.keys() - self.packer.routes.keys())

    def _all_under_one_frame(self) -> bool:
        (frame,) = self.packer.routes
        values = self.batch.values
        if None in values:
            return False
        sizes = _sizes(values) - len(frame)  # type: ignore[arg-type] # no None is among them
        datums = list(map(bytes.removeprefix, values, repeat(frame)))  # type: ignore[arg-type] # as above
        if sum(map(len, datums)) != sizes.sum():
            return False
        self.datums, self.sizes = datums, sizes
        self.by_frame[frame] = np.arange(len(values), dtype=np.int64)
        self.stripped = True
        return True

    # Walking

    def finish(self) -> Outcome:
        for frame, rows in self.by_frame.items():
            if not self.stripped:
                for i in rows.tolist():
                    self.datums[i] = self._value(i)[len(frame) :]
            route = self.packer.routes[frame]
            if isinstance(route, Route):
                self._copy(route, rows)
            elif isinstance(route, Recode):
                self._recode(route, rows)
            else:
                self._refuse(route, rows)
        if self.packer.null is not None:
            self.sizes = None
            self._write_nulls(self.packer.null)
        if self.batch.tails is not None:
            self.sizes = None
            self.datums = [datum + tail for datum, tail in zip(self.datums, self.batch.tails, strict=True)]
        self._check_bounds()
        sizes = _sizes(self.datums) if self.sizes is None else self.sizes
        laid = None if self.sizes is None else self.laid
        groups, slots = _Gathering(self.packer, self.datums, sizes, self.times, self.targets, laid).gather(self.good)
        bad = sorted(self.bad, key=lambda bad: bad.index)
        return Outcome(groups=groups, slots=slots, times=self.times, bad=bad, nulls=self.nulls)

    def _value(self, index: int) -> bytes:
        value = self.batch.values[index]
        if value is None:
            raise TypeError(f"value {index} of the batch is null")
        return value

    def _copy(self, route: Route, rows: Ints) -> None:
        self.targets[rows] = route.target
        self.good[rows] = True
        if route.program is None:
            self._check_texts(route, rows)
            self._given_times(rows)
        else:
            datums = self.datums if len(rows) == len(self.datums) else [self.datums[i] for i in rows.tolist()]
            sizes = _sizes(datums) if self.sizes is None else self.sizes[rows]
            self._walk(route.program, rows, datums, sizes)
        if route.sized or route.lead or route.tail:
            self.sizes = None
            for i in rows.tolist():
                datum = self.datums[i]
                size = encode_long(len(datum)) if route.sized else b""
                self.datums[i] = b"".join((route.lead, size, datum, route.tail))

    def _walk(self, program: Program, rows: Ints, datums: Sequence[bytes], sizes: Ints) -> None:
        found = self.scan(program, datums, sizes, lambda: self._lay(datums))
        if not program.has_time:
            self._given_times(rows)
        else:
            self.times[rows] = found.times
        for j in np.flatnonzero(~found.sound).tolist():
            self._judge(program, int(rows[j]), datums[j])
        if not program.has_time:
            return
        for j in np.flatnonzero(found.sound & (found.sizes >= 0) & found.timed).tolist():
            self._set_text(int(rows[j]), datums[j], int(found.times[j]), int(found.sizes[j]))
        for j in np.flatnonzero(found.sound & ~found.timed).tolist():
            self._fall_back(int(rows[j]), "the datum has no time: a null, or another branch of a union")

    def _lay(self, datums: Sequence[bytes]) -> bytes:
        data = b"".join((*datums, vector.PADDING))
        if len(datums) == len(self.datums):
            self.laid = data
        return data

    def _judge(self, program: Program, index: int, datum: bytes) -> None:
        """Let the reference decide about a row."""
        try:
            time = reference.walk(program, datum)
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

    def _set_text(self, index: int, datum: bytes, start: int, size: int) -> None:
        try:
            self.times[index] = _fit(self.packer.text_time(datum[start : start + size].decode()))
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
                self.datums[i].decode()
            except UnicodeDecodeError as error:
                self._drop(i, "corrupt", f"the value is not UTF-8 ({error.reason}) at byte {error.start}")

    def _recode(self, route: Recode, rows: Ints) -> None:
        self.sizes = None
        for i in rows.tolist():
            try:
                self.datums[i], time = route.call(self.datums[i])
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
        for i in self.nulls:
            self.datums[i] = null
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


def _sizes(datums: Sequence[bytes]) -> Ints:
    return np.fromiter(map(len, datums), np.int64, len(datums))


class _Gathering:
    """Sorts good rows into groups."""

    def __init__(
        self,
        packer: Packer,
        datums: Sequence[bytes],
        sizes: Ints,
        times: Ints,
        targets: Ints,
        laid: bytes | None,
    ) -> None:
        self.packer = packer
        self.laid = laid
        self.datums = datums
        self.sizes = sizes
        self.times = times
        self.targets = targets

    def gather(self, good: NDArray[np.bool_]) -> tuple[list[Group], NDArray[np.int32]]:
        """Groups in the order of their first rows, and each row's group."""
        slots = np.full(len(good), -1, np.int32)
        keys: dict[tuple[int, Hashable], int] = {}
        rows = np.flatnonzero(good)
        targets = self.targets[rows]
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
        whole = len(rows) == len(self.datums)
        datums = self.datums if whole else [self.datums[i] for i in rows.tolist()]
        ends = np.cumsum(self.sizes if whole else self.sizes[rows])
        times = self.times[rows]
        fill, limit = self.packer.room(target, key)
        return Group(
            target=target,
            key=key,
            count=len(datums),
            size=int(ends[-1]),
            least=int(times.min()),
            greatest=int(times.max()),
            chunks=cut(datums, ends, fill, limit, self.laid if whole else None),
        )


def cut(datums: Sequence[bytes], ends: Ints, fill: int, limit: int, laid: bytes | None = None) -> list[Chunk]:
    """Chunks that end where blocks end.

    Args:
        datums: in order.
        ends: running sum of their sizes.
        fill: bytes in the open block.
        limit: bytes that complete a block.
        laid: the same datums end to end, where somebody has laid them so already.
    """
    chunks: list[Chunk] = []
    at = base = 0
    while at < len(datums):
        end = min(int(np.searchsorted(ends, base + limit - fill, "left")) + 1, len(datums))
        behind = int(ends[end - 1])
        chunks.append((b"".join(datums[at:end]) if laid is None else laid[base:behind], end - at))
        at, base, fill = end, behind, 0
    return chunks
