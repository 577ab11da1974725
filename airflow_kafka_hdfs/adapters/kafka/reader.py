"""The bounded reader over `Consumer.consume`: many records per call, columns made when asked for."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter, methodcaller
from typing import overload

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as ClientPartition

from airflow_kafka_hdfs.adapters.kafka.assigned import Assigned, Event
from airflow_kafka_hdfs.adapters.kafka.errors import Trouble, kafka_error
from airflow_kafka_hdfs.adapters.kafka.properties import CONSUMER_ONLY
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.garbage import LeftOut, no_search
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Poll, RecordBatch, RecordReader, is_of_one

log = logging.getLogger(__name__)

Headers = tuple[tuple[str, bytes | None], ...]

TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: TimestampType.CREATE, TIMESTAMP_LOG_APPEND_TIME: TimestampType.LOG_APPEND}
"""By the client's number."""


_FEW_PARTITIONS = 8
"""Partitions in a batch up to which a search from its end for each of them is the fastest."""


class _Offsets(Sequence[int]):
    """Offset of each record. Most batches are of one partition, and then nobody asks for more than first and last."""

    __slots__ = ("_all", "_messages")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._all: list[int] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if self._all is None and index in (0, -1):
            return Message.offset(self._messages[index])  # type: ignore[return-value]  # set on every record
        return self._column()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._column())

    def _column(self) -> list[int]:
        if self._all is None:
            self._all = list(map(Message.offset, self._messages))  # type: ignore[arg-type]  # as above
        return self._all


class MessageBatch(RecordBatch):
    """Columns over client messages; each is made once, by C calls alone."""

    __slots__ = ("_messages", "_offsets", "_partitions", "_topics")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._topics: list[str] | None = None
        self._partitions: list[int] | None = None
        self._offsets = _Offsets(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def topics(self) -> list[str]:
        """Topic of each record."""
        if self._topics is None:
            self._topics = list(map(Message.topic, self._messages))  # type: ignore[arg-type]  # set on every record
        return self._topics

    def partitions(self) -> list[int]:
        """Partition of each record."""
        if self._partitions is None:
            self._partitions = list(map(Message.partition, self._messages))  # type: ignore[arg-type]  # as above
        return self._partitions

    def offsets(self) -> Sequence[int]:
        """Offset of each record."""
        return self._offsets

    def values(self) -> list[bytes | None]:
        """Value of each record; not kept, so that the caller decides how long values live."""
        return list(map(Message.value, self._messages))

    def timestamps(self) -> list[int]:
        """Milliseconds since the epoch; the dearest column, 0.1 µs a record."""
        return list(map(itemgetter(1), map(Message.timestamp, self._messages)))

    def record(self, index: int) -> ConsumerRecord:
        """One record whole."""
        message = self._messages[index]
        kind, millis = message.timestamp()
        return ConsumerRecord(
            topic=message.topic() or "",
            partition=message.partition() or 0,
            offset=message.offset() or 0,
            timestamp=millis,
            timestamp_type=TIMESTAMP_TYPES.get(kind, TimestampType.NONE),
            key=message.key(),
            value=message.value(),
            headers=_headers(message),
        )


_ask_headers = methodcaller("headers")
"""Not as a method in a line of Python: there the interpreter, once it has seen the line often, takes the list that the
client gives beside an error for good, and the error shows up somewhere else."""


def _headers(message: Message) -> Headers:
    try:
        return tuple(_ask_headers(message) or ())
    except (SystemError, UnicodeDecodeError) as error:  # the client wraps the second one in the first
        if not isinstance(error.__cause__ or error, UnicodeDecodeError):
            raise
        # The client keeps the list it broke off in, and would hand it out without an error the next time.
        message.set_headers([])
        return no_headers(message.topic() or "", message.partition() or 0, message.offset() or 0)


def no_headers(topic: str, partition: int, offset: int) -> Headers:
    """What a record has for headers of which the client can't make text: none, in every reader."""
    log.warning("%s[%d]@%d: its headers are left off: the name of one is not UTF-8", topic, partition, offset)
    return ()


def check_reader_settings(settings: KafkaSettings) -> None:
    """Let the client judge what only its readers use, before anybody counts on a reader.

    Raises:
        ConfigError: the client refuses the settings; with its own words.
    """
    if CONSUMER_ONLY & settings.values.keys():
        settings.make(Consumer, settings.for_consumer()).close()


class KafkaReader(RecordReader):
    """Reads assigned partitions without a group; see `assigned` for what becomes of what the client tells.

    Args:
        settings: from `client_settings`.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        config = settings.for_consumer()
        self._assigned = Assigned(Trouble(config.get("error_cb"), settings.hide), settings.servers)
        self._consumer = settings.make(Consumer, {**config, "error_cb": self._assigned.note})
        self._left_out = LeftOut()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Hand all partitions to the client at once; changing them one by one would cost a long poll each."""
        if self._assigned.paused:
            self._consumer.resume([ClientPartition(tp.topic, tp.partition) for tp in self._assigned.paused])
        self._assigned.begin(positions)
        self._left_out.begin()
        self._consumer.assign([ClientPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Take the partition away from the client and give it back at the other offset."""
        # Consumer.seek waits for the partition's thread, without limit if its start is still under way.
        self._assigned.require([partition])
        self._restart({partition: offset})

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching; what the client had fetched in advance is thrown away."""
        self._assigned.require(partitions)
        self._assigned.paused.update(partitions)
        self._consumer.pause([ClientPartition(tp.topic, tp.partition) for tp in partitions])

    def resume(self, positions: Mapping[TopicPartition, int]) -> None:
        """Let the client fetch again, at offsets of ours: it may have handed out more than was taken."""
        self._assigned.require(positions.keys())
        self._assigned.paused.difference_update(positions)
        self._consumer.resume([ClientPartition(tp.topic, tp.partition) for tp in positions])
        self._restart(positions)

    def poll(self, max_records: int, timeout: float) -> Poll:
        """One batch with all that was told meanwhile. Raises KafkaUnavailableError for a fatal state of the client."""
        messages = self._receive(max_records, timeout)
        events: list[Event] = []
        if any(map(Message.error, messages)) or self._assigned.ended:
            messages, events = self._without_events(messages)
        batch = MessageBatch(messages)
        return self._assigned.told(batch, self._last_offsets(batch), events)

    def trouble(self) -> str:
        """The client's latest report."""
        return self._assigned.trouble.last

    def close(self) -> None:
        """End the client."""
        self._left_out.end()
        # Without a group there is nobody to say goodbye to: measured 1 ms, with a frozen broker too.
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _restart(self, positions: Mapping[TopicPartition, int]) -> None:
        self._consumer.incremental_unassign([ClientPartition(tp.topic, tp.partition) for tp in positions])
        self._consumer.incremental_assign(
            [ClientPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
        )
        self._assigned.restarted(positions)

    def _receive(self, max_records: int, timeout: float) -> list[Message]:
        """What lies in the client's queue; only if it is empty, wait for the first record.

        `consume(n, timeout)` would wait for n records or the whole timeout, which stalls the end of every range.
        """
        try:
            with no_search():
                messages = self._consumer.consume(max_records, 0.0)
            if not messages:
                first = self._consumer.poll(timeout)
                if first is not None:
                    messages = [first]
                    if max_records > 1:
                        messages += self._consumer.consume(max_records - 1, 0.0)
        except KafkaException as error:
            raise self._assigned.gave_up(kafka_error(error)) from error
        self._assigned.refuse_fatal()
        return messages

    def _without_events(self, messages: list[Message]) -> tuple[list[Message], list[Event]]:
        """Records and events apart. After the end of a partition's usefulness nothing of it passes any more."""
        records, events = [], []
        for message in messages:
            where, error = (message.topic() or "", message.partition() or 0), message.error()
            if not self._assigned.passes(where, error):
                continue
            if error is None:
                records.append(message)
            else:
                events.append(Event(where, message.offset() or 0, error))
        return records, events

    def _last_offsets(self, batch: MessageBatch) -> dict[tuple[str, int], int]:
        # Offsets of a partition ascend, so the last one of it is the greatest.
        topic = self._assigned.only_topic
        if topic is None:
            return dict(zip(zip(batch.topics(), batch.partitions(), strict=True), batch.offsets(), strict=True))
        partitions, offsets = batch.partitions(), batch.offsets()
        if is_of_one(partitions):
            return {(topic, partitions[-1]): offsets[-1]}
        found = set(partitions)
        if len(found) > _FEW_PARTITIONS:
            return {(topic, number): at for number, at in dict(zip(partitions, offsets, strict=True)).items()}
        backwards = partitions[::-1]
        return {(topic, number): offsets[-1 - backwards.index(number)] for number in found}
