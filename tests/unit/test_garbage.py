"""Python's search for garbage rests while many objects are made, and is left afterwards as it was found."""

import gc

import pytest

from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.garbage import LeftOut, no_search


@pytest.fixture(autouse=True)
def nothing_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_lived_before_reading_is_left_out_until_the_reader_is_closed():
    reader = KafkaReader(client_settings({"bootstrap.servers": "127.0.0.1:1"}))
    reader.assign({})
    assert gc.get_freeze_count() > 1_000
    reader.assign({})
    reader.close()
    assert gc.get_freeze_count() == 0


def test_what_somebody_else_has_frozen_stays_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    left_out = LeftOut()
    left_out.begin()
    left_out.end()
    assert gc.get_freeze_count() >= frozen - 100  # objects that died meanwhile


def give_up_while_it_waits():
    with no_search():
        assert not gc.isenabled()
        raise ValueError("the client gave up")


@pytest.mark.parametrize("on", [True, False])
def test_the_search_is_on_or_off_as_before_also_after_an_error(on):
    was_on = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with pytest.raises(ValueError, match="the client"):
            give_up_while_it_waits()
        assert gc.isenabled() is on
    finally:
        (gc.enable if was_on else gc.disable)()
