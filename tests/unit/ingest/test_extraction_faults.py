"""What the broker no longer holds, and topics that fail alone: the others of a task are read all the same."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.ingest.plan_book import manifests
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.records import Outcome
from tests.unit.ingest.extracting import MORNING, Task, counts_of, manifest_of, on_poll, outcomes, two_topics


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ("nearest", {"written": 4, "lost": 6}),
        ("earliest", {"written": 4, "lost": 6}),
        ("latest", {"lost": 6, "skipped": 4}),
    ],
)
@pytest.mark.bug(68, 73, 88)
def test_offsets_that_expired_before_they_were_read_are_lost(policy, counts):
    task = Task()
    task.topic(on_out_of_range=policy)
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    plan = task.plan()
    task.cluster.expire("events", 0, 6)
    unit = task.unit(plan)
    assert unit.outcome is Outcome.DONE
    assert counts_of(unit) == counts
    (part,) = unit.partitions
    assert part.lost == Ranges.span(0, 6)
    assert part.log_start == 6


def expired(**settings) -> tuple[Task, Plan]:
    """Ten records of a plan, of which the first six are gone."""
    task = Task(**settings)
    task.topic(partitions=2)
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    plan = task.plan()
    task.cluster.expire("events", 0, 6)
    return task, plan


def test_a_topic_that_can_not_be_asked_for_its_offsets_ends_with_that_word():
    task, plan = expired()
    task.cluster.on_call = lambda name: task.cluster.deny("events") if name == "kafka.offsets" else None
    unit = task.unit(plan)
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "denied")
    assert unit.counts.offsets == 0


def test_an_election_while_offsets_are_looked_up_is_waited_for():
    task, plan = expired()
    calls: list[str] = []

    def elections(name: str) -> None:
        calls.append(name)
        if name == "kafka.offsets" and calls.count(name) == 1:
            task.cluster.lose_leader("events", 0)
        elif name == "kafka.poll" and calls.count(name) == 4:
            task.cluster.elect_leader("events", 0)

    task.cluster.on_call = elections
    unit = task.unit(plan)
    assert unit.outcome is Outcome.DONE
    assert counts_of(unit) == {"written": 4, "lost": 6}


def test_an_election_that_takes_too_long_is_worth_a_retry():
    task, plan = expired(reading=ReadOptions(stall_seconds=2.0))
    task.cluster.on_call = lambda name: task.cluster.lose_leader("events", 0) if name == "kafka.offsets" else None
    with pytest.raises(KafkaUnavailableError, match="no progress"):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
    assert task.staged() == []


def test_lost_ends_where_the_range_ends():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 30, timestamp=MORNING)
    plan = task.plan(("events", 0, 2, 5), ("events", 0, 8, 12))
    task.cluster.expire("events", 0, 10)
    unit = task.unit(plan)
    assert unit.partitions[0].lost == Ranges.of([(2, 5), (8, 10)])
    assert counts_of(unit) == {"written": 2, "lost": 5}


@pytest.mark.parametrize("policy", ["skip", "fail"])
@pytest.mark.bug(69)
def test_a_policy_may_end_the_unit_where_offsets_are_gone(policy):
    task = Task(per_poll=2, reading=ReadOptions(batch_records=2))
    task.topic(on_out_of_range=policy)
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    plan = task.plan()
    expire_after(task, polls=1, before=6)
    result = task.run(plan)
    (unit,) = manifest_of(result).units
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "out_of_range")
    assert unit.partitions[0].covered == Ranges.span(0, 2)
    assert counts_of(unit) == {"written": 2}
    assert "events[0]@2: offsets up to 6 are no longer held" in result.faults[0]


def expire_after(task: Task, polls: int, before: int) -> None:
    seen = []

    def on_call(name: str) -> None:
        if name == "kafka.poll":
            seen.append(name)
            if len(seen) == polls + 1:
                task.cluster.expire("events", 0, before)

    task.cluster.on_call = on_call


def test_a_log_that_became_shorter_fails_the_unit_for_the_planner_to_decide():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    plan = task.plan()
    task.cluster.truncate("events", 0, 6)
    unit = task.unit(plan)
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "truncated")
    assert "log ends at 6, the plan saw it reach 10" in unit.detail
    assert unit.partitions[0].covered == Ranges.span(0, 6)
    plan = task.plan(("events", 0, 8, 10))
    unit = task.unit(plan)
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "truncated")
    assert unit.counts.offsets == 0


@pytest.mark.bug(14)
def test_no_progress_is_a_transient_failure_that_names_the_partition():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 3, timestamp=MORNING)
    plan = task.plan()
    task.cluster.lose_leader("events", 0)
    with pytest.raises(KafkaUnavailableError, match=r"no progress for 120 s on 1 partitions: events\[0\]@0 \(of 3\)"):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
    assert task.readers[0].closed


# one topic's fault is its own


def test_a_topic_that_is_denied_while_reading_ends_alone():
    task = two_topics()
    plan = task.plan()
    task.cluster.deny("bad", read_only=True)
    result = task.run(plan)
    assert outcomes(result) == {"bad": ("failed", "denied", 0), "good": ("done", "", 4)}
    assert len(result.faults) == 1
    assert "topic bad: denied: bad[0]@0: the broker says denied" in result.faults[0]


def test_a_topic_that_is_gone_ends_alone_with_nothing_read():
    task = two_topics()
    plan = task.plan()
    task.cluster.delete_topic("bad")
    assert outcomes(task.run(plan)) == {"bad": ("failed", "missing", 0), "good": ("done", "", 4)}


def test_what_was_read_before_a_topic_vanished_is_kept():
    task = two_topics()
    task.per_poll = 2
    plan = task.plan()
    on_poll(task, 2, lambda: task.cluster.delete_topic("bad"))
    result = task.run(plan)
    assert outcomes(result)["bad"] == ("failed", "missing", 2)


@pytest.mark.parametrize("polls", [0, 2])
def test_a_topic_made_anew_counts_for_nothing_and_leaves_nothing(polls):
    task = two_topics()
    task.per_poll = 1
    plan = task.plan()

    def make_anew() -> None:
        task.cluster.delete_topic("bad")
        task.cluster.create_topic("bad")
        task.cluster.produce("bad", 0, *[b"y"] * 9, timestamp=MORNING)

    if polls:
        on_poll(task, polls + 2, make_anew)
    else:
        make_anew()
    result = task.run(plan)
    assert outcomes(result) == {"bad": ("failed", "topic_recreated", 0), "good": ("done", "", 4)}
    unit = manifest_of(result).units[0]
    assert (unit.partitions, unit.files) == ((), ())
    assert [path for path in task.staged() if "bad" in path] == []


def test_another_cluster_behind_the_address_counts_for_nothing():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    task.cluster.cluster_id = "other"
    unit = task.unit(plan)
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "topic_recreated")
    assert "cluster other, the plan was made on fake-cluster" in unit.detail


def test_a_schema_that_no_file_can_have_fails_its_topic_alone():
    task = two_topics(value_format="avro", schema={"type": "array", "items": "long"})
    result = task.run()
    assert outcomes(result)["bad"] == ("failed", "unusable_schema", 0)
    assert "the schema is no record" in result.faults[0]
    assert outcomes(result)["good"][0] == "done"


def test_changed_user_code_fails_its_topic_alone():
    task = two_topics(converters=[lambda record: record.value])
    plan = task.plan()
    task.configure("bad", converters=[lambda record: record.value + b"!"])
    result = task.run(plan)
    assert outcomes(result)["bad"] == ("failed", "code_changed", 0)
    assert "clear `plan`" in result.faults[0]
    task.configure("bad")
    assert outcomes(task.run(plan)) == {"bad": ("failed", "code_changed", 0)}
