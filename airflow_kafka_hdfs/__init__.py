"""Kafka topics to time-partitioned files on HDFS, exactly once, from Apache Airflow, with lineage.

Public names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "KafkaToHdfsDag": "task_group",
    "KafkaToHdfsTaskGroup": "task_group",
    "KafkaToHdfsPlanOperator": "operators.ingest",
    "KafkaToHdfsExtractOperator": "operators.ingest",
    "KafkaToHdfsPublishOperator": "operators.ingest",
    "KafkaToHdfsGateOperator": "operators.ingest",
    "TopicFilter": "ingest.selection",
    "dataset_asset": "assets",
    "ingest_params": "operators.requests",
    "partition_asset": "assets",
    "topic_asset": "assets",
}

__all__ = [
    "KafkaToHdfsDag",
    "KafkaToHdfsExtractOperator",
    "KafkaToHdfsGateOperator",
    "KafkaToHdfsPlanOperator",
    "KafkaToHdfsPublishOperator",
    "KafkaToHdfsTaskGroup",
    "TopicFilter",
    "__version__",
    "dataset_asset",
    "ingest_params",
    "partition_asset",
    "topic_asset",
]

if TYPE_CHECKING:
    from airflow_kafka_hdfs.assets import dataset_asset, partition_asset, topic_asset
    from airflow_kafka_hdfs.ingest.selection import TopicFilter
    from airflow_kafka_hdfs.operators.ingest import (
        KafkaToHdfsExtractOperator,
        KafkaToHdfsGateOperator,
        KafkaToHdfsPlanOperator,
        KafkaToHdfsPublishOperator,
    )
    from airflow_kafka_hdfs.operators.requests import ingest_params
    from airflow_kafka_hdfs.task_group import KafkaToHdfsDag, KafkaToHdfsTaskGroup


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
