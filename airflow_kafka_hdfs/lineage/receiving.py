"""Events of OpenLineage that come by HTTP: kept and merged like those of a topic, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_kafka_hdfs.lineage.events import MessageError
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.kept import kept_since
from airflow_kafka_hdfs.lineage.loading import readable
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.openlineage import ORIGIN, EventReader, OpenLineageEvent
from airflow_kafka_hdfs.lineage.storage_text import compact
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_pruning import Rows
from airflow_kafka_hdfs.ports.lineage_rows import OffsetRow, OpenLineageEventRow, RawRow

BY_HTTP = ":http"
"""Stands for the topic in `lineage_raw` and `lineage_offset`; no topic of Kafka can have this name."""
_TOO_OLD = "expected {} or later: runs of that time have been deleted (`lineage prune`)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One document as read.

    Attributes:
        body: as it came.
        event: None if it can't be used.
        problem: why not.
    """

    body: Any
    event: OpenLineageEvent | None = None
    problem: str = ""


def take(reader: EventReader, documents: Sequence[Any]) -> list[Taken]:
    """Read documents, each by itself.

    Args:
        reader: reads events.
        documents: values of JSON.
    """
    found = []
    for body in documents:
        try:
            found.append(Taken(body=body, event=reader.of(body)))
        except MessageError as error:
            found.append(Taken(body=body, problem=str(error)))
    return found


def without_old(access: Rows, taken: Sequence[Taken]) -> list[Taken]:
    """The same, where events of a time whose runs have been deleted can't be used."""
    since = kept_since(access)
    return [
        Taken(body=item.body, problem=f"eventTime: got {item.event.happened_at.isoformat()}, {_TOO_OLD.format(since)}")
        if since is not None and item.event is not None and item.event.happened_at < since
        else item
        for item in taken
    ]


def store(tx: LoadTransaction, taken: Sequence[Taken], now: datetime) -> int:
    """Keep documents and merge what they say; events that are known already change nothing.

    Args:
        tx: a transaction.
        taken: documents, usable or not.
        now: when they came.

    Returns:
        How many events were new.
    """
    events = {item.event.event_id: item.event for item in taken if item.event is not None}
    keys = [(event.job_id, event.run_id, event.event_id) for event in events.values()]
    known = {row.event_id for row in tx.rows(OpenLineageEventRow, OpenLineageEventRow.KEY, keys)}
    fresh = {event_id: event for event_id, event in events.items() if event_id not in known}
    first = next(
        (row.next_offset for row in tx.rows(OffsetRow, ("group", "topic"), [(BY_HTTP, BY_HTTP)])),
        0,
    )
    kept: dict[str, Taken] = {}
    for number, item in enumerate(taken):
        if item.event is None or item.event.event_id in fresh:
            kept.setdefault(item.event.event_id if item.event else f"bad {number}", item)
    tx.put([_raw(item, first + number, now) for number, item in enumerate(kept.values())])
    if kept:
        tx.put([OffsetRow(group=BY_HTTP, topic=BY_HTTP, partition=0, next_offset=first + len(kept))])
    if fresh:
        Merge(tx, GraphCache()).apply([], list(fresh.values()))
    return len(fresh)


def _raw(item: Taken, offset: int, now: datetime) -> RawRow:
    body = compact(item.body).encode("utf-8", "replace")
    return RawRow(
        topic=BY_HTTP,
        partition=0,
        offset=offset,
        event_id=item.event.event_id if item.event is not None else "",
        type=ORIGIN if item.event is not None else "invalid",
        received_at=now,
        body=readable(body, plain=not item.problem),
        problem=item.problem[:2000],
    )
