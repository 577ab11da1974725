"""One file being written: bytes in, blocks out to a staged file, with its size and digest running along.

A block ends with the output that brings it to its limit, whatever batches the outputs came in, so that a file's bytes
depend on its outputs alone. 200 open files hold at most 200 blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_kafka_hdfs.ingest.datum.container import (
    BLOCK_BYTES,
    AvroContainerWriter,
    BlockBuilder,
    Chunk,
    Crc32,
    Digest,
)
from airflow_kafka_hdfs.ports.schemas import Codecs, Compressor, StreamCompressor
from airflow_kafka_hdfs.ports.store import StagedWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What a closed file is.

    Attributes:
        size: bytes.
        digest: `crc32:hex` of all of them.
        records_out: outputs in it.
    """

    size: int
    digest: str
    records_out: int


class Sink(Protocol):
    """A file that takes outputs; an error of the store leaves it of no use."""

    @property
    def size(self) -> int:
        """Bytes written; what still waits in the open block is not among them."""

    @property
    def fill(self) -> int:
        """Bytes that wait in the open block."""

    @property
    def held(self) -> int:
        """Bytes of whole blocks that wait in memory, and that `flush` writes."""
        return 0

    def flush(self) -> None:
        """Write the whole blocks that wait, to free their memory. Raises as `append`."""
        return

    def bound(self, more: int) -> int:
        """Size that the file has at most after so many more bytes of outputs, but for the fixed parts of a block."""
        return self.size + (self.fill + more) * 5 // 4

    def append(self, data: bytes, count: int = 1) -> bool:
        """Add whole outputs, which must not go on after the one that brings the block to its limit.

        Returns:
            Whether a block was completed: the moment to look at the file's size, and at what it holds.

        Raises:
            StoreUnavailableError, StoreRefusedError: from the store.
        """

    def close(self) -> Closed:
        """Write the open block and finish the file. Raises as `append`; the file must not be listed then."""

    def abort(self) -> None:
        """Give the file up; never raises."""


class AvroSink(Sink):
    """An Avro container file.

    Args:
        out: an open new file.
        schema: as JSON text.
        compressor: of its blocks.
        sync: sync marker.
        metadata: of its header.
        block_bytes: bytes that complete a block.
        digest: a fresh one, CRC-32 by zlib if none is given.
    """

    def __init__(
        self,
        out: StagedWriter,
        *,
        schema: str,
        compressor: Compressor,
        sync: bytes,
        metadata: Mapping[str, str],
        block_bytes: int = BLOCK_BYTES,
        digest: Digest | None = None,
    ) -> None:
        self._buffer = BlockBuilder(block_bytes)
        self._writer = AvroContainerWriter(
            out,
            schema=schema,
            compressor=compressor,
            sync=sync,
            metadata=metadata,
            digest=digest,
        )

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._writer.size

    @property
    def fill(self) -> int:
        """Bytes that wait."""
        return self._buffer.fill

    def append(self, data: bytes, count: int = 1) -> bool:
        """Add datums, laid end to end."""
        block = self._buffer.add(data, count)
        if block is None:
            return False
        self._writer.write(block)
        return True

    def close(self) -> Closed:
        """Finish the file."""
        block = self._buffer.take()
        if block is not None:
            self._writer.write(block)
        digest = self._writer.close()
        return Closed(size=self._writer.size, digest=digest, records_out=self._writer.records)

    def abort(self) -> None:
        """Give the file up."""
        self._writer.abort()


class StreamSink(Sink):
    """A file of lines or frames, compressed block by block.

    Each block is a gzip member or zstandard frame of its own; laid end to end they are one valid file. A compressor
    that lived as long as its file would hold hundreds of kilobytes for each of 200 open files.

    Args:
        out: an open new file.
        compressor: makes the compressor of a block.
        block_bytes: bytes that complete a block.
        digest: a fresh one, CRC-32 by zlib if none is given.
    """

    def __init__(
        self,
        out: StagedWriter,
        compressor: Callable[[], StreamCompressor],
        block_bytes: int = BLOCK_BYTES,
        digest: Digest | None = None,
    ) -> None:
        self._out = out
        self._compressor = compressor
        self._buffer = BlockBuilder(block_bytes)
        self._digest: Digest = digest or Crc32()
        self._size = self._records = 0

    @property
    def size(self) -> int:
        """Bytes written."""
        return self._size

    @property
    def fill(self) -> int:
        """Bytes that wait."""
        return self._buffer.fill

    def append(self, data: bytes, count: int = 1) -> bool:
        """Add lines or frames, laid end to end."""
        block = self._buffer.add(data, count)
        if block is None:
            return False
        self._write(block)
        return True

    def close(self) -> Closed:
        """Finish the file."""
        block = self._buffer.take()
        if block is not None:
            self._write(block)
        self._out.close()
        return Closed(
            size=self._size, digest=f"{self._digest.name}:{self._digest.hexdigest()}", records_out=self._records
        )

    def abort(self) -> None:
        """Give the file up."""
        self._out.abort()

    def _write(self, block: Chunk) -> None:
        data, count = block
        compressor = self._compressor()
        packed = compressor.compress(data) + compressor.finish()
        self._out.write(packed)
        self._digest.update(packed)
        self._size += len(packed)
        self._records += count


class SharedCompressor(Compressor):
    """One compressor for all files of a task, also where they are closed side by side: its state is large.

    Args:
        compressor: not to be used by anybody else.
    """

    def __init__(self, compressor: Compressor) -> None:
        self.name = compressor.name
        self._compressor = compressor
        self._lock = threading.Lock()

    def compress(self, block: bytes) -> bytes:
        """The block as it stands in a container."""
        with self._lock:
            return self._compressor.compress(block)


EXTENSIONS: Mapping[str, str] = {
    "avro": ".avro",
    "parquet": ".parquet",
    "jsonl": ".jsonl",
    "newline": ".txt",
    "length": ".bin",
}
"""What names of data files end in, by format, and by framing for raw ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAs:
    """What a sink is opened with.

    Attributes:
        schema: JSON text for Avro and Parquet, None for the others.
        sync: sync marker from the file's name.
        metadata: of the header.
    """

    schema: str | None
    sync: bytes
    metadata: Mapping[str, str]


class SinkFactory(Protocol):
    """Makes the files of one topic.

    Attributes:
        extension: of their names.
    """

    extension: str

    def open(self, out: StagedWriter, how: OpenAs) -> Sink:
        """A sink that writes to an open new file."""


class AvroSinks(SinkFactory):
    """Avro container files.

    Args:
        codecs: where the compressor comes from.
        codec: its name.
    """

    extension = EXTENSIONS["avro"]

    def __init__(self, codecs: Codecs, codec: str) -> None:
        self._compressor = SharedCompressor(codecs.block(codec))
        self._crc32 = codecs.crc32

    def open(self, out: StagedWriter, how: OpenAs) -> Sink:
        """See `SinkFactory.open`. Raises ValueError without a schema."""
        if how.schema is None:
            raise ValueError("an Avro file needs a schema")
        return AvroSink(
            out,
            schema=how.schema,
            compressor=self._compressor,
            sync=how.sync,
            metadata=how.metadata,
            digest=Crc32(self._crc32),
        )


class StreamSinks(SinkFactory):
    """Files of lines or frames.

    Args:
        codecs: where compressors come from.
        codec: their name.
        extension: without that of the codec.
    """

    def __init__(self, codecs: Codecs, codec: str, extension: str) -> None:
        self.extension = extension + codecs.stream(codec).suffix
        self._codecs = codecs
        self._codec = codec

    def open(self, out: StagedWriter, how: OpenAs) -> Sink:
        """See `SinkFactory.open`."""
        return StreamSink(out, lambda: self._codecs.stream(self._codec), digest=Crc32(self._codecs.crc32))
