"""The real readers on librdkafka's own mock cluster: no Java needed, and errors can be had on demand."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer, cimpl

from airflow_kafka_hdfs.adapters.kafka import librdkafka
from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.model import TopicPartition

RECORDS = 2_000
AnyReader = KafkaReader | DirectReader


class MockCluster:
    """A producer that carries the cluster; it ends with the producer."""

    def __init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
        brokers = self.producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def fill(self, topic: str, partitions: int, records: int = RECORDS) -> None:
        for i in range(records):
            for partition in range(partitions):
                self.producer.produce(topic, b"%d" % i, b"k", partition)
        assert self.producer.flush(30) == 0


@pytest.fixture(scope="module")
def mock() -> MockCluster:
    mock = MockCluster()
    mock.fill("one", 2)
    mock.fill("two", 2)
    return mock


@pytest.fixture(params=[KafkaReader, DirectReader])
def reader(request: pytest.FixtureRequest, mock: MockCluster) -> Iterator[AnyReader]:
    reader = request.param(client_settings({"bootstrap.servers": mock.servers}))
    yield reader
    reader.close()


def read(reader: AnyReader, starts: dict[TopicPartition, int], end: int, n: int) -> dict[TopicPartition, list]:
    reader.assign(starts)
    found: dict[TopicPartition, list] = {tp: [] for tp in starts}
    positions: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + 30
    while any(positions.get(tp, -1) < end for tp in starts):
        assert time.monotonic() < deadline, positions
        poll = reader.poll(n, 0.1)
        assert len(poll.batch) <= n
        where = map(TopicPartition, poll.batch.topics(), poll.batch.partitions())
        for tp, offset, value in zip(where, poll.batch.offsets(), poll.batch.values(), strict=True):
            found[tp].append((offset, value))
        for tp, position in poll.positions.items():
            assert position >= positions.get(tp, 0)
            positions[tp] = position
    return found


@pytest.mark.parametrize("n", [1, 7, 500, 5_000])
@pytest.mark.parametrize("topics", [["one"], ["one", "two"]], ids=["one topic", "two topics"])
def test_every_record_comes_once_and_in_order(reader: AnyReader, n: int, topics: list[str]):
    first = RECORDS - 300 if n == 1 else 0
    starts = {TopicPartition(topic, partition): first for topic in topics for partition in range(2)}
    wanted = [(i, b"%d" % i) for i in range(first, RECORDS)]
    assert read(reader, starts, RECORDS, n) == dict.fromkeys(starts, wanted)


def test_offsets_can_be_asked_for_one_by_one_or_together(reader: AnyReader):
    reader.assign({TopicPartition("one", 0): RECORDS - 10})
    columns = []
    while sum(map(len, columns)) < 10:
        columns.append(reader.poll(10, 1.0).batch.offsets())
    ends = [(column[0], column[-1]) for column in columns if len(column)]
    found = [list(column) for column in columns]
    assert sum(found, []) == list(range(RECORDS - 10, RECORDS))
    assert ends == [(offsets[0], offsets[-1]) for offsets in found if offsets]
    for column, offsets in zip(columns, found, strict=True):
        assert list(column[1:]) == offsets[1:]
        assert [column[i] for i in range(len(column))] == offsets


def test_the_end_of_a_range_costs_no_time_out(reader: AnyReader):
    """A poll with records at hand returns them at once instead of waiting for a full batch."""
    tp = TopicPartition("one", 0)
    read(reader, {tp: RECORDS - 10}, RECORDS, 500)
    reader.assign({tp: RECORDS - 10})
    start = time.monotonic()
    while not len(reader.poll(500, 30.0).batch):
        pass
    assert time.monotonic() - start < 60


def test_an_offset_beyond_the_end_is_out_of_range(reader: AnyReader):
    lost, good = TopicPartition("one", 0), TopicPartition("one", 1)
    reader.assign({lost: RECORDS + 100, good: RECORDS})
    told: list[TopicPartition] = []
    deadline = time.monotonic() + 20
    while not told:
        assert time.monotonic() < deadline
        told += reader.poll(10, 0.1).out_of_range
    assert told == [lost]


def test_a_fatal_state_of_the_client_is_raised(reader: AnyReader):
    reader.assign({TopicPartition("one", 0): 0})
    reader._assigned.note(KafkaError(KafkaError._FATAL, "the client gave up", fatal=True))
    with pytest.raises(KafkaUnavailableError, match="the client gave up"):
        reader.poll(10, 0.1)


def test_reports_about_other_partitions_are_no_faults(reader: AnyReader):
    tp = TopicPartition("one", 0)
    reader.assign({tp: 0})
    reader._assigned.note(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "elsewhere [0]: topic does not exist (…)"))
    reader._assigned.note(KafkaError(KafkaError._TRANSPORT, "one [0]: connection lost"))
    reader._assigned.note(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "something is missing"))
    assert reader.poll(1, 5.0).faults == {}
    reader._assigned.note(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "one [0]: topic does not exist (…)"))
    reader._assigned.note(
        KafkaError(KafkaError._UNKNOWN_PARTITION, "one [0]: desired partition is no longer available (…)")
    )
    poll = reader.poll(10, 0.1)
    assert poll.faults == {tp: "missing"}
    assert len(poll.batch) == 0


class _Part(ctypes.Structure):
    """`rd_kafka_vu_t`: one argument of `rd_kafka_produceva`."""

    class _Value(ctypes.Union):
        class _Header(ctypes.Structure):
            _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_char_p), ("size", ctypes.c_ssize_t))

        _fields_ = (
            ("text", ctypes.c_char_p),
            ("number", ctypes.c_int32),
            ("header", _Header),
            ("padding", ctypes.c_char * 64),
        )

    _fields_ = (("kind", ctypes.c_int), ("value", _Value))


def produce_with_header(servers: str, topic: str, name: bytes) -> None:
    """One record without value, with a header of a name that the client's Python face does not let pass."""
    lib = librdkafka.library()
    assert isinstance(lib, librdkafka.Library)
    raw = ctypes.CDLL(cimpl.__file__)
    raw.rd_kafka_produceva.restype = ctypes.c_void_p
    raw.rd_kafka_produceva.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Part), ctypes.c_size_t]
    raw.rd_kafka_flush.argtypes = [ctypes.c_void_p, ctypes.c_int]
    conf, text = lib.conf_new(), ctypes.create_string_buffer(512)
    lib.conf_set(conf, b"bootstrap.servers", servers.encode(), text, len(text))
    client = lib.new(librdkafka.PRODUCER, conf, text, len(text))
    parts = (_Part * 3)()
    parts[0].kind, parts[0].value.text = 1, topic.encode()
    parts[1].kind, parts[1].value.number = 3, 0
    parts[2].kind, parts[2].value.header = 9, _Part._Value._Header(name, b"v", 1)
    assert lib.error_of(raw.rd_kafka_produceva(client, parts, 3)) is None
    assert raw.rd_kafka_flush(client, 10_000) == 0
    lib.destroy(client)


def test_a_record_whose_header_has_a_name_that_is_no_text_is_read_without_headers(reader: AnyReader, mock, caplog):
    produce_with_header(mock.servers, "odd", b"na\xffme")
    reader.assign({TopicPartition("odd", 0): 0})
    deadline = time.monotonic() + 30
    while not len((poll := reader.poll(10, 0.2)).batch):
        assert time.monotonic() < deadline
    for _ in range(50):  # the client keeps what it broke off in, and the interpreter learns lines by heart
        found = poll.batch.record(0)
        assert (found.topic, found.offset, found.value, found.headers) == ("odd", 0, None, ())
    assert "odd[0]@0: its headers are left off: the name of one is not UTF-8" in caplog.text
