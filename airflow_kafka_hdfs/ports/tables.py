"""Files of columns: what their rows are, and who makes the bytes of such a file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal[
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    "fixed",
    "decimal",
    "enum",
    "record",
    "array",
    "map",
    "union",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnType:
    """An Avro type as a column has it: names resolved, a union of null and one type laid into that type.

    Attributes:
        kind: a `decimal` is one that its type can hold; others are `bytes` or `fixed`.
        null_at: where null stands among the branches of the union around the type; None: there is no null.
        logical: logical type of an int, long or string, empty for none.
        size: bytes of a `fixed`, or of a `decimal` made of one; 0 for decimals of any length.
        loose: of those, where no room of this size may be set aside for a value that is not there.
        precision, scale: digits of a `decimal`.
        symbols: of an `enum`.
        names: of the fields of a `record`.
        inner: types of a record's fields, of the items of an array or map, of the branches of a union but null.
    """

    kind: Kind
    null_at: int | None = None
    logical: str = ""
    size: int = 0
    loose: bool = False
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    inner: tuple[ColumnType, ...] = ()


class TableWriter(Protocol):
    """Makes one file; hands out its bytes in order, so that it needs no store."""

    @abstractmethod
    def write(self, container: bytes, rows: int) -> Sequence[bytes]:
        """Make one group of rows.

        Args:
            container: a whole Avro container in memory, without compression, whose schema is that of
                `ingest.tables.container_schema`.
            rows: datums in it, at least one.

        Returns:
            What is to be appended to the file, in pieces; none is empty.
        """

    @abstractmethod
    def finish(self) -> Sequence[bytes]:
        """The end of the file; the writer is of no use afterwards."""


class FooterReader(Protocol):
    """Reads what the end of a Parquet file tells."""

    @abstractmethod
    def __call__(self, path: str, size: int, part: Callable[[int, int], bytes]) -> tuple[Mapping[str, str], int]:
        """Key-values and number of rows.

        Args:
            path: of the file, for errors.
            size: bytes of the file.
            part: bytes of it, from a position on, so many.

        Raises:
            ValueError: no Parquet file, or a damaged one.
            ConfigError: the extra `parquet` is not installed.
        """


class TableFormat(Protocol):
    """Makes the files of one topic."""

    @abstractmethod
    def writer(self, rows: ColumnType, metadata: Mapping[str, str]) -> TableWriter:
        """A writer of one file.

        Args:
            rows: a `record`, the type of a row.
            metadata: key-values of the file.
        """
