"""Schemas and the coding of Avro data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from airflow_kafka_hdfs.ports.tables import TableFormat


class SchemaRegistry(Protocol):
    """Where writer schemas come from. Answers are cached: ids never change their meaning."""

    @abstractmethod
    def by_id(self, schema_id: int | str) -> str:
        """The schema of an id as JSON text.

        Args:
            schema_id: a number (4-byte ids) or 32 hex digits (16-byte ids).

        Raises:
            UnknownSchemaError: the registry answered that there is no such id.
            UnusableSchemaError: what it answered is no Avro schema.
            RegistryUnavailableError: it did not answer, or with 5xx or nonsense.
        """

    @abstractmethod
    def latest(self, topic: str) -> tuple[int | str, str] | None:
        """Id and JSON text of the latest value schema of a topic, None if it has none. Raises as `by_id`."""


class AvroCodec(Protocol):
    """Decoding and encoding of single Avro datums. Schemas are JSON text; parsed forms are cached.

    Values are those of the base types: a `timestamp-millis` is an int, a `decimal` its bytes, so that every datum can
    be decoded and comes back unchanged. In a union of several named types a value is a pair (full name, value), since
    the value alone would not tell which one it was.
    """

    @abstractmethod
    def parse(self, schema: str) -> Any:
        """The parsed form of a schema as plain JSON values.

        Raises:
            UnusableSchemaError: no valid Avro schema.
        """

    @abstractmethod
    def canonical(self, schema: str) -> str:
        """Parsing canonical form, for comparison of schemas. Raises UnusableSchemaError."""

    @abstractmethod
    def decode(self, schema: str, data: bytes, reader_schema: str | None = None) -> Any:
        """Decode a datum that must end where `data` ends.

        Raises:
            DecodeError: `truncated`, `trailing_bytes`, `corrupt`, `unresolvable`.
        """

    @abstractmethod
    def encode(self, schema: str, value: Any, *, check: bool = True) -> bytes:
        """Encode one value.

        Args:
            schema: of the value.
            value: as `decode` gives it; fields with a default may be missing.
            check: whether to prove first that the value fits, unknown fields and the range of ints included. Values
                that `decode` gave for the same schema need no proof, which costs more than the encoding.

        Raises:
            DecodeError: `unencodable`: the value does not fit the schema.
        """


class Compressor(Protocol):
    """One codec of Avro blocks; not to be shared between threads.

    Attributes:
        name: as in the `avro.codec` header.
    """

    name: str

    @abstractmethod
    def compress(self, block: bytes) -> bytes:
        """The block as it stands in a container (snappy with its CRC-32)."""


class StreamCompressor(Protocol):
    """Compresses one file as it grows.

    Attributes:
        name: of the codec.
        suffix: what is added to the file's name, empty for `null`.
    """

    name: str
    suffix: str

    @abstractmethod
    def compress(self, data: bytes) -> bytes:
        """What can be written now; perhaps nothing yet."""

    @abstractmethod
    def finish(self) -> bytes:
        """The rest; the compressor is of no use afterwards."""


class Codecs(Protocol):
    """The codecs by the names of the `codec` argument."""

    @abstractmethod
    def block(self, name: str) -> Compressor:
        """A compressor of Avro blocks: `null`, `snappy`, `zstandard`, `deflate`. Raises ConfigError."""

    @abstractmethod
    def stream(self, name: str) -> StreamCompressor:
        """A compressor for one new file: `null`, `gzip`, `zstandard`. Raises ConfigError."""

    @abstractmethod
    def crc32(self, data: bytes, value: int, /) -> int:
        """The CRC-32 (ISO 3309) of more data behind those that `value` stands for, 0 for none."""

    @abstractmethod
    def table(self, name: str) -> TableFormat:
        """Parquet files: `null`, `snappy`, `gzip`, `zstandard`.

        Raises:
            ConfigError: another name, or the extra `parquet` is not installed.
        """
