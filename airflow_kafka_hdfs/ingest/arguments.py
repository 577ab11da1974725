"""Checks of single arguments: from what a user wrote to a plain value, or an error that names the way out.

Every function takes the argument's name and value, returns the value in one normal form, and raises ConfigError.
Numbers may come as text, since limits are templated.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from airflow_kafka_hdfs.exceptions import ConfigError

E = TypeVar("E", bound=StrEnum)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOPIC = re.compile(r"[A-Za-z0-9._\-]{1,249}")


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint with the nearest right word, empty if none is near."""
    by_lower = {right.lower(): right for right in words}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[found[0]]!r}?" if found else ""


def choice(key: str, value: object, allowed: type[E]) -> E:
    """One of an enum's values."""
    return allowed(word(key, value, [item.value for item in allowed]))


def word(key: str, value: object, allowed: Collection[str]) -> str:
    """One of some words."""
    if isinstance(value, str) and value in allowed:
        return value
    raise ConfigError(key, value, allowed, nearest(value, allowed) if isinstance(value, str) else "")


def flag(key: str, value: object) -> bool:
    """True or False, nothing that merely behaves like them."""
    if isinstance(value, bool):
        return value
    raise ConfigError(key, value, "True, False")


def whole(key: str, value: object, least: int = 1) -> int:
    """A whole number."""
    number = _number(value)
    if number is None or number != int(number) or number < least:
        raise ConfigError(key, value, f"a whole number of at least {least}")
    return int(number)


def optional_whole(key: str, value: object, least: int = 1) -> int | None:
    """A whole number, or None for no limit."""
    return None if _is_unset(value) else whole(key, value, least)


def positive(key: str, value: object) -> float | None:
    """A number above zero, or None for no limit."""
    if _is_unset(value):
        return None
    number = _number(value)
    if number is None or number <= 0:
        raise ConfigError(key, value, "a number above 0, or None")
    return float(number)


def share(key: str, value: object) -> float | None:
    """A share of 0 to 1, or None for no limit."""
    if _is_unset(value):
        return None
    number = _number(value)
    if number is None or not 0 <= number <= 1:
        raise ConfigError(key, value, "a share between 0 and 1, or None")
    return float(number)


_LONGEST = 100 * 366 * 24 * 3600


def seconds(key: str, value: object, *, zero: bool = False) -> float | None:
    """A duration as seconds: a timedelta or a number, or None for no limit."""
    if _is_unset(value):
        return None
    number = value.total_seconds() if isinstance(value, timedelta) else _number(value)
    if number is None or not 0 <= number <= _LONGEST or (number == 0 and not zero):
        raise ConfigError(key, value, "a timedelta or a number of seconds, above 0 and at most 100 years")
    return float(number)


def moment(key: str, value: object, allowed: str = "a datetime or ISO text with a time zone") -> datetime:
    """A point in time, in UTC."""
    when = value
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ConfigError(key, value, allowed) from None
    if not isinstance(when, datetime):
        raise ConfigError(key, value, allowed)
    if when.utcoffset() is None:
        raise ConfigError(key, value, allowed, f"the time has no zone: {when.isoformat()}Z would be UTC")
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ConfigError(key, value, allowed, "in UTC it lies outside the years 1 to 9999") from None


def millis(when: datetime) -> int:
    """Milliseconds since the epoch, as Kafka counts, of an aware time; exact, rounded down."""
    return (when - _EPOCH) // timedelta(milliseconds=1)


def from_millis(number: int) -> datetime:
    """The inverse of `millis`."""
    return _EPOCH + timedelta(milliseconds=number)


def octal(key: str, value: object, *, least: int) -> int | None:
    """Permission bits: a number such as 0o750, or octal text such as `750`.

    Args:
        key: name of the argument.
        value: as given; None stays None.
        least: bits that must be set, so that the owner can work with what was made.

    Raises:
        ConfigError: no such number, or bits are missing.
    """
    if value is None:
        return None
    bits = value
    if isinstance(value, str):
        try:
            bits = int(value.removeprefix("0o"), 8)
        except ValueError:
            bits = None
    if isinstance(bits, bool) or not isinstance(bits, int) or not 0 < bits <= 0o7777 or bits & least != least:
        allowed = f"permission bits that give the owner at least {least:o}, such as 0o750 or '750', or None"
        raise ConfigError(key, value, allowed)
    return bits


def text(key: str, value: object) -> str:
    """Text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    raise ConfigError(key, value, "a non-empty text")


def optional_text(key: str, value: object) -> str | None:
    """Text that is not empty, or None."""
    return None if value is None else text(key, value)


def texts(key: str, value: object, what: str) -> tuple[str, ...]:
    """A list of different non-empty texts; a single text is no list of its letters."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(key, value, f"a list of {what}")
    items = tuple(value)
    for item in items:
        if not isinstance(item, str) or not item.strip():
            raise ConfigError(key, item, f"a list of {what}")
    doubled = sorted({item for item in items if items.count(item) > 1}) if len(set(items)) < len(items) else []
    if doubled:
        raise ConfigError(key, doubled[0], f"a list of different {what}", "it stands there twice")
    return items


def topic_name(key: str, value: str) -> str:
    """A name that Kafka takes for a topic."""
    if _TOPIC.fullmatch(value) and value not in (".", ".."):
        return value
    raise ConfigError(
        key,
        value,
        "topic names of up to 249 letters, digits, '.', '_' and '-'",
        "regexes go into TopicFilter(allow=[…])",
    )


def is_topic_name(value: str) -> bool:
    """Whether a text is a topic's name rather than a regex: `a.b` names one topic, `a.*` many."""
    return _TOPIC.fullmatch(value) is not None


def regex(key: str, value: str) -> re.Pattern[str]:
    """A regex, matched against whole names without regard to case."""
    try:
        return re.compile(value, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(key, value, "a regular expression", f"it does not compile: {error}") from None


def avro_schema(key: str, value: object) -> str | None:
    """A schema as JSON text, from JSON text, a mapping or list, or the path of an `.avsc` file.

    Only whether it is JSON is looked at here; planning lets the Avro codec judge it.
    """
    if value is None:
        return None
    allowed = "an Avro schema: a mapping, JSON text, or the path of an .avsc file"
    if isinstance(value, Mapping | list):
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as error:
            raise ConfigError(key, value, allowed, f"no JSON: {error}") from None
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ConfigError(key, value, allowed)
    written = str(value)
    if written.lstrip()[:1] not in ("{", "[", '"'):
        try:
            written = Path(value).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(key, str(value), allowed, f"the file can't be read: {error.strerror}") from None
        except ValueError as error:  # a name that no file can have, or content that is no text
            raise ConfigError(key, ascii(str(value))[:200], allowed, f"the file can't be read: {error}") from None
    try:
        return json.dumps(json.loads(written))
    except ValueError as error:
        raise ConfigError(key, str(value)[:200], allowed, f"no JSON: {error}") from None


def unknown(key: str, name: str, allowed: Iterable[str]) -> ConfigError:
    """An error for a name that is none of the allowed ones, with the nearest right one."""
    names = sorted(allowed)
    return ConfigError(key, name, names, nearest(name, names))


def _is_unset(value: Any) -> bool:
    """None, and what a template makes of it."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "None"))


def _number(value: object) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    return None
