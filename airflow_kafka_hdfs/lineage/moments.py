"""Moments as people write them, in REST and on the command line alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_kafka_hdfs.exceptions import ConfigError

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
"""Moments before it are slips; questions look some weeks further back, which the calendar has to have."""
_ALLOWED = "an ISO date or time from the year 1900 on"
_DATE = len("2026-01-01")


def moment(text: str | None, name: str, *, begins: bool = False) -> datetime:
    """The moment that a text means, in UTC; now if there is none.

    Args:
        text: ISO date or time; a time without a zone is in UTC.
        name: of the parameter, for errors.
        begins: whether something begins then: a date means the start of its day; else it means the end.

    Raises:
        ConfigError: no date or time, or none that a database takes.
    """
    if not text:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
        if len(text) <= _DATE and not begins:
            found += timedelta(days=1, microseconds=-1)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(name, text, _ALLOWED) from None
    if found < EARLIEST:
        raise ConfigError(name, text, _ALLOWED)
    return found
