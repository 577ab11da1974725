"""Kafka's own facts as columns of the files: `include_kafka_metadata`, `include_key`, `include_headers`.

In Avro they are further fields at the end of the record, so that their bytes are a suffix behind the datum, which stays
as it is. In JSON they are further members of the object.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from airflow_kafka_hdfs.exceptions import UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.datum.schema import Record, read_schema
from airflow_kafka_hdfs.ingest.eventtime import NO_TIMESTAMP
from airflow_kafka_hdfs.model import ConsumerRecord

METADATA: Mapping[str, Any] = MappingProxyType(
    {
        "_kafka_topic": "string",
        "_kafka_partition": "int",
        "_kafka_offset": "long",
        "_kafka_timestamp": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "_kafka_timestamp_type": "string",
    }
)
KEY: Mapping[str, Any] = MappingProxyType({"_kafka_key": ["null", "bytes"]})
HEADERS: Mapping[str, Any] = MappingProxyType(
    {
        "_kafka_headers": {
            "type": "array",
            "items": {
                "type": "record",
                "name": "KafkaHeader",
                "namespace": "airflow_kafka_hdfs",
                "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
            },
        }
    }
)
_NULL = encode_long(0)
_PRESENT = encode_long(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns a topic's files have."""

    metadata: bool = False
    key: bool = False
    headers: bool = False

    def __bool__(self) -> bool:
        return self.metadata or self.key or self.headers

    @property
    def types(self) -> dict[str, Any]:
        """Name -> Avro type, in their order."""
        chosen = ((self.metadata, METADATA), (self.key, KEY), (self.headers, HEADERS))
        return {name: kind for wanted, columns in chosen if wanted for name, kind in columns.items()}

    def added_to(self, parsed: Any) -> Any:
        """A record schema with the columns at its end.

        Args:
            parsed: plain JSON values.

        Raises:
            UnusableSchemaError: it is no record, has a field of one of these names or a type named as that of headers,
                or holds records of its own type, which would get the columns too.
        """
        if not self:
            return parsed
        self.check_names(parsed)
        added = [{"name": name, "type": kind} for name, kind in self.types.items()]
        result = {**parsed, "fields": [*parsed["fields"], *added]}
        record = read_schema(result)
        if isinstance(record, Record) and record.uses > 1:
            raise UnusableSchemaError(
                f"record {record.name} holds itself: with the columns of include_* the records inside it could not be "
                "read any more; leave include_* out, or write jsonl"
            )
        return result

    def check_names(self, parsed: Any) -> None:
        """See that there is room for the names of the columns. Raises UnusableSchemaError as `added_to`."""
        if not isinstance(parsed, Mapping) or "fields" not in parsed:
            raise UnusableSchemaError("include_* adds columns to a record; the schema is none on its top level")
        clash = sorted({entry["name"] for entry in parsed["fields"]} & set(self.types))
        if clash:
            raise UnusableSchemaError(f"field {clash[0]!r} of record {parsed.get('name')!r} clashes with include_*")

    def suffix(self, record: ConsumerRecord) -> bytes:
        """The columns of a record as Avro, to be laid behind its datum."""
        parts: list[bytes] = []
        if self.metadata:
            parts += (
                encode_bytes(record.topic.encode()),
                encode_long(record.partition),
                encode_long(record.offset),
                _NULL if record.timestamp == NO_TIMESTAMP else _PRESENT + encode_long(record.timestamp),
                encode_bytes(record.timestamp_type.value.encode()),
            )
        if self.key:
            parts.append(_optional(record.key))
        if self.headers:
            if record.headers:
                parts.append(encode_long(len(record.headers)))
                parts += (encode_bytes(name.encode()) + _optional(value) for name, value in record.headers)
            parts.append(_NULL)
        return b"".join(parts)

    def members(self, record: ConsumerRecord) -> dict[str, Any]:
        """The columns of a record as JSON values; bytes as base64 text."""
        members: dict[str, Any] = {}
        if self.metadata:
            members = {
                "_kafka_topic": record.topic,
                "_kafka_partition": record.partition,
                "_kafka_offset": record.offset,
                "_kafka_timestamp": None if record.timestamp == NO_TIMESTAMP else record.timestamp,
                "_kafka_timestamp_type": record.timestamp_type.value,
            }
        if self.key:
            members["_kafka_key"] = _as_text(record.key)
        if self.headers:
            members["_kafka_headers"] = [{"key": name, "value": _as_text(value)} for name, value in record.headers]
        return members


def schema_text(parsed: Any) -> str:
    """A schema as the text of a file header."""
    return json.dumps(parsed, separators=(",", ":"))


def _optional(value: bytes | None) -> bytes:
    return _NULL if value is None else _PRESENT + encode_bytes(value)


def _as_text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
