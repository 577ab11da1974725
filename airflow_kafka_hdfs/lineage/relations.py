"""Relations that people post: a job reads these datasets and writes those. Pairs follow by themselves.

What is posted stands until it is taken back: no run and no new version of a DAG ends it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.edge_sums import EdgeSums
from airflow_kafka_hdfs.lineage.events import DatasetDetail, Job
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.message_json import location
from airflow_kafka_hdfs.lineage.recording import FROM_API
from airflow_kafka_hdfs.lineage.registration import FROM_BOTH, FROM_RUNS, INPUT, OUTPUT
from airflow_kafka_hdfs.lineage.workflow import Evidence
from airflow_kafka_hdfs.ports.lineage import LoadTransaction, PairState
from airflow_kafka_hdfs.ports.lineage_rows import POSTED_RUN, DatasetRow, EdgeRunRow, JobRow, RelationRow

MAX_RELATIONS = 1_000
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """What is posted of a job now; ids of datasets, and how many pairs follow."""

    job_id: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    pairs: int


def post_relations(
    tx: LoadTransaction,
    job: Job,
    inputs: Sequence[DatasetDetail],
    outputs: Sequence[DatasetDetail],
    *,
    now: datetime,
    take_back: bool = False,
) -> Posted:
    """Say what a job reads and writes, beside what its runs tell.

    Args:
        tx: a transaction.
        job: the job; it is created if nothing is known of it.
        inputs, outputs: datasets; created likewise.
        now: when.
        take_back: whether what was posted of the job before goes first; without datasets nothing is left then.

    Raises:
        ConfigError: more relations than are sensible for one job.
    """
    stored = {(row.dataset_id, row.direction): row for row in tx.rows(RelationRow, ("job_id",), [(job.job_id,)])}
    wanted = {
        (detail.dataset.key, direction): detail.dataset
        for direction, found in ((INPUT, inputs), (OUTPUT, outputs))
        for detail in found
    }
    posted = set(wanted)
    if not take_back:
        posted |= {key for key, row in stored.items() if row.origin in (FROM_API, FROM_BOTH)}
    if len(posted) > MAX_RELATIONS:
        raise ConfigError("inputs and outputs", len(posted), f"at most {MAX_RELATIONS} for one job")
    _write_job(tx, job, now)
    _write_datasets(tx, wanted.values(), now)
    _write_relations(tx, job.job_id, stored, posted, now)
    ends = {direction: sorted(key for key, side in posted if side == direction) for direction in (INPUT, OUTPUT)}
    pairs = {(source, target) for source in ends[INPUT] for target in ends[OUTPUT]}
    _write_pairs(tx, job.job_id, pairs, now)
    return Posted(job_id=job.job_id, inputs=tuple(ends[INPUT]), outputs=tuple(ends[OUTPUT]), pairs=len(pairs))


def _write_job(tx: LoadTransaction, job: Job, now: datetime) -> None:
    if not tx.rows(JobRow, ("job_id",), [(job.job_id,)]):
        row = JobRow(
            job_id=job.job_id,
            instance=job.instance,
            dag_id=job.dag_id,
            domain=job.domain,
            owners="",
            team="",
            tags="",
            config_file="",
            relative_fileloc="",
            description="",
            first_seen=now,
            last_seen=now,
            # Older than whatever a run says of the job.
            emitted_at=datetime.fromtimestamp(0, now.tzinfo),
        )
        tx.put([row])


def _write_datasets(tx: LoadTransaction, datasets: Iterable[DatasetId], now: datetime) -> None:
    wanted = {dataset.key: dataset for dataset in datasets}
    known = {row.dataset_id for row in tx.rows(DatasetRow, ("dataset_id",), [(key,) for key in wanted])}
    rows = []
    for key, dataset in wanted.items():
        if key not in known:
            collection, table = location(dataset)
            rows.append(
                DatasetRow(
                    dataset_id=key,
                    ns=dataset.namespace,
                    name=dataset.name,
                    collection=collection,
                    table=table,
                    first_seen=now,
                    last_seen=now,
                )
            )
    tx.put(rows)


def _write_relations(
    tx: LoadTransaction, job_id: str, stored: Mapping[_Key, RelationRow], posted: set[_Key], now: datetime
) -> None:
    put, gone = [], []
    for key in posted:
        row = stored.get(key)
        if row is None:
            put.append(RelationRow(job_id=job_id, dataset_id=key[0], direction=key[1], origin=FROM_API, last_seen=now))
        elif row.origin == FROM_RUNS:
            put.append(replace(row, origin=FROM_BOTH))
    for key, row in stored.items():
        if key not in posted and row.origin == FROM_BOTH:
            put.append(replace(row, origin=FROM_RUNS))
        elif key not in posted and row.origin == FROM_API:
            gone.append((job_id, *key))
    tx.delete(RelationRow, gone)
    tx.put(put)


def _write_pairs(tx: LoadTransaction, job_id: str, pairs: set[_Key], now: datetime) -> None:
    """Posted pairs stand under a run of their own, so that sums over runs hold them too."""
    before = {
        (row.source_id, row.target_id): row for row in tx.rows(EdgeRunRow, ("job_id", "run_id"), [(job_id, POSTED_RUN)])
    }
    after = {pair: before.get(pair) or _edge(job_id, pair, now) for pair in pairs}
    sums = EdgeSums(tx)
    sums.note((job_id, POSTED_RUN), before, after)
    sums.write()
    tx.end_edges([job_id])


def _edge(job_id: str, pair: _Key, now: datetime) -> EdgeRunRow:
    return EdgeRunRow(
        job_id=job_id,
        run_id=POSTED_RUN,
        source_id=pair[0],
        target_id=pair[1],
        run_after=now,
        state=PairState.UNKNOWN.value,
        outcome="",
        evidence=Evidence.API.value,
        instances=0,
        path=json.dumps([]),
        declared=True,
        origin=FROM_API,
        clear_number=0,
        emitted_at=now,
    )
