"""Decoders and converters of the user: what they are given, how they are called, what their errors mean.

A decoder is called as `decode(record) -> value`, a converter as `convert(record) -> None | value | list`: None filters
the record, a list gives several outputs, anything else is the one output (a list as one output is a list in a list).
Both may be functions, objects with a method of that name, or classes; a class is made once per task and topic, as
`Class(context)`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_kafka_hdfs.exceptions import DecodeError, Transient
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.metrics import Metrics
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType

_KEPT_EVENTS = 100

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that user code wants to tell.

    Attributes:
        data: whatever it says; texts, numbers, booleans.
    """

    name: str
    topic: str
    data: Mapping[str, Any]


@dataclass(slots=True)
class Events:
    """Takes events of one topic: the first hundred are kept and logged, all are counted.

    Args:
        topic: whose code it is.
        metrics: gets a counter `events.<name>`.
    """

    topic: str
    metrics: Metrics
    kept: list[Event] = field(default_factory=list)

    def submit(self, name: str, /, **data: Any) -> None:
        """Tell an event."""
        self.metrics.counter(f"events.{name}").inc()
        if len(self.kept) < _KEPT_EVENTS:
            event = Event(name=name, topic=self.topic, data=data)
            self.kept.append(event)
            log.info("event %s of topic %s: %s", name, self.topic, data)


@dataclass(frozen=True, slots=True)
class UserContext:
    """What user code may use.

    Attributes:
        metrics: counters, meters, histograms, timers; their sums stand in the manifest and in the commit.
        events: takes events.
    """

    topic: str
    metrics: Metrics
    events: Events


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """A Kafka record as user code sees it.

    Attributes:
        value: bytes for a decoder; for a converter the decoded value, or what the converter before it made.
        timestamp: ms since the epoch, -1 for none.
        schema: writer schema as JSON text where the value is Avro.
    """

    value: Any
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    context: UserContext
    schema: str | None = None

    @classmethod
    def of(cls, record: ConsumerRecord, value: Any, context: UserContext, schema: str | None = None) -> UserRecord:
        """A record with another value."""
        return cls(
            value=value,
            key=record.key,
            headers=record.headers,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp=record.timestamp,
            timestamp_type=record.timestamp_type,
            context=context,
            schema=schema,
        )


class UserCode:
    """One decoder or converter, ready to be called.

    Args:
        code: function, object with a method, or class.
        role: `decoder` or `converter`.
        method: name of the method that objects have.
        context: handed to classes.
    """

    def __init__(self, code: Callable[..., Any], role: str, method: str, context: UserContext) -> None:
        target = code(context) if isinstance(code, type) else code
        self._call: Callable[[UserRecord], Any] = getattr(target, method, target)
        self._role = role
        self._name = getattr(code, "__qualname__", type(code).__qualname__)

    def __call__(self, record: UserRecord) -> Any:
        """What the code makes of a record.

        Raises:
            DecodeError: the code raised it, or anything else but an error marked as `Transient`, which comes out as it
                is: an outage is no reason to call a record bad.
        """
        try:
            return self._call(record)
        except (DecodeError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, Transient):
                raise
            raise DecodeError(self._role, f"{self._name} raised {type(error).__name__}: {error}"[:500]) from error


class Conversion:
    """Converters one after the other.

    Args:
        converters: in order.
        context: of their topic.
    """

    def __init__(self, converters: Sequence[Callable[..., Any]], context: UserContext) -> None:
        self._context = context
        self._converters = [UserCode(code, BadReason.CONVERTER, "convert", context) for code in converters]

    def __bool__(self) -> bool:
        return bool(self._converters)

    def outputs(self, record: ConsumerRecord, value: Any, schema: str | None) -> list[Any]:
        """What the last converter gives; empty for a filtered record. Raises as `UserCode`."""
        first = UserRecord.of(record, value, self._context, schema)
        values = [value]
        for convert in self._converters:
            made: list[Any] = []
            for item in values:
                result = convert(first if item is value else replace(first, value=item))
                if isinstance(result, list):
                    made.extend(result)
                elif result is not None:
                    made.append(result)
            values = made
        return values
