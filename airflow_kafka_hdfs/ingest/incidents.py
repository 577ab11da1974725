"""What happened to a partition behind the pipeline's back, told once: when planning commits how it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.records import PartitionChange, PartitionKey


class IncidentKind(StrEnum):
    """What happened."""

    TRUNCATED = "truncated"
    """The log ended below decided offsets or the start point: the partition goes on as a new generation."""
    TOPIC_RECREATED = "topic_recreated"
    """The topic has a new id: the partition goes on under that."""
    LOST = "lost"
    """Undecided offsets lay below the log start, or below the one that a reset moved to: nobody can read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One thing that happened to one partition.

    Attributes:
        offsets: how many were lost; 0 for the other kinds.
    """

    kind: IncidentKind
    key: PartitionKey
    offsets: int = 0

    def __str__(self) -> str:
        if self.kind is IncidentKind.LOST:
            return f"event {self.kind}: {self.key}: {self.offsets} offsets"
        if self.kind is IncidentKind.TRUNCATED:
            return f"event {self.kind}: {self.key}: goes on as generation {self.key.generation}"
        return f"event {self.kind}: {self.key}: goes on under topic id {self.key.topic_id}"


def incidents(state: LogState, changes: Iterable[PartitionChange]) -> list[Incident]:
    """What changes of planning tell of.

    Args:
        state: the log's sum before them.
        changes: what planning commits.
    """
    found = []
    for change in changes:
        key, known = change.key, state.current.get(change.key.topic_partition)
        if change.start is not None and key not in state.coverage:
            if key.generation:
                found.append(Incident(kind=IncidentKind.TRUNCATED, key=key))
            elif known is not None and known.topic_id != key.topic_id:
                found.append(Incident(kind=IncidentKind.TOPIC_RECREATED, key=key))
        if change.counts.lost:
            found.append(Incident(kind=IncidentKind.LOST, key=key, offsets=change.counts.lost))
    return found
