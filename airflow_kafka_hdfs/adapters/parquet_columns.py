"""Columns of Avro types in Arrow: bare as readers give them, and dressed as they stand in the file.

| Avro                       | Parquet                                                               |
|----------------------------|-----------------------------------------------------------------------|
| a union of null and a type | an optional column of the type; every other column is required        |
| a union of several types   | a group of optional members `member0`, `member1` …, in their order    |
| enum, string with `uuid`   | text                                                                  |
| fixed, also with `uuid`    | bytes of fixed length; of any, if optional and of more than 32 bytes  |
| decimal                    | decimal; as bytes with more than 76 digits, or in a union of several  |
| date, time, timestamp      | the same in the same unit; `local-` ones without a zone, others in UTC |
| map                        | map with text keys                                                    |

Dressing never copies numbers and never checks them: a date of the year 300000 is as good as any other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airflow_kafka_hdfs.ports.tables import ColumnType

try:
    import pyarrow as pa
except ImportError:  # as in `parquet`
    pa = None

_WORD = 16  # bytes of a decimal of up to 38 digits


@dataclass(frozen=True, slots=True)
class Column:
    """How one Avro type becomes a column.

    Attributes:
        type: in the file.
        nullable: whether the column is optional.
        bare: as the readers give it.
        dress: from a bare array to one of `type`.
        by_polars: whether polars has such a column.
        plain: from what fastavro decodes to what `bare` takes; None where that is the same.
    """

    type: Any
    nullable: bool
    bare: Any
    dress: Callable[[Any], Any]
    by_polars: bool = True
    plain: Callable[[Any], Any] | None = None

    def field(self, name: str) -> Any:
        """The field of a group or schema."""
        return pa.field(name, self.type, nullable=self.nullable)


def column_of(column: ColumnType) -> Column:
    """The column of a type."""
    if column.kind == "record":
        return _group(column, [column_of(inner) for inner in column.inner], column.names)
    if column.kind == "array":
        return _list(column)
    if column.kind == "map":
        return _map(column)
    if column.kind == "union":
        return _union(column)
    return _leaf(column)


def _same(array: Any) -> Any:
    return array


def _leaf(column: ColumnType) -> Column:
    found = _type_of(column)
    if found.nullable:
        return found
    return dataclasses.replace(found, dress=lambda array: _required(found.dress(array)))


def _required(array: Any) -> Any:
    """Without marks of nulls: a required column has them where the group around it is null, and must not."""
    if not array.null_count:
        return array
    _, *rest = array.buffers()
    return pa.Array.from_buffers(array.type, len(array), [None, *rest], null_count=0, offset=array.offset)


def _type_of(column: ColumnType) -> Column:
    nullable = column.null_at is not None
    if column.kind == "null":
        return Column(pa.null(), True, pa.null(), _same, by_polars=False)
    if column.kind == "enum":
        symbols = pa.array(column.symbols, pa.large_string())
        return Column(pa.large_string(), nullable, pa.int32(), symbols.take)
    if column.kind == "fixed" and column.loose:
        return Column(pa.large_binary(), nullable, pa.large_binary(), _same, by_polars=False)
    if column.kind == "fixed" and column.size:
        exact = pa.binary(column.size)
        return Column(exact, nullable, pa.large_binary(), lambda array: _fixed(array, exact))
    if column.kind == "decimal":
        kind = pa.decimal128 if column.precision <= 38 else pa.decimal256
        target = kind(column.precision, column.scale)
        decimals = functools.partial(_decimals, target=target)
        return Column(target, nullable, pa.large_binary(), decimals, by_polars=not column.loose)
    bare = _bare_types()[column.kind]
    if column.kind == "fixed":  # of no bytes at all
        return Column(bare, nullable, bare, _same, by_polars=False)
    if not column.logical:
        return Column(bare, nullable, bare, _same)
    logical = _logical_types()[column.logical]
    return Column(logical, nullable, bare, lambda array: array.view(logical))


def _bare_types() -> dict[str, Any]:
    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "bytes": pa.large_binary(),
        "fixed": pa.large_binary(),
        "string": pa.large_string(),
    }


def _logical_types() -> dict[str, Any]:
    units = {"millis": "ms", "micros": "us", "nanos": "ns"}
    stamps = {f"timestamp-{name}": pa.timestamp(unit, tz="UTC") for name, unit in units.items()}
    local = {f"local-timestamp-{name}": pa.timestamp(unit) for name, unit in units.items()}
    return {
        "date": pa.date32(),
        "time-millis": pa.time32("ms"),
        "time-micros": pa.time64("us"),
        **stamps,
        **local,
    }


def _decimals(array: Any, target: Any) -> Any:
    """Numbers of any length, big-endian, as numbers of one length, little-endian; they are known to fit."""
    edges, content = _bytes(array)
    lengths, ends = np.diff(edges), edges[1:]
    words = np.zeros((len(array), _WORD if pa.types.is_decimal128(target) else 2 * _WORD), np.uint8)
    some = np.flatnonzero(lengths)
    words[some[content[edges[:-1][some]] >= 0x80]] = 0xFF
    for place in range(words.shape[1]):
        mine = np.flatnonzero(lengths > place)
        words[mine, place] = content[ends[mine] - 1 - place]
    return _of_words(words, array, target)


def _fixed(array: Any, target: Any) -> Any:
    """Bytes of one length. Where there are none, the group around them is null; a cast would stumble over that."""
    edges, content = _bytes(array)
    lengths, size = np.diff(edges), target.byte_width
    if not array.null_count and (lengths == size).all():
        return _of_words(content[edges[0] : edges[-1]], array, target)
    words = np.zeros((len(array), size), np.uint8)
    there = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else True
    mine = np.flatnonzero((lengths > 0) & there)
    words[mine] = content[edges[mine, None] + np.arange(size)]
    return _of_words(words, array, target)


def _bytes(array: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the bytes of each value begin (and the last ones end), and all bytes."""
    _, offsets, data = array.buffers()
    edges = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return edges, np.frombuffer(data if data else b"\0", np.uint8)


def _of_words(words: NDArray[np.uint8], array: Any, target: Any) -> Any:
    bitmap = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(target, len(array), [bitmap, pa.py_buffer(words)])


def _mask(array: Any, column: ColumnType) -> Any:
    """Marks of nulls; None in a required column, as in `_required`."""
    return array.is_null() if array.null_count and column.null_at is not None else None


def _group(column: ColumnType, inner: list[Column], names: tuple[str, ...]) -> Column:
    fields = [part.field(name) for part, name in zip(inner, names, strict=True)]
    plains = [(name, part.plain) for part, name in zip(inner, names, strict=True) if part.plain is not None]

    def dress(array: Any) -> Any:
        parts = [part.dress(array.field(i)) for i, part in enumerate(inner)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=_mask(array, column))

    def plain(value: Any) -> Any:
        return None if value is None else {**value, **{name: change(value[name]) for name, change in plains}}

    return Column(
        pa.struct(fields),
        column.null_at is not None,
        pa.struct([pa.field(name, part.bare) for part, name in zip(inner, names, strict=True)]),
        dress,
        by_polars=all(part.by_polars for part in inner),
        plain=plain if plains else None,
    )


def _list(column: ColumnType) -> Column:
    item = column_of(column.inner[0])
    kind = pa.large_list(item.field("item"))
    change = item.plain

    def dress(array: Any) -> Any:
        return pa.LargeListArray.from_arrays(
            array.offsets, item.dress(array.values), type=kind, mask=_mask(array, column)
        )

    def plain(value: Any) -> Any:
        return None if value is None else [change(part) for part in value]  # type: ignore[misc]  # only if there is one

    bare = pa.large_list(pa.field("item", item.bare))
    return Column(kind, column.null_at is not None, bare, dress, item.by_polars, None if change is None else plain)


def _map(column: ColumnType) -> Column:
    item = column_of(column.inner[0])
    kind = pa.map_(pa.string(), item.field("value"))
    change = item.plain or _same

    def dress(array: Any) -> Any:
        values = item.dress(array.items)
        return pa.MapArray.from_arrays(array.offsets, array.keys, values, type=kind, mask=_mask(array, column))

    def plain(value: Any) -> Any:
        return None if value is None else [(name, change(part)) for name, part in value.items()]

    return Column(
        kind, column.null_at is not None, pa.map_(pa.string(), item.bare), dress, by_polars=False, plain=plain
    )


def _union(column: ColumnType) -> Column:
    """What `ingest.tables` makes records of one field, `b<number>_<index>`, from the branches of a union."""
    if not column.inner:
        return Column(pa.null(), True, pa.null(), _same, by_polars=False)
    if len(column.inner) == 1:
        only = column_of(column.inner[0])
        change = only.plain or _same
        return dataclasses.replace(only, by_polars=False, plain=lambda value: change(value["value"]))
    members = [column_of(dataclasses.replace(inner, null_at=0)) for inner in column.inner]
    changes = [member.plain or _same for member in members]
    names = tuple(f"member{i}" for i in range(len(members)))
    group = _group(column, members, names)

    def plain(value: Any) -> Any:
        if value is None:
            return None
        branch, held = value
        index = int(branch.rpartition("_")[2])
        return {names[index]: changes[index](held["value"])}

    return dataclasses.replace(group, by_polars=False, plain=plain)
