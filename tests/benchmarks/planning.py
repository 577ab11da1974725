"""Offsets of 10,000 partitions at a round trip of 1 ms, on the mock cluster that librdkafka brings."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import confluent_kafka
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.model import PartitionOffsets, TopicPartition
from tests.benchmarks.measuring import Sample, stopwatch

TOPICS, PARTITIONS = 200, 50
ONE_BY_ONE = 400
"""Partitions that are asked one by one; all of them would take a quarter of a minute."""


@cache
def _servers() -> str:
    """A cluster that lives as long as this process; its topics can be made with any number of partitions in C alone."""
    folder = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*.so*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    error = ctypes.create_string_buffer(512)
    client = library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), error, len(error))
    if not client:
        raise RuntimeError(error.value.decode())
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(client), 3))
    for number in range(TOPICS):
        library.rd_kafka_mock_topic_create(cluster, f"topic-{number}".encode(), PARTITIONS, 1)
    for broker in (1, 2, 3):
        library.rd_kafka_mock_broker_set_rtt(cluster, broker, 1)
    return str(library.rd_kafka_mock_cluster_bootstraps(cluster).decode())


def all_at_once() -> Sample:
    """As planning asks."""
    servers = _servers()
    catalog = KafkaCatalog(client_settings({"bootstrap.servers": servers}))
    wanted = [TopicPartition(f"topic-{t}", p) for t in range(TOPICS) for p in range(PARTITIONS)]
    with stopwatch() as watch:
        found = catalog.offsets(wanted)
    faults = [item for item in found.values() if not isinstance(item, PartitionOffsets)]
    if faults or len(found) != len(wanted):
        raise RuntimeError(f"{len(found)} answers, {len(faults)} faults such as {faults[:1]}")
    return watch.sample(len(wanted))


def one_by_one() -> Sample:
    """As a loop over partitions asks."""
    servers = _servers()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    parts = [ClientPartition(f"topic-{number // PARTITIONS}", number % PARTITIONS) for number in range(ONE_BY_ONE)]
    consumer.get_watermark_offsets(parts[0], timeout=10)
    with stopwatch() as watch:
        for part in parts:
            consumer.get_watermark_offsets(part, timeout=10)
    consumer.close()
    return watch.sample(len(parts))
