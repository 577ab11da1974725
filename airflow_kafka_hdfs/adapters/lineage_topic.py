"""The lineage topics in Kafka: an idempotent producer, and a reader of whole topics that keeps no group state."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError, TopicFaultError
from airflow_kafka_hdfs.ports.lineage import Letter

RETENTION_MS = 30 * 24 * 3600 * 1000
"""Thirty days: the warehouse may be away for a while."""
_PRODUCER = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "zstd",
    "linger.ms": 50,
    "delivery.timeout.ms": 120_000,
    "message.max.bytes": 1_000_000,
}
_CONSUMER = {
    # Where retention overtakes the loader, what is left is read; each message stands for itself.
    "auto.offset.reset": "earliest",
    "group.id": "airflow-lineage-loader",
}
# The client spells the codes of its own, public errors with an underscore.
_END = KafkaError._PARTITION_EOF  # noqa: SLF001
_AWAY = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001
_ASK = 10.0
_AT_ONCE = 500
_MISSING = "create it with `airflow kafka-hdfs lineage init`; it is never created on the fly"


@contextmanager
def _answered(what: str) -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise KafkaUnavailableError(f"{what}: {error.args[0]}") from error


class KafkaLetterBox:
    """Sends messages of lineage.

    A producer does not survive a fork: make it in the process that uses it.

    Args:
        settings: of the cluster.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._producer = settings.make(Producer, {**settings.for_producer(), **_PRODUCER})
        self._failed = 0

    def send(self, topic: str, key: bytes, value: bytes) -> None:
        """See `LetterBox.send`."""
        try:
            self._producer.produce(topic, value, key, on_delivery=self._delivered)
        except BufferError as error:
            self._producer.poll(0)
            raise KafkaUnavailableError(f"topic {topic}: too many messages wait for delivery ({error})") from error
        except KafkaException as error:
            raise KafkaUnavailableError(f"topic {topic}: {error.args[0]}") from error
        self._producer.poll(0)

    def flush(self, timeout: float) -> int:
        """See `LetterBox.flush`; what is not delivered then is given up here, for the caller to keep."""
        waiting = self._producer.flush(timeout)
        if waiting:
            self._producer.purge(in_flight=False)
            self._producer.poll(0)
        failed, self._failed = self._failed, 0
        return max(waiting, failed)

    def close(self) -> None:
        """See `LetterBox.close`."""
        self._producer.purge()
        self._producer.flush(0.1)

    def abandon(self) -> None:
        """See `LetterBox.abandon`.

        The client's threads did not survive the fork, and its end would wait for them for ever: it is never freed.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed += 1


class KafkaLetterSource:
    """Reads every partition of topics from given offsets.

    Args:
        settings: of the cluster.
        most_bytes: a poll asks for no more messages once it holds this many.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(self, settings: KafkaSettings, *, most_bytes: int = 32 * 1024 * 1024) -> None:
        self._most_bytes = most_bytes
        self._consumer = settings.make(Consumer, {**settings.for_consumer(), **_CONSUMER})
        self._positions: dict[tuple[str, int], int] = {}

    def assign(self, topics: Collection[str], positions: Mapping[tuple[str, int], int]) -> None:
        """See `LetterSource.assign`."""
        found: dict[tuple[str, int], int] = {}
        for topic in topics:
            for partition in self._partitions(topic):
                low, high = self._held(topic, partition)
                wanted = positions.get((topic, partition), low)
                found[topic, partition] = wanted if low <= wanted <= high else low
        with _answered("assigning the lineage topics"):
            self._consumer.assign([TopicPartition(topic, number, start) for (topic, number), start in found.items()])
        self._positions = found

    def poll(self, max_letters: int, timeout: float) -> list[Letter]:
        """See `LetterSource.poll`."""
        letters: list[Letter] = []
        until, size = time.monotonic() + timeout, 0
        while len(letters) < max_letters and size < self._most_bytes:
            wanted = min(_AT_ONCE, max_letters - len(letters))
            with _answered("reading the lineage topics"):
                messages = self._consumer.consume(wanted, max(until - time.monotonic(), 0))
            fresh = self._letters(messages)
            letters += fresh
            size += sum(len(letter.value or b"") for letter in fresh)
            if len(messages) < wanted:
                break
        return letters

    def _letters(self, messages: Iterable[Message]) -> list[Letter]:
        letters: list[Letter] = []
        for message in messages:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            error = message.error()
            if error is not None:
                self._judge(error, topic, partition, offset)
            elif topic is not None and partition is not None and offset is not None:
                letters.append(Letter(topic=topic, partition=partition, offset=offset, value=message.value()))
                self._positions[topic, partition] = offset + 1
        return letters

    def positions(self) -> Mapping[tuple[str, int], int]:
        """See `LetterSource.positions`."""
        return dict(self._positions)

    def ends(self) -> Mapping[tuple[str, int], tuple[int, int]]:
        """See `LetterSource.ends`."""
        return {(topic, partition): self._held(topic, partition) for topic, partition in self._positions}

    def close(self) -> None:
        """See `LetterSource.close`."""
        self._consumer.close()

    def _partitions(self, topic: str) -> list[int]:
        with _answered(f"topic {topic}"):
            found = self._consumer.list_topics(topic, timeout=_ASK).topics[topic]
        if found.error is not None:
            if found.error.retriable():
                raise KafkaUnavailableError(f"topic {topic}: {found.error.str()}")
            raise TopicFaultError(topic, found.error.name().lower(), _MISSING)
        return sorted(found.partitions)

    def _held(self, topic: str, partition: int) -> tuple[int, int]:
        with _answered(f"topic {topic}[{partition}]"):
            held = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ASK)
        if held is None:
            raise KafkaUnavailableError(f"topic {topic}[{partition}]: no answer about its offsets in {_ASK:.0f} s")
        return held

    def _judge(self, error: KafkaError, topic: str | None, partition: int | None, offset: int | None) -> None:
        if error.code() == _END:
            if topic is not None and partition is not None and offset is not None:
                self._positions[topic, partition] = max(offset, self._positions.get((topic, partition), 0))
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            raise TopicFaultError(topic or "?", error.name().lower(), _MISSING)
        elif error.fatal():
            raise KafkaUnavailableError(f"reading the lineage topics: {error.str()}")


def create_topics(
    settings: KafkaSettings, names: Collection[str], *, partitions: int = 6, replication: int = -1
) -> dict[str, bool]:
    """Create the lineage topics, kept for 30 days.

    Args:
        settings: of the cluster.
        names: topics; those that exist are left as they are.
        partitions: of each new topic.
        replication: copies; -1 for the brokers' default.

    Returns:
        For each topic whether it was created now.

    Raises:
        KafkaUnavailableError: no broker answered in time.
        TopicFaultError: the brokers refuse.
    """
    admin = settings.make(AdminClient, settings.for_admin())
    kept = {"retention.ms": str(RETENTION_MS), "cleanup.policy": "delete"}
    wanted = [NewTopic(name, partitions, replication, config=kept) for name in names]
    made: dict[str, bool] = {}
    for name, future in admin.create_topics(wanted, request_timeout=_ASK, operation_timeout=_ASK).items():
        try:
            future.result()
            made[name] = True
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                made[name] = False
            elif reason.retriable() or reason.code() in _AWAY:
                raise KafkaUnavailableError(f"topic {name}: {reason.str()}") from error
            else:
                raise TopicFaultError(name, reason.name().lower(), reason.str()) from error
    return made
