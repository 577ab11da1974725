"""Schemas and the coding of Avro data."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol


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
    """Decoding and encoding of single Avro datums. Schemas are JSON text; parsed forms are cached."""

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
    def encode(self, schema: str, value: Any) -> bytes:
        """Encode one value.

        Raises:
            DecodeError: `unencodable`: the value does not fit the schema.
        """


class Compressor(Protocol):
    """One Avro or file codec.

    Attributes:
        name: as in the `avro.codec` header.
    """

    name: str

    @abstractmethod
    def compress(self, block: bytes) -> bytes:
        """The block as it stands in a container (snappy with its CRC-32)."""
