"""What data files tell of themselves: the header of an Avro container, the footer of a Parquet file.

Both hold the same keys (`outfitting.file_facts`), known when the file was opened. How many rows there are a Parquet
footer tells too; of a container it is known once all of its blocks were looked at.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_hdfs.exceptions import CorruptStateError
from airflow_kafka_hdfs.ingest.datum.container import MAGIC, SYNC_SIZE, read_header, read_long
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import PartitionKey
from airflow_kafka_hdfs.model import FileStatus
from airflow_kafka_hdfs.ports.store import Store
from airflow_kafka_hdfs.ports.tables import FooterReader

PREFIX = "kafka_hdfs."
_FIRST_PART = 64 << 10
_PART = 8 << 20
_NUMBERS = 20
"""Bytes of the two numbers in front of a block, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSays:
    """What a file tells of itself.

    Attributes:
        index: number of the file in its task.
        ranges: what its unit was to read.
        schema: label of its schema, None for formats without one.
        rows: outputs in it, None where only a reading of the whole file would tell.
    """

    pipeline: str
    plan: str
    task: int
    index: int
    topic: str
    ranges: Mapping[PartitionKey, Ranges]
    schema: str | None
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a reading of all bytes of a file tells.

    Attributes:
        digest: as in `FileEntry`.
        rows: datums of a container, None for other formats.
    """

    digest: str
    rows: int | None


def read_facts(store: Store, file: FileStatus, footers: FooterReader) -> FileSays | None:
    """What a file tells, None if it is of a format that tells nothing (JSON lines, raw).

    Args:
        store: where it is.
        file: with its path and size.
        footers: of Parquet files.

    Raises:
        CorruptStateError: it is damaged, or no file of ours.
    """
    name = FileName.parse(file.name)
    extension = "" if name is None else name.extension
    rows = None
    try:
        if extension == ".avro":
            found: Mapping[str, str] = _avro_metadata(store, file)
        elif extension == ".parquet":
            found, rows = footers(file.path, file.size, lambda start, size: _part(store, file, start, size))
        else:
            return None
        return _says(found, rows)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        told = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise CorruptStateError(file.path, f"its header is none of ours: {told}") from error


def measure(store: Store, file: FileStatus) -> Measured:
    """Read all of a file, a part at a time.

    Raises:
        CorruptStateError: a container whose blocks do not follow each other to its end, or a file that is gone.
    """
    is_avro = file.name.endswith(".avro")
    crc = rows = 0
    try:
        at = _avro_start(store, file) if is_avro else file.size
        window, base = b"", 0
        for start in range(0, file.size, _PART):
            part = _part(store, file, start, _PART)
            crc = zlib.crc32(part, crc)
            window, base = window + part, start - len(window)
            end = base + len(window)
            while at < file.size and (at + _NUMBERS <= end or end == file.size):
                count, place = read_long(window, at - base)
                size, place = read_long(window, place)
                if count <= 0 or size < 0:
                    raise ValueError(f"no block at byte {at}")
                rows, at = rows + count, base + place + size + SYNC_SIZE
            window = window[max(at - base, 0) :] if at < end else b""
        if at != file.size:
            raise ValueError(f"its last block ends at byte {at} of {file.size}")
    except (ValueError, IndexError) as error:
        raise CorruptStateError(file.path, f"no whole Avro container: {error}") from error
    return Measured(digest=f"crc32:{crc:08x}", rows=rows if is_avro else None)


def _part(store: Store, file: FileStatus, start: int, size: int) -> bytes:
    data = store.get_part(file.path, start, size)
    if data is None or len(data) < min(size, file.size - start):
        raise CorruptStateError(file.path, f"it does not hold its {file.size} bytes any more")
    return data


def _avro_head(store: Store, file: FileStatus) -> tuple[Mapping[str, bytes], int]:
    """Header entries and where the first block begins; most headers are short, so a small part is tried first."""
    size = _FIRST_PART
    while True:
        data = _part(store, file, 0, min(size, file.size))
        if data[: len(MAGIC)] != MAGIC:
            raise ValueError("it does not begin as an Avro container does")
        try:
            return read_header(data)
        except (ValueError, IndexError):
            if size >= file.size:
                raise
            size *= 8


def _avro_metadata(store: Store, file: FileStatus) -> dict[str, str]:
    entries, _ = _avro_head(store, file)
    return {key: value.decode() for key, value in entries.items() if key.startswith(PREFIX)}


def _avro_start(store: Store, file: FileStatus) -> int:
    return _avro_head(store, file)[1]


def _says(found: Mapping[str, str], rows: int | None) -> FileSays:
    own = {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}
    ranges: dict[str, Any] = json.loads(own["ranges"])

    def key_of(partition: str, generation: int) -> PartitionKey:
        return PartitionKey(
            topic=own["topic"],
            partition=int(partition),
            cluster_id=own["cluster_id"],
            topic_id=own["topic_id"],
            generation=generation,
        )

    return FileSays(
        pipeline=own["pipeline"],
        plan=own["plan"],
        task=int(own["task"]),
        index=int(own["index"]),
        topic=own["topic"],
        ranges={key_of(p, int(generation)): Ranges.of(spans) for p, (generation, spans) in ranges.items()},
        schema=own.get("schema"),
        rows=rows,
    )
