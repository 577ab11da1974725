"""A pipeline in a few lines for tests of the log: plans made by hand, files of one byte per record."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.layout import FileName, plan_id, plan_key
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.plans import Plan, TaskPlan, UnitPlan, WorkUnit
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import (
    Commit,
    Counts,
    FileEntry,
    Kind,
    Manifest,
    Outcome,
    PartitionChange,
    PartitionKey,
    PartitionResult,
    UnitResult,
)
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.store import Store
from tests.fakes.runtime import KnownRuns, ManualClock, SeededIds, SerialWorkers
from tests.fakes.store import InMemoryStore

CLOCK = ManualClock()
RUNS = KnownRuns()


def key(topic: str = "events", partition: int = 0, **changes) -> PartitionKey:
    body = {"topic": topic, "partition": partition, "cluster_id": "c", "topic_id": f"id-{topic}", **changes}
    return PartitionKey(**body)


class Job:
    """One actor of a pipeline.

    Args:
        store: shared by all actors; the state root is a folder of it.
        run: run id.
        seed: makes its ids unique among the actors of a test.
    """

    def __init__(self, store: Store | None = None, run: str = "run-1", seed: int | None = None) -> None:
        self.store = store or InMemoryStore()
        workers = SerialWorkers()
        log = CommitLog(self.store, self.store, workers, "p")
        self.ctx = Context(
            log=log,
            run=RunRef(dag_id="d", run_id=run),
            clock=CLOCK,
            ids=SeededIds(hash(run) % 1000 if seed is None else seed),
            run_states=RUNS,
        )

    def start(self, *keys: PartitionKey, at: int = 0) -> Commit:
        """Commit start points."""
        commit = self._record(Kind.FORWARD, tuple(PartitionChange(key=item, start=at) for item in keys))
        assert self.ctx.log.append(commit)
        return commit

    def change(self, *changes: PartitionChange, kind: Kind = Kind.RESET, **fields) -> Commit:
        commit = dataclasses.replace(self._record(kind, changes), **fields)
        assert self.ctx.log.append(commit)
        return commit

    def _record(self, kind: Kind, changes: tuple[PartitionChange, ...]) -> Commit:
        head = self.ctx.log.read().head
        return Commit(
            number=head + 1,
            kind=kind,
            run=self.ctx.run,
            clock=self.ctx.timestamp(),
            attempt=self.ctx.ids.hex(16),
            changes=changes,
        )

    def plan(self, *tasks: Sequence[tuple[PartitionKey, int, int]], kind: Kind = Kind.FORWARD, **fields) -> Plan:
        """Store a plan; each task is a list of (key, low, high)."""
        counter = 0
        run_key = plan_key("p", self.ctx.run)
        while self.store.get(self.ctx.log.paths.plan(run_key, counter)) is not None:
            counter += 1
        task_plans = []
        for index, work in enumerate(tasks):
            topics = sorted({item.topic for item, _, _ in work})
            units = tuple(
                UnitPlan(
                    topic=topic,
                    work_units=tuple(WorkUnit(key=k, low=lo, high=hi) for k, lo, hi in work if k.topic == topic),
                )
                for topic in topics
            )
            task_plans.append(TaskPlan(index=index, label=str(index), units=units))
        plan = Plan(
            plan=plan_id(self.ctx.clock.now(), self.ctx.ids.hex(8)),
            key=run_key,
            counter=counter,
            pipeline="p",
            run=self.ctx.run,
            clock=self.ctx.timestamp(),
            log_head=self.ctx.log.read().head,
            kind=kind,
            config={},
            config_digest="",
            tasks=tuple(task_plans),
            **fields,
        )
        assert self.store.put_if_absent(self.ctx.log.paths.plan(run_key, counter), wire.encode("plan", plan))
        return plan

    def extract(
        self,
        plan: Plan,
        task: int = 0,
        *,
        k: int = 0,
        reach: int | None = None,
        outcome: Outcome = Outcome.DONE,
        reason: str = "",
        bad: int = 0,
        only: str | None = None,
    ) -> Manifest:
        """Stage one file per work unit and write the manifest; with `reach` each work unit ends there."""
        attempt = self.ctx.ids.hex(32)
        results = []
        for unit in plan.tasks[task].units:
            if only is not None and unit.topic != only:
                continue
            files, parts = [], {}
            for i, work in enumerate(unit.work_units):
                high = work.high if reach is None else min(work.high, max(reach, work.low))
                good = max(high - work.low - bad, 0)
                if good:
                    files.append(self._stage(plan, task, attempt, unit.topic, work, i, good))
                if high - work.low - good:
                    files.append(
                        self._stage(plan, task, attempt, unit.topic, work, i, high - work.low - good, bad=True)
                    )
                part = parts.get(work.key) or PartitionResult(key=work.key, covered=Ranges())
                parts[work.key] = PartitionResult(
                    key=work.key,
                    covered=part.covered | Ranges.span(work.low, high),
                    counts=part.counts + Counts(written=good, quarantined=high - work.low - good, records_out=good),
                )
            results.append(
                UnitResult(
                    topic=unit.topic,
                    outcome=outcome,
                    reason=reason,
                    detail=reason and "as the test wants it",
                    partitions=tuple(parts.values()),
                    files=tuple(files),
                )
            )
        manifest = Manifest(plan=plan.plan, task=task, k=k, attempt=attempt, units=tuple(results))
        path = self.ctx.log.paths.manifest(plan.plan, task, k)
        assert self.store.put_if_absent(path, wire.encode("manifest", manifest))
        return manifest

    def _stage(
        self, plan: Plan, task: int, attempt: str, topic: str, work: WorkUnit, index: int, count: int, *, bad=False
    ) -> FileEntry:
        name = FileName(topic=topic, plan=plan.plan, task=task, index=index, extension=".bad" if bad else ".txt")
        staged = f"{self.ctx.log.data_paths.staging(plan.plan, task, attempt)}/{work.key.partition}-{name}"
        writer = self.store.create(staged)
        writer.write(b"x" * count)
        writer.close()
        return FileEntry(
            path=f"{topic}/2026/01/01/00/{work.key.partition}-{name}",
            staged=staged,
            topic=topic,
            topic_id=work.key.topic_id,
            size=count,
            digest="",
            records=count,
            records_out=count,
            offsets={work.key.partition: (work.low, work.low + count - 1, count)},
            quarantine=bad,
        )

    def data_files(self, topic: str = "events") -> list[str]:
        files = self.store.files()
        return sorted(path for path in files if path.startswith(f"{topic}/"))

    def visible(self, topic: str = "events") -> int:
        """Records in visible data files."""
        return sum(len(content) for path, content in self.store.files().items() if path.startswith(f"{topic}/"))
