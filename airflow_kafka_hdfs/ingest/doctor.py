"""Checks the log's invariants against store, records and files, and says what is wrong in words that help at night."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

from airflow_kafka_hdfs.exceptions import CorruptStateError
from airflow_kafka_hdfs.ingest.collecting import GRACE, is_old, read_times, time_of_folder
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import Checkpoint, LogState
from airflow_kafka_hdfs.ingest.examining import Finding, LiveFile, Looking, Severity, look_into
from airflow_kafka_hdfs.ingest.layout import ROOT, FileName, escape, file_topic, unescape
from airflow_kafka_hdfs.ingest.ownership import all_owners
from airflow_kafka_hdfs.ingest.plan_book import all_plans, standing
from airflow_kafka_hdfs.ingest.ranges import Ranges, total
from airflow_kafka_hdfs.ingest.records import Commit, Kind
from airflow_kafka_hdfs.model import FileStatus
from airflow_kafka_hdfs.ports.tables import FooterReader


def examine(
    ctx: Context, *, grace: timedelta = GRACE, look: Looking = Looking.SIZES, footers: FooterReader | None = None
) -> list[Finding]:
    """Check everything; reads every record and lists every data folder, so it may take a while on a long log.

    Args:
        grace: age from which leftovers of dead attempts are worth a word.
        look: how far live files are looked into.
        footers: of Parquet files, which are not looked into without it.

    Returns:
        Findings, the worst first; empty for a healthy pipeline.
    """
    ctx = dataclasses.replace(ctx, log=ctx.log.unread())
    try:
        view = ctx.log.read(since=-1)
    except CorruptStateError as error:
        return [
            Finding(
                severity=Severity.ERROR,
                what=str(error),
                meaning="nothing after this record can be trusted, so the pipeline stops before it reads or writes",
                mend=f"restore the file from a backup or from `{ROOT}/_log`, or use `state rebuild`",
            )
        ]
    commits = [commit for _, commit in sorted(view.records.items())]
    live = live_files(commits)
    unpublished = set(ctx.log.unpublished(view))
    findings = [
        *_records_after_a_hole(ctx, view.head),
        *_checkpoints(ctx),
        *_overlaps(commits),
        *_missing_files(ctx, live, unpublished),
        *look_into(ctx, live, {commit.number: commit for commit in commits}, look, footers),
        *_open_commits(unpublished),
        *(_unknown_files(ctx, commits) if commits else _without_log(ctx)),
        *_leftovers(ctx, grace),
    ]
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity), reverse=True)


def live_files(commits: Iterable[Commit]) -> dict[str, LiveFile]:
    """Path -> file of all files that the records list and do not supersede."""
    live: dict[str, LiveFile] = {}
    for commit in commits:
        for item in commit.superseded:
            live.pop(item.path, None)
        for entry in commit.files:
            live[entry.path] = LiveFile(commit=commit.number, entry=entry)
    return live


def data_files(ctx: Context, folders: Iterable[str]) -> Iterator[FileStatus]:
    """Files with our names below folders of the destination."""
    for folder in sorted(folders):
        for file in _walk(ctx, folder):
            if FileName.parse(file.name) is not None:
                yield file


def _walk(ctx: Context, folder: str) -> Iterator[FileStatus]:
    for item in ctx.data.list(folder):
        if item.is_dir:
            yield from _walk(ctx, item.path)
        else:
            yield item


def _records_after_a_hole(ctx: Context, head: int) -> list[Finding]:
    findings = []
    for shard in ctx.state.list("commits"):
        for file in ctx.state.list(shard.path):
            if file.name.isdigit() and int(file.name) > head:
                findings.append(
                    Finding(
                        severity=Severity.ERROR,
                        what=f"{file.path} stands above the head {head}: a record before it is gone",
                        meaning="the offsets of the missing and of all later records would be read again",
                        mend=f"restore commit {head + 1} before any run starts",
                    )
                )
    return findings


def _checkpoints(ctx: Context) -> list[Finding]:
    numbers = ctx.log.checkpoints()
    if not numbers:
        return []
    recomputed = ctx.log.recomputed(upto=numbers)
    findings = []
    for number in numbers:
        path = ctx.log.paths.checkpoint(number)
        try:
            checkpoint = ctx.log.checkpoint_at(number)
        except CorruptStateError as error:
            findings.append(_bad_checkpoint(str(error), path))
            continue
        if checkpoint is not None and not _same(checkpoint.state(), recomputed.get(number)):
            findings.append(_bad_checkpoint(f"{path} differs from the sum of records 0 to {number}", path))
    return findings


def _same(found: LogState, expected: LogState | None) -> bool:
    if expected is None:
        return False
    # Markers come and go after a checkpoint was made; everything else is a function of the records.
    plain = [
        Checkpoint.of(state.marked(published=state.unpublished, announced=state.unannounced))
        for state in (found, expected)
    ]
    return plain[0] == plain[1]


def _bad_checkpoint(what: str, path: str) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        what=what,
        meaning="start-up would trust a wrong sum: offsets could be skipped or read twice",
        mend=f"delete {path} (a checkpoint is only a shortcut, the records are the truth)",
    )


def _overlaps(commits: list[Commit]) -> list[Finding]:
    """Replay of the rule that every commit was checked by."""
    findings = []
    state = LogState()
    for commit in commits:
        for change in commit.changes:
            have = state.coverage.get(change.key)
            if have is None or commit.kind not in (Kind.FORWARD, Kind.INTERVAL):
                continue
            barred = have.settled if commit.kind is Kind.INTERVAL else have.decided
            if twice := total((change.covered, change.skipped, change.lost)) & barred:
                findings.append(
                    Finding(
                        severity=Severity.ERROR,
                        what=f"commit {commit.number} decides offsets of {change.key} again: {twice}",
                        meaning="these offsets stand in files of two commits",
                        mend="`replace` the range, which supersedes both",
                    )
                )
        state = state.fold([(commit, "")])
    return findings


def _missing_files(ctx: Context, live: Mapping[str, LiveFile], unpublished: set[int]) -> list[Finding]:
    def look(file: LiveFile) -> Finding | None:
        there = ctx.data.status(file.entry.path)
        if there is not None and not there.is_dir and there.size == file.entry.size:
            return None
        if there is None and file.commit in unpublished and ctx.data.status(file.entry.staged) is not None:
            return None
        found = "is gone" if there is None else f"has {there.size} bytes, the record says {file.entry.size}"
        return Finding(
            severity=Severity.WARNING if there is None and file.commit not in unpublished else Severity.ERROR,
            what=f"{file.entry.path} of commit {file.commit} {found}",
            meaning=f"{file.entry.records} records of topic {file.entry.topic} are not visible; if you deleted the "
            "file on purpose, nothing is wrong and nothing will be read again",
            mend="restore the file, or `replace` its time range while Kafka still holds it",
        )

    return [finding for finding in ctx.workers.map(look, live.values()) if finding is not None]


def _open_commits(unpublished: set[int]) -> list[Finding]:
    return [
        Finding(
            severity=Severity.NOTE,
            what=f"commit {number} has no `published` marker",
            meaning="some of its files may still be in staging; readers don't see them yet",
            mend="`airflow kafka-hdfs state recover`, or wait for the next run",
        )
        for number in sorted(unpublished)
    ]


def _unknown_files(ctx: Context, commits: list[Commit]) -> list[Finding]:
    known = {entry.path for commit in commits for entry in commit.files}
    owners = all_owners(ctx)
    # A log that was restored from an old copy has never heard of some topics that are its own.
    homes = {path.split("/")[0] for path in known} - {ROOT}
    homes |= {escape(topic) for topic, owner in owners.items() if owner == ctx.pipeline}
    # Pipelines may share folders, and topics may be handed over: only files of topics that this one owns are its own.
    topics = {entry.topic for commit in commits for entry in commit.files} | owners.keys()
    mine = {_in_names(topic) for topic in topics if owners.get(topic, ctx.pipeline) == ctx.pipeline}
    return [
        Finding(
            severity=Severity.ERROR,
            what=f"{file.path} has a name of ours, but no record lists it",
            meaning="its records may stand in other files too: it was copied there, or the log lost a record",
            mend="compare its header with the log; move it away, or `state rebuild --from files` if the log lacks it",
        )
        for file in data_files(ctx, homes)
        if file.path not in known and (name := FileName.parse(file.name)) is not None and name.topic in mine
    ]


def _in_names(topic: str) -> str:
    """A topic as `FileName.parse` tells it."""
    return unescape(file_topic(topic))


def _without_log(ctx: Context) -> list[Finding]:
    """An empty log is that of a pipeline that never ran, or it was lost, or another name is meant."""
    owners = all_owners(ctx)
    foreign = {_in_names(topic) for topic, owner in owners.items() if owner != ctx.pipeline}
    tops = [item.path for item in ctx.data.list("") if item.is_dir and item.name[:1] not in "._"]
    for file in data_files(ctx, tops):
        name = FileName.parse(file.name)
        if name is not None and name.topic not in foreign:
            return [
                Finding(
                    severity=Severity.ERROR,
                    what=f"the commit log at {ctx.state.root} has no record, but {file.path} has a name of ours",
                    meaning="the log was lost, or lies elsewhere: starting afresh would read again what stands there, "
                    "so no run of this pipeline starts",
                    mend="restore the state folder, or `state rebuild`; look whether pipeline and state_uri are right",
                )
            ]
    if not foreign:
        return []
    others = ", ".join(sorted({owner for owner in owners.values() if owner != ctx.pipeline}))
    return [
        Finding(
            severity=Severity.NOTE,
            what=f"the commit log at {ctx.state.root} has no record",
            meaning=f"pipeline {ctx.pipeline} has never run here; the data are of {others}",
            mend="look whether the pipeline's name is right",
        )
    ]


def _leftovers(ctx: Context, grace: timedelta) -> list[Finding]:
    now = ctx.clock.now()
    plans = list(all_plans(ctx))
    view, times = read_times(ctx, plans)
    findings = []
    for plan in plans:
        dead = ctx.run_states.is_alive(plan.run) is False
        if dead and is_old(now, times.of_plan(view, plan), grace) and standing(view, plan).is_open:
            findings.append(
                Finding(
                    severity=Severity.NOTE,
                    what=f"plan {plan.plan} of run {plan.run.run_id} is open, and its run is gone",
                    meaning="its staging takes space; its offsets are read by later runs",
                    mend="`airflow kafka-hdfs state gc`, or wait for the next publish",
                )
            )
    known = {plan.plan for plan in plans}
    for folder in ctx.data.list(f"{ctx.log.data_paths.home}/staging"):
        if folder.name not in known and is_old(now, time_of_folder(folder), grace):
            findings.append(
                Finding(
                    severity=Severity.NOTE,
                    what=f"{folder.path} belongs to no plan",
                    meaning="left by a task that died; it takes space only",
                    mend="`airflow kafka-hdfs state gc`, or wait for the next publish",
                )
            )
    return findings


def undecided_below(state: LogState) -> dict[str, Ranges]:
    """Holes below the greatest decided offset of each current partition; for people who ask why lag does not fall."""
    holes = {}
    for key in sorted(state.current.values()):
        coverage = state.coverage[key]
        end = coverage.decided.end
        if end is not None and (rest := coverage.undecided(coverage.start, end)):
            holes[str(key)] = rest
    return holes
