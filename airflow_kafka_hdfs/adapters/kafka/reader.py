"""The bounded reader over `Consumer.consume`: many records per call, columns made when asked for.

What librdkafka tells, and what becomes of it:

1. records: the batch, and positions behind them;
2. end of a partition (an event with an offset): the position, so that markers, aborted and compacted records at the
   end of a range count as read;
3. "offset reset" (with `auto.offset.reset=error` an event): the partition is out of range;
4. denied, missing, corrupt: a fault of the partition, nothing of it is handed out from there on;
5. everything else passes: brokers come back, leaders are elected; whether it takes too long is the caller's judgement,
   and `trouble` says what the client said last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as ClientPartition

from airflow_kafka_hdfs.adapters.kafka.errors import (
    Trouble,
    code_of,
    fault_of,
    is_end_of_partition,
    is_out_of_range,
    kafka_error,
)
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Poll, RecordBatch, RecordReader

# How librdkafka names the partition in reports that come without one.
_PARTITION = re.compile(r"(?P<topic>[\w.-]+) \[(?P<number>\d+)\]: ")
_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: TimestampType.CREATE, TIMESTAMP_LOG_APPEND_TIME: TimestampType.LOG_APPEND}


class MessageBatch(RecordBatch):
    """Columns over client messages; each is made once, by C calls alone."""

    __slots__ = ("_messages", "_offsets", "_partitions", "_topics")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._topics: list[str] | None = None
        self._partitions: list[int] | None = None
        self._offsets: list[int] | None = None

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

    def offsets(self) -> list[int]:
        """Offset of each record."""
        if self._offsets is None:
            self._offsets = list(map(Message.offset, self._messages))  # type: ignore[arg-type]  # as above
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
            timestamp_type=_TIMESTAMP_TYPES.get(kind, TimestampType.NONE),
            key=message.key(),
            value=message.value(),
            headers=tuple(message.headers() or ()),  # type: ignore[arg-type]  # a list of pairs when it was received
        )


class KafkaReader(RecordReader):
    """Reads assigned partitions without a group.

    Args:
        settings: from `client_settings`.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        config = settings.for_consumer()
        self._trouble = Trouble(config.get("error_cb"), settings.hide)
        self._consumer = settings.make(Consumer, {**config, "error_cb": self._note})
        self._servers = config.get("bootstrap.servers") or config.get("metadata.broker.list")
        # One object per partition, found by what messages carry.
        self._assigned: dict[tuple[str, int], TopicPartition] = {}
        self._only_topic: str | None = None
        # Partitions that are out of range or have a fault: nothing of them is handed out.
        self._ended: set[tuple[str, int]] = set()
        self._lost: dict[TopicPartition, str] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Hand all partitions to the client at once; changing them one by one would cost a long poll each."""
        self._assigned = {(tp.topic, tp.partition): tp for tp in positions}
        self._ended, self._lost = set(), {}
        topics = {tp.topic for tp in positions}
        self._only_topic = topics.pop() if len(topics) == 1 else None
        self._consumer.assign([ClientPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Take the partition away from the client and give it back at the other offset."""
        # Consumer.seek waits for the partition's thread, without limit if its start is still under way.
        self._must_be_assigned(partition)
        self._restart({partition: offset})

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching; what the client had fetched in advance is thrown away."""
        for tp in partitions:
            self._must_be_assigned(tp)
        self._consumer.pause([ClientPartition(tp.topic, tp.partition) for tp in partitions])

    def resume(self, positions: Mapping[TopicPartition, int]) -> None:
        """Let the client fetch again, at offsets of ours: it may have handed out more than was taken."""
        for tp in positions:
            self._must_be_assigned(tp)
        self._consumer.resume([ClientPartition(tp.topic, tp.partition) for tp in positions])
        self._restart(positions)

    def poll(self, max_records: int, timeout: float) -> Poll:
        """One batch with all that was told meanwhile. Raises KafkaUnavailableError for a fatal state of the client."""
        messages = self._receive(max_records, timeout)
        events: list[Message] = []
        faults, self._lost = self._lost, {}
        if any(map(Message.error, messages)) or self._ended:
            messages, events = self._without_events(messages)
        batch = MessageBatch(messages)
        positions = self._positions(batch)
        out_of_range: list[TopicPartition] = []
        for event in events:
            self._take(event, positions, out_of_range, faults)
        return Poll(batch=batch, positions=positions, out_of_range=out_of_range, faults=faults)

    def trouble(self) -> str:
        """The client's latest report."""
        return self._trouble.last

    def close(self) -> None:
        """End the client."""
        # Without a group there is nobody to say goodbye to: measured 1 ms, with a frozen broker too.
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()

    def _restart(self, positions: Mapping[TopicPartition, int]) -> None:
        self._consumer.incremental_unassign([ClientPartition(tp.topic, tp.partition) for tp in positions])
        self._consumer.incremental_assign(
            [ClientPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
        )
        self._ended.difference_update((tp.topic, tp.partition) for tp in positions)

    def _receive(self, max_records: int, timeout: float) -> list[Message]:
        """What lies in the client's queue; only if it is empty, wait for the first record.

        `consume(n, timeout)` would wait for n records or the whole timeout, which stalls the end of every range.
        """
        try:
            messages = self._consumer.consume(max_records, 0.0)
            if not messages:
                first = self._consumer.poll(timeout)
                if first is not None:
                    messages = [first]
                    if max_records > 1:
                        messages += self._consumer.consume(max_records - 1, 0.0)
        except KafkaException as error:
            raise self._gave_up(kafka_error(error)) from error
        if self._trouble.fatal is not None:
            raise self._gave_up(self._trouble.fatal)
        return messages

    def _without_events(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        """Records and events apart. After the end of a partition's usefulness nothing of it passes any more."""
        records, events = [], []
        for message in messages:
            where = (message.topic(), message.partition())
            error = message.error()
            if where in self._ended:
                continue
            if error is None:
                records.append(message)
                continue
            events.append(message)
            if is_out_of_range(error) or fault_of(error) is not None:
                self._ended.add(where)  # type: ignore[arg-type]  # such events name their partition
        return records, events

    def _positions(self, batch: MessageBatch) -> dict[TopicPartition, int]:
        # Offsets of a partition ascend, so the last one that `dict` sees is the greatest.
        if self._only_topic is not None:
            last: dict[Any, int] = dict(zip(batch.partitions(), batch.offsets(), strict=True))
            return {self._assigned[(self._only_topic, number)]: offset + 1 for number, offset in last.items()}
        last = dict(zip(zip(batch.topics(), batch.partitions(), strict=True), batch.offsets(), strict=True))
        return {self._assigned[where]: offset + 1 for where, offset in last.items()}

    def _take(
        self,
        event: Message,
        positions: dict[TopicPartition, int],
        out_of_range: list[TopicPartition],
        faults: dict[TopicPartition, str],
    ) -> None:
        error = event.error()
        tp = self._assigned.get((event.topic() or "", event.partition() or 0))
        if error is None or tp is None:
            return
        if error.fatal():
            raise self._gave_up(error)
        if is_end_of_partition(error):
            positions[tp] = max(positions.get(tp, 0), event.offset() or 0)
        elif is_out_of_range(error):
            out_of_range.append(tp)
        elif fault_of(error) is not None:
            faults[tp] = code_of(error)
        else:
            self._trouble.note(error)

    def _note(self, error: KafkaError) -> None:
        """What the client reports outside of messages; topics that vanish are told only here, and only as text."""
        self._trouble.note(error)
        named = _PARTITION.match(error.str())
        if named is None or fault_of(error) is None:
            return
        where = (named["topic"], int(named["number"]))
        if where in self._assigned and where not in self._ended:
            self._ended.add(where)
            self._lost[self._assigned[where]] = code_of(error)

    def _gave_up(self, error: KafkaError) -> KafkaUnavailableError:
        return self._trouble.unavailable("reading", error, self._servers)

    def _must_be_assigned(self, tp: TopicPartition) -> None:
        if (tp.topic, tp.partition) not in self._assigned:
            raise ValueError(f"{tp} is not assigned; assigned: {', '.join(map(str, self._assigned.values()))}")
