"""One OpenLineage event, in messages of ours.

A job that is no DAG (`openlineage_airflow` reads those) is a job with one task. What is said here of one event depends
on that event alone; `openlineage_runs` brings the events of a run together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.events import (
    Envelope,
    Job,
    Message,
    MessageError,
    Run,
    RunMessage,
    TaskIoMessage,
)
from airflow_kafka_hdfs.lineage.json_part import Part
from airflow_kafka_hdfs.lineage.message_json import decode, encode
from airflow_kafka_hdfs.lineage.openlineage_airflow import AirflowEvents
from airflow_kafka_hdfs.lineage.openlineage_datasets import DatasetReader, filled_in
from airflow_kafka_hdfs.lineage.openlineage_jobs import (
    ABORTED,
    JOB,
    RUNNING,
    STATES_OF_EVENTS,
    has_ended,
    job_of,
    reason_of,
    report_of,
    state_of,
    versions_of,
)
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskIo, TaskSpec, Workflow
from airflow_kafka_hdfs.ports.lineage_rows import DECLARED_RUN

ORIGIN = "openlineage"
MAX_EVENT_BYTES = 5 * 1024 * 1024
_SINGLE = Workflow(tasks=(TaskSpec(task_id=JOB),))
SINGLE_HASH = _SINGLE.structure_hash
"""The structure of every job that is no DAG."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLineageEvent:
    """One event as read.

    Attributes:
        event_id: 32 hex digits, equal for equal documents.
        job_id: empty for an event about a dataset alone.
        messages: what it says; none stands for the whole run.
    """

    event_id: str
    job_id: str
    run_id: str
    happened_at: datetime
    messages: tuple[Message, ...]


class EventReader:
    """Reads events in the names of this deployment.

    Args:
        settings: naming, temporary datasets, how pairs are derived.
    """

    def __init__(self, settings: LineageSettings) -> None:
        self._settings = settings
        self._datasets = DatasetReader(settings)
        self._airflow = AirflowEvents(settings, self._datasets)

    def read(self, value: bytes | None) -> OpenLineageEvent:
        """One event from its JSON.

        Raises:
            MessageError: no event of OpenLineage, or one that can't be used; the text names the place.
        """
        if not value:
            raise MessageError("json", "got an empty message, expected an OpenLineage event")
        if len(value) > MAX_EVENT_BYTES:
            raise MessageError("size", f"got {len(value)} bytes, at most {MAX_EVENT_BYTES}")
        try:
            body = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise MessageError("json", f"{type(error).__name__}: {str(error)[:200]}") from error
        return self.of(body)

    def of(self, body: Any) -> OpenLineageEvent:
        """One event from its values; raises as `read`."""
        if not isinstance(body, Mapping):
            raise MessageError("json", f"got {type(body).__name__}, expected an object")
        event, event_id = Part(body), _event_id(body)
        happened = event.time("eventTime")
        if happened is None:
            raise event.wrong("eventTime", "an ISO time with a zone")
        try:
            if event.has("run"):
                messages = self._run_event(event, happened)
            elif event.has("job"):
                messages = self._job_event(event, happened)
            elif event.has("dataset"):
                messages = self._dataset_event(event, happened)
            else:
                raise MessageError("type", "got an event without run, job or dataset; is it OpenLineage?")
        except MessageError:
            raise
        except (TypeError, ValueError, LineageError) as error:
            raise MessageError("fields", str(error)) from error
        about = messages[0].envelope
        if about.job.dag_id:
            for message in messages:
                # As they are kept: what can't be read again would stop whoever brings the run together.
                decode(encode(message))
        return OpenLineageEvent(
            event_id=event_id,
            job_id=about.job.job_id if about.job.dag_id else "",
            run_id=about.run.run_id,
            happened_at=happened,
            messages=messages,
        )

    def _run_event(self, event: Part, happened: datetime) -> tuple[Message, ...]:
        kind = event.text("eventType", "OTHER")
        if kind not in (*STATES_OF_EVENTS, ABORTED):
            known = ", ".join((*STATES_OF_EVENTS, ABORTED))
            raise MessageError("fields", f"eventType: got {kind[:50]!r}; known: {known}")
        of_airflow = self._airflow.message(event, kind, happened)
        return (of_airflow,) if of_airflow is not None else self._other_run(event, kind, happened)

    def _other_run(self, event: Part, kind: str, happened: datetime) -> tuple[Message, ...]:
        """A run of a job that is no DAG: a graph of one task, and what it reads and writes."""
        run, job = event.part("run"), event.part("job")
        nominal = run.part("facets").part("nominalTime")
        start, end = nominal.time("nominalStartTime"), nominal.time("nominalEndTime")
        parent = run.part("facets").part("parent").part("job")
        state = state_of(kind)
        if state == RUNNING and job.part("facets").part("jobType").text("processingType") == "STREAMING":
            # A stream may never complete; while it runs, its data flows.
            state = "success" if kind == "RUNNING" else state
        about = Envelope(
            job=job_of(event),
            run=Run(
                run_id=_uuid(run),
                run_type="scheduled" if start else "external",
                triggered_by=f"{parent.text('namespace')}/{parent.text('name')}"[:500] if parent.has("name") else "",
                logical_date=start,
                interval_start=start,
                interval_end=end,
                run_after=happened,
                started_at=happened if kind == "START" else None,
                ended_at=happened if has_ended(kind) else None,
                outcome=state_of(kind),
                reason=reason_of(event, kind),
            ),
            versions=versions_of(event),
            emitted_at=happened,
        )
        return (
            RunMessage(
                envelope=about,
                structure_hash=SINGLE_HASH,
                graph=_SINGLE,
                facts=RunFacts(states={(JOB, -1): (state, 1)}),
                options=self._settings.options,
            ),
            report_of(about, self._datasets.io(event), task_id=JOB, state=state),
        )

    def _job_event(self, event: Part, happened: datetime) -> tuple[Message, ...]:
        """A job as it is designed: its graph promises the pairs."""
        io = self._datasets.io(event)
        explicit = filled_in(io.explicit, io.reads, io.writes) if io.explicit else None
        task = TaskSpec(task_id=JOB, reads=io.reads, writes=io.writes, explicit=explicit, columns=io.columns)
        graph = Workflow(tasks=(task,), temporary=io.temporary)
        run = Run(run_id=DECLARED_RUN, run_type="external", run_after=happened)
        about = Envelope(job=job_of(event), run=run, versions=versions_of(event), emitted_at=happened)
        return (
            RunMessage(
                envelope=about,
                structure_hash=graph.structure_hash,
                graph=graph,
                options=self._settings.options,
                details=io.details,
            ),
        )

    def _dataset_event(self, event: Part, happened: datetime) -> tuple[Message, ...]:
        """A dataset alone: names and schema."""
        detail = self._datasets.detail(event.part("dataset"))
        nobody = Envelope(job=Job(instance="", dag_id=""), run=Run(run_id="", run_after=happened), emitted_at=happened)
        return (TaskIoMessage(envelope=nobody, report=TaskIo(task_id=JOB), details=(detail,)),)


def _event_id(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    if "\\u0000" in text:
        raise MessageError("text", "got a NUL character, which databases can't keep")
    try:
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    except UnicodeEncodeError as error:
        raise MessageError("text", f"got half a character: {error.reason}") from error


def _uuid(run: Part) -> str:
    try:
        return str(UUID(run.needed("runId")))
    except ValueError as error:
        raise run.wrong("runId", "a UUID") from error
