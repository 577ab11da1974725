"""The records that a pipeline leaves behind in years, written in seconds: each as the log writes it, none deleted."""

from __future__ import annotations

from collections.abc import Callable

from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.coverage import Checkpoint, LogState
from airflow_kafka_hdfs.ingest.layout import StatePaths
from airflow_kafka_hdfs.ingest.log import CHECKPOINT_EVERY
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Counts, FileEntry, Kind, PartitionChange, PartitionKey
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.kafka import FakeCluster

PER_COMMIT = 10
"""Records of each commit, all of one topic."""


def long_log(put: Callable[[str, bytes], object], cluster: FakeCluster, commits: int, topics: int) -> list[str]:
    """Write the log of a pipeline whose commits took its topics in turn, and make the topics with one new record each.

    Args:
        put: writes a file below the state root.
        cluster: gets the topics; none of them is there yet.
        commits: how many records, the start points among them.
        topics: how many topics, of one partition each.

    Returns:
        The names of the topics.
    """
    names = [f"topic-{number:03}" for number in range(topics)]
    read = [0] * topics
    for number in range(1, commits):
        read[number % topics] += PER_COMMIT
    keys = []
    for name, offset in zip(names, read, strict=True):
        topic_id = cluster.create_topic(name, first_offset=offset)
        cluster.produce(name, 0, b"new")
        keys.append(PartitionKey(topic=name, partition=0, cluster_id=cluster.cluster_id, topic_id=topic_id))
    paths, state, position = StatePaths(), LogState(), [0] * topics
    for number in range(commits):
        if number:
            at = number % topics
            record = _commit(number, keys[at], position[at])
            position[at] += PER_COMMIT
        else:
            record = _record(0, changes=tuple(PartitionChange(key=key, start=0) for key in keys))
        data = wire.encode("commit", record)
        put(paths.commit(number), data)
        if record.has_effects:
            put(paths.published(number), b"published\n")
            put(paths.announced(number), b"announced\n")
        state = state.fold([(record, wire.bytes_digest(data))])
        if number and number % CHECKPOINT_EVERY == 0:
            state = state.marked(published=state.unpublished, announced=state.unannounced)
            put(paths.checkpoint(number), wire.encode("checkpoint", Checkpoint.of(state)))
    return names


def _commit(number: int, key: PartitionKey, low: int) -> Commit:
    """The commit of a run that read ten records of one topic into one file."""
    high = low + PER_COMMIT
    path = f"{key.topic}/2026/01/01/00/{key.topic}+20260101T000000Z-{number:08x}+0+0+0+{low}+{high - 1}.avro"
    change = PartitionChange(
        key=key,
        covered=Ranges.span(low, high),
        log_start=0,
        log_end=high,
        caught_up=True,
        counts=Counts(written=PER_COMMIT, bytes_in=1000),
        seconds=0.1,
    )
    file = FileEntry(
        path=path,
        staged=f".kafka_hdfs/p/staging/20260101T000000Z-{number:08x}/0/{number:032x}/{number}.avro",
        topic=key.topic,
        topic_id=key.topic_id,
        size=1000,
        digest=f"crc32c:{number:08x}",
        records=PER_COMMIT,
        records_out=PER_COMMIT,
        offsets={0: (low, high - 1, PER_COMMIT)},
        time_partition="2026-01-01T00:00:00",
    )
    return _record(number, plan=f"20260101T000000Z-{number:08x}", changes=(change,), files=(file,))


def _record(number: int, **fields: object) -> Commit:
    return Commit(
        number=number,
        kind=Kind.FORWARD,
        run=RunRef(dag_id="d", run_id=f"run-{number}"),
        clock="2026-01-01T00:00:00Z",
        attempt=f"{number:016x}",
        **fields,  # type: ignore[arg-type] # what a kind of record has more
    )
