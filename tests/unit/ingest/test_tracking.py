"""Whatever arrives, in whatever batches, every offset of a range is settled once, and gaps are those that were seen."""

from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import PartitionKey
from airflow_kafka_hdfs.ingest.tracking import PartitionTracker

KEY = PartitionKey(topic="events", partition=0, cluster_id="c", topic_id="t")
offsets_sets = st.sets(st.integers(0, 60), max_size=40)
ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=4).map(Ranges.of)


def offsets(part):
    return {offset for low, high in part for offset in range(low, high)}


def feed(tracker, batch, sizes=1):
    """Take what is wanted of a batch, one record after the other."""
    cursor = tracker.cursor()
    taken = [offset for offset in batch if tracker.wanted(offset, sizes, cursor)]
    for offset in taken:
        tracker.took(offset, offset, 1, sizes)
    return taken


@given(ranges, offsets_sets, st.data())
def test_every_offset_is_settled_once(planned, present, data):
    tracker = PartitionTracker(KEY, planned)
    records = sorted(present)
    taken = []
    at = 0
    while not tracker.done:
        size = data.draw(st.integers(1, 10))
        batch = records[at : at + size]
        page = tracker.page
        taken += feed(tracker, batch)
        at += size
        tracker.reached(batch[-1] + 1 if batch else 61)
        if tracker.page != page and data.draw(st.booleans()):  # the reader seeks, or goes on where it is
            at = next((i for i, offset in enumerate(records) if offset >= tracker.position), len(records))
    assert taken == sorted(present & offsets(planned))
    assert offsets(tracker.covered()) == offsets(planned)
    assert tracker.gaps == len(planned) - len(taken)
    assert tracker.counts(len(taken), 0).offsets == len(planned)


@given(ranges, st.integers(0, 61), st.booleans(), st.integers(0, 20))
def test_lost_and_skipped_are_what_was_given_up(planned, log_start, skip, first_read):
    tracker = PartitionTracker(KEY, planned)
    before = tracker.position
    feed(tracker, range(before, before + first_read))
    position = tracker.position if not tracker.done else 61
    tracker.lose_below(log_start)
    if skip:
        tracker.skip_rest()
    tracker.reached(61)
    while not tracker.done:
        tracker.reached(61)
    whole = offsets(planned)
    lost = {o for o in whole if position <= o < log_start}
    assert offsets(tracker.lost()) == lost
    assert offsets(tracker.skipped()) == ({o for o in whole if o >= max(position, log_start)} if skip else set())
    assert offsets(tracker.covered()) == whole - lost - offsets(tracker.skipped())
    counts = tracker.counts(tracker.tally.read, 0)
    assert counts.offsets == len(whole)
    assert (counts.lost, counts.skipped) == (len(lost), len(tracker.skipped()))


@given(ranges, offsets_sets, st.integers(0, 10), st.integers(0, 10), st.booleans())
def test_limits_end_at_an_exact_position(planned, present, records, size, by_bytes):
    tracker = PartitionTracker(KEY, planned)
    if by_bytes:
        tracker.bytes_left = records * size
    else:
        tracker.records_left = records
    taken = feed(tracker, sorted(present), size)
    wanted = sorted(present & offsets(planned))
    if by_bytes:
        assert len(taken) <= records or not size
        assert taken == wanted[: len(taken)]
    else:
        assert taken == wanted[:records]
    assert offsets(tracker.covered()) <= offsets(planned)
    assert tracker.counts(len(taken), 0).offsets == len(tracker.covered())
    if taken:
        assert (
            tracker.position == taken[-1] + 1
            or tracker.position >= tracker.high
            or tracker.position in {low for low, _ in planned}
        )


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 20), st.integers(0, 30), st.integers(1, 10))
def test_a_run_that_fits_is_the_same_as_its_records(low, length, first, count, limit):
    planned = Ranges.span(low, low + length)
    fast, slow = PartitionTracker(KEY, planned), PartitionTracker(KEY, planned)
    fast.records_left = slow.records_left = limit
    run = range(first, first + count)
    if not count or not fast.fits(run[0], run[-1], count):
        return
    fast.took(run[0], run[-1], count, count)
    assert feed(slow, run) == list(run)
    assert (fast.position, fast.gaps, fast.records_left) == (slow.position, slow.gaps, slow.records_left)
    assert fast.tally == slow.tally


def test_records_that_were_planned_for_the_next_run_are_left():
    tracker = PartitionTracker(KEY, Ranges.span(5, 8))
    assert feed(tracker, range(12)) == [5, 6, 7]
    assert tracker.done
    assert not tracker.fits(8, 9, 2)


def test_an_empty_range_is_done_before_it_begins():
    tracker = PartitionTracker(KEY, Ranges.span(5, 5))
    assert tracker.done
    assert not tracker.active
    assert tracker.counts(0, 0).offsets == 0
