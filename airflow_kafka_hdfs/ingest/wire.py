"""How records of the commit log are written: JSON with a format number, sorted keys and a digest of their own body.

The fields of a record's dataclass are its JSON; `to_plain` and `from_plain` derive the mapping from the type hints, so
that no record spells its fields three times.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import operator
import types
import typing
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from airflow_kafka_hdfs.exceptions import CorruptStateError, NewerFormatError
from airflow_kafka_hdfs.ingest.ranges import Ranges

T = TypeVar("T")

FORMAT = 1
"""Format that this version writes; every older one is read, a newer one is refused."""


def encode(kind: str, record: object) -> bytes:
    """One record as bytes.

    Args:
        kind: what kind of record it is (`plan`, `manifest`, `commit`, …).
        record: a dataclass of `records` or `plans`.
    """
    body = {**to_plain(record), "record": kind, "format": FORMAT}
    data = _dump(body)
    # The digest is one more field in the order of names; `format` and `record` stand behind it always.
    behind = f'"{min(name for name in body if name > _DIGEST)}":'.encode()
    at = data.find(behind)
    if data.find(behind, at + 1) >= 0:  # a name or text further in looks the same
        before = _dump({name: value for name, value in body.items() if name < _DIGEST})
        at = len(before) if len(before) > len(b"{}") else 1
    return b"%b%b,%b\n" % (data[:at], _digest_field(bytes_digest(data)), data[at:])


def decode(path: str, kind: str, cls: type[T], data: bytes) -> T:
    """A record from its bytes.

    Args:
        path: where it was found, for the error text.
        kind: what it must be.
        cls: its dataclass.
        data: the file's content.

    Raises:
        CorruptStateError: no JSON, a digest that does not fit, another kind of record, missing or odd fields.
        NewerFormatError: written by a newer version of this package.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptStateError(path, f"not a JSON record ({len(data)} bytes): {error}") from error
    if not isinstance(body, dict):
        raise CorruptStateError(path, f"a record is a JSON object, found {type(body).__name__}")
    version = body.get("format")
    if not isinstance(version, int) or isinstance(version, bool):
        raise CorruptStateError(path, f"its format is {version!r}, expected a whole number")
    if version > FORMAT:
        raise NewerFormatError(
            f"{path} has format {version}, this version of airflow-provider-kafka-hdfs reads up to {FORMAT}; "
            "upgrade the package on every worker before it runs on this state"
        )
    digest = body.pop(_DIGEST, None)
    if not _fits(digest, data) and digest != canonical_digest(body):
        raise CorruptStateError(path, f"digest {digest!r} does not fit the content")
    if body.pop("record", None) != kind:
        raise CorruptStateError(path, f"expected a record of kind {kind!r}")
    try:
        return from_plain(cls, body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptStateError(path, f"{type(error).__name__} in a {kind} record: {error}") from error


_DIGEST = "digest"


def _digest_field(digest: str) -> bytes:
    return f'"{_DIGEST}":"{digest}"'.encode()


def _fits(digest: object, data: bytes) -> bool:
    """Whether a digest is that of a record as `encode` writes it; the same JSON in other spelling has to be dumped."""
    rest = data.removesuffix(b"\n").replace(_digest_field(str(digest)) + b",", b"", 1)
    return digest == bytes_digest(rest)


def canonical_digest(value: object) -> str:
    """`sha256:` digest of plain JSON values, equal for equal values."""
    return "sha256:" + hashlib.sha256(_dump(value)).hexdigest()


def bytes_digest(data: bytes) -> str:
    """`sha256:` digest of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def to_plain(value: Any) -> Any:
    """A record as plain JSON values; fields in order, ranges as lists of pairs."""
    kind: Any = type(value)
    # Nearly every value of a record is plain: a plan of 10,000 partitions has a million.
    return value if kind in _PLAIN else _writer(kind)(value)


def from_plain(cls: type[T], body: Mapping[str, Any]) -> T:
    """The inverse of `to_plain`; names that this version does not know are ignored, missing ones take defaults.

    Raises:
        KeyError, TypeError, ValueError: the values do not fit the dataclass.
    """
    read = _reader(typing.cast("Any", cls))
    return typing.cast("T", read(body))


_PLAIN = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _writer(kind: Any) -> Callable[[Any], Any]:
    """A function that makes plain JSON values of the values of a type."""
    if kind is Ranges:
        return Ranges.to_json
    if dataclasses.is_dataclass(kind):
        return _dataclass_writer(kind)
    if issubclass(kind, StrEnum):
        return str
    if issubclass(kind, Mapping):
        return lambda value: {str(key): to_plain(item) for key, item in value.items()}
    if issubclass(kind, tuple | list):
        return lambda value: [item if type(item) in _PLAIN else to_plain(item) for item in value]
    return lambda value: value


def _dataclass_writer(cls: Any) -> Callable[[Any], Any]:
    names = _fields(cls)
    values = operator.attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]

    def write(record: Any) -> dict[str, Any]:
        found = zip(names, values(record), strict=True)
        return {name: item if type(item) in _PLAIN else to_plain(item) for name, item in found}

    return write


@functools.cache
def _fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    """A function that builds a value of a type hint from plain JSON values."""
    if hint is Ranges:
        return _read_ranges
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass_reader(hint)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _enum_reader(hint)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        (inner,) = (arg for arg in args if arg is not type(None))
        read = _reader(inner)
        return lambda value: None if value is None else read(value)
    if origin is tuple and args[-1] is Ellipsis:
        item = _reader(args[0])
        return lambda value: tuple([item(element) for element in value])
    if origin is tuple:
        readers = [_reader(arg) for arg in args]
        return lambda value: tuple([read(element) for read, element in zip(readers, value, strict=True)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = args[0], _reader(args[1])
        return lambda value: {key(name): item(element) for name, element in value.items()}
    if hint in _LEAVES:
        return _leaf_reader(hint)
    return lambda value: value


def _enum_reader(hint: type[StrEnum]) -> Callable[[Any], Any]:
    members: dict[Any, StrEnum] = {member.value: member for member in hint}

    def read(value: Any) -> StrEnum:
        found = members.get(value)
        return hint(value) if found is None else found

    return read


def _read_ranges(value: Any) -> Ranges:
    found = Ranges.of(value)
    if found.spans and not 0 <= found.spans[0][0] <= found.spans[-1][1] <= _LARGEST_OFFSET:
        raise ValueError(f"offsets are whole numbers from 0 to {_LARGEST_OFFSET}, got {found}")
    return found


_LARGEST_OFFSET = 2**63 - 1
_LEAVES: Mapping[Any, tuple[type, ...]] = {str: (str,), int: (int,), bool: (bool,), float: (float, int)}


def _leaf_reader(hint: type) -> Callable[[Any], Any]:
    """A record that is signed as ours and holds a text in the place of a number must not fail far from its path."""
    allowed = _LEAVES[hint]

    def read(value: Any) -> Any:
        if type(value) not in allowed and (isinstance(value, bool) or not isinstance(value, allowed)):
            raise TypeError(f"{value!r:.40} where {hint.__name__} is expected")
        return value

    return read


def _dataclass_reader(cls: type) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(cls)
    # Most fields are as JSON has them: no call for those.
    fields = {name: (_LEAVES.get(hints[name], ()), _reader(hints[name])) for name in _fields(cls)}

    def read(body: Mapping[str, Any]) -> Any:
        values = {}
        for name, value in body.items():
            field = fields.get(name)
            if field is not None:
                values[name] = value if type(value) in field[0] else field[1](value)
        return cls(**values)

    return read


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")
