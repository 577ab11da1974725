"""Messages cut into the parts that many of them share, so that each part is read once.

The messages of a run share the text of their envelope, and the runs of a job that of their pairs. Texts that are JSON
objects when each gets braces of its own are, one after the other, one object with all their fields: a cut in the wrong
place, inside a text or a nested object, is always noticed, and the message is read whole instead.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.envelope_json import envelope_of
from airflow_kafka_hdfs.lineage.events import Envelope

_REST = {"edge": ',"source":', "run": ',"structure_hash":', "task_io": ',"task":'}
"""Type -> how the fields begin that follow the envelope."""
_OF_ENVELOPE = frozenset({"emitted_at", "job", "run", "versions"})
_BEFORE_REST = _OF_ENVELOPE | {"schema_version", "type", "event_id"}


@cache
def _head(version: int) -> re.Pattern[str]:
    kinds = "|".join(_REST)
    return re.compile(rf'{{"schema_version":{version},"type":"({kinds})","event_id":"[0-9a-f-]{{36}}",')


def parts_of(text: str, version: int) -> tuple[str, Envelope, str] | None:
    """(type, envelope, text for `rest_of`) of a message whose fields stand in the order of `message_json.encode`.

    Args:
        text: of the message.
        version: its `schema_version`.

    Returns:
        None if it is written in another way, or damaged.
    """
    head = _head(version).match(text)
    if head is None or "\\" in text:
        return None
    cut = text.find(_REST[head[1]], head.end())
    if cut < 0:
        return None
    try:
        return head[1], _envelope_in(text[head.end() : cut]), text[cut + 1 :]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, LineageError):
        return None


@lru_cache(maxsize=2_000)
def _envelope_in(text: str) -> Envelope:
    body = json.loads("{" + text + "}")
    if not body.keys() <= _OF_ENVELOPE:
        raise KeyError(*body)
    return envelope_of(body)


def rest_of(text: str) -> dict[str, Any]:
    """The fields after the envelope. Raises ValueError if they are no JSON, KeyError if one belongs before them."""
    body: dict[str, Any] = json.loads("{" + text)
    if not body.keys().isdisjoint(_BEFORE_REST):
        raise KeyError(*body)
    return body
