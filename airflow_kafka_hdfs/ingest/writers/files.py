"""The open files of a task: one per topic, folder and schema, bounded in number; what they held when they are closed.

When one more file would be too many, the one that was written to least lately is closed: it is a finished file, and
further records of its folder begin another one. Nothing is ever dropped. An error while writing or closing fails the
attempt: a file of which it is not known that it is whole must not stand in a manifest.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_kafka_hdfs.exceptions import CorruptStateError
from airflow_kafka_hdfs.ingest.datum.container import BLOCK_BYTES, Chunk
from airflow_kafka_hdfs.ingest.datum.packing import Span as GroupSpan
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.placing import Place
from airflow_kafka_hdfs.ingest.records import FileEntry
from airflow_kafka_hdfs.ingest.writer_schemas import FileSchema
from airflow_kafka_hdfs.ingest.writers.sinks import Closed, OpenAs, Sink, SinkFactory
from airflow_kafka_hdfs.model import Modes
from airflow_kafka_hdfs.ports.runtime import Workers
from airflow_kafka_hdfs.ports.store import Store

MAX_OPEN_FILES = 256
"""Files of one task that may be open at once. Each holds at most a block of 60 KiB: 16 MB together."""

MAX_HELD_BYTES = 32 << 20
"""What open files of columns of one task may hold together; over it, the one that holds most writes its rows."""

_MAX_NAME_BYTES = 255
_HEADER_BYTES = 4_096
"""More than the fixed parts of a file's header and of a block take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What is known of a topic's files before they are opened.

    Attributes:
        metadata: header entries that all of them share.
        max_bytes: a file is closed at the end of the block that brings it to this size.
        max_records: a file is closed with so many outputs; None for no limit.
        file_mode: permission bits of the files, None for those of the pipeline.
        dir_mode: permission bits of folders that are made for them, None for those of the pipeline.
    """

    topic: str
    topic_id: str
    metadata: Mapping[str, str]
    max_bytes: int
    max_records: int | None = None
    file_mode: int | None = None
    dir_mode: int | None = None


@dataclass(slots=True)
class Span:
    """Offsets of one Kafka partition in a file: first, last, and records with their first output there."""

    first: int
    last: int
    records: int = 0

    def add(self, first: int, last: int, records: int) -> None:
        """Take more in."""
        if first < self.first:
            self.first = first
        if last > self.last:
            self.last = last
        self.records += records


class Part(NamedTuple):
    """Outputs for one place, laid end to end, one per record.

    Attributes:
        schema: of the file, for Avro.
        chunks: each cut at the end of a block (`room`, `sinks`) at the latest.
        spans: by Kafka partition.
        late: records in a folder that the topic had moved past.
    """

    place: Place
    schema: FileSchema | None
    records: int
    size: int
    chunks: Sequence[Chunk]
    spans: Mapping[int, GroupSpan]
    late: int = 0


@dataclass(slots=True)
class OpenFile:
    """One file being written.

    Attributes:
        spans: by Kafka partition.
        outputs: how many it took.
        earliest, latest: event times, ms.
        late: records in a folder that the topic had moved past.
    """

    sink: Sink
    name: FileName
    staged: str
    place: Place
    schema: FileSchema | None
    spans: dict[int, Span] = field(default_factory=dict)
    outputs: int = 0
    earliest: int | None = None
    latest: int | None = None
    late: int = 0

    def saw(self, earliest: int, latest: int) -> None:
        """Note event times."""
        if self.earliest is None or earliest < self.earliest:
            self.earliest = earliest
        if self.latest is None or latest > self.latest:
            self.latest = latest

    def span(self, partition: int, first: int, last: int, records: int) -> None:
        """Note offsets."""
        found = self.spans.get(partition)
        if found is None:
            found = self.spans[partition] = Span(first, last)
        found.add(first, last, records)


class FileSet:
    """All open files of a task.

    Args:
        store: the destination.
        staging: folder of this attempt.
        workers: closes files side by side.
        first_index: number of the first file, so that no two manifests of a task use a name twice.
        most: files that may be open at once.
        most_held: bytes that they may hold together.
    """

    def __init__(
        self,
        store: Store,
        staging: str,
        workers: Workers,
        *,
        first_index: int = 0,
        most: int = MAX_OPEN_FILES,
        most_held: int = MAX_HELD_BYTES,
    ) -> None:
        self._store = store
        self._staging = staging
        self._workers = workers
        self._index = first_index
        self._most = most
        self._most_held = most_held
        self._open: OrderedDict[tuple[TopicFiles, str, str], OpenFile] = OrderedDict()

    def __len__(self) -> int:
        """Files open now."""
        return len(self._open)

    def get(self, owner: TopicFiles, place: Place, schema: FileSchema | None) -> OpenFile:
        """The open file of a topic, folder and schema; opened if there is none.

        Raises:
            StoreUnavailableError, StoreRefusedError: from the store.
        """
        key = _key(owner, place, schema)
        found = self._open.get(key)
        if found is not None:
            self._open.move_to_end(key)
            return found
        while len(self._open) >= self._most:
            (oldest, _, _), file = next(iter(self._open.items()))
            self.close(oldest, file)
        opened = self._open[key] = self._opened(owner, place, schema)
        return opened

    def peek(self, owner: TopicFiles, place: Place, schema: FileSchema | None) -> OpenFile | None:
        """The open file, if there is one."""
        return self._open.get(_key(owner, place, schema))

    def has_room(self, more: int) -> bool:
        """Whether so many more files can be opened without closing another one."""
        return len(self._open) + more <= self._most

    def touch(self, owner: TopicFiles, place: Place, schema: FileSchema | None) -> None:
        """Note that a file, if it is open, was written to last of all."""
        key = _key(owner, place, schema)
        if key in self._open:
            self._open.move_to_end(key)

    def relieve(self) -> None:
        """Let files write what they hold until all together hold no more than they may. Raises as `get`."""
        sinks = [file.sink for file in self._open.values()]
        while sum(sink.held for sink in sinks) > self._most_held:
            max(sinks, key=lambda sink: sink.held).flush()

    def close(self, owner: TopicFiles, file: OpenFile) -> None:
        """Finish one file. Raises as `get`; the attempt is then of no use."""
        owner.closed[file.name.index] = _entry(owner, file, file.sink.close())
        del self._open[_key(owner, file.place, file.schema)]

    def close_all(self, owner: TopicFiles) -> None:
        """Finish all files of a topic, side by side. Raises as `get`, after every file was tried."""
        files = {key: file for key, file in self._open.items() if key[0] is owner}
        for file, closed in zip(
            files.values(), self._workers.map(lambda file: file.sink.close(), files.values()), strict=True
        ):
            owner.closed[file.name.index] = _entry(owner, file, closed)
        for key in files:
            del self._open[key]

    def abort(self, owner: TopicFiles | None = None) -> None:
        """Give up the open files of a topic, or all; never raises."""
        for key, file in list(self._open.items()):
            if owner is None or key[0] is owner:
                file.sink.abort()
                del self._open[key]

    def _opened(self, owner: TopicFiles, place: Place, schema: FileSchema | None) -> OpenFile:
        plan, task = owner.plan, owner.task
        name = FileName(
            topic=owner.facts.topic, plan=plan, task=task, index=self._index, extension=owner.sinks.extension
        )
        self._index += 1
        staged = f"{self._staging}/{name}"
        metadata = {**owner.facts.metadata, "kafka_hdfs.index": str(name.index)}
        if schema is not None:
            metadata["kafka_hdfs.schema"] = schema.label
        how = OpenAs(schema=None if schema is None else schema.text, sync=name.sync_marker, metadata=metadata)
        owner.staged.append(staged)
        out = self._store.create(staged, modes=Modes(file=owner.facts.file_mode))
        try:
            sink = owner.sinks.open(out, how)
        except BaseException:
            out.abort()
            raise
        return OpenFile(sink=sink, name=name, staged=staged, place=place, schema=schema)


class TopicFiles:
    """The files of one topic in a task, open and closed.

    Args:
        files: the task's open files.
        sinks: how its files are written.
        facts: what all of them share.
        plan: the plan's name.
        task: index of the mapped task.

    Attributes:
        closed: number of the file -> entry of a finished one.
        staged: paths of all files that were begun.
    """

    def __init__(self, files: FileSet, sinks: SinkFactory, facts: FileFacts, *, plan: str, task: int) -> None:
        self.sinks = sinks
        self.facts = facts
        self.plan = plan
        self.task = task
        self.closed: dict[int, FileEntry] = {}
        self.staged: list[str] = []
        self._files = files

    def append(
        self,
        place: Place,
        schema: FileSchema | None,
        data: bytes,
        millis: int,
        source: tuple[int, int],
        *,
        first: bool,
        late: bool,
    ) -> None:
        """Write one output.

        Args:
            place: where it goes.
            schema: of the file, for Avro.
            data: the output.
            millis: its event time.
            source: Kafka partition and offset.
            first: whether it is the first output of its record.
            late: whether the topic had moved past its folder; counted with the first output.

        Raises:
            StoreUnavailableError, StoreRefusedError: the attempt is of no use any more.
        """
        file = self._files.get(self, place, schema)
        partition, offset = source
        file.span(partition, offset, offset, int(first))
        file.saw(millis, millis)
        file.late += late and first
        file.outputs += 1
        if file.sink.append(data) or self.facts.max_records is not None:
            self._roll(file)

    def keeps_whole(self, parts: Sequence[Part]) -> bool:
        """Whether `extend` makes the same files of these parts as `append` makes of their outputs one by one.

        It does not where a file may be closed in the midst of a part: it becomes too long or too large, or has to make
        room for another one. What a compressor makes of the bytes is not known yet; the bound used here is above it.
        """
        new = 0
        most = self.facts.max_records
        for part in parts:
            file = self._files.peek(self, part.place, part.schema)
            new += file is None
            if most is not None and part.records + (0 if file is None else file.outputs) > most:
                return False
            if len(part.chunks) > 1:
                if file is None:
                    bound = self._header_bytes(part.schema) + part.size * 5 // 4
                else:
                    bound = file.sink.bound(part.size)
                if bound + _HEADER_BYTES >= self.facts.max_bytes:
                    return False
        return not new or self._files.has_room(new)

    def extend(self, parts: Sequence[Part], last_written: Sequence[int] = ()) -> None:
        """Write outputs of many records, one each, in one go.

        Args:
            parts: in the order of their first records; `keeps_whole` holds for them.
            last_written: indexes of the parts in the order of their last records, if that is another one.

        Raises:
            StoreUnavailableError, StoreRefusedError: the attempt is of no use any more.
        """
        for part in parts:
            file = self._files.get(self, part.place, part.schema)
            for partition, span in part.spans.items():
                file.span(partition, span.first, span.last, span.records)
                file.saw(span.least, span.greatest)
            file.late += part.late
            wrote = False
            for data, count in part.chunks:
                file.outputs += count
                wrote |= file.sink.append(data, count)
            if wrote or self.facts.max_records is not None:
                self._roll(file)
        for index in last_written:
            self._files.touch(self, parts[index].place, parts[index].schema)

    def is_open(self, place: Place, schema: FileSchema | None) -> bool:
        """Whether a file for the place is open."""
        return self._files.peek(self, place, schema) is not None

    def room(self, place: Place, schema: FileSchema | None) -> tuple[int, int]:
        """Bytes in the open block of the file for a place (0 if none is open), and bytes that complete a block."""
        found = self._files.peek(self, place, schema)
        return (0 if found is None else found.sink.fill), BLOCK_BYTES

    def close(self) -> list[FileEntry]:
        """Finish all files; their entries in the order in which they were begun.

        Raises:
            StoreUnavailableError, StoreRefusedError: the attempt is of no use any more.
        """
        self._files.close_all(self)
        return [entry for _, entry in sorted(self.closed.items())]

    def abort(self) -> list[str]:
        """Give up all files; paths of all that were begun. Never raises."""
        self._files.abort(self)
        self.closed.clear()
        return self.staged

    def _header_bytes(self, schema: FileSchema | None) -> int:
        facts = sum(len(key) + len(value) for key, value in self.facts.metadata.items())
        return facts + (0 if schema is None else len(schema.text.encode()))

    def _roll(self, file: OpenFile) -> None:
        """Close a file that is full. The size is known at the end of a block; within one it has not changed."""
        most = self.facts.max_records
        if file.sink.held:
            self._files.relieve()
        if file.sink.size >= self.facts.max_bytes or (most is not None and file.outputs >= most):
            self._files.close(self, file)


def _key(owner: TopicFiles, place: Place, schema: FileSchema | None) -> tuple[TopicFiles, str, str]:
    return owner, place.folder, "" if schema is None else schema.key


def _entry(owner: TopicFiles, file: OpenFile, closed: Closed) -> FileEntry:
    if closed.records_out != file.outputs:
        raise CorruptStateError(
            file.staged, f"the writer took {file.outputs} outputs and counts {closed.records_out} in the closed file"
        )
    offsets = {partition: (span.first, span.last, span.records) for partition, span in sorted(file.spans.items())}
    name = file.name
    if len(offsets) == 1:
        ((partition, (first, last, _)),) = offsets.items()
        bracketed = dataclasses.replace(name, offsets=(partition, first, last))
        name = bracketed if len(str(bracketed).encode()) <= _MAX_NAME_BYTES else name
    return FileEntry(
        path=f"{file.place.folder}/{name}",
        staged=file.staged,
        topic=owner.facts.topic,
        topic_id=owner.facts.topic_id,
        size=closed.size,
        digest=closed.digest,
        records=sum(span.records for span in file.spans.values()),
        records_out=closed.records_out,
        offsets=offsets,
        time_partition=file.place.time.key,
        event_times=None if file.earliest is None or file.latest is None else (file.earliest, file.latest),
        late=file.late,
        schema=None if file.schema is None else file.schema.label,
        dir_mode=owner.facts.dir_mode,
    )
