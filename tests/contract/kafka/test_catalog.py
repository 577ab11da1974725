"""Every `TopicCatalog` answers like this."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.model import PartitionOffsets, TopicPartition
from tests.contract.kafka.drivers import Driver, FakeDriver, RealDriver

HOUR = 3_600_000


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.services) for name in ("real", "surveyed"))])
def kafka(request: pytest.FixtureRequest) -> Driver:
    """The fake, and real brokers; also as those with very many partitions are looked at."""
    if request.param == "fake":
        return FakeDriver()
    driver: RealDriver = request.getfixturevalue("real_driver")
    driver.many = 1 if request.param == "surveyed" else 2_000
    return driver


def test_the_cluster_tells_its_id(kafka: Driver):
    assert kafka.catalog().cluster_id() == kafka.cluster_id


def test_topics_come_with_ids_and_partitions(kafka: Driver):
    name = kafka.topic(partitions=3)
    info = kafka.catalog().topics()[name]
    assert (info.name, info.partitions, info.fault) == (name, (0, 1, 2), None)
    assert len(info.topic_id) == 22
    assert not set(info.topic_id) & set("+/="), "ids are printed as brokers print them"
    assert kafka.catalog().describe([name]) == {name: info}


def test_internal_topics_are_left_out(kafka: Driver):
    kafka.transaction().produce(kafka.topic(), 0, b"makes the transaction topic")
    assert not [name for name in kafka.catalog().topics() if name.startswith("__")]


def test_a_topic_made_again_has_another_id(kafka: Driver):
    name = kafka.topic()
    catalog = kafka.catalog()
    first = catalog.describe([name])[name].topic_id
    kafka.delete(name)
    kafka.create(name)
    second = catalog.describe([name])[name].topic_id
    assert second not in ("", first)


def test_a_missing_topic_has_a_fault_and_no_partitions(kafka: Driver):
    good = kafka.topic()
    infos = kafka.catalog().describe(["no_such_topic", good])
    assert set(infos) == {"no_such_topic", good}
    missing = infos["no_such_topic"]
    assert (missing.fault, missing.topic_id, missing.partitions) == ("missing", "", ())
    assert infos[good].fault is None


def test_looking_at_a_missing_topic_does_not_make_it(kafka: Driver):
    catalog = kafka.catalog()
    catalog.describe(["never_made"])
    catalog.offsets([TopicPartition("never_made", 0)])
    assert "never_made" not in catalog.topics()


def test_a_denied_topic_has_a_fault_and_is_not_listed(kafka: Driver):
    denied, good = kafka.topic(), kafka.topic()
    kafka.deny(denied)
    catalog = kafka.catalog()
    assert catalog.describe([denied, good])[denied].fault == "denied"
    assert catalog.describe([denied, good])[good].fault is None
    listed = catalog.topics()
    assert denied not in listed
    assert good in listed
    assert catalog.offsets([TopicPartition(denied, 0)]) == {TopicPartition(denied, 0): "denied"}


def test_a_topic_that_may_be_seen_but_not_read_looks_good_to_the_catalog(kafka: Driver):
    name = kafka.topic()
    kafka.deny(name, read_only=True)
    catalog = kafka.catalog()
    assert catalog.describe([name])[name].fault is None
    assert isinstance(catalog.offsets([TopicPartition(name, 0)])[TopicPartition(name, 0)], PartitionOffsets)


def test_nothing_asked_nothing_answered(kafka: Driver):
    catalog = kafka.catalog()
    assert catalog.describe([]) == {}
    assert catalog.offsets([]) == {}
    assert catalog.offsets_for_times({}) == {}


def test_offsets_of_an_empty_partition_are_zero(kafka: Driver):
    tp = TopicPartition(kafka.topic(), 0)
    assert kafka.catalog().offsets([tp]) == {tp: PartitionOffsets(log_start=0, last_stable=0, high_watermark=0)}


@pytest.mark.bug(66)
def test_offsets_tell_log_start_last_stable_offset_and_high_watermark(kafka: Driver):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *[b"x"] * 10)
    kafka.expire(name, 0, 4)
    transaction = kafka.transaction()
    transaction.produce(name, 0, b"open", b"open")
    found = kafka.catalog().offsets([TopicPartition(name, 0), TopicPartition(name, 1)])
    assert found[TopicPartition(name, 0)] == PartitionOffsets(log_start=4, last_stable=10, high_watermark=12)
    assert found[TopicPartition(name, 1)] == PartitionOffsets(log_start=0, last_stable=0, high_watermark=0)
    transaction.commit()
    after = kafka.catalog().offsets([TopicPartition(name, 0)])[TopicPartition(name, 0)]
    assert after == PartitionOffsets(log_start=4, last_stable=13, high_watermark=13), "the marker has an offset too"


@pytest.mark.bug(73)
def test_a_topic_emptied_by_retention_starts_where_it_ends(kafka: Driver):
    name = kafka.topic()
    kafka.produce(name, 0, *[b"x"] * 5)
    kafka.expire(name, 0, 5)
    tp = TopicPartition(name, 0)
    assert kafka.catalog().offsets([tp])[tp] == PartitionOffsets(log_start=5, last_stable=5, high_watermark=5)


def test_a_fault_of_one_partition_leaves_the_others_their_offsets(kafka: Driver):
    name = kafka.topic()
    kafka.produce(name, 0, b"x")
    good, beyond, gone = TopicPartition(name, 0), TopicPartition(name, 7), TopicPartition("no_such_topic", 0)
    found = kafka.catalog().offsets([good, beyond, gone])
    assert found[good] == PartitionOffsets(log_start=0, last_stable=1, high_watermark=1)
    assert (found[beyond], found[gone]) == ("missing", "missing")


def test_new_partitions_are_seen(kafka: Driver):
    name = kafka.topic()
    catalog = kafka.catalog()
    assert catalog.describe([name])[name].partitions == (0,)
    kafka.add_partitions(name, 3)
    assert catalog.describe([name])[name].partitions == (0, 1, 2)
    assert isinstance(catalog.offsets([TopicPartition(name, 2)])[TopicPartition(name, 2)], PartitionOffsets)


@pytest.mark.bug(82)
def test_offsets_for_times_find_the_first_record_at_or_after(kafka: Driver):
    name = kafka.topic(partitions=3)
    for hour in range(4):
        kafka.produce(name, 0, b"a", b"b", timestamp=(hour + 1) * HOUR)
    kafka.produce(name, 1, b"late", timestamp=9 * HOUR)
    kafka.produce(name, 1, b"early", timestamp=2 * HOUR)
    p0, p1, p2 = (TopicPartition(name, p) for p in range(3))
    catalog = kafka.catalog()
    assert catalog.offsets_for_times({p0: 2 * HOUR, p1: 3 * HOUR, p2: HOUR}) == {p0: 2, p1: 0, p2: None}
    assert catalog.offsets_for_times({p0: 2 * HOUR + 1, p1: 10 * HOUR}) == {p0: 4, p1: None}
    assert catalog.offsets_for_times({p0: 0, p1: -5}) == {p0: 0, p1: 0}, "nothing is older than the epoch"


def test_offsets_for_times_see_committed_records_alone(kafka: Driver):
    name = kafka.topic()
    kafka.produce(name, 0, b"x", timestamp=HOUR)
    transaction = kafka.transaction()
    transaction.produce(name, 0, b"open")
    tp = TopicPartition(name, 0)
    assert kafka.catalog().offsets_for_times({tp: 2 * HOUR}) == {tp: None}
    transaction.commit()
    assert kafka.catalog().offsets_for_times({tp: 2 * HOUR}) == {tp: 1}


@pytest.mark.parametrize("reason", ["missing", "denied"])
def test_offsets_for_times_tell_faults(kafka: Driver, reason: str):
    name = "no_such_topic"
    if reason == "denied":
        name = kafka.topic()
        kafka.deny(name)
    tp = TopicPartition(name, 0)
    assert kafka.catalog().offsets_for_times({tp: 0}) == {tp: reason}
