"""The C library below the Kafka client: found, checked, and called without the client's Python face.

It is the very library that `confluent_kafka` has loaded, wherever that came from: names are looked up through the
client's own extension module. Nothing is called before its version, its functions and the layout of the structs that
are read here have been checked; whatever is not as expected is a reason to read with the client instead.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, cimpl

from airflow_kafka_hdfs.adapters.kafka.errors import is_purged

log = logging.getLogger(__name__)

OLDEST, NEWEST = 0x020C0000, 0x03000000
"""Versions whose structs and functions are known (the second one is not): the first number of a version is its ABI."""

CONSUMER, PRODUCER = 1, 0
EVENT_DELIVERY, EVENT_LOG, EVENT_ERROR = 0x1, 0x4, 0x8
NO_GOODBYE = 0x8
"""How to end a consumer that has no group: it would say goodbye to nobody, and after a fatal error wait for ever."""
ERROR_CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
"""Called with the client, a code, and what went wrong; only by the thread that asks for messages or reports."""

_COPY, _PURGE_QUEUED = 0x2, 0x1
_INVALID_OFFSET = -1001
_TEXT_BYTES = 512

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "assign": (c_int, [c_void_p, c_void_p]),
    "conf_destroy": (None, [c_void_p]),
    "conf_new": (c_void_p, []),
    "conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "conf_set_error_cb": (None, [c_void_p, ERROR_CALLBACK]),
    "conf_set_events": (None, [c_void_p, c_int]),
    "consume_batch_queue": (None, []),
    "destroy": (None, [c_void_p]),
    "destroy_flags": (None, [c_void_p, c_int]),
    "error_code": (c_int, [c_void_p]),
    "error_destroy": (None, [c_void_p]),
    "error_string": (c_char_p, [c_void_p]),
    "event_destroy": (None, [c_void_p]),
    "event_error": (c_int, [c_void_p]),
    "event_error_string": (c_char_p, [c_void_p]),
    "event_log": (c_int, [c_void_p, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_int)]),
    "event_message_next": (c_void_p, [c_void_p]),
    "event_type": (c_int, [c_void_p]),
    "fatal_error": (c_int, [c_void_p, c_char_p, c_size_t]),
    "header_get_all": (None, []),
    "incremental_assign": (c_void_p, [c_void_p, c_void_p]),
    "incremental_unassign": (c_void_p, [c_void_p, c_void_p]),
    "last_error": (c_int, []),
    "message_destroy": (None, []),
    "message_errstr": (None, []),
    "message_headers": (None, []),
    "message_timestamp": (None, []),
    "name": (c_char_p, [c_void_p]),
    "new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "pause_partitions": (c_int, [c_void_p, c_void_p]),
    "produce": (c_int, [c_void_p, c_int32, c_int, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p]),
    "purge": (c_int, [c_void_p, c_int]),
    "queue_destroy": (None, [c_void_p]),
    "queue_get_consumer": (c_void_p, [c_void_p]),
    "queue_get_main": (c_void_p, [c_void_p]),
    "queue_poll": (c_void_p, [c_void_p, c_int]),
    "resume_partitions": (c_int, [c_void_p, c_void_p]),
    "set_log_queue": (c_int, [c_void_p, c_void_p]),
    "topic_destroy": (None, [c_void_p]),
    "topic_name": (None, []),
    "topic_new": (c_void_p, [c_void_p, c_char_p, c_void_p]),
    "topic_partition_list_add": (c_void_p, [c_void_p, c_char_p, c_int32]),
    "topic_partition_list_destroy": (None, [c_void_p]),
    "topic_partition_list_new": (c_void_p, [c_int]),
    "topic_partition_list_set_offset": (c_int, [c_void_p, c_char_p, c_int32, c_int64]),
    "version": (c_int, []),
    "version_str": (c_char_p, []),
}
"""Without their prefix `rd_kafka_`; those of no arguments are called by `_messages` alone."""

_OF_MESSAGES = (
    "consume_batch_queue",
    "message_destroy",
    "message_timestamp",
    "message_headers",
    "header_get_all",
    "message_errstr",
    "topic_name",
)


class Message(Structure):
    """`rd_kafka_message_t`, as `_messages.c` reads it too."""

    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("size", c_size_t),
        ("key", c_void_p),
        ("key_size", c_size_t),
        ("offset", c_int64),
        ("opaque", c_void_p),
    )


class Entry(Structure):
    """The beginning of `rd_kafka_topic_partition_t`."""

    _fields_ = (("topic", c_char_p), ("partition", c_int32), ("offset", c_int64))


class Unusable(Exception):  # noqa: N818 - the reason why another way is taken, no failure
    """The library can't be called from here; the text tells why."""


class Library:
    """Functions of librdkafka, as attributes without their prefix.

    Args:
        dll: where they are looked up.

    Raises:
        Unusable: a function is missing, or the version is not one of those known here.
    """

    def __init__(self, dll: Any) -> None:
        missing = []
        for name, (result, arguments) in _FUNCTIONS.items():
            try:
                function = dll[f"rd_kafka_{name}"]
            except AttributeError:
                missing.append(f"rd_kafka_{name}")
                continue
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        if missing:
            raise Unusable(f"the Kafka client shows no {', '.join(missing)}")
        self.number = self.version()
        self.text = self.version_str().decode()
        if not OLDEST <= self.number < NEWEST:
            known = f"{_dotted(OLDEST)} up to, but not, {_dotted(NEWEST)}"
            raise Unusable(f"librdkafka {self.text} is not known here; known: {known}")

    def __getattr__(self, name: str) -> Any:  # for type checkers: whatever `_FUNCTIONS` names is there
        raise AttributeError(name)

    @property
    def addresses(self) -> tuple[int, int, int, int, int, int, int]:
        """Of the functions that `_messages.Queue` wants."""
        one, two, three, four, five, six, seven = (
            ctypes.cast(getattr(self, name), c_void_p).value or 0 for name in _OF_MESSAGES
        )
        return one, two, three, four, five, six, seven

    @contextmanager
    def partitions(self, wanted: Iterable[tuple[str, int, int]]) -> Iterator[int]:
        """A list of (topic, partition, offset) as librdkafka takes it."""
        found = self.topic_partition_list_new(16)
        try:
            for topic, number, offset in wanted:
                entry = self.topic_partition_list_add(found, topic.encode(), number)
                Entry.from_address(entry).offset = offset
            yield found
        finally:
            self.topic_partition_list_destroy(found)

    def error_of(self, error: int | None) -> KafkaError | None:
        """A `rd_kafka_error_t` as the client has it; it is freed here."""
        if not error:
            return None
        try:
            return KafkaError(self.error_code(error), self.error_string(error).decode(errors="replace"))
        finally:
            self.error_destroy(error)


@cache
def library() -> Library | str:
    """The library, or the reason why it can't be called; looked at once per process."""
    try:
        found = Library(ctypes.CDLL(cimpl.__file__))
        ours, theirs = found.number, confluent_kafka.libversion()[1]
        if ours != theirs:
            raise Unusable(f"found librdkafka {_dotted(ours)}, but the client has loaded {_dotted(theirs)}")
        _prove_layout(found)
    except Unusable as error:
        return str(error)
    except OSError as error:
        return f"the client's extension can't be opened: {error}"
    return found


def _prove_layout(lib: Library) -> None:
    """Look at structs whose content is known, before any is trusted. Raises Unusable."""
    with lib.partitions([("probe", 7, 0)]) as partitions:
        entry = Entry.from_address(lib.topic_partition_list_add(partitions, b"more", 9))
        lib.topic_partition_list_set_offset(partitions, b"more", 9, 1 << 40)
        if (entry.topic, entry.partition, entry.offset) != (b"more", 9, 1 << 40):
            raise Unusable("rd_kafka_topic_partition_t has another layout than the one known here")
    # A record that is thrown away before any broker is asked comes back as a message with all that was given.
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    conf = lib.conf_new()
    lib.conf_set(conf, b"log_level", b"0", text, len(text))
    lib.conf_set_events(conf, EVENT_DELIVERY)
    client = lib.new(PRODUCER, conf, text, len(text))
    if not client:
        lib.conf_destroy(conf)
        raise Unusable(f"a trial client could not be made: {text.value.decode(errors='replace')}")
    try:
        topic = lib.topic_new(client, b"probe", None)
        queue = lib.queue_get_main(client)
        try:
            _look_at_a_message(lib, client, topic, queue)
        finally:
            lib.queue_destroy(queue)
            lib.topic_destroy(topic)
    finally:
        lib.destroy(client)


def _look_at_a_message(lib: Library, client: int, topic: int, queue: int) -> None:
    mark = 0x5EED
    lib.produce(topic, 3, _COPY, b"payload", 7, b"the key", 7, mark)
    lib.purge(client, _PURGE_QUEUED)
    event = lib.queue_poll(queue, 5_000)
    if not event:
        raise Unusable("a trial message did not come back")
    try:
        address = lib.event_message_next(event) if lib.event_type(event) == EVENT_DELIVERY else None
        found = Message.from_address(address) if address else Message()
        same = (
            is_purged(found.err)
            and (found.topic, found.partition, found.offset) == (topic, 3, _INVALID_OFFSET)
            and found.payload
            and ctypes.string_at(found.payload, found.size) == b"payload"
            and found.key
            and ctypes.string_at(found.key, found.key_size) == b"the key"
            and found.opaque == mark
        )
        if not same:
            raise Unusable("rd_kafka_message_t has another layout than the one known here")
    finally:
        lib.event_destroy(event)


def _dotted(version: int) -> str:
    return ".".join(str(version >> shift & 0xFF) for shift in (24, 16, 8))
