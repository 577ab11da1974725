"""What every message carries, read from JSON; the small checks that all readers of messages share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

from airflow_kafka_hdfs.lineage.events import Envelope, Job, Run, Versions
from airflow_kafka_hdfs.lineage.workflow import key_text

MAX_TEXT = 20_000
_TIMES = ("logical_date", "run_after", "started_at", "ended_at")

_TEXT_ALONE = frozenset({str})

_Said = tuple[Any, Any, Any]
_envelopes: OrderedDict[tuple[str, str, str], tuple[_Said, Envelope]] = OrderedDict()
_ENVELOPES_KEPT = 512


def envelope_of(body: Mapping[str, Any]) -> Envelope:
    """Messages of one run carry the same envelope, so the last ones are kept."""
    key = (str(body["job"].get("dag_id")), str(body["run"].get("run_id")), str(body["emitted_at"]))
    said = (body["job"], body["run"], body.get("versions"))
    known = _envelopes.get(key)
    if known is not None and known[0] == said:
        return known[1]
    made = _make_envelope(body)
    _envelopes[key] = said, made
    while len(_envelopes) > _ENVELOPES_KEPT:
        _envelopes.popitem(last=False)
    return made


def _make_envelope(body: Mapping[str, Any]) -> Envelope:
    run = _known(Run, body["run"])
    for name in _TIMES:
        run[name] = _time(body["run"][name]) if body["run"].get(name) else None
    key_text(run["run_id"])
    start, end = body["run"].get("data_interval") or (None, None)
    run["interval_start"], run["interval_end"] = (_time(start) if start else None, _time(end) if end else None)
    if run["run_after"] is None or not run["run_id"]:
        raise ValueError("run_id and run_after are needed")
    return Envelope(
        job=Job(**_known(Job, body["job"])),
        run=Run(**run),
        versions=Versions(**_known(Versions, body.get("versions", {}))),
        emitted_at=_time(body["emitted_at"]),
    )


@cache
def _kinds(kind: type[Any]) -> tuple[tuple[str, type[Any]], ...]:
    """Name and type of the fields of a class that are texts, numbers or lists of texts."""
    return tuple(
        (item.name, str if item.default is MISSING else type(item.default))
        for item in fields(kind)
        if item.name not in _TIMES and not item.name.startswith("interval_")
    )


def _known(kind: type[Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class that are texts, numbers or lists of texts; what a later version adds is left out."""
    found: dict[str, Any] = {}
    for name, wanted in _kinds(kind):  # type: ignore[arg-type]  # classes are hashable; the checker asks their instances
        if name not in body:
            continue
        value = body[name]
        if isinstance(value, list):
            value = texts(value)
        if type(value) is not wanted:
            raise TypeError(f"{name}: got {value!r}, expected {wanted.__name__}")
        if wanted is int:
            value = whole(value)
        elif len(value) > MAX_TEXT or (wanted is tuple and sum(map(len, value)) > MAX_TEXT):
            raise ValueError(f"{name}: longer than {MAX_TEXT} characters")
        found[name] = value
    return found


def texts(values: Any) -> tuple[str, ...]:
    """A list of texts. Raises TypeError if it is none."""
    if not isinstance(values, list) or not _TEXT_ALONE.issuperset(map(type, values)):
        raise TypeError(f"got {values!r}, expected a list of texts")
    return tuple(values)


def whole(value: Any) -> int:
    """A number that every database holds. Raises ValueError, TypeError or OverflowError if it is none."""
    number = int(value)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"number {number} is out of range")
    return number


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"time {text!r} has no zone")
    return found.astimezone(UTC)
