"""Plain Python interpreter of skip programs: one datum at a time, and the judge for all other tiers.

What it accepts, every Avro reader can read. It is stricter than most of them where bytes can only be damage: a
boolean other than 0 and 1, numbers that do not fit their type, text that is not UTF-8, a block whose stated size is
not the size of its items. Work and memory are bounded by the length of the datum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.datum.program import MAX_EMPTY_ITEMS, MAX_FRAMES, UNITS, Op, Program

_NO_SIZE = -1


def walk(program: Program, datum: bytes) -> int | str | None:
    """Walk one datum from its first to its last byte.

    Args:
        program: program of its writer schema.
        datum: the bytes, without any frame.

    Returns:
        The time field's number in milliseconds, or its text; None if it is absent (a null on the way) or not
        asked for.

    Raises:
        DecodeError: `truncated`: the datum ends too early; `trailing_bytes`: it goes on after its end;
            `corrupt`: bytes that no writer of this schema makes.
    """
    return _Walk(program.code, datum).run()


class _Walk:
    def __init__(self, code: Sequence[int], data: bytes) -> None:
        self.code = code
        self.data = data
        self.at = 0
        self.empty = 0
        self.time: int | str | None = None
        # Open collections: (body, items left, end of the block or _NO_SIZE, address behind); calls: (address behind,).
        self.frames: list[tuple[int, ...]] = []

    def run(self) -> int | str | None:
        code, pc = self.code, 0
        while code[pc]:  # Op.END is 0
            pc = _TABLE[code[pc]](self, pc + 1)
        if self.at != len(self.data):
            raise DecodeError("trailing_bytes", f"the datum ends at byte {self.at}, {len(self.data)} bytes are there")
        return self.time

    def truncated(self, need: int) -> NoReturn:
        raise DecodeError("truncated", f"{need} bytes wanted at byte {self.at}, {len(self.data) - self.at} are left")

    def corrupt(self, what: str) -> NoReturn:
        raise DecodeError("corrupt", f"{what} before byte {self.at} of {len(self.data)}")

    def forward(self, size: int) -> None:
        if size > len(self.data) - self.at:
            self.truncated(size)
        self.at += size

    def varint(self, bits: int) -> int:
        """An unsigned variable-length number of at most so many bits."""
        raw = shift = 0
        while True:
            if self.at >= len(self.data):
                self.truncated(1)
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                self.corrupt(f"a number longer than {bits} bits")
        if raw >> bits:
            self.corrupt(f"a number longer than {bits} bits")
        return raw

    def number(self, bits: int) -> int:
        raw = self.varint(bits)
        return (raw >> 1) ^ -(raw & 1)

    def length(self) -> int:
        size = self.number(64)
        if size < 0:
            self.corrupt(f"a length of {size}")
        return size

    def index(self, count: int, bits: int, what: str) -> int:
        index = self.number(bits)
        if not 0 <= index < count:
            self.corrupt(f"{what} {index} of {count}")
        return index

    def text(self) -> str:
        size = self.length()
        self.forward(size)
        try:
            return str(self.data[self.at - size : self.at], "utf-8")
        except UnicodeDecodeError as error:
            self.corrupt(f"a string that is not UTF-8 ({error.reason})")

    def push(self, *frame: int) -> None:
        if len(self.frames) >= MAX_FRAMES:
            self.corrupt(f"more than {MAX_FRAMES} records and collections in each other")
        self.frames.append(frame)

    def block(self) -> tuple[int, int]:
        """Count of the next block, and where it ends if it says so."""
        count = self.number(64)
        if count >= 0:
            return count, _NO_SIZE
        size = self.length()
        if size > len(self.data) - self.at:
            self.truncated(size)
        if count == -(2**63):
            self.corrupt(f"a block of {count} items")
        return -count, self.at + size

    def end_block(self, end: int) -> None:
        if end not in (_NO_SIZE, self.at):
            self.corrupt(f"a block that says it ends at byte {end}")

    # One method per instruction: takes the address of its first operand, returns that of the next instruction.

    def do_skip(self, pc: int) -> int:
        self.forward(self.code[pc])
        return pc + 1

    def do_bool(self, pc: int) -> int:
        self.forward(1)
        if self.data[self.at - 1] > 1:
            self.corrupt(f"a boolean of {self.data[self.at - 1]}")
        return pc

    def do_int(self, pc: int) -> int:
        self.varint(32)
        return pc

    def do_long(self, pc: int) -> int:
        self.varint(64)
        return pc

    def do_bytes(self, pc: int) -> int:
        self.forward(self.length())
        return pc

    def do_string(self, pc: int) -> int:
        self.text()
        return pc

    def do_enum(self, pc: int) -> int:
        self.index(self.code[pc], 32, "enum symbol")
        return pc + 1

    def do_union(self, pc: int) -> int:
        return self.code[pc + 2 + self.index(self.code[pc], 64, "union branch")]

    def do_jump(self, pc: int) -> int:
        return self.code[pc]

    def do_array(self, pc: int) -> int:
        step, end = self.code[pc : pc + 2]
        if step < 0:
            return self.next_block(pc + 2, end)
        while True:
            count, stated_end = self.block()
            if not count:
                return end
            if not step:
                self.empty += count
                if self.empty > MAX_EMPTY_ITEMS:
                    self.corrupt(f"more than {MAX_EMPTY_ITEMS} items without bytes")
            self.forward(count * step)
            self.end_block(stated_end)

    def next_block(self, body: int, end: int) -> int:
        """Start a block of items with a body; its frame keeps the address behind the collection."""
        count, stated_end = self.block()
        if not count:
            return end
        if count > len(self.data) - self.at:
            self.truncated(count)
        self.push(body, count, stated_end, end)
        return body

    def do_next(self, _pc: int) -> int:
        body, count, stated_end, end = self.frames.pop()
        if count > 1:
            self.frames.append((body, count - 1, stated_end, end))
            return body
        self.end_block(stated_end)
        return self.next_block(body, end)

    def do_call(self, pc: int) -> int:
        self.push(pc + 1)
        return self.code[pc]

    def do_ret(self, _pc: int) -> int:
        return self.frames.pop()[0]

    def do_time_int(self, pc: int) -> int:
        self.time = _millis(self.number(32), self.code[pc])
        return pc + 1

    def do_time_long(self, pc: int) -> int:
        self.time = _millis(self.number(64), self.code[pc])
        return pc + 1

    def do_time_text(self, pc: int) -> int:
        self.time = self.text()
        return pc


def _millis(value: int, unit: int) -> int:
    _, factor, divisor = UNITS[unit]
    edge = (2**63 - 1) // factor
    return min(max(value, -edge - (factor == 1)), edge) * factor // divisor


_STEPS: dict[int, Callable[[_Walk, int], int]] = {
    Op.SKIP: _Walk.do_skip,
    Op.BOOL: _Walk.do_bool,
    Op.INT: _Walk.do_int,
    Op.LONG: _Walk.do_long,
    Op.BYTES: _Walk.do_bytes,
    Op.STRING: _Walk.do_string,
    Op.ENUM: _Walk.do_enum,
    Op.UNION: _Walk.do_union,
    Op.JUMP: _Walk.do_jump,
    Op.ARRAY: _Walk.do_array,
    Op.NEXT: _Walk.do_next,
    Op.CALL: _Walk.do_call,
    Op.RET: _Walk.do_ret,
    Op.TIME_INT: _Walk.do_time_int,
    Op.TIME_LONG: _Walk.do_time_long,
    Op.TIME_TEXT: _Walk.do_time_text,
}
_TABLE = {int(op): step for op, step in _STEPS.items()}
