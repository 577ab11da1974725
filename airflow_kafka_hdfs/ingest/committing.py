"""The commit loop: from the manifests of a plan to one numbered record.

1. Read the log to its head; stop if the plan was ended.
2. Of each unit in no commit take the section of its highest manifest.
3. Judge topics by the publish policy and the bad-record limits.
4. Drop units that overlap what their kind may not take.
5. Check the coverage equation, and that every staged file stands with its size.
6. Create the next record; if another one has its number, start over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from airflow_kafka_hdfs.exceptions import CorruptStateError, PlanEndedError
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.plan_book import PlanStanding, abort_plan, manifests, standing
from airflow_kafka_hdfs.ingest.plans import Plan, UnitPlan
from airflow_kafka_hdfs.ingest.ranges import Ranges, total
from airflow_kafka_hdfs.ingest.records import (
    Commit,
    Counts,
    FileEntry,
    Held,
    Kind,
    Manifest,
    Outcome,
    PartitionChange,
    PartitionKey,
    PartitionResult,
    UnitResult,
    UnitTaken,
    merged_change,
)
from airflow_kafka_hdfs.metrics import add_snapshots

PublishPolicy = Literal["full", "successful", "partial"]
ALREADY_COVERED = "already_covered"
RELEASED = "released"

_FILES_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecordLimits:
    """How many bad records a topic may have in one run before it is held back.

    Attributes:
        most: absolute number, None for no limit.
        share: of the records read, applied from `share_from` records up; None for no limit.
    """

    most: int | None = None
    share: float | None = 0.01
    share_from: int = 1000

    def exceeded(self, bad: int, read: int) -> str | None:
        """What limit is exceeded, for people; None if none is."""
        if self.most is not None and bad > self.most:
            return f"{bad} bad records of {read} read; max_bad_records is {self.most}"
        if self.share is not None and read >= self.share_from and bad > self.share * read:
            return f"{bad} bad records of {read} read ({bad / read:.2%}); max_bad_share is {self.share:.2%}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPolicy:
    """What publish decides by; taken from the running code, not from the plan.

    Attributes:
        publish: `full`: a topic commits if all its units are done or limited; `successful`: each such unit;
            `partial`: also the read prefix of failed ones.
        bad_records: default limits per topic.
        bad_records_of: topic -> limits that differ.
    """

    publish: PublishPolicy = "full"
    bad_records: BadRecordLimits = BadRecordLimits()
    bad_records_of: Mapping[str, BadRecordLimits] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One unit's section of a manifest."""

    manifest: Manifest
    result: UnitResult

    @property
    def unit(self) -> tuple[int, str]:
        """(task, topic)."""
        return self.manifest.task, self.result.topic


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What the loop did.

    Attributes:
        record: the record it made, None if there was nothing left to record.
        view: the log with the record in it.
        dropped_staging: staged files of dropped units, to be deleted.
    """

    record: Commit | None
    view: LogView
    dropped_staging: tuple[str, ...] = ()


def commit_plan(ctx: Context, plan: Plan, policy: CommitPolicy) -> CommitResult:
    """Commit what the policy allows of a plan.

    The loop ends: each turn either makes the record or finds a further record of somebody else.

    Args:
        ctx: ports of this run.
        plan: the plan, as stored.
        policy: what may be committed.

    Returns:
        The record, or None if every unit of the plan is settled and nothing new is to be said of it.

    Raises:
        PlanEndedError: the plan was ended by an abort record.
        CorruptStateError: a manifest does not add up, or a staged file is gone or has another size.
    """
    view = ctx.log.read(since=plan.log_head)
    sections = _sections(ctx, plan)
    while True:
        state = standing(view, plan)
        if state.aborted is not None:
            ended = state.aborted
            raise PlanEndedError(
                f"plan {plan.plan} of run {plan.run.run_id} was ended by commit {ended.number} "
                f"({ended.why}, by {ended.who or ended.run.run_id}); clear `plan` with everything after it"
            )
        if plan.kind is Kind.REPLACE and (touching := _touching(plan, view)) is not None:
            view = abort_plan(ctx, plan, f"commit {touching} changed what it was to replace")
            continue
        draft = _draft(ctx, plan, policy, view, state, sections)
        if draft is None:
            return CommitResult(record=None, view=view)
        record, dropped = draft
        if not staged_files_stand(ctx, record):
            # Another attempt may have committed and published the same units, or the plan was ended and its staging
            # collected: the log tells. Without news of it the file is really gone.
            before, view = view.head, ctx.log.read(known=view)
            if view.head == before:
                raise CorruptStateError(
                    ctx.log.data_paths.staging(plan.plan),
                    f"a staged file of plan {plan.plan} that a manifest lists is gone or has another size",
                )
            continue
        made = ctx.log.append(record, copy=False)  # `finish` copies it beside bringing its files into place
        view = ctx.log.read(known=view)
        if made:
            return CommitResult(record=record, view=view, dropped_staging=dropped)


def _sections(ctx: Context, plan: Plan) -> dict[tuple[int, str], list[Section]]:
    """(task, topic) -> sections of all manifests, lowest k first."""
    found: dict[tuple[int, str], list[Section]] = {}
    tasks, units = [task.index for task in plan.tasks], plan.units
    for listed in ctx.workers.map(lambda task: manifests(ctx, plan, task), tasks):
        for manifest in listed:
            for result in manifest.units:
                unit = units.get((manifest.task, result.topic))
                _check(ctx, plan, manifest, result, unit)
                section = Section(manifest=manifest, result=result)
                found.setdefault(section.unit, []).append(section)
    return found


def _check(ctx: Context, plan: Plan, manifest: Manifest, result: UnitResult, unit: UnitPlan | None) -> None:
    """The coverage equation and what a section may speak of."""
    path = ctx.log.paths.manifest(plan.plan, manifest.task, manifest.k)
    if unit is None or manifest.plan != plan.plan:
        raise CorruptStateError(path, f"speaks of topic {result.topic}, which its task does not have")
    planned = unit.ranges()
    written: dict[int, int] = {}
    bad: dict[int, int] = {}
    for entry in result.files:
        of = bad if entry.quarantine else written
        for partition, (_, _, records) in entry.offsets.items():
            of[partition] = of.get(partition, 0) + records
    for part in result.partitions:
        counts, where = part.counts, f"{part.key} of {result.topic}"
        if part.decided - planned.get(part.key, Ranges()):
            raise CorruptStateError(path, f"{where}: decided {part.decided}, planned {planned.get(part.key)}")
        if counts.offsets != len(part.decided):
            raise CorruptStateError(
                path,
                f"{where}: {len(part.decided)} offsets decided, but written {counts.written} + quarantined "
                f"{counts.quarantined} + filtered {counts.filtered} + gaps {counts.gaps} + lost {counts.lost} + "
                f"skipped {counts.skipped} = {counts.offsets}",
            )
        in_files = (written.pop(part.key.partition, 0), bad.pop(part.key.partition, 0))
        if in_files != (counts.written, counts.quarantined):
            raise CorruptStateError(
                path,
                f"{where}: files hold {in_files[0]} records and {in_files[1]} bad ones, counts say "
                f"{counts.written} and {counts.quarantined}",
            )
    if written or bad:
        raise CorruptStateError(path, f"files hold records of partitions {sorted({*written, *bad})} without counts")


def _draft(
    ctx: Context,
    plan: Plan,
    policy: CommitPolicy,
    view: LogView,
    state: PlanStanding,
    sections: Mapping[tuple[int, str], list[Section]],
) -> tuple[Commit, tuple[str, ...]] | None:
    """The record that the log's present state allows, and the staged files of units that it drops."""
    best = {unit: sections[unit][-1] for unit in state.undecided if unit in sections}
    judged = _judge(plan, policy, state, best)
    released = view.state.released
    taken: list[Section] = []
    dropped: list[tuple[Section, str]] = []
    record_ranges: dict[PartitionKey, Ranges] = {}
    for unit in state.undecided:
        section = best.get(unit)
        if section is None or unit not in judged.takes:
            continue
        if section.result.topic in released:
            dropped.append((section, RELEASED))
            continue
        if _overlaps(plan.kind, view.state, record_ranges, section.result):
            dropped.append((section, ALREADY_COVERED))
            continue
        for part in section.result.partitions:
            record_ranges[part.key] = record_ranges.get(part.key, Ranges()) | part.decided
        taken.append(section)
    if state.commits and not taken and not dropped and _is_told(state, judged.held):
        return None
    if plan.is_empty:
        return None
    used = {(section.manifest.task, section.manifest.k): section.manifest.metrics for section in taken}
    # A replace takes out of place only what it puts something in the place of.
    incomplete = {item.topic for item in judged.held} | {section.result.topic for section, _ in dropped}
    replaced = {item.path for commit in state.commits for item in commit.superseded}
    replaces = tuple(item for item in plan.replaces if item.topic not in incomplete and item.path not in replaced)
    record = Commit(
        number=view.head + 1,
        kind=plan.kind,
        run=ctx.run,
        clock=ctx.timestamp(),
        attempt=ctx.ids.hex(16),
        plan=plan.plan,
        request=plan.request if plan.kind is Kind.REPLACE and not incomplete else None,
        who=ctx.run.who,
        changes=_changes(plan, view.state, taken),
        files=tuple(entry for section in taken for entry in section.result.files),
        units=tuple(_taken(plan, section) for section in taken),
        dropped=tuple(_taken(plan, section, outcome) for section, outcome in dropped),
        superseded=replaces,
        held=judged.held,
        metrics=add_snapshots(metrics for _, metrics in sorted(used.items())),
    )
    staged = tuple(entry.staged for section, _ in dropped for entry in section.result.files)
    return record, staged


def _is_told(state: PlanStanding, held: Iterable[Held]) -> bool:
    """Whether the plan's last record says why each open topic is held: the gate tells what stands there."""
    open_ = {topic for _, topic in state.undecided}
    last = [item for item in state.commits[-1].held if item.topic in open_]
    return last == [item for item in held if item.topic in open_]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judgement:
    takes: frozenset[tuple[int, str]]
    held: tuple[Held, ...]


def _judge(
    plan: Plan, policy: CommitPolicy, state: PlanStanding, best: Mapping[tuple[int, str], Section]
) -> _Judgement:
    """Which undecided units may commit, and which topics are held back."""
    takes: set[tuple[int, str]] = set()
    held = {item.topic: item for item in plan.held}
    topics: dict[str, list[tuple[int, str]]] = {}
    for unit in state.undecided:
        topics.setdefault(unit[1], []).append(unit)
    for topic, units in sorted(topics.items()):
        results = {unit: best[unit].result for unit in units if unit in best}
        limits = policy.bad_records_of.get(topic, policy.bad_records)
        counts = [result.counts for result in results.values()] + _committed_before(state, topic)
        over = limits.exceeded(sum(c.quarantined for c in counts), sum(c.read for c in counts))
        faults = _faults(units, results)
        if plan.kind is Kind.REPLACE:
            faults += _unread(results)
        if over is not None:
            held[topic] = Held(
                topic=topic,
                reason="bad_records",
                detail=f"{over}; the bad ones stand in {_where_bad(results.values())}, below the destination: look at "
                "them, or raise the limit and clear `publish`",
            )
            continue
        if faults:
            held[topic] = Held(topic=topic, reason="unit_failed", detail="; ".join(faults))
            if policy.publish == "full" or plan.kind is Kind.REPLACE:
                continue
        for unit, result in results.items():
            has_prefix = policy.publish == "partial" and any(part.decided for part in result.partitions)
            if result.outcome is not Outcome.FAILED or has_prefix:
                takes.add(unit)
    return _Judgement(takes=frozenset(takes), held=tuple(held[topic] for topic in sorted(held)))


def _committed_before(state: PlanStanding, topic: str) -> list[Counts]:
    """Counts of the plan's earlier commits: the limits are those of a run, not of each of its commits."""
    return [change.counts for commit in state.commits for change in commit.changes if change.key.topic == topic]


def _faults(units: list[tuple[int, str]], results: Mapping[tuple[int, str], UnitResult]) -> list[str]:
    faults = []
    for unit in units:
        result = results.get(unit)
        if result is None:
            faults.append(f"extract[{unit[0]}] left no manifest: clear it with everything after it")
        elif result.outcome is Outcome.FAILED:
            faults.append(f"extract[{unit[0]}] {result.reason}: {result.detail}")
    return faults


def _where_bad(results: Iterable[UnitResult]) -> str:
    """Quarantine files that no commit lists yet."""
    staged = [entry.staged for result in results for entry in result.files if entry.quarantine]
    return ", ".join(staged[:_FILES_NAMED]) + (f" and {more} more" if (more := len(staged) - _FILES_NAMED) > 0 else "")


def _unread(results: Mapping[tuple[int, str], UnitResult]) -> list[str]:
    """Units of a replace that did not read all of their offsets again; their old files must stay."""
    lines = []
    for unit, result in results.items():
        counts = result.counts
        if result.outcome is Outcome.LIMITED or counts.lost or counts.skipped:
            lines.append(
                f"extract[{unit[0]}] did not read everything again ({counts.lost} offsets lost, {counts.skipped} "
                "skipped): nothing was replaced: clear `plan`"
            )
    return lines


def _overlaps(kind: Kind, state: LogState, record_ranges: Mapping[PartitionKey, Ranges], result: UnitResult) -> bool:
    """Whether a unit touches offsets that its kind may not take, or a retired generation of a partition."""
    for part in result.partitions:
        current = state.current.get(part.key.topic_partition)
        if current is not None and current.topic_id == part.key.topic_id and current != part.key:
            return True
        if part.decided & record_ranges.get(part.key, Ranges()):
            return True
        coverage = state.coverage.get(part.key)
        if coverage is None or kind is Kind.REPLACE:
            continue
        barred = coverage.settled if kind is Kind.INTERVAL else coverage.decided
        if part.decided & barred:
            return True
    return False


def _touching(plan: Plan, view: LogView) -> int | None:
    """Number of a later commit of somebody else that touches what a replace was planned from."""
    targets = {item.path for item in plan.replaces}
    ranges = plan.ranges()
    for number, commit in sorted(view.records.items()):
        if number <= plan.log_head or commit.plan == plan.plan:
            continue
        if targets & {item.path for item in commit.superseded}:
            return number
        for change in commit.changes:
            if total((change.covered, change.skipped, change.lost, change.lifted)) & ranges.get(change.key, Ranges()):
                return number
    return None


def _changes(plan: Plan, state: LogState, taken: list[Section]) -> tuple[PartitionChange, ...]:
    parts: dict[PartitionKey, list[PartitionResult]] = {}
    for section in taken:
        for part in section.result.partitions:
            parts.setdefault(part.key, []).append(part)
    entries = {entry.key: entry for entry in plan.entries}
    changes = []
    for key, results in sorted(parts.items(), key=lambda item: item[0]):
        change = merged_change(key, results)
        entry = entries.get(key)
        if entry is not None:
            after = state.coverage[key].changed(change) if key in state.coverage else None
            change = dataclasses.replace(
                change,
                log_start=max(change.log_start, entry.log_start),
                log_end=max(change.log_end, entry.log_end),
                caught_up=after is not None and after.watermark >= max(change.log_end, entry.log_end),
            )
        changes.append(change)
    return tuple(changes)


def _taken(plan: Plan, section: Section, outcome: str | None = None) -> UnitTaken:
    result = section.result
    planned = sum(len(work_unit) for work_unit in plan.units[section.unit].work_units)
    decided = 0 if outcome else sum(len(part.decided) for part in result.partitions)
    return UnitTaken(
        task=section.manifest.task,
        topic=result.topic,
        k=section.manifest.k,
        outcome=outcome or result.outcome.value,
        rest=planned - decided,
    )


def staged_files_stand(ctx: Context, record: Commit) -> bool:
    """Whether every staged file of a record stands with its size.

    One listing per folder saves a call per file; what a listing does not show is looked at by itself, since listings
    of object stores may be stale.
    """
    folders = sorted({entry.staged.rsplit("/", 1)[0] for entry in record.files})
    sizes = {
        file.path: file.size
        for listing in ctx.workers.map(ctx.data.list, folders)
        for file in listing
        if not file.is_dir
    }
    doubtful = [entry for entry in record.files if sizes.get(entry.staged) != entry.size]

    def stands(entry: FileEntry) -> bool:
        status = ctx.data.status(entry.staged)
        return status is not None and not status.is_dir and status.size == entry.size

    return all(ctx.workers.map(stands, doubtful))
