"""Plans: everything that shapes the bytes and places of one run, written once before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Held, Kind, PartitionKey, Superseded
from airflow_kafka_hdfs.model import RunRef


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkUnit:
    """Offsets `[low, high)` of one Kafka partition, to be read by one task."""

    key: PartitionKey
    low: int
    high: int

    def __len__(self) -> int:
        return self.high - self.low


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlan:
    """All work units of one topic in one mapped task: the smallest thing that commits or fails as a whole."""

    topic: str
    work_units: tuple[WorkUnit, ...]

    def ranges(self) -> dict[PartitionKey, Ranges]:
        """What it reads, per partition."""
        spans: dict[PartitionKey, list[tuple[int, int]]] = {}
        for work_unit in self.work_units:
            spans.setdefault(work_unit.key, []).append((work_unit.low, work_unit.high))
        return {key: Ranges.of(pairs) for key, pairs in spans.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """The MultiWorkUnit of one mapped task.

    Attributes:
        label: for people, at most 200 characters, such as `events[0-11], clicks[3] +14`.
        weight: what packing balanced, in the unit of the estimator (seconds or bytes).
    """

    index: int
    label: str
    units: tuple[UnitPlan, ...]
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """Why a partition's range of this plan is what it is; for people, logs and metrics.

    Attributes:
        reason: a code of `reasons.Reason`.
        previous: the watermark before, None for a partition that is new.
        ranges: what is to be read.
        log_start: first offset that the broker held.
        log_end: the last stable offset then.
        lost: offsets that planning found gone, already committed by it. In an interval plan nothing is committed: those
            below the log start that no commit covers, the most that its range can have lost.
        skipped: offsets that a policy of planning jumped over, likewise.
        promised: for interval plans: the offsets that the interval stands for; the run is green once they are all
            covered or lost, also those beyond the last stable offset.
    """

    key: PartitionKey
    reason: str
    previous: int | None
    ranges: Ranges
    log_start: int
    log_end: int
    lost: int = 0
    skipped: int = 0
    promised: Ranges = Ranges()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Ranges left out of an interval plan because the plan of a live run holds them.

    Attributes:
        plan: that plan.
        log_head: its `Plan.log_head`, from where its records are looked for.
    """

    plan: str
    log_head: int
    key: PartitionKey
    ranges: Ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run's plan.

    Attributes:
        plan: its name (`layout.plan_id`).
        key: 16 hex digits under which the run finds it again (`layout.plan_key`).
        counter: how many plans the run had made before.
        clock: ISO time, UTC; the "now" of everything that the plan decides.
        log_head: number of the last commit when it was made, -1 for none.
        kind: `forward`, `interval` or `replace`.
        interval: (from, to) as ISO times for interval mode, else None.
        request: id of an explicit request (replace, reset), else None.
        config: pinned settings: topic -> plain values of `config.TopicConfig`.
        config_digest: digest of the deployed configuration that it was made from.
        schemas: topic -> pinned schema facts, for topics that need one.
        entries: one per partition looked at.
        tasks: the mapped tasks.
        held: topics held back by planning.
        waiting: ranges left to the plans of live runs.
        replaces: for `replace`: files to supersede.
        dry_run: shown, never stored or read.
    """

    plan: str
    key: str
    counter: int
    pipeline: str
    run: RunRef
    clock: str
    log_head: int
    kind: Kind
    config: Mapping[str, Mapping[str, Any]]
    config_digest: str
    interval: tuple[str, str] | None = None
    request: str | None = None
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    entries: tuple[PlanEntry, ...] = ()
    tasks: tuple[TaskPlan, ...] = ()
    held: tuple[Held, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    replaces: tuple[Superseded, ...] = ()
    dry_run: bool = False

    @property
    def units(self) -> dict[tuple[int, str], UnitPlan]:
        """(task, topic) -> unit."""
        return {(task.index, unit.topic): unit for task in self.tasks for unit in task.units}

    @property
    def is_empty(self) -> bool:
        """Nothing to read, to replace or to hold back: it needs no commit."""
        return not (self.tasks or self.held or self.replaces)

    def ranges(self) -> dict[PartitionKey, Ranges]:
        """What its tasks read, per partition."""
        result: dict[PartitionKey, Ranges] = {}
        for unit in self.units.values():
            for key, ranges in unit.ranges().items():
                result[key] = result.get(key, Ranges()) | ranges
        return result
