"""What was lost, truncated, made anew, released or can not be read: what a continuous run makes of it, per policy."""

import pytest

from airflow_kafka_hdfs.ingest.cluster_view import ClusterView
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Counts, Kind, PartitionChange
from airflow_kafka_hdfs.model import TopicPartition
from tests.unit.ingest.deciding import (
    carried,
    cluster,
    commit,
    config,
    key,
    only,
    plan_of,
    read_up_to,
    reasons,
    view_of,
)


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


@pytest.mark.bug(79)
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
@pytest.mark.bug(83)
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


@pytest.mark.bug(16)
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
