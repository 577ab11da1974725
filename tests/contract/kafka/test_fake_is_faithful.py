"""One random story told to the fake and to a real broker leaves the same offsets and the same records in both."""

from __future__ import annotations

import random

import pytest

from airflow_kafka_hdfs.model import TopicPartition
from tests.contract.kafka.drivers import Driver, FakeDriver, Reading, RealDriver

PARTITIONS = 3


def tell(driver: Driver, topic: str, seed: int) -> list:
    """Records, transactions that commit or abort or stay open, retention; returns what is still open."""
    dice = random.Random(seed)
    open_transactions = []
    for step in range(25):
        partition = dice.randrange(PARTITIONS)
        values = [b"%d/%d" % (step, i) for i in range(dice.randint(1, 4))]
        match dice.choice(["plain", "plain", "begin", "begin", "more", "end", "expire"]):
            case "plain":
                driver.produce(topic, partition, *values, timestamp=1000 * step)
            case "begin" if len(open_transactions) < 3:
                open_transactions.append(driver.transaction())
                open_transactions[-1].produce(topic, partition, *values)
            case "more" if open_transactions:
                dice.choice(open_transactions).produce(topic, partition, *values)
            case "end" if open_transactions:
                transaction = open_transactions.pop(dice.randrange(len(open_transactions)))
                transaction.commit() if dice.random() < 0.5 else transaction.abort()
            case "expire":
                tp = TopicPartition(topic, partition)
                offsets = driver.catalog().offsets([tp])[tp]
                driver.expire(topic, partition, dice.randint(offsets.log_start, offsets.last_stable))
    return open_transactions


def outcome(driver: Driver, topic: str) -> tuple[dict, list]:
    tps = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    offsets = driver.catalog().offsets(tps)
    reading = Reading(driver.reader())
    reading.reader.assign({tp: offsets[tp].log_start for tp in tps})
    reading.to({tp: offsets[tp].last_stable for tp in tps})
    reading.reader.close()
    seen = sorted((r.partition, r.offset, r.value) for r in reading.records)
    return {tp.partition: offsets[tp] for tp in tps}, seen


@pytest.mark.parametrize("seed", range(4))
def test_fake_and_broker_agree(real_driver: RealDriver, seed: int):
    results = []
    for driver in (FakeDriver(), real_driver):
        topic = driver.topic(partitions=PARTITIONS)
        still_open = tell(driver, topic, seed)
        results.append(outcome(driver, topic))
        for transaction in still_open:
            transaction.abort()
        results.append(outcome(driver, topic))
    fake_before, fake_after, real_before, real_after = results
    assert fake_before == real_before
    assert fake_after == real_after
    assert fake_before[1], "a story without a record tells nothing"
