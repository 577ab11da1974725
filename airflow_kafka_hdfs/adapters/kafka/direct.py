"""The bounded reader that takes messages from librdkafka's own queue, so that no object is made for each of them.

It has a client of its own, made with the same settings and read by the same rules as the one of `reader`. Batches are
columns over messages in the client's memory; a record becomes an object when somebody asks for it. What the client
logs comes as events of another queue, looked at with every poll; a function of the user that only the client's Python
face could call (a log-in by token, statistics) is a reason not to read this way.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, overload

from confluent_kafka import KafkaError, KafkaException

from airflow_kafka_hdfs.adapters.kafka import librdkafka
from airflow_kafka_hdfs.adapters.kafka.assigned import Assigned, Event, Where
from airflow_kafka_hdfs.adapters.kafka.errors import Trouble, is_fatal, refused
from airflow_kafka_hdfs.adapters.kafka.reader import TIMESTAMP_TYPES, no_headers
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings, is_callback
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType, TopicPartition
from airflow_kafka_hdfs.ports.kafka import ClientValues, Poll, RecordBatch, RecordReader, Run

if TYPE_CHECKING:
    from airflow_kafka_hdfs.adapters.kafka._messages import Messages, Queue

_TEXT_BYTES = 512
_LINES_PER_POLL = 1_000
_LEVELS = (logging.CRITICAL,) * 3 + (logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)
"""Of `logging`, by those of syslog."""


def direct_fault(settings: KafkaSettings | None = None) -> str:
    """Why a connection can't be read this way, empty if it can.

    Args:
        settings: of the connection; None to ask for the library alone.
    """
    found = librdkafka.library()
    if isinstance(found, str):
        return found
    try:
        from airflow_kafka_hdfs.adapters.kafka import _messages  # noqa: F401 - whether it is there
    except ImportError as error:
        return f"not built: {error}"
    return "" if settings is None else _settings_fault(settings.for_consumer())


def _settings_fault(config: Mapping[str, Any]) -> str:
    for name in config:
        if is_callback(name) and name != "error_cb":
            return f"only the client's Python face can call {name}"
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        if "OAUTHBEARER" in str(config.get(name, "")).upper():
            return f"{name} is {config[name]}: tokens are fetched by the client's Python face"
    if "plugin.library.paths" in config:
        return "plugin.library.paths: plugins are loaded by the client's Python face"
    return ""


class DirectValues(ClientValues):
    """Values of messages, or of some of them."""

    __slots__ = ("_messages", "_rows")

    def __init__(self, messages: Messages, rows: Sequence[int] | None = None) -> None:
        self._messages = messages
        self._rows = rows

    def __len__(self) -> int:
        return len(self._messages if self._rows is None else self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | None | Sequence[bytes | None]:
        rows = range(len(self._messages)) if self._rows is None else self._rows
        if isinstance(index, slice):
            return DirectValues(self._messages, rows[index])
        return self._messages.value(rows[index])

    def __iter__(self) -> Iterator[bytes | None]:
        return map(self._messages.value, range(len(self._messages)) if self._rows is None else self._rows)

    def only(self, indexes: Sequence[int]) -> DirectValues:
        """Some of them."""
        return DirectValues(self._messages, indexes if self._rows is None else [self._rows[i] for i in indexes])

    def slices(self) -> object:
        """Where they lie."""
        return self._messages.slices(self._rows)


class DirectBatch(RecordBatch):
    """Columns over messages of one fetch; none of them is an event."""

    __slots__ = ("_messages", "_offsets", "_partitions", "_runs", "_topics")

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._runs = messages.runs(None)
        self._topics: list[str] | None = None
        self._partitions: Sequence[int] | None = None
        self._offsets: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last_offsets(self) -> dict[Where, int]:
        """Offset of the last record of each partition."""
        return {(topic, partition): last for topic, partition, _, last, _, _ in self._runs}

    def topics(self) -> list[str]:
        """Topic of each record."""
        if self._topics is None:
            self._topics = self._messages.topics()
        return self._topics

    def partitions(self) -> Sequence[int]:
        """Partition of each record."""
        if self._partitions is None:
            self._partitions = _numbers(self._messages.partitions())
        return self._partitions

    def offsets(self) -> Sequence[int]:
        """Offset of each record."""
        if self._offsets is None:
            self._offsets = _numbers(self._messages.offsets())
        return self._offsets

    def values(self) -> DirectValues:
        """Value of each record."""
        return DirectValues(self._messages)

    def timestamps(self) -> Sequence[int]:
        """Milliseconds since the epoch."""
        return _numbers(self._messages.timestamps())

    def runs(self, indexes: Sequence[int], values: Sequence[bytes | None]) -> Mapping[int, Run]:
        """See `RecordBatch.runs`."""
        runs = self._runs if len(indexes) == len(self) else self._messages.runs(indexes)
        return {partition: Run(first, last, count, size) for _, partition, first, last, count, size in runs}

    def record(self, index: int) -> ConsumerRecord:
        """One record whole."""
        topic, partition, offset, millis, kind, key, value, headers = self._messages.record(index)
        return ConsumerRecord(
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=millis,
            timestamp_type=TIMESTAMP_TYPES.get(kind, TimestampType.NONE),
            key=key,
            value=value,
            headers=no_headers(topic, partition, offset) if headers is None else tuple(headers),
        )


def _numbers(column: bytes) -> Sequence[int]:
    return memoryview(column).cast("q")


class _Client:
    """A consumer of librdkafka, and what it reports.

    Args:
        config: its properties; a value becomes text as the client's Python face does it.
        logger: gets what it logs.

    Raises:
        KafkaException: it refuses a property, or can't be made of them.
        Unusable: the library can't be called.
    """

    def __init__(self, config: Mapping[str, Any], *, logger: logging.Logger) -> None:
        from airflow_kafka_hdfs.adapters.kafka._messages import Queue

        found = librdkafka.library()
        if isinstance(found, str):
            raise librdkafka.Unusable(found)
        self.lib = lib = found
        self._logger = logger
        self._end = ExitStack()
        self._errors: list[KafkaError] = []
        self._on_error = librdkafka.ERROR_CALLBACK(self._note)  # to live as long as the client
        self.handle = _made(lib, config, self._on_error)
        self._end.callback(lib.destroy_flags, self.handle, librdkafka.NO_GOODBYE)
        try:
            self._name = lib.name(self.handle).decode()
            self._reports = self._queue(lib.queue_get_main)
            lib.set_log_queue(self.handle, None)
            self.messages: Queue = Queue(self._queue(lib.queue_get_consumer), lib.addresses)
        except BaseException:
            self._end.close()
            raise

    def _queue(self, get: Any) -> int:
        queue: int = get(self.handle)
        self._end.callback(self.lib.queue_destroy, queue)
        return queue

    def reports(self) -> list[KafkaError]:
        """Errors that it has reported since the last look; what it has logged goes to the logger."""
        for _ in range(_LINES_PER_POLL):
            event = self.lib.queue_poll(self._reports, 0)
            if not event:
                break
            try:
                kind = self.lib.event_type(event)
                if kind == librdkafka.EVENT_LOG:
                    self._log(event)
                elif kind == librdkafka.EVENT_ERROR:
                    self._note(self.handle, self.lib.event_error(event), self.lib.event_error_string(event), None)
            finally:
                self.lib.event_destroy(event)
        if not self._errors:
            return []
        errors, self._errors = self._errors, []
        return errors

    def must(self, code: int) -> None:
        """Raise KafkaException if a call was refused."""
        if code:
            raise KafkaException(KafkaError(code))

    def close(self) -> None:
        """Let go of all messages and end it."""
        self.messages.close()
        self._end.close()

    def _note(self, _handle: int, code: int, text: bytes | None, _opaque: object) -> None:
        """Partitions' errors come by this callback, from within a fetch; those of the whole client as events."""
        found = KafkaError(code, (text or b"").decode(errors="replace"))
        if is_fatal(found):  # the code says no more than that
            buffer = ctypes.create_string_buffer(_TEXT_BYTES)
            cause = self.lib.fatal_error(self.handle, buffer, len(buffer))
            found = KafkaError(cause or code, buffer.value.decode(errors="replace") or found.str(), True)
        self._errors.append(found)

    def _log(self, event: int) -> None:
        facility, text, level = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int()
        if self.lib.event_log(event, ctypes.byref(facility), ctypes.byref(text), ctypes.byref(level)):
            return
        words = ((part.value or b"").decode(errors="replace") for part in (facility, text))
        self._logger.log(_LEVELS[min(max(level.value, 0), 7)], "%s [%s] %s", next(words), self._name, next(words))


def _made(lib: librdkafka.Library, config: Mapping[str, Any], on_error: Any) -> int:
    """A consumer. Raises KafkaException."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    conf = lib.conf_new()
    for name, value in {**config, "log.queue": True}.items():
        given = None if value is None else str(value).encode()
        if lib.conf_set(conf, name.encode(), given, text, len(text)):
            lib.conf_destroy(conf)
            raise KafkaException(refused(text.value.decode(errors="replace")))
    lib.conf_set_error_cb(conf, on_error)
    lib.conf_set_events(conf, librdkafka.EVENT_LOG | librdkafka.EVENT_ERROR)
    handle: int | None = lib.new(librdkafka.CONSUMER, conf, text, len(text))
    if handle is None:
        code = lib.last_error()
        lib.conf_destroy(conf)
        raise KafkaException(KafkaError(code, f"Failed to create consumer: {text.value.decode(errors='replace')}"))
    return handle


class DirectReader(RecordReader):
    """Reads assigned partitions without a group; see `assigned` for what becomes of what the client tells.

    Args:
        settings: from `client_settings`, and without `direct_fault`.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        config = settings.for_consumer()
        self._assigned = Assigned(Trouble(config.pop("error_cb", None), settings.hide), settings.servers)
        self._client: _Client | None = settings.make(_Client, config)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Hand all partitions to the client at once."""
        client = self._open()
        if self._assigned.paused:
            with client.lib.partitions(_places(dict.fromkeys(self._assigned.paused, 0))) as paused:
                client.must(client.lib.resume_partitions(client.handle, paused))
        self._assigned.begin(positions)
        with client.lib.partitions(_places(positions)) as partitions:
            client.must(client.lib.assign(client.handle, partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Take the partition away from the client and give it back at the other offset."""
        self._assigned.require([partition])
        self._restart({partition: offset})

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching; what the client had fetched in advance is thrown away."""
        self._assigned.require(partitions)
        self._assigned.paused.update(partitions)
        client = self._open()
        with client.lib.partitions(_places(dict.fromkeys(partitions, 0))) as given:
            client.must(client.lib.pause_partitions(client.handle, given))

    def resume(self, positions: Mapping[TopicPartition, int]) -> None:
        """Let the client fetch again, at offsets of ours: it may have handed out more than was taken."""
        self._assigned.require(positions.keys())
        self._assigned.paused.difference_update(positions)
        client = self._open()
        with client.lib.partitions(_places(positions)) as partitions:
            client.must(client.lib.resume_partitions(client.handle, partitions))
        self._restart(positions)

    def poll(self, max_records: int, timeout: float) -> Poll:
        """One batch with all that was told meanwhile. Raises KafkaUnavailableError for a fatal state of the client."""
        messages = self._receive(max_records, timeout)
        errors = messages.errors()
        events = self._without_events(messages, errors) if errors or self._assigned.ended else []
        batch = DirectBatch(messages)
        return self._assigned.told(batch, batch.last_offsets, events)

    def trouble(self) -> str:
        """The client's latest report."""
        return self._assigned.trouble.last

    def close(self) -> None:
        """End the client; records of its batches can't be reached any more."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> _Client:
        if self._client is None:
            raise ValueError("the reader is closed")
        return self._client

    def _restart(self, positions: Mapping[TopicPartition, int]) -> None:
        client = self._open()
        with client.lib.partitions(_places(positions)) as partitions:
            for change in (client.lib.incremental_unassign, client.lib.incremental_assign):
                error = client.lib.error_of(change(client.handle, partitions))
                if error is not None:
                    raise KafkaException(error)
        self._assigned.restarted(positions)

    def _receive(self, max_records: int, timeout: float) -> Messages:
        """What lies in the client's queue; only if it is empty, wait for the first record."""
        client = self._open()
        messages = client.messages.fetch(max_records, int(timeout * 1000))
        if messages is None:
            raise self._assigned.gave_up(KafkaError(client.lib.last_error()))
        for error in client.reports():
            self._assigned.note(error)
        self._assigned.refuse_fatal()
        return messages

    def _without_events(
        self, messages: Messages, errors: Sequence[tuple[int, int, str, str | None, int, int]]
    ) -> list[Event]:
        """Leave the records alone; after the end of a partition's usefulness nothing of it passes any more."""
        found = {
            row: Event((topic or "", partition), offset, KafkaError(code, text))
            for row, code, text, topic, partition, offset in errors
        }
        events, rows = [], []
        numbers = _numbers(messages.partitions())
        for row, where in enumerate(zip(messages.topics(), numbers, strict=True)):
            event = found.get(row)
            if not self._assigned.passes(where, None if event is None else event.error):
                continue
            if event is None:
                rows.append(row)
            else:
                events.append(event)
        messages.keep(rows)
        return events


def _places(positions: Mapping[TopicPartition, int]) -> Iterator[tuple[str, int, int]]:
    return ((tp.topic, tp.partition, offset) for tp, offset in positions.items())
