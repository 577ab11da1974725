"""Several topics in one job, with what differs per topic, user code, and a task group in a DAG of one's own.

Page views and clicks come as JSON and are cleaned by a converter; errors are few and go to daily folders as they are.
Bad records of `errors` are borne more patiently. A second group reads every topic that a filter allows.
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_kafka_hdfs import KafkaToHdfsTaskGroup, TopicFilter, ingest_params

DESTINATION = os.environ.get("KAFKA_HDFS_DESTINATION", "webhdfs:///data/kafka")


def without_bots(record):
    """Leave out what crawlers do, count it, and drop the address of the visitor."""
    event = dict(record.value)
    if "bot" in str(event.get("agent", "")).lower():
        record.context.metrics.counter("bots").inc()
        return None
    event.pop("ip", None)
    return event


with DAG(
    "web_events",
    doc_md=__doc__,
    tags=["kafka", "hdfs"],
    schedule=CronDataIntervalTimetable("*/30 * * * *", timezone="UTC"),  # backfills need data intervals
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params=ingest_params(),
):
    web = KafkaToHdfsTaskGroup(
        "web",
        topics=["page_views", "clicks", "errors"],
        destination=DESTINATION,
        value_format="json",
        file_format="jsonl",
        converters=[without_bots],
        time_field="time",
        time_unit="ms",
        partition_fields=["country"],
        bootstrap=timedelta(days=7),
        publish_policy="successful",
        topic_overrides={
            "errors": {
                "granularity": "daily",
                "converters": [],
                "partition_fields": [],
                "max_bad_share": 0.2,
            },
        },
    )
    audit = KafkaToHdfsTaskGroup(
        "audit",
        topics=TopicFilter(allow=["audit\\..*"], deny=[".*\\.test"]),
        destination=f"{DESTINATION}/audit",
        value_format="bytes",
        file_format="avro",
        include_key=True,
        include_headers=True,
        include_kafka_metadata=True,
        codec="deflate",
    )
