"""A lost log brought back from the data files alone: their names, headers and footers.

A visible file is a committed file, and a task reads each partition of a unit in the order of its offsets. So a file
that names one partition and its last offset proves that everything which its unit was to read up to there is decided.
Offsets behind that left no output in files; to read them again loses nothing and doubles nothing. Of a file with
several partitions the name tells no offsets; that its unit was read to its planned end can only be assumed, and the
person who asks for the rebuilding has to say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_kafka_hdfs.exceptions import CorruptStateError, PlanningError
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.doctor import data_files
from airflow_kafka_hdfs.ingest.file_facts import FileSays, read_facts
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.ownership import claim, owned_elsewhere, refuse_foreign
from airflow_kafka_hdfs.ingest.publishing import announce, roll_forward
from airflow_kafka_hdfs.ingest.ranges import Ranges, total
from airflow_kafka_hdfs.ingest.records import Commit, FileEntry, Kind, PartitionChange, PartitionKey
from airflow_kafka_hdfs.model import FileStatus
from airflow_kafka_hdfs.ports.tables import FooterReader

_CHANGED = "while you looked, the log or the files have changed; nothing was changed, look again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """What files prove that no record tells.

    Attributes:
        changes: of the coverage, the newest identity of a partition last.
        files: that the commit lists, with as much as they tell.
        told: what it does, one line per partition.
        assumed: what is no more than assumed, one line each.
        left_out: files that can't be taken, with the reason.
    """

    changes: tuple[PartitionChange, ...]
    files: tuple[FileEntry, ...]
    told: tuple[str, ...]
    assumed: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(slots=True)
class _Proof:
    """Of one partition identity."""

    planned: list[Ranges] = field(default_factory=list)
    covered: list[Ranges] = field(default_factory=list)
    assumed: list[Ranges] = field(default_factory=list)
    newest: str = ""


def draft_rebuild(ctx: Context, footers: FooterReader) -> Rebuild:
    """Look what the files at the destination prove; changes nothing. Reads a small part of each file.

    Args:
        ctx: ports of the command.
        footers: of Parquet files.

    Raises:
        PlanningError: there is no file of this pipeline that the log does not know.
        CorruptStateError: of the log.
    """
    view = ctx.log.read(since=-1)
    listed = {entry.path for commit in view.records.values() for entry in commit.files}
    tops = [item for item in ctx.data.list("") if item.is_dir and item.name[:1] not in "._"]
    unknown = [file for file in data_files(ctx, [item.path for item in tops]) if file.path not in listed]
    left_out: list[str] = []
    says: dict[str, tuple[FileStatus, FileSays]] = {}
    for file, found in zip(unknown, ctx.workers.map(lambda file: _looked_at(ctx, file, footers), unknown), strict=True):
        if isinstance(found, str):
            left_out.append(f"{file.path}: {found}")
        elif found.pipeline == ctx.pipeline:
            says[file.path] = (file, found)
    # The log that is lost may have told that a topic was handed over: what its new owner wrote must not come again.
    foreign = owned_elsewhere(ctx, {found.topic for _, found in says.values()})
    for path in [path for path, (_, found) in says.items() if found.topic in foreign]:
        topic = says.pop(path)[1].topic
        left_out.append(f"{path}: topic {topic} is owned by pipeline {foreign[topic]}")
    if not says:
        why = f"; left out: {'; '.join(left_out[:3])}" if left_out else ""
        raise PlanningError(
            f"no file below {ctx.data.root} tells that pipeline {ctx.pipeline} wrote it and is not in its log{why}"
        )
    proofs, double = _proofs(says, view.state)
    left_out += [f"{path}: offsets of it stand in other commits of the log" for path in double]
    changes, told, assumed = _changes(proofs, view.state)
    files = tuple(_entry(ctx, *says[path]) for path in sorted(says) if path not in double)
    return Rebuild(
        changes=changes,
        files=files,
        told=(f"{len(files)} files come into the log", *told),
        assumed=tuple(assumed),
        left_out=tuple(left_out),
    )


def carry_out_rebuild(ctx: Context, shown: Rebuild, footers: FooterReader, why: str) -> Commit:
    """Commit what was shown; the files stand where they are.

    Raises:
        PlanningError: the log or the files have changed since.
        OwnedElsewhereError: another pipeline has taken a topic in this moment.
    """
    view = ctx.log.read()
    record = Commit(
        number=view.head + 1,
        kind=Kind.REBUILD,
        run=ctx.run,
        clock=ctx.timestamp(),
        attempt=ctx.ids.hex(16),
        who=ctx.run.who,
        why=why,
        changes=shown.changes,
        files=shown.files,
    )
    if draft_rebuild(ctx, footers) != shown:
        raise PlanningError(_CHANGED)
    refuse_foreign(ctx, claim(ctx, {entry.topic for entry in shown.files}))  # owner files may be lost with the log
    if not ctx.log.append(record):
        raise PlanningError(_CHANGED)
    roll_forward(ctx, [record.number], ctx.log.read(known=view))
    announce(ctx, [record.number])  # whoever was to hear of these files has heard of them
    return record


def _looked_at(ctx: Context, file: FileStatus, footers: FooterReader) -> FileSays | str:
    try:
        found = read_facts(ctx.data, file, footers)
    except CorruptStateError as error:
        return str(error)
    if found is None:
        return "files of its format tell nothing of themselves; `state import --folder` can go by their names"
    name = FileName.parse(file.name)
    if name is None or (name.plan, name.task, name.index) != (found.plan, found.task, found.index):
        return "its name and its header tell of different plans: it was renamed or copied"
    return found


def _proofs(
    says: Mapping[str, tuple[FileStatus, FileSays]], state: LogState
) -> tuple[dict[PartitionKey, _Proof], set[str]]:
    """What each partition's files prove, and files whose offsets the log has under another file."""
    units: dict[tuple[str, int, str], list[str]] = {}
    for path, (_, found) in says.items():
        units.setdefault((found.plan, found.task, found.topic), []).append(path)
    proofs: dict[PartitionKey, _Proof] = {}
    double: set[str] = set()
    for (plan, _, _), paths in sorted(units.items()):
        last, is_vague = _last_offsets(paths)
        ranges = says[paths[0]][1].ranges
        decided = {key: state.coverage[key].decided & spans for key, spans in ranges.items() if key in state.coverage}
        if any(decided.values()):
            double.update(paths)
            continue
        for key, spans in ranges.items():
            proof = proofs.setdefault(key, _Proof())
            proof.newest = max(proof.newest, plan)
            proof.planned.append(spans)
            proof.covered.append(spans.below(last.get(key.partition, -1) + 1))
            if is_vague:
                proof.assumed.append(spans)
    return proofs, double


def _last_offsets(paths: list[str]) -> tuple[dict[int, int], bool]:
    """Kafka partition -> last offset in the files of a unit, and whether one of them does not tell."""
    last: dict[int, int] = {}
    is_vague = False
    for path in paths:
        name = FileName.parse(path.rsplit("/", 1)[-1])
        if name is None or name.offsets is None:
            is_vague = True
            continue
        partition, _, end = name.offsets
        last[partition] = max(last.get(partition, -1), end)
    return last, is_vague


def _changes(
    proofs: Mapping[PartitionKey, _Proof], state: LogState
) -> tuple[tuple[PartitionChange, ...], list[str], list[str]]:
    changes, told, assumed = [], [], []
    for key, proof in sorted(proofs.items(), key=lambda item: (item[1].newest, item[0])):
        planned, proved, vague = total(proof.planned), total(proof.covered), total(proof.assumed)
        start = None if key in state.coverage else planned.spans[0][0]
        changes.append(PartitionChange(key=key, start=start, covered=proved | vague))
        told.append(f"{key}: {proved | vague} covered" + ("" if start is None else f", starts at {start}"))
        if start is not None and (holes := Ranges.span(start, (proved | vague).end or start) - proved - vague):
            told.append(f"{key}: {holes} in between are read by the next run, whatever had been skipped there")
        if rest := vague - proved:
            assumed.append(f"{key}: {rest}: a file of several partitions; was its plan read to the end?")
    return tuple(changes), told, assumed


def _entry(ctx: Context, file: FileStatus, found: FileSays) -> FileEntry:
    name = FileName.parse(file.name)
    if name is not None and name.offsets is not None:
        partition, first, last = name.offsets
        offsets = {partition: (first, last, found.rows or 0)}
    else:
        offsets = {key.partition: (spans.spans[0][0], spans.spans[-1][1] - 1, 0) for key, spans in found.ranges.items()}
    return FileEntry(
        path=file.path,
        staged=f"{ctx.log.data_paths.staging(found.plan)}/rebuilt/{file.path}",
        topic=found.topic,
        topic_id=next(iter(found.ranges)).topic_id,
        size=file.size,
        digest="",
        records=found.rows or 0,
        records_out=found.rows or 0,
        offsets=offsets,
        schema=found.schema,
    )
