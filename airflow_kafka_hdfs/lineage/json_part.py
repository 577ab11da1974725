"""A part of a JSON document of others, read with every mistake named by its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow_kafka_hdfs.lineage.events import MessageError


@dataclass(frozen=True, slots=True)
class Part:
    """One object of a document.

    Attributes:
        body: its fields.
        where: its place, for errors (`run.facets.parent`).
    """

    body: Mapping[str, Any]
    where: str = ""

    def place(self, name: str) -> str:
        """The place of a field."""
        return f"{self.where}.{name}" if self.where else name

    def wrong(self, name: str, expected: str) -> MessageError:
        """The error for a field that is not as it should be; the value itself may be long or secret."""
        value = self.body.get(name)
        shown = repr(value) if isinstance(value, bool | int | float | None) else type(value).__name__
        text = f"{self.place(name)}: got {shown}, expected {expected}"
        return MessageError("fields", text)

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self.body.get(name) is not None

    def part(self, name: str) -> Part:
        """An object; an empty one if it is missing. Raises MessageError if it is no object."""
        value = self.body.get(name)
        if value is None:
            return Part({}, self.place(name))
        if not isinstance(value, Mapping):
            raise self.wrong(name, "an object")
        return Part(value, self.place(name))

    def parts(self, name: str) -> Iterator[Part]:
        """The objects of a list; none if it is missing. Raises MessageError if it is no list of objects."""
        value = self.body.get(name)
        if value is None:
            return
        if not isinstance(value, list):
            raise self.wrong(name, "a list")
        for number, item in enumerate(value):
            if not isinstance(item, Mapping):
                raise Part({str(number): item}, self.place(name)).wrong(str(number), "an object")
            yield Part(item, f"{self.place(name)}[{number}]")

    def named(self) -> Iterator[tuple[str, Part]]:
        """Every field with its object. Raises MessageError if one is no object."""
        for name in self.body:
            yield name, self.part(name)

    def text(self, name: str, default: str = "") -> str:
        """A text; the default if it is missing. Raises MessageError if it is none."""
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.wrong(name, "a text")
        return value

    def needed(self, name: str) -> str:
        """A text that must be there. Raises MessageError if it is missing or empty."""
        value = self.text(name)
        if not value:
            raise self.wrong(name, "a text that is not empty")
        return value

    def whole(self, name: str, default: int = 0) -> int:
        """A number; the default if it is missing. Raises MessageError if it is none."""
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
            raise self.wrong(name, "a whole number")
        return value

    def time(self, name: str) -> datetime | None:
        """A time in UTC; None if it is missing. Raises MessageError if it is none or has no zone."""
        value = self.body.get(name)
        if value is None or value == "":
            return None
        try:
            found = datetime.fromisoformat(value)
            if found.tzinfo is not None:
                return found.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            pass
        raise self.wrong(name, "an ISO time with a zone")
