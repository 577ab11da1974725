"""Which identity a partition has: the same name after a re-creation, or a log that was truncated, is another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from airflow_kafka_hdfs.ingest.coverage import Coverage, LogState
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import PartitionChange, PartitionKey
from airflow_kafka_hdfs.model import PartitionOffsets, TopicInfo, TopicPartition


class Standing(Enum):
    """What the log knows of a partition."""

    KNOWN = auto()
    """It has a start point under its present topic id."""
    NEW_PARTITION = auto()
    """Other partitions of the topic have one."""
    RECREATED = auto()
    """The topic has start points, all under other topic ids."""
    UNKNOWN = auto()
    """The topic has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A partition as the log and the broker see it together.

    Attributes:
        key: under which its coverage is kept; of the newest generation that the log knows.
        coverage: of that key, None if there is none.
        offsets: what the broker holds.
        previous: the watermark that people saw before, None for a partition without start point.
    """

    key: PartitionKey
    standing: Standing
    coverage: Coverage | None
    offsets: PartitionOffsets
    previous: int | None

    @property
    def is_truncated(self) -> bool:
        """Whether a decided offset, or the start point, lies above the log's end.

        The high watermark is asked, not the last stable offset: an open transaction may hold that back.
        """
        if self.coverage is None:
            return False
        return max(self.coverage.decided.end or 0, self.coverage.start) > self.offsets.high_watermark

    def next_generation(self) -> PartitionKey:
        """The key under which a truncated partition goes on."""
        return dataclasses.replace(self.key, generation=self.key.generation + 1)

    def carried_over(self) -> PartitionChange:
        """Coverage below the log's end, as the first change of the next generation."""
        have, end = self.coverage or Coverage(start=0), self.offsets.high_watermark
        return PartitionChange(
            key=self.next_generation(),
            start=min(have.start, end),
            covered=have.covered.below(end),
            skipped=have.skipped.below(end),
            lost=have.lost.below(end),
            log_start=self.offsets.log_start,
            log_end=self.offsets.last_stable,
        )

    def base(self, change: PartitionChange) -> Coverage:
        """The coverage that a change of this partition is applied to."""
        if change.key == self.key and self.coverage is not None:
            return self.coverage
        return Coverage(start=change.start or 0)

    def nothing(self) -> PartitionChange:
        """A change that only tells what the broker holds."""
        return PartitionChange(key=self.key, log_start=self.offsets.log_start, log_end=self.offsets.last_stable)


class Identities:
    """Finds the identity of partitions.

    Args:
        state: the log's sum.
        cluster_id: of the brokers that were asked.
    """

    def __init__(self, state: LogState, cluster_id: str) -> None:
        self._state = state
        self._cluster_id = cluster_id
        self._known = state.topics
        self._newest: dict[tuple[TopicPartition, str], PartitionKey] = {}
        for key in state.coverage:
            place = (key.topic_partition, key.topic_id)
            have = self._newest.get(place)
            if key.cluster_id == cluster_id and (have is None or have.generation < key.generation):
                self._newest[place] = key

    def is_known(self, topic: str) -> bool:
        """Whether a topic has a committed start point, under whatever id."""
        return topic in self._known

    def of_topic(self, info: TopicInfo, offsets: Mapping[int, PartitionOffsets]) -> list[Identity]:
        """Identities of the partitions of a topic that can be read, ascending."""
        known = self._known.get(info.name, {})
        here = {p for p, key in known.items() if key.topic_id == info.topic_id and key.cluster_id == self._cluster_id}
        result = []
        for partition, have in sorted(offsets.items()):
            place = TopicPartition(info.name, partition)
            key = self._newest.get((place, info.topic_id)) or PartitionKey(
                topic=info.name, partition=partition, cluster_id=self._cluster_id, topic_id=info.topic_id
            )
            before = known.get(partition)
            previous = None if before is None else self._state.coverage[before].watermark
            if partition in here:
                standing = Standing.KNOWN
            elif here:
                standing = Standing.NEW_PARTITION
            else:
                standing = Standing.RECREATED if known else Standing.UNKNOWN
            coverage = self._state.coverage.get(key)
            result.append(Identity(key=key, standing=standing, coverage=coverage, offsets=have, previous=previous))
        return result


def with_losses(change: PartitionChange, *, lost: Ranges = Ranges(), skipped: Ranges = Ranges()) -> PartitionChange:
    """A change that also gives offsets up, counted; carried-over coverage is not counted again."""
    counts = dataclasses.replace(
        change.counts, lost=change.counts.lost + len(lost), skipped=change.counts.skipped + len(skipped)
    )
    return dataclasses.replace(change, lost=change.lost | lost, skipped=change.skipped | skipped, counts=counts)
