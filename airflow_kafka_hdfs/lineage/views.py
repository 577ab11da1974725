"""What readers of lineage are told: plain values, the shapes of the REST answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list.

    Attributes:
        total: how many there are in all.
    """

    items: tuple[T, ...]
    total: int
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One suggestion while somebody types."""

    kind: str
    id: str
    name: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Responsible:
    """Who answers for something."""

    role: str
    party: str
    origin: str
    changed_at: datetime
    changed_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetView:
    """One dataset in lists and graphs.

    Attributes:
        restricted: True if no job that the caller may read touches it; then all texts but the handle are empty.
        flags: `failing`, `deprecated`, `temporary`.
        owners, teams: of the jobs that write it, as far as the caller may read them.
        last_written: last run that wrote it with success.
    """

    id: str
    restricted: bool = False
    namespace: str = ""
    name: str = ""
    collection: str = ""
    table: str = ""
    platform: str = ""
    schema_id: str = ""
    schema_version: str = ""
    flags: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    last_written: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job in lists and graphs; a restricted one has only its handle.

    Attributes:
        flags: `failing`, `deprecated`.
        link: path of its page in Airflow, empty for jobs of another deployment.
    """

    id: str
    restricted: bool = False
    instance: str = ""
    dag_id: str = ""
    domain: str = ""
    owners: tuple[str, ...] = ()
    team: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    config_file: str = ""
    flags: tuple[str, ...] = ()
    frequency: str = ""
    period_seconds: int = 0
    first_seen: datetime | None = None
    last_run: datetime | None = None
    last_run_id: str = ""
    last_outcome: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaView:
    """One version of a dataset's schema; a column is (name, type, description)."""

    schema_version: str
    schema_id: str
    seen: datetime
    columns: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """One column that feeds another, of the dataset named on the other side."""

    column: str
    dataset: DatasetView
    other_column: str
    direct: bool
    subtype: str
    masking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourView:
    """A dataset one hop away, and through which jobs."""

    dataset: DatasetView
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run of a job.

    Attributes:
        run_date: logical date, or where there is none the time from which it was due.
        versions: what code and service produced it.
        incomplete: tasks that died before they could report what they read and wrote.
        link: path of its page in Airflow.
    """

    job_id: str
    dag_id: str
    run_id: str
    run_type: str
    run_date: datetime
    run_after: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str
    reason: str
    clear_number: int
    attempts: int
    pairs: int
    compressed: bool
    triggered_by: str
    structure_hash: str
    versions: Mapping[str, str]
    incomplete: tuple[str, ...]
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPage:
    """Everything about one dataset.

    Attributes:
        aliases: other names of it.
        schemas: versions of its schema, newest first.
        writers, readers: jobs with a valid pair to or from it, and those that read it and write nothing.
        upstream, downstream: datasets one hop away, at most 25; `…_total` counts all.
        columns_in, columns_out: column edges into and out of it.
        runs: newest runs of its writers.
        readers_restricted, writers_restricted: how many more jobs there are that the caller may not read.
    """

    dataset: DatasetView
    aliases: tuple[tuple[str, str], ...]
    schemas: tuple[SchemaView, ...]
    responsibilities: tuple[Responsible, ...]
    writers: tuple[JobView, ...]
    readers: tuple[JobView, ...]
    writers_restricted: int
    readers_restricted: int
    upstream: tuple[NeighbourView, ...]
    downstream: tuple[NeighbourView, ...]
    upstream_total: int
    downstream_total: int
    columns_in: tuple[ColumnView, ...]
    columns_out: tuple[ColumnView, ...]
    runs: tuple[RunView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeView:
    """One thing said of a job, with an id of its own and since when it is said."""

    id: str
    name: str
    value: str
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersionView:
    """One structure that a job had, from its first to its last run."""

    structure_hash: str
    dag_version: str
    bundle: str
    bundle_version: str
    valid_from: datetime
    valid_to: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Everything about one job.

    Attributes:
        kept_since: older runs have been deleted; None if none were.
    """

    job: JobView
    attributes: tuple[AttributeView, ...]
    responsibilities: tuple[Responsible, ...]
    versions: tuple[JobVersionView, ...]
    inputs: tuple[DatasetView, ...]
    outputs: tuple[DatasetView, ...]
    pairs: int
    runs: tuple[RunView, ...]
    kept_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairView:
    """One pair of one job, over its runs or in one of them.

    Attributes:
        path: one shortest way through the tasks, for a pair of one run.
        valid_to: since when the job's structure has it no more.
    """

    job: JobView
    source: DatasetView
    target: DatasetView
    state: str
    evidence: tuple[str, ...]
    outcome: str
    run_id: str
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    last_success: datetime | None = None
    runs: int = 1
    path: tuple[str, ...] = ()
    instances: int = 0
    valid_to: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One dataset of a graph.

    Attributes:
        distance: hops from the root; negative upstream.
        hidden_up, hidden_down: how many more datasets are one hop away and not in this graph.
    """

    dataset: DatasetView
    distance: int
    hidden_up: int = 0
    hidden_down: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """One line of a graph: all jobs that have this pair.

    Attributes:
        jobs: ids of the jobs, or handles of restricted ones; `GraphView.jobs` has them.
        state: `written` if any of them wrote, else that of the newest.
    """

    source: str
    target: str
    jobs: tuple[str, ...]
    state: str
    evidence: tuple[str, ...]
    last_seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphView:
    """The surroundings of a dataset.

    Attributes:
        truncated: True if the limit left datasets out; nodes count what is hidden behind each.
    """

    root: str
    as_of: datetime
    nodes: tuple[NodeView, ...]
    links: tuple[LinkView, ...]
    jobs: tuple[JobView, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactItem:
    """One dataset that can be reached, with whom to talk to."""

    dataset: DatasetView
    distance: int
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactView:
    """All that can be reached from a dataset, nearest first.

    Attributes:
        total: datasets reached; `restricted` of them can't be named.
        by_distance: how many at each distance, from 1 on.
    """

    root: DatasetView
    direction: str
    as_of: datetime
    items: tuple[ImpactItem, ...]
    total: int
    restricted: int
    by_distance: tuple[int, ...]
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathView:
    """A shortest way between two datasets; no nodes if there is none."""

    nodes: tuple[DatasetView, ...]
    links: tuple[LinkView, ...]
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between two runs; `before` or `after` is empty where there was nothing."""

    what: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareView:
    """What changed in a job between two dates.

    Attributes:
        at, with_: the run that was newest at each date, None if there was none.
        changes: versions, owners, team, file, structure, inputs, outputs.
    """

    job: JobView
    at: RunView | None
    with_: RunView | None
    changes: tuple[Change, ...]
    gained: tuple[tuple[DatasetView, DatasetView], ...]
    lost: tuple[tuple[DatasetView, DatasetView], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularityView:
    """How much a dataset is read.

    Attributes:
        days: (day, runs, readers, teams) for each day with a reading run.
        kept_since: since when days are told, if that is later than was asked for; older runs have been deleted.
    """

    dataset: DatasetView
    readers: int
    runs: int
    teams: tuple[str, ...]
    days: tuple[tuple[str, int, int, int], ...] = ()
    kept_since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsView:
    """Numbers for a start page, of what the caller may see.

    Attributes:
        failing, deprecated: some of these jobs, newest run first; `failing_total` and `deprecated_total` count all.
        fresh: jobs seen for the first time in the last week.
        kept_since: older runs have been deleted; None if none were.
    """

    datasets: int
    jobs: int
    failing: tuple[JobView, ...]
    failing_total: int
    deprecated: tuple[JobView, ...]
    deprecated_total: int
    fresh: tuple[JobView, ...]
    last_loaded: datetime | None
    kept_since: datetime | None = None


_PLAIN = frozenset({str, int, float, bool, type(None)})
_MEMBERS: dict[type[Any], tuple[tuple[str, str], ...]] = {}


def _members(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Name of each field of a view, and its name in JSON; none for what is no view."""
    found = _MEMBERS.get(kind)
    if found is None:
        found = tuple((item.name, item.name.rstrip("_")) for item in fields(kind)) if is_dataclass(kind) else ()
        _MEMBERS[kind] = found
    return found


def to_json(value: Any) -> Any:
    """Views as plain JSON values; a name's trailing underscore goes."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if members := _members(kind):
        # Most fields are plain: a call for each of them takes longer than everything else.
        return {
            name: item if type(item := getattr(value, member)) in _PLAIN else to_json(item) for member, name in members
        }
    if isinstance(value, list | tuple):
        return [item if type(item) in _PLAIN else to_json(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    return value
