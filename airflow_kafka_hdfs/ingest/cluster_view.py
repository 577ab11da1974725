"""What the cluster has of the topics that a pipeline asks for, in three to five calls however many there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from airflow_kafka_hdfs.exceptions import ClusterChangedError
from airflow_kafka_hdfs.ingest.arguments import nearest
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.selection import TopicFilter, Topics
from airflow_kafka_hdfs.model import PartitionOffsets, TopicInfo, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Fault, TopicCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One look at the cluster.

    Attributes:
        topics: selected topics by name, also those that can't be read.
        offsets: of every partition of the readable ones, or why they can't be had.
        hints: what a topic that was never there may have been meant to be.
    """

    cluster_id: str
    topics: Mapping[str, TopicInfo]
    offsets: Mapping[TopicPartition, PartitionOffsets | str]
    hints: Mapping[str, str] = field(default_factory=dict)

    def faults(self, topic: str) -> dict[int, str]:
        """Partition -> why its offsets can't be had; empty for a topic that can be planned."""
        found = {partition: self._offsets(topic, partition) for partition in self.topics[topic].partitions}
        return {partition: answer for partition, answer in found.items() if isinstance(answer, str)}

    def readable(self, topic: str) -> dict[int, PartitionOffsets]:
        """Partition -> offsets, of those that have them."""
        found = {partition: self._offsets(topic, partition) for partition in self.topics[topic].partitions}
        return {partition: answer for partition, answer in found.items() if not isinstance(answer, str)}

    def _offsets(self, topic: str, partition: int) -> PartitionOffsets | str:
        return self.offsets.get(TopicPartition(topic, partition), Fault.BROKER_ERROR)


def look(catalog: TopicCatalog, topics: Topics, state: LogState) -> ClusterView:
    """Look at the cluster.

    Offsets must be looked up after the log that they are judged by was read: a commit in between could decide offsets
    beyond them, which would look like a truncated log.

    Args:
        catalog: the cluster.
        topics: the `topics` argument.
        state: the log's sum, read before.

    Raises:
        ClusterChangedError: the log knows another cluster.
        KafkaUnavailableError: no answer.
    """
    cluster_id = catalog.cluster_id()
    known = state.cluster_ids
    if known and cluster_id not in known:
        raise ClusterChangedError(
            f"the brokers answer with cluster id {cluster_id}, the commit log knows {', '.join(sorted(known))}; point "
            "the connection back at that cluster, or, if it really was replaced, run "
            "`airflow kafka-hdfs state set --cluster`"
        )
    if isinstance(topics, TopicFilter):
        found = _filtered(catalog, topics, {key.topic for key in state.current.values()} - state.released)
    else:
        found = dict(catalog.describe(topics))
    partitions = [
        TopicPartition(name, partition)
        for name, info in sorted(found.items())
        if info.fault is None
        for partition in info.partitions
    ]
    return ClusterView(
        cluster_id=cluster_id,
        topics=found,
        offsets=catalog.offsets(partitions) if partitions else {},
        hints=_hints(catalog, [name for name in found if is_missing(found[name].fault) and not state.known(name)]),
    )


def _hints(catalog: TopicCatalog, missing: Collection[str]) -> dict[str, str]:
    """The nearest names that the cluster has; all of them are asked for only if a name means nothing."""
    listed = catalog.topics() if missing else ()
    return {name: hint for name in missing if (hint := nearest(name, listed))}


def _filtered(catalog: TopicCatalog, topics: TopicFilter, known: Collection[str]) -> dict[str, TopicInfo]:
    """Topics that the filter matches; a known one that is not listed is asked for by name.

    Brokers list only what the user may see, so a topic whose rights were taken away would else end in silence. One that
    was deleted does: nobody asks for it by name.
    """
    listed = catalog.topics()
    found = {name: info for name, info in listed.items() if topics.matches(name)}
    absent = sorted(name for name in known if topics.matches(name) and name not in listed)
    if absent:
        described = catalog.describe(absent)
        found |= {name: info for name, info in described.items() if not is_missing(info.fault)}
    return found


def is_missing(fault: str | None) -> bool:
    """Whether a fault says that there is no such topic."""
    return fault is not None and fault_code(fault) == Fault.MISSING


def fault_code(fault: str) -> str:
    """The short code of a fault, without what the broker said."""
    return fault.split(":", 1)[0].strip()
