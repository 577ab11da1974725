"""Whole jobs on real brokers and a real HDFS, where topics, transactions and rights are as bad as they get."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation

from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StoreRefusedError
from airflow_kafka_hdfs.ingest.committing import CommitPolicy
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.model import TopicPartition
from tests.contract.kafka.drivers import PASSWORD, USER, Reading, until
from tests.contract.stores import webhdfs_bench
from tests.integration.test_extraction import Pipeline
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster

AT_ONCE = Patience(seconds=60, sleep=lambda seconds: None)


@pytest.fixture
def pipeline(secured_broker: KafkaCluster, unique_name: str, tmp_path: Path) -> Pipeline:
    secured_broker.create_topic(unique_name)
    client = dict(secured_broker.secure_config(USER))
    return Pipeline(secured_broker, unique_name, tmp_path / "data", client=client)


def offsets_of(pipeline: Pipeline):
    place = TopicPartition(pipeline.topic, 0)
    return pipeline.sources.catalog.offsets([place])[place]


def test_a_transaction_that_hangs_is_waited_for_and_one_that_timed_out_is_a_gap(pipeline):
    pipeline.produce(range(100), partition=0)
    until(lambda: offsets_of(pipeline).last_stable == 101, seconds=60)  # the marker comes after the word of the commit
    hanging = Producer(
        {
            "bootstrap.servers": pipeline.kafka.bootstrap_servers,
            "transactional.id": f"{pipeline.topic}-hangs",
            "transaction.timeout.ms": 3_000,
        }
    )
    hanging.init_transactions()
    hanging.begin_transaction()
    for number in range(900, 910):
        hanging.produce(pipeline.topic, pipeline.value(number), partition=0)
    hanging.flush()
    pipeline.produce_plainly(range(100, 150))
    _, unit = pipeline.whole()
    assert (unit.counts.written, unit.counts.gaps) == (100, 1)  # up to the last stable offset, with the marker
    until(lambda: offsets_of(pipeline).last_stable == offsets_of(pipeline).high_watermark, seconds=60)
    _, unit = pipeline.whole()
    assert (unit.counts.written, unit.counts.gaps) == (50, 10 + 1)  # what the broker aborted, and its marker
    assert pipeline.published() == Counter(range(150))


def test_a_compacted_topic_is_read_over_its_holes_with_each_counted(secured_broker, unique_name, tmp_path):
    config = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
    secured_broker.create_topic(unique_name, config=config)
    pipeline = Pipeline(secured_broker, unique_name, tmp_path / "data", client=dict(secured_broker.secure_config(USER)))
    pipeline.produce_plainly(range(20), keys=1)
    place = TopicPartition(unique_name, 0)
    last = 20

    def cleaned() -> bool:
        nonlocal last
        pipeline.produce_plainly(range(last, last + 1), keys=1)  # closes the segment before it
        last += 1
        reading = Reading(pipeline.sources.open_reader())
        reading.reader.assign({place: 0})
        reading.to({place: last})
        reading.reader.close()
        return len(reading.records) < 10

    until(cleaned, seconds=60)
    plan, unit = pipeline.whole()
    (work,) = plan.tasks[0].units[0].work_units
    left = pipeline.published()
    assert unit.counts.gaps > 5
    assert unit.counts.written == sum(left.values()) == len(left)
    assert unit.counts.written + unit.counts.gaps == work.high - work.low
    assert last - 1 in left


def test_what_retention_takes_between_plan_and_extract_is_counted_as_lost(pipeline):
    pipeline.produce_plainly(range(100))
    plan = pipeline.plan()
    wanted = ClientPartition(pipeline.topic, 0, 60)
    pipeline.kafka.admin.delete_records([wanted])[wanted].result(timeout=30)
    (unit,) = pipeline.extract(plan).manifest.units
    assert (unit.outcome, unit.counts.lost, unit.counts.written) == (Outcome.DONE, 60, 40)
    finish(pipeline.ctx, plan, pipeline.config.commit_policy([pipeline.topic]))
    assert judge(pipeline.ctx, plan).is_green
    assert pipeline.published() == Counter(range(60, 100))
    assert pipeline.plan().tasks == ()


@pytest.mark.parametrize("operation", [AclOperation.ALL, AclOperation.READ], ids=["all", "read"])
def test_a_topic_that_is_denied_over_tls_is_named_and_the_others_commit(
    secured_broker, unique_name, tmp_path, operation
):
    closed = f"{unique_name}_closed"
    for topic in (unique_name, closed):
        secured_broker.create_topic(topic)
    secured_broker.deny(USER, closed, operation)
    client = dict(secured_broker.secure_config(USER))
    assert client["security.protocol"] == "SASL_SSL"
    pipeline = Pipeline(
        secured_broker, unique_name, tmp_path / "data", client=client, topics=[unique_name, closed], max_tasks=1
    )
    pipeline.registry.register(closed, {"type": "record", "name": "Other", "fields": []})
    for topic in (unique_name, closed):
        pipeline.produce_plainly(range(10), topic=topic)
    plan = pipeline.plan()
    pipeline.extract(plan)
    finish(pipeline.ctx, plan, CommitPolicy())
    (fault,) = judge(pipeline.ctx, plan).faults
    assert fault.startswith(f"topic {closed}")
    assert "denied" in fault
    assert pipeline.published() == Counter(range(10))
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()


def test_a_user_who_may_not_write_learns_it_at_planning_with_user_and_path(
    kafka_single: KafkaCluster, hdfs_cluster: HdfsCluster, unique_name: str
):
    folder = f"/{unique_name}"
    hdfs_cluster.webhdfs("PUT", folder, "MKDIRS")
    kafka_single.create_topic(unique_name)
    guest = webhdfs_bench(hdfs_cluster, folder).open(user="guest", patience=AT_ONCE)
    pipeline = Pipeline(kafka_single, unique_name, Path("/unused"), store=guest)
    pipeline.produce_plainly(range(5))
    with pytest.raises(StoreRefusedError, match=r"user=guest, access=WRITE.*; grant") as refused:
        pipeline.plan()
    # The record of start points is told first of the files that are made side by side.
    assert "put_if_absent commits/0/0" in str(refused.value)
    assert f'inode="{folder}"' in str(refused.value)
    assert hdfs_cluster.webhdfs("GET", folder, "LISTSTATUS").json()["FileStatuses"]["FileStatus"] == []
