"""Parquet files: rows wait as an Avro container in memory until they are a row group.

A row group ends by bytes, not by rows: 50,000 rows of 2 KB took a process to more than a gigabyte. It also ends where
all open files of the task hold too much (`files.MAX_HELD_BYTES`), so that a task with 200 open hours needs no more
memory than one with four.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_kafka_hdfs.ingest.datum.container import (
    BLOCK_BYTES,
    BlockBuilder,
    Chunk,
    Crc32,
    Digest,
    encode_long,
    header,
)
from airflow_kafka_hdfs.ingest.tables import container_schema, row_type
from airflow_kafka_hdfs.ingest.writers.sinks import EXTENSIONS, Closed, OpenAs, Sink, SinkFactory
from airflow_kafka_hdfs.ports.schemas import Codecs
from airflow_kafka_hdfs.ports.store import StagedWriter
from airflow_kafka_hdfs.ports.tables import ColumnType, TableWriter

GROUP_BYTES = 8 << 20
"""Datums that make a row group."""

_CONTAINER_BLOCK_BYTES = 1 << 20
"""Blocks of the container in memory: its reader makes an array per block and column, 1.3 times slower with blocks as
files have them; still larger ones gain nothing, and the reader copies one of them at a time."""

AVRO_SCHEMA = "kafka_hdfs.avro_schema"
"""Key of the schema that the rows were written with, which tells more than the columns do."""


class ParquetSink(Sink):
    """A Parquet file.

    Args:
        out: an open new file.
        writer: makes its bytes.
        start: header of the container in memory.
        sync: sync marker, as in that header.
        group_bytes: bytes that complete a row group.
        block_bytes: bytes that complete a piece of a row group.
        digest: a fresh one, CRC-32 by zlib if none is given.
    """

    def __init__(
        self,
        out: StagedWriter,
        writer: TableWriter,
        start: bytes,
        sync: bytes,
        *,
        group_bytes: int = GROUP_BYTES,
        block_bytes: int = BLOCK_BYTES,
        digest: Digest | None = None,
    ) -> None:
        self._out = out
        self._writer = writer
        self._start = start
        self._sync = sync
        self._group_bytes = group_bytes
        self._buffer = BlockBuilder(block_bytes)
        self._group: list[bytes] = []  # of whole blocks: laying them together as they come would copy them twice
        self._open: list[bytes] = []  # of the block behind them
        self._open_bytes = self._open_rows = self._held = 0
        self._rows = self._records = self._size = 0
        self._digest: Digest = digest or Crc32()

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._size

    @property
    def fill(self) -> int:
        """Bytes that wait in the open block."""
        return self._buffer.fill

    @property
    def held(self) -> int:
        """Bytes of the open row group."""
        return self._held

    def bound(self, more: int) -> int:
        """Nothing is written before the row group ends. A column takes at most 9 bytes for one of a datum: a `long`."""
        waiting = self.held + self.fill + more
        return self._size if waiting < self._group_bytes else self._size + 9 * waiting

    def append(self, data: bytes, count: int = 1) -> bool:
        """Add datums, laid end to end."""
        block = self._buffer.add(data, count)
        if block is None:
            return False
        self._collect(block)
        if self.held >= self._group_bytes:
            self.flush()
        return True

    def flush(self) -> None:
        """End the row group."""
        self._end_block()
        if self._rows:
            group, rows = b"".join((self._start, *self._group)), self._rows
            self._group, self._held, self._rows = [], 0, 0
            self._write(self._writer.write(group, rows))
            self._records += rows

    def close(self) -> Closed:
        """Finish the file."""
        block = self._buffer.take()
        if block is not None:
            self._collect(block)
        self.flush()
        self._write(self._writer.finish())
        self._out.close()
        return Closed(
            size=self._size, digest=f"{self._digest.name}:{self._digest.hexdigest()}", records_out=self._records
        )

    def abort(self) -> None:
        """Give the file up."""
        self._group, self._open = [], []
        self._out.abort()

    def _collect(self, piece: Chunk) -> None:
        data, count = piece
        self._open.append(data)
        self._open_bytes += len(data)
        self._open_rows += count
        self._held += len(data)
        if self._open_bytes >= _CONTAINER_BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        if self._open:
            sizes = encode_long(self._open_rows) + encode_long(self._open_bytes)
            self._group += (sizes, *self._open, self._sync)
            self._rows += self._open_rows
            self._open, self._open_bytes, self._open_rows = [], 0, 0

    def _write(self, parts: Sequence[bytes]) -> None:
        for data in parts:
            self._out.write(data)
            self._digest.update(data)
            self._size += len(data)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one schema, and the schema of their container."""

    row: ColumnType
    container: str


class ParquetSinks(SinkFactory):
    """Parquet files.

    Args:
        codecs: where their writers come from.
        codec: of their columns.
        max_file_bytes: size at which a file is closed; a row group has no more bytes, so that small files stay small.

    Raises:
        ConfigError: an unknown codec, or the extra is not installed.
    """

    extension = EXTENSIONS["parquet"]

    def __init__(self, codecs: Codecs, codec: str, max_file_bytes: int) -> None:
        self._format = codecs.table(codec)
        self._crc32 = codecs.crc32
        self._group_bytes = min(GROUP_BYTES, max_file_bytes)
        self._known: dict[str, _Rows] = {}

    def open(self, out: StagedWriter, how: OpenAs) -> Sink:
        """See `SinkFactory.open`. Raises ValueError without a schema."""
        if how.schema is None:
            raise ValueError("a Parquet file needs a schema")
        rows = self._known.get(how.schema)
        if rows is None:
            row = row_type(json.loads(how.schema))
            rows = self._known[how.schema] = _Rows(row, container_schema(row))
        writer = self._format.writer(rows.row, {**how.metadata, AVRO_SCHEMA: how.schema})
        start = header(rows.container, "null", {}, how.sync)
        digest = Crc32(self._crc32)
        return ParquetSink(out, writer, start, how.sync, group_bytes=self._group_bytes, digest=digest)
