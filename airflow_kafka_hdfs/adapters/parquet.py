"""Parquet files from Avro containers in memory: read by polars, written by pyarrow.

Two ways to the same columns:

1. polars reads the container at once, several times faster than anything that makes an object per value;
2. what it has no columns for (maps, unions of several types, null alone), or refuses for another reason (records many
   levels deep in each other), is decoded by fastavro, value by value.

Both give bare columns (numbers, bytes, text); logical types are put on afterwards by looking at the same memory
differently, so that no library's idea of a calendar stands between a datum and its column.
"""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

from airflow_kafka_hdfs.adapters.codecs import require_parquet
from airflow_kafka_hdfs.adapters.parquet_columns import Column, column_of
from airflow_kafka_hdfs.exceptions import ConfigError, CorruptStateError
from airflow_kafka_hdfs.ports.tables import ColumnType, TableFormat, TableWriter

try:
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:  # said by `codecs.require_parquet`, before anything here is called
    pl = pa = pq = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_CODECS = {"null": "none", "snappy": "snappy", "gzip": "gzip", "zstandard": "zstd"}
_LEVELS = {"gzip": 1, "zstandard": 1}

_ONE_AT_A_TIME = threading.Lock()
"""Files are closed side by side; the columns of one row group at a time are enough in memory."""


class ParquetFormat(TableFormat):
    """Parquet files of one codec.

    Args:
        codec: its name.

    Raises:
        ConfigError: another codec.
    """

    def __init__(self, codec: str) -> None:
        if codec not in _CODECS:
            raise ConfigError("codec", codec, _CODECS, "These are the codecs of Parquet files.")
        self._codec = codec
        self._rows: dict[ColumnType, _Rows] = {}

    def writer(self, rows: ColumnType, metadata: Mapping[str, str]) -> TableWriter:
        """A writer of one file."""
        found = self._rows.get(rows)
        if found is None:
            column = column_of(rows)
            schema = pa.schema(list(column.type))
            found = self._rows[rows] = _Rows(column, schema, text_columns(schema))
            if not column.by_polars:
                log.info("rows are decoded one by one for Parquet: polars has no columns for %s", ", ".join(odd(rows)))
        return ParquetWriter(found, self._codec, metadata)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one type.

    Attributes:
        texts: paths of the columns of text.
    """

    column: Column
    schema: Any
    texts: list[str]


def text_columns(schema: Any) -> list[str]:
    """Paths of the columns of text in a file of an Arrow schema, as the writer itself names them."""
    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty, store_schema=False)
    columns = pq.ParquetFile(empty).schema
    return [columns.column(i).path for i in range(len(columns)) if columns.column(i).logical_type.type == "STRING"]


def odd(column: ColumnType, path: str = "") -> list[str]:
    """What of a type goes the way of fastavro, as `path: kind`."""
    inner = column.inner
    names = column.names or ("[]",) * len(inner)
    found = [text for name, part in zip(names, inner, strict=True) for text in odd(part, f"{path}.{name}".lstrip("."))]
    strange = column.kind in ("null", "map", "union") or column.loose or (column.kind == "fixed" and not column.size)
    return [f"{path}: {column.kind}", *found] if strange else found


class ParquetWriter(TableWriter):
    """One Parquet file.

    Args:
        rows: their columns.
        codec: its name.
        metadata: key-values.
    """

    def __init__(self, rows: _Rows, codec: str, metadata: Mapping[str, str]) -> None:
        self._column = rows.column
        self._by_polars = rows.column.by_polars
        self._schema = rows.schema
        self._sink = _Sink()
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=_CODECS[codec],
            compression_level=_LEVELS.get(codec),
            version="2.6",
            # Numbers and bytes seldom repeat as a whole: files were larger with dictionaries of them, and took longer.
            use_dictionary=rows.texts or False,
            store_schema=False,  # nothing of Arrow's own: every reader sees the same types
        )
        self._writer.add_key_value_metadata(dict(metadata))

    def write(self, container: bytes, rows: int) -> list[bytes]:
        """One row group. Raises CorruptStateError if the container does not hold so many rows."""
        with _ONE_AT_A_TIME:
            bare = self._read(container)
            if len(bare) != rows:
                raise CorruptStateError("the row group in memory", f"{len(bare)} rows were read, {rows} were written")
            dressed = self._column.dress(bare)
            table = pa.Table.from_arrays(dressed.flatten(), schema=self._schema)
            self._writer.write_table(table, row_group_size=rows)
        return self._sink.take()

    def finish(self) -> list[bytes]:
        """The footer."""
        self._writer.close()
        return self._sink.take()

    def _read(self, container: bytes) -> Any:
        """Rows as one array of bare groups."""
        if self._by_polars:
            try:
                return _by_polars(container)
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                log.info("rows are decoded one by one for Parquet: polars refuses them: %s", error)
                self._by_polars = False
        values = fastavro.reader(io.BytesIO(container), return_record_name=True, return_record_name_override=True)
        plain = self._column.plain
        return pa.array(values if plain is None else map(plain, values), self._column.bare)


def _by_polars(container: bytes) -> Any:
    frame = pl.read_avro(io.BytesIO(container))
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    fields = [pa.field(name, kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)]
    arrays = [_whole(chunks) for chunks in table.columns]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _whole(chunks: Any) -> Any:
    return chunks.chunk(0) if chunks.num_chunks == 1 else pa.concat_arrays(chunks.chunks)


def read_footer(path: str, size: int, part: Callable[[int, int], bytes]) -> tuple[Mapping[str, str], int]:
    """See `FooterReader`. Raises ValueError, ConfigError."""
    require_parquet()
    try:
        found = pq.read_metadata(pa.PythonFile(_Parts(size, part), mode="r"))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no Parquet file: {error}") from error
    return {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}, int(found.num_rows)


class _Parts(io.RawIOBase):
    """A file of which only what is asked for is fetched."""

    def __init__(self, size: int, part: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._part = part
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go somewhere."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """Where it stands."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes from where it stands."""
        wanted = self._size - self._at if size < 0 else min(size, self._size - self._at)
        data = self._part(self._at, wanted) if wanted > 0 else b""
        self._at += len(data)
        return data


class _Sink:
    """What pyarrow writes to; bytes are taken from it as they come."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        """Take bytes."""
        part = bytes(data)
        if part:
            self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        """Bytes so far."""
        return self._size

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to give back."""

    def readable(self) -> bool:
        """It is not."""
        return False

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is not."""
        return False

    def take(self) -> list[bytes]:
        """What came since the last time."""
        parts, self._parts = self._parts, []
        return parts
