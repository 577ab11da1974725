"""Compression of Avro blocks and of whole files.

Levels are chosen for throughput: ISA-L makes deflate 5 to 10 times cheaper than zlib's default at the same ratio, and
zstandard 1 gives most of what higher levels do. Check sums come from libdeflate, which takes half the time of ISA-L's
where the processor multiplies wide vectors. Output depends on the input alone, so that a repeated attempt writes the
same bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import cramjam
import zstandard

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ports.schemas import Codecs, Compressor, StreamCompressor
from airflow_kafka_hdfs.ports.tables import TableFormat

_deflater: Any
try:
    from isal import isal_zlib as _deflater
except ImportError:  # no wheels for this platform; the format is the same
    _deflater = zlib

_crc32: Callable[[bytes, int], int]
try:
    from deflate import crc32 as _crc32
except ImportError:
    _crc32 = zlib.crc32

_DEFLATE_LEVEL = 1
_ZSTANDARD_LEVEL = 1
_RAW, _GZIP = -15, 31  # zlib's window bits: without any header, with gzip's (its time stamp is 0)


class NullCompressor(Compressor):
    """Blocks as they are."""

    name = "null"

    def compress(self, block: bytes) -> bytes:
        """The block itself."""
        return block


class SnappyCompressor(Compressor):
    """Snappy's block format with the CRC-32 of the uncompressed data behind it, as Avro wants it."""

    name = "snappy"

    def compress(self, block: bytes) -> bytes:
        """The compressed block and four bytes of check sum, big-endian."""
        return bytes(cramjam.snappy.compress_raw(block)) + struct.pack(">I", _crc32(block, 0))


class ZstandardCompressor(Compressor):
    """One zstandard frame per block."""

    name = "zstandard"

    def __init__(self, level: int = _ZSTANDARD_LEVEL) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)

    def compress(self, block: bytes) -> bytes:
        """A frame that tells its content size."""
        return self._compressor.compress(block)


class DeflateCompressor(Compressor):
    """Deflate without zlib's header, as Avro wants it."""

    name = "deflate"

    def compress(self, block: bytes) -> bytes:
        """A raw deflate stream."""
        maker = _deflater.compressobj(_DEFLATE_LEVEL, _deflater.DEFLATED, _RAW)
        return bytes(maker.compress(block) + maker.flush())


class NullStream(StreamCompressor):
    """A file as it is."""

    name, suffix = "null", ""

    def compress(self, data: bytes) -> bytes:
        """The data themselves."""
        return data

    def finish(self) -> bytes:
        """Nothing."""
        return b""


class GzipStream(StreamCompressor):
    """One gzip member without name and time."""

    name, suffix = "gzip", ".gz"

    def __init__(self) -> None:
        self._maker = _deflater.compressobj(_DEFLATE_LEVEL, _deflater.DEFLATED, _GZIP)

    def compress(self, data: bytes) -> bytes:
        """What has left the compressor's window."""
        return bytes(self._maker.compress(data))

    def finish(self) -> bytes:
        """The rest, with check sum and size."""
        return bytes(self._maker.flush())


class ZstandardStream(StreamCompressor):
    """One zstandard frame with a check sum of its content."""

    name, suffix = "zstandard", ".zst"

    def __init__(self, level: int = _ZSTANDARD_LEVEL) -> None:
        self._maker = zstandard.ZstdCompressor(level=level, write_checksum=True).compressobj()

    def compress(self, data: bytes) -> bytes:
        """Whole zstandard blocks, as they become full."""
        return self._maker.compress(data)

    def finish(self) -> bytes:
        """The rest, with the check sum."""
        return self._maker.flush()


_BLOCK: dict[str, Callable[[], Compressor]] = {
    maker.name: maker for maker in (NullCompressor, SnappyCompressor, ZstandardCompressor, DeflateCompressor)
}
_STREAM: dict[str, Callable[[], StreamCompressor]] = {
    maker.name: maker for maker in (NullStream, GzipStream, ZstandardStream)
}


def require_parquet() -> None:
    """Raise ConfigError if what Parquet files need is not installed; looks only, since loading it takes a second."""
    missing = [name for name in ("polars", "pyarrow") if find_spec(name) is None]
    if missing:
        hint = f"{' and '.join(missing)} not found: pip install 'airflow-provider-kafka-hdfs[parquet]'"
        raise ConfigError("file_format", "parquet", ("avro", "jsonl", "raw"), hint)


class StandardCodecs(Codecs):
    """All codecs of this package."""

    def block(self, name: str) -> Compressor:
        """A new compressor of Avro blocks. Raises ConfigError for other names."""
        maker = _BLOCK.get(name)
        if maker is None:
            raise ConfigError("codec", name, _BLOCK, "These are the codecs of Avro files.")
        return maker()

    def stream(self, name: str) -> StreamCompressor:
        """A new compressor for one file. Raises ConfigError for other names."""
        maker = _STREAM.get(name)
        if maker is None:
            raise ConfigError("codec", name, _STREAM, "These are the codecs of jsonl and raw files.")
        return maker()

    def crc32(self, data: bytes, value: int, /) -> int:
        """By libdeflate where it is there: cheaper than a copy, a fraction of the cost of SHA-256."""
        return _crc32(data, value)

    def table(self, name: str) -> TableFormat:
        """Parquet files of a codec. Raises ConfigError for other names, or without the extra `parquet`."""
        require_parquet()
        from airflow_kafka_hdfs.adapters.parquet import ParquetFormat

        return ParquetFormat(name)
