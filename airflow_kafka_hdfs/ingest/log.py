"""The commit log of one pipeline: reading it to its head, and appending to it.

A commit is made by the atomic creation of the next numbered record after a check against every record before it.
The head is the first number whose `get` finds nothing, never a listing; checkpoints shorten the way to it and are made
only from records `0..n`, or from an older checkpoint and the rest. Records are never deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_kafka_hdfs.exceptions import CorruptStateError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.coverage import Checkpoint, LogState
from airflow_kafka_hdfs.ingest.layout import SHARD, DataPaths, StatePaths
from airflow_kafka_hdfs.ingest.records import Commit, Kind
from airflow_kafka_hdfs.ports.runtime import Workers
from airflow_kafka_hdfs.ports.store import Store

CHECKPOINT_EVERY = 20
"""Commits between checkpoints: start-up reads at most about twice as many records, and a checkpoint is rare enough
not to matter on HDFS, where a small file costs up to half a second."""

_WINDOWS = (2, 6, 16)
"""Records asked for side by side while looking for the head: most readings find nothing or one record, and only the
long way is worth requests that find nothing. The last one holds from there on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """The log as read up to its head.

    Attributes:
        state: its sum.
        records: number -> record, for every number above the checkpoint or the `since` of the reading, whichever
            is lower.
        checkpoint: number of the checkpoint that reading began with, -1 for none.
    """

    state: LogState
    records: Mapping[int, Commit] = field(default_factory=dict)
    checkpoint: int = -1

    @property
    def head(self) -> int:
        """Number of the last record, -1 for an empty log."""
        return self.state.head

    def of_plan(self, plan: str) -> list[Commit]:
        """Records of a plan among `records`, in order. Ask with `since` at or below the plan's `log_head`."""
        return [commit for _, commit in sorted(self.records.items()) if commit.plan == plan]

    def abort_of(self, plan: str) -> Commit | None:
        """The record that ended a plan, if there is one."""
        return next((commit for commit in self.of_plan(plan) if commit.kind is Kind.ABORT), None)


class CommitLog:
    """Reads and appends the records of one pipeline.

    Args:
        state: store rooted at the state root.
        data: store rooted at the destination.
        workers: for independent reads.
        pipeline: the pipeline's id.
        copies: write a copy of each record beside the data; on when the state root is elsewhere.
    """

    def __init__(self, state: Store, data: Store, workers: Workers, pipeline: str, *, copies: bool = False) -> None:
        self.state = state
        self.data = data
        self.workers = workers
        self.paths = StatePaths()
        self.data_paths = DataPaths(pipeline)
        self.copies = copies
        self._last: LogView | None = None

    def unread(self) -> CommitLog:
        """The same log for somebody who takes nothing for granted that this process has read before."""
        return CommitLog(self.state, self.data, self.workers, self.data_paths.pipeline, copies=self.copies)

    def read(self, since: int | None = None, known: LogView | None = None) -> LogView:
        """Read the log to its head; from where this object stood last, since no record ever changes.

        Args:
            since: also return every record above this number (`Plan.log_head`), even below a checkpoint.
            known: an earlier reading to go on from, of whichever object.

        Raises:
            CorruptStateError: a record or checkpoint is unreadable, or does not follow the one before it.
            NewerFormatError: written by a newer version.
            StoreUnavailableError, StoreRefusedError: from the store.
        """
        view = self._last
        if view is None or (known is not None and known.head > view.head):
            view = known
        if view is None:
            start = self._newest_checkpoint()
            view = LogView(state=start, checkpoint=start.head)
        tail = self._tail(view.head)
        more = {commit.number: commit for commit, _ in tail}
        if known is not None and known is not view:
            more.update(known.records)
        if since is not None:
            numbers = range(since + 1, view.head + len(tail) + 1)
            missing = [number for number in numbers if number not in view.records and number not in more]
            more.update({commit.number: commit for commit, _ in self.records(missing)})
        if more:
            records = {**view.records, **more}
            view = LogView(state=self._folded(view.state, tail), records=records, checkpoint=view.checkpoint)
        self._last = view
        return view

    def records(self, numbers: Iterable[int]) -> list[tuple[Commit, str]]:
        """Records by number with the digests of their bytes.

        Raises:
            CorruptStateError: one that must exist is gone or unreadable.
        """
        wanted = list(numbers)
        result = []
        for number, found in zip(wanted, self.workers.map(self._get, wanted), strict=True):
            if found is None:
                raise CorruptStateError(self.paths.commit(number), "the record is gone; records are never deleted")
            result.append(found)
        return result

    def append(self, commit: Commit, *, copy: bool = True) -> bool:
        """Create the next record.

        Args:
            commit: with `number` = head + 1 of the reading that it was checked against.
            copy: also make its copy; False for a caller who calls `copy` beside its next step.

        Returns:
            True if the record stands now, False if another one has this number: read on, check again.
        """
        data = wire.encode("commit", commit)
        path = self.paths.commit(commit.number)
        if not self.state.put_if_absent(path, data):
            return False
        return self.copy(commit.number) if copy else True

    def copy(self, number: int) -> bool:
        """Put a copy of a record beside the data, and of those before it whose makers died before they could.

        Returns:
            True, also where no copies are kept.
        """
        if not self.copies:
            return True
        missing = [number]
        while missing[-1] and self.data.status(self.data_paths.log_copy(missing[-1] - 1)) is None:
            missing.append(missing[-1] - 1)
        for one in reversed(missing):
            data = self.state.get(self.paths.commit(one))
            if data is not None:
                self.data.put_if_absent(self.data_paths.log_copy(one), data)
        return True

    def unpublished(self, view: LogView) -> list[int]:
        """Commits with effects that have no `published` marker, in order."""
        return self._unmarked(sorted(view.state.unpublished), self.paths.published)

    def unannounced(self, view: LogView) -> list[int]:
        """Published commits with datasets that have no `announced` marker, in order."""
        return self._unmarked(sorted(view.state.unannounced), self.paths.announced)

    def checkpoint_if_due(self, view: LogView) -> int | None:
        """Sum the log up if enough records came since the last checkpoint.

        Returns:
            Number of the checkpoint that was made, None if none was due.
        """
        if view.head - view.checkpoint < CHECKPOINT_EVERY:
            return None
        open_, silent = set(self.unpublished(view)), set(self.unannounced(view))
        state = view.state.marked(published=view.state.unpublished - open_, announced=view.state.unannounced - silent)
        self.state.put_if_absent(self.paths.checkpoint(view.head), wire.encode("checkpoint", Checkpoint.of(state)))
        self._last = None  # the next reading begins with it
        return view.head

    def recomputed(self, upto: Iterable[int]) -> dict[int, LogState]:
        """The sums of records 0 to each of the given numbers, checkpoints ignored; for `state doctor`."""
        wanted, tail = set(upto), self._tail(-1)
        state, sums = LogState(), {}
        for item in tail:
            state = self._folded(state, [item])
            if state.head in wanted:
                sums[state.head] = state
        return sums

    def checkpoints(self) -> list[int]:
        """Numbers of all checkpoints, newest first; a stale listing only costs time."""
        numbers = []
        for shard in self.state.list("checkpoints"):
            if shard.is_dir and shard.name.isdigit():
                numbers += [int(file.name) for file in self.state.list(shard.path) if file.name.isdigit()]
        return sorted(numbers, reverse=True)

    def checkpoint_at(self, number: int) -> Checkpoint | None:
        """One checkpoint. Raises CorruptStateError, NewerFormatError."""
        path = self.paths.checkpoint(number)
        data = self.state.get(path)
        return None if data is None else wire.decode(path, "checkpoint", Checkpoint, data)

    def _newest_checkpoint(self) -> LogState:
        shards = [int(item.name) for item in self.state.list("checkpoints") if item.is_dir and item.name.isdigit()]
        for shard in sorted(shards, reverse=True):
            files = self.state.list(f"checkpoints/{shard}")
            numbers = [int(file.name) for file in files if file.name.isdigit() and int(file.name) // SHARD == shard]
            for number in sorted(numbers, reverse=True):
                found = self.checkpoint_at(number)
                if found is not None:
                    return found.state()
        return LogState()

    def _tail(self, head: int) -> list[tuple[Commit, str]]:
        """All records above `head`; the first missing number ends the log, whatever stands above it."""
        tail: list[tuple[Commit, str]] = []
        for window in itertools.chain(_WINDOWS, itertools.repeat(_WINDOWS[-1])):
            first = head + len(tail) + 1
            for item in self.workers.map(self._get, range(first, first + window)):
                if item is None:
                    return tail
                tail.append(item)
        return tail

    def _folded(self, state: LogState, tail: list[tuple[Commit, str]]) -> LogState:
        if not tail:
            return state
        try:
            return state.fold(tail)
        except ValueError as error:
            raise CorruptStateError(self.paths.commit(state.head + 1), str(error)) from error

    def _get(self, number: int) -> tuple[Commit, str] | None:
        path = self.paths.commit(number)
        data = self.state.get(path)
        if data is None:
            return None
        commit = wire.decode(path, "commit", Commit, data)
        if commit.number != number:
            raise CorruptStateError(path, f"the record says that it is number {commit.number}")
        return commit, wire.bytes_digest(data)

    def _unmarked(self, numbers: list[int], marker: Callable[[int], str]) -> list[int]:
        found = self.workers.map(lambda number: self.state.status(marker(number)), numbers)
        return [number for number, status in zip(numbers, found, strict=True) if status is None]
