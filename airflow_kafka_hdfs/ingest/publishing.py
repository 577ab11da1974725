"""Rolling commits forward: their files come into place, and a marker says that it is done.

Publishing is a function of the record; nothing is decided here, so any number of publishers may do it at once, and
whoever comes next finishes what a dead one began.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import CorruptStateError, StoreRefusedError
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.records import Commit, FileEntry, Superseded
from airflow_kafka_hdfs.model import PRIVATE, Modes


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A file that could not be brought into place (quota, permission, something in its way)."""

    commit: int
    path: str
    detail: str

    def __str__(self) -> str:
        return f"commit {self.commit}: {self.path}: {self.detail}"


def roll_forward(ctx: Context, numbers: Iterable[int], view: LogView) -> list[Refusal]:
    """Bring the files of commits into place, oldest first, and mark each commit that is whole.

    Args:
        numbers: commits to roll forward; one that has its marker costs nothing.
        view: a reading of the log that knows them.

    Returns:
        Files that the store refused. Their commits stay without a marker; other files and commits went on.

    Raises:
        CorruptStateError: a file stands neither in staging nor at its place, and no later commit supersedes it.
        StoreUnavailableError: the store went away; doing it again is safe.
    """
    refusals: list[Refusal] = []
    for number in sorted(numbers):
        commit = view.records.get(number)
        if commit is None:
            ((commit, _),) = ctx.log.records([number])
        if commit.has_effects:
            refusals += _publish(ctx, commit)
    return refusals


def roll_forward_all(ctx: Context, view: LogView) -> list[Refusal]:
    """Roll forward every commit without a marker; the first thing that planning does. Raises as `roll_forward`."""
    return roll_forward(ctx, ctx.log.unpublished(view), view)


def _publish(ctx: Context, commit: Commit) -> list[Refusal]:
    # A replace promotes nothing until all its superseded files are out of place, so that readers never see both.
    refusals = [r for r in ctx.workers.map(lambda item: _take_out(ctx, commit, item), commit.superseded) if r]
    if not refusals:
        refusals = [r for r in ctx.workers.map(lambda entry: _promote(ctx, commit, entry), commit.files) if r]
    if not refusals:
        ctx.state.put_if_absent(ctx.log.paths.published(commit.number), _marker(commit.number))
    return refusals


def _take_out(ctx: Context, commit: Commit, item: Superseded) -> Refusal | None:
    try:
        # Missing at both places: retention of the user or of the collector took it; it is out of place all the same.
        ctx.data.promote(item.path, ctx.log.data_paths.superseded(commit.number, item.path), item.size)
    except StoreRefusedError as error:
        return Refusal(commit=commit.number, path=item.path, detail=str(error))
    return None


def _promote(ctx: Context, commit: Commit, entry: FileEntry) -> Refusal | None:
    modes = PRIVATE if entry.quarantine else Modes(folder=entry.dir_mode)
    try:
        if ctx.data.promote(entry.staged, entry.path, entry.size, modes=modes):
            return None
    except StoreRefusedError as error:
        return Refusal(commit=commit.number, path=entry.path, detail=str(error))
    if _is_settled(ctx, commit, entry.path):
        return None
    raise CorruptStateError(
        entry.path,
        f"commit {commit.number} lists it, but it stands neither there nor in staging ({entry.staged})",
    )


def _is_settled(ctx: Context, commit: Commit, path: str) -> bool:
    """Whether a missing file may be missing: published and perhaps gone since, or superseded by a later commit."""
    if ctx.state.status(ctx.log.paths.published(commit.number)) is not None:
        return True
    view = ctx.log.read(since=commit.number)
    later = (record for number, record in view.records.items() if number > commit.number)
    return any(item.path == path for record in later for item in record.superseded)


def _marker(number: int) -> bytes:
    return f'{{"commit":{number},"format":1}}\n'.encode()


def announce(ctx: Context, numbers: Iterable[int]) -> None:
    """Mark commits whose asset events are known to have been sent."""
    ctx.workers.map(
        lambda number: ctx.state.put_if_absent(ctx.log.paths.announced(number), _marker(number)), sorted(numbers)
    )
