"""Bounds of Avro schemas: what a text of a few lines must not ask for.

A name may stand in many places, so forty short records that each hold the one before twice describe 2^40 parts. Where
every part takes a byte, the end of the datum ends the reading. Where parts take none (records of nulls), or do not come
from the datum at all (defaults), nothing ends it; and a chain of records without end overflows the stack of a reader
written in C, which takes the process down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastavro.schema import SchemaParseException

MAX_LEVELS = 128
"""Types in each other, by definition or by name; as deep as the rest of the package looks into a schema."""

MAX_EMPTY_VALUES = 1_000
"""Values (nulls, empty records) that a type may hold whose datum takes no byte."""

MAX_EMPTY_IN_ITEMS = 16
"""The same for the items of an array, of which a few bytes may claim tens of thousands."""

MAX_DEFAULTS = 65_536
"""Values, with the characters of texts, that all defaults of a record may come to, records inside them spelled out."""

_PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_RECORDS = ("record", "error")


def check_bounds(parsed: Any) -> None:
    """See that a schema keeps within the bounds.

    Args:
        parsed: by fastavro, so that every name is a full one.

    Raises:
        SchemaParseException: it does not; the text names the type, the bound, and what to do.
    """
    named = {definition["name"]: definition for definition in _definitions(parsed)}
    shapes = _Shapes(named)
    shapes.of(parsed, frozenset(), 1)
    defaults = _Defaults(named)
    for definition in named.values():
        if definition["type"] in _RECORDS:
            defaults.check(definition)


def _definitions(schema: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            if "name" in part:
                yield part
            waiting += [field["type"] for field in part.get("fields", ())]
            waiting += [part[key] for key in ("items", "values") if key in part]


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a type lies on the wire.

    Attributes:
        levels: types in each other, itself included.
        empty: values of a datum without bytes; None where a datum takes a byte at least.
    """

    levels: int = 1
    empty: int | None = None


class _Shapes:
    """Looks at each named type once, in however many places it stands."""

    def __init__(self, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._named = named
        self._known: dict[str, _Shape] = {}
        self._open: set[str] = set()

    def of(self, schema: Any, within: frozenset[str], depth: int) -> _Shape:
        """The shape of a type.

        Args:
            schema: the type.
            within: records that can't be left but through this type: no union or collection lies between.
            depth: how deep it lies.
        """
        if depth > MAX_LEVELS:
            raise _too_deep()
        if isinstance(schema, list):
            return self._around([self.of(branch, frozenset(), depth + 1) for branch in schema])
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _Shape(empty=1 if schema == "null" else None)
            schema = self._named[schema]
        kind = schema["type"]
        if kind == "array":
            item = self.of(schema["items"], frozenset(), depth + 1)
            _check_items(item)
            return self._around([item])
        if kind == "map":
            return self._around([self.of(schema["values"], frozenset(), depth + 1)])
        if kind in _RECORDS:
            return self._record(schema, within, depth)
        return _Shape(empty=1 if kind == "null" or schema.get("size") == 0 else None)

    def _around(self, inner: Sequence[_Shape]) -> _Shape:
        return _Shape(levels=1 + max((shape.levels for shape in inner), default=0))

    def _record(self, schema: Mapping[str, Any], within: frozenset[str], depth: int) -> _Shape:
        name = schema["name"]
        known = self._known.get(name)
        if known is not None:
            return known
        if name in within:
            raise SchemaParseException(
                f"record {name} always holds a record of its own type, so no datum of it ends; "
                "make the field that leads back a union with null, or an array"
            )
        if name in self._open:  # there is a union or a collection on the way back, and that takes a byte
            return _Shape(levels=0)
        self._open.add(name)
        inner = [self.of(field["type"], within | {name}, depth + 1) for field in schema["fields"]]
        self._open.discard(name)
        found = _Shape(levels=self._around(inner).levels, empty=_empty(inner))
        if found.levels > MAX_LEVELS:
            raise _too_deep()
        if found.empty is not None and found.empty > MAX_EMPTY_VALUES:
            raise SchemaParseException(
                f"record {name} takes no byte and holds more than {MAX_EMPTY_VALUES} values (nulls, empty records), "
                "which no datum ever ends; leave such fields out"
            )
        self._known[name] = found
        return found


def _empty(fields: Sequence[_Shape]) -> int | None:
    total = 1
    for field in fields:
        if field.empty is None:
            return None
        total += field.empty
    return total


def _check_items(item: _Shape) -> None:
    if item.empty is not None and item.empty > MAX_EMPTY_IN_ITEMS:
        raise SchemaParseException(
            f"an array has items that take no byte and hold more than {MAX_EMPTY_IN_ITEMS} values (nulls, empty "
            "records): a few bytes could claim millions of them; give the items a field that takes a byte"
        )


def _too_deep() -> SchemaParseException:
    return SchemaParseException(f"types lie in each other more than {MAX_LEVELS} levels deep; flatten the schema")


class _Defaults:
    """Weighs defaults as an encoder spells them out: fields that a default leaves out have defaults of their own."""

    def __init__(self, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._named = named
        self._known: dict[tuple[str, str], int] = {}
        self._open: set[tuple[str, str]] = set()

    def check(self, record: Mapping[str, Any]) -> None:
        """Raise SchemaParseException if the defaults of a record come to too much."""
        self._missing(record, {})

    def _missing(self, record: Mapping[str, Any], given: Mapping[str, Any]) -> int:
        total = 0
        for field in record["fields"]:
            if field["name"] not in given and "default" in field:
                total += self._field(record["name"], field)
                if total > MAX_DEFAULTS:
                    raise SchemaParseException(
                        f"the defaults of record {record['name']} come to more than {MAX_DEFAULTS} values and "
                        f"characters (reached at field {field['name']!r}, records inside them spelled out); "
                        "give smaller defaults, such as null"
                    )
        return total

    def _field(self, record: str, field: Mapping[str, Any]) -> int:
        key = (record, field["name"])
        if key in self._open:
            raise SchemaParseException(
                f"the default of field {field['name']!r} of record {record} holds itself without end; "
                "name in it the field that leads back"
            )
        if key not in self._known:
            self._open.add(key)
            self._known[key] = self._weight(field["type"], field["default"])
            self._open.discard(key)
        return self._known[key]

    def _weight(self, schema: Any, value: Any) -> int:
        if isinstance(schema, list):
            return self._union(schema, value)
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            schema = self._named[schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(value, Mapping) and kind in _RECORDS:
            given = sum(self._weight(field["type"], value[field["name"]]) for field in _given(schema, value))
            return 1 + given + self._missing(schema, value)
        if isinstance(value, Mapping) and kind == "map":
            return 1 + sum(len(key) + self._weight(schema["values"], item) for key, item in value.items())
        if isinstance(value, list) and kind == "array":
            return 1 + sum(self._weight(schema["items"], item) for item in value)
        return 1 + len(value) if isinstance(value, str) else 1

    def _union(self, branches: Sequence[Any], value: Any) -> int:
        """All records are tried, whichever fits best, but what comes behind a fitting type of another kind is not."""
        total = 1
        for branch in branches:
            named = self._named.get(branch) if isinstance(branch, str) else branch
            kind = branch if named is None else named["type"]
            if kind in _RECORDS and isinstance(value, Mapping):
                total += self._weight(branch, value)
            elif (kind == "map" and isinstance(value, Mapping)) or (kind == "array" and isinstance(value, list)):
                return total + self._weight(branch, value)
        return total + (len(value) if isinstance(value, str) else 0)


def _given(record: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (field for field in record["fields"] if field["name"] in value)
