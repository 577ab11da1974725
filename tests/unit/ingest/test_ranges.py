"""Ranges behave as the sets of offsets that they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.ranges import Ranges, total

spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def offsets(ranges: Ranges) -> set[int]:
    return {offset for low, high in ranges for offset in range(low, high)}


@given(spans)
def test_the_form_is_the_fewest_sorted_ranges(pairs):
    ranges = Ranges.of(pairs)
    assert offsets(ranges) == {o for low, high in pairs for o in range(low, high)}
    assert all(a[1] < b[0] for a, b in zip(ranges.spans, ranges.spans[1:], strict=False))
    assert len(ranges) == len(offsets(ranges))
    assert Ranges.of(ranges.to_json()) == ranges


@given(spans, spans)
def test_operations_equal_those_of_sets(left, right):
    a, b = Ranges.of(left), Ranges.of(right)
    assert offsets(a | b) == offsets(a) | offsets(b)
    assert offsets(a & b) == offsets(a) & offsets(b)
    assert offsets(a - b) == offsets(a) - offsets(b)
    for result in (a | b, a & b, a - b):
        assert Ranges.of(result.spans) == result
    assert total([a, b]) == a | b


@given(spans, st.integers(0, 41))
def test_cuts_and_the_first_missing_offset(pairs, offset):
    ranges = Ranges.of(pairs)
    assert offsets(ranges.from_on(offset)) == {o for o in offsets(ranges) if o >= offset}
    assert offsets(ranges.below(offset)) == {o for o in offsets(ranges) if o < offset}
    missing = ranges.first_missing(offset)
    assert missing >= offset
    assert missing not in offsets(ranges)
    assert set(range(offset, missing)) <= offsets(ranges)


def test_what_is_no_pair_of_whole_numbers_is_refused():
    with pytest.raises(ValueError, match="pair of whole numbers"):
        Ranges.of([(1, "2")])
