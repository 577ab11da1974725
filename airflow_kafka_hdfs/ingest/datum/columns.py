"""Columns that a file has beside the value's own: where in Kafka a record came from, its key, its headers.

They are fields behind all others, so that the value's datum stays byte for byte and theirs is put behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long
from airflow_kafka_hdfs.ingest.datum.schema import Record, read_schema
from airflow_kafka_hdfs.model import ConsumerRecord

_METADATA: tuple[dict[str, Any], ...] = (
    {"name": "_kafka_topic", "type": "string", "default": ""},
    {"name": "_kafka_partition", "type": "int", "default": -1},
    {"name": "_kafka_offset", "type": "long", "default": -1},
    {
        "name": "_kafka_timestamp",
        "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "default": None,
    },
    {"name": "_kafka_timestamp_type", "type": "string", "default": "none"},
)
_KEY: dict[str, Any] = {"name": "_kafka_key", "type": ["null", "bytes"], "default": None}
_HEADERS: dict[str, Any] = {
    "name": "_kafka_headers",
    "type": {
        "type": "array",
        "items": {
            "type": "record",
            "name": "KafkaHeader",
            "namespace": "airflow_kafka_hdfs",
            "fields": [{"name": "name", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
        },
    },
    "default": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns are wanted; false without any."""

    metadata: bool = False
    key: bool = False
    headers: bool = False
    # Topic and partition change seldom; their bytes are made once.
    _heads: dict[tuple[str, int], bytes] = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.metadata or self.key or self.headers

    def fields(self) -> list[dict[str, Any]]:
        """The fields of the columns, as a schema has them."""
        return [
            *(_METADATA if self.metadata else ()),
            *((_KEY,) if self.key else ()),
            *((_HEADERS,) if self.headers else ()),
        ]

    def add_to(self, schema: Any) -> Any:
        """The schema with the columns' fields behind its own.

        Args:
            schema: a record as plain JSON values; it is not changed.

        Raises:
            ConfigError: it has a field of such a name already.
            UnusableSchemaError: it is no record, so that no field can be added.
        """
        if not self:
            return schema
        record = read_schema(schema)
        if not isinstance(record, Record) or not isinstance(schema, dict) or "fields" not in schema:
            raise UnusableSchemaError("include_*: columns can be added to a record, and the value's schema is none")
        clash = {known.name for known in record.fields} & {added["name"] for added in self.fields()}
        if clash:
            hint = f"the value's schema {record.name} has these fields itself: {', '.join(sorted(clash))}"
            raise ConfigError("include_*", sorted(clash), "columns whose names are free", hint)
        return {**schema, "fields": [*schema["fields"], *self.fields()]}

    def encode(self, record: ConsumerRecord) -> bytes:
        """The columns of one record, encoded."""
        parts: list[bytes] = []
        if self.metadata:
            parts += self._metadata(record)
        if self.key:
            parts.append(_nullable(record.key))
        if self.headers:
            parts.append(_encode_headers(record.headers))
        return b"".join(parts)

    def encode_all(self, records: Iterable[ConsumerRecord]) -> Sequence[bytes] | None:
        """The columns of many records, None if no column is wanted; fit for `Batch.tails`."""
        return [self.encode(record) for record in records] if self else None

    def _metadata(self, record: ConsumerRecord) -> tuple[bytes, ...]:
        head = self._heads.get((record.topic, record.partition))
        if head is None:
            head = encode_bytes(record.topic.encode()) + encode_long(record.partition)
            self._heads[record.topic, record.partition] = head
        time = b"\x00" if record.timestamp < 0 else b"\x02" + encode_long(record.timestamp)
        return head, encode_long(record.offset), time, encode_bytes(record.timestamp_type.value.encode())


def _nullable(data: bytes | None) -> bytes:
    return b"\x00" if data is None else b"\x02" + encode_bytes(data)


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    if not headers:
        return b"\x00"
    items = [encode_bytes(name.encode()) + _nullable(value) for name, value in headers]
    return b"".join((encode_long(len(items)), *items, b"\x00"))
