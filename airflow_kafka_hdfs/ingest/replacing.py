"""Planning of a replace: which live files it supersedes, and which offsets it therefore has to read again.

A replace works on offsets. The requested ranges are widened until every live file lies wholly inside or outside of
them, since a file can only be taken out of place as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import PlanningError
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import FileEntry, PartitionKey, Superseded
from airflow_kafka_hdfs.model import PartitionOffsets

LiveFiles = Mapping[str, tuple[int, FileEntry]]
"""Path -> (number of the commit that lists it, entry)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a replace reads and takes out of place.

    Attributes:
        ranges: offsets to be read again, per partition.
        superseded: live files that lie wholly inside of them.
    """

    ranges: Mapping[PartitionKey, Ranges]
    superseded: tuple[Superseded, ...]


def widen(wanted: Mapping[PartitionKey, Ranges], live: LiveFiles, state: LogState) -> Replacement:
    """Widen ranges until every live file lies wholly inside or outside.

    Args:
        wanted: requested offsets, an empty set for further partitions that the topics have; those of topics without
            start points too, which interval runs may have covered.
        live: all live data files.
        state: the log's sum; lost offsets are left out where no file holds them.
    """
    current = {(key.topic, key.topic_id, key.partition): key for key in (*state.current.values(), *wanted)}
    ranges = {
        key: spans - (state.coverage[key].lost if key in state.coverage else Ranges()) for key, spans in wanted.items()
    }
    files = {
        path: {
            current[entry.topic, entry.topic_id, partition]: Ranges.span(first, last + 1)
            for partition, (first, last, _) in entry.offsets.items()
            if (entry.topic, entry.topic_id, partition) in current
        }
        for path, (_, entry) in live.items()
        if not entry.quarantine
    }
    inside: set[str] = set()
    grown = True
    while grown:
        grown = False
        for path, spans in files.items():
            if path not in inside and any(span & ranges.get(key, Ranges()) for key, span in spans.items()):
                inside.add(path)
                grown = True
                for key, span in spans.items():
                    ranges[key] = ranges.get(key, Ranges()) | span
    superseded = tuple(
        Superseded(path=path, topic=live[path][1].topic, size=live[path][1].size, commit=live[path][0])
        for path in sorted(inside)
    )
    return Replacement(ranges={key: spans for key, spans in ranges.items() if spans}, superseded=superseded)


def refuse_what_can_not_be_replaced(
    replacement: Replacement, offsets: Mapping[PartitionKey, PartitionOffsets], unpublished: Collection[int]
) -> None:
    """Nothing happens unless all of a replace can be carried out.

    Args:
        offsets: what the broker holds of each partition.
        unpublished: numbers of commits without their `published` marker.

    Raises:
        PlanningError: Kafka no longer holds all of it, or a file belongs to a commit that is not published; names the
            ranges or files.
    """
    gone = []
    for key, spans in sorted(replacement.ranges.items()):
        held = offsets.get(key)
        holds = Ranges.span(held.log_start, held.last_stable) if held is not None else Ranges()
        if missing := spans - holds:
            gone.append(f"{key}: {missing}")
    if gone:
        raise PlanningError(
            "replace: Kafka no longer holds all that would be read again, so nothing was changed: "
            f"{'; '.join(gone)}; choose a range that lies within what Kafka holds"
        )
    waiting = [f"{item.path} (commit {item.commit})" for item in replacement.superseded if item.commit in unpublished]
    if waiting:
        raise PlanningError(
            "replace: these files belong to commits whose files are not all in place yet: "
            f"{', '.join(waiting)}; run `airflow kafka-hdfs state recover`, then replace again"
        )
