"""Decisions in a few lines: a log made of changes, a look at a cluster, a configuration."""

from datetime import UTC, datetime

from airflow_kafka_hdfs.ingest.cluster_view import ClusterView
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import decide, new_selection
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Kind, PartitionChange, PartitionKey
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import PartitionOffsets, RunRef, TopicInfo, TopicPartition

CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRef(dag_id="dag", run_id="run")


def key(partition=0, topic="T", topic_id="id", generation=0, cluster="c"):
    return PartitionKey(topic=topic, partition=partition, cluster_id=cluster, topic_id=topic_id, generation=generation)


def commit(state, *changes, selection=None, kind=Kind.FORWARD, released=()):
    record = Commit(
        number=state.head + 1,
        kind=kind,
        run=RUN,
        clock="",
        attempt=str(state.head),
        changes=tuple(changes),
        selection=selection,
        released=tuple(released),
    )
    return state.fold([(record, "")])


def read_up_to(watermark, start=0, **identity):
    """A log in which [start, watermark) of one partition is covered."""
    changed = PartitionChange(key=key(**identity), start=start, covered=Ranges.span(start, watermark))
    return commit(LogState(), changed)


def cluster(log_start=100, last_stable=500, high_watermark=None, partitions=(0,), topic="T", topic_id="id", fault=None):
    offsets = PartitionOffsets(
        log_start=log_start,
        last_stable=last_stable,
        high_watermark=last_stable if high_watermark is None else high_watermark,
    )
    return ClusterView(
        cluster_id="c",
        topics={topic: TopicInfo(name=topic, topic_id=topic_id, partitions=tuple(partitions), fault=fault)},
        offsets={TopicPartition(topic, p): offsets for p in partitions},
    )


def config(topics=("T",), **arguments):
    given = {"topics": topics if isinstance(topics, TopicFilter) else list(topics), **arguments}
    return IngestConfig.of({"destination": "file:///data", "pipeline_id": "p", **given})


def plan_of(state, view, made=None, times=None):
    """The decisions, and the log after planning's own commit."""
    made = made or config()
    decided = decide(state, view, made, CLOCK, times or {})
    after = commit(state, *decided.changes, selection=new_selection(state, view, made, decided))
    return decided, after


def carried(after, **identity):
    """The watermark that the next run starts from."""
    coverage = after.coverage.get(after.current.get(TopicPartition("T", 0)))
    return None if coverage is None else coverage.watermark


def only(decided):
    (entry,) = decided.entries
    return entry


def view_of(*topics, **more):
    views = [cluster(topic=topic, topic_id=f"id-{topic}", **more) for topic in topics]
    return ClusterView(
        cluster_id="c",
        topics={name: info for view in views for name, info in view.topics.items()},
        offsets={tp: have for view in views for tp, have in view.offsets.items()},
    )


def reasons(decided):
    return {entry.key.topic: entry.reason for entry in decided.entries}
