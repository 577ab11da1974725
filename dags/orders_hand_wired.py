"""The four steps wired by hand, with a step of one's own between publish and gate.

The arguments of the job are written once and given to each operator. What comes after `publish` runs on partial success
too; what comes after `gate` runs only if everything that was planned is decided.
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from airflow_kafka_hdfs import (
    KafkaToHdfsExtractOperator,
    KafkaToHdfsGateOperator,
    KafkaToHdfsPlanOperator,
    KafkaToHdfsPublishOperator,
    ingest_params,
)

DESTINATION = os.environ.get("KAFKA_HDFS_DESTINATION", "webhdfs:///data/kafka")

job = {
    "topics": ["orders"],
    "destination": DESTINATION,
    "value_format": "json",
    "file_format": "jsonl",
    "time_field": "created_at",
    "time_unit": "iso",
    "bootstrap": "earliest",
    "publish_policy": "successful",
}

with DAG(
    "orders_hand_wired",
    doc_md=__doc__,
    tags=["kafka", "hdfs"],
    schedule=CronDataIntervalTimetable("*/10 * * * *", timezone="UTC"),  # backfills need data intervals
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params=ingest_params(),
):

    @task(trigger_rule="all_done")
    def tell(result=None):
        """Tell what was committed, whole or not."""
        if result is not None:
            print(f"commit {result['commit']}: {result['counts']['written']} orders in {result['files']} files")

    plan = KafkaToHdfsPlanOperator(task_id="plan", **job)
    extract = KafkaToHdfsExtractOperator.partial(
        task_id="extract", retries=3, retry_delay=timedelta(seconds=10), max_active_tis_per_dagrun=4, **job
    ).expand(work_unit=plan.output)
    publish = KafkaToHdfsPublishOperator(task_id="publish", plan=plan.output, results=extract.output, **job)
    gate = KafkaToHdfsGateOperator(task_id="gate", plan=plan.output, publish=publish.output, **job)
    tell(publish.output)
