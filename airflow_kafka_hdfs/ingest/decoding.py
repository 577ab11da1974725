"""From the bytes of a record's value to a value, its Avro datum and its writer schema; one class per value format.

A decoder is never given a null value. It raises `DecodeError` for a bad record, and lets errors marked `Transient`
(the registry is away) out as they are: those end the attempt, not the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.ingest.usercode import UserCode, UserContext, UserRecord
from airflow_kafka_hdfs.ingest.writer_schemas import SchemaBook, WriterSchema
from airflow_kafka_hdfs.model import ConsumerRecord
from airflow_kafka_hdfs.ports.schemas import AvroCodec

ID16_SIZE = 16
CONFLUENT_SIZE = 4


@dataclass(slots=True)
class Decoded:
    """What a value holds.

    Attributes:
        value: as Python has it; None as well where nobody needs it.
        datum: the bytes behind the frame where they can be passed on: an Avro datum, or text and bytes as they are.
        schema: of the datum, or of the value where it is to become one.
        proved: whether the value is known to fit the schema, since it was decoded for it.
    """

    value: Any
    datum: bytes | None = None
    schema: WriterSchema | None = None
    proved: bool = False


class ValueDecoder(Protocol):
    """Decodes values that are not null."""

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """Decode a value.

        Args:
            record: where it stands.
            data: its value.

        Raises:
            DecodeError: the record is bad.
            RegistryUnavailableError: transient.
        """


class BytesDecoder:
    """Any bytes."""

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """The bytes themselves."""
        return Decoded(data, data)


class StringDecoder:
    """Text in UTF-8."""

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """The text. Raises DecodeError `not_utf8`."""
        return Decoded(_text(data), data)


class JsonDecoder:
    """One JSON value in UTF-8; the numbers NaN and Infinity are no JSON."""

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """The value. Raises DecodeError `not_utf8`, `not_json`."""
        text = _text(data)
        try:
            return Decoded(json.loads(text, parse_constant=_no_constant), data)
        except (ValueError, RecursionError) as error:
            detail = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise DecodeError(BadReason.NOT_JSON, f"{detail}; the value begins with {text[:40]!r}") from error


class AvroDecoder:
    """Bare Avro datums of one schema.

    Args:
        codec: decodes them.
        schema: their writer schema.
    """

    def __init__(self, codec: AvroCodec, schema: WriterSchema) -> None:
        self._codec = codec
        self._schema = schema

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """The datum, proved whole. Raises DecodeError `truncated`, `trailing_bytes`, `corrupt`."""
        return Decoded(self._schema.decode(self._codec, data), data, self._schema)


class FramedAvroDecoder:
    """Avro datums behind a schema id.

    Args:
        codec: decodes them.
        book: tells schemas by id.
        id_size: bytes of the id, 4 (Confluent) or 16.
        reader: schema to which every datum is resolved; datums written with it stay as they are.
    """

    def __init__(self, codec: AvroCodec, book: SchemaBook, id_size: int, *, reader: WriterSchema | None = None) -> None:
        self._codec = codec
        self._book = book
        self._id_size = id_size
        self._reader = reader

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """The datum, proved whole.

        Raises:
            DecodeError: `frame`, `unknown_schema`, `unusable_schema`, `truncated`, `trailing_bytes`, `corrupt`,
                `unresolvable`.
            RegistryUnavailableError: transient.
        """
        schema_id = frame_id(data, self._id_size)
        schema = self._book.of_id(schema_id)
        datum = data[1 + self._id_size :]
        reader = self._reader
        if reader is not None and reader.file.key != schema.file.key:
            return Decoded(schema.decode(self._codec, datum, reader), None, reader, proved=True)
        return Decoded(schema.decode(self._codec, datum), datum, schema if reader is None else reader)


class CustomDecoder:
    """Values by a decoder of the user.

    Args:
        code: see `usercode`.
        context: of the topic.
    """

    def __init__(self, code: Callable[..., Any], context: UserContext) -> None:
        self._context = context
        self._code = UserCode(code, BadReason.DECODER, "decode", context)

    def decode(self, record: ConsumerRecord, data: bytes) -> Decoded:
        """What the user's decoder gives. Raises DecodeError `decoder`, or whatever reason it names."""
        return Decoded(self._code(UserRecord.of(record, data, self._context)))


def frame_id(data: bytes, id_size: int) -> int | str:
    """The schema id in front of a datum.

    Args:
        data: a value.
        id_size: 4 for a positive number, 16 for bytes shown as 32 hex digits.

    Raises:
        DecodeError: `frame`: too short, byte 0 is not 0, or a number that no registry gives.
    """
    if len(data) <= id_size:
        raise DecodeError(
            BadReason.FRAME, f"the value has {len(data)} bytes; byte 0 and the schema id alone have {1 + id_size}"
        )
    if data[0]:
        raise DecodeError(
            BadReason.FRAME, f"byte 0 is 0x{data[0]:02x}, expected 0x00; the value begins with {data[:8].hex(' ')}"
        )
    raw = data[1 : 1 + id_size]
    if id_size == ID16_SIZE:
        return raw.hex()
    number = int.from_bytes(raw, "big", signed=True)
    if number <= 0:
        raise DecodeError(BadReason.FRAME, f"schema id {number} is none that a registry gives; ids are positive")
    return number


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} of {len(data)} is no UTF-8: 0x{data[error.start]:02x}"
        raise DecodeError(BadReason.NOT_UTF8, detail) from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
