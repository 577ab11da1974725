"""What a bounded reader knows of its partitions, whichever way records come from the client.

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
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError

from airflow_kafka_hdfs.adapters.kafka.errors import (
    Trouble,
    code_of,
    fault_of,
    is_end_of_partition,
    is_fatal,
    is_out_of_range,
)
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.model import TopicPartition
from airflow_kafka_hdfs.ports.kafka import Poll, RecordBatch

# How librdkafka names the partition in reports that come without one.
_PARTITION = re.compile(r"(?P<topic>[\w.-]+) \[(?P<number>\d+)\]: ")

Where = tuple[str, int]
"""Topic and partition, as messages carry them."""


class Event(NamedTuple):
    """What came among the records and is none."""

    where: Where
    offset: int
    error: KafkaError


class Assigned:
    """The partitions of a reader.

    Args:
        trouble: keeps what the client reports on its own.
        servers: for the text of errors.

    Attributes:
        only_topic: the topic of all partitions, None where there are several.
        ended: partitions that are out of range or have a fault: nothing of them is handed out.
        paused: partitions that rest. The client has to be told to resume them before it is given any anew: a pause that
            it is still at work on lasts beyond the next assignment otherwise, and nothing is read.
    """

    def __init__(self, trouble: Trouble, servers: object) -> None:
        self.trouble = trouble
        self.only_topic: str | None = None
        self.ended: set[Where] = set()
        self.paused: set[TopicPartition] = set()
        self._servers = servers
        # One object per partition, found by what messages carry.
        self._partitions: dict[Where, TopicPartition] = {}
        self._lost: dict[TopicPartition, str] = {}

    def begin(self, positions: Mapping[TopicPartition, int]) -> None:
        """Know these partitions, and forget the ones before."""
        self._partitions = {(tp.topic, tp.partition): tp for tp in positions}
        self.ended, self.paused, self._lost = set(), set(), {}
        topics = {tp.topic for tp in positions}
        self.only_topic = topics.pop() if len(topics) == 1 else None

    def require(self, partitions: Collection[TopicPartition]) -> None:
        """Raise ValueError if one of them is not assigned."""
        for tp in partitions:
            if (tp.topic, tp.partition) not in self._partitions:
                raise ValueError(f"{tp} is not assigned; assigned: {', '.join(map(str, self._partitions.values()))}")

    def restarted(self, positions: Mapping[TopicPartition, int]) -> None:
        """Hand out again what comes of these."""
        self.ended.difference_update((tp.topic, tp.partition) for tp in positions)

    def passes(self, where: Where, error: KafkaError | None) -> bool:
        """Whether a record (without error) or an event is handed out: nothing behind what ends a partition is."""
        if where in self.ended:
            return False
        if error is not None and (is_out_of_range(error) or fault_of(error) is not None):
            self.ended.add(where)
        return True

    def told(self, batch: RecordBatch, last: Mapping[Where, int], events: Iterable[Event]) -> Poll:
        """What a poll has brought.

        Args:
            batch: its records.
            last: offset of the last record of each partition among them.
            events: what came besides, in order.

        Raises:
            KafkaUnavailableError: one of the events is fatal.
        """
        faults, self._lost = self._lost, {}
        positions = {self._partitions[where]: offset + 1 for where, offset in last.items()}
        out_of_range: list[TopicPartition] = []
        for event in events:
            self._take(event, positions, out_of_range, faults)
        return Poll(batch=batch, positions=positions, out_of_range=out_of_range, faults=faults)

    def note(self, error: KafkaError) -> None:
        """What the client reports outside of messages; topics that vanish are told only here, and only as text."""
        self.trouble.note(error)
        named = _PARTITION.match(error.str())
        if named is None or fault_of(error) is None:
            return
        where = (named["topic"], int(named["number"]))
        if where in self._partitions and where not in self.ended:
            self.ended.add(where)
            self._lost[self._partitions[where]] = code_of(error)

    def gave_up(self, error: KafkaError) -> KafkaUnavailableError:
        """The error to raise where the client gave up."""
        return self.trouble.unavailable("reading", error, self._servers)

    def refuse_fatal(self) -> None:
        """Raise KafkaUnavailableError if the client has reported a fatal state."""
        if self.trouble.fatal is not None:
            raise self.gave_up(self.trouble.fatal)

    def _take(
        self,
        event: Event,
        positions: dict[TopicPartition, int],
        out_of_range: list[TopicPartition],
        faults: dict[TopicPartition, str],
    ) -> None:
        error = event.error
        if is_fatal(error):  # of the client as a whole, without any partition
            raise self.gave_up(error)
        tp = self._partitions.get(event.where)
        if tp is None:
            return
        if is_end_of_partition(error):
            positions[tp] = max(positions.get(tp, 0), event.offset)
        elif is_out_of_range(error):
            out_of_range.append(tp)
        elif fault_of(error) is not None:
            faults[tp] = code_of(error)
        else:
            self.trouble.note(error)
