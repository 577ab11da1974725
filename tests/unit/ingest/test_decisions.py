"""What a continuous run reads of each partition: Gobblin's table where our contract agrees, and our own rules."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import ClusterChangedError
from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.cluster_view import ClusterView, look
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import decide, new_selection, times_needed
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Counts, Kind, PartitionChange, PartitionKey, Selection
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import PartitionOffsets, RunRef, TopicInfo, TopicPartition
from tests.fakes.kafka import FakeCluster

CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRef(dag_id="dag", run_id="run")


def key(partition=0, topic="T", topic_id="id", generation=0, cluster="c"):
    return PartitionKey(topic=topic, partition=partition, cluster_id=cluster, topic_id=topic_id, generation=generation)


def commit(state, *changes, selection=None, kind=Kind.FORWARD, released=()):
    record = Commit(
        number=state.head + 1,
        kind=kind,
        run=RUN,
        clock="",
        attempt=str(state.head),
        changes=tuple(changes),
        selection=selection,
        released=tuple(released),
    )
    return state.fold([(record, "")])


def read_up_to(watermark, start=0, **identity):
    """A log in which [start, watermark) of one partition is covered."""
    changed = PartitionChange(key=key(**identity), start=start, covered=Ranges.span(start, watermark))
    return commit(LogState(), changed)


def cluster(log_start=100, last_stable=500, high_watermark=None, partitions=(0,), topic="T", topic_id="id", fault=None):
    offsets = PartitionOffsets(
        log_start=log_start,
        last_stable=last_stable,
        high_watermark=last_stable if high_watermark is None else high_watermark,
    )
    return ClusterView(
        cluster_id="c",
        topics={topic: TopicInfo(name=topic, topic_id=topic_id, partitions=tuple(partitions), fault=fault)},
        offsets={TopicPartition(topic, p): offsets for p in partitions},
    )


def config(topics=("T",), **arguments):
    given = {"topics": topics if isinstance(topics, TopicFilter) else list(topics), **arguments}
    return IngestConfig.of({"destination": "file:///data", "pipeline_id": "p", **given})


def plan_of(state, view, made=None, times=None):
    """The decisions, and the log after planning's own commit."""
    made = made or config()
    decided = decide(state, view, made, CLOCK, times or {})
    after = commit(state, *decided.changes, selection=new_selection(state, view, made, decided))
    return decided, after


def carried(after, **identity):
    """The watermark that the next run starts from."""
    coverage = after.coverage.get(after.current.get(TopicPartition("T", 0)))
    return None if coverage is None else coverage.watermark


def only(decided):
    (entry,) = decided.entries
    return entry


# Gobblin's decision table: previous offset, settings, (earliest, latest), range, reason, lost, next start.
FRESH = [
    ("latest", (100, 500), (500, 500), "bootstrap_latest", 500),  # rows 1, 2
    ("earliest", (100, 500), (100, 500), "bootstrap_earliest", 100),  # row 3
    ("skip", (100, 500), None, "bootstrap_skip", None),  # row 4: still unknown in the next run
    ("earliest", (0, 0), (0, 0), "bootstrap_earliest", 0),
]


@pytest.mark.parametrize(("bootstrap", "held", "wanted", "reason", "start"), FRESH)
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
def test_nearest_goes_to_the_end_where_gobblin_goes_to_the_start(previous, held, start):
    decided, after = plan_of(read_up_to(previous), cluster(*held))
    entry = only(decided)
    assert (entry.reason, entry.key.generation) == ("reset_too_late", 1)
    assert not entry.ranges
    assert carried(after) == start


@pytest.mark.parametrize("policy", ["skip", "fail"])
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


def test_a_new_partition_of_a_known_topic_starts_at_earliest_under_every_bootstrap():
    for bootstrap in ("latest", "skip", "earliest"):
        decided, after = plan_of(read_up_to(300), cluster(partitions=(0, 1)), config(bootstrap=bootstrap))
        assert [entry.reason for entry in decided.entries] == ["resumed", "new_partition"]
        assert decided.entries[1].ranges == Ranges.span(100, 500)
        assert after.coverage[key(1)].start == 100


def view_of(*topics, **more):
    views = [cluster(topic=topic, topic_id=f"id-{topic}", **more) for topic in topics]
    return ClusterView(
        cluster_id="c",
        topics={name: info for view in views for name, info in view.topics.items()},
        offsets={tp: have for view in views for tp, have in view.offsets.items()},
    )


def reasons(decided):
    return {entry.key.topic: entry.reason for entry in decided.entries}


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


# Holes, losses, policies


def test_holes_come_first_and_decided_offsets_are_left_out():
    state = commit(
        LogState(),
        PartitionChange(
            key=key(), start=100, covered=Ranges.of([(100, 150), (200, 250)]), skipped=Ranges.span(300, 310)
        ),
    )
    decided, _ = plan_of(state, cluster())
    assert only(decided).ranges == Ranges.of([(150, 200), (250, 300), (310, 500)])
    assert only(decided).previous == 150


def test_only_the_undecided_below_the_log_start_is_lost():
    state = commit(LogState(), PartitionChange(key=key(), start=0, covered=Ranges.of([(0, 20), (40, 300)])))
    decided, after = plan_of(state, cluster())
    assert only(decided).ranges == Ranges.span(300, 500)
    (change,) = decided.changes
    assert change.lost == Ranges.span(20, 40)
    assert change.counts == Counts(lost=20)
    assert carried(after) == 300
    assert "20 offsets below the log start 100 are lost" in decided.notes[0]


def test_latest_skips_all_that_is_left_and_counts_it():
    state = commit(LogState(), PartitionChange(key=key(), start=0, covered=Ranges.of([(0, 20), (40, 300)])))
    decided, after = plan_of(state, cluster(), config(on_out_of_range="latest"))
    (change,) = decided.changes
    assert (change.lost, change.skipped) == (Ranges.span(20, 40), Ranges.span(300, 500))
    assert (only(decided).lost, only(decided).skipped, change.caught_up) == (20, 200, True)
    assert carried(after) == 500


def test_fail_holds_the_topic_and_commits_nothing_of_it():
    state = commit(read_up_to(50), PartitionChange(key=key(1), start=0, covered=Ranges.span(0, 300)))
    decided, _ = plan_of(state, cluster(partitions=(0, 1, 2)), config(on_out_of_range="fail"))
    assert (decided.entries, decided.changes) == ((), ())
    (held,) = decided.held
    assert held.reason == "out_of_range"
    assert "T[0]: offsets [50, 100) were never read and lie below the log start 100" in held.detail


def test_skip_leaves_one_partition_alone_and_reads_the_others():
    state = commit(read_up_to(50), PartitionChange(key=key(1), start=0, covered=Ranges.span(0, 300)))
    decided, _ = plan_of(state, cluster(partitions=(0, 1)), config(on_out_of_range="skip"))
    assert [(entry.reason, str(entry.ranges)) for entry in decided.entries] == [
        ("skipped_out_of_range", "nothing"),
        ("resumed", "[300, 500)"),
    ]
    assert decided.changes == ()
    assert decided.held == ()


# Truncation and re-creation


def test_truncation_carries_coverage_below_the_end_into_a_new_generation():
    state = commit(
        LogState(),
        PartitionChange(
            key=key(), start=100, covered=Ranges.of([(100, 300), (320, 900)]), skipped=Ranges.span(300, 310)
        ),
    )
    decided, after = plan_of(state, cluster())
    now = after.coverage[key(generation=1)]
    assert (now.start, now.covered, now.skipped) == (100, Ranges.of([(100, 300), (320, 500)]), Ranges.span(300, 310))
    assert only(decided).ranges == Ranges.span(310, 320)
    assert decided.changes[0].counts == Counts()
    assert after.current[TopicPartition("T", 0)] == key(generation=1)
    assert "the log was truncated to 500, reading goes on there" in decided.notes[0]
    # What comes after the truncation is read, and nothing again.
    grown, _ = plan_of(after, cluster(last_stable=700))
    assert only(grown).ranges == Ranges.of([(310, 320), (500, 700)])


def test_truncation_under_earliest_says_how_much_comes_again():
    decided, after = plan_of(read_up_to(900), cluster(), config(on_out_of_range="earliest"))
    assert only(decided).ranges == Ranges.span(100, 500)
    assert after.coverage[key(generation=1)].covered == Ranges()
    assert "400 offsets that were read come again" in decided.notes[0]


def test_a_start_point_above_the_end_is_a_truncation_too():
    state = commit(LogState(), PartitionChange(key=key(), start=900))
    decided, after = plan_of(state, cluster())
    assert only(decided).reason == "reset_too_late"
    assert carried(after) == 500


def test_an_open_transaction_is_no_truncation():
    decided, after = plan_of(read_up_to(450), cluster(last_stable=400, high_watermark=500))
    assert only(decided).reason == "no_data"
    assert decided.changes == ()
    assert carried(after) == 450


@pytest.mark.parametrize(
    ("policy", "reason", "start"),
    [("earliest", "topic_recreated_earliest", 100), ("latest", "topic_recreated_latest", 500)],
)
def test_a_topic_made_anew_is_another_one(policy, reason, start):
    state = commit(read_up_to(300), PartitionChange(key=key(5), start=0, covered=Ranges.span(0, 9)))
    decided, after = plan_of(state, cluster(topic_id="new"), config(on_topic_recreated=policy))
    assert (only(decided).reason, only(decided).previous) == (reason, 300)
    assert after.current[TopicPartition("T", 0)] == key(topic_id="new")
    assert after.coverage[key()].covered == Ranges.span(0, 300)
    assert carried(after) == start
    # A partition added to it later is a new partition, though its number was known under the old id.
    later, _ = plan_of(after, cluster(topic_id="new", partitions=(0, 5)), config(on_topic_recreated=policy))
    assert later.entries[1].reason == "new_partition"


def test_a_topic_made_anew_may_be_held():
    decided, after = plan_of(read_up_to(300), cluster(topic_id="new"), config(on_topic_recreated="fail"))
    assert decided.held[0].reason == "topic_recreated"
    assert carried(after) == 300


# Faults stay with their topic


def test_a_partition_without_offsets_holds_its_topic_and_keeps_its_checkpoints():
    view = cluster(partitions=(0, 1, 2))
    broken = ClusterView(
        cluster_id="c",
        topics={**view.topics, **view_of("other").topics},
        offsets={**view.offsets, **view_of("other").offsets, TopicPartition("T", 1): "no_leader: all replicas down"},
    )
    state = read_up_to(300)
    decided, after = plan_of(state, broken, config(["T", "other"], bootstrap="earliest"))
    (held,) = decided.held
    assert (held.topic, held.reason) == ("T", "no_leader")
    assert "T[1]" in held.detail
    assert "all replicas down" in held.detail
    assert carried(after) == 300
    assert set(after.coverage) == {key(), key(topic="other", topic_id="id-other")}
    assert reasons(decided) == {"other": "bootstrap_earliest"}


def test_a_partition_that_the_broker_does_not_answer_for_is_a_fault_and_no_loss():
    view = cluster(partitions=(0, 1))
    partial = ClusterView(
        cluster_id="c", topics=view.topics, offsets={TopicPartition("T", 0): view.offsets[TopicPartition("T", 0)]}
    )
    decided, after = plan_of(read_up_to(300), partial)
    assert decided.held[0].reason == "broker_error"
    assert carried(after) == 300


def test_a_released_topic_is_held():
    state = commit(read_up_to(300), released=["T"], kind=Kind.RESET)
    decided, _ = plan_of(state, cluster())
    assert decided.held[0].reason == "released"
    assert decided.entries == ()


# Coverage of interval runs before the first start point


def test_what_an_interval_run_covered_of_an_unknown_topic_is_not_read_again():
    state = commit(LogState(), PartitionChange(key=key(), covered=Ranges.span(200, 300)), kind=Kind.INTERVAL)
    decided, after = plan_of(state, cluster(), config(bootstrap="earliest"))
    assert only(decided).ranges == Ranges.of([(100, 200), (300, 500)])
    assert carried(after) == 100


def test_a_truncated_partition_that_only_interval_runs_know_gets_a_new_generation():
    state = commit(LogState(), PartitionChange(key=key(), covered=Ranges.span(200, 900)), kind=Kind.INTERVAL)
    decided, after = plan_of(state, cluster(), config(bootstrap="earliest"))
    assert only(decided).key.generation == 1
    assert only(decided).ranges == Ranges.span(100, 200)
    grown, _ = plan_of(after, cluster(last_stable=700))
    assert only(grown).ranges == Ranges.of([(100, 200), (500, 700)])


# Laws

POLICIES = {name: config(on_out_of_range=name) for name in ("nearest", "earliest", "latest", "skip", "fail")}
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5).map(Ranges.of)


@settings(max_examples=400)
@given(
    st.integers(0, 40),
    spans,
    spans,
    spans,
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)).map(sorted),
    st.sampled_from(sorted(POLICIES)),
)
def test_every_promised_offset_is_read_decided_or_named(start, covered, skipped, lost, held, policy):
    state = commit(LogState(), PartitionChange(key=key(), start=start, covered=covered, skipped=skipped, lost=lost))
    before = state.coverage[key()]
    view = cluster(*held)
    decided, after = plan_of(state, view, POLICIES[policy])
    if decided.held:
        assert policy in ("skip", "fail")
        assert decided.changes == ()
        return
    entry = only(decided)
    now = after.coverage.get(entry.key)
    if entry.reason == "skipped_out_of_range":
        assert now == before
        return
    # Only undecided, readable offsets are read, and all of them.
    assert not entry.ranges & now.decided
    assert entry.ranges == now.undecided(now.start, held[1])
    assert not entry.ranges.below(held[0])
    assert not now.undecided(now.start, held[0])
    # Planning never claims to have read anything.
    new = entry.key.generation == 0
    assert not now.covered - before.covered
    if new:
        assert not before.decided - now.decided
        assert entry.lost == len(now.lost - before.lost)
    else:
        assert max(before.start, before.decided.end or 0) > held[2]
        assert not now.decided.from_on(held[2])
    # Doing it again right away finds nothing to commit.
    assert decide(after, view, POLICIES[policy], CLOCK, {}).changes == ()


# The look at the cluster


def test_a_filter_asks_for_all_topics_and_a_list_only_for_its_own():
    calls = []
    fake = FakeCluster(on_call=calls.append)
    fake.create_topic("t1", 2)
    fake.create_topic("u1", 1)
    listed = look(fake.catalog(), ("t1",), LogState())
    assert calls == ["kafka.cluster_id", "kafka.describe", "kafka.offsets"]
    calls.clear()
    filtered = look(fake.catalog(), TopicFilter(allow=["T.*"]), LogState())
    assert calls == ["kafka.cluster_id", "kafka.topics", "kafka.offsets"]
    assert listed == filtered
    assert len(filtered.offsets) == 2


def test_a_known_topic_that_is_no_longer_listed_is_asked_for_by_name():
    fake = FakeCluster("c")
    first = fake.create_topic("t1")
    fake.create_topic("t2")
    state = commit(LogState(), *(PartitionChange(key=key(topic=t, topic_id=first), start=0) for t in ("t1", "t2")))
    fake.deny("t1")
    fake.delete_topic("t2")
    view = look(fake.catalog(), TopicFilter(), state)
    assert {name: info.fault for name, info in view.topics.items()} == {"t1": "denied"}


def test_another_cluster_is_refused_with_both_ids():
    fake = FakeCluster("other")
    with pytest.raises(ClusterChangedError, match="cluster id other, the commit log knows c.*state set --cluster"):
        look(fake.catalog(), ("T",), read_up_to(5))
    assert look(fake.catalog(), ("T",), LogState()).cluster_id == "other"
