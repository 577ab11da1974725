"""Bad records, kept with all that Kafka brought, so that they can be replayed once a decoder or registry is mended.

One Avro file per topic and mapped task, readable by its owner alone; the commit lists it like any file. Limits on the
number and share of bad records are judged by the commit, which sees a whole run; here only a flood ends a unit early.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.columns import schema_text
from airflow_kafka_hdfs.ingest.committing import BadRecordLimits
from airflow_kafka_hdfs.ingest.datum.container import sync_marker
from airflow_kafka_hdfs.ingest.records import FileEntry
from airflow_kafka_hdfs.ingest.writer_schemas import fingerprint
from airflow_kafka_hdfs.ingest.writers.files import Span
from airflow_kafka_hdfs.ingest.writers.sinks import AvroSink
from airflow_kafka_hdfs.model import PRIVATE, ConsumerRecord
from airflow_kafka_hdfs.ports.schemas import AvroCodec, Compressor
from airflow_kafka_hdfs.ports.store import Store

FLOOD = 10_000
"""Bad records of a unit below which it is always read to its end, so that a topic that was held by its limit commits
as it is once the limit is raised."""

_MAX_DETAIL = 1_000
_SCHEMA = MappingProxyType(
    {
        "type": "record",
        "name": "BadRecord",
        "namespace": "airflow_kafka_hdfs",
        "fields": [
            {"name": "topic", "type": "string"},
            {"name": "topic_id", "type": "string"},
            {"name": "partition", "type": "int"},
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": "long", "doc": "milliseconds since the epoch, -1 for none"},
            {"name": "timestamp_type", "type": "string"},
            {"name": "key", "type": ["null", "bytes"]},
            {"name": "value", "type": ["null", "bytes"]},
            {
                "name": "headers",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "BadRecordHeader",
                        "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
                    },
                },
            },
            {"name": "schema_id", "type": ["null", "string"]},
            {"name": "reason", "type": "string"},
            {"name": "detail", "type": "string"},
        ],
    }
)
QUARANTINE_SCHEMA = schema_text(dict(_SCHEMA))
"""Schema of quarantine files, as JSON text; binding for `quarantine replay`."""


def surely_over(limits: BadRecordLimits, bad: int, read: int, planned: int) -> str | None:
    """Why a unit's topic is over its limit whatever the rest of the run brings; None if it may not be.

    Args:
        limits: of the topic in one run.
        bad: bad records of the unit.
        read: records of the unit.
        planned: offsets that the whole run is to read of the topic, at most so many records.
    """
    if bad < FLOOD:
        return None
    if limits.most is not None and bad > limits.most:
        return f"{bad} bad records of {read} read so far; max_bad_records is {limits.most}"
    if limits.share is not None and read >= limits.share_from and bad > limits.share * planned:
        return (
            f"{bad} bad records of {read} read so far and {planned} offsets planned; max_bad_share is "
            f"{limits.share:.2%}"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinePlace:
    """Where the bad records of a unit go.

    Attributes:
        staged: in the attempt's staging folder.
        path: its place, once committed.
        stem: the name that the sync marker is made of.
    """

    topic: str
    topic_id: str
    staged: str
    path: str
    stem: str


class Quarantine:
    """The bad records of one unit. The file is opened with the first of them.

    Args:
        store: the destination.
        codec: encodes entries.
        compressor: of the file's blocks.
        place: where the file goes.

    Attributes:
        count: bad records so far.
    """

    def __init__(self, store: Store, codec: AvroCodec, compressor: Compressor, place: QuarantinePlace) -> None:
        self._store = store
        self._codec = codec
        self._compressor = compressor
        self._place = place
        self._sink: AvroSink | None = None
        self._spans: dict[int, Span] = {}
        self.count = 0

    @property
    def staged(self) -> str:
        """Path of the file until a commit lists it."""
        return self._place.staged

    def add(self, record: ConsumerRecord, error: DecodeError, schema_id: int | str | None) -> None:
        """Keep a bad record.

        Raises:
            StoreUnavailableError, StoreRefusedError: the attempt is of no use any more.
        """
        if self._sink is None:
            self._sink = self._opened()
        self._sink.append(self._codec.encode(QUARANTINE_SCHEMA, self._entry(record, error, schema_id), check=False))
        self._spans.setdefault(record.partition, Span(record.offset, record.offset)).add(
            record.offset, record.offset, 1
        )
        self.count += 1

    def close(self) -> FileEntry | None:
        """Finish the file; None if there was no bad record. Raises as `add`."""
        if self._sink is None:
            return None
        closed = self._sink.close()
        self._sink = None
        return FileEntry(
            path=self._place.path,
            staged=self._place.staged,
            topic=self._place.topic,
            topic_id=self._place.topic_id,
            size=closed.size,
            digest=closed.digest,
            records=sum(span.records for span in self._spans.values()),
            records_out=closed.records_out,
            offsets={p: (span.first, span.last, span.records) for p, span in sorted(self._spans.items())},
            schema=fingerprint(QUARANTINE_SCHEMA),
            quarantine=True,
        )

    def abort(self) -> list[str]:
        """Give the file up; its path, if it was begun. Never raises."""
        if self._sink is not None:
            self._sink.abort()
            self._sink = None
        return [self._place.staged] if self.count else []

    def _opened(self) -> AvroSink:
        out = self._store.create(self._place.staged, modes=PRIVATE)
        try:
            return AvroSink(
                out,
                schema=QUARANTINE_SCHEMA,
                compressor=self._compressor,
                sync=sync_marker(self._place.stem),
                metadata={},
            )
        except BaseException:
            out.abort()
            raise

    def _entry(self, record: ConsumerRecord, error: DecodeError, schema_id: int | str | None) -> dict[str, Any]:
        return {
            "topic": record.topic,
            "topic_id": self._place.topic_id,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type.value,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": _clean(name), "value": value} for name, value in record.headers],
            "schema_id": None if schema_id is None else str(schema_id),
            "reason": error.reason,
            "detail": _clean(error.detail)[:_MAX_DETAIL],
        }


def _clean(text: str) -> str:
    """A text that has a place in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
