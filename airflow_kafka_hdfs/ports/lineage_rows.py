"""The rows of the lineage warehouse: plain frozen values, one class per table.

The class names its table, its fields are the columns and `KEY` is the primary key. Times are aware and in UTC;
structured values are JSON text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRow:
    """`lineage_raw`: every message as it came; `problem` says why one could not be used."""

    TABLE: ClassVar[str] = "lineage_raw"
    KEY: ClassVar[tuple[str, ...]] = ("topic", "partition", "offset")
    topic: str
    partition: int
    offset: int
    event_id: str
    type: str
    received_at: datetime
    body: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRow:
    """`lineage_offset`: the first message that is not in the warehouse yet."""

    TABLE: ClassVar[str] = "lineage_offset"
    KEY: ClassVar[tuple[str, ...]] = ("group", "topic", "partition")
    group: str
    topic: str
    partition: int
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """`lineage_stage`: messages that can't be merged yet: runs whose task graph has not arrived."""

    TABLE: ClassVar[str] = "lineage_stage"
    KEY: ClassVar[tuple[str, ...]] = ("event_id",)
    event_id: str
    job_id: str
    run_id: str
    structure_hash: str
    emitted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRow:
    """`dataset`: one dataset, with its newest schema."""

    TABLE: ClassVar[str] = "dataset"
    KEY: ClassVar[tuple[str, ...]] = ("dataset_id",)
    dataset_id: str
    ns: str
    name: str
    collection: str
    table: str
    schema_id: str = ""
    schema_version: str = ""
    schema_seen: datetime | None = None
    temporary: bool = False
    first_seen: datetime
    last_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetAliasRow:
    """`dataset_alias`: another name of a dataset."""

    TABLE: ClassVar[str] = "dataset_alias"
    KEY: ClassVar[tuple[str, ...]] = ("ns", "name")
    ns: str
    name: str
    dataset_id: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSchemaRow:
    """`dataset_schema`: one version of a dataset's schema; `fields` is a JSON list of name, type, description."""

    TABLE: ClassVar[str] = "dataset_schema"
    KEY: ClassVar[tuple[str, ...]] = ("dataset_id", "schema_version")
    dataset_id: str
    schema_version: str
    schema_id: str
    fields: str
    seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """`job`: one DAG of one deployment.

    Attributes:
        structure_hash, structure_since: the structure of its newest run, and the first run of the last
            unbroken row of runs with it.
        recent: JSON: the newest scheduled runs and the newest finished runs, from which the facts are made.
        frequency, period_seconds: as inferred; 0 if unknown.
    """

    TABLE: ClassVar[str] = "job"
    KEY: ClassVar[tuple[str, ...]] = ("job_id",)
    job_id: str
    instance: str
    dag_id: str
    domain: str
    owners: str
    team: str
    tags: str
    config_file: str
    relative_fileloc: str
    description: str
    structure_hash: str = ""
    structure_since: datetime | None = None
    first_seen: datetime
    last_seen: datetime
    last_run: datetime | None = None
    last_run_id: str = ""
    last_outcome: str = ""
    recent: str = "{}"
    frequency: str = "unknown"
    period_seconds: int = 0
    failing: bool = False
    emitted_at: datetime
    event_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersionRow:
    """`job_version`: one structure that a job had; `valid_from` and `valid_to` are its first and last run."""

    TABLE: ClassVar[str] = "job_version"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "structure_hash")
    job_id: str
    structure_hash: str
    graph: str
    dag_version: str
    bundle: str
    bundle_version: str
    valid_from: datetime
    valid_to: datetime
    emitted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAttributeRow:
    """`job_attribute`: one thing said of a job; `changed_at` is the first run of the unbroken row that says it."""

    TABLE: ClassVar[str] = "job_attribute"
    KEY: ClassVar[tuple[str, ...]] = ("attribute_id",)
    attribute_id: str
    job_id: str
    name: str
    value: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsibilityRow:
    """`responsibility`: who answers for a job or dataset."""

    TABLE: ClassVar[str] = "responsibility"
    KEY: ClassVar[tuple[str, ...]] = ("entity_id", "role", "party")
    entity_id: str
    role: str
    party: str
    origin: str
    changed_at: datetime
    changed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """`run`: one run of a job.

    Attributes:
        facts: JSON: how the task instances ended, triggers, aliases, options of the derivation.
        job: JSON: what the job said of itself in this run, for comparisons.
        pairs: number of pairs, also where they are given compressed.
        origin: `openlineage` if only events of others told of it, else empty.
    """

    TABLE: ClassVar[str] = "run"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "run_id")
    job_id: str
    run_id: str
    clear_number: int
    run_type: str
    triggered_by: str
    logical_date: datetime | None
    interval_start: datetime | None
    interval_end: datetime | None
    run_after: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str
    reason: str
    versions: str
    job: str
    structure_hash: str
    facts: str
    pairs: int = 0
    compressed: bool = False
    attempts: int = 1
    incomplete: str = "[]"
    emitted_at: datetime
    event_id: str
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIoRow:
    """`task_io`: what one task instance reported; the highest attempt of the highest clear number.

    Attributes:
        origin: as in `RunRow`.
    """

    TABLE: ClassVar[str] = "task_io"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "run_id", "task_id", "map_index")
    job_id: str
    run_id: str
    task_id: str
    map_index: int
    clear_number: int
    try_number: int
    complete: bool
    state: str
    body: str
    emitted_at: datetime
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLineageEventRow:
    """`openlineage_event`: that an OpenLineage event of a run came, so that it counts once."""

    TABLE: ClassVar[str] = "openlineage_event"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "run_id", "event_id")
    job_id: str
    run_id: str
    event_id: str
    happened_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLineageSaidRow:
    """`openlineage_said`: what an OpenLineage event says of a run, of those that say more than the others.

    Attributes:
        events: how many have come of the run, in the row of its newest one; 0 in the others.
        body: JSON list of messages of ours.
    """

    TABLE: ClassVar[str] = "openlineage_said"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "run_id", "event_id")
    job_id: str
    run_id: str
    event_id: str
    happened_at: datetime
    events: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow:
    """`edge`: a pair over all runs of a job.

    Attributes:
        first_seen, last_seen: first and last run that had it.
        last_declared: last run whose structure promised it, None if it was only ever seen at run time.
        last_run_id, last_state, last_outcome, evidence, columns: of its last run.
        valid_to: since when the job's structure has it no more.
        pruned_runs, pruned_first: what was summed up when old rows of `edge_run` were deleted.
    """

    TABLE: ClassVar[str] = "edge"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "source_id", "target_id")
    job_id: str
    source_id: str
    target_id: str
    first_seen: datetime
    last_seen: datetime
    last_success: datetime | None
    last_declared: datetime | None
    last_run_id: str
    last_state: str
    last_outcome: str
    run_count: int
    evidence: str
    self: bool
    columns: str = ""
    valid_to: datetime | None = None
    pruned_runs: int = 0
    pruned_first: datetime | None = None


POSTED_RUN = "posted"
"""Id of the run under which `edge_run` holds the pairs of a job that follow from posted relations."""
DECLARED_RUN = "openlineage-declared"
"""Id of the run under which stands what an OpenLineage job event says of a job without running it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRunRow:
    """`edge_run`: a pair in one run; the table that grows.

    Attributes:
        origin: `graph` if derived from the run's task graph, `message` if only a message told it, `api` if posted.
        columns: JSON: column edges of the pair, empty if none are known.
    """

    TABLE: ClassVar[str] = "edge_run"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "run_id", "source_id", "target_id")
    job_id: str
    run_id: str
    source_id: str
    target_id: str
    run_after: datetime
    state: str
    outcome: str
    evidence: str
    instances: int
    path: str
    declared: bool
    origin: str
    clear_number: int
    columns: str = ""
    emitted_at: datetime
    event_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeColumnRow:
    """`edge_column`: one field feeds another."""

    TABLE: ClassVar[str] = "edge_column"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "source_id", "source_col", "target_id", "target_col")
    job_id: str
    source_id: str
    source_col: str
    target_id: str
    target_col: str
    direct: bool
    subtype: str
    masking: bool
    last_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationRow:
    """`relation`: a job reads (`input`) or writes (`output`) a dataset.

    Attributes:
        origin: `runs`, `api` if somebody posted it, `both`.
    """

    TABLE: ClassVar[str] = "relation"
    KEY: ClassVar[tuple[str, ...]] = ("job_id", "dataset_id", "direction")
    job_id: str
    dataset_id: str
    direction: str
    origin: str
    last_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairFreezeRow:
    """`repair_freeze`: one DAG that was paused for a repair; a DAG that was paused before is not among them."""

    TABLE: ClassVar[str] = "repair_freeze"
    KEY: ClassVar[tuple[str, ...]] = ("repair_id", "dag_id")
    repair_id: str
    dag_id: str
    job_id: str
    frozen_at: datetime
    frozen_by: str
    resumed_at: datetime | None = None
    resumed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRow:
    """`lineage_export`: what a platform was sent of one job or run, last.

    Attributes:
        target: the platform, without secrets.
        subject: `job/<job id>` or `run/<job id>/<run id>`.
        digest: of what was said; the same is never sent again.
        state: `sent`, or `refused` if the platform will not take it.
        status: of its answer.
        attempts: how many times it took.
        problem: what it said, if it refused.
    """

    TABLE: ClassVar[str] = "lineage_export"
    KEY: ClassVar[tuple[str, ...]] = ("target", "subject")
    target: str
    subject: str
    digest: str
    state: str
    status: int
    attempts: int
    problem: str = ""
    sent_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedRow:
    """`lineage_pruned`: what old runs left behind when they were deleted; without a job id: of all jobs.

    Attributes:
        before: what was told before this moment counts as deleted, and is not loaded again.
        run_id: the newest run of the job that was due before this; it stays.
        said: JSON: what that run said of its job, and since when: name -> [value, ISO time].
        finished_at: when the last deletion was through; only without a job id.
    """

    TABLE: ClassVar[str] = "lineage_pruned"
    KEY: ClassVar[tuple[str, ...]] = ("job_id",)
    job_id: str
    before: datetime
    run_id: str = ""
    said: str = "{}"
    finished_at: datetime | None = None


ROWS: tuple[type[Any], ...] = (
    RawRow, OffsetRow, StageRow, DatasetRow, DatasetAliasRow, DatasetSchemaRow, JobRow, JobVersionRow,
    JobAttributeRow, ResponsibilityRow, RunRow, TaskIoRow, OpenLineageEventRow, OpenLineageSaidRow,
    EdgeRow, EdgeRunRow, EdgeColumnRow, RelationRow, RepairFreezeRow, ExportRow, PrunedRow,
)  # fmt: skip
"""Every table of the warehouse."""
