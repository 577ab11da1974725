"""What a lineage topic promises: in memory and in real Kafka."""

from __future__ import annotations

import time

import pytest

from airflow_kafka_hdfs.adapters import lineage_topic
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterBox, KafkaLetterSource, create_topics
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError, TopicFaultError
from tests.fakes.lineage import MemoryTopic


@pytest.fixture(params=["memory", "kafka"])
def ends(request):
    """(letter box, letter source, topic): a topic of three partitions."""
    name = request.getfixturevalue("unique_name")
    if request.param == "memory":
        topic = MemoryTopic(partitions=3)
        yield topic, topic, name
        return
    cluster = request.getfixturevalue("kafka_single")
    settings = client_settings({"bootstrap.servers": cluster.bootstrap_servers})
    assert create_topics(settings, [name], partitions=3) == {name: True}
    assert create_topics(settings, [name], partitions=3) == {name: False}
    box, source = KafkaLetterBox(settings), KafkaLetterSource(settings)
    yield box, source, name
    source.close()
    box.close()


def read(source, count, seconds=30):
    """Poll until that many messages came."""
    found, deadline = [], time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found += source.poll(100, 0.5)
    return found


def fill(box, topic, count=30):
    for number in range(count):
        box.send(topic, f"run{number % 5}".encode(), f"message {number}".encode())
    assert box.flush(30) == 0


def test_every_message_is_read_once_and_those_of_a_key_in_order(ends):
    box, source, topic = ends
    fill(box, topic)
    source.assign([topic], {})
    letters = read(source, 30)
    assert sorted(letter.value for letter in letters) == sorted(f"message {n}".encode() for n in range(30))
    for letter in letters:
        assert letter.topic == topic
    numbers = [int(letter.value.split()[1]) for letter in letters]
    for run in range(5):
        of_run = [number for number in numbers if number % 5 == run]
        assert of_run == sorted(of_run)


def test_a_poll_ends_where_it_holds_enough(kafka_single, unique_name):
    settings = client_settings({"bootstrap.servers": kafka_single.bootstrap_servers})
    create_topics(settings, [unique_name], partitions=1, replication=1)
    box, source = KafkaLetterBox(settings), KafkaLetterSource(settings, most_bytes=1)
    fill(box, unique_name, 1_300)
    source.assign([unique_name], {})
    found, deadline = [], time.monotonic() + 60
    while sum(found) < 1_300 and time.monotonic() < deadline:
        found.append(len(source.poll(5_000, 5)))
    assert (sum(found), max(found)) == (1_300, 500)
    source.close()
    box.close()


def test_reading_goes_on_from_the_given_offsets(ends):
    box, source, topic = ends
    fill(box, topic)
    source.assign([topic], {})
    letters = read(source, 30)
    half = {(letter.topic, letter.partition): letter.offset + 1 for letter in letters[:12]}
    source.assign([topic], half)
    rest = read(source, 18)
    got = {(letter.partition, letter.offset) for letter in rest}
    assert got == {
        (letter.partition, letter.offset)
        for letter in letters
        if letter.offset >= half.get((letter.topic, letter.partition), 0)
    }


def test_positions_reach_the_ends(ends):
    box, source, topic = ends
    fill(box, topic)
    source.assign([topic], {})
    read(source, 30)
    held = source.ends()
    assert sum(end - start for start, end in held.values()) == 30
    assert {key: source.positions()[key] for key in held} == {key: end for key, (_, end) in held.items()}


def test_an_offset_beyond_the_end_means_a_topic_made_anew_and_is_read_from_its_start(ends):
    box, source, topic = ends
    fill(box, topic, 10)
    source.assign([topic], {(topic, partition): 10_000 for partition in range(3)})
    assert len(read(source, 10)) == 10


def test_a_missing_topic_is_never_created_and_names_the_command(kafka_single, unique_name):
    source = KafkaLetterSource(client_settings({"bootstrap.servers": kafka_single.bootstrap_servers}))
    with pytest.raises(TopicFaultError, match="lineage init"):
        source.assign([unique_name], {})
    source.close()


def test_brokers_that_are_away_cost_the_time_given_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lineage_topic, "_ASK", 1.0)
    settings = client_settings({"bootstrap.servers": "127.0.0.1:1"})
    box = KafkaLetterBox(settings)
    box.send("t", b"k", b"v")
    start = time.monotonic()
    assert box.flush(0.5) == 1
    assert time.monotonic() - start < 5
    box.close()
    source = KafkaLetterSource(settings)
    start = time.monotonic()
    with pytest.raises(KafkaUnavailableError):
        source.assign(["t"], {})
    assert time.monotonic() - start < 5
    source.close()
