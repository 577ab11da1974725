"""Rows of jobs: what they say of themselves, their structure over time, and the facts that their runs tell."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from airflow_kafka_hdfs.lineage.events import Envelope, Message
from airflow_kafka_hdfs.lineage.facts import FAILURES_FOR_FAILING, RUNS_FOR_FREQUENCY, failing, frequency
from airflow_kafka_hdfs.lineage.identity import digest
from airflow_kafka_hdfs.lineage.kept import floor_of, unbroken
from airflow_kafka_hdfs.lineage.storage_text import compact
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_rows import JobAttributeRow, JobRow, RunRow

REGULAR_TYPES = frozenset({"scheduled", "asset_triggered"})
_FINISHED_KEPT = max(FAILURES_FOR_FAILING, 10)
ATTRIBUTES = ("team", "owners", "config_file", "relative_fileloc")
VERSIONS = ("airflow", "provider", "python", "bundle", "bundle_version", "dag_version", "service", "image")

STRUCTURE = "structure"

RunChange = tuple[RunRow | None, RunRow]


class JobFacts:
    """Brings rows of jobs and their attributes up to date.

    Args:
        transaction: where rows are read and written.
    """

    def __init__(self, transaction: LoadTransaction) -> None:
        self._tx = transaction
        self._stored: dict[str, JobRow] = {}

    def load(self, job_ids: Iterable[str]) -> frozenset[str]:
        """Read the rows of jobs; those that are known already are returned."""
        wanted = [(job_id,) for job_id in set(job_ids) - self._stored.keys()]
        self._stored.update({row.job_id: row for row in self._tx.rows(JobRow, ("job_id",), wanted)})
        return frozenset(self._stored)

    def write(self, runs: Mapping[tuple[str, str], RunChange], messages: Iterable[Message]) -> None:
        """Write the rows of jobs that these runs and messages change.

        Args:
            runs: (job id, run id) -> the run's row as it was and as it is.
            messages: those of the batch that know their job, superseded ones too.
        """
        told: dict[str, list[Envelope]] = {}
        for envelope in {id(message.envelope): message.envelope for message in messages}.values():
            told.setdefault(envelope.job.job_id, []).append(envelope)
        jobs = self._stored | {job_id: _told_of(self._stored.get(job_id), found) for job_id, found in told.items()}
        changed: dict[str, list[RunRow]] = {}
        telling: dict[str, list[RunRow]] = {}
        moved: set[str] = set()
        redated: dict[str, set[str]] = {}
        for before, row in runs.values():
            if before != row:
                changed.setdefault(row.job_id, []).append(row)
                if before is None or says_of_job(before) != says_of_job(row):
                    telling.setdefault(row.job_id, []).append(row)
            if before is not None and before.run_after != row.run_after:
                moved.add(row.job_id)
            if before is not None and (date := _regular_date(before)) not in ("", _regular_date(row)):
                redated.setdefault(row.job_id, set()).add(date)
        stored = self._attributes(changed)
        attributes: list[JobAttributeRow] = []
        for job_id, rows in changed.items():
            job = replace(jobs[job_id], **self._recent(jobs[job_id], rows, redated.get(job_id)))
            last = next((row for row in rows if (row.run_after, row.run_id) == (job.last_run, job.last_run_id)), None)
            if last is not None:
                job = replace(job, last_outcome=last.outcome)
            have_said: Mapping[str, JobAttributeRow] = stored.get(job_id, {})
            said = have_said
            if job_id in moved:
                job, said = self._from_all_runs(job)
            elif job_id in telling:
                job, said = self._with_runs(job, telling[job_id], have_said)
            jobs[job_id] = job
            attributes += [row for name, row in said.items() if have_said.get(name) != row]
        self._tx.put([row for job_id, row in jobs.items() if self._stored.get(job_id) != row])
        self._tx.put(attributes)

    def _recent(self, job: JobRow, rows: list[RunRow], redated: set[str] | None) -> dict[str, Any]:
        """The newest runs of a job; where one has another date than before, the old one goes unless a run has it."""
        if redated is None:
            return _recent(job, rows)
        dates = {_regular_date(row) for row in self._tx.job_runs(job.job_id)} - {""}
        recent = json.loads(job.recent)
        recent["scheduled"] = sorted((set(recent.get("scheduled", ())) - redated) | dates)
        return _recent(replace(job, recent=json.dumps(recent)), rows)

    def _attributes(self, job_ids: Iterable[str]) -> dict[str, dict[str, JobAttributeRow]]:
        found: dict[str, dict[str, JobAttributeRow]] = {}
        for row in self._tx.rows(JobAttributeRow, ("job_id",), [(job_id,) for job_id in job_ids]):
            found.setdefault(row.job_id, {})[row.name] = row
        return found

    def _with_runs(
        self, job: JobRow, rows: list[RunRow], said: Mapping[str, JobAttributeRow]
    ) -> tuple[JobRow, Mapping[str, JobAttributeRow]]:
        """With the runs that are new, or that say something new."""
        rows.sort(key=lambda row: (row.run_after, row.run_id))
        if job.last_run is not None and (rows[0].run_after, rows[0].run_id) <= (job.last_run, job.last_run_id):
            return self._from_all_runs(job)
        attributes = dict(said)
        before: Mapping[str, str] | None = None
        structure, since = job.structure_hash, job.structure_since
        for row in rows:
            told = _said(row)
            if told is not before:  # most runs say what the one before said
                for name, value in told.items():
                    if name not in attributes or attributes[name].value != value:
                        attributes[name] = _attribute(job.job_id, name, value, row.run_after)
            before = told
            if row.structure_hash != structure or since is None:
                structure, since = row.structure_hash, row.run_after
        last = rows[-1]
        return _as_of(job, last, structure, since), attributes

    def _from_all_runs(self, job: JobRow) -> tuple[JobRow, Mapping[str, JobAttributeRow]]:
        """The same from every stored run, where a run came late or changed."""
        runs = self._tx.job_runs(job.job_id)
        newest, said = runs[0], dict(unbroken(runs, says_of_job, floor_of(self._tx, job.job_id)))
        structure_hash, since = said.pop(STRUCTURE)
        facts = {name: _attribute(job.job_id, name, value, when) for name, (value, when) in said.items()}
        return _as_of(job, newest, structure_hash, since), facts


def _as_of(job: JobRow, last: RunRow, structure_hash: str, since: datetime | None) -> JobRow:
    return replace(
        job,
        structure_hash=structure_hash,
        structure_since=since,
        last_run=last.run_after,
        last_run_id=last.run_id,
        last_outcome=last.outcome,
    )


def says_of_job(row: RunRow) -> Mapping[str, str]:
    """What a run says of its job; a run that goes on or ends says the same again."""
    return {STRUCTURE: row.structure_hash, **_said(row)}


def _said(row: RunRow) -> Mapping[str, str]:
    return _attributes_of(row.job, row.versions)


@lru_cache(maxsize=2_000)
def _attributes_of(job_text: str, versions_text: str) -> Mapping[str, str]:
    """What a run says of its job; most runs say what the one before said."""
    job, versions = json.loads(job_text), json.loads(versions_text)
    said = {}
    for name in ATTRIBUTES:
        value = job.get(name, "")
        said[name] = ", ".join(value) if isinstance(value, list) else str(value)
    said.update({f"version.{name}": str(versions.get(name, "")) for name in VERSIONS})
    return said


def _attribute(job_id: str, name: str, value: str, since: datetime) -> JobAttributeRow:
    return JobAttributeRow(attribute_id=digest(job_id, name), job_id=job_id, name=name, value=value, changed_at=since)


def _regular_date(row: RunRow) -> str:
    """The date by which a run counts for the frequency of its job, empty if it does not."""
    return (row.logical_date or row.run_after).isoformat() if row.run_type in REGULAR_TYPES else ""


def _recent(job: JobRow, rows: list[RunRow]) -> dict[str, Any]:
    """The newest runs of a job with these added, and the facts made from them."""
    recent = json.loads(job.recent)
    scheduled = set(recent.get("scheduled", ()))
    finished = {run_id: (when, outcome) for when, run_id, outcome in recent.get("finished", ())}
    for row in rows:
        if date := _regular_date(row):
            scheduled.add(date)
        if row.run_type != "backfill" and row.outcome in ("success", "failed"):
            finished[row.run_id] = (row.run_after.isoformat(), row.outcome)
        else:
            finished.pop(row.run_id, None)
    # All are in UTC, so their texts are in the order of the moments.
    dates = sorted(scheduled)[-RUNS_FOR_FREQUENCY:]
    last = sorted((when, run_id, outcome) for run_id, (when, outcome) in finished.items())[-_FINISHED_KEPT:]
    rate = frequency([datetime.fromisoformat(text) for text in dates])
    return {
        "recent": compact({"scheduled": dates, "finished": last}),
        "frequency": rate.name,
        "period_seconds": int(rate.period.total_seconds()),
        "failing": failing([outcome for _, _, outcome in last]),
    }


def _job_row(envelope: Envelope) -> JobRow:
    job, run = envelope.job, envelope.run
    return JobRow(
        job_id=job.job_id,
        instance=job.instance,
        dag_id=job.dag_id,
        domain=job.domain,
        owners=", ".join(job.owners),
        team=job.team,
        tags=", ".join(job.tags),
        config_file=job.config_file,
        relative_fileloc=job.relative_fileloc,
        description=job.description,
        first_seen=run.run_after,
        last_seen=run.run_after,
        emitted_at=envelope.emitted_at,
        event_id=envelope.run_event_id,
    )


def _told_of(stored: JobRow | None, envelopes: list[Envelope]) -> JobRow:
    """The row of a job with what envelopes of its runs say: the newest of them, and the row if it is newer still."""
    latest = max(envelope.emitted_at for envelope in envelopes)
    rows = [_job_row(envelope) for envelope in envelopes if envelope.emitted_at == latest]
    dates = [envelope.run.run_after for envelope in envelopes]
    if stored is not None:
        rows.append(stored)
        dates += [stored.first_seen, stored.last_seen]
    newest = max(rows, key=_job_rank)
    return replace(
        stored or newest,
        domain=newest.domain,
        owners=newest.owners,
        team=newest.team,
        tags=newest.tags,
        config_file=newest.config_file,
        relative_fileloc=newest.relative_fileloc,
        description=newest.description,
        first_seen=min(dates),
        last_seen=max(dates),
        emitted_at=newest.emitted_at,
        event_id=newest.event_id,
    )


def _job_rank(row: JobRow) -> tuple[Any, ...]:
    return (
        row.emitted_at, row.event_id, row.domain, row.owners, row.team, row.tags, row.config_file,
        row.relative_fileloc, row.description,
    )  # fmt: skip
