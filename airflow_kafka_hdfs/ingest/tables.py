"""Avro schemas as columns of a table: what a Parquet file can hold, and the container that its rows come in.

Rows are collected as an Avro container in memory. Its schema is not the writer's, but one of the same bytes that every
reader understands in the same way: names are spelled out, logical types left away (a number stays a number, whatever
a library makes of the year 300000), an enum is its index, and each branch of a union of several types is a record of
one field, so that it can be told from the others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.columns import schema_text
from airflow_kafka_hdfs.ingest.datum.program import Program, compile_program
from airflow_kafka_hdfs.ingest.datum.reference import walk
from airflow_kafka_hdfs.ingest.datum.schema import (
    Enum,
    Fixed,
    Items,
    Node,
    Primitive,
    Record,
    Union,
    read_schema,
)
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.ports.tables import ColumnType, Kind

VALUE = "value"
"""Column of values that are no record on their top level."""

MAX_DIGITS = 76
"""Decimals of more digits stay bytes: no reader of Parquet has a number for them."""

MAX_COLUMNS = 10_000
"""Columns of a file; a record that stands in many places can make many more of a short schema."""

MAX_LEVELS = 90
"""Levels of columns in each other; a list or map takes two. Arrow opens no file of more than a hundred."""

MAX_OPTIONAL_FIXED = 32
"""Bytes of a fixed type that a column has room for though its value is null; one null of a larger one takes a byte in
the datum, and would take up to two gigabytes."""

_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    ),
}


def row_type(schema: Any) -> ColumnType:
    """The row of a table: the record itself, or for a union on the top level one column `value`.

    Args:
        schema: as plain JSON values.

    Raises:
        UnusableSchemaError: a table can't have such rows; the text says where and why.
    """
    row = _top(schema)
    return row if row.kind == "record" and row.null_at is None else _wrapped(row)


def _top(schema: Any) -> ColumnType:
    node = read_schema(schema)
    return _Columns().of(node, "" if isinstance(node, Record) else VALUE, ())


def _wrapped(column: ColumnType) -> ColumnType:
    """A row of one column; its datum has the same bytes."""
    return ColumnType(kind="record", names=(VALUE,), inner=(column,))


class _Columns:
    """Reads a tree of a schema; counts what comes out."""

    def __init__(self) -> None:
        self._count = self._level = self._unions = 0

    def of(self, node: Node, path: str, above: tuple[Record, ...]) -> ColumnType:
        self._count += 1
        if self._count > MAX_COLUMNS:
            raise UnusableSchemaError(f"the schema makes more than {MAX_COLUMNS} columns of a Parquet file")
        levels = _levels(node)
        self._level += levels
        if self._level > MAX_LEVELS:
            raise UnusableSchemaError(f"columns of a Parquet file lie in each other more than {MAX_LEVELS} levels deep")
        found = self._of(node, path, above)
        self._level -= levels
        return found

    def _of(self, node: Node, path: str, above: tuple[Record, ...]) -> ColumnType:
        match node:
            case Primitive():
                return _primitive(node)
            case Fixed(size):
                return dataclasses.replace(_fixed(node), loose=self._unions > 0 and size > MAX_OPTIONAL_FIXED)
            case Enum():
                return ColumnType(kind="enum", symbols=node.symbols)
            case Items():
                inner = self.of(node.item, f"{path}[]", above)
                return ColumnType(kind="map" if node.keyed else "array", inner=(inner,))
            case Union():
                return self._union(node, path, above)
            case Record():
                return self._record(node, path, above)

    def _record(self, node: Record, path: str, above: tuple[Record, ...]) -> ColumnType:
        where = path or "its top level"
        if node in above:
            raise UnusableSchemaError(
                f"record {node.name} holds itself (at {where}); a Parquet file has no such column"
            )
        if not node.fields:
            raise UnusableSchemaError(
                f"record {node.name} (at {where}) has no fields; a Parquet file has no such column"
            )
        inner = [self.of(part, f"{path}.{name}".lstrip("."), (*above, node)) for name, part, _ in node.fields]
        return ColumnType(kind="record", names=tuple(name for name, _, _ in node.fields), inner=tuple(inner))

    def _union(self, node: Union, path: str, above: tuple[Record, ...]) -> ColumnType:
        nulls = [i for i, branch in enumerate(node.branches) if _is_null(branch)]
        null_at = nulls[0] if nulls else None
        self._unions += 1
        inner = [self.of(branch, path, above) for branch in node.branches if not _is_null(branch)]
        self._unions -= 1
        if len(inner) == 1 and null_at is not None:
            return dataclasses.replace(inner[0], null_at=null_at)
        if len(inner) > 1:
            inner = [_undecimal(branch) for branch in inner]
        return ColumnType(kind="union", null_at=null_at, inner=tuple(inner))


def _levels(node: Node) -> int:
    """Levels that a type adds; a union of null and another type is one with it."""
    match node:
        case Items():
            return 2
        case Union(branches):
            return int(sum(not _is_null(branch) for branch in branches) > 1)
        case _:
            return 1


def _is_null(node: Node) -> bool:
    return isinstance(node, Primitive) and node.name == "null"


def _undecimal(column: ColumnType) -> ColumnType:
    """Without decimals: which branch a value took is not known where decimals are proved to fit."""
    if column.kind == "decimal":
        kind: Kind = "fixed" if column.size else "bytes"
        return ColumnType(kind=kind, size=column.size, null_at=column.null_at, loose=column.loose)
    return dataclasses.replace(column, inner=tuple(map(_undecimal, column.inner)))


def _primitive(node: Primitive) -> ColumnType:
    if node.name == "bytes" and node.digits is not None and node.digits[0] <= MAX_DIGITS:
        return ColumnType(kind="decimal", precision=node.digits[0], scale=node.digits[1])
    logical = node.logical if node.logical in _LOGICAL.get(node.name, ()) else ""
    return ColumnType(kind=node.name, logical=logical)  # type: ignore[arg-type]  # primitives are kinds


def _fixed(node: Fixed) -> ColumnType:
    if node.digits is not None and node.size and node.digits[0] <= min(MAX_DIGITS, _most_digits(node.size)):
        return ColumnType(kind="decimal", size=node.size, precision=node.digits[0], scale=node.digits[1])
    return ColumnType(kind="fixed", size=node.size)


def _most_digits(size: int) -> int:
    """Digits that every number of so many bytes has room in: floor(log10(2^(8 size - 1) - 1)), or more than count."""
    asked = min(size, MAX_DIGITS)  # a byte holds two digits
    return len(str(2 ** (8 * asked - 1) - 1)) - 1


def container_schema(row: ColumnType) -> str:
    """The schema of the container in memory, as JSON text."""
    return schema_text(_container(row, itertools.count()))


def _container(column: ColumnType, numbers: Iterator[int]) -> Any:
    plain = _container_type(column, numbers)
    if column.null_at is None or column.kind == "union":
        return plain
    return ["null", plain] if column.null_at == 0 else [plain, "null"]


def _container_type(column: ColumnType, numbers: Iterator[int]) -> Any:
    match column.kind:
        case "enum":
            return "int"
        case "decimal" | "fixed" if column.size or column.kind == "fixed":
            return {"type": "fixed", "name": f"f{next(numbers)}", "size": column.size}
        case "decimal":
            return "bytes"
        case "record":
            fields = [
                {"name": name, "type": _container(inner, numbers)}
                for name, inner in zip(column.names, column.inner, strict=True)
            ]
            return {"type": "record", "name": f"r{next(numbers)}", "fields": fields}
        case "array":
            return {"type": "array", "items": _container(column.inner[0], numbers)}
        case "map":
            return {"type": "map", "values": _container(column.inner[0], numbers)}
        case "union":
            branches: list[Any] = [_branch(i, inner, numbers) for i, inner in enumerate(column.inner)]
            if column.null_at is not None:
                branches.insert(column.null_at, "null")
            return branches
        case _:
            return column.kind


def _branch(index: int, column: ColumnType, numbers: Iterator[int]) -> Any:
    """A record of one field has the bytes of the field. Its name tells the branch: `b<number>_<index>`."""
    fields = [{"name": VALUE, "type": _container(column, numbers)}]
    return {"type": "record", "name": f"b{next(numbers)}_{index}", "fields": fields}


class TableProof:
    """Proves that a decoded value has a place in the columns; nothing can be quarantined once a file has taken it.

    Args:
        schema: of the values, as plain JSON values.

    Attributes:
        row: type of its rows.
        decimals: whether there are decimals, whose values have to be looked at one by one.

    Raises:
        UnusableSchemaError: see `row_type`.
    """

    def __init__(self, schema: Any) -> None:
        self.row = row_type(schema)
        self._program: Program = compile_program(schema)
        self._check = _check_of(_top(schema))

    @property
    def decimals(self) -> bool:
        """See above."""
        return self._check is not None

    def prove(self, datum: bytes, value: Callable[[], Any]) -> None:
        """Prove one value.

        Args:
            datum: its bytes.
            value: decodes them, with every field; called if there are decimals.

        Raises:
            DecodeError: `corrupt`: a number is too large for its type; `unencodable`: a decimal has too many digits.
        """
        walk(self._program, datum)
        if self._check is not None:
            self._check(value())


_Check = Callable[[Any], None]


def _check_of(column: ColumnType) -> _Check | None:
    """A check of decoded values; None where nothing has to be looked at."""
    check = _check_within(column)
    if check is None or column.null_at is None:
        return check

    def of_present(value: Any) -> None:
        if value is not None:
            check(value)

    return of_present


def _check_within(column: ColumnType) -> _Check | None:
    match column.kind:
        case "decimal":
            return _decimal_check(column.precision)
        case "record":
            return _field_check(column)
        case "array" | "map":
            return _item_check(column)
        case "union" if len(column.inner) == 1:
            return _check_of(column.inner[0])
        case _:
            return None


def _field_check(column: ColumnType) -> _Check | None:
    found = [(name, _check_of(inner)) for name, inner in zip(column.names, column.inner, strict=True)]
    needed = [(name, check) for name, check in found if check is not None]

    def of_fields(value: Any) -> None:
        for name, check in needed:
            check(value[name])

    return of_fields if needed else None


def _item_check(column: ColumnType) -> _Check | None:
    check = _check_of(column.inner[0])
    if check is None:
        return None

    def of_items(value: Any) -> None:
        for item in value.values() if column.kind == "map" else value:
            check(item)

    return of_items


def _decimal_check(precision: int) -> _Check:
    most = 10**precision - 1

    def of_decimal(value: Any) -> None:
        if not -most <= int.from_bytes(value, "big", signed=True) <= most:
            detail = f"a decimal of {len(value)} bytes has more than the {precision} digits it may have"
            raise DecodeError(BadReason.UNENCODABLE, detail)

    return of_decimal
