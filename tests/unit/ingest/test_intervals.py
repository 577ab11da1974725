"""Date ranges: offsets by Kafka time, minus what is covered or lost; what others read is left to them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import PlanningError
from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.choices import Granularity
from airflow_kafka_hdfs.ingest.cluster_view import look
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.intervals import decide_interval, decide_replace, find_bounds, leave_to_others
from airflow_kafka_hdfs.ingest.plans import Plan, PlanEntry
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, FileEntry, Kind, PartitionChange, PartitionKey
from airflow_kafka_hdfs.ingest.requests import Interval, PlanRequest
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.kafka import FakeCluster

HOUR = timedelta(hours=1)
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRef(dag_id="dag", run_id="other")
CONFIG = IngestConfig.of({"topics": ["T"], "destination": "file:///data", "pipeline_id": "p"})


def cluster_of(hours=6, per_hour=10, partitions=1):
    """Offsets 0-9 in the hour from midnight, 10-19 in the next, and so on."""
    fake = FakeCluster("c")
    fake.create_topic("T", partitions)
    for partition in range(partitions):
        for hour in range(hours):
            for minute in range(per_hour):
                fake.produce("T", partition, b"v", timestamp=millis(MIDNIGHT + hour * HOUR + minute * HOUR / per_hour))
    return fake


def key_of(fake, partition=0):
    return PartitionKey(topic="T", partition=partition, cluster_id="c", topic_id=fake.catalog().topics()["T"].topic_id)


def state_of(*changes, kind=Kind.FORWARD):
    record = Commit(number=0, kind=kind, run=RUN, clock="", attempt="", changes=tuple(changes))
    return LogState().fold([(record, "")])


def decided(fake, state, start, end, config=CONFIG, is_open=False):
    interval = Interval(
        start=None if start is None else MIDNIGHT + start * HOUR, end=MIDNIGHT + end * HOUR, is_open=is_open
    )
    view = look(fake.catalog(), config.topics, state)
    bounds = find_bounds(fake.catalog().offsets_for_times, view, interval)
    return decide_interval(state, view, config, interval, bounds)


def only(decisions):
    (entry,) = decisions.entries
    return entry


@pytest.mark.parametrize(
    ("start", "end", "expected", "reason"),
    [
        (1, 3, Ranges.span(10, 30), "interval"),
        (None, 2, Ranges.span(0, 20), "interval"),
        (0.5, 1, Ranges.span(5, 10), "interval"),
        (5, 9, Ranges.span(50, 60), "interval"),
        (7, 9, Ranges(), "interval_empty"),
        (-3, 0, Ranges(), "interval_empty"),
    ],
)
@pytest.mark.bug(82)
def test_an_interval_is_its_offsets_by_kafka_time(start, end, expected, reason):
    entry = only(decided(cluster_of(), LogState(), start, end))
    assert (entry.ranges, entry.promised, entry.reason, entry.previous) == (expected, expected, reason, None)


def test_both_ends_are_one_batched_call_each():
    fake = cluster_of(partitions=5)
    calls = []
    fake.on_call = calls.append
    decided(fake, LogState(), 1, 2)
    assert calls.count("kafka.offsets_for_times") == 2
    calls.clear()
    decided(fake, LogState(), None, 2)
    assert calls.count("kafka.offsets_for_times") == 1


def test_covered_and_lost_are_left_out_and_skipped_is_read():
    fake = cluster_of()
    state = state_of(
        PartitionChange(
            key=key_of(fake),
            start=0,
            covered=Ranges.span(10, 15),
            lost=Ranges.span(15, 17),
            skipped=Ranges.span(17, 40),
        )
    )
    entry = only(decided(fake, state, 1, 3))
    assert entry.ranges == Ranges.span(17, 30)
    assert entry.promised == Ranges.span(10, 30)
    assert entry.previous == 0


@pytest.mark.parametrize(
    ("start", "end", "ranges", "lost"),
    [
        (0, 1, Ranges(), 25),  # gone as a whole
        (2, 3, Ranges.span(25, 30), 25),  # in part
        (1, 4, Ranges.span(25, 40), 25),
        (3, 4, Ranges.span(30, 40), 0),
        (None, 3, Ranges.span(25, 30), 0),  # whoever begins at the log start has all that there is
    ],
)
def test_an_interval_that_begins_below_the_log_start_says_how_much_may_be_gone(start, end, ranges, lost):
    fake = cluster_of()
    fake.expire("T", 0, 25)
    found = decided(fake, LogState(), start, end)
    entry = only(found)
    assert (entry.ranges, entry.lost, entry.reason == "interval_begins_gone") == (ranges, lost, lost > 0)
    assert len(found.notes) == (1 if lost else 0)
    if lost:
        assert "T[0]" in found.notes[0]
        assert "up to 25 of its offsets are gone" in found.notes[0]


def test_a_beginning_that_was_read_before_it_went_is_not_missed():
    fake = cluster_of()
    fake.expire("T", 0, 25)
    state = state_of(PartitionChange(key=key_of(fake), start=0, covered=Ranges.span(0, 30)))
    assert only(decided(fake, state, 0, 3)).reason == "interval_settled"
    state = state_of(PartitionChange(key=key_of(fake), start=0, covered=Ranges.span(20, 30)))
    assert (only(decided(fake, state, 0, 3)).reason, only(decided(fake, state, 0, 3)).lost) == (
        "interval_begins_gone",
        20,
    )


def test_a_log_that_is_gone_as_a_whole_is_no_empty_interval():
    fake = cluster_of()
    fake.expire("T", 0, 60)
    assert (only(decided(fake, LogState(), 1, 2)).reason, only(decided(fake, LogState(), 1, 2)).lost) == (
        "interval_begins_gone",
        60,
    )


def test_where_nothing_may_be_lost_a_beginning_that_is_gone_holds_the_topic():
    fake = cluster_of()
    fake.expire("T", 0, 25)
    config = IngestConfig.of(
        {"topics": ["T"], "destination": "file:///data", "pipeline_id": "p", "on_out_of_range": "fail"}
    )
    found = decided(fake, LogState(), 1, 3, config)
    (held,) = found.held
    assert (held.reason, found.entries) == ("out_of_range", ())
    assert "begin later" in held.detail
    assert decided(fake, LogState(), 3, 4, config).held == ()


def test_an_interval_that_is_settled_says_so():
    fake = cluster_of()
    state = state_of(PartitionChange(key=key_of(fake), start=0, covered=Ranges.span(0, 60)))
    entry = only(decided(fake, state, 1, 3))
    assert (entry.reason, entry.ranges, entry.promised) == ("interval_settled", Ranges(), Ranges.span(10, 30))


def test_intervals_commit_nothing_and_set_no_start_points():
    assert decided(cluster_of(), LogState(), 1, 3).changes == ()


def test_an_open_transaction_within_the_interval_keeps_it_open():
    fake = cluster_of(hours=2)
    open_ = fake.transaction()
    open_.produce("T", 0, b"late", timestamp=millis(MIDNIGHT + 1.5 * HOUR))
    entry = only(decided(fake, LogState(), 1, 2))
    assert entry.ranges == Ranges.span(10, 20)
    assert entry.promised == Ranges.span(10, 21)
    # Up to now means what can be read now.
    assert only(decided(fake, LogState(), 1, 2, is_open=True)).promised == Ranges.span(10, 20)
    # A record after the interval shows where it ends.
    open_.commit()
    fake.produce("T", 0, b"after", timestamp=millis(MIDNIGHT + 3 * HOUR))
    assert only(decided(fake, LogState(), 1, 2)).promised == Ranges.span(10, 21 + 1)


def test_a_log_truncated_below_what_was_decided_holds_the_topic():
    fake = cluster_of()
    state = state_of(PartitionChange(key=key_of(fake), start=0, covered=Ranges.span(0, 60)))
    fake.truncate("T", 0, 30)
    held = decided(fake, state, 1, 3).held
    assert [item.reason for item in held] == ["truncated"]


def test_a_topic_made_anew_is_read_under_its_new_id_unless_that_must_be_said():
    fake = cluster_of()
    old = key_of(fake)
    state = state_of(PartitionChange(key=old, start=0, covered=Ranges.span(0, 60)))
    fake.delete_topic("T")
    fake.create_topic("T")
    fake.produce("T", 0, b"new", timestamp=millis(MIDNIGHT + HOUR))
    entry = only(decided(fake, state, 1, 3))
    assert entry.ranges == Ranges.span(0, 1)
    assert entry.key != old
    strict = IngestConfig.of(
        {"topics": ["T"], "destination": "file:///data", "pipeline_id": "p", "on_topic_recreated": "fail"}
    )
    assert decided(fake, state, 1, 3, strict).held[0].reason == "topic_recreated"


def test_faults_hold_the_topic():
    fake = cluster_of(partitions=2)
    fake.lose_leader("T", 1)
    assert decided(fake, LogState(), 1, 3).held[0].reason == "no_leader"
    fake.delete_topic("T")
    assert decided(fake, LogState(), 1, 3).held[0].reason == "missing"


# Leaving ranges to others


def entry_of(key, ranges):
    return PlanEntry(key=key, reason="interval", previous=None, ranges=ranges, log_start=0, log_end=100)


def plan_of(name, kind=Kind.FORWARD, log_head=3):
    return Plan(
        plan=name,
        key="",
        counter=0,
        pipeline="p",
        run=RUN,
        clock="",
        log_head=log_head,
        kind=kind,
        config={},
        config_digest="",
    )


KEYS = [PartitionKey(topic="T", partition=p, cluster_id="c", topic_id="id") for p in range(2)]


def test_ranges_of_live_plans_are_left_out_and_named():
    entries = [entry_of(KEYS[0], Ranges.span(0, 50)), entry_of(KEYS[1], Ranges.span(0, 50))]
    plans = [
        (plan_of("a"), {KEYS[0]: Ranges.span(0, 20), KEYS[1]: Ranges.span(0, 50)}),
        (plan_of("b"), {KEYS[0]: Ranges.span(10, 30)}),
    ]
    left, waiting = leave_to_others(entries, plans)
    assert [(entry.ranges, entry.reason) for entry in left] == [
        (Ranges.span(30, 50), "interval"),
        (Ranges(), "held_by_open_plan"),
    ]
    assert [(item.plan, item.log_head, str(item.key), item.ranges) for item in waiting] == [
        ("a", 3, "T[0]", Ranges.span(0, 20)),
        ("b", 3, "T[0]", Ranges.span(20, 30)),
        ("a", 3, "T[1]", Ranges.span(0, 50)),
    ]


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4).map(Ranges.of)


@given(spans, st.lists(spans, max_size=3))
def test_what_is_left_out_and_what_stays_add_up(ranges, others):
    plans = [(plan_of(str(i)), {KEYS[0]: held}) for i, held in enumerate(others)]
    (left,), waiting = leave_to_others([entry_of(KEYS[0], ranges)], plans)
    whole = left.ranges
    for item in waiting:
        assert not whole & item.ranges
        whole = whole | item.ranges
    assert whole == ranges
    assert not any(left.ranges & held for held in others)


# Replace

ALL = Ranges.span(0, 60)


def file(path, fake, offsets):
    return FileEntry(
        path=path,
        staged="",
        topic="T",
        topic_id=key_of(fake).topic_id,
        size=7,
        digest="",
        records=1,
        records_out=1,
        offsets={p: (first, last, 1) for p, (first, last) in offsets.items()},
    )


def replaced(fake, files, start, end, *, covered=ALL, kind=Kind.FORWARD, unpublished=(), plans=()):
    change = PartitionChange(key=key_of(fake), start=None if kind is Kind.INTERVAL else 0, covered=covered)
    record = Commit(number=0, kind=kind, run=RUN, clock="", attempt="", changes=(change,), files=tuple(files))
    state = LogState().fold([(record, "")])
    interval = Interval(start=None if start is None else MIDNIGHT + start * HOUR, end=MIDNIGHT + end * HOUR)
    view = look(fake.catalog(), CONFIG.topics, state)
    bounds = find_bounds(fake.catalog().offsets_for_times, view, interval)
    plain = decide_interval(state, view, CONFIG, interval, bounds)
    return decide_replace(state, view, interval, plain, [record], unpublished, plans)


def test_a_replace_is_widened_to_whole_files():
    fake = cluster_of()
    files = [file("a", fake, {0: (0, 14)}), file("b", fake, {0: (15, 19)}), file("c", fake, {0: (20, 59)})]
    result, superseded = replaced(fake, files, 1, 2)
    assert only(result).ranges == Ranges.span(0, 20)
    assert only(result).reason == "replace"
    assert [(item.path, item.size, item.commit) for item in superseded] == [("a", 7, 0), ("b", 7, 0)]


def test_files_of_backfills_are_replaced_though_the_topic_has_no_start_point():
    fake = cluster_of()
    result, superseded = replaced(
        fake, [file("a", fake, {0: (10, 29)})], 1, 2, covered=Ranges.span(10, 30), kind=Kind.INTERVAL
    )
    assert only(result).ranges == Ranges.span(10, 30)
    assert [item.path for item in superseded] == ["a"]


def test_a_file_that_kafka_no_longer_holds_whole_is_not_replaced():
    fake = cluster_of()
    fake.expire("T", 0, 5)
    with pytest.raises(PlanningError, match=r"T\[0\]: \[0, 5\).*choose a range"):
        replaced(fake, [file("a", fake, {0: (0, 14)})], 1, 2)


def test_a_beginning_that_kafka_no_longer_holds_is_refused_even_if_its_files_lie_outside():
    fake = cluster_of()
    fake.expire("T", 0, 10)
    files = [file("a", fake, {0: (0, 9)}), file("b", fake, {0: (10, 19)})]
    with pytest.raises(PlanningError, match=r"may begin before what Kafka still holds.*T\[0\]: \[0, 10\)"):
        replaced(fake, files, 0, 2)
    # An open start means: all that Kafka holds.
    result, superseded = replaced(fake, files, None, 2)
    assert only(result).ranges == Ranges.span(10, 20)
    assert [item.path for item in superseded] == ["b"]


def test_a_replace_needs_every_topic_published_files_and_no_other_replace():
    fake = cluster_of()
    files = [file("a", fake, {0: (10, 19)})]
    with pytest.raises(PlanningError, match=r"a \(commit 0\)"):
        replaced(fake, files, 1, 2, unpublished=(0,))
    with pytest.raises(PlanningError, match="run other is replacing offsets"):
        replaced(fake, files, 1, 2, plans=[(plan_of("x", Kind.REPLACE), {key_of(fake): Ranges.span(15, 16)})])
    fake.lose_leader("T", 0)
    with pytest.raises(PlanningError, match="nothing was changed: T: no_leader"):
        replaced(fake, files, 1, 2)


def test_requests_and_intervals_fit_together():
    request = PlanRequest.of({"range_start": "2026-01-01T01:00:00Z", "range_end": "2026-01-01T02:00:00Z"})
    assert request.interval(MIDNIGHT + 9 * HOUR, Granularity.HOURLY) == Interval(
        start=MIDNIGHT + HOUR, end=MIDNIGHT + 2 * HOUR
    )
