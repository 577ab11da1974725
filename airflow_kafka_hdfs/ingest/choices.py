"""The words that settings take: one enum per argument, each member with its meaning where the word does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class ValueFormat(StrEnum):
    """How the value of a record is read."""

    BYTES = "bytes"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    """A bare datum of the schema given by `schema`."""
    AVRO_ID16 = "avro_id16"
    """Byte 0 is 0, bytes 1-16 are the schema id."""
    AVRO_CONFLUENT = "avro_confluent"
    """Byte 0 is 0, bytes 1-4 are the schema id."""
    CUSTOM = "custom"
    """By a decoder of the user."""

    @property
    def is_framed(self) -> bool:
        """Whether each value names its writer schema, which a registry knows."""
        return self in (ValueFormat.AVRO_ID16, ValueFormat.AVRO_CONFLUENT)

    @property
    def is_avro(self) -> bool:
        """Whether values are Avro datums."""
        return self is ValueFormat.AVRO or self.is_framed

    @property
    def is_plain(self) -> bool:
        """Whether values have no fields."""
        return self in (ValueFormat.BYTES, ValueFormat.STRING)


class TimeUnit(StrEnum):
    """Unit of the time field."""

    SECONDS = "s"
    MILLIS = "ms"
    MICROS = "us"
    NANOS = "ns"
    ISO = "iso"
    """ISO 8601 text."""
    DAYS = "day"
    """Days since the epoch: what Avro's `date` type tells by itself; nobody can choose it."""


class Granularity(StrEnum):
    """Length of a time partition, shortest first."""

    MINUTELY = "minutely"
    HOURLY = "hourly"
    DAILY = "daily"
    MONTHLY = "monthly"
    YEARLY = "yearly"


PATTERNS: Mapping[Granularity, str] = MappingProxyType(
    {
        Granularity.MINUTELY: "yyyy/MM/dd/HH/mm",
        Granularity.HOURLY: "yyyy/MM/dd/HH",
        Granularity.DAILY: "yyyy/MM/dd",
        Granularity.MONTHLY: "yyyy/MM",
        Granularity.YEARLY: "yyyy",
    }
)
"""Default `path_pattern` of each granularity."""


class OnBadTime(StrEnum):
    """What becomes of a record whose event time is missing or outside `time_bounds`."""

    QUARANTINE = "quarantine"
    KAFKA_TIME = "kafka_time"
    FAIL = "fail"


class FileFormat(StrEnum):
    """Format of the data files."""

    AVRO = "avro"
    PARQUET = "parquet"
    JSONL = "jsonl"
    RAW = "raw"


class Codec(StrEnum):
    """Compression of the data files."""

    SNAPPY = "snappy"
    ZSTANDARD = "zstandard"
    DEFLATE = "deflate"
    GZIP = "gzip"
    NULL = "null"


class RawFraming(StrEnum):
    """What separates records in a raw file."""

    NEWLINE = "newline"
    LENGTH = "length"
    """4 bytes, big-endian, before each."""


class OutOfRange(StrEnum):
    """What happens when wanted offsets are no longer, or not yet, what the broker holds."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NEAREST = "nearest"
    SKIP = "skip"
    FAIL = "fail"


class OnTopicRecreated(StrEnum):
    """Where reading goes on when a topic's name has a new topic id."""

    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"


class OnNull(StrEnum):
    """What becomes of null values."""

    FAIL = "fail"
    SKIP = "skip"
    WRITE = "write"


class OnSchemaChange(StrEnum):
    """What happens when records of one time partition have several writer schemas."""

    NEW_FILE = "new_file"
    RESOLVE = "resolve"
    """Every record is brought to one reader schema: `schema`, or the registry's latest when the plan was made."""
    FAIL = "fail"


class EmitPartitions(StrEnum):
    """Which partition assets get events."""

    TOUCHED = "touched"
    NONE = "none"


class BootstrapKind(StrEnum):
    """Where an unknown topic starts."""

    EARLIEST = "earliest"
    LATEST = "latest"
    SKIP = "skip"
    TIME = "time"
    LOOKBACK = "lookback"


class PackingMethod(StrEnum):
    """How work units are laid into tasks."""

    SINGLE_LEVEL = "single_level"
    BI_LEVEL = "bi_level"
    """Work units of one topic are grouped first, so that a topic's partitions share files."""
