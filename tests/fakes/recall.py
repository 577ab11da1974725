"""Records of the log decoded once: simulated processes read the same bytes thousands of times."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from airflow_kafka_hdfs.ingest import wire

T = TypeVar("T")

PROOF = 8
"""Of so many records that are written, one is decoded at once, and must be what was written."""


@contextmanager
def remembered_records(most: int = 20_000) -> Iterator[None]:
    """Within, `wire.decode` gives the same frozen record for the same bytes; errors are found anew.

    What `wire.encode` wrote is remembered too, as it was written: that both are inverse is a law with tests of its own.

    Args:
        most: records remembered; then all are forgotten.
    """
    encode, decode = wire.encode, wire.decode
    known: dict[tuple[str, bytes], Any] = {}

    def remember(kind: str, data: bytes, record: T) -> T:
        if len(known) >= most:
            known.clear()
        known[kind, data] = record
        return record

    def encode_and_remember(kind: str, record: object) -> bytes:
        data = encode(kind, record)
        if zlib.crc32(data) % PROOF == 0 and decode("just written", kind, type(record), data) != record:
            raise AssertionError(f"a {kind} is read as another than was written: {record}")
        remember(kind, data, record)
        return data

    def recall(path: str, kind: str, cls: type[T], data: bytes) -> T:
        found = known.get((kind, data))
        return found if type(found) is cls else remember(kind, data, decode(path, kind, cls, data))

    with mock.patch.object(wire, "encode", encode_and_remember), mock.patch.object(wire, "decode", recall):
        yield
