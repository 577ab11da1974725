"""One row of the warehouse for one message."""

from __future__ import annotations

from functools import lru_cache

from airflow_kafka_hdfs.lineage.events import EdgeMessage, Job, RunMessage, TaskIoMessage, Versions
from airflow_kafka_hdfs.lineage.message_json import encode_facts, encode_report, filled
from airflow_kafka_hdfs.lineage.storage_text import compact, pack
from airflow_kafka_hdfs.lineage.workflow import encode_workflow
from airflow_kafka_hdfs.ports.lineage import PairState
from airflow_kafka_hdfs.ports.lineage_rows import EdgeRunRow, JobVersionRow, RunRow, TaskIoRow

FROM_MESSAGE = "message"
"""Origin of pairs that were sent, and not derived from a graph."""


@lru_cache(maxsize=2_000)
def _filled_text(value: Job | Versions) -> str:
    """What most runs of a job say as the one before did."""
    return compact(filled(value))


def run_row(message: RunMessage) -> RunRow:
    """The row of a run message."""
    run, job = message.envelope.run, message.envelope.job
    return RunRow(
        job_id=job.job_id,
        run_id=run.run_id,
        clear_number=run.clear_number,
        run_type=run.run_type,
        triggered_by=run.triggered_by,
        logical_date=run.logical_date,
        interval_start=run.interval_start,
        interval_end=run.interval_end,
        run_after=run.run_after,
        started_at=run.started_at,
        ended_at=run.ended_at,
        outcome=run.outcome,
        reason=run.reason,
        versions=_filled_text(message.envelope.versions),
        job=_filled_text(job),
        structure_hash=message.structure_hash,
        facts=pack(compact(encode_facts(message.facts, message.options))),
        pairs=message.pairs,
        compressed=message.compressed,
        emitted_at=message.envelope.emitted_at,
        event_id=message.event_id,
        origin=message.envelope.origin,
    )


def version_row(message: RunMessage) -> JobVersionRow:
    """The row of the structure that a run message carries."""
    versions, run = message.envelope.versions, message.envelope.run
    return JobVersionRow(
        job_id=message.envelope.job.job_id,
        structure_hash=message.structure_hash,
        graph=pack(compact(encode_workflow(message.graph))) if message.graph is not None else "",
        dag_version=versions.dag_version,
        bundle=versions.bundle,
        bundle_version=versions.bundle_version,
        valid_from=run.run_after,
        valid_to=run.run_after,
        emitted_at=message.envelope.emitted_at,
    )


def report_row(message: TaskIoMessage) -> TaskIoRow:
    """The row of a report of a task."""
    report = message.report
    return TaskIoRow(
        job_id=message.envelope.job.job_id,
        run_id=message.envelope.run.run_id,
        task_id=report.task_id,
        map_index=report.map_index,
        clear_number=message.envelope.run.clear_number,
        try_number=report.try_number,
        complete=report.complete,
        state=report.state,
        body=pack(compact(encode_report(report))),
        emitted_at=message.envelope.emitted_at,
        origin=message.envelope.origin,
    )


def edge_row(message: EdgeMessage) -> EdgeRunRow:
    """The row of a pair that came as a message."""
    run = message.envelope.run
    columns = [[c.source_field, c.target_field, c.direct, c.subtype, c.masking] for c in message.columns]
    return EdgeRunRow(
        job_id=message.envelope.job.job_id,
        run_id=run.run_id,
        source_id=message.source.dataset.key,
        target_id=message.target.dataset.key,
        run_after=run.run_after,
        state=PairState(message.state).value,
        outcome=run.outcome,
        evidence=" ".join(message.evidence),
        instances=message.instances,
        path=compact(list(message.path)),
        declared=message.declared,
        origin=FROM_MESSAGE,
        clear_number=run.clear_number,
        columns=compact(columns) if columns else "",
        emitted_at=message.envelope.emitted_at,
    )
