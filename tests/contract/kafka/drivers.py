"""One face for the fake cluster and for real brokers: what a test does to Kafka, and what it looks with."""

from __future__ import annotations

import time
import uuid
from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, NewPartitions

from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings, client_settings
from airflow_kafka_hdfs.model import ConsumerRecord, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Poll, RecordReader, TopicCatalog
from tests.fakes.kafka import FakeCluster
from tests.stack.fixtures import SECURED_PASSWORD, SECURED_USER
from tests.stack.kafka import KafkaCluster

USER, PASSWORD = SECURED_USER, SECURED_PASSWORD
DEADLINE = 30.0


class Transaction(Protocol):
    @abstractmethod
    def produce(self, topic: str, partition: int, *values: bytes | None) -> object: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...


class Driver(Protocol):
    """A cluster in the hands of a test. The user of `catalog` and `reader` may do all that no `deny` forbids."""

    cluster_id: str

    @abstractmethod
    def topic(self, partitions: int = 1) -> str:
        """A new topic with a name of its own."""

    @abstractmethod
    def create(self, name: str, partitions: int = 1) -> None: ...

    @abstractmethod
    def delete(self, name: str) -> None: ...

    @abstractmethod
    def add_partitions(self, name: str, total: int) -> None: ...

    @abstractmethod
    def produce(
        self,
        topic: str,
        partition: int,
        *values: bytes | None,
        timestamp: int | None = None,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None: ...

    @abstractmethod
    def transaction(self) -> Transaction: ...

    @abstractmethod
    def expire(self, topic: str, partition: int, before: int) -> None:
        """Move the log start."""

    @abstractmethod
    def deny(self, name: str, *, read_only: bool = False) -> None: ...

    @abstractmethod
    def catalog(self) -> TopicCatalog: ...

    @abstractmethod
    def reader(self) -> RecordReader: ...


class FakeDriver(Driver):
    """The cluster in memory."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster_id = self.cluster.cluster_id
        self._made = 0

    def topic(self, partitions: int = 1) -> str:
        self._made += 1
        name = f"topic_{self._made}"
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int = 1) -> None:
        self.cluster.create_topic(name, partitions)

    def delete(self, name: str) -> None:
        self.cluster.delete_topic(name)

    def add_partitions(self, name: str, total: int) -> None:
        self.cluster.add_partitions(name, total)

    def produce(self, topic, partition, *values, timestamp=None, key=None, headers=()) -> None:
        self.cluster.produce(topic, partition, *values, timestamp=timestamp, key=key, headers=headers)

    def transaction(self) -> Transaction:
        return self.cluster.transaction()

    def expire(self, topic: str, partition: int, before: int) -> None:
        self.cluster.expire(topic, partition, before)

    def deny(self, name: str, *, read_only: bool = False) -> None:
        self.cluster.deny(name, read_only=read_only)

    def catalog(self) -> TopicCatalog:
        return self.cluster.catalog()

    def reader(self) -> RecordReader:
        return self.cluster.reader()


READERS: dict[str, Callable[[KafkaSettings], RecordReader]] = {"client": KafkaReader, "direct": DirectReader}
"""What reads from real brokers."""


class RealDriver(Driver):
    """Brokers; `catalog` and `reader` come over TLS with a password."""

    def __init__(self, cluster: KafkaCluster, reader: str = "client") -> None:
        self.cluster = cluster
        self.make_reader = READERS[reader]
        self.cluster_id = cluster.cluster_id
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        self.settings = client_settings(dict(cluster.secure_config(USER)))
        self.many = 2_000

    def topic(self, partitions: int = 1) -> str:
        name = f"topic_{uuid.uuid4().hex[:10]}"
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int = 1) -> None:
        self.cluster.create_topic(name, partitions)

    def delete(self, name: str) -> None:
        self.cluster.delete_topic(name)
        # A producer keeps the id of the old topic.
        self._producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})

    def add_partitions(self, name: str, total: int) -> None:
        self.cluster.admin.create_partitions([NewPartitions(name, total)])[name].result(timeout=30)
        until(lambda: len(self.cluster.admin.list_topics(name, timeout=5).topics[name].partitions) == total)

    def produce(self, topic, partition, *values, timestamp=None, key=None, headers=()) -> None:
        for value in values:
            more = {} if timestamp is None else {"timestamp": timestamp}
            self._producer.produce(topic, value, key, partition, headers=list(headers), **more)
        assert self._producer.flush(30) == 0

    def transaction(self) -> Transaction:
        return _RealTransaction(self.cluster.bootstrap_servers)

    def expire(self, topic: str, partition: int, before: int) -> None:
        wanted = ClientPartition(topic, partition, before)
        self.cluster.admin.delete_records([wanted])[wanted].result(timeout=30)

    def deny(self, name: str, *, read_only: bool = False) -> None:
        self.cluster.deny(USER, name, AclOperation.READ if read_only else AclOperation.ALL)

    def catalog(self) -> TopicCatalog:
        return KafkaCatalog(self.settings, many=self.many)

    def reader(self) -> RecordReader:
        return self.make_reader(self.settings)


class _RealTransaction(Transaction):
    def __init__(self, servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex, "log_level": 0})
        self._producer.init_transactions(30)
        self._producer.begin_transaction()

    def produce(self, topic: str, partition: int, *values: bytes | None) -> None:
        for value in values:
            self._producer.produce(topic, value, None, partition)
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)


def until(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    """Ask again until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the state did not come"
        time.sleep(0.05)


class Reading:
    """Reads with a reader until something is reached, and keeps all it saw."""

    def __init__(self, reader: RecordReader) -> None:
        self.reader = reader
        self.records: list[ConsumerRecord] = []
        self.positions: dict[TopicPartition, int] = {}
        self.out_of_range: list[TopicPartition] = []
        self.faults: dict[TopicPartition, str] = {}

    def poll(self, n: int = 500) -> Poll:
        poll = self.reader.poll(n, 0.1)
        assert len(poll.batch) <= n
        self.records += [poll.batch.record(i) for i in range(len(poll.batch))]
        for tp, position in poll.positions.items():
            assert position >= self.positions.get(tp, 0), f"{tp} went backwards"
            self.positions[tp] = position
        self.out_of_range += poll.out_of_range
        self.faults |= poll.faults
        return poll

    def to(self, ends: dict[TopicPartition, int], n: int = 500, seconds: float = DEADLINE) -> Reading:
        """Until every partition has this position."""
        return self.until(lambda: all(self.positions.get(tp, -1) >= end for tp, end in ends.items()), n, seconds)

    def until(self, reached: Callable[[], bool], n: int = 500, seconds: float = DEADLINE) -> Reading:
        """Until a condition holds."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, (
                f"not reached; positions {self.positions}, out of range {self.out_of_range}, faults {self.faults}, "
                f"{len(self.records)} records, trouble {self.reader.trouble()!r}"
            )
            self.poll(n)
        return self

    def values(self, topic: str | None = None, partition: int | None = None) -> list[bytes | None]:
        """Values in the order of arrival."""
        return [
            r.value
            for r in self.records
            if (topic is None or r.topic == topic) and (partition is None or r.partition == partition)
        ]
