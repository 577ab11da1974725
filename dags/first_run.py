"""Three topics of different formats into hourly folders; the DAG that the tutorial goes through.

Clicks and page views are Avro records that name their schema in the registry; orders are JSON with a time in ISO text.
A few bad records are borne: they go to the quarantine with their original bytes, and are counted.
"""

import os
from datetime import UTC, datetime

from airflow_kafka_hdfs import KafkaToHdfsDag

DESTINATION = os.environ.get("KAFKA_HDFS_DESTINATION", "webhdfs:///data/kafka")
REGISTRY = os.environ.get("KAFKA_HDFS_REGISTRY", "schema_registry_default")

KafkaToHdfsDag(
    "first_run",
    doc_md=__doc__,
    tags=["kafka", "hdfs"],
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    topics=["clicks", "page_views", "orders"],
    destination=DESTINATION,
    registry=REGISTRY,
    value_format="avro_confluent",
    time_field="header.time",
    time_unit="ms",
    bootstrap="earliest",
    max_tasks=4,
    target_task_bytes=100_000,  # small, so that a few thousand events make more than one task
    max_bad_share=0.05,
    topic_overrides={
        "orders": {
            "value_format": "json",
            "file_format": "jsonl",
            "time_field": "created_at",
            "time_unit": "iso",
        },
    },
)
