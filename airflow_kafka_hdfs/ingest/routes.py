"""The way of one topic's records, put together from its settings: decode, convert, find time and folder, encode.

This is the reference: one record after the other, every Avro datum decoded to prove it, and the datum itself passed on
where nobody changed the value. Faster ways are tested against it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.exceptions import UnusableSchemaError
from airflow_kafka_hdfs.ingest.choices import FileFormat, OnNull, OnSchemaChange, RawFraming, TimeUnit, ValueFormat
from airflow_kafka_hdfs.ingest.columns import Columns
from airflow_kafka_hdfs.ingest.decoding import (
    CONFLUENT_SIZE,
    ID16_SIZE,
    AvroDecoder,
    BytesDecoder,
    CustomDecoder,
    Decoded,
    FramedAvroDecoder,
    JsonDecoder,
    StringDecoder,
    ValueDecoder,
)
from airflow_kafka_hdfs.ingest.encoding import (
    DatumEncoder,
    Encoder,
    JsonLineEncoder,
    PlainEncoder,
    RawEncoder,
    ValueEncoder,
)
from airflow_kafka_hdfs.ingest.eventtime import EventTime
from airflow_kafka_hdfs.ingest.placing import Place, Placing, parse_fields, parse_template
from airflow_kafka_hdfs.ingest.settings import TopicConfig
from airflow_kafka_hdfs.ingest.timepath import time_path
from airflow_kafka_hdfs.ingest.usercode import Conversion, UserContext
from airflow_kafka_hdfs.ingest.writer_schemas import FileSchema, SchemaBook, WriterSchema
from airflow_kafka_hdfs.ingest.writers.columns import ParquetSinks
from airflow_kafka_hdfs.ingest.writers.sinks import EXTENSIONS, AvroSinks, SinkFactory, StreamSinks
from airflow_kafka_hdfs.model import ConsumerRecord
from airflow_kafka_hdfs.ports.schemas import AvroCodec, Codecs, SchemaRegistry

ID_SIZES = {ValueFormat.AVRO_ID16: ID16_SIZE, ValueFormat.AVRO_CONFLUENT: CONFLUENT_SIZE}
"""Bytes of the schema id in front of a datum."""

RECODED = "kafka_hdfs.recoded"
"""Counts values that were encoded again, since their writer schema is not the one of the files or they had changed."""


@dataclass(slots=True)  # not frozen: one is made per record, and freezing takes longer than all the rest of it
class Output:
    """One thing to be written.

    Attributes:
        millis: event time.
        schema: of the file, for Avro.
    """

    place: Place
    schema: FileSchema | None
    data: bytes
    millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteParts:
    """What a route is made with, apart from the pinned settings.

    Attributes:
        bounds: first moment believed and first one not believed any more, ms.
        reader: JSON text of the schema that the plan pinned: `resolve` resolves to it, `fail` allows no other.
        decoder, converters: the user's code.
    """

    topic: str
    config: TopicConfig
    bounds: tuple[int, int]
    codec: AvroCodec
    registry: SchemaRegistry | None
    context: UserContext
    reader: str | None = None
    decoder: Callable[..., Any] | None = None
    converters: tuple[Callable[..., Any], ...] = field(default=())


class Route:
    """The way of one topic's records.

    Args:
        parts: what it is made with.

    Attributes:
        book: writer schemas by id.
        fixed: writer schema of bare datums, else None.
        reader: schema that datums are resolved to, else None.
        target: schema of what converters or a decoder of the user make, else None.
        columns, placing, event_time, encoder: the parts, for faster ways that share them.
        only_key: under `on_schema_change` `fail` the key that the schema of every file must have; None until known.

    Raises:
        UnusableSchemaError: a fixed schema that can't be used, or columns that clash with it.
        ConfigError: settings that were not checked before.
    """

    def __init__(self, parts: RouteParts) -> None:
        config = parts.config
        self.parts = parts
        self.config = config
        self.columns = Columns(
            metadata=config.include_kafka_metadata, key=config.include_key, headers=config.include_headers
        )
        time_field = tuple(config.time_field.split(".")) if config.time_field else ()
        tables = config.file_format in (FileFormat.AVRO, FileFormat.PARQUET)
        resolves = config.on_schema_change is OnSchemaChange.RESOLVE and config.value_format.is_framed
        self.book = SchemaBook(
            parts.codec,
            parts.registry,
            time_field=time_field,
            tables_only=tables,
            columns=config.file_format is FileFormat.PARQUET,
            ids_in_files=not resolves and config.convert_schema is None,
        )
        is_bare = config.value_format is ValueFormat.AVRO and config.schema is not None
        self.fixed = self.book.of_text(config.schema) if is_bare and config.schema is not None else None
        self.reader = self.book.of_text(parts.reader) if resolves and parts.reader is not None else None
        if resolves and self.reader is None:
            raise UnusableSchemaError(f"topic {parts.topic}: on_schema_change 'resolve' has no schema to resolve to")
        self.target = None if config.convert_schema is None else self.book.of_text(config.convert_schema)
        self.conversion = Conversion(parts.converters, parts.context)
        self.event_time = EventTime(
            bounds=parts.bounds, field=time_field, unit=config.time_unit, on_bad=config.on_bad_time
        )
        self.placing = Placing(
            parts.topic,
            parse_template(config.path_template),
            parse_fields(config.partition_fields),
            time_path(config.path_pattern, config.timezone),
            lenient=config.value_format is ValueFormat.JSON,
        )
        self.decoder = self._decoder()
        self.encoder = self._encoder()
        self.only_key = self._pinned_key()
        self._times: dict[TimeUnit, EventTime] = {}

    def outputs(self, record: ConsumerRecord) -> list[Output]:
        """What becomes of a record whose value is not to be skipped; empty for a filtered one.

        Args:
            record: with a null value only under `on_null` `write`; no decoder or converter sees it then.

        Raises:
            DecodeError: the record is bad; nothing of it is to be written.
            RegistryUnavailableError: transient, like any error marked so that the user's code raises.
        """
        if record.value is None:
            return [self._output(record, Decoded(None, schema=self.fixed or self.reader), self.event_time)]
        decoded = self.decoder.decode(record, record.value)
        schema = decoded.schema
        if not self.conversion:
            return [self._output(record, decoded, self.times_of(schema))]
        values = self.conversion.outputs(record, decoded.value, None if schema is None else schema.text)
        times = self.times_of(self.target or schema)
        return [self._output(record, Decoded(value, schema=schema), times) for value in values]

    def _pinned_key(self) -> str | None:
        if self.config.on_schema_change is not OnSchemaChange.FAIL:
            return None
        if self.parts.reader is None or not isinstance(self.encoder, DatumEncoder):
            return None
        return self.encoder.file_schema(self.book.of_text(self.parts.reader)).key

    def times_of(self, schema: WriterSchema | None) -> EventTime:
        """How values of a writer schema get their time: a timestamp type tells its own unit."""
        unit = None if schema is None else schema.time_unit
        if unit is None or unit is self.event_time.unit:
            return self.event_time
        found = self._times.get(unit)
        if found is None:
            found = self._times[unit] = dataclasses.replace(self.event_time, unit=unit)
        return found

    def _output(self, record: ConsumerRecord, decoded: Decoded, times: EventTime) -> Output:
        millis = times.of(decoded.value, record.timestamp)
        place = self.placing.place(decoded.value, millis)
        data, schema = self.encoder.encode(record, decoded)
        return Output(place, schema, data, millis)

    def _decoder(self) -> ValueDecoder:
        parts, value_format = self.parts, self.config.value_format
        if parts.decoder is not None:
            return CustomDecoder(parts.decoder, parts.context)
        if self.fixed is not None:
            return AvroDecoder(parts.codec, self.fixed)
        if value_format in ID_SIZES:
            return FramedAvroDecoder(parts.codec, self.book, ID_SIZES[value_format], reader=self.reader)
        plain: dict[ValueFormat, ValueDecoder] = {
            ValueFormat.STRING: StringDecoder(),
            ValueFormat.JSON: JsonDecoder(),
        }
        return plain.get(value_format, BytesDecoder())

    def _encoder(self) -> Encoder:
        config, codec = self.config, self.parts.codec
        changed = bool(self.parts.converters) or self.parts.decoder is not None
        if config.file_format is FileFormat.RAW:
            return RawEncoder(lengths=config.raw_framing is RawFraming.LENGTH, original=not changed)
        if config.file_format is FileFormat.JSONL:
            return JsonLineEncoder(self.columns, wrapped=config.value_format.is_plain and not changed)
        if self.target is not None:
            return ValueEncoder(codec, self.target, self.columns)
        if config.value_format.is_avro:
            encoder = DatumEncoder(codec, self.columns, self.parts.context.metrics.counter(RECODED))
            for schema in (self.fixed, self.reader):
                if schema is not None and self.columns:
                    self.columns.added_to(schema.parsed)
            return encoder
        kind = "bytes" if config.value_format is ValueFormat.BYTES else "string"
        return PlainEncoder(kind, nullable=config.on_null is OnNull.WRITE, columns=self.columns)


def sinks_for(config: TopicConfig, codecs: Codecs) -> SinkFactory:
    """How a topic's files are written.

    Raises:
        ConfigError: an unknown codec, or a format whose extra is not installed.
    """
    if config.file_format is FileFormat.AVRO:
        return AvroSinks(codecs, config.codec.value)
    if config.file_format is FileFormat.PARQUET:
        return ParquetSinks(codecs, config.codec.value, config.max_file_bytes)
    key = config.raw_framing.value if config.file_format is FileFormat.RAW else config.file_format.value
    return StreamSinks(codecs, config.codec.value, EXTENSIONS[key])
