"""Faults put into the product on purpose, each as a context in which seeds run: the simulation must find every one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from airflow_kafka_hdfs.ingest import collecting, committing, finishing, wire
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import Checkpoint, LogState
from airflow_kafka_hdfs.ingest.log import CommitLog, LogView
from airflow_kafka_hdfs.ingest.records import Commit
from tests.fakes.runtime import SeededIds
from tests.simulation import world
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
    """Attempts of a task have one id."""
    real = SeededIds.hex

    def hex_(self: SeededIds, digits: int) -> str:
        return "0" * digits if digits == 32 else real(self, digits)

    with mock.patch.object(SeededIds, "hex", hex_):
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


FAULTS: list[Callable[[], Any]] = [
    no_overlap_check,
    record_overwritten,
    staging_of_open_plans_collected,
    committed_files_collected_before_they_are_promoted,
    attempts_share_a_staging_path,
    checkpoint_from_a_listing,
]
