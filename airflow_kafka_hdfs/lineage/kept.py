"""Since when runs are kept, and what the ones before said of their job.

Old runs can be deleted (`pruning`). Pairs, datasets and jobs stay with all that is known of them. Questions about
single runs before the kept range are refused, so that nobody takes a gap for an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.events import Message
from airflow_kafka_hdfs.lineage.openlineage import OpenLineageEvent
from airflow_kafka_hdfs.lineage.storage_text import compact
from airflow_kafka_hdfs.ports.lineage_pruning import Rows
from airflow_kafka_hdfs.ports.lineage_rows import PrunedRow, RunRow

ALL_JOBS = ""
Since = Mapping[str, tuple[str, datetime]]
"""What is said of a job: name -> (value, due date of the first run of the unbroken row that says it)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Where the runs of a job end towards the past.

    Attributes:
        run_id: the newest run that was due before the kept range.
        said: what it said of its job.
    """

    run_id: str
    said: Since

    def row(self, job_id: str, before: datetime) -> PrunedRow:
        """As it is stored."""
        said = {name: [value, since.isoformat()] for name, (value, since) in sorted(self.said.items())}
        return PrunedRow(job_id=job_id, before=before, run_id=self.run_id, said=compact(said))


def kept_since(access: Rows) -> datetime | None:
    """The moment before which everything that was told is deleted, None if nothing ever was."""
    rows = access.rows(PrunedRow, ("job_id",), [(ALL_JOBS,)])
    return rows[0].before if rows else None


def of_kept_range(
    access: Rows, messages: list[Message], events: list[OpenLineageEvent]
) -> tuple[list[Message], list[OpenLineageEvent], int]:
    """Those messages and events that were told in the kept range, and how many were not: their runs may be deleted."""
    since = kept_since(access)
    if since is None:
        return messages, events, 0
    own = [message for message in messages if message.envelope.emitted_at >= since]
    others = [event for event in events if event.happened_at >= since]
    return own, others, len(messages) + len(events) - len(own) - len(others)


def floor_of(access: Rows, job_id: str) -> Floor | None:
    """The floor of a job, None if no run of it was deleted."""
    for row in access.rows(PrunedRow, ("job_id",), [(job_id,)]):
        said = {name: (value, datetime.fromisoformat(since)) for name, (value, since) in json.loads(row.said).items()}
        return Floor(run_id=row.run_id, said=said)
    return None


def unbroken(runs: Iterable[RunRow], said: Callable[[RunRow], Mapping[str, str]], floor: Floor | None) -> Since:
    """What the newest run says, and since which run without a break.

    Args:
        runs: of one job, newest first, at least one; they are read as far as needed.
        said: what a run says of its job.
        floor: where the runs end, if older ones were deleted.
    """
    found: dict[str, tuple[str, datetime]] = {}
    open_names: set[str] | None = None
    for run in runs:
        values = said(run)
        open_names = set(values) if open_names is None else open_names
        open_names = {name for name in open_names if name not in found or found[name][0] == values.get(name)}
        found.update((name, (values[name], run.run_after)) for name in open_names)
        if floor is not None and run.run_id == floor.run_id:
            for name in open_names:
                value, since = floor.said.get(name, ("", run.run_after))
                if value == found[name][0]:
                    found[name] = value, min(since, run.run_after)
            break
        if not open_names:
            break
    return found


def refuse_unkept(access: Rows, moment: datetime, what: str) -> None:
    """Say so if a question needs runs that are deleted.

    Args:
        access: where to look.
        moment: the earliest due date that the question is about.
        what: name of the argument that asks for it.

    Raises:
        ConfigError: it lies before the kept range.
    """
    kept = kept_since(access)
    if kept is not None and moment < kept:
        raise ConfigError(
            what,
            moment.isoformat(),
            f"{kept.isoformat()} or later",
            "Older runs were deleted (`lineage prune`). Pairs as of a date are still known: graph, impact, path.",
        )
