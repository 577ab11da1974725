"""The functions of librdkafka that hand out messages, over records of a test: what is taken is counted and poisoned."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Sequence
from ctypes import CFUNCTYPE, POINTER, c_int, c_int64, c_size_t, c_ssize_t, c_void_p
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.adapters.kafka._messages import Messages, Queue
from airflow_kafka_hdfs.adapters.kafka.direct import DirectBatch
from airflow_kafka_hdfs.adapters.kafka.librdkafka import Message
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType

_KINDS = {TimestampType.NONE: 0, TimestampType.CREATE: 1, TimestampType.LOG_APPEND: 2}


def _pointer(data: bytes | None, kept: list[Any]) -> int | None:
    if data is None:
        return None
    kept.append(ctypes.create_string_buffer(data, max(len(data), 1)))
    return ctypes.addressof(kept[-1])


@dataclass
class Held:
    """One message in foreign memory."""

    record: ConsumerRecord
    err: int = 0
    text: str = ""
    kept: list[Any] = field(default_factory=list)
    message: Message = field(default_factory=Message)

    def __post_init__(self) -> None:
        record = self.record
        self.message.err = self.err
        self.message.topic = _pointer(record.topic.encode() + b"\0", self.kept) if record.topic else None
        self.message.partition, self.message.offset = record.partition, record.offset
        self.message.payload, self.message.size = _pointer(record.value, self.kept), len(record.value or b"")
        self.message.key, self.message.key_size = _pointer(record.key, self.kept), len(record.key or b"")
        self.headers = [
            (_pointer(name.encode() + b"\0", self.kept), _pointer(value, self.kept), len(value or b""))
            for name, value in record.headers
        ]
        self.errstr = _pointer(self.text.encode() + b"\0", self.kept)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.message)

    def poison(self) -> None:
        """What is looked at after its end is not what it was."""
        for buffer in (*self.kept, self.message):
            ctypes.memset(ctypes.addressof(buffer), 0xEE, ctypes.sizeof(buffer))


class FakeLibrdkafka:
    """Messages that wait in one queue.

    Attributes:
        refuses: the next call gives nothing but -1.
        alive: messages that were taken and are not destroyed, by address.
        ended: how many were destroyed.
    """

    def __init__(self) -> None:
        self.waiting: deque[Held] = deque()
        self.alive: dict[int, Held] = {}
        self.graves: list[Held] = []
        self.refuses = False
        self._calls = (
            CFUNCTYPE(c_ssize_t, c_void_p, c_int, POINTER(c_void_p), c_size_t)(self._consume),
            CFUNCTYPE(None, c_void_p)(self._destroy),
            CFUNCTYPE(c_int64, c_void_p, POINTER(c_int))(self._timestamp),
            CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))(self._headers),
            CFUNCTYPE(c_int, c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p), POINTER(c_size_t))(self._header),
            CFUNCTYPE(c_void_p, c_void_p)(lambda message: self.alive[message].errstr),
            CFUNCTYPE(c_void_p, c_void_p)(lambda topic: topic),
        )

    @property
    def ended(self) -> int:
        return len(self.graves)

    def add(self, record: ConsumerRecord, err: int = 0, text: str = "") -> None:
        self.waiting.append(Held(record, err, text))

    def queue(self) -> Queue:
        one, two, three, four, five, six, seven = (ctypes.cast(call, c_void_p).value or 0 for call in self._calls)
        return Queue(1, (one, two, three, four, five, six, seven))

    def fetch(self, records: Iterable[ConsumerRecord]) -> Messages:
        """Messages of these records, through a queue of their own."""
        count = 0
        for count, record in enumerate(records, 1):  # noqa: B007 - how many there were
            self.add(record)
        found = self.queue().fetch(max(count, 1), 0)
        assert found is not None
        assert len(found) == count
        return found

    def _consume(self, _queue: int, timeout: int, out: Any, most: int) -> int:
        if self.refuses:
            return -1
        count = min(most, len(self.waiting))
        for i in range(count):
            held = self.waiting.popleft()
            out[i] = held.address
            self.alive[held.address] = held
        return count

    def _destroy(self, message: int) -> None:
        held = self.alive.pop(message)
        held.poison()
        self.graves.append(held)

    def _timestamp(self, message: int, kind: Any) -> int:
        record = self.alive[message].record
        kind[0] = _KINDS[record.timestamp_type]
        return record.timestamp

    def _headers(self, message: int, out: Any) -> int:
        held = self.alive[message]
        out[0] = message if held.headers else None
        return 0 if held.headers else -1

    def _header(self, headers: int, index: int, name: Any, value: Any, size: Any) -> int:
        held = self.alive[headers]
        if index >= len(held.headers):
            return -1
        name[0], value[0], size[0] = held.headers[index]
        return 0


_LIBRARY = FakeLibrdkafka()


def direct_batch(records: Sequence[ConsumerRecord]) -> DirectBatch:
    """A batch as the direct reader gives it."""
    _LIBRARY.graves.clear()
    return DirectBatch(_LIBRARY.fetch(records))


def direct_values(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
    """A column of values in foreign memory."""
    return direct_batch(
        [
            ConsumerRecord(
                topic="t",
                partition=0,
                offset=offset,
                timestamp=0,
                timestamp_type=TimestampType.CREATE,
                key=None,
                value=value,
            )
            for offset, value in enumerate(values)
        ]
    ).values()
