"""Offsets copied to a consumer group, and messages whose delivery is checked."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions

from airflow_kafka_hdfs.adapters.kafka.groups import group_offsets as group_offsets_of
from airflow_kafka_hdfs.adapters.kafka.mirror import GroupMirror
from airflow_kafka_hdfs.adapters.kafka.producer import CheckedProducer
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError, TopicFaultError
from airflow_kafka_hdfs.model import TopicPartition
from airflow_kafka_hdfs.ports.kafka import OffsetMirror
from tests.contract.kafka.drivers import Reading, RealDriver, until
from tests.fakes.kafka import FakeMirror

NOBODY = client_settings({"bootstrap.servers": "127.0.0.1:1"})


def group_offsets(driver: RealDriver, group: str) -> dict[TopicPartition, int]:
    request = [ConsumerGroupTopicPartitions(group)]
    (future,) = driver.cluster.admin.list_consumer_group_offsets(request, request_timeout=20).values()
    return {TopicPartition(p.topic, p.partition): p.offset for p in future.result(30).topic_partitions}


def test_a_lag_tool_sees_our_offsets(real_driver: RealDriver, unique_name: str):
    name = real_driver.topic(partitions=2)
    p0, p1 = TopicPartition(name, 0), TopicPartition(name, 1)
    mirror = GroupMirror(real_driver.settings, unique_name)
    assert mirror.copy({p0: 5, p1: 0})
    assert group_offsets(real_driver, unique_name) == {p0: 5, p1: 0}
    assert mirror.copy({p1: 7}), "what is not named stays"
    assert group_offsets(real_driver, unique_name) == {p0: 5, p1: 7}
    assert group_offsets_of(real_driver.settings, unique_name) == {name: {0: 5, 1: 7}}
    assert group_offsets_of(real_driver.settings, f"{unique_name}_unknown") == {}
    assert mirror.copy({p0: 2}), "a reset goes back"
    assert group_offsets(real_driver, unique_name)[p0] == 2


@pytest.mark.parametrize("mirror", [GroupMirror(NOBODY, "g", timeout=1), FakeMirror()], ids=["group", "fake"])
@pytest.mark.bug(84)
def test_nothing_to_copy_is_no_error(mirror: OffsetMirror):
    assert mirror.copy({})


@pytest.mark.parametrize(
    "mirror", [GroupMirror(NOBODY, "g", timeout=1), FakeMirror(broken=True)], ids=["group", "fake"]
)
@pytest.mark.bug(32, 33)
def test_trouble_is_told_and_never_raised(mirror: OffsetMirror):
    assert mirror.copy({TopicPartition("t", 0): 5}) is False


def test_a_partition_that_can_not_be_copied_is_logged_by_name(
    real_driver: RealDriver, unique_name: str, caplog: pytest.LogCaptureFixture
):
    tp = TopicPartition(real_driver.topic(), 0)
    missing = TopicPartition("no_such_topic", 3)
    with caplog.at_level(logging.WARNING):
        assert GroupMirror(real_driver.settings, unique_name).copy({tp: 1, missing: 2}) is False
    assert "no_such_topic[3]" in caplog.text
    assert group_offsets(real_driver, unique_name) == {tp: 1}


def test_a_group_with_members_is_left_alone(
    real_driver: RealDriver, unique_name: str, caplog: pytest.LogCaptureFixture
):
    name = real_driver.topic()
    member = Consumer({"bootstrap.servers": real_driver.cluster.bootstrap_servers, "group.id": unique_name})
    member.subscribe([name])

    def joined() -> bool:
        member.poll(0.1)
        return bool(member.assignment())

    until(joined)
    with caplog.at_level(logging.WARNING):
        assert GroupMirror(real_driver.settings, unique_name).copy({TopicPartition(name, 0): 1}) is False
    member.close()
    assert unique_name in caplog.text


def test_sent_messages_arrive_with_keys_and_headers(real_driver: RealDriver):
    name = real_driver.topic()
    with CheckedProducer(real_driver.settings) as producer:
        producer.send(name, b"value", key=b"key", headers=[("h", b"1")])
        producer.send(name, None)
    reading = Reading(real_driver.reader())
    reading.reader.assign({TopicPartition(name, 0): 0})
    reading.to({TopicPartition(name, 0): 2})
    reading.reader.close()
    first, second = reading.records
    assert (first.value, first.key, first.headers) == (b"value", b"key", (("h", b"1"),))
    assert (second.value, second.key) == (None, None)


def test_a_topic_that_may_not_be_written_is_told_at_the_flush(real_driver: RealDriver):
    name = real_driver.topic()
    real_driver.deny(name)
    producer = CheckedProducer(real_driver.settings, timeout=10)
    producer.send(name, b"x")
    with pytest.raises(TopicFaultError, match=f"topic {name}: denied"):
        producer.flush()
    producer.flush()


def test_a_missing_topic_is_told_at_the_flush(real_driver: RealDriver):
    producer = CheckedProducer(real_driver.settings, timeout=20)
    producer.send("no_such_topic", b"x")
    with pytest.raises(TopicFaultError, match="no_such_topic: missing"):
        producer.flush()


def test_messages_to_nobody_are_told_at_the_flush():
    producer = CheckedProducer(NOBODY, timeout=1)
    producer.send("t", b"x")
    with pytest.raises(KafkaUnavailableError, match="127.0.0.1:1"):
        producer.flush()


def test_an_error_inside_the_context_is_not_hidden_by_the_flush():
    def fail() -> None:
        with CheckedProducer(NOBODY, timeout=1) as producer:
            producer.send("t", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
