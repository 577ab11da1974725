"""Export to a governance platform: what changed since the last time, each thing once, in events of OpenLineage.

What was sent is written down after each answer, so an export that dies goes on where it stopped. An event whose answer
was lost is sent again under the same key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from airflow_kafka_hdfs.exceptions import ConfigError, LineageError, PlatformUnavailableError
from airflow_kafka_hdfs.lineage.exchanged import Exchanges
from airflow_kafka_hdfs.lineage.openlineage_making import digest_of, encode_event
from airflow_kafka_hdfs.ports.lineage import LoadTransaction, Platform, Reply
from airflow_kafka_hdfs.ports.lineage_reading import LineageReader
from airflow_kafka_hdfs.ports.lineage_rows import ExportRow
from airflow_kafka_hdfs.ports.runtime import Clock, StopSignal

SENT = "sent"
REFUSED = "refused"
_NOT_NOW = frozenset({408, 425, 429})
_NOT_YOU = frozenset({401, 403})
_PAUSES = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
_LONGEST_PAUSE = 300.0
_JOBS_AT_ONCE = 50


class What(StrEnum):
    """What is exported: relations of jobs, their runs, or both."""

    RELATIONS = "relations"
    RUNS = "runs"
    ALL = "all"

    @classmethod
    def of(cls, text: str) -> What:
        """From its name. Raises ConfigError if there is none such."""
        try:
            return cls(text)
        except ValueError:
            raise ConfigError("export_what", text, list(cls)) from None


class ExportWarehouse(Protocol):
    """What an export needs of the warehouse."""

    def look(self) -> AbstractContextManager[LineageReader]:
        """As `ReadableWarehouse.look`."""

    def transaction(self) -> AbstractContextManager[LoadTransaction]:
        """As `Warehouse.transaction`."""


@dataclass(slots=True, kw_only=True)
class ExportReport:
    """What an export did.

    Attributes:
        unchanged: jobs and runs of which the platform knows all.
        refused: events that the platform will not take; `lineage_export.problem` says why.
        attempts: requests, repeated ones too.
    """

    sent: int = 0
    unchanged: int = 0
    refused: int = 0
    attempts: int = 0

    def to_json(self) -> dict[str, int]:
        """Plain values for logs and results."""
        return {
            "sent": self.sent,
            "unchanged": self.unchanged,
            "refused": self.refused,
            "attempts": self.attempts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    subject: str
    digest: str
    event: dict[str, Any]


class Exporter:
    """Sends what a platform does not know yet.

    Args:
        warehouse: where lineage and the record of what was sent are kept.
        platform: where to.
        clock: for waiting and for `sent_at`.
        exchanges: makes the events.
        what: relations, runs or both.
        days: how many days back runs are looked at.
        tries: requests for one event before the platform counts as away.
    """

    def __init__(
        self,
        warehouse: ExportWarehouse,
        platform: Platform,
        clock: Clock,
        exchanges: Exchanges,
        *,
        what: What = What.RELATIONS,
        days: float = 7,
        tries: int = 5,
    ) -> None:
        self._warehouse = warehouse
        self._platform = platform
        self._clock = clock
        self._exchanges = exchanges
        self._what = what
        self._days = days
        self._tries = tries

    def run(self, stop: StopSignal | None = None, *, again: bool = False, dry_run: bool = False) -> ExportReport:
        """Send what is due.

        Args:
            stop: ends the export after the event at hand.
            again: send also what the platform refused before.
            dry_run: count what would be sent, send nothing.

        Raises:
            PlatformUnavailableError: the platform is away; what it took is written down.
            LineageError: it refuses the log-in.
            WarehouseUnavailableError: the database is away.
        """
        report = ExportReport()
        for job_ids in self._portions():
            for due in self._due(job_ids, report, again=again):
                if stop is not None and stop.is_set():
                    return report
                if dry_run:
                    report.sent += 1
                else:
                    self._send(due, report)
        return report

    def _portions(self) -> Iterator[list[str]]:
        with self._warehouse.look() as reader:
            jobs = [job_id for job_id, instance, _ in reader.job_names() if instance == self._exchanges.instance]
        jobs.sort()
        for start in range(0, len(jobs), _JOBS_AT_ONCE):
            yield jobs[start : start + _JOBS_AT_ONCE]

    def _due(self, job_ids: list[str], report: ExportReport, *, again: bool) -> list[_Due]:
        """What the platform does not know of these jobs; made in one look, sent when that is over."""
        since = self._clock.now() - timedelta(days=self._days)
        with self._warehouse.look() as reader:
            found: list[tuple[str, dict[str, Any]]] = []
            if self._what is not What.RUNS:
                found += self._exchanges.relations(reader, job_ids, self._clock.now())
            if self._what is not What.RELATIONS:
                found += self._exchanges.runs(reader, job_ids, since)
            keys = [(self._platform.name, subject) for subject, _ in found]
            known = {row.subject: row for row in reader.rows(ExportRow, ("target", "subject"), keys)}
        due = []
        for subject, event in found:
            digest, row = digest_of(event), known.get(subject)
            if row is not None and row.digest == digest and not (again and row.state == REFUSED):
                report.unchanged += 1
            else:
                due.append(_Due(subject=subject, digest=digest, event=event))
        return due

    def _send(self, due: _Due, report: ExportReport) -> None:
        reply, attempts = self._posted(due)
        report.attempts += attempts
        taken = 200 <= reply.status < 300
        report.sent += taken
        report.refused += not taken
        row = ExportRow(
            target=self._platform.name,
            subject=due.subject,
            digest=due.digest,
            state=SENT if taken else REFUSED,
            status=reply.status,
            attempts=attempts,
            problem="" if taken else reply.text.replace("\x00", "\ufffd"),
            sent_at=self._clock.now(),
        )
        with self._warehouse.transaction() as tx:
            tx.put([row])

    def _posted(self, due: _Due) -> tuple[Reply, int]:
        """Post one event until the platform says yes or no."""
        body = encode_event(due.event)
        said = ""
        for attempt in range(1, self._tries + 1):
            pause = _PAUSES[min(attempt, len(_PAUSES)) - 1]
            try:
                reply = self._platform.post(body, due.digest)
            except PlatformUnavailableError as error:
                said = str(error)
            else:
                if reply.status in _NOT_YOU:
                    raise LineageError(
                        f"{self._platform.name} refuses the log-in ({reply.status}): {reply.text}; "
                        "set export_conn_id or export_token in [kafka_hdfs_lineage]"
                    )
                if reply.status < 500 and reply.status not in _NOT_NOW:
                    return reply, attempt
                said = f"{self._platform.name}: status {reply.status}: {reply.text}"
                pause = min(max(pause, reply.retry_after or 0.0), _LONGEST_PAUSE)
            if attempt < self._tries:
                self._clock.sleep(pause)
        raise PlatformUnavailableError(f"{due.subject}: not taken in {self._tries} tries; the last one: {said}")
