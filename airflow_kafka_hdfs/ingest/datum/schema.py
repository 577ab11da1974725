"""Avro writer schemas, given as plain JSON values, as a tree of what stands on the wire.

Names are resolved once; docs and aliases have no part in the encoding and are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airflow_kafka_hdfs.exceptions import UnusableSchemaError

MAX_NESTING = 128
"""Levels of a schema that can be read; deeper ones go the way of decoding."""

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_SIZES = {"null": 0, "float": 4, "double": 8}
_MAX_SIZE = 2**31 - 1
_UNKNOWN = -1
NO_DEFAULT = object()


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type by name, with its logical type if it has one, and the digits of a decimal."""

    name: str
    logical: str = ""
    digits: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes; `digits` are those of a decimal."""

    size: int
    digits: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One of several symbols."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """One of several branches."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """An array, or with `keyed` a map."""

    item: Node
    keyed: bool


class Field(NamedTuple):
    """A field of a record; `default` is `NO_DEFAULT` or a JSON value."""

    name: str
    node: Node
    default: Any


@dataclass(slots=True, eq=False)
class Record:
    """A record; the same object wherever its name stands, so that recursion is a cycle of objects.

    Attributes:
        uses: how often it stands in the schema, its definition included.
        size: what `constant_size` found.
    """

    name: str
    fields: list[Field] = field(default_factory=list)
    uses: int = 1
    size: int | None = _UNKNOWN


Node = Primitive | Fixed | Enum | Union | Items | Record


def read_schema(schema: Any) -> Node:
    """Tree of a parsed schema.

    Args:
        schema: a name, a mapping or a list, as JSON has them.

    Raises:
        UnusableSchemaError: it is no Avro schema, or nested deeper than `MAX_NESTING`.
    """
    return _Reader().read(schema, "", 0)


class _Reader:
    def __init__(self) -> None:
        self.named: dict[str, Node] = {}

    def read(self, schema: Any, namespace: str, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise UnusableSchemaError(f"schema is nested deeper than {MAX_NESTING} levels")
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return Union(tuple(self.read(branch, namespace, depth + 1) for branch in schema))
        if isinstance(schema, Mapping):
            return self._complex(schema, namespace, depth)
        raise UnusableSchemaError(f"schema: got {schema!r:.80}; allowed: a type name, a mapping or a list of types")

    def _by_name(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        node = self.named.get(_full(name, namespace)) or self.named.get(name)
        if node is None:
            raise UnusableSchemaError(f"schema: type {name!r} is used, but not defined before")
        if isinstance(node, Record):
            node.uses += 1
        return node

    def _complex(self, schema: Mapping[str, Any], namespace: str, depth: int) -> Node:
        kind = schema.get("type")
        if kind in ("record", "error"):
            return self._record(schema, namespace, depth)
        if kind == "array":
            return Items(self.read(_need(schema, "items"), namespace, depth + 1), keyed=False)
        if kind == "map":
            return Items(self.read(_need(schema, "values"), namespace, depth + 1), keyed=True)
        if kind == "enum":
            symbols = _need(schema, "symbols")
            if not isinstance(symbols, list):
                raise UnusableSchemaError(f"enum {schema.get('name')!r}: symbols is {symbols!r:.80}, not a list")
            return self._name(_full_name(schema, namespace), Enum(tuple(map(str, symbols))))
        if kind == "fixed":
            size = _need(schema, "size")
            if not isinstance(size, int) or not 0 <= size <= _MAX_SIZE:
                raise UnusableSchemaError(f"fixed {schema.get('name')!r}: size is {size!r:.80}, not 0 … {_MAX_SIZE}")
            return self._name(_full_name(schema, namespace), Fixed(size, _digits(schema)))
        if kind is None:
            raise UnusableSchemaError(f"schema: no 'type' in {schema!r:.80}")
        if kind in PRIMITIVES:
            return Primitive(kind, str(schema.get("logicalType", "")), _digits(schema))
        return self.read(kind, namespace, depth + 1)

    def _record(self, schema: Mapping[str, Any], namespace: str, depth: int) -> Record:
        name = _full_name(schema, namespace)
        record = Record(name)
        self._name(name, record)
        inner = name.rpartition(".")[0]
        fields = _need(schema, "fields")
        if not isinstance(fields, list):
            raise UnusableSchemaError(f"record {name}: fields is {fields!r:.80}, not a list")
        for entry in fields:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
                raise UnusableSchemaError(f"record {name}: field {entry!r:.80} has no name")
            node = self.read(_need(entry, "type"), inner, depth + 1)
            record.fields.append(Field(entry["name"], node, entry.get("default", NO_DEFAULT)))
        return record

    def _name(self, name: str, node: Node) -> Node:
        if name in self.named:
            raise UnusableSchemaError(f"schema: type {name!r} is defined twice")
        self.named[name] = node
        return node


def _digits(schema: Mapping[str, Any]) -> tuple[int, int] | None:
    """Precision and scale of a decimal; None for what is none, or says them wrongly and is to be taken as bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or type(precision) is not int or type(scale) is not int:
        return None
    return (precision, scale) if precision > 0 and 0 <= scale <= precision else None


def _need(schema: Mapping[str, Any], key: str) -> Any:
    if key not in schema:
        raise UnusableSchemaError(f"schema: {key!r} is missing in {dict(schema)!r:.120}")
    return schema[key]


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = _need(schema, "name")
    if not isinstance(name, str):
        raise UnusableSchemaError(f"schema: name is {name!r:.80}, not a text")
    own = schema.get("namespace")
    return _full(name, own if isinstance(own, str) else namespace).removeprefix(".")


def constant_size(node: Node) -> int | None:
    """Bytes of every datum of a type, None where they differ (or must be looked at, as a boolean must)."""
    match node:
        case Primitive():
            return _SIZES.get(node.name)
        case Fixed():
            return node.size
        case Record():
            if node.size == _UNKNOWN:
                node.size = None  # what holds itself without a union or collection between has no end
                node.size = _record_size(node)
            return node.size
        case _:
            return None


def _record_size(record: Record) -> int | None:
    total = 0
    for _, node, _ in record.fields:
        size = constant_size(node)
        if size is None:
            return None
        total += size
    return total if total <= _MAX_SIZE else None
