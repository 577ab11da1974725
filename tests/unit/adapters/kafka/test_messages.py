"""Messages in foreign memory: they tell what a batch of objects would tell, and each ends exactly once."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.kafka._messages import Messages, Queue
from airflow_kafka_hdfs.adapters.kafka.direct import DirectBatch
from airflow_kafka_hdfs.model import ConsumerRecord, TimestampType
from airflow_kafka_hdfs.ports.kafka import picked
from tests.fakes.kafka_parts import FakeBatch
from tests.fakes.librdkafka import FakeLibrdkafka

some_bytes = st.one_of(st.none(), st.binary(max_size=5))
records = st.builds(
    ConsumerRecord,
    topic=st.sampled_from(["one", "two"]),
    partition=st.integers(0, 2),
    offset=st.integers(0, 2**62),
    timestamp=st.integers(-1, 2**50),
    timestamp_type=st.sampled_from(TimestampType),
    key=some_bytes,
    value=some_bytes,
    headers=st.lists(st.tuples(st.text("aé", max_size=2), some_bytes), max_size=3).map(tuple),
)


def record(number: int, value: bytes | None = b"value") -> ConsumerRecord:
    return ConsumerRecord(
        topic="one",
        partition=0,
        offset=number,
        timestamp=7,
        timestamp_type=TimestampType.CREATE,
        key=None,
        value=value,
    )


@pytest.fixture
def library():
    library = FakeLibrdkafka()
    yield library
    gc.collect()
    assert not library.alive, "every message that was taken has ended"


def taken(library: FakeLibrdkafka, queue: Queue, most: int = 100) -> Messages:
    found = queue.fetch(most, 0)
    assert found is not None
    return found


@given(st.lists(records, max_size=30), st.data())
@settings(max_examples=60, deadline=None)
def test_columns_records_and_runs_are_those_of_the_records(found, data):
    library = FakeLibrdkafka()
    batch, plain = DirectBatch(library.fetch(found)), FakeBatch(found)
    rows = data.draw(st.lists(st.integers(0, len(found) - 1), unique=True).map(sorted)) if found else []
    assert len(batch) == len(found)
    assert [batch.record(i) for i in range(len(batch))] == found
    for column in ("topics", "partitions", "offsets", "values", "timestamps"):
        mine, theirs = getattr(batch, column)(), getattr(plain, column)()
        assert list(mine) == [mine[i] for i in range(len(mine))] == list(theirs)
        assert list(picked(mine, rows)) == list(picked(theirs, rows))
    values = batch.values()
    half = slice(data.draw(st.integers(0, 9)), data.draw(st.integers(0, 30)))
    assert list(values[half]) == plain.values()[half]
    assert list(values.only(rows)[half]) == [plain.values()[i] for i in rows][half]
    for topic in ("one", "two"):
        mine_of = [i for i, one in enumerate(found) if one.topic == topic]
        assert batch.runs(mine_of, values) == plain.runs(mine_of, plain.values()) or len(mine_of) == len(found)
    assert batch.last_offsets == {(one.topic, one.partition): one.offset for one in found}
    del batch, values, mine
    assert (library.ended, library.alive) == (len(found), {})


@given(st.lists(st.booleans(), max_size=20), st.data())
@settings(max_examples=40, deadline=None)
def test_events_are_told_apart_and_what_is_not_kept_ends(kinds, data):
    library = FakeLibrdkafka()
    for number, is_event in enumerate(kinds):
        library.add(record(number), -191 if is_event else 0, "Broker: the end é")
    messages = taken(library, library.queue())
    events = [(i, -191, "Broker: the end é", "one", 0, i) for i, is_event in enumerate(kinds) if is_event]
    assert messages.errors() == events
    keep = data.draw(st.lists(st.sampled_from(range(len(kinds))), unique=True).map(sorted)) if kinds else []
    messages.keep(keep)
    assert list(DirectBatch(messages).offsets()) == keep
    assert [row for row, *_ in messages.errors()] == [n for n, i in enumerate(keep) if kinds[i]]
    assert library.ended == len(kinds) - len(keep)
    del messages
    assert (library.ended, library.alive) == (len(kinds), {})


def test_an_event_without_topic_and_a_null_text_are_fine(library: FakeLibrdkafka):
    library.add(ConsumerRecord(**{**{f: getattr(record(5), f) for f in record(5).__slots__}, "topic": ""}), -195)
    assert taken(library, library.queue()).errors() == [(0, -195, "", None, 0, 5)]


def test_a_fetch_takes_what_is_there_and_never_more_than_asked(library: FakeLibrdkafka):
    for number in range(10):
        library.add(record(number))
    queue = library.queue()
    assert [len(taken(library, queue, most)) for most in (1, 4, 100, 100)] == [1, 4, 5, 0]
    library.refuses = True
    assert queue.fetch(10, 0) is None


def test_messages_end_with_their_object_and_not_with_their_columns(library: FakeLibrdkafka):
    library.add(record(1))
    queue = library.queue()
    batch = DirectBatch(taken(library, queue))
    values, one = batch.values(), batch.record(0)
    del batch
    assert library.ended == 0
    assert list(values) == [b"value"]
    del values
    assert library.ended == 1
    assert one.value == b"value", "a record is a copy"


def test_closing_the_queue_ends_all_and_nothing_can_be_reached_any_more(library: FakeLibrdkafka):
    queue = library.queue()
    batches = []
    for number in range(3):
        library.add(record(number))
        library.add(record(number), -191)
        batches.append(DirectBatch(taken(library, queue)))
    del batches[1]
    values, partitions = batches[0].values(), batches[0].partitions()
    queue.close()
    queue.close()
    assert (library.ended, library.alive) == (6, {})
    assert list(partitions) == [0, 0], "columns of numbers are copies"
    for use in (
        lambda: values[0],
        lambda: list(batches[1].values()) or values.slices(),
        lambda: batches[0].record(0),
        lambda: batches[0].offsets(),
        lambda: batches[0].topics(),
        lambda: batches[0].timestamps(),
        lambda: batches[0]._messages.errors(),
        lambda: batches[0]._messages.keep([]),
        lambda: batches[0]._messages.runs(None),
        lambda: queue.fetch(1, 0),
    ):
        with pytest.raises((ValueError, IndexError)):
            use()


def test_messages_stay_where_they_are_while_somebody_holds_their_places(library: FakeLibrdkafka):
    library.add(record(1))
    queue = library.queue()
    messages = taken(library, queue)
    slices = messages.slices(None)
    with pytest.raises(RuntimeError, match="in use"):
        queue.close()
    with pytest.raises(RuntimeError, match="in use"):
        messages.keep([])
    del messages
    assert library.ended == 0
    del slices
    assert library.ended == 1
    queue.close()


def test_rows_beyond_the_messages_and_wrong_arguments_are_refused(library: FakeLibrdkafka):
    library.add(record(1))
    library.add(record(2))
    queue = library.queue()
    messages = taken(library, queue)
    for row in (2, -1, 2**62, -(2**62)):
        for call in (messages.value, messages.record, lambda n: messages.slices([n]), lambda n: messages.runs([0, n])):
            with pytest.raises(IndexError, match="of 2 messages"):
                call(row)
    with pytest.raises(IndexError):
        messages.keep([0, 2])
    for rows in ([1, 0], [0, 0]):
        with pytest.raises(ValueError, match="ascend"):
            messages.keep(rows)
    for wrong in (5, ["a"], [None], object()):
        for call in (messages.keep, messages.runs, messages.slices):
            with pytest.raises(TypeError):
                call(wrong)
    with pytest.raises(OverflowError):
        messages.value(2**70)
    assert len(messages) == 2
    for most, timeout in ((0, 0), (-1, 0), (2**40, 0), (1, -1), (1, 10**9)):
        with pytest.raises(ValueError, match="fetch of"):
            queue.fetch(most, timeout)
    for arguments in ((), (1, 2, 3), ("a", 1)):
        with pytest.raises(TypeError):
            queue.fetch(*arguments)


def test_a_queue_is_made_once_of_addresses_that_are_there(library: FakeLibrdkafka):
    with pytest.raises(ValueError, match="not 0"):
        Queue(0, (1, 2, 3, 4, 5, 6, 7))
    with pytest.raises(ValueError, match="not 0"):
        Queue(1, (1, 2, 3, 4, 0, 6, 7))
    with pytest.raises(TypeError):
        Queue(1, (1, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="made once"):
        library.queue().__init__(1, (1, 2, 3, 4, 5, 6, 7))  # type: ignore[misc]
    with pytest.raises(ValueError, match="closed"):
        Queue.__new__(Queue).fetch(1, 0)
    with pytest.raises(TypeError):
        Messages()


def test_rows_that_close_their_own_queue_are_refused(library: FakeLibrdkafka):
    class Closes(list):
        def __getitem__(self, index):
            queue.close()
            return super().__getitem__(index)

    library.add(record(1))
    queue = library.queue()
    messages = taken(library, queue)
    with pytest.raises(IndexError, match="row 0 of 0"):
        messages.slices(Closes([0]))


@given(st.lists(st.sampled_from(["fetch", "drop", "slice", "unslice", "keep", "close"]), max_size=25), st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_is_done_in_whatever_order_every_message_ends_once(steps, data):
    library = FakeLibrdkafka()
    queue = library.queue()
    given_out, held, places = 0, [], []
    for step in steps:
        if step == "fetch":
            count = data.draw(st.integers(0, 3))
            for number in range(count):
                library.add(record(number))
            try:
                held.append(taken(library, queue))
                given_out += count
            except ValueError:
                library.waiting.clear()
        elif step == "drop" and held:
            del held[data.draw(st.integers(0, len(held) - 1))]
        elif step == "slice" and held:
            try:
                places.append(held[-1].slices(None))
            except ValueError:
                assert not len(held[-1])
        elif step == "unslice" and places:
            del places[0]
        elif step in ("keep", "close"):
            try:
                queue.close() if step == "close" else held and held[0].keep(range(len(held[0]) // 2))
            except (RuntimeError, ValueError):
                assert places or not len(held[0])
        assert library.ended + len(library.alive) == given_out
    held.clear()
    places.clear()
    assert (library.ended, library.alive) == (given_out, {})
