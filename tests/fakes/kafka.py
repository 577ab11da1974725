"""A Kafka cluster in memory: what a broker holds, and what may happen to it while somebody reads.

    cluster = FakeCluster()
    cluster.create_topic("events", partitions=2)
    cluster.produce("events", 0, b"a", b"b")            # offsets 0, 1
    txn = cluster.transaction()
    txn.produce("events", 0, b"c")                      # 2: unseen until commit, and holds the last stable offset
    txn.commit()                                        # 3: the marker, an offset without a record
    catalog, reader = cluster.catalog(), cluster.reader()

Nothing happens by itself. Readers behave like librdkafka with `read_committed`: markers, aborted and compacted
offsets never arrive, a position moves past them with the next record or with the end-of-partition event, and that
event comes in a later poll than the last record.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence

from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.model import ConsumerRecord, PartitionOffsets, TimestampType, TopicInfo, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Fault, Poll, RecordBatch, RecordReader, TopicCatalog
from tests.fakes.kafka_parts import Entry, FakeBatch, FakeMirror, Log, Topic
from tests.fakes.runtime import ManualClock

__all__ = ["FakeBatch", "FakeCatalog", "FakeCluster", "FakeMirror", "FakeReader", "FakeTransaction"]


class FakeTransaction:
    """An open transaction over any partitions; its first offset in each holds back the last stable offset."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.state = "open"
        self.touched: dict[TopicPartition, int] = {}

    def produce(self, topic: str, partition: int, *values: bytes | None, timestamp: int | None = None) -> list[int]:
        """Append records that are seen only after `commit`; returns their offsets."""
        self._must_be_open()
        offsets = self._cluster._append(topic, partition, values, timestamp=timestamp, txn=self)
        self.touched.setdefault(TopicPartition(topic, partition), offsets[0])
        return offsets

    def commit(self) -> None:
        """Show the records; appends one marker to every touched partition."""
        self._end("committed")

    def abort(self) -> None:
        """Hide the records for ever; appends one marker to every touched partition."""
        self._end("aborted")

    def _end(self, state: str) -> None:
        self._must_be_open()
        self.state = state
        self._cluster._open.remove(self)
        for tp in self.touched:
            if tp.topic in self._cluster._topics:
                self._cluster._log(tp).append(Entry(record=None, timestamp=self._cluster.clock.millis()))

    def _must_be_open(self) -> None:
        if self.state != "open":
            raise ValueError(f"the transaction is {self.state}")


class FakeCluster:
    """The brokers.

    Args:
        cluster_id: what the brokers answer; change the attribute to simulate another cluster behind the address.
        clock: gives timestamps; an empty poll lets its timeout pass on it.
        on_call: called before each operation of catalogs and readers with its name (`kafka.cluster_id`,
            `kafka.topics`, `kafka.describe`, `kafka.offsets`, `kafka.offsets_for_times`, `kafka.assign`,
            `kafka.seek`, `kafka.poll`, `kafka.pause`); what it raises comes out of the operation.

    Attributes:
        down: while True catalogs raise KafkaUnavailableError and readers get nothing.
    """

    def __init__(
        self,
        cluster_id: str = "fake-cluster",
        clock: ManualClock | None = None,
        on_call: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.cluster_id = cluster_id
        self.clock = clock or ManualClock()
        self.on_call = on_call
        self.down = False
        self._topics: dict[str, Topic] = {}
        self._open: list[FakeTransaction] = []
        self._made = 0

    # What people do to topics.

    def create_topic(self, name: str, partitions: int = 1, *, first_offset: int = 0) -> str:
        """Make a topic; returns its id, another one each time the name is used again."""
        if name in self._topics:
            raise ValueError(f"topic {name} exists")
        self._made += 1
        digest = hashlib.sha256(f"{self.cluster_id}/{self._made}".encode()).digest()[:16]
        topic_id = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        self._topics[name] = Topic(topic_id, {p: Log(start=first_offset) for p in range(partitions)})
        return topic_id

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records."""
        del self._topics[name]
        for txn in self._open:
            txn.touched = {tp: offset for tp, offset in txn.touched.items() if tp.topic != name}

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        logs = self._topics[name].logs
        logs.update({p: Log() for p in range(len(logs), total)})

    def deny(self, name: str, *, read_only: bool = False) -> None:
        """Take the user's rights on a topic: all, or with `read_only` the reading alone (it is described as usual)."""
        self._topics[name].denied = "read" if read_only else "all"

    def allow(self, name: str) -> None:
        """Give the rights back."""
        self._topics[name].denied = ""

    # What happens to records.

    def produce(
        self,
        topic: str,
        partition: int,
        *values: bytes | None,
        timestamp: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> list[int]:
        """Append committed records; returns their offsets. `timestamp` in milliseconds, by default the clock's."""
        return self._append(
            topic,
            partition,
            values,
            timestamp=timestamp,
            timestamp_type=timestamp_type,
            key=key,
            headers=headers,
        )

    def transaction(self) -> FakeTransaction:
        """Open a transaction."""
        txn = FakeTransaction(self)
        self._open.append(txn)
        return txn

    def compact(self, topic: str, partition: int, *offsets: int) -> None:
        """Remove single records; their offsets stay as holes."""
        log = self._topics[topic].logs[partition]
        for offset in offsets:
            log.entries[offset - log.start].removed = True

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Move the log start, as retention or a delete-records request does."""
        log = self._topics[topic].logs[partition]
        keep = min(max(before, log.start), log.end)
        log.entries = log.entries[keep - log.start :]
        log.start = keep

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Lose the records from `end` on, as an unclean leader election does."""
        log = self._topics[topic].logs[partition]
        del log.entries[max(end - log.start, 0) :]

    def lose_leader(self, topic: str, partition: int) -> None:
        """The partition has no leader: no offsets, no records, no events."""
        self._topics[topic].logs[partition].leader = False

    def elect_leader(self, topic: str, partition: int) -> None:
        """The partition has a leader again."""
        self._topics[topic].logs[partition].leader = True

    # What tests look at.

    def committed(self, topic: str) -> list[ConsumerRecord]:
        """Every record that a read_committed reader can see now, by partition and offset."""
        return [
            entry.record
            for partition, log in sorted(self._topics[topic].logs.items())
            for _, entry in log.at_or_after(log.start, self._stable_end(TopicPartition(topic, partition)))
            if entry.visible and entry.record is not None
        ]

    def catalog(self) -> FakeCatalog:
        """A catalog of this cluster."""
        return FakeCatalog(self)

    def reader(
        self,
        *,
        records_per_partition: int = 1_000_000,
        batch_of: Callable[[Sequence[ConsumerRecord]], RecordBatch] = FakeBatch,
    ) -> FakeReader:
        """A reader of this cluster that takes at most so many records of one partition per poll."""
        return FakeReader(self, records_per_partition, batch_of)

    def _append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        *,
        timestamp: int | None,
        timestamp_type: TimestampType = TimestampType.CREATE,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        txn: FakeTransaction | None = None,
    ) -> list[int]:
        log = self._topics[topic].logs[partition]
        first = log.end
        at = self.clock.millis() if timestamp is None else timestamp
        for value in values:
            record = ConsumerRecord(
                topic=topic,
                partition=partition,
                offset=log.end,
                timestamp=at,
                timestamp_type=timestamp_type,
                key=key,
                value=value,
                headers=tuple(headers),
            )
            log.append(Entry(record=record, timestamp=at, txn=txn))
        return list(range(first, log.end))

    def _log(self, tp: TopicPartition) -> Log:
        return self._topics[tp.topic].logs[tp.partition]

    def _stable_end(self, tp: TopicPartition) -> int:
        log = self._log(tp)
        held = min((txn.touched[tp] for txn in self._open if tp in txn.touched), default=log.end)
        return min(max(held, log.start), log.end)

    def _fault(self, tp: TopicPartition, *, reading: bool) -> str | None:
        topic = self._topics.get(tp.topic)
        if topic is None:
            return Fault.MISSING
        if topic.denied == "all" or (reading and topic.denied):
            return Fault.DENIED
        return None if tp.partition in topic.logs else Fault.MISSING


class FakeCatalog(TopicCatalog):
    """What the brokers answer about topics and offsets."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def cluster_id(self) -> str:
        self._enter("cluster_id")
        return self._cluster.cluster_id

    def topics(self) -> Mapping[str, TopicInfo]:
        self._enter("topics")
        return {
            name: self._info(name)
            for name, topic in sorted(self._cluster._topics.items())
            if not name.startswith("__") and topic.denied != "all"
        }

    def describe(self, names: Collection[str]) -> Mapping[str, TopicInfo]:
        self._enter("describe")
        return {name: self._info(name) for name in names}

    def offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets | str]:
        self._enter("offsets")
        return {tp: self._offsets(tp) for tp in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None | str]:
        self._enter("offsets_for_times")
        return {tp: self._offset_for_time(tp, millis) for tp, millis in times.items()}

    def _enter(self, name: str) -> None:
        self._cluster.on_call(f"kafka.{name}")
        if self._cluster.down:
            raise KafkaUnavailableError(f"the fake cluster is down ({name})")

    def _info(self, name: str) -> TopicInfo:
        topic = self._cluster._topics.get(name)
        if topic is None or topic.denied == "all":
            fault = Fault.MISSING if topic is None else Fault.DENIED
            return TopicInfo(name=name, topic_id="", partitions=(), fault=fault)
        return TopicInfo(name=name, topic_id=topic.topic_id, partitions=tuple(sorted(topic.logs)))

    def _offsets(self, tp: TopicPartition) -> PartitionOffsets | str:
        fault = self._cluster._fault(tp, reading=False)
        if fault is not None:
            return fault
        log = self._cluster._log(tp)
        if not log.leader:
            return Fault.NO_LEADER
        return PartitionOffsets(log_start=log.start, last_stable=self._cluster._stable_end(tp), high_watermark=log.end)

    def _offset_for_time(self, tp: TopicPartition, millis: int) -> int | None | str:
        offsets = self._offsets(tp)
        if isinstance(offsets, str):
            return offsets
        log = self._cluster._log(tp)
        return next(
            (
                offset
                for offset, entry in log.at_or_after(log.start, offsets.last_stable)
                if entry.timestamp >= millis and not entry.removed
            ),
            None,
        )


class FakeReader(RecordReader):
    """Reads by topic name, as librdkafka does: a topic made anew under the name is read on without a word."""

    def __init__(
        self,
        cluster: FakeCluster,
        records_per_partition: int,
        batch_of: Callable[[Sequence[ConsumerRecord]], RecordBatch],
    ) -> None:
        self._cluster = cluster
        self._batch_of = batch_of
        self._per_partition = records_per_partition
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._silent: set[TopicPartition] = set()
        self._end_told: dict[TopicPartition, int] = {}
        self._turn = 0
        self.closed = False

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._enter("assign")
        self._positions = dict(positions)
        self._paused, self._silent, self._end_told = set(), set(), {}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._enter("seek")
        self._must_be_assigned(partition)
        self._positions[partition] = offset
        self._silent.discard(partition)
        self._end_told.pop(partition, None)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._enter("pause")
        for partition in partitions:
            self._must_be_assigned(partition)
        self._paused |= set(partitions)

    def resume(self, positions: Mapping[TopicPartition, int]) -> None:
        self._enter("resume")
        for partition, offset in positions.items():
            self._must_be_assigned(partition)
            self._positions[partition] = offset
            self._end_told.pop(partition, None)
        self._paused -= positions.keys()
        self._silent -= positions.keys()

    def poll(self, max_records: int, timeout: float) -> Poll:
        self._enter("poll")
        records: list[ConsumerRecord] = []
        positions: dict[TopicPartition, int] = {}
        out_of_range: list[TopicPartition] = []
        faults: dict[TopicPartition, str] = {}
        for tp in self._in_turn():
            fault = self._cluster._fault(tp, reading=True)
            if fault is not None:
                faults[tp] = fault
                self._silent.add(tp)
                continue
            log = self._cluster._log(tp)
            if not log.leader:
                continue
            if not log.start <= self._positions[tp] <= log.end:
                out_of_range.append(tp)
                self._silent.add(tp)
                continue
            room = min(max_records - len(records), self._per_partition)
            self._read(tp, log, room, records, positions)
        if not (records or positions or out_of_range or faults):
            self._cluster.clock.sleep(timeout)
        return Poll(batch=self._batch_of(records), positions=positions, out_of_range=out_of_range, faults=faults)

    def trouble(self) -> str:
        return "the fake cluster is down" if self._cluster.down else ""

    def close(self) -> None:
        self.closed = True

    def _read(
        self,
        tp: TopicPartition,
        log: Log,
        room: int,
        records: list[ConsumerRecord],
        positions: dict[TopicPartition, int],
    ) -> None:
        stable = self._cluster._stable_end(tp)
        taken = 0
        for offset, entry in log.at_or_after(self._positions[tp], stable):
            if not entry.visible or entry.record is None:
                continue
            if taken >= room:
                return
            records.append(entry.record)
            positions[tp] = self._positions[tp] = offset + 1
            taken += 1
        end = max(stable, self._positions[tp])  # a position behind the last stable offset waits where it is
        if not taken and self._end_told.get(tp) != end:
            positions[tp] = self._positions[tp] = self._end_told[tp] = end

    def _in_turn(self) -> list[TopicPartition]:
        """The partitions to be read, starting with another one each time."""
        if self._cluster.down:
            return []
        live = sorted(self._positions.keys() - self._paused - self._silent)
        self._turn += 1
        start = self._turn % len(live) if live else 0
        return live[start:] + live[:start]

    def _must_be_assigned(self, tp: TopicPartition) -> None:
        if tp not in self._positions:
            raise ValueError(f"{tp} is not assigned")

    def _enter(self, name: str) -> None:
        if self.closed:
            raise ValueError(f"{name}: the reader is closed")
        self._cluster.on_call(f"kafka.{name}")
