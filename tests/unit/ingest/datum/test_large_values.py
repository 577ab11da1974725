"""Batches of large values share memory from one to the next; none of them may be seen in another."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.datum.packing import BATCH_BYTES, Batch
from airflow_kafka_hdfs.ingest.datum.scratch import Scratch
from tests.unit.ingest.datum.avro_data import laws
from tests.unit.ingest.datum.test_tiers import HOUR, NOON, TIERS, batch_for, event, packer, plain

large = st.builds(
    lambda letter, size, hour: event(letter * size, NOON + hour * HOUR),
    st.sampled_from("abcé"),
    st.integers(600, 3_000),
    st.integers(0, 1),
)
odd = st.sampled_from([None, b"\x01", event("cut off" * 200, NOON)[:-3], event("no time" * 200, None)])


@laws
@given(st.lists(st.tuples(st.lists(large, min_size=1, max_size=40), st.lists(odd, max_size=1)), max_size=4))
def test_tiers_agree_after_every_batch_was_packed(batches):
    outcomes = []
    for tier in TIERS:
        step = packer()
        found = [tier.pack(step, batch_for(tier, Batch(values=good + bad))) for good, bad in batches]
        outcomes.append([plain(outcome) for outcome in found])
    assert all(one == outcomes[0] for one in outcomes)


def test_memory_is_used_again_once_nobody_looks_into_it():
    scratch = Scratch()
    first = scratch.lay([b"one", b"two"], 6)
    assert bytes(first) == b"onetwo"
    second = scratch.lay([b"new"], 3)
    assert bytes(second) == b"new"
    with pytest.raises(ValueError, match="released"):
        bytes(first)


def test_memory_that_somebody_looks_into_stays_as_it_is():
    scratch = Scratch()
    seen = memoryview(scratch.lay([b"seen"], 4))
    assert bytes(scratch.lay([b"next"], 4)) == b"next"
    assert bytes(seen) == b"seen"


def test_each_thread_has_memory_of_its_own():
    scratch = Scratch()
    mine = scratch.lay([b"mine"], 4)
    with ThreadPoolExecutor(1) as other:
        assert bytes(other.submit(scratch.lay, [b"other"], 5).result()) == b"other"
    assert bytes(mine) == b"mine"


def test_the_memory_of_an_unusually_large_batch_is_given_back():
    scratch = Scratch()
    big = bytes(4 * BATCH_BYTES)
    view = scratch.lay([big], len(big))
    assert view.nbytes == len(big)
    assert view is not scratch._view
    assert bytes(scratch.lay([b"small"], 5)) == b"small"
    assert sys.getsizeof(scratch._memory) < BATCH_BYTES
