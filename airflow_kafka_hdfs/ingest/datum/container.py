"""Avro object container files built from datums that are encoded already.

A file is a header (magic, metadata map, sync marker) and blocks (count, size, data, sync marker), as the Avro
specification has it. Nothing here knows a schema's meaning: a datum goes into a block byte for byte. Where a block
ends depends on the datums alone, never on the batches in which they came, so that every tier of the fast path and
every retry of a plan writes the same bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from airflow_kafka_hdfs.ports.schemas import Compressor
from airflow_kafka_hdfs.ports.store import StagedWriter

MAGIC = b"Obj\x01"
SYNC_SIZE = 16
BLOCK_BYTES = 60 * 1024
"""A block is complete with the datum that brings it to this size: blocks of small datums stay below 64 KiB."""

_MOST_PARTS = 64
"""Parts of an open block; more are laid into one, since small objects take more memory than what is in them."""

Chunk = tuple[bytes, int]
"""Datums laid end to end, and how many they are."""


def encode_long(number: int) -> bytes:
    """Avro's zigzag variable-length coding of a signed 64-bit number."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_bytes(data: bytes) -> bytes:
    """Avro's `bytes` and `string`: length, then content."""
    return encode_long(len(data)) + data


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and where it ends. Raises IndexError at the end of the data, ValueError if it is too long."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError(f"no number at byte {at}")


def read_header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Entries of a container's header, and where its first block begins, behind the sync marker.

    Args:
        data: the file, or so much of its beginning that the header is in it.

    Raises:
        ValueError, IndexError: no container of ours, or its header goes on beyond the data.
    """
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin as an Avro container does")
    entries: dict[str, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = read_long(data, at)
        if not count:
            break
        if not 0 < count <= len(data):  # ours writes no sizes of map blocks, so counts are positive
            raise ValueError(f"no header entries at byte {at}")
        for _ in range(count):
            pair = []
            for _ in range(2):
                size, at = read_long(data, at)
                if size < 0 or at + size > len(data):
                    raise ValueError("its header breaks off")
                pair.append(data[at : at + size])
                at += size
            entries[pair[0].decode()] = pair[1]
    if at + SYNC_SIZE > len(data):
        raise ValueError("its header breaks off")
    return entries, at + SYNC_SIZE


def sync_marker(stem: str) -> bytes:
    """Sync marker of a file.

    Args:
        stem: the file's name before the bracket of offsets and the extension, `<topic>+<plan>+<task>+<i>`.

    Returns:
        The first 16 bytes of the SHA-256 of the name, so that a file depends on its plan alone.
    """
    return hashlib.sha256(stem.encode()).digest()[:SYNC_SIZE]


def header(schema: str, codec: str, metadata: Mapping[str, str | bytes], sync: bytes) -> bytes:
    """Header of a container file.

    Args:
        schema: writer schema as JSON text, written as it is.
        codec: name for `avro.codec`.
        metadata: further entries in their order; keys that start with `avro.` belong to the format.
        sync: 16 bytes.

    Raises:
        ValueError: the sync marker has another size, or a key is one of the format's.
    """
    if len(sync) != SYNC_SIZE:
        raise ValueError(f"sync marker: got {len(sync)} bytes; an Avro container has {SYNC_SIZE}")
    reserved = [key for key in metadata if key.startswith("avro.")]
    if reserved:
        raise ValueError(f"metadata keys {reserved} are reserved by the Avro format; use a prefix of your own")
    entries: dict[str, str | bytes] = {"avro.schema": schema, "avro.codec": codec, **metadata}
    parts = [MAGIC, encode_long(len(entries))]
    for key, value in entries.items():
        parts.append(encode_bytes(key.encode()))
        parts.append(encode_bytes(value.encode() if isinstance(value, str) else value))
    return b"".join((*parts, b"\x00", sync))


class Digest(Protocol):
    """A running digest; the objects of `hashlib` are such."""

    @property
    def name(self) -> str:
        """Algorithm, as written before the colon."""

    def update(self, data: bytes, /) -> None:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """The digest so far."""


class Crc32:
    """CRC-32 (ISO 3309): as cheap as a copy, and made for what it is here for, damage on the way.

    Args:
        function: `crc32(data, value) -> value`; a faster one than zlib's may be handed in.
    """

    name = "crc32"

    def __init__(self, function: Callable[[bytes, int], int] = zlib.crc32) -> None:
        self._function = function
        self._value = 0

    def update(self, data: bytes, /) -> None:
        """Take more bytes."""
        self._value = self._function(data, self._value)

    def hexdigest(self) -> str:
        """Eight hex digits."""
        return f"{self._value:08x}"


class BlockBuilder:
    """The open block of a file: collects datums and hands out complete blocks, not yet compressed.

    Args:
        limit: bytes that complete a block.

    Attributes:
        fill: bytes in the open block, less than `limit`: what the next chunk has to know, see `add`.
        count: datums in it.
    """

    __slots__ = ("_parts", "count", "fill", "limit")

    def __init__(self, limit: int = BLOCK_BYTES) -> None:
        if limit < 1:
            raise ValueError(f"limit: got {limit}; a block needs at least 1 byte")
        self.limit = limit
        self.fill = self.count = 0
        self._parts: list[bytes] = []

    def add(self, data: bytes, count: int = 1) -> Chunk | None:
        """Add a chunk; it must not go on after the datum that brings the block to its limit.

        Args:
            data: whole datums, end to end.
            count: how many.

        Returns:
            The block if it is complete now.
        """
        self._parts.append(data)
        self.fill += len(data)
        self.count += count
        if self.fill >= self.limit:
            return self.take()
        if len(self._parts) >= _MOST_PARTS:
            self._parts = [b"".join(self._parts)]
        return None

    def take(self) -> Chunk | None:
        """The open block as it is, None if it holds no datum."""
        if not self.count:
            return None
        block = (self._parts[0] if len(self._parts) == 1 else b"".join(self._parts), self.count)
        self._parts = []
        self.fill = self.count = 0
        return block


class AvroContainerWriter:
    """One Avro container file being written through a store's staged writer.

    The header is written at once. An error of the store leaves the file of no use: call `abort`.

    Args:
        out: an open new file.
        schema: schema of the file as JSON text.
        compressor: codec of the blocks.
        sync: sync marker, see `sync_marker`.
        metadata: further header entries.
        digest: a fresh running digest, CRC-32 by default.

    Attributes:
        size: bytes written so far.
        records: datums in them.
    """

    def __init__(
        self,
        out: StagedWriter,
        *,
        schema: str,
        compressor: Compressor,
        sync: bytes,
        metadata: Mapping[str, str | bytes] | None = None,
        digest: Digest | None = None,
    ) -> None:
        self._out = out
        self._compressor = compressor
        self._sync = sync
        self._digest: Digest = digest or Crc32()
        self._behind = b""  # the sync marker of a block is written with the head of the next: half the calls
        self.size = self.records = 0
        self._write(header(schema, compressor.name, metadata or {}, sync))

    def write(self, block: Chunk) -> None:
        """Write one block.

        Args:
            block: from a `BlockBuilder`.

        Raises:
            StoreUnavailableError: transient, the file is of no use any more.
            StoreRefusedError: permission, quota, no space.
        """
        data, count = block
        packed = self._compressor.compress(data)
        # In pieces: laying them together would copy the block once more, and stores buffer what is small.
        self._write(self._behind + encode_long(count) + encode_long(len(packed)))
        self._write(packed)
        self._behind = self._sync
        self.records += count

    def close(self) -> str:
        """Finish the file. Raises as `write`; the file must not be listed then.

        Returns:
            `algorithm:hex` over all bytes.
        """
        self._write(self._behind)
        self._out.close()
        return f"{self._digest.name}:{self._digest.hexdigest()}"

    def abort(self) -> None:
        """Give the file up; never raises."""
        self._out.abort()

    def _write(self, data: bytes) -> None:
        if data:
            self._out.write(data)
            self._digest.update(data)
            self.size += len(data)
