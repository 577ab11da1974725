"""Avro datums through fastavro: the reference way that every faster one is tested against.

fastavro is lenient where we must not be, or gives way where it must not; the differences are the reason for most of
the code here:

- bytes behind the datum are an error (`trailing_bytes`), and so is a value that only nearly fits when encoding;
- logical types are left alone: a `timestamp-millis` of the year 300000 has no datetime and is still good data;
- a recursive schema lets a few kilobytes of bad data nest deep enough to overflow the stack of the C reader, which
  takes the process down (seen at 8,000 levels); large datums of such schemas go through its Python reader, which
  stops at Python's recursion limit;
- it takes schemas that no datum could ever be read or written with: see `schema_bounds`.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
from fastavro._read_py import schemaless_reader as careful_reader
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType, to_parsing_canonical_form
from fastavro.validation import ValidationError, validate

from airflow_kafka_hdfs.adapters.schema_bounds import check_bounds
from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ports.schemas import AvroCodec

# Each level of nesting takes at least one byte, and 4,000 levels were seen to do no harm.
_SAFE_NESTING_BYTES = 2_000

_NAMED = ("record", "error", "enum", "fixed")
_MAX_FIXED = 2**31 - 1
_OF_FASTAVRO = ("__fastavro_parsed", "__named_schemas")
"""Marks of a schema that fastavro has looked at. In a text that comes from outside nobody has."""

_NO_NAME = re.compile(r'["\\\x00-\x1f\x7f-\x9f\ud800-\udfff]')
_ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-fA-F]+>")

_BAD_SCHEMA = (
    SchemaParseException,
    UnknownType,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)
_BAD_DATUM = (EOFError, IndexError, KeyError, ValueError, OverflowError, MemoryError, RecursionError, TypeError)
_BAD_VALUE = (ValidationError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Compiled:
    plain: Any
    parsed: Any
    recursive: bool


class FastavroCodec(AvroCodec):
    """Decodes, encodes and compares; each schema text is parsed once."""

    def __init__(self) -> None:
        self._compiled: dict[str, _Compiled] = {}
        self._canonical: dict[str, str] = {}

    def parse(self, schema: str) -> Any:
        """The schema as plain JSON values, checked. Raises UnusableSchemaError."""
        return json.loads(json.dumps(self._compile(schema).plain))

    def canonical(self, schema: str) -> str:
        """Parsing canonical form. Raises UnusableSchemaError."""
        known = self._canonical.get(schema)
        if known is None:
            try:
                plain = _base_types(self._compile(schema).plain)
                known = json.dumps(plain) if isinstance(plain, str) else to_parsing_canonical_form(plain)
            except _BAD_SCHEMA as error:
                raise _unusable(schema, error) from error
            self._canonical[schema] = known
        return known

    def decode(self, schema: str, data: bytes, reader_schema: str | None = None) -> Any:
        """Decode a datum, resolved to `reader_schema` if that is given.

        Raises:
            DecodeError: `truncated`, `trailing_bytes`, `corrupt` (an index, a length or text that can't be),
                `unresolvable` (good data that the reader's schema has no place for).
            UnusableSchemaError: one of the schemas.
        """
        writer = self._compile(schema)
        reader = None if reader_schema is None else self._compile(reader_schema).parsed
        read: Callable[..., Any] = fastavro.schemaless_reader
        if writer.recursive and len(data) > _SAFE_NESTING_BYTES:
            read = careful_reader
        source = io.BytesIO(data)
        try:
            value = read(source, writer.parsed, reader, return_named_type=True, return_named_type_override=True)
        except SchemaResolutionError as error:
            raise DecodeError("unresolvable", _short(error)) from error
        except _BAD_DATUM as error:
            raise _bad_datum(error, len(data)) from error
        if source.tell() != len(data):
            raise DecodeError("trailing_bytes", f"the datum ends after {source.tell()} of {len(data)} bytes")
        return value

    def encode(self, schema: str, value: Any, *, check: bool = True) -> bytes:
        """Encode one value. Raises DecodeError (`unencodable`), UnusableSchemaError."""
        parsed = self._compile(schema).parsed
        target = io.BytesIO()
        try:
            if check:
                validate(value, parsed, raise_errors=True)
            fastavro.schemaless_writer(target, parsed, value, strict_allow_default=check)
        except _BAD_VALUE as error:
            raise DecodeError("unencodable", _short(error)) from error
        return target.getvalue()

    def _compile(self, schema: str) -> _Compiled:
        known = self._compiled.get(schema)
        if known is None:
            try:
                plain = json.loads(schema)
                _check_shape(plain)
                parsed = fastavro.parse_schema(_base_types(plain), {})
                check_bounds(parsed)
                known = _Compiled(plain, parsed, _is_recursive(plain))
            except _BAD_SCHEMA as error:
                raise _unusable(schema, error) from error
            self._compiled[schema] = known
        return known


def _base_types(schema: Any) -> Any:
    """The schema without logical types, which have no part in the encoding."""
    if isinstance(schema, list):
        return [_base_types(branch) for branch in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in schema.items() if key not in ("logicalType", *_OF_FASTAVRO)}
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _base_types(kept[key])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": _base_types(field["type"])} for field in kept["fields"]]
    return kept


def _check_shape(schema: Any) -> None:
    """What fastavro lets pass although the specification does not. Raises SchemaParseException."""
    if isinstance(schema, list):
        _check_union(schema)
    elif isinstance(schema, Mapping):
        kind = schema.get("type")
        if kind in _NAMED:
            _check_name(schema["name"], f"{kind} {schema['name']!r:.80}")
            _check_name(schema.get("namespace") or "", f"namespace of {kind} {schema['name']!r:.80}")
        if kind in ("record", "error"):
            _check_record(schema)
        elif kind == "fixed" and (type(schema["size"]) is not int or not 0 <= schema["size"] <= _MAX_FIXED):
            raise SchemaParseException(
                f"fixed {schema['name']!r:.80}: size {schema['size']!r:.80}, not 0 … {_MAX_FIXED}"
            )
        for key in ("type", "items", "values"):
            if not isinstance(schema.get(key), str | None):
                _check_shape(schema[key])
    elif not isinstance(schema, str):
        raise SchemaParseException(f"{type(schema).__name__} where a type is expected")


def _check_union(branches: list[Any]) -> None:
    if not branches:
        raise SchemaParseException("a union without branches")
    if any(isinstance(branch, list) for branch in branches):
        raise SchemaParseException("a union directly in a union")
    for branch in branches:
        _check_shape(branch)
    kinds = [branch if isinstance(branch, str) else branch.get("name", branch.get("type")) for branch in branches]
    if len(set(map(str, kinds))) != len(kinds):
        raise SchemaParseException(f"a union with two branches of one type: {kinds}")


def _check_record(schema: Mapping[str, Any]) -> None:
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise SchemaParseException(f"record {schema.get('name')!r} without fields")
    names = [field["name"] for field in fields]
    if len(set(names)) != len(names):
        raise SchemaParseException(f"record {schema.get('name')!r} with two fields of one name")
    for field in fields:
        _check_name(field["name"], f"field {field['name']!r:.80} of record {schema['name']!r:.80}")
        _check_shape(field["type"])


def _check_name(name: Any, what: str) -> None:
    """Names stand in canonical forms as they are: what JSON would escape could pass for another schema's text."""
    if not isinstance(name, str):
        raise SchemaParseException(f"{what}: a name that is no text")
    if _NO_NAME.search(name):
        raise SchemaParseException(f"{what}: a name with quotes, backslashes or control characters")


def _is_recursive(schema: Any, inside: frozenset[str] = frozenset(), namespace: str = "") -> bool:
    """Whether a named type is used within its own definition."""
    if isinstance(schema, str):
        return _full_name(schema, namespace) in inside or schema in inside
    if isinstance(schema, list):
        return any(_is_recursive(branch, inside, namespace) for branch in schema)
    kind = schema["type"]
    if kind in ("record", "error"):
        name = _full_name(schema["name"], schema.get("namespace", namespace))
        namespace = name.rpartition(".")[0]
        return any(_is_recursive(field["type"], inside | {name}, namespace) for field in schema["fields"])
    inner = schema.get("items", schema.get("values", None if isinstance(kind, str) else kind))
    return inner is not None and _is_recursive(inner, inside, namespace)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _bad_datum(error: Exception, size: int) -> DecodeError:
    # A number that breaks off is met as an IndexError of the buffer, a bad index as one of a list.
    cut = isinstance(error, EOFError) or (isinstance(error, IndexError) and "string index" in str(error))
    if cut:
        return DecodeError("truncated", f"the datum does not end within its {size} bytes: {_short(error)}")
    if isinstance(error, RecursionError):
        return DecodeError("corrupt", "nested too deeply")
    return DecodeError("corrupt", _short(error))


def _unusable(schema: str, error: Exception) -> UnusableSchemaError:
    start = schema if len(schema) <= 200 else schema[:200] + "…"
    return UnusableSchemaError(f"no usable Avro schema: {_short(error)}; the schema: {start}")


def _short(error: Exception) -> str:
    # A place in memory is another one in each attempt; the same datum gets the same words.
    text = " ".join(_ADDRESS.sub("the datum", str(error)).split())
    named = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return named if len(named) <= 300 else named[:300] + "…"
