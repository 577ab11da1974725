"""Numpy interpreter of skip programs: one cursor per datum, all moved side by side through a whole batch.

A row is *in doubt* as soon as anything about it is unusual: it is broken, or it has a form that this interpreter
leaves out (deep recursion, a long collection that few rows have). Rows do not touch each other, so that doubt about
one costs nothing to the rest; the reference decides about it. Rows without doubt are whole: each cursor stops at the
end of its own datum exactly, and cursors only ever move forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airflow_kafka_hdfs.ingest.datum.program import MAX_EMPTY_ITEMS, UNITS, Op, Program

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Data = bytes | memoryview

PADDING = bytes(32)
"""Has to follow the data, so that a cursor at its end can be read from."""

MAX_CALLS = 16
"""Recursion beyond this is in doubt."""

FEW_ROWS = 24
MANY_ITEMS = 16
"""A collection of more items than this that so few rows have is in doubt: one by one they are walked faster."""

MOST_SLOW_ROUNDS = 1_000
"""Rounds of blocks and items, with so few rows in each, that a batch may take; rows that want more are in doubt."""

_HIGH = np.uint64(0x8080808080808080)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_HIGH_BITS = np.array([0x8080808080808080 & ((1 << 8 * size) - 1) for size in range(9)], np.uint64)
"""Top bits of the first so many bytes of a window."""

_NO_END = -1
_PIECE = 1 << 16
_SHORT = 32
_SPARSE = 16
"""Bytes of data per text from which on short texts are looked at one by one."""
_STOPS = frozenset(map(int, (Op.END, Op.JUMP, Op.NEXT, Op.RET)))


@dataclass(frozen=True, slots=True)
class Scan:
    """What a walk over a batch found, one element per row.

    Attributes:
        sound: the datum is whole.
        timed: it has a time; holds for sound rows only.
        times: the time in milliseconds, or with a text the place of its first byte in the datum.
        sizes: bytes of the text, -1 if the time is a number.
    """

    sound: Flags
    timed: Flags
    times: Ints
    sizes: Ints


def scan(program: Program, data: Data, starts: Ints, ends: Ints) -> Scan:
    """Walk all datums of a batch.

    Args:
        program: program of their writer schema.
        data: the datums, followed by `PADDING`.
        starts: where each begins.
        ends: where each ends; rows may stand anywhere and in any order.
    """
    return _Walk(program, data, ends).run_all(starts)


class _Walk:
    def __init__(self, program: Program, data: Data, ends: Ints) -> None:
        count = len(ends)
        self.code = program.code
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        # Eight bytes from any place on, as one little-endian number.
        self.windows: Words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
        # Where cursors that ran beyond the data are kept: one byte behind every datum's end.
        self.top = len(data) - len(PADDING) + 1
        self.ends = ends
        self.doubt = np.zeros(count, np.bool_)
        self.timed = np.zeros(count, np.bool_)
        self.times = np.zeros(count, np.int64)
        self.sizes = np.full(count, -1, np.int64)
        self.texts: list[tuple[Ints, Ints, Ints]] = []
        self.empty = np.zeros(count, np.int64)
        self.calls = 0
        self.slow_rounds = 0

    def run_all(self, starts: Ints) -> Scan:
        at = self.run(0, starts, np.arange(len(starts), dtype=np.int64))
        self.doubt |= at != self.ends
        self.times -= np.where(self.sizes >= 0, starts, 0)
        self.check_texts()
        return Scan(~self.doubt, self.timed, self.times, self.sizes)

    def run(self, pc: int, at: Ints, rows: Ints) -> Ints:
        """Run up to the end of a body, branch or record; cursors and their rows in, cursors out."""
        code = self.code
        while code[pc] not in _STOPS:
            pc, at = _STEPS[code[pc]](self, pc + 1, at, rows)
        return at

    def clip(self, at: Ints) -> Ints:
        return np.minimum(at, self.top)

    def varint(self, at: Ints, rows: Ints) -> tuple[Words, Ints]:
        """Unsigned numbers of up to 64 bits and the places behind them."""
        first = self.bytes[at]
        if not len(first) or first.max() < 0x80:
            return first.astype(np.uint64), at + 1
        window = self.windows[at]
        stop = ~window & _HIGH
        below = (stop & -stop) - _ONE  # all bits below the top bit of the last byte
        raw, size = _seven_bits(window & below), _size(below)
        if not stop.all():
            long = np.flatnonzero(stop == 0)
            ninth, tenth, size[long] = self.long_tail(at[long], rows[long])
            raw[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
        return raw, at + size

    def long_tail(self, at: Ints, rows: Ints) -> tuple[Words, Words, Ints]:
        """Ninth and tenth bytes of numbers that long, and how many bytes they have in all."""
        ninth, tenth = self.bytes[at + 8].astype(np.uint64), self.bytes[at + 9].astype(np.uint64)
        ends = ninth < 0x80
        self.doubt[rows[~ends & (tenth > 1)]] = True
        return ninth, np.where(ends, np.uint64(0), tenth), np.where(ends, 9, 10)

    def number(self, at: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Signed numbers, see `varint`."""
        raw, at = self.varint(at, rows)
        return ((raw >> _ONE) ^ -(raw & _ONE)).view(np.int64), self.clip(at)

    def pass_number(self, at: Ints, rows: Ints, longest: int) -> Ints:
        """Places behind numbers of any value of at most so many bytes (5 or 10)."""
        first = self.bytes[at]
        if not len(first) or first.max() < 0x80:
            return self.clip(at + 1)
        window = self.windows[at]
        stop = ~window & _HIGH
        size = _size((stop & -stop) - _ONE)
        if longest == 5:
            fifth = (window >> np.uint64(32)) & np.uint64(0xFF)
            wrong = (size > 5) | ((size == 5) & (fifth > 0x0F))
            self.doubt[rows[wrong]] = True
        elif not stop.all():
            long = np.flatnonzero(stop == 0)
            size[long] = self.long_tail(at[long], rows[long])[2]
        return self.clip(at + size)

    def length(self, at: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Sizes of what comes next (0 if negative), and the places where it starts."""
        raw, at = self.varint(at, rows)
        size = self.clip((raw >> _ONE).view(np.int64))
        odd = (raw & _ONE) != 0
        if odd.any():
            self.doubt[rows[odd]] = True
            size = np.where(odd, 0, size)
        return size, self.clip(at)

    def index(self, at: Ints, rows: Ints, count: int) -> tuple[Ints, Ints]:
        """Numbers from 0 up to `count` - 1; 0 where in doubt."""
        index, at = self.number(at, rows)
        wrong = (index < 0) | (index >= count)
        if wrong.any():
            self.doubt[rows[wrong]] = True
            index = np.where(wrong, 0, index)
        return index, at

    def alive(self, at: Ints, rows: Ints) -> Ints:
        """Which rows are worth going on with: not in doubt, and with a byte left for what must come.

        Without this look, rows that ran beyond their ends would walk through the data of all others.
        """
        doubt = self.doubt[rows] | (at >= self.ends[rows])
        self.doubt[rows[doubt]] = True
        return np.flatnonzero(~doubt)

    def is_too_slow(self, count: int) -> bool:
        """Whether a round of so many rows is one too many."""
        self.slow_rounds += count <= FEW_ROWS
        return count <= FEW_ROWS and self.slow_rounds > MOST_SLOW_ROUNDS

    def check_texts(self) -> None:
        """Strings with bytes beyond ASCII are decoded one by one."""
        if not self.texts:
            return
        start, end, rows = (np.concatenate(parts) for parts in zip(*self.texts, strict=True))
        for i in np.flatnonzero(_has_high_bytes(self, start, end)).tolist():
            try:
                str(self.data[start[i] : end[i]], "utf-8")
            except UnicodeDecodeError:
                self.doubt[rows[i]] = True

    # One method per instruction: address of the first operand, cursors and rows in; next address and cursors out.

    def do_skip(self, pc: int, at: Ints, _rows: Ints) -> tuple[int, Ints]:
        return pc + 1, self.clip(at + self.code[pc])

    def do_bool(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        value = self.bytes[at]
        if len(value) and value.max() > 1:
            self.doubt[rows[value > 1]] = True
        return pc, self.clip(at + 1)

    def do_int(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        return pc, self.pass_number(at, rows, 5)

    def do_long(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        return pc, self.pass_number(at, rows, 10)

    def do_bytes(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        size, at = self.length(at, rows)
        return pc, self.clip(at + size)

    def do_string(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        size, start = self.length(at, rows)
        end = self.clip(start + size)
        self.texts.append((start, end, rows))
        return pc, end

    def do_enum(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        _, behind = self.index(at, rows, self.code[pc])
        self.doubt[rows[behind - at > 5]] = True  # an enum's number is an int
        return pc + 1, behind

    def do_union(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        count, end = self.code[pc : pc + 2]
        index, at = self.index(at, rows, count)
        for branch in np.flatnonzero(np.bincount(index, minlength=1)).tolist() if count else ():
            address = self.code[pc + 2 + branch]
            if self.code[address] == Op.JUMP:
                continue
            mine = np.flatnonzero(index == branch)
            if len(mine) == len(index):
                at = self.run(address, at, rows)
            else:
                at[mine] = self.run(address, at[mine], rows[mine])
        return end, at

    def do_array(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        step, end = self.code[pc : pc + 2]
        at = at.copy()
        active = self.alive(at, rows)
        while len(active):
            if self.is_too_slow(len(active)):
                self.doubt[rows[active]] = True
                break
            count, here, stated = self.block(at[active], rows[active])
            if step < 0:
                here, count = self.bodies(pc + 2, here, rows[active], count)
            else:
                if not step:
                    self.count_empty(rows[active], count)
                here = self.clip(here + count * step)
            self.doubt[rows[active[(stated != _NO_END) & (stated != here)]]] = True
            at[active] = here
            active = active[count > 0]
            active = active[self.alive(at[active], rows[active])]
        return end, at

    def count_empty(self, rows: Ints, count: Ints) -> None:
        """Add items without bytes to those of their datums."""
        self.empty[rows] += count
        self.doubt[rows[self.empty[rows] > MAX_EMPTY_ITEMS]] = True

    def block(self, at: Ints, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Counts of the next blocks, places behind them, and their stated ends."""
        count, at = self.number(at, rows)
        stated = np.full(len(at), _NO_END, np.int64)
        sized = np.flatnonzero(count < 0)
        if len(sized):
            size, behind = self.length(at[sized], rows[sized])
            at[sized] = self.clip(behind)
            stated[sized] = behind + size
            count = np.abs(count)
        wrong = (count > self.top) | (count < 0)
        if wrong.any():
            self.doubt[rows[wrong]] = True
            count = np.where(wrong, 0, count)
        return count, at, stated

    def bodies(self, pc: int, at: Ints, rows: Ints, count: Ints) -> tuple[Ints, Ints]:
        """Walk the items of one block of each row; rows in doubt come back with a count of 0."""
        at = at.copy()
        left = count.copy()
        active = np.flatnonzero(left)
        while len(active) and not self.is_too_slow(len(active)):
            long = left[active] > MANY_ITEMS
            if 0 < np.count_nonzero(long) <= FEW_ROWS:
                active = active[~long]
                continue
            at[active] = self.run(pc, at[active], rows[active])
            left[active] -= 1
            active = active[left[active] > 0]
            active = active[self.alive(at[active], rows[active])]
        unfinished = left > 0
        self.doubt[rows[unfinished]] = True
        return at, np.where(unfinished, 0, count)

    def do_call(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        if self.calls >= MAX_CALLS:
            self.doubt[rows] = True
        alive = self.alive(at, rows)
        if len(alive):
            self.calls += 1
            at = at.copy()
            at[alive] = self.run(self.code[pc], at[alive], rows[alive])
            self.calls -= 1
        return pc + 1, at

    def do_time_int(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        value, behind = self.number(at, rows)
        self.doubt[rows[behind - at > 5]] = True
        self.doubt[rows[(value >> 31) != (value >> 63)]] = True
        self.times[rows] = _millis(value, self.code[pc])
        self.timed[rows] = True
        return pc + 1, behind

    def do_time_long(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        value, at = self.number(at, rows)
        self.times[rows] = _millis(value, self.code[pc])
        self.timed[rows] = True
        return pc + 1, at

    def do_time_text(self, pc: int, at: Ints, rows: Ints) -> tuple[int, Ints]:
        size, start = self.length(at, rows)
        end = self.clip(start + size)
        self.texts.append((start, end, rows))
        self.times[rows] = start
        self.sizes[rows] = end - start
        self.timed[rows] = True
        return pc, end


def _millis(value: Ints, unit: int) -> Ints:
    _, factor, divisor = UNITS[unit]
    if factor == divisor:
        return value
    edge = (2**63 - 1) // factor
    scaled: Ints = np.clip(value, -edge, edge) * factor if factor > 1 else value // divisor
    return scaled


def _size(below: Words) -> Ints:
    """Bytes of numbers, from all bits below the top bit of their last byte; 8 if that is not in sight."""
    return np.bitwise_count(below).astype(np.int64) + 1 >> 3


def _seven_bits(raw: Words) -> Words:
    """Eight groups of seven bits, one per byte, pushed together."""
    for width, low in ((1, 0x007F007F007F007F), (2, 0x00003FFF00003FFF), (4, 0x000000000FFFFFFF)):
        # Each round joins neighbours of 7, 14 and 28 bits.
        mask = np.uint64(low)
        raw = (raw & mask) | ((raw >> np.uint64(width)) & (mask << np.uint64(7 * width)))
    return raw


def _has_high_bytes(walk: _Walk, start: Ints, end: Ints) -> Flags:
    """Whether a byte from 0x80 on stands between the places.

    Short texts in large datums are looked at directly, in steps of eight bytes; for everything else a bit map of all
    bytes is made once.
    """
    size = end - start
    if walk.top < len(start) * _SPARSE:
        return _by_bit_map(walk.bytes, start, end)
    high: Flags = (walk.windows[start] & _HIGH_BITS[np.minimum(size, 8)]) != 0
    for at in range(8, _SHORT, 8):
        rows = np.flatnonzero(size > at)
        if not len(rows):
            return high
        high[rows] |= (walk.windows[start[rows] + at] & _HIGH_BITS[np.minimum(size[rows] - at, 8)]) != 0
    long = np.flatnonzero(size > _SHORT)
    if len(long):
        high[long] = _by_bit_map(walk.bytes, start[long], end[long])
    return high


def _by_bit_map(data: NDArray[np.uint8], start: Ints, end: Ints) -> Flags:
    words = np.zeros(len(data) // 64 + 2, "<u8")
    bits = words.view(np.uint8)
    flags = np.empty(_PIECE, np.bool_)
    for at in range(0, len(data), _PIECE):  # a piece fits into the processor's cache
        piece = data[at : at + _PIECE]
        packed = np.packbits(np.greater_equal(piece, 0x80, out=flags[: len(piece)]), bitorder="little")
        bits[at >> 3 : (at >> 3) + len(packed)] = packed
    before = np.zeros(len(words) + 1, np.int64)
    np.cumsum(words != 0, out=before[1:])
    first, last = start >> 6, end >> 6
    head = words[first] & (_ALL << (start & 63).astype(np.uint64))
    tail = ~(_ALL << (end & 63).astype(np.uint64))
    between = before[last] > before[np.minimum(first + 1, last)]
    high: Flags = np.where(first == last, (head & tail) != 0, (head != 0) | ((words[last] & tail) != 0) | between)
    return high


_STEPS: dict[int, Callable[[_Walk, int, Ints, Ints], tuple[int, Ints]]] = {
    Op.SKIP: _Walk.do_skip,
    Op.BOOL: _Walk.do_bool,
    Op.INT: _Walk.do_int,
    Op.LONG: _Walk.do_long,
    Op.BYTES: _Walk.do_bytes,
    Op.STRING: _Walk.do_string,
    Op.ENUM: _Walk.do_enum,
    Op.UNION: _Walk.do_union,
    Op.ARRAY: _Walk.do_array,
    Op.CALL: _Walk.do_call,
    Op.TIME_INT: _Walk.do_time_int,
    Op.TIME_LONG: _Walk.do_time_long,
    Op.TIME_TEXT: _Walk.do_time_text,
}
