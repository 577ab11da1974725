"""The settings of one topic, from plain arguments: what a plan pins, and what the running code decides.

`TopicConfig` is everything that shapes bytes and places, and the offsets that are read or given up; a plan pins it
as plain JSON values, and extract and publish take it from there. `TopicSettings` adds what is not pinned: how a new
topic starts, how many bad records are borne, limits, and the callables themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest import arguments as args
from airflow_kafka_hdfs.ingest.choices import (
    PATTERNS,
    BootstrapKind,
    Codec,
    EmitPartitions,
    FileFormat,
    Granularity,
    OnBadTime,
    OnNull,
    OnSchemaChange,
    OnTopicRecreated,
    OutOfRange,
    RawFraming,
    TimeUnit,
    ValueFormat,
)
from airflow_kafka_hdfs.ingest.committing import BadRecordLimits
from airflow_kafka_hdfs.ingest.pinning import CallableRef, difference, reference
from airflow_kafka_hdfs.ingest.placing import DEFAULT_TEMPLATE, parse_fields
from airflow_kafka_hdfs.ingest.timepath import load_zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Where reading starts of a topic without a start point.

    Attributes:
        at: for `time`.
        back: for `lookback`: how long before the plan's clock.
    """

    kind: BootstrapKind = BootstrapKind.LATEST
    at: datetime | None = None
    back: timedelta | None = None

    @classmethod
    def of(cls, key: str, value: object) -> Bootstrap:
        """From `earliest`, `latest`, `skip`, a datetime, ISO text or a timedelta. Raises ConfigError."""
        if isinstance(value, timedelta):
            if value < timedelta(0):
                raise ConfigError(key, value, "a timedelta back into the past, above 0")
            return cls(kind=BootstrapKind.LOOKBACK, back=value)
        if isinstance(value, str) and value in ("earliest", "latest", "skip"):
            return cls(kind=BootstrapKind(value))
        hint = args.nearest(value, ("earliest", "latest", "skip")) if isinstance(value, str) else ""
        try:
            return cls(kind=BootstrapKind.TIME, at=args.moment(key, value))
        except ConfigError as error:
            allowed = "earliest, latest, skip, a datetime or ISO text with a time zone, a timedelta back"
            raise ConfigError(key, value, allowed, error.hint or hint) from None

    def time(self, clock: datetime) -> datetime | None:
        """The point in time that it stands for, None for the others."""
        return clock - self.back if self.back is not None else self.at


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBounds:
    """Event times outside are bad.

    Attributes:
        earliest: milliseconds since the epoch.
        latest: likewise, None if it follows the plan's clock.
        ahead: milliseconds after the plan's clock, where `latest` is None.
    """

    earliest: int = args.millis(datetime(1980, 1, 1, tzinfo=UTC))
    latest: int | None = None
    ahead: int = 2 * 24 * 3600 * 1000

    @classmethod
    def of(cls, key: str, value: object) -> TimeBounds:
        """From None or a pair (earliest, latest), the latter also as a timedelta after the plan's clock."""
        if value is None:
            return cls()
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise ConfigError(key, value, "None or a pair (earliest, latest); latest may be a timedelta from now")
        low, high = value
        default = cls()
        earliest = default.earliest if low is None else args.millis(args.moment(f"{key}[0]", low))
        if isinstance(high, timedelta):
            return cls(earliest=earliest, ahead=high // timedelta(milliseconds=1))
        if high is None:
            return cls(earliest=earliest)
        latest = args.millis(args.moment(f"{key}[1]", high))
        if latest <= earliest:
            raise ConfigError(key, value, "a pair (earliest, latest) with earliest before latest")
        return cls(earliest=earliest, latest=latest)

    def of_plan(self, clock: datetime) -> tuple[int, int]:
        """Least and greatest good event time of a plan, milliseconds since the epoch."""
        return self.earliest, args.millis(clock) + self.ahead if self.latest is None else self.latest


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a task, or a topic within a task, stops early.

    Attributes:
        time: seconds.
        records: Kafka records.
        bytes: bytes of values.
        rate: records per second.
    """

    time: float | None = None
    records: int | None = None
    bytes: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What a plan pins of one topic: plain JSON values, read back with `wire.from_plain`.

    Attributes are the arguments of the same names. `schema` and `convert_schema` are JSON text, `file_mode` and
    `dir_mode` permission bits; `path_pattern` and `codec` are filled in where the argument was left out.
    """

    value_format: ValueFormat
    decoder: CallableRef | None
    schema: str | None
    converters: tuple[CallableRef, ...]
    convert_schema: str | None
    time_field: str | None
    time_unit: TimeUnit
    granularity: Granularity
    path_pattern: str
    timezone: str
    on_bad_time: OnBadTime
    time_bounds: TimeBounds
    partition_fields: tuple[str, ...]
    path_template: str
    file_format: FileFormat
    codec: Codec
    max_file_bytes: int
    max_file_records: int | None
    raw_framing: RawFraming
    file_mode: int | None
    dir_mode: int | None
    on_out_of_range: OutOfRange
    on_null: OnNull
    include_key: bool
    include_headers: bool
    include_kafka_metadata: bool
    on_schema_change: OnSchemaChange

    @property
    def includes(self) -> bool:
        """Whether columns of Kafka's own are added."""
        return self.include_key or self.include_headers or self.include_kafka_metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Everything that is set for one topic.

    Attributes:
        config: the pinned part.
        bootstrap, on_topic_recreated: where it starts; decided once, then in the log.
        bad_records: how many bad records it may have.
        limits: where they differ from those of the task, for this topic's share of it.
        decoder: the decoder of the user, whose reference is `config.decoder`.
        converters: likewise, in order.
    """

    config: TopicConfig
    bootstrap: Bootstrap
    on_topic_recreated: OnTopicRecreated
    bad_records: BadRecordLimits
    limits: Limits
    emit_partitions: EmitPartitions
    decoder: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    converters: tuple[Callable[..., Any], ...] = field(default=(), repr=False, compare=False)


DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "value_format": "bytes",
        "schema": None,
        "converters": (),
        "convert_schema": None,
        "time_field": None,
        "time_unit": "ms",
        "granularity": "hourly",
        "path_pattern": None,
        "timezone": "UTC",
        "on_bad_time": "quarantine",
        "time_bounds": None,
        "partition_fields": (),
        "path_template": DEFAULT_TEMPLATE,
        "file_format": "avro",
        "codec": None,
        "max_file_bytes": 512 * 1024 * 1024,
        "max_file_records": None,
        "raw_framing": "newline",
        "file_mode": None,
        "dir_mode": None,
        "bootstrap": "latest",
        "on_out_of_range": "nearest",
        "on_topic_recreated": "earliest",
        "on_null": "fail",
        "include_key": False,
        "include_headers": False,
        "include_kafka_metadata": False,
        "max_bad_records": None,
        "max_bad_share": 0.01,
        "on_schema_change": "new_file",
        "time_limit": None,
        "record_limit": None,
        "byte_limit": None,
        "rate_limit": None,
        "emit_partitions": "touched",
    }
)
"""Arguments that may be overridden per topic, with their defaults; None for `path_pattern` and `codec` means: from
granularity and file format."""


def limits_of(values: Mapping[str, Any]) -> Limits:
    """Limits from arguments. Raises ConfigError."""
    return Limits(
        time=args.seconds("time_limit", values.get("time_limit")),
        records=args.optional_whole("record_limit", values.get("record_limit")),
        bytes=args.optional_whole("byte_limit", values.get("byte_limit")),
        rate=args.positive("rate_limit", values.get("rate_limit")),
    )


def topic_settings(values: Mapping[str, Any], limits: Limits | None = None) -> TopicSettings:
    """The settings of one topic.

    Args:
        values: arguments by name; every name of `DEFAULTS`.
        limits: of the topic; of the task where None.

    Raises:
        ConfigError: a value that is not allowed. Combinations are looked at by `combinations.check`.
    """
    decoder, value_format = _decoder(values["value_format"])
    converters = _converters(values["converters"])
    file_format = args.choice("file_format", values["file_format"], FileFormat)
    granularity = args.choice("granularity", values["granularity"], Granularity)
    pattern = values["path_pattern"]
    config = TopicConfig(
        value_format=value_format,
        decoder=None if decoder is None else reference(decoder),
        schema=args.avro_schema("schema", values["schema"]),
        converters=tuple(map(reference, converters)),
        convert_schema=args.avro_schema("convert_schema", values["convert_schema"]),
        time_field=_time_field(values["time_field"]),
        time_unit=_time_unit(values["time_unit"]),
        granularity=granularity,
        path_pattern=PATTERNS[granularity] if pattern is None else args.text("path_pattern", pattern),
        timezone=_zone(values["timezone"]),
        on_bad_time=args.choice("on_bad_time", values["on_bad_time"], OnBadTime),
        time_bounds=TimeBounds.of("time_bounds", values["time_bounds"]),
        partition_fields=parse_fields(args.texts("partition_fields", values["partition_fields"], "field names")),
        path_template=args.text("path_template", values["path_template"]),
        file_format=file_format,
        codec=_codec(values["codec"], file_format),
        max_file_bytes=args.whole("max_file_bytes", values["max_file_bytes"], 1024),
        max_file_records=args.optional_whole("max_file_records", values["max_file_records"]),
        raw_framing=args.choice("raw_framing", values["raw_framing"], RawFraming),
        file_mode=args.octal("file_mode", values["file_mode"], least=0o600),
        dir_mode=args.octal("dir_mode", values["dir_mode"], least=0o700),
        on_out_of_range=args.choice("on_out_of_range", values["on_out_of_range"], OutOfRange),
        on_null=args.choice("on_null", values["on_null"], OnNull),
        include_key=args.flag("include_key", values["include_key"]),
        include_headers=args.flag("include_headers", values["include_headers"]),
        include_kafka_metadata=args.flag("include_kafka_metadata", values["include_kafka_metadata"]),
        on_schema_change=args.choice("on_schema_change", values["on_schema_change"], OnSchemaChange),
    )
    return TopicSettings(
        config=config,
        bootstrap=Bootstrap.of("bootstrap", values["bootstrap"]),
        on_topic_recreated=args.choice("on_topic_recreated", values["on_topic_recreated"], OnTopicRecreated),
        bad_records=BadRecordLimits(
            most=args.optional_whole("max_bad_records", values["max_bad_records"], 0),
            share=args.share("max_bad_share", values["max_bad_share"]),
        ),
        limits=limits if limits is not None else limits_of(values),
        emit_partitions=args.choice("emit_partitions", values["emit_partitions"], EmitPartitions),
        decoder=decoder,
        converters=converters,
    )


def changed_code(pinned: TopicConfig, running: TopicSettings) -> str | None:
    """Why the user's code at hand is not the code that a plan pinned; None if it is. Asked before each use."""
    then = [*pinned.converters, *([pinned.decoder] if pinned.decoder else [])]
    now = [*running.converters, *([running.decoder] if running.decoder else [])]
    if len(then) != len(now) or (pinned.decoder is None) != (running.decoder is None):
        was, are = [ref.path for ref in then], [reference(item).path for item in now]
        return f"the plan was made with {was}, this code brings {are}"
    found = (difference(ref, item) for ref, item in zip(then, now, strict=True))
    return next((text for text in found if text), None)


def _decoder(value: object) -> tuple[Callable[..., Any] | None, ValueFormat]:
    if callable(value):
        return value, ValueFormat.CUSTOM
    if value == ValueFormat.CUSTOM:
        value = None
    named = [item.value for item in ValueFormat if item is not ValueFormat.CUSTOM]
    try:
        return None, args.choice("value_format", value, ValueFormat)
    except ConfigError as error:
        allowed = ", ".join([*named, "or a decoder class or callable"])
        raise ConfigError("value_format", error.value, allowed, error.hint) from None


def _converters(value: object) -> tuple[Callable[..., Any], ...]:
    allowed = "a list of callables: convert(record) -> None | value | list"
    if callable(value) or not isinstance(value, tuple | list):
        raise ConfigError("converters", value, allowed)
    for item in value:
        if not callable(item):
            raise ConfigError("converters", item, allowed)
    return tuple(value)


def _time_field(value: object) -> str | None:
    name = args.optional_text("time_field", value)
    if name is not None and not all(name.split(".")):
        raise ConfigError("time_field", name, "the name of a field, dotted for a nested one, such as header.time")
    return name


def _time_unit(value: object) -> TimeUnit:
    return TimeUnit(args.word("time_unit", value, [unit.value for unit in TimeUnit if unit is not TimeUnit.DAYS]))


def _zone(value: object) -> str:
    name = args.text("timezone", value)
    load_zone(name)
    return name


def _codec(value: object, file_format: FileFormat) -> Codec:
    if value is None:
        return Codec.SNAPPY if file_format in (FileFormat.AVRO, FileFormat.PARQUET) else Codec.NULL
    return args.choice("codec", value, Codec)
