"""Container files from ready-made datums: any Avro reader reads back what went in."""

import hashlib
import io
import json
import zlib
from typing import Any

import fastavro
import pytest
from avro.datafile import DataFileReader
from avro.io import DatumReader
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.datum.container import (
    BlockBuilder,
    Crc32,
    encode_long,
    header,
    sync_marker,
)
from airflow_kafka_hdfs.ingest.writers.sinks import AvroSink
from airflow_kafka_hdfs.ports.schemas import Compressor
from airflow_kafka_hdfs.ports.store import StagedWriter
from tests.unit.ingest.datum.avro_data import laws

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
    }
)
SYNC = sync_marker("events+20260101T000000Z-0123abcd+3+0")


class Memory(StagedWriter):
    """A staged file in memory that remembers how it ended."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.ended = ""

    def write(self, data: bytes) -> None:
        assert not self.ended
        self.parts.append(data)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    @property
    def content(self) -> bytes:
        return b"".join(self.parts)


class Plain:
    name = "null"

    def compress(self, block: bytes) -> bytes:
        return block


class Deflate:
    name = "deflate"

    def compress(self, block: bytes) -> bytes:
        return zlib.compress(block, 1, -15)


def datum(value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(SCHEMA), value)
    return out.getvalue()


def avro_file(out: Memory, compressor: Compressor | None = None, *, schema: str = SCHEMA, **more: Any) -> AvroSink:
    return AvroSink(out, schema=schema, compressor=compressor or Plain(), sync=SYNC, **{"metadata": {}, **more})


VALUES = [{"id": n, "text": f"row {n}" * (n % 7)} for n in range(2_000)]


@pytest.mark.parametrize("codec", [Plain(), Deflate()], ids=["null", "deflate"])
def test_fastavro_and_the_avro_library_read_back_what_was_appended(codec):
    out = Memory()
    writer = avro_file(out, codec, metadata={"kafka_hdfs.topic": "é"})
    for value in VALUES:
        writer.append(datum(value))
    summary = writer.close()
    assert out.ended == "closed"
    reader = fastavro.reader(io.BytesIO(out.content))
    assert list(reader) == VALUES
    assert reader.metadata["kafka_hdfs.topic"] == "é"
    assert list(DataFileReader(io.BytesIO(out.content), DatumReader())) == VALUES
    assert (summary.records_out, summary.size) == (2_000, len(out.content))
    assert summary.digest == f"crc32:{zlib.crc32(out.content):08x}"


def test_a_file_without_datums_is_a_valid_file():
    out = Memory()
    writer = avro_file(out)
    summary = writer.close()
    assert list(fastavro.reader(io.BytesIO(out.content))) == []
    assert (summary.records_out, summary.size) == (0, len(out.content))


def test_blocks_end_with_the_datum_that_reaches_the_limit():
    out = Memory()
    writer = avro_file(out, block_bytes=100)
    for value in VALUES[:50]:
        writer.append(datum(value))
    writer.close()
    blocks = list(fastavro.block_reader(io.BytesIO(out.content)))
    sizes = [len(b"".join(map(datum, block))) for block in blocks]
    lasts = [len(datum(list(block)[-1])) for block in fastavro.block_reader(io.BytesIO(out.content))]
    assert all(size >= 100 > size - last for size, last in zip(sizes[:-1], lasts[:-1], strict=True))


def cut(data: list[bytes], limit: int, fill: int) -> list[tuple[bytes, int]]:
    """Chunks of a batch by the rule of `BlockBuilder.add`."""
    chunks, part = [], []
    for item in data:
        part.append(item)
        if fill + sum(map(len, part)) >= limit:
            chunks.append((b"".join(part), len(part)))
            part, fill = [], 0
    return [*chunks, (b"".join(part), len(part))] if part else chunks


@laws
@given(st.lists(st.binary(max_size=40), max_size=60), st.lists(st.integers(0, 60), max_size=5), st.integers(1, 90))
def test_how_datums_come_in_batches_leaves_no_trace_in_the_file(data, cuts, limit):
    def write(batches: list[list[bytes]]) -> bytes:
        out = Memory()
        writer = avro_file(out, schema='"bytes"', block_bytes=limit)
        for batch in batches:
            for chunk, count in cut(batch, limit, writer.fill):
                writer.append(chunk, count)
        assert writer.close().records_out == len(data)
        return out.content

    marks = [0, *sorted(cuts), len(data)]
    batches = [data[a:b] for a, b in zip(marks, marks[1:], strict=False)]
    assert write(batches) == write([data]) == write([[item] for item in data])


@laws
@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_are_coded_as_fastavro_codes_them(number):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    assert encode_long(number) == out.getvalue()


def test_the_sync_marker_is_a_function_of_the_name_alone():
    assert hashlib.sha256(b"events+20260101T000000Z-0123abcd+3+0").digest().startswith(SYNC)
    assert len(SYNC) == 16


def test_a_digest_of_hashlib_may_take_the_place_of_the_checksum():
    out = Memory()
    writer = avro_file(out, digest=hashlib.sha256())
    writer.append(datum(VALUES[1]))
    assert writer.close().digest == f"sha256:{hashlib.sha256(out.content).hexdigest()}"


def test_giving_up_a_file_aborts_the_staged_writer():
    out = Memory()
    avro_file(out, digest=Crc32()).abort()
    assert out.ended == "aborted"


def test_what_would_make_an_unreadable_header_is_refused():
    with pytest.raises(ValueError, match="got 3 bytes"):
        header(SCHEMA, "null", {}, b"abc")
    with pytest.raises(ValueError, match=r"avro\.codec"):
        header(SCHEMA, "null", {"avro.codec": "deflate"}, SYNC)
    with pytest.raises(ValueError, match="limit: got 0"):
        BlockBuilder(0)
