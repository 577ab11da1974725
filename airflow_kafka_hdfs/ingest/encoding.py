"""From a decoded value to the bytes that go into a file; one class per way to write a value.

The bytes are whole: an Avro datum, a line with its end, a message with its frame. A file only lays them one behind the
other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.columns import Columns, schema_text
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.decoding import Decoded
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.ingest.tables import TableProof
from airflow_kafka_hdfs.ingest.writer_schemas import FileSchema, WriterSchema
from airflow_kafka_hdfs.metrics import Counter
from airflow_kafka_hdfs.model import ConsumerRecord
from airflow_kafka_hdfs.ports.schemas import AvroCodec

_VALUE = "value"
_MAX_FRAME = 2**32 - 1

Encoded = tuple[bytes, FileSchema | None]
"""Bytes for a file, and its schema where the format has one."""


class Encoder(Protocol):
    """Writes values of one topic."""

    def encode(self, record: ConsumerRecord, decoded: Decoded) -> Encoded:
        """One output.

        Args:
            record: the Kafka record that it comes from.
            decoded: its value, or what a converter made of it; `Decoded(None)` for a null value that is to be written.

        Raises:
            DecodeError: the value does not fit the format or the schema.
        """


class DatumEncoder:
    """Avro datums as they came; what was resolved or converted is encoded anew.

    Args:
        codec: encodes values that have no datum (any more).
        columns: laid behind the datum.
        recoded: counts values that had to be encoded again.
    """

    def __init__(self, codec: AvroCodec, columns: Columns, recoded: Counter | None = None) -> None:
        self._codec = codec
        self._columns = columns
        self._recoded = recoded or Counter()
        self._files: dict[str, FileSchema] = {}

    def encode(self, record: ConsumerRecord, decoded: Decoded) -> Encoded:
        """The datum with its columns. Raises DecodeError `unencodable`, `unusable_schema` (a clash of names)."""
        schema = decoded.schema
        if schema is None:
            raise DecodeError(BadReason.UNENCODABLE, "a null value has no place in files of records")
        datum = decoded.datum
        if datum is None:
            datum = self._codec.encode(schema.text, decoded.value, check=not decoded.proved)
            self._recoded.inc()
        if schema.proof is not None:
            _prove(self._codec, schema, schema.proof, datum)
        if not self._columns:
            return datum, schema.file
        return datum + self._columns.suffix(record), self.file_schema(schema)

    def file_schema(self, schema: WriterSchema) -> FileSchema:
        """The schema of the files for a writer schema. Raises DecodeError `unusable_schema`."""
        if not self._columns:
            return schema.file
        found = self._files.get(schema.text)
        if found is None:
            try:
                parsed = self._columns.added_to(schema.parsed)
            except UnusableSchemaError as error:
                raise DecodeError(BadReason.UNUSABLE_SCHEMA, f"schema {schema.file.label}: {error}") from error
            found = self._files[schema.text] = FileSchema.of(schema_text(parsed), parsed, schema.file.label)
        return found


class ValueEncoder:
    """Values (of converters, decoders of the user, or null) as Avro of one schema.

    Args:
        codec: encodes them.
        schema: of the values.
        columns: laid behind the datum.

    Raises:
        UnusableSchemaError: the columns clash with the schema.
    """

    def __init__(self, codec: AvroCodec, schema: WriterSchema, columns: Columns) -> None:
        self._codec = codec
        self._schema = schema
        self._columns = columns
        self.file = schema.file
        if columns:
            parsed = columns.added_to(schema.parsed)
            self.file = FileSchema.of(schema_text(parsed), parsed)

    def encode(self, record: ConsumerRecord, decoded: Decoded) -> Encoded:
        """The value as a datum. Raises DecodeError `unencodable`."""
        datum = self._codec.encode(self._schema.text, decoded.value)
        if self._schema.proof is not None:
            _prove(self._codec, self._schema, self._schema.proof, datum)
        return (datum + self._columns.suffix(record) if self._columns else datum), self.file


class PlainEncoder:
    """Bytes or text as Avro records of one field `value`; other values that a converter made become JSON text.

    Args:
        kind: `bytes` or `string`.
        nullable: whether null values are written.
        columns: further fields.

    Attributes:
        file: schema of the files.
        text: whether values are text.
        prefix: bytes before each value that is not null.
        null: datum of a null value, None where none is allowed.
    """

    def __init__(self, kind: str, *, nullable: bool, columns: Columns) -> None:
        fields = [{"name": _VALUE, "type": ["null", kind] if nullable else kind}]
        parsed = {"type": "record", "name": "KafkaValue", "namespace": "airflow_kafka_hdfs", "fields": fields}
        parsed = columns.added_to(parsed)
        self.file = FileSchema.of(schema_text(parsed), parsed)
        self._columns = columns
        self.text = kind == "string"
        self.prefix = encode_long(1) if nullable else b""
        self.null = encode_long(0) if nullable else None

    def encode(self, record: ConsumerRecord, decoded: Decoded) -> Encoded:
        """The record. Raises DecodeError `unencodable` for a null value where none is allowed."""
        data = decoded.datum
        if data is None and decoded.value is not None:
            data = self._converted(decoded.value)
        if data is not None:
            datum = self.prefix + encode_bytes(data)
        elif self.null is not None:
            datum = self.null
        else:
            raise DecodeError(BadReason.UNENCODABLE, "a null value has no place in a field that is not nullable")
        return (datum + self._columns.suffix(record) if self._columns else datum), self.file

    def _converted(self, value: Any) -> bytes:
        if isinstance(value, str):
            return _utf8(value)
        if self.text:
            return _line(value)[:-1]
        if isinstance(value, bytes):
            return value
        raise DecodeError(
            BadReason.UNENCODABLE, f"a {type(value).__name__} has no place in a field of bytes; allowed: bytes, str"
        )


class JsonLineEncoder:
    """One JSON value per line, UTF-8.

    A value that came as JSON stays as it is but for line ends between its tokens. Where columns are added, a value that
    is no object becomes the member `value` of one; so do bytes (as base64) and text that come without any decoding.

    Args:
        columns: further members.
        wrapped: values are bytes or text and always become the member `value`.
    """

    def __init__(self, columns: Columns, *, wrapped: bool) -> None:
        self._columns = columns
        self._wrapped = wrapped

    def encode(self, record: ConsumerRecord, decoded: Decoded) -> Encoded:
        """The line. Raises DecodeError `unencodable`, `clash`."""
        value = decoded.value
        if not self._wrapped and not self._columns:
            if decoded.datum is not None and decoded.schema is None:
                return decoded.datum.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n", None
            return _line(value), None
        members = self._columns.members(record)
        if self._wrapped or not isinstance(value, Mapping):
            return _line({_VALUE: value, **members}), None
        clash = sorted(members.keys() & value.keys())
        if clash:
            raise DecodeError(BadReason.CLASH, f"member {clash[0]!r} of the value clashes with include_*")
        return _line({**value, **members}), None


class RawEncoder:
    """Values as they are, each with a line end behind it or its length before it.

    Args:
        lengths: 4 bytes, big-endian, before each value; otherwise a line end, which no value may hold.
        original: write what Kafka brought, whatever was decoded; otherwise bytes or text that a converter made.
    """

    def __init__(self, *, lengths: bool, original: bool) -> None:
        self._lengths = lengths
        self._original = original

    def encode(self, record: ConsumerRecord, decoded: Decoded) -> Encoded:
        """The value with its frame. Raises DecodeError `unencodable`, `newline`."""
        value = record.value if self._original else decoded.value
        if isinstance(value, str):
            value = _utf8(value)
        if not isinstance(value, bytes):
            raise DecodeError(
                BadReason.UNENCODABLE, f"a {type(value).__name__} has no place in a raw file; allowed: bytes, str"
            )
        if self._lengths:
            if len(value) > _MAX_FRAME:
                raise DecodeError(
                    BadReason.UNENCODABLE, f"the value has {len(value)} bytes; a length of 4 bytes ends before that"
                )
            return len(value).to_bytes(4, "big") + value, None
        at = value.find(b"\n")
        if at >= 0:
            detail = f"byte {at} of the value is a line end; raw_framing 'length' keeps such values whole"
            raise DecodeError(BadReason.NEWLINE, detail)
        return value + b"\n", None


def _prove(codec: AvroCodec, schema: WriterSchema, proof: TableProof, datum: bytes) -> None:
    """Raise DecodeError if a value has no place in columns; decoded again, since converters may leave fields out."""
    proof.prove(datum, lambda: codec.decode(schema.text, datum))


def _line(value: Any) -> bytes:
    try:
        text = json.dumps(value, default=_plain, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:  # a lone surrogate, which JSON can only escape
            return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise DecodeError(BadReason.UNENCODABLE, f"the value is no JSON: {error}"[:300]) from error


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DecodeError(
            BadReason.UNENCODABLE, f"character {error.start} of the text has no place in UTF-8"
        ) from error


def _plain(value: Any) -> Any:
    """What JSON has no form for: bytes as base64, moments as ISO text, decimals and UUIDs as text."""
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo is not None else value).isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no form in JSON")
