"""What the doctor finds, and its look into live files: do their headers, rows and bytes fit the records?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_kafka_hdfs.exceptions import CorruptStateError
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.file_facts import FileSays, Measured, measure, read_facts
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, FileEntry
from airflow_kafka_hdfs.ports.tables import FooterReader


class Looking(StrEnum):
    """How far live files are looked into."""

    SIZES = "sizes"
    """One look at each file from outside."""
    HEADERS = "headers"
    """Some kilobytes of each are read: header or footer."""
    WHOLE = "whole"
    """Every byte of each is read: digest and number of rows."""


class Severity(StrEnum):
    """How bad a finding is."""

    NOTE = "note"
    """Normal after a crash; the next run or the collector mends it."""
    WARNING = "warning"
    """Nothing is lost or doubled, but somebody should act."""
    ERROR = "error"
    """Data is or may become lost or doubled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        what: what was found, with its path.
        meaning: what it means for the data.
        mend: the next step.
    """

    severity: Severity
    what: str
    meaning: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """A file that a commit lists and no later one supersedes."""

    commit: int
    entry: FileEntry


def look_into(
    ctx: Context,
    live: Mapping[str, LiveFile],
    commits: Mapping[int, Commit],
    how: Looking,
    footers: FooterReader | None,
) -> list[Finding]:
    """What the insides of live files have to say against their records; files that are not in place are left alone.

    Args:
        ctx: ports of the command.
        live: path -> file.
        commits: number -> record, of all that list them.
        how: how far to look.
        footers: of Parquet files.
    """
    if how is Looking.SIZES:
        return []

    def look(file: LiveFile) -> list[str]:
        entry = file.entry
        status = ctx.data.status(entry.path)
        if status is None or status.is_dir or status.size != entry.size:
            return []  # said already
        try:
            measured = measure(ctx.data, status) if how is Looking.WHOLE else None
            is_plain = entry.quarantine or (entry.path.endswith(".parquet") and footers is None)
            says = None if is_plain or footers is None else read_facts(ctx.data, status, footers)
        except CorruptStateError as error:
            return [str(error)]
        return _differences(ctx, file, commits[file.commit], says, measured)

    files = list(live.values())
    return [
        Finding(
            severity=Severity.ERROR,
            what=f"{file.entry.path} of commit {file.commit}: {difference}",
            meaning=f"the file is not the one that was committed; its {file.entry.records} records of topic "
            f"{file.entry.topic} may be damaged, or stand in another file",
            mend="restore it from a backup, or `replace` its time range while Kafka still holds it",
        )
        for file, differences in zip(files, ctx.workers.map(look, files), strict=True)
        for difference in differences
    ]


def _differences(
    ctx: Context, file: LiveFile, commit: Commit, says: FileSays | None, measured: Measured | None
) -> list[str]:
    entry = file.entry
    found: list[tuple[str, object, object]] = []
    if measured is not None and entry.digest:
        found.append(("digest", measured.digest, entry.digest))
    rows = [part.rows for part in (measured, says) if part is not None and part.rows is not None]
    expected = entry.records if entry.quarantine else entry.records_out
    if rows and (expected or entry.digest):  # a rebuilt entry may not know
        found.append(("rows", rows[0], expected))
    if says is not None:
        name = FileName.parse(entry.path.rsplit("/", 1)[-1])
        found += [
            ("pipeline", says.pipeline, ctx.pipeline),
            ("topic", says.topic, entry.topic),
            ("topic id", {key.topic_id for key in says.ranges}, {entry.topic_id}),
            ("schema", says.schema, entry.schema),
            ("plan", says.plan, commit.plan or (name and name.plan)),
            ("number", says.index, name and name.index),
        ]
    texts = [f"{what}: the file has {there}, the record {told}" for what, there, told in found if there != told]
    return texts + ([] if says is None else _beyond_the_plan(entry, says))


def _beyond_the_plan(entry: FileEntry, says: FileSays) -> list[str]:
    planned = {key.partition: spans for key, spans in says.ranges.items()}
    return [
        f"partition {partition}: offsets {first} to {last} are recorded, its header plans {planned.get(partition)}"
        for partition, (first, last, _) in entry.offsets.items()
        if len(Ranges.of([(first, first + 1), (last, last + 1)]) - planned.get(partition, Ranges()))
    ]
