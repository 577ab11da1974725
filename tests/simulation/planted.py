"""Faults put into the product on purpose, each as a context in which seeds run: the simulation must find every one."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from airflow_kafka_hdfs.ingest import collecting, committing, finishing, planning, replaying, wire
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import Checkpoint, LogState
from airflow_kafka_hdfs.ingest.datum.container import Chunk
from airflow_kafka_hdfs.ingest.extraction import Extraction, _Attempt
from airflow_kafka_hdfs.ingest.log import CommitLog, LogView
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Manifest, PartitionChange
from airflow_kafka_hdfs.ingest.writers.sinks import StreamSink
from airflow_kafka_hdfs.model import STORES_OWN, Modes, TopicPartition
from tests.fakes.runtime import SeededIds
from tests.simulation import mix, world
from tests.simulation.store import SimulatedStore


@contextmanager
def no_overlap_check() -> Iterator[None]:
    """Publish takes what is decided already."""
    with mock.patch.object(committing, "_overlaps", return_value=False):
        yield


@contextmanager
def record_overwritten() -> Iterator[None]:
    """The store replaces what stands there, as a plain rename does."""

    def put(self: SimulatedStore, path: str, data: bytes) -> bool:
        self._pause("put")
        self._disk.put(self._prefix + path, data)
        return True

    with mock.patch.object(SimulatedStore, "put_if_absent", put):
        yield


@contextmanager
def staging_of_open_plans_collected() -> Iterator[None]:
    """The collector cleans staging without a look at the log."""
    real = collecting.collect

    def collect(ctx: Context, **options: Any) -> collecting.Collected:
        for folder in ctx.data.list(f"{ctx.log.data_paths.home}/staging"):
            ctx.data.delete(folder.path, recursive=True)
        return real(ctx, **options)

    with mock.patch.object(finishing, "collect", collect), mock.patch.object(world, "collect", collect):
        yield


@contextmanager
def committed_files_collected_before_they_are_promoted() -> Iterator[None]:
    """The collector takes a commit for published without its marker."""
    with mock.patch.object(collecting, "_is_published", return_value=True):
        yield


@contextmanager
def attempts_share_a_staging_path() -> Iterator[None]:
    """Attempts of a task have one id, the store opens what stands there anew, and no commit looks at staged files."""
    real = SeededIds.hex
    create = SimulatedStore.create

    def anew(self: SimulatedStore, path: str, *, modes: Modes = STORES_OWN) -> Any:
        self._disk.files.pop(self._prefix + path, None)
        return create(self, path, modes=modes)

    def hex_(self: SeededIds, digits: int) -> str:
        return "0" * digits if digits == 32 else real(self, digits)

    def attempts(of: world.World, chance: random.Random) -> list[tuple[str, Any]]:
        return [("run-1", of.run("run-1")), *((f"again {n}", of.extract_again("run-1")) for n in range(3))]

    with (
        mock.patch.object(SeededIds, "hex", hex_),
        mock.patch.object(SimulatedStore, "create", anew),
        mock.patch.object(mix, "_actors", attempts),
        mock.patch.object(committing, "staged_files_stand", return_value=True),
    ):
        yield


@contextmanager
def checkpoint_from_a_listing() -> Iterator[None]:
    """The log is summed up from the records that a listing shows."""

    def checkpoint_if_due(self: CommitLog, view: LogView) -> int:
        state = LogState()
        for file in sorted(self.state.list("commits/0"), key=lambda file: int(file.name)):
            data = self.state.get(file.path) or b""
            commit = wire.decode(file.path, "commit", Commit, data)
            state = dataclasses.replace(state, head=commit.number - 1).fold([(commit, wire.bytes_digest(data))])
        state = dataclasses.replace(state, head=view.head)
        self.state.put_if_absent(self.paths.checkpoint(view.head), wire.encode("checkpoint", Checkpoint.of(state)))
        return view.head

    with mock.patch.object(CommitLog, "checkpoint_if_due", checkpoint_if_due):
        yield


@contextmanager
def collector_outside_the_log() -> Iterator[None]:
    """The collector takes the plans of dead runs for ended without a record that says so."""
    with (
        mock.patch.object(collecting, "abort_plan", lambda ctx, plan, why: ctx.log.read(since=plan.log_head)),
        mock.patch.object(collecting, "is_old", return_value=True),
    ):
        yield


@contextmanager
def end_offset_looked_up_twice() -> Iterator[None]:
    """The commit says that everything is read up to an end that was looked up after the reading."""
    real = committing._changes

    def changes(*given: Any) -> tuple[PartitionChange, ...]:
        return tuple(
            dataclasses.replace(change, covered=change.covered | Ranges.span(change.covered.end or 0, change.log_end))
            for change in real(*given)
        )

    with mock.patch.object(committing, "_changes", changes):
        yield


@contextmanager
def planner_that_trusts_group_offsets() -> Iterator[None]:
    """Tasks move the offsets of a consumer group when they have read, and planning begins there."""
    group: dict[TopicPartition, int] = {}
    real_put, real_leave = _Attempt._put, planning.leave_to_others

    def put(self: _Attempt, manifest: Manifest, gone: str) -> Extraction:
        for unit in manifest.units:
            for part in unit.partitions:
                place = part.key.topic_partition
                group[place] = max(group.get(place, 0), part.covered.end or 0)
        return real_put(self, manifest, gone)

    def leave(entries: Any, plans: Any) -> Any:
        left, waiting = real_leave(entries, plans)
        cut = (dataclasses.replace(e, ranges=e.ranges.from_on(group.get(e.key.topic_partition, 0))) for e in left)
        return tuple(cut), waiting

    start = world.World.__post_init__

    def fresh(self: world.World) -> None:
        group.clear()
        start(self)

    with (
        mock.patch.object(world.World, "__post_init__", fresh),
        mock.patch.object(_Attempt, "_put", put),
        mock.patch.object(planning, "leave_to_others", leave),
    ):
        yield


@contextmanager
def writer_that_drops_a_block() -> Iterator[None]:
    """What is written after the first block of a file is counted, but never arrives."""
    real = StreamSink._write

    def write(self: StreamSink, block: Chunk) -> None:
        if self._records:
            self._records += block[1]
            return
        real(self, block)

    with mock.patch.object(StreamSink, "_write", write):
        init = StreamSink.__init__

        def small(self: StreamSink, out: Any, compressor: Any, **options: Any) -> None:
            init(self, out, compressor, **{**options, "block_bytes": 40})

        with mock.patch.object(StreamSink, "__init__", small):
            yield


@contextmanager
def replay_without_a_look_at_the_log() -> Iterator[None]:
    """A replay takes what waited when it began, whatever was committed since."""
    with mock.patch.object(replaying._Attempt, "_still_wait", return_value=True):
        yield


FAULTS: list[Callable[[], Any]] = [
    no_overlap_check,
    record_overwritten,
    staging_of_open_plans_collected,
    committed_files_collected_before_they_are_promoted,
    attempts_share_a_staging_path,
    checkpoint_from_a_listing,
    collector_outside_the_log,
    end_offset_looked_up_twice,
    planner_that_trusts_group_offsets,
    writer_that_drops_a_block,
    replay_without_a_look_at_the_log,
]
