"""Load the lineage of every DAG from Kafka into the warehouse, every five minutes.

Lineage is collected by the plugin of this package once `[kafka_hdfs_lineage] enabled` is set; this DAG brings it to
where pages and commands read it. Each run loads up to the end that the topic has when it starts, in transactions that
hold rows and offsets together: a run that dies or is retried doubles nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_kafka_hdfs.operators.lineage import LineageLoadOperator

with DAG(
    "lineage_load",
    schedule=timedelta(minutes=5),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["lineage"],
):
    LineageLoadOperator(task_id="load", retries=3, retry_delay=timedelta(minutes=1))
