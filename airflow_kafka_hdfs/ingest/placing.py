"""The folder of a record: `{topic}/{fields}/{time}`, where fields are `name=value` elements as Hive writes them.

Whatever a topic or a value is called, the folder lies below the destination: each of them becomes one escaped element
that can be read back. A null value is written as Hive's default partition, an empty text as `name=`, and the text
`null` as `name=null`: three folders, three meanings. A text that looks like the default partition differs from it,
since escaping encodes a leading underscore.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from airflow_kafka_hdfs.exceptions import ConfigError, DecodeError
from airflow_kafka_hdfs.ingest.eventtime import unwrapped
from airflow_kafka_hdfs.ingest.layout import escape, unescape
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.ingest.timepath import TimeFolder, TimePath

NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
DEFAULT_TEMPLATE = "{topic}/{fields}/{time}"
MAX_ELEMENT_BYTES = 255
_CACHED_TEMPLATES = 100

_PLACEHOLDERS = ("topic", "fields", "time")
_ALLOWED_TEMPLATE = "a relative path of {topic}, {fields}, {time} and plain names, such as " + DEFAULT_TEMPLATE
_PART = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_PLAIN = re.compile(r"[A-Za-z0-9._\-~=@, /]*")
_TYPES = "text, whole number, boolean, enum, date, UUID"


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A parsed `path_template`; make it with `parse_template`.

    Attributes:
        text: as it was given.
        parts: (placeholder or None, literal).
    """

    text: str
    parts: tuple[tuple[str | None, str], ...]

    @property
    def has_fields(self) -> bool:
        """Whether partition fields have a place in it."""
        return any(name == "fields" for name, _ in self.parts)

    def folder(self, *, topic: str, fields: str, time: str) -> str:
        """The folder, from elements that are escaped already; empty `fields` leave no empty element."""
        values = {"topic": topic, "fields": fields, "time": time}
        text = "".join(literal if name is None else values[name] for name, literal in self.parts)
        return text if fields or not self.has_fields else "/".join(element for element in text.split("/") if element)


def parse_template(text: str, key: str = "path_template") -> PathTemplate:
    """Read a template.

    Raises:
        ConfigError: no `{time}`, an unknown placeholder, `{fields}` that is only a part of an element, an absolute
            path, or an element that is empty, `.`, `..` or invisible to Hadoop readers.
    """
    if not isinstance(text, str):
        raise ConfigError(key, text, _ALLOWED_TEMPLATE, "it is empty, or no text")
    return _parsed(text, key)


@functools.lru_cache(_CACHED_TEMPLATES)
def _parsed(text: str, key: str) -> PathTemplate:
    trimmed = text.rstrip("/")
    parts: list[tuple[str | None, str]] = []
    at = 0
    for match in _PART.finditer(trimmed):
        if match.start() != at:
            break
        at = match.end()
        name, literal = match.groups()
        if name is not None and name not in _PLACEHOLDERS:
            near = difflib.get_close_matches(name, _PLACEHOLDERS, n=1)
            raise ConfigError(key, text, _ALLOWED_TEMPLATE, f"did you mean {{{near[0]}}}?" if near else "")
        parts.append((name, literal or ""))
    if at != len(trimmed) or not parts:
        raise ConfigError(key, text, _ALLOWED_TEMPLATE, "it is empty, or a brace stands alone")
    template = PathTemplate(text, tuple(parts))
    _check_template(template, trimmed, key)
    return template


def _check_template(template: PathTemplate, text: str, key: str) -> None:
    if not any(name == "time" for name, _ in template.parts):
        raise ConfigError(key, template.text, _ALLOWED_TEMPLATE, "without {time} all times would share a folder")
    for _, literal in template.parts:
        if not _PLAIN.fullmatch(literal):
            raise ConfigError(key, template.text, _ALLOWED_TEMPLATE, f"{literal!r} can't stand in every store's paths")
    for element in text.split("/"):
        if element[:1] in ("", ".", "_"):
            hint = f"path element {element!r} is empty, or begins with '.' or '_' and is invisible to Hadoop readers"
            raise ConfigError(key, template.text, _ALLOWED_TEMPLATE, hint)
        if "{fields}" in element and element != "{fields}":
            raise ConfigError(key, template.text, _ALLOWED_TEMPLATE, "{fields} brings elements of its own")


def parse_fields(names: Iterable[str], key: str = "partition_fields") -> tuple[str, ...]:
    """Check names of partition fields.

    Raises:
        ConfigError: a single text instead of a list, an empty name or part of one, or a name that stands twice.
    """
    allowed = "a list of different field names, dotted for nested ones"
    if isinstance(names, str):
        raise ConfigError(key, names, allowed, f"write [{names!r}]")
    result: list[str] = []
    for name in names:
        if not isinstance(name, str) or not all(name.split(".")):
            raise ConfigError(key, name, allowed)
        if name in result:
            raise ConfigError(key, name, allowed, "it stands twice")
        result.append(name)
    return tuple(result)


def field_element(name: str, value: Any) -> str:
    """The path element of a field, `name=value`.

    Raises:
        DecodeError: `bad_field`: a type that can't name a folder, or an element longer than 255 bytes.
    """
    element = f"{escape(name)}={NULL_VALUE if value is None else escape(_text(name, value))}"
    if len(element) > MAX_ELEMENT_BYTES:
        detail = f"partition field {name!r}: the folder's name has {len(element)} bytes, allowed: {MAX_ELEMENT_BYTES}"
        raise DecodeError(BadReason.BAD_FIELD, detail)
    return element


def read_element(element: str) -> tuple[str, str | None]:
    """Name and value as text of an element made by `field_element`; None for null."""
    name, _, value = element.partition("=")
    return unescape(name), None if value == NULL_VALUE else unescape(value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | UUID):
        return str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise DecodeError(BadReason.BAD_FIELD, f"partition field {name!r} is a {type(value).__name__}; allowed: {_TYPES}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record goes.

    Attributes:
        folder: relative to the destination.
        time: its time folder.
    """

    folder: str
    time: TimeFolder


class Placing:
    """Folders of one topic's records.

    Args:
        topic: its name.
        template: a parsed `path_template`.
        fields: names of partition fields, see `parse_fields`.
        times: folders of instants.
        lenient: a field that is not there counts as null, as JSON has it; otherwise such a record is bad.

    Raises:
        ConfigError: fields without a place in the template.
    """

    def __init__(
        self, topic: str, template: PathTemplate, fields: tuple[str, ...], times: TimePath, *, lenient: bool = False
    ) -> None:
        if fields and not template.has_fields:
            hint = f"partition_fields {', '.join(fields)} have no place in it: add {{fields}}"
            raise ConfigError("path_template", template.text, _ALLOWED_TEMPLATE, hint)
        self.times = times
        self.needs_value = bool(fields)
        self._topic = escape(topic)
        self._template = template
        self._fields = tuple((name, tuple(name.split("."))) for name in fields)
        self._lenient = lenient
        self._known: dict[TimeFolder, Place] = {}

    def place(self, value: Any, millis: int) -> Place:
        """The place of a record.

        Args:
            value: its value; looked at only with partition fields.
            millis: its time.

        Raises:
            DecodeError: `bad_field` or `bad_time`.
        """
        time = self.times.folder(millis)
        if not self._fields:
            return self.plain(time)
        fields = "/".join(field_element(name, self._find(name, path, value)) for name, path in self._fields)
        return Place(self._template.folder(topic=self._topic, fields=fields, time=time.path), time)

    def plain(self, time: TimeFolder) -> Place:
        """The place for a time folder of a topic without partition fields."""
        found = self._known.get(time)
        if found is None:
            if len(self._known) > 1_000:
                self._known.clear()
            folder = self._template.folder(topic=self._topic, fields="", time=time.path)
            found = self._known[time] = Place(folder, time)
        return found

    def _find(self, name: str, path: tuple[str, ...], value: Any) -> Any:
        for depth, part in enumerate(path):
            value = unwrapped(value)
            if value is None:
                return None
            if isinstance(value, Mapping) and part in value:
                value = value[part]
                continue
            if isinstance(value, Mapping) and self._lenient:
                return None
            missing = ".".join(path[: depth + 1])
            raise DecodeError(
                BadReason.BAD_FIELD, f"partition field {name!r}: {missing!r} is missing or its parent is no record"
            )
        return unwrapped(value)
