"""The time of a record: read from a field of its value or from Kafka, checked against bounds, never "now"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.choices import OnBadTime, TimeUnit
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.ingest.timepath import EPOCH

NO_TIMESTAMP = -1
"""What Kafka says of a record without timestamp; it is not a moment of 1969."""

_INTEGER_TEXT = re.compile(r"-?[0-9]{1,19}")
_ZONE_TEXT = re.compile(r"\s*(?:UTC|GMT)$", re.IGNORECASE)
_MILLISECOND = timedelta(milliseconds=1)

_TO_MILLIS = {
    TimeUnit.DAYS: (86_400_000, 1),  # midnight UTC, as what a decoder makes of a date
    TimeUnit.SECONDS: (1_000, 1),
    TimeUnit.MILLIS: (1, 1),
    TimeUnit.MICROS: (1, 1_000),
    TimeUnit.NANOS: (1, 1_000_000),
}
"""Factor and divisor."""


def millis_of(moment: datetime) -> int:
    """Milliseconds since the epoch, rounded down; a moment without zone counts as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // _MILLISECOND


def parse_iso(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 text; without a zone it is UTC, and so are `UTC` and `GMT`.

    Raises:
        DecodeError: `bad_time`.
    """
    trimmed = text.strip()
    plain = _ZONE_TEXT.sub("", trimmed)
    try:
        return millis_of(datetime.fromisoformat(plain if plain != trimmed else trimmed))
    except (ValueError, OverflowError) as error:
        raise DecodeError(BadReason.BAD_TIME, f"{text[:60]!r} is no ISO 8601 time") from error


def to_millis(value: Any, unit: TimeUnit) -> int:
    """Milliseconds since the epoch of a field's value, rounded down.

    Args:
        value: a whole number, a text (digits, or ISO with `iso`), or what an Avro decoder makes of a timestamp or date;
            the latter tell their unit themselves.
        unit: of numbers.

    Raises:
        DecodeError: `bad_time`: null, another type, or no time.
    """
    if type(value) is int and unit is not TimeUnit.ISO:  # nearly all
        return value if unit is TimeUnit.MILLIS else _in_millis(value, unit)
    if isinstance(value, datetime):
        return millis_of(value)
    if isinstance(value, date):
        return millis_of(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, str):
        if unit is TimeUnit.ISO:
            return parse_iso(value)
        if not _INTEGER_TEXT.fullmatch(value):
            raise DecodeError(BadReason.BAD_TIME, f"{value[:60]!r} is no whole number; time_unit is {unit.value!r}")
        return _in_millis(int(value), unit)
    if isinstance(value, int) and not isinstance(value, bool):
        raise DecodeError(BadReason.BAD_TIME, f"the number {value} is no ISO 8601 text; time_unit is 'iso'")
    raise DecodeError(BadReason.BAD_TIME, f"a {type(value).__name__} is no time: {value!r:.60}")


def _in_millis(number: int, unit: TimeUnit) -> int:
    factor, divisor = _TO_MILLIS[unit]
    return number * factor // divisor


def find_field(value: Any, path: tuple[str, ...]) -> Any:
    """The value at a dotted path.

    Raises:
        KeyError: there is nothing, with the part of the path that is missing or null as its argument.
    """
    for depth, name in enumerate(path):
        if type(value) is not dict:
            value = unwrapped(value)
            if not isinstance(value, Mapping):
                raise KeyError(".".join(path[: depth + 1]))
        try:
            value = value[name]
        except KeyError:
            raise KeyError(".".join(path[: depth + 1])) from None
    return unwrapped(value)


def unwrapped(value: Any) -> Any:
    """A value of an Avro union of several named types, which comes as (name, value), without the name."""
    return value[1] if isinstance(value, tuple) and len(value) == 2 else value


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """How a topic's records get their time.

    Attributes:
        field: dotted path into the value, empty for Kafka's timestamp.
        unit: of numbers in the field.
        bounds: first moment believed and first moment not believed any more, in ms.
        on_bad: `kafka_time` falls back to Kafka's timestamp, within the same bounds.
    """

    bounds: tuple[int, int]
    field: tuple[str, ...] = ()
    unit: TimeUnit = TimeUnit.MILLIS
    on_bad: OnBadTime = OnBadTime.QUARANTINE

    def of(self, value: Any, timestamp: int) -> int:
        """The time of a record in ms.

        Args:
            value: the record's value, looked at only if there is a `field`.
            timestamp: Kafka's, in ms, -1 for none.

        Raises:
            DecodeError: `bad_time`; what to do about it is `on_bad`, apart from the fallback to Kafka's timestamp,
                which was tried.
        """
        if not self.field:
            return self.of_kafka(timestamp)
        try:
            return self.checked(self.of_field(value), f"time_field {'.'.join(self.field)!r}")
        except DecodeError as error:
            if self.on_bad is not OnBadTime.KAFKA_TIME:
                raise
            try:
                return self.of_kafka(timestamp)
            except DecodeError as second:
                raise DecodeError(BadReason.BAD_TIME, f"{error.detail}; and {second.detail}") from error

    def of_field(self, value: Any) -> int:
        """The time in the field, not checked against the bounds. Raises DecodeError `bad_time`."""
        name = ".".join(self.field)
        try:
            found = find_field(value, self.field)
        except KeyError as error:
            raise DecodeError(
                BadReason.BAD_TIME, f"time_field {name!r}: {error.args[0]!r} is missing or no record"
            ) from None
        if found is None:
            raise DecodeError(BadReason.BAD_TIME, f"time_field {name!r} is null")
        try:
            return to_millis(found, self.unit)
        except DecodeError as error:
            raise DecodeError(BadReason.BAD_TIME, f"time_field {name!r}: {error.detail}") from error

    def of_kafka(self, timestamp: int) -> int:
        """Kafka's timestamp, checked. Raises DecodeError `bad_time`."""
        if timestamp == NO_TIMESTAMP:
            raise DecodeError(BadReason.BAD_TIME, "the record has no Kafka timestamp")
        return self.checked(timestamp, "Kafka timestamp")

    def checked(self, millis: int, what: str) -> int:
        """The time itself if it lies within the bounds.

        Args:
            millis: ms since the epoch.
            what: where it comes from, for the error.

        Raises:
            DecodeError: `bad_time`.
        """
        low, high = self.bounds
        if low <= millis < high:
            return millis
        limits = f"[{show(low)}, {show(high)})"
        raise DecodeError(BadReason.BAD_TIME, f"{what}: {millis} ms ({show(millis)}) lies outside time_bounds {limits}")


def show(millis: int) -> str:
    """A time for people."""
    try:
        return (EPOCH + timedelta(milliseconds=millis)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return "beyond the calendar"
