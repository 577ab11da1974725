"""A consumer that runs once for every hour that got data, and again when late records changed it.

It is scheduled by the partitions of the dataset that `captcha_event_hourly` writes. Each run has one hour as its
partition key; the event tells what the commit counted.
"""

import os
from datetime import UTC, datetime

from airflow.sdk import DAG, PartitionedAssetTimetable, task

from airflow_kafka_hdfs import partition_asset

DESTINATION = os.environ.get("KAFKA_HDFS_DESTINATION", "webhdfs:///data/kafka")

hours = partition_asset(DESTINATION, "CaptchaEvent", granularity="hourly")

with DAG(
    "captcha_event_report",
    doc_md=__doc__,
    tags=["kafka", "hdfs"],
    schedule=PartitionedAssetTimetable(assets=hours),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
):

    @task(inlets=[hours])
    def report(dag_run=None, triggering_asset_events=None):
        """Say which hour changed, and what the commits behind it counted."""
        commits = [event.extra for event in triggering_asset_events[hours]]
        for commit in commits:
            print(f"{dag_run.partition_key}: commit {commit['n']}, {commit['late']} late records")
        return {"hour": dag_run.partition_key, "commits": [commit["n"] for commit in commits]}

    report()
