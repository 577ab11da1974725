"""A writer schema turned into a flat list of instructions that walk a datum without decoding it.

A program does two things: it finds the time field, and it reaches the end of the datum exactly if, and only if, the
datum is whole. One list of 32-bit numbers serves every interpreter: plain Python (`reference`), numpy over a batch
(`vector`) and C (`_packer.c`).

    END                     the datum must end here
    SKIP n                  n bytes of any content (fixed, float, double, and runs of them)
    BOOL                    one byte, 0 or 1
    INT, LONG               zigzag variable-length number of 32 or 64 bits
    BYTES, STRING           length, then content; a string is UTF-8
    ENUM n                  a number from 0 up to n - 1
    UNION n end a1 … an     a number from 0 up to n - 1 tells at which address to go on; each branch ends in JUMP end
    JUMP to                 end of a branch
    ARRAY step end          blocks of items; step >= 0: items of so many bytes, no body; step = -1: the body follows
                            and ends in NEXT; a map's body starts with STRING. Items of a body have one byte at least
    NEXT                    end of a body
    CALL to, RET            a record that stands in several places, or in itself
    TIME_INT unit, TIME_LONG unit
                            as INT and LONG, and this is the time; unit is an index into `UNITS`
    TIME_TEXT               as STRING, and this is the time

A record that stands once is laid out in place; so is every record on the way to the time field.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from airflow_kafka_hdfs.exceptions import UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.schema import (
    Enum,
    Fixed,
    Items,
    Node,
    Primitive,
    Record,
    Union,
    constant_size,
    read_schema,
)

MAX_CODE = 1 << 20
"""Numbers in a program; more would come from a schema made to be hostile."""

MAX_FRAMES = 1024
"""Collections and calls that may be open at once while a datum is walked; more is `corrupt`."""

MAX_EMPTY_ITEMS = 65_536
"""Items without bytes (an array of null) in one datum; more could only harm readers and is `corrupt`."""

UNITS = (("ms", 1, 1), ("s", 1_000, 1), ("us", 1, 1_000), ("ns", 1, 1_000_000), ("day", 86_400_000, 1))
"""Units of numbers: name, and factor and divisor that make milliseconds of them (rounded down).

Beyond what fits into 64 bits, milliseconds stay at the last number of days or seconds that does."""

_LOGICAL = {
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "timestamp-nanos": "ns",
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
    "local-timestamp-nanos": "ns",
    "date": "day",
}
TIME_UNITS = ("s", "ms", "us", "ns", "iso")


class Op(IntEnum):
    """Instructions, see the head of this module."""

    END = 0
    SKIP = 1
    BOOL = 2
    INT = 3
    LONG = 4
    BYTES = 5
    STRING = 6
    ENUM = 7
    UNION = 8
    JUMP = 9
    ARRAY = 10
    NEXT = 11
    CALL = 12
    RET = 13
    TIME_INT = 14
    TIME_LONG = 15
    TIME_TEXT = 16


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions for one writer schema and one time field.

    Attributes:
        code: the instructions.
        packed: the same as native 32-bit integers, for numpy and C.
        has_time: whether some datum can have a time.
    """

    code: tuple[int, ...]
    packed: bytes
    has_time: bool


_SIMPLE = {
    "boolean": Op.BOOL,
    "int": Op.INT,
    "long": Op.LONG,
    "bytes": Op.BYTES,
    "string": Op.STRING,
}
_NUMBERS = {"int": Op.TIME_INT, "long": Op.TIME_LONG}


def compile_program(schema: Any, time_field: str | None = None, time_unit: str = "ms") -> Program:
    """Compile the program of a writer schema.

    Args:
        schema: the schema as plain JSON values.
        time_field: dotted path through records and unions to an `int`, `long` or `string`; None if nothing is
            looked for.
        time_unit: one of `TIME_UNITS`, for numbers; a timestamp or date tells its unit itself.

    Raises:
        UnusableSchemaError: no Avro schema, no such field, or a field that this walk can't take a time from (it
            lies behind an array or map, or has another type); such topics are decoded.
    """
    if time_unit not in TIME_UNITS:
        raise UnusableSchemaError(f"time_unit: got {time_unit!r}; allowed: {', '.join(TIME_UNITS)}")
    path = tuple(time_field.split(".")) if time_field else None
    compiler = _Compiler(time_field or "", time_unit)
    code = [int(number) for number in compiler.compile(read_schema(schema), path)]
    if path and not compiler.found:
        raise UnusableSchemaError(compiler.why_not())
    return Program(
        code=tuple(code),
        packed=array("i", code).tobytes(),
        has_time=compiler.found,
    )


def number_unit(node: Node, time_unit: str) -> str:
    """Unit of the number that a type holds, empty if it can't be a time.

    Args:
        node: the type.
        time_unit: of numbers whose type does not tell one.
    """
    if not isinstance(node, Primitive) or node.name not in _NUMBERS or node.logical.startswith("time-"):
        return ""
    unit = _LOGICAL.get(node.logical, time_unit)
    return "" if unit == "iso" else unit


class _Compiler:
    def __init__(self, time_field: str, time_unit: str) -> None:
        self.time_field = time_field
        self.time_unit = time_unit
        self.found = False
        self.faults: list[str] = []
        self.code: list[int] = []
        self.last_skip = -1
        self.calls: list[tuple[int, Record]] = []

    def compile(self, root: Node, path: tuple[str, ...] | None) -> list[int]:
        self.node(root, path)
        self.op(Op.END)
        entries: dict[int, int] = {}
        done = 0
        while done < len(self.calls):
            address, record = self.calls[done]
            done += 1
            if id(record) not in entries:
                entries[id(record)] = self.here()
                self.fields(record, None)
                self.op(Op.RET)
            self.code[address] = entries[id(record)]
        return self.code

    def why_not(self) -> str:
        """Why the time field was not found."""
        reason = "; ".join(dict.fromkeys(self.faults)) or "there is no such field"
        allowed = "string, and int or long with a unit, in records and unions"
        return f"time_field {self.time_field!r}: {reason}; allowed here: {allowed}"

    def here(self) -> int:
        """Address of the next instruction, as a place that is jumped to."""
        self.last_skip = -1
        return len(self.code)

    def op(self, op: Op, *operands: int) -> int:
        """Add an instruction; returns the address of its first operand."""
        if len(self.code) > MAX_CODE:
            raise UnusableSchemaError(f"schema: its program is longer than {MAX_CODE} numbers")
        self.last_skip = -1
        self.code.append(op)
        self.code.extend(operands)
        return len(self.code) - len(operands)

    def skip(self, size: int) -> None:
        if not size:
            return
        if self.last_skip >= 0 and self.code[self.last_skip] + size < 2**31:
            self.code[self.last_skip] += size
            return
        self.last_skip = self.op(Op.SKIP, size)

    def node(self, node: Node, path: tuple[str, ...] | None) -> None:
        size = constant_size(node)
        if path is not None and not isinstance(node, Record | Union):
            self.leaf(node, path)
        elif size is not None:
            if path is not None and isinstance(node, Record):
                self.fields(node, path)
            else:
                self.skip(size)
        elif isinstance(node, Record):
            self.record(node, path)
        elif isinstance(node, Union):
            self.union(node, path)
        else:
            self.plain(node)

    def leaf(self, node: Node, path: tuple[str, ...]) -> None:
        """A type at which the way to the time field ends, rightly or not."""
        name = node.name if isinstance(node, Primitive) else type(node).__name__.lower()
        unit = number_unit(node, self.time_unit)
        if not path and (unit or name == "string"):
            self.found = True
            if name == "string":
                self.op(Op.TIME_TEXT)
            else:
                self.op(_NUMBERS[name], [known for known, _, _ in UNITS].index(unit))
            return
        if name != "null":
            at = f"{'.'.join(path)!r} is looked for in" if path else "it is"
            self.faults.append(f"{at} a {name}")
        self.node(node, None)

    def plain(self, node: Node) -> None:
        match node:
            case Primitive():
                self.op(_SIMPLE[node.name])
            case Enum(symbols):
                self.op(Op.ENUM, len(symbols))
            case Items():
                self.items(node)
            case Fixed(size):
                self.skip(size)
            case _:
                raise TypeError(f"unexpected {node!r:.80}")

    def record(self, record: Record, path: tuple[str, ...] | None) -> None:
        if path is None and record.uses > 1:
            self.calls.append((self.op(Op.CALL, 0), record))
        else:
            self.fields(record, path)

    def fields(self, record: Record, path: tuple[str, ...] | None) -> None:
        if path == ():
            self.faults.append("it is a record")
        for name, node, _ in record.fields:
            self.node(node, path[1:] if path and path[0] == name else None)

    def union(self, union: Union, path: tuple[str, ...] | None) -> None:
        count = len(union.branches)
        start = self.op(Op.UNION, count, 0, *([0] * count))
        ends = []
        for i, branch in enumerate(union.branches):
            self.code[start + 2 + i] = self.here()
            self.node(branch, path)
            ends.append(self.op(Op.JUMP, 0))
        end = self.here()
        for address in (start + 1, *ends):
            self.code[address] = end

    def items(self, items: Items) -> None:
        step = None if items.keyed else constant_size(items.item)
        start = self.op(Op.ARRAY, -1 if step is None else step, 0)
        if step is None:
            if items.keyed:
                self.op(Op.STRING)
            self.node(items.item, None)
            self.op(Op.NEXT)
        self.code[start + 1] = self.here()
