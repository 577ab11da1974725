"""Reading the quarantine back: what its files hold, and which of it still waits to be replayed.

A record waits until a replay has taken it, or until a later replace has read its offset again: then whatever became of
it stands in the files of that replace, or in the quarantine once more.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_kafka_hdfs.exceptions import CorruptStateError, DecodeError
from airflow_kafka_hdfs.ingest.datum.container import SYNC_SIZE, encode_long, read_header, read_long
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.quarantine import QUARANTINE_SCHEMA
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, FileEntry, Kind, PartitionKey, Replayed
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType
from airflow_kafka_hdfs.ports.schemas import AvroCodec
from airflow_kafka_hdfs.ports.store import Store

_ENTRIES = json.dumps({"type": "array", "items": json.loads(QUARANTINE_SCHEMA)})
"""The records of a block laid end to end are an Avro array without its count and its end."""


class Fate(StrEnum):
    """What became of a quarantined record."""

    WAITING = "waiting"
    REPLAYED = "replayed"
    REPLACED = "replaced"
    """A later replace has read its offset again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineFile:
    """One quarantine file and what the log says of its records.

    Attributes:
        commit: number of the commit that lists it.
        keys: partition -> identity under which its offsets are covered.
        replayed: (partition, offset) of records that replays took.
        replaced: partition -> offsets that later replaces read again.
    """

    commit: int
    entry: FileEntry
    keys: Mapping[int, PartitionKey]
    replayed: frozenset[tuple[int, int]]
    replaced: Mapping[int, Ranges]

    def fate(self, partition: int, offset: int) -> Fate:
        """What became of one of its records."""
        if (partition, offset) in self.replayed:
            return Fate.REPLAYED
        return Fate.REPLACED if Ranges.span(offset, offset + 1) & self.replaced[partition] else Fate.WAITING

    @property
    def waits(self) -> bool:
        """Whether it may hold a record that waits; known without opening it."""
        rest = self.entry.records - len(self.replayed)
        return rest > 0 and any(
            Ranges.span(first, last + 1) - self.replaced[partition]
            for partition, (first, last, _) in self.entry.offsets.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """One quarantined record.

    Attributes:
        path: of its file.
        key: identity of its partition.
        record: as Kafka brought it.
        schema_id: in front of its datum, where the value has one.
        reason, detail: why it was bad.
    """

    path: str
    key: PartitionKey
    record: ConsumerRecord
    schema_id: str | None
    reason: str
    detail: str
    fate: Fate

    @property
    def name(self) -> Replayed:
        """As the log names it."""
        return Replayed(path=self.path, partition=self.record.partition, offset=self.record.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which quarantined records are meant; what is None chooses all.

    Attributes:
        topic: of this topic.
        path: in this file.
        reason: bad for this reason.
    """

    topic: str | None = None
    path: str | None = None
    reason: str | None = None

    def takes_file(self, entry: FileEntry) -> bool:
        """Whether a file may hold some."""
        return self.topic in (None, entry.topic) and self.path in (None, entry.path)


def quarantine_files(view: LogView, choice: Choice | None = None) -> list[QuarantineFile]:
    """The quarantine files that the log lists, oldest first.

    Args:
        view: the log with every record (`since=-1`).
        choice: which of them; all by default.
    """
    choice = choice or Choice()
    commits = [commit for _, commit in sorted(view.records.items())]
    replayed: dict[str, set[tuple[int, int]]] = {}
    for item in view.state.replayed:
        replayed.setdefault(item.path, set()).add((item.partition, item.offset))
    return [
        QuarantineFile(
            commit=commit.number,
            entry=entry,
            keys={p: _key(commit, entry, p) for p in entry.offsets},
            replayed=frozenset(replayed.get(entry.path, ())),
            replaced={p: _replaced(commits, commit.number, entry, p) for p in entry.offsets},
        )
        for commit in commits
        for entry in commit.files
        if entry.quarantine and choice.takes_file(entry)
    ]


def bad_records(store: Store, codec: AvroCodec, file: QuarantineFile, choice: Choice | None = None) -> list[BadRecord]:
    """The records of a quarantine file, in the order in which they were kept.

    Args:
        store: the destination.
        codec: decodes the entries.
        file: which one.
        choice: which of its records; all by default.

    Raises:
        CorruptStateError: the file is gone, or its content is not what was written.
        StoreUnavailableError, StoreRefusedError: from the store.
    """
    path = file.entry.path
    # It may still be staged, and may be brought into place between the two looks.
    data = next((got for place in (path, file.entry.staged, path) if (got := store.get(place)) is not None), None)
    if data is None:
        raise CorruptStateError(path, f"commit {file.commit} lists this quarantine file, but it is gone")
    wanted = None if choice is None else choice.reason
    found = []
    for item in _items(path, data, codec):
        if wanted not in (None, item["reason"]):
            continue
        partition, offset = item["partition"], item["offset"]
        if partition not in file.keys:
            raise CorruptStateError(path, f"holds a record of partition {partition}, which its commit does not name")
        found.append(
            BadRecord(
                path=path,
                key=file.keys[partition],
                record=ConsumerRecord(
                    topic=item["topic"],
                    partition=partition,
                    offset=offset,
                    timestamp=item["timestamp"],
                    timestamp_type=TimestampType(item["timestamp_type"]),
                    key=item["key"],
                    value=item["value"],
                    headers=tuple((header["key"], header["value"]) for header in item["headers"]),
                ),
                schema_id=item["schema_id"],
                reason=item["reason"],
                detail=item["detail"],
                fate=file.fate(partition, offset),
            )
        )
    return found


def _key(commit: Commit, entry: FileEntry, partition: int) -> PartitionKey:
    for change in commit.changes:
        key = change.key
        if (key.topic, key.topic_id, key.partition) == (entry.topic, entry.topic_id, partition):
            return key
    raise CorruptStateError(
        entry.path, f"commit {commit.number} lists it, but changes nothing of partition {partition}"
    )


def _replaced(commits: list[Commit], after: int, entry: FileEntry, partition: int) -> Ranges:
    """Offsets that later replaces covered, under whatever cluster id and generation: never twice comes first."""
    found = Ranges()
    wanted = (entry.topic, entry.topic_id, partition)
    for commit in commits:
        if commit.number > after and commit.kind is Kind.REPLACE:
            for change in commit.changes:
                if (change.key.topic, change.key.topic_id, change.key.partition) == wanted:
                    found = found | change.covered
    return found


def _items(path: str, data: bytes, codec: AvroCodec) -> Iterator[Mapping[str, Any]]:
    """The entries of a container file of ours; `deflate` is the only codec that quarantine files have."""
    try:
        _, at = read_header(data)
        sync = data[at - SYNC_SIZE : at]
        while at < len(data):
            count, at = read_long(data, at)
            size, at = read_long(data, at)
            end = at + size
            if count <= 0 or size < 0 or data[end : end + SYNC_SIZE] != sync:
                raise ValueError(f"no block at byte {at}")
            block = zlib.decompress(data[at:end], wbits=-15)
            yield from codec.decode(_ENTRIES, encode_long(count) + block + b"\x00")
            at = end + SYNC_SIZE
    except (ValueError, IndexError, zlib.error, DecodeError) as error:
        raise CorruptStateError(path, f"no whole quarantine file: {error}") from error
