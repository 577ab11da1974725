from __future__ import annotations

import gzip
import io
import zlib

import fastavro
import pytest
import zstandard
from avro.datafile import DataFileReader
from avro.io import DatumReader
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters import codecs
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.exceptions import ConfigError

BLOCKS = st.binary(max_size=3_000) | st.binary(min_size=1, max_size=20).map(lambda part: part * 500)
SYNC = bytes(range(16))


def container(codec: str, blocks: list[bytes]) -> bytes:
    """An Avro file of `bytes` values, one block for each, written by hand with our compressor."""
    compressor = StandardCodecs().block(codec)

    def size(n: int) -> bytes:
        target = io.BytesIO()
        fastavro.schemaless_writer(target, "long", n)
        return target.getvalue()

    def item(data: bytes) -> bytes:
        return size(len(data)) + data

    header = size(2) + item(b"avro.schema") + item(b'"bytes"') + item(b"avro.codec") + item(codec.encode()) + size(0)
    body = b"".join(size(1) + item(compressor.compress(item(block))) + SYNC for block in blocks)
    return b"Obj\x01" + header + SYNC + body


@pytest.mark.parametrize("codec", ["null", "snappy", "deflate"])
@given(blocks=st.lists(BLOCKS, max_size=4))
def test_blocks_are_read_by_other_avro_libraries(codec: str, blocks: list[bytes]):
    data = container(codec, blocks)
    assert list(fastavro.reader(io.BytesIO(data))) == blocks
    if codec != "snappy":  # the official package wants another snappy library for it
        with DataFileReader(io.BytesIO(data), DatumReader()) as reader:
            assert list(reader) == blocks


@given(block=BLOCKS)
def test_zstandard_blocks_are_frames_that_tell_their_size(block: bytes):
    frame = StandardCodecs().block("zstandard").compress(block)
    assert zstandard.ZstdDecompressor().decompress(frame) == block
    assert zstandard.frame_content_size(frame) == len(block)


@given(block=BLOCKS)
def test_deflate_is_the_same_format_without_isal(block: bytes):
    data = StandardCodecs().block("deflate").compress(block)
    assert zlib.decompress(data, wbits=-15) == block


def test_deflate_falls_back_to_zlib_where_isal_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(codecs, "_deflater", zlib)
    block = b"some block " * 1_000
    assert zlib.decompress(StandardCodecs().block("deflate").compress(block), wbits=-15) == block
    stream = StandardCodecs().stream("gzip")
    assert gzip.decompress(stream.compress(block) + stream.finish()) == block


@given(pieces=st.lists(BLOCKS, max_size=4), start=st.integers(0, 2**32 - 1))
def test_the_check_sum_of_pieces_is_that_of_zlib_with_and_without_libdeflate(pieces: list[bytes], start: int):
    def summed() -> int:
        value = start
        for piece in pieces:
            value = StandardCodecs().crc32(piece, value)
        return value

    with pytest.MonkeyPatch.context() as patch:
        found = summed()
        patch.setattr(codecs, "_crc32", zlib.crc32)
        assert found == summed() == zlib.crc32(b"".join(pieces), start)


@given(block=BLOCKS)
def test_snappy_blocks_end_with_their_check_sum(block: bytes):
    assert StandardCodecs().block("snappy").compress(block)[-4:] == zlib.crc32(block).to_bytes(4, "big")


UNPACK = {
    "null": bytes,
    "gzip": gzip.decompress,
    "zstandard": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@pytest.mark.parametrize("codec", UNPACK)
@given(pieces=st.lists(BLOCKS, max_size=6))
def test_streams_are_whole_files_and_the_same_each_time(codec: str, pieces: list[bytes]):
    def packed() -> bytes:
        stream = StandardCodecs().stream(codec)
        return b"".join([*map(stream.compress, pieces), stream.finish()])

    assert UNPACK[codec](packed()) == b"".join(pieces)
    assert packed() == packed(), "no time, no name inside"


def test_streams_name_their_suffix():
    names = {name: StandardCodecs().stream(name).suffix for name in UNPACK}
    assert names == {"null": "", "gzip": ".gz", "zstandard": ".zst"}


def test_each_stream_is_a_new_file():
    made = StandardCodecs()
    assert made.stream("gzip") is not made.stream("gzip")


@pytest.mark.parametrize("name", ["gzip", "brotli", "", "Snappy"])
def test_other_block_codecs_are_refused(name: str):
    with pytest.raises(ConfigError, match=f"codec: got {name!r}; allowed: null, snappy, zstandard, deflate"):
        StandardCodecs().block(name)


@pytest.mark.parametrize("name", ["snappy", "deflate", ""])
def test_other_stream_codecs_are_refused(name: str):
    with pytest.raises(ConfigError, match=f"codec: got {name!r}; allowed: null, gzip, zstandard"):
        StandardCodecs().stream(name)
