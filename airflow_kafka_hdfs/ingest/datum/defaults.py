"""Defaults of a schema's fields, encoded: what has to stand behind a datum when a newer schema has more fields."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from airflow_kafka_hdfs.exceptions import UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.datum.schema import (
    MAX_NESTING,
    NO_DEFAULT,
    Enum,
    Field,
    Fixed,
    Items,
    Node,
    Primitive,
    Record,
    Union,
)

MAX_DEFAULT = 1 << 20
"""Bytes of a default; records that each hold the one before twice would come to any number of them."""

_BITS = {"int": 31, "long": 63}
_FLOATS = {"float": "<f", "double": "<d"}


def encode_default(field: Field) -> bytes:
    """A field's default as Avro writes it.

    Raises:
        UnusableSchemaError: it has none, or one that does not fit its type.
    """
    try:
        return _Defaults().of(field, 0)
    except _MisfitError as error:
        raise UnusableSchemaError(f"default of field {field.name!r}: {error}") from None


class _MisfitError(Exception):
    """A JSON value does not fit a type."""


class _Defaults:
    """Encodes each field's default once, in however many places its record stands."""

    def __init__(self) -> None:
        self._known: dict[int, bytes | _MisfitError] = {}

    def of(self, field: Field, depth: int) -> bytes:
        if field.default is NO_DEFAULT:
            raise _MisfitError(f"field {field.name!r} has none")
        key = id(field)
        if key not in self._known:
            self._known[key] = _MisfitError("it holds itself without end")
            try:
                self._known[key] = self._encode(field.node, field.default, depth)
            except _MisfitError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, _MisfitError):
            raise found
        return found

    def _encode(self, node: Node, value: Any, depth: int) -> bytes:
        if depth > MAX_NESTING:
            raise _MisfitError(f"it is nested deeper than {MAX_NESTING} levels")
        match node:
            case Primitive():
                return _primitive(node.name, value)
            case Fixed(size):
                data = _latin(value, "fixed")
                if len(data) != size:
                    raise _MisfitError(f"{len(data)} bytes for a fixed of {size}")
                return data
            case Enum(symbols):
                if value not in symbols:
                    raise _MisfitError(f"{value!r:.60} is none of the symbols")
                return encode_long(symbols.index(value))
            case Union(branches):
                return self._union(branches, value, depth)
            case Items():
                return self._items(node, value, depth)
            case Record():
                return self._record(node, value, depth)

    def _union(self, branches: tuple[Node, ...], value: Any, depth: int) -> bytes:
        """The first branch that fits: by Avro up to 1.11 it has to be the first of all, since 1.12 any will do."""
        for index, branch in enumerate(branches):
            try:
                return encode_long(index) + self._encode(branch, value, depth + 1)
            except _MisfitError:
                continue
        raise _MisfitError(f"{value!r:.60} fits no branch of the union")

    def _items(self, node: Items, value: Any, depth: int) -> bytes:
        item, deeper = node.item, depth + 1
        if node.keyed and isinstance(value, Mapping):
            parts = [encode_bytes(str(key).encode()) + self._encode(item, held, deeper) for key, held in value.items()]
        elif isinstance(value, list) and not node.keyed:
            parts = [self._encode(item, held, deeper) for held in value]
        else:
            raise _MisfitError(f"{value!r:.60} is no {'map' if node.keyed else 'array'}")
        return _joined([encode_long(len(parts)), *parts, b"\x00"]) if parts else b"\x00"

    def _record(self, node: Record, value: Any, depth: int) -> bytes:
        if not isinstance(value, Mapping):
            raise _MisfitError(f"{value!r:.60} is no record")
        return _joined(
            [
                self._encode(field.node, value[field.name], depth + 1)
                if field.name in value
                else self.of(field, depth + 1)
                for field in node.fields
            ]
        )


def _joined(parts: list[bytes]) -> bytes:
    if sum(map(len, parts)) > MAX_DEFAULT:
        raise _MisfitError(f"it comes to more than {MAX_DEFAULT} bytes, records inside it spelled out")
    return b"".join(parts)


def _primitive(name: str, value: Any) -> bytes:
    """The encoding of a JSON value, checked against its type."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "null" and value is None:
        return b""
    if name == "boolean" and isinstance(value, bool):
        return bytes([value])
    if name in _BITS and is_number and value % 1 == 0 and -(2 ** _BITS[name]) <= value < 2 ** _BITS[name]:
        return encode_long(int(value))
    if name in _FLOATS and is_number:
        try:
            return struct.pack(_FLOATS[name], value)
        except (OverflowError, struct.error):
            raise _MisfitError(f"{value!r:.60} is too large for a {name}") from None
    if name == "string" and isinstance(value, str):
        try:
            return encode_bytes(value.encode())
        except UnicodeEncodeError:
            raise _MisfitError("a text with half of a character") from None
    if name == "bytes":
        return encode_bytes(_latin(value, name))
    raise _MisfitError(f"{value!r:.60} is no {name}")


def _latin(value: Any, name: str) -> bytes:
    """Bytes stand in JSON as text of the code points 0 to 255."""
    if not isinstance(value, str):
        raise _MisfitError(f"{value!r:.60} is no text, as a default of {name} must be")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise _MisfitError(f"{value!r:.60} has characters beyond U+00FF") from None
