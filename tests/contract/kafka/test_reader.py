"""Every `RecordReader` behaves like this."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.model import TimestampType, TopicPartition
from tests.contract.kafka.drivers import READERS, Driver, FakeDriver, Reading, until

HOUR = 3_600_000


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.services) for name in READERS)])
def kafka(request: pytest.FixtureRequest) -> Driver:
    """The fake cluster, and a real broker read by each of our readers."""
    return FakeDriver() if request.param == "fake" else request.getfixturevalue("real_driver")


@pytest.fixture
def reader_name(request: pytest.FixtureRequest) -> str:
    name: str = request.node.callspec.params["kafka"]
    return name


@pytest.fixture
def reading(kafka: Driver):
    reading = Reading(kafka.reader())
    yield reading
    reading.reader.close()


def start(reading: Reading, *positions: tuple[str, int, int]) -> list[TopicPartition]:
    tps = {TopicPartition(topic, partition): offset for topic, partition, offset in positions}
    reading.reader.assign(tps)
    return list(tps)


def numbers(n: int, start: int = 0) -> list[bytes]:
    return [b"%d" % i for i in range(start, start + n)]


def test_records_come_whole(kafka: Driver, reading: Reading):
    name = kafka.topic()
    headers = (("a", b"1"), ("b", None), ("a", b"2"))
    kafka.produce(name, 0, b"value", timestamp=5 * HOUR, key=b"key", headers=headers)
    kafka.produce(name, 0, None, timestamp=6 * HOUR)
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 2})
    first, second = reading.records
    assert (first.topic, first.partition, first.offset) == (name, 0, 0)
    assert (first.key, first.value, first.headers) == (b"key", b"value", headers)
    assert (first.timestamp, first.timestamp_type) == (5 * HOUR, TimestampType.CREATE)
    assert (second.key, second.value, second.headers) == (None, None, ())


def test_columns_agree_with_records(kafka: Driver, reading: Reading):
    one, two = kafka.topic(partitions=2), kafka.topic()
    for topic, partition in ((one, 0), (one, 1), (two, 0)):
        kafka.produce(topic, partition, *numbers(20), None, timestamp=7)
    tps = start(reading, (one, 0, 0), (one, 1, 0), (two, 0, 0))
    seen = 0
    while seen < 63:
        batch = reading.poll(10).batch
        records = [batch.record(i) for i in range(len(batch))]
        assert list(batch.topics()) == [r.topic for r in records]
        assert list(batch.partitions()) == [r.partition for r in records]
        assert list(batch.offsets()) == [r.offset for r in records]
        assert list(batch.values()) == [r.value for r in records]
        assert list(batch.timestamps()) == [r.timestamp for r in records] == [7] * len(records)
        seen += len(batch)
    for tp in tps:
        assert reading.values(tp.topic, tp.partition) == [*numbers(20), None]


def test_reading_starts_at_the_given_offsets(kafka: Driver, reading: Reading):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *numbers(10))
    kafka.produce(name, 1, *numbers(10))
    p0, p1 = start(reading, (name, 0, 7), (name, 1, 2))
    reading.to({p0: 10, p1: 10})
    assert reading.values(name, 0) == numbers(3, 7)
    assert reading.values(name, 1) == numbers(8, 2)


def test_a_batch_is_never_larger_than_asked(kafka: Driver, reading: Reading):
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(25))
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 25}, n=1)
    assert reading.values() == numbers(25)


@pytest.mark.bug(86)
def test_the_end_of_a_partition_is_told_with_its_offset(kafka: Driver, reading: Reading):
    """25 records and one event with offset 25, which is no record."""
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(25))
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 25})
    assert len(reading.records) == 25


def test_an_empty_partition_tells_its_end_too(kafka: Driver, reading: Reading):
    (tp,) = start(reading, (kafka.topic(), 0, 0))
    reading.to({tp: 0})
    assert reading.records == []


@pytest.mark.bug(65)
def test_a_range_that_ends_in_a_commit_marker_ends(kafka: Driver, reading: Reading):
    name = kafka.topic()
    transaction = kafka.transaction()
    transaction.produce(name, 0, *numbers(3))
    transaction.commit()
    (tp,) = start(reading, (name, 0, 0))
    assert kafka.catalog().offsets([tp])[tp].last_stable == 4
    reading.to({tp: 4})
    assert reading.values() == numbers(3)


@pytest.mark.bug(70)
def test_transactions_of_one_record_leave_a_gap_after_each(kafka: Driver, reading: Reading):
    name = kafka.topic()
    for value in numbers(3):
        transaction = kafka.transaction()
        transaction.produce(name, 0, value)
        transaction.commit()
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 6})
    assert [r.offset for r in reading.records] == [0, 2, 4]


@pytest.mark.bug(67)
def test_aborted_records_never_come_and_count_as_read(kafka: Driver, reading: Reading):
    name = kafka.topic()
    kafka.produce(name, 0, b"before")
    aborted = kafka.transaction()
    aborted.produce(name, 0, *numbers(5))
    aborted.abort()
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 7})
    assert reading.values() == [b"before"]
    kafka.produce(name, 0, b"after")
    reading.to({tp: 8})
    assert reading.values() == [b"before", b"after"]
    assert reading.records[-1].offset == 7


@pytest.mark.bug(71)
def test_a_partition_of_markers_alone_is_read_without_a_record(kafka: Driver, reading: Reading):
    name = kafka.topic()
    aborted = kafka.transaction()
    aborted.produce(name, 0, b"x")
    aborted.abort()
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 2})
    assert reading.records == []


def test_an_open_transaction_holds_back_what_is_behind_it(kafka: Driver, reading: Reading):
    name = kafka.topic()
    kafka.produce(name, 0, b"before")
    transaction = kafka.transaction()
    transaction.produce(name, 0, b"inside")
    kafka.produce(name, 0, b"behind")
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 1})
    for _ in range(3):
        reading.poll()
    assert reading.values() == [b"before"]
    assert reading.positions[tp] == 1
    transaction.commit()
    reading.to({tp: 4})
    assert reading.values() == [b"before", b"inside", b"behind"]


def test_records_that_arrive_while_reading_are_read(kafka: Driver, reading: Reading):
    name = kafka.topic()
    kafka.produce(name, 0, b"a")
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 1})
    kafka.produce(name, 0, b"b")
    reading.to({tp: 2})
    assert reading.values() == [b"a", b"b"]


@pytest.mark.parametrize("offset", [3, 100])
def test_an_offset_that_the_broker_does_not_hold_is_out_of_range_once(kafka: Driver, reading: Reading, offset: int):
    name, other = kafka.topic(), kafka.topic()
    kafka.produce(name, 0, *numbers(25))
    kafka.expire(name, 0, 10)
    kafka.produce(other, 0, *numbers(5))
    lost, good = start(reading, (name, 0, offset), (other, 0, 0))
    reading.until(lambda: bool(reading.out_of_range)).to({good: 5})
    for _ in range(3):
        reading.poll()
    assert reading.out_of_range == [lost]
    assert reading.values(name) == []
    assert reading.values(other) == numbers(5)


def test_reading_goes_on_after_a_seek_back_into_range(kafka: Driver, reading: Reading):
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(25))
    kafka.expire(name, 0, 10)
    (tp,) = start(reading, (name, 0, 3))
    reading.until(lambda: bool(reading.out_of_range))
    reading.reader.seek(tp, 10)
    reading.to({tp: 25})
    assert reading.values() == numbers(15, 10)


def test_the_log_end_itself_is_in_range(kafka: Driver, reading: Reading):
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(5))
    (tp,) = start(reading, (name, 0, 5))
    reading.to({tp: 5})
    assert reading.out_of_range == []


def test_retention_that_overtakes_a_position_is_out_of_range(kafka: Driver, reading: Reading):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *numbers(5))
    p0, p1 = start(reading, (name, 0, 0), (name, 1, 0))
    reading.to({p0: 5, p1: 0})
    kafka.produce(name, 1, *numbers(50))
    reading.to({p1: 50})
    kafka.expire(name, 1, 50)
    reading.reader.seek(p1, 20)
    reading.until(lambda: p1 in reading.out_of_range)


def test_seek_repeats_and_skips(kafka: Driver, reading: Reading):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *numbers(10))
    kafka.produce(name, 1, *numbers(10))
    p0, p1 = start(reading, (name, 0, 0), (name, 1, 0))
    reading.to({p0: 10, p1: 10})
    reading.records.clear()
    reading.positions.clear()
    reading.reader.seek(p0, 8)
    reading.to({p0: 10})
    assert reading.values(name, 0) == numbers(2, 8)
    assert reading.values(name, 1) == []


def test_a_paused_partition_brings_nothing_more(kafka: Driver, reading: Reading):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *numbers(2000))
    kafka.produce(name, 1, *numbers(2000))
    p0, p1 = start(reading, (name, 0, 0), (name, 1, 0))
    reading.until(lambda: len(reading.records) >= 10, n=10)
    reading.reader.pause([p0])
    before = reading.values(name, 0)
    reading.to({p1: 2000})
    assert reading.values(name, 0) == before
    assert reading.values(name, 1) == numbers(2000)


def test_a_paused_partition_goes_on_from_where_it_is_resumed(kafka: Driver, reading: Reading):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *numbers(2000))
    kafka.produce(name, 1, *numbers(2000))
    p0, p1 = start(reading, (name, 0, 0), (name, 1, 0))
    reading.until(lambda: len(reading.records) >= 10, n=10)
    reading.reader.pause([p0, p1])
    read = len(reading.values(name, 1))
    reading.reader.resume({p0: 7, p1: read})
    reading.records.clear()
    reading.positions.clear()
    reading.to({p0: 2000, p1: 2000}, n=500)
    assert reading.values(name, 0) == numbers(1993, 7)
    assert reading.values(name, 1) == numbers(2000 - read, read)


def test_a_paused_partition_that_is_assigned_anew_is_read(kafka: Driver, reading: Reading):
    for _ in range(5):  # what the client is still at work on must not come out on top
        name = kafka.topic()
        kafka.produce(name, 0, *numbers(5))
        (tp,) = start(reading, (name, 0, 0))
        reading.reader.pause([tp])
        start(reading, (name, 0, 2))
        reading.to({tp: 5})
        assert reading.values(name) == numbers(3, 2)


def test_assigning_anew_forgets_the_old(kafka: Driver, reading: Reading):
    old, new = kafka.topic(), kafka.topic()
    kafka.produce(old, 0, *numbers(100))
    kafka.produce(new, 0, *numbers(5))
    start(reading, (old, 0, 0))
    reading.until(lambda: len(reading.records) >= 10, n=10)
    reading.records.clear()
    (tp,) = start(reading, (new, 0, 0))
    reading.to({tp: 5})
    for _ in range(3):
        reading.poll()
    assert reading.values() == numbers(5)


def test_many_partitions_of_many_topics_are_read_at_once(kafka: Driver, reading: Reading):
    topics = [kafka.topic(partitions=4) for _ in range(3)]
    ends = {}
    for number, topic in enumerate(topics):
        for partition in range(4):
            kafka.produce(topic, partition, *numbers(10 * (number + 1)))
            ends[TopicPartition(topic, partition)] = 10 * (number + 1)
    reading.reader.assign(dict.fromkeys(ends, 0))
    reading.to(ends, n=7)
    for tp, end in ends.items():
        assert reading.values(tp.topic, tp.partition) == numbers(end)


def test_a_partition_that_does_not_exist_is_a_fault(kafka: Driver, reading: Reading):
    good = kafka.topic()
    kafka.produce(good, 0, b"x")
    missing, tp = start(reading, ("no_such_topic", 0, 0), (good, 0, 0))
    reading.until(lambda: missing in reading.faults).to({tp: 1})
    assert reading.faults == {missing: "missing"}
    assert reading.values() == [b"x"]


def test_a_topic_that_may_not_be_read_is_a_fault(kafka: Driver, reading: Reading):
    denied, good = kafka.topic(), kafka.topic()
    kafka.produce(denied, 0, b"secret")
    kafka.produce(good, 0, b"x")
    kafka.deny(denied, read_only=True)
    lost, tp = start(reading, (denied, 0, 0), (good, 0, 0))
    reading.until(lambda: lost in reading.faults).to({tp: 1})
    assert reading.faults == {lost: "denied"}
    assert reading.values() == [b"x"]


def test_a_topic_deleted_while_it_is_read_is_a_fault_told_once(kafka: Driver, reading: Reading):
    name = kafka.topic(partitions=2)
    kafka.produce(name, 0, *numbers(5))
    p0, p1 = start(reading, (name, 0, 0), (name, 1, 0))
    reading.to({p0: 5, p1: 0})
    kafka.delete(name)
    reading.until(lambda: {p0, p1} <= reading.faults.keys())
    assert reading.faults == {p0: "missing", p1: "missing"}
    again = [reading.poll().faults for _ in range(5)]
    assert again == [{}] * 5


def test_a_topic_made_again_under_a_reader_is_read_on_so_ids_must_be_checked(kafka: Driver, reading: Reading):
    """The client goes by name: why the job compares topic ids before its first read and before its manifest."""
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(3))
    (tp,) = start(reading, (name, 0, 0))
    reading.to({tp: 3})
    catalog = kafka.catalog()
    before = catalog.describe([name])[name].topic_id
    kafka.delete(name)
    kafka.create(name)
    kafka.produce(name, 0, *numbers(5))
    assert catalog.describe([name])[name].topic_id != before
    reading.until(lambda: tp in reading.faults or len(reading.records) > 3)
    if not reading.faults:
        assert reading.values()[3:] == numbers(2, 3), "offset 3 of the new topic follows offset 2 of the old one"


def test_only_assigned_partitions_can_be_paused_or_moved(kafka: Driver, reading: Reading):
    start(reading, (kafka.topic(), 0, 0))
    with pytest.raises(ValueError, match="not assigned"):
        reading.reader.pause([TopicPartition("other", 0)])
    with pytest.raises(ValueError, match="not assigned"):
        reading.reader.seek(TopicPartition("other", 0), 5)
    with pytest.raises(ValueError, match="not assigned"):
        reading.reader.resume({TopicPartition("other", 0): 5})


def test_closing_twice_is_fine(kafka: Driver):
    reader = kafka.reader()
    reader.close()
    reader.close()


@pytest.mark.bug(20, 21, 32)
def test_a_reader_commits_nothing(kafka: Driver):
    """Two readers of one group get the same records: nothing is remembered but by us."""
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(5))
    tp = TopicPartition(name, 0)
    for _ in range(2):
        reading = Reading(kafka.reader())
        reading.reader.assign({tp: 0})
        reading.to({tp: 5})
        assert reading.values() == numbers(5)
        reading.reader.close()


def test_the_state_of_a_range_is_known_when_its_records_are_there(kafka: Driver, reading: Reading):
    """A range that ends inside the log is over with its last record, without waiting for any event."""
    name = kafka.topic()
    kafka.produce(name, 0, *numbers(1000))
    (tp,) = start(reading, (name, 0, 0))
    until(lambda: len(reading.poll(100).batch) > 0)
    while reading.positions[tp] < 500:
        poll = reading.poll(min(100, 500 - reading.positions[tp]))
        assert reading.positions[tp] == poll.batch.offsets()[-1] + 1
    assert reading.positions[tp] == 500
