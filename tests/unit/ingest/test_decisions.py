"""What a continuous run reads of each partition: Gobblin's table where our contract agrees, and what is new."""

from datetime import timedelta

import pytest

from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.cluster_view import ClusterView
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import new_selection, times_needed
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Selection
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import TopicInfo, TopicPartition
from tests.unit.ingest.deciding import CLOCK, carried, cluster, config, key, only, plan_of, read_up_to, reasons, view_of

# Gobblin's decision table: previous offset, settings, (earliest, latest), range, reason, lost, next start.
FRESH = [
    ("latest", (100, 500), (500, 500), "bootstrap_latest", 500),  # rows 1, 2
    ("earliest", (100, 500), (100, 500), "bootstrap_earliest", 100),  # row 3
    ("skip", (100, 500), None, "bootstrap_skip", None),  # row 4: still unknown in the next run
    ("earliest", (0, 0), (0, 0), "bootstrap_earliest", 0),
]


@pytest.mark.parametrize(("bootstrap", "held", "wanted", "reason", "start"), FRESH)
@pytest.mark.bug(75)
def test_an_unknown_topic_starts_by_bootstrap(bootstrap, held, wanted, reason, start):
    decided, after = plan_of(LogState(), cluster(*held), config(bootstrap=bootstrap))
    assert only(decided).reason == reason
    assert only(decided).ranges == (Ranges() if wanted is None else Ranges.span(*wanted))
    assert only(decided).previous is None
    assert carried(after) == start
    assert not any(change.lost or change.skipped for change in decided.changes)


KNOWN = [
    (300, "nearest", (100, 500), (300, 500), "resumed", 0, 300),  # row 14
    (100, "fail", (100, 500), (100, 500), "resumed", 0, 100),  # row 15
    (500, "fail", (100, 500), (500, 500), "no_data", 0, 500),  # row 16
    (0, "fail", (0, 0), (0, 0), "no_data", 0, 0),  # row 17
    (50, "nearest", (100, 500), (100, 500), "reset_too_early", 50, 100),  # row 18
    (50, "earliest", (100, 500), (100, 500), "reset_too_early", 50, 100),  # row 18
    (50, "latest", (100, 500), (500, 500), "reset_too_early_latest", 50, 500),  # row 19
    (50, "skip", (100, 500), (500, 500), "skipped_out_of_range", 0, 50),  # row 20
    (900, "earliest", (100, 500), (100, 500), "reset_too_late_earliest", 0, 100),  # row 22
    (900, "latest", (100, 500), (500, 500), "reset_too_late", 0, 500),  # row 23
]


@pytest.mark.parametrize(("previous", "policy", "held", "wanted", "reason", "lost", "start"), KNOWN)
@pytest.mark.bug(68, 78)
def test_a_known_partition_goes_on_as_in_gobblin(previous, policy, held, wanted, reason, lost, start):
    decided, after = plan_of(read_up_to(previous), cluster(*held), config(on_out_of_range=policy))
    entry = only(decided)
    assert entry.ranges == Ranges.span(*wanted)
    assert (entry.reason, entry.lost, entry.previous) == (reason, lost, previous)
    assert carried(after) == start


@pytest.mark.parametrize(
    ("previous", "held", "start"),
    [
        (900, (100, 500), 500),  # row 21: Gobblin reads [100, 500) again
        (501, (100, 500), 500),  # row 25: one past the end re-reads everything there
        (900, (0, 0), 0),  # row 26
        (900, (0, 1), 1),  # row 27: Gobblin reads [0, 1)
    ],
)
@pytest.mark.bug(79)
def test_nearest_goes_to_the_end_where_gobblin_goes_to_the_start(previous, held, start):
    decided, after = plan_of(read_up_to(previous), cluster(*held))
    entry = only(decided)
    assert (entry.reason, entry.key.generation) == ("reset_too_late", 1)
    assert not entry.ranges
    assert carried(after) == start


@pytest.mark.parametrize("policy", ["skip", "fail"])
@pytest.mark.bug(19, 77)
def test_a_truncated_log_holds_its_topic_where_gobblin_keeps_an_offset_out_of_range(policy):
    # row 24: Gobblin carries 900 for ever.
    decided, after = plan_of(read_up_to(900), cluster(), config(on_out_of_range=policy))
    (held,) = decided.held
    assert (held.reason, decided.changes, carried(after)) == ("truncated", (), 900)
    assert "offsets up to 900 were decided, the log ends at 500" in held.detail


@pytest.mark.parametrize(
    ("option", "answer", "start", "reason"),
    [
        (timedelta(hours=2), 350, 350, "bootstrap_lookback"),  # row 7, by time instead of by offsets
        (timedelta(days=9), 100, 100, "bootstrap_lookback"),  # rows 8-11: never below the log start, nothing is lost
        (timedelta(0), None, 500, "bootstrap_lookback"),  # row 6
        ("2025-12-31T00:00:00Z", 200, 200, "bootstrap_time"),
        ("2027-01-01T00:00:00Z", None, 500, "bootstrap_time"),
    ],
)
def test_a_start_in_time_asks_kafka_once_for_all(option, answer, start, reason):
    made = config(bootstrap=option)
    view = cluster(partitions=(0, 1))
    needed = times_needed(LogState(), view, made, CLOCK)
    at = made.base.bootstrap.time(CLOCK)
    assert needed == {TopicPartition("T", p): millis(at) for p in (0, 1)}
    decided, after = plan_of(LogState(), view, made, dict.fromkeys(needed, answer))
    assert {entry.reason for entry in decided.entries} == {reason}
    assert carried(after) == start
    assert times_needed(after, view, made, CLOCK) == {}


def test_a_time_that_kafka_can_not_answer_holds_the_topic():
    made = config(bootstrap=timedelta(hours=1))
    decided, _ = plan_of(LogState(), cluster(), made, {TopicPartition("T", 0): "no_leader"})
    assert decided.held[0].reason == "no_leader"
    assert not decided.changes


# New partitions and topics


@pytest.mark.bug(18, 76, 81)
def test_a_new_partition_of_a_known_topic_starts_at_earliest_under_every_bootstrap():
    for bootstrap in ("latest", "skip", "earliest"):
        decided, after = plan_of(read_up_to(300), cluster(partitions=(0, 1)), config(bootstrap=bootstrap))
        assert [entry.reason for entry in decided.entries] == ["resumed", "new_partition"]
        assert decided.entries[1].ranges == Ranges.span(100, 500)
        assert after.coverage[key(1)].start == 100


def test_a_topic_that_shows_up_under_an_unchanged_filter_starts_at_earliest():
    made = config(TopicFilter(allow=["t.*"]))
    first, state = plan_of(LogState(), view_of("t1"), made)
    assert reasons(first) == {"t1": "bootstrap_latest"}
    assert state.selection == Selection(digest=made.topics_digest)
    second, state = plan_of(state, view_of("t1", "t2"), made)
    assert reasons(second) == {"t1": "no_data", "t2": "new_topic"}
    assert len(second.ranges) == 1


def test_a_topic_that_a_changed_filter_matches_starts_by_bootstrap():
    _, state = plan_of(LogState(), view_of("t1"), config(TopicFilter(allow=["t.*"])))
    wider = config(TopicFilter(allow=["t.*", "u.*"]))
    decided, state = plan_of(state, view_of("t1", "u1"), wider)
    assert reasons(decided) == {"t1": "no_data", "u1": "bootstrap_latest"}
    decided, _ = plan_of(state, view_of("t1", "u1", "u2"), wider)
    assert reasons(decided)["u2"] == "new_topic"


def test_the_log_hears_of_a_changed_filter_even_if_nothing_new_matches():
    made, wider = config(TopicFilter(allow=["t.*"])), config(TopicFilter(allow=["t.*", "u.*"]))
    _, state = plan_of(LogState(), view_of("t1"), made)
    _, state = plan_of(state, view_of("t1"), wider)
    decided, _ = plan_of(state, view_of("t1", "u1"), wider)
    assert reasons(decided)["u1"] == "new_topic"


def test_a_listed_topic_that_did_not_exist_is_read_whole_once_it_is_made():
    made = config(["t1", "t2"])
    view = view_of("t1")
    missing = ClusterView(
        cluster_id="c",
        topics={**view.topics, "t2": TopicInfo(name="t2", topic_id="", partitions=(), fault="missing")},
        offsets=view.offsets,
    )
    decided, state = plan_of(LogState(), missing, made)
    assert [held.reason for held in decided.held] == ["missing"]
    assert "create it, or take it out of `topics`" in decided.held[0].detail
    decided, _ = plan_of(state, view_of("t1", "t2"), made)
    assert reasons(decided)["t2"] == "new_topic"


@pytest.mark.parametrize("why", ["denied", "skip"])
def test_a_topic_that_was_there_but_not_started_still_starts_by_bootstrap(why):
    made = config(["t1", "t2"], topic_overrides={"t2": {"bootstrap": "skip" if why == "skip" else "latest"}})
    view = view_of("t1", "t2")
    if why == "denied":
        view = ClusterView(
            cluster_id="c",
            topics={**view.topics, "t2": TopicInfo(name="t2", topic_id="", partitions=(), fault="denied")},
            offsets=view.offsets,
        )
    _, state = plan_of(LogState(), view, made)
    assert state.selection.waiting == ("t2",)
    decided, state = plan_of(state, view_of("t1", "t2"), config(["t1", "t2"]))
    assert reasons(decided)["t2"] == "bootstrap_latest"
    assert state.selection.waiting == ()


def test_skip_leaves_late_topics_alone_too():
    made = config(TopicFilter(allow=["t.*"]), bootstrap="skip")
    _, state = plan_of(LogState(), view_of("t1"), made)
    decided, state = plan_of(state, view_of("t1", "t2"), made)
    assert reasons(decided) == {"t1": "bootstrap_skip", "t2": "bootstrap_skip"}
    assert not state.topics


def test_planning_has_nothing_to_commit_when_nothing_changes():
    made = config(bootstrap="earliest")
    _, state = plan_of(LogState(), cluster(), made)
    decided, _ = plan_of(state, cluster(), made)
    assert decided.changes == ()
    assert new_selection(state, cluster(), made, decided) is None
    assert only(decided).reason == "resumed"
