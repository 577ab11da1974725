"""A mapped task from its plan to its manifest: what is read again, what ends a unit, what fails the attempt."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_kafka_hdfs.exceptions import (
    CorruptStateError,
    KafkaUnavailableError,
    PlanEndedError,
    RegistryUnavailableError,
    StoreUnavailableError,
)
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, manifests
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.reading import ReadOptions, Stopped
from airflow_kafka_hdfs.ingest.records import Manifest, Outcome
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.model import TopicPartition
from tests.fakes.faulty_store import Fault, FaultyStore
from tests.fakes.faulty_store import Kind as FaultKind
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import EVENT, HOUR, MORNING, Task, confluent, counts_of, datum, event, manifest_of

# the plain way


def test_bytes_by_kafka_time_become_avro_records_of_one_field():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"a", b"b", timestamp=MORNING)
    task.cluster.produce("events", 0, b"c", timestamp=MORNING + HOUR)
    unit = task.unit()
    assert unit.outcome is Outcome.DONE
    assert task.data(unit) == {
        "events/2026/01/01/08": [{"value": b"a"}, {"value": b"b"}],
        "events/2026/01/01/09": [{"value": b"c"}],
    }
    assert counts_of(unit) == {"written": 3}
    first = unit.files[0]
    assert first.path == "events/2026/01/01/08/events+20260101T000000Z-00000001+0+0+0+0+1.avro"
    assert first.time_partition == "2026-01-01T08:00:00"
    assert first.offsets == {0: (0, 1, 2)}
    assert first.event_times == (MORNING, MORNING)
    assert task.readers[0].closed


def test_confluent_avro_is_passed_on_byte_for_byte():
    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time", codec="null")
    schema_id = task.registry.register("events", EVENT)
    values = [event(i, MORNING + i * HOUR // 2, "NL" if i % 2 else None) for i in range(5)]
    task.cluster.produce("events", 0, *(confluent(schema_id, value) for value in values))
    unit = task.unit()
    assert task.data(unit) == {
        "events/2026/01/01/08": values[:2],
        "events/2026/01/01/09": values[2:4],
        "events/2026/01/01/10": values[4:],
    }
    assert datum(values[0]) + datum(values[1]) in task.store.files()[unit.files[0].staged]
    assert unit.files[0].schema == "1"
    assert task.registry.calls["registry.by_id"] == 1


def test_partitions_of_a_topic_share_files_and_topics_do_not():
    task = Task()
    task.topic("a", partitions=3)
    task.topic("b")
    for partition in range(3):
        task.cluster.produce("a", partition, b"x", b"y", timestamp=MORNING)
    task.cluster.produce("b", 0, b"z", timestamp=MORNING)
    manifest = manifest_of(task.run())
    (shared,), (single,) = (unit.files for unit in manifest.units)
    assert shared.offsets == {0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 1, 2)}
    assert shared.path.endswith("/a+20260101T000000Z-00000001+0+0.avro")
    assert single.path.endswith("/b+20260101T000000Z-00000001+0+1+0+0+0.avro")
    assert [unit.counts.written for unit in manifest.units] == [6, 1]


def test_an_empty_range_opens_no_reader_and_asks_no_registry():  # V89, Gobblin 47
    task = Task()
    task.topic(value_format="avro_confluent")
    unit = task.unit(task.plan(("events", 0, 5, 5)))
    assert (unit.outcome, unit.files) == (Outcome.DONE, ())
    assert task.readers == []
    assert task.registry.calls == {}


def test_records_behind_the_planned_end_are_left():  # V90
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 5, timestamp=MORNING)
    plan = task.plan()
    task.cluster.produce("events", 0, *[b"y"] * 5, timestamp=MORNING)
    assert task.data(task.unit(plan)) == {"events/2026/01/01/08": [{"value": b"x"}] * 5}


def test_the_first_record_of_a_partition_is_read():  # bug 12
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"only", timestamp=MORNING)
    assert task.unit().counts.written == 1


def test_a_first_poll_without_records_ends_nothing():  # V87, bug 87
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 25, timestamp=MORNING)
    task.cluster.lose_leader("events", 0)
    plan = task.plan(("events", 0, 0, 25))
    task.clock.on_sleep = lambda seconds: (
        task.cluster.elect_leader("events", 0) if task.clock.monotonic() > 30 else None
    )
    assert task.unit(plan).counts.written == 25


@pytest.mark.parametrize("committed", [True, False])
def test_markers_at_the_end_count_as_seen_gaps(committed):  # bugs 65, 70, 71
    task = Task()
    task.topic()
    txn = task.cluster.transaction()
    txn.produce("events", 0, b"a", b"b", b"c", timestamp=MORNING)
    txn.commit() if committed else txn.abort()
    unit = task.unit()
    assert counts_of(unit) == ({"written": 3, "gaps": 1} if committed else {"gaps": 4})
    assert unit.partitions[0].covered == Ranges.span(0, 4)
    assert bool(unit.files) is committed


def test_a_compacted_topic_is_read_to_its_end():  # bug 72
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    task.cluster.compact("events", 0, *range(1, 9))
    assert counts_of(task.unit()) == {"written": 2, "gaps": 8}


def test_ranges_of_one_partition_are_read_one_after_the_other():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *(b"%d" % i for i in range(100)), timestamp=MORNING)
    unit = task.unit(task.plan(("events", 0, 5, 8), ("events", 0, 40, 42), ("events", 0, 98, 100)))
    assert unit.partitions[0].covered == Ranges.of([(5, 8), (40, 42), (98, 100)])
    values = [record["value"] for record in task.data(unit)["events/2026/01/01/08"]]
    assert values == [b"5", b"6", b"7", b"40", b"41", b"98", b"99"]


# what the broker no longer holds


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ("nearest", {"written": 4, "lost": 6}),
        ("earliest", {"written": 4, "lost": 6}),
        ("latest", {"lost": 6, "skipped": 4}),
    ],
)
def test_offsets_that_expired_before_they_were_read_are_lost(policy, counts):  # V88, bugs 68, 73, 88
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


def test_a_topic_that_can_not_be_asked_for_its_offsets_ends_with_that_word():
    task = Task()
    task.topic(partitions=2)
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    plan = task.plan()
    task.cluster.expire("events", 0, 6)
    on_offsets(task, lambda: task.cluster.lose_leader("events", 0))
    unit = task.unit(plan)
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "no_leader")
    assert unit.counts.offsets == 0


def on_offsets(task: Task, act) -> None:
    task.cluster.on_call = lambda name: act() if name == "kafka.offsets" else None


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
def test_a_policy_may_end_the_unit_where_offsets_are_gone(policy):  # bug 69
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


def test_no_progress_is_a_transient_failure_that_names_the_partition():  # bug 14
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


def two_topics(**changes) -> Task:
    task = Task()
    task.topic("bad", **changes)
    task.topic("good", partitions=2)
    for topic in ("bad", "good"):
        task.cluster.produce(topic, 0, *[b"x"] * 4, timestamp=MORNING)
    return task


def outcomes(result) -> dict[str, tuple[str, str, int]]:
    return {u.topic: (u.outcome.value, u.reason, u.counts.written) for u in manifest_of(result).units}


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


def on_poll(task: Task, number: int, act) -> None:
    seen = []

    def on_call(name: str) -> None:
        if name == "kafka.poll":
            seen.append(name)
            if len(seen) == number:
                act()

    task.cluster.on_call = on_call


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


# attempts


def test_a_task_that_is_finished_does_nothing_again():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    first = task.run(plan)
    again = task.run(plan)
    assert (first.read, first.made) == (True, True)
    assert (again.read, again.made, again.faults) == (False, False, [])
    assert again.manifest == first.manifest
    assert len(task.readers) == 1


def test_only_failed_units_are_read_again_under_new_names():
    task = two_topics()
    plan = task.plan()
    task.per_poll = 2
    on_poll(task, 2, lambda: task.cluster.deny("bad", read_only=True))
    first = manifest_of(task.run(plan))
    assert [u.outcome for u in first.units] == [Outcome.FAILED, Outcome.DONE]
    task.cluster.allow("bad")
    second = manifest_of(task.run(plan))
    assert (second.k, [u.topic for u in second.units]) == (1, ["bad"])
    assert second.units[0].counts.written == 4
    names = [entry.path for manifest in (first, second) for unit in manifest.units for entry in unit.files]
    indexes = [path.split("+")[3].split(".")[0] for path in names]
    assert len(set(indexes)) == len(indexes)
    result = commit_plan(task.context(), plan, CommitPolicy())
    assert result.record.counts.written == 8


def test_a_unit_whose_rest_went_back_reads_nothing_and_says_where():
    task = two_topics()
    plan = task.plan()
    task.per_poll = 2
    on_poll(task, 2, lambda: task.cluster.deny("bad", read_only=True))
    task.run(plan)
    commit_plan(task.context(), plan, CommitPolicy(publish="partial"))
    task.cluster.allow("bad")
    with pytest.raises(PlanEndedError, match="topic bad: the rest went back in commit 0: clear `plan` or wait for"):
        task.run(plan)
    assert len(task.readers) == 1


def test_a_task_that_is_committed_whole_is_left_alone_when_cleared():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    task.run(plan)
    commit_plan(task.context(), plan, CommitPolicy())
    assert task.run(plan).faults == []
    assert len(task.readers) == 1


def test_a_plan_that_was_ended_reads_nothing():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    abort_plan(task.context(), plan, "the run is gone")
    with pytest.raises(PlanEndedError, match="was ended by commit 0 .the run is gone.*clear `plan`"):
        task.run(plan)
    assert task.readers == []


def test_the_slower_of_two_attempts_takes_the_others_manifest_and_leaves_nothing():  # bugs 5, 39
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    winner: list[Manifest] = []

    def other_attempt() -> None:
        rival = dataclasses.replace(task, seed=50, readers=[])
        task.cluster.on_call = lambda name: None
        winner.append(manifest_of(rival.run(plan)))

    on_poll(task, 1, other_attempt)
    result = task.run(plan)
    assert (result.read, result.made) == (True, False)
    assert result.manifest == winner[0]
    assert {path.split("/")[5] for path in task.staged()} == {winner[0].attempt}


def test_a_stop_while_waiting_for_the_rate_leaves_quickly_too():
    task = Task(reading=ReadOptions(limits=Limits(rate=1)))
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 50, timestamp=MORNING)
    plan = task.plan()
    task.stop.after = 4
    with pytest.raises(Stopped):
        task.run(plan)
    assert task.clock.monotonic() < 2


def test_a_bad_quarantine_is_left_behind_by_a_failed_attempt_like_any_file():
    task = Task()
    task.topic(value_format="json", max_bad_share=None)
    task.cluster.produce("events", 0, b"{", b"{}", timestamp=MORNING)
    plan = task.plan()
    counting = FaultyStore(InMemoryStore())
    task.store = counting
    task.run(plan)
    closes = [call.number for call in counting.calls if call.name == "close"]
    for at in closes:
        inner = InMemoryStore()
        task.store = FaultyStore(inner, Fault(at=at, kind=FaultKind.UNAVAILABLE))
        with pytest.raises(StoreUnavailableError):
            task.run(plan)
        task.store = inner
        assert task.staged() == []


def test_staging_that_can_not_be_deleted_stays_for_the_collector():
    task = Task(reading=ReadOptions(batch_records=1))
    task.topic(value_format="avro_confluent")
    schema_id = task.registry.register("events", EVENT)
    task.cluster.produce("events", 0, confluent(schema_id, event(1)), timestamp=MORNING)
    task.cluster.produce("events", 0, b"\x00\x00\x00\x00\x09" + datum(event(1)), timestamp=MORNING)
    plan = task.plan()

    class Undeletable(InMemoryStore):
        def delete(self, path: str, *, recursive: bool = False) -> None:
            raise StoreUnavailableError("delete", path, "not now")

    task.store = Undeletable()
    first = []

    def away_at_the_second_id(name: str) -> None:
        if name == "registry.by_id":
            first.append(name)
            task.registry.down = len(first) == 2

    task.registry._on_call = away_at_the_second_id
    with pytest.raises(RegistryUnavailableError):
        task.run(plan)
    assert len(task.staged()) == 1


def test_a_stop_leaves_quickly_without_a_manifest():
    task = Task(per_poll=1)
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 50, timestamp=MORNING)
    plan = task.plan()
    task.stop.after = 5
    with pytest.raises(Stopped):
        task.run(plan)
    assert task.readers[0].closed
    assert manifests(task.context(), plan, 0) == []


def test_an_outage_of_the_registry_fails_the_attempt_and_blames_no_record():  # bug 97, Gobblin's row 4
    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time")
    schema_id = task.registry.register("events", EVENT)
    task.cluster.produce("events", 0, confluent(schema_id, event(1)))
    plan = task.plan()
    task.registry.down = True
    with pytest.raises(RegistryUnavailableError):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
    assert task.staged() == []
    task.registry.down = False
    assert task.unit(plan).counts.written == 1


def test_kafka_away_at_the_last_check_fails_the_attempt():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    describes = []

    def on_call(name: str) -> None:
        describes.append(name)
        if describes.count("kafka.describe") == 2:
            raise KafkaUnavailableError("away")

    task.cluster.on_call = on_call
    with pytest.raises(KafkaUnavailableError):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
    assert task.staged() == []


@pytest.mark.parametrize("name", ["create", "write", "close"])
def test_a_store_that_fails_once_fails_the_attempt_and_the_next_starts_clean(name):  # bugs 6, 7, 8, 13, 34
    def task_on(store) -> Task:
        task = Task(store=store)
        task.topic()
        task.cluster.produce("events", 0, *[b"x" * 1_000] * 100, timestamp=MORNING)
        task.cluster.produce("events", 0, b"z", timestamp=MORNING + HOUR)
        return task

    counting = FaultyStore(InMemoryStore())
    task_on(counting).run()
    calls = [call.number for call in counting.calls if call.name == name]
    assert calls
    for at in calls:
        for kind in (FaultKind.UNAVAILABLE, FaultKind.ANSWER_LOST):
            inner = InMemoryStore()
            task = task_on(FaultyStore(inner, Fault(at=at, kind=kind)))
            plan = task.plan()
            with pytest.raises(StoreUnavailableError):
                task.run(plan)
            assert manifests(task.context(), plan, 0) == []
            task.store = inner
            unit = task.unit(plan)
            assert unit.counts.written == 101
            assert task.staged() == [entry.staged for entry in unit.files]


def test_an_answer_lost_on_the_manifest_keeps_its_files():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    task.store = FaultyStore(InMemoryStore())
    task.run(plan)
    at = next(call.number for call in task.store.calls if call.name == "put_if_absent")
    inner = InMemoryStore()
    task.store = FaultyStore(inner, Fault(at=at, kind=FaultKind.ANSWER_LOST))
    with pytest.raises(StoreUnavailableError):
        task.run(plan)
    task.store = inner
    result = task.run(plan)
    assert result.read is False
    assert task.staged() == [entry.staged for entry in manifest_of(result).units[0].files]


def test_counts_that_do_not_add_up_never_become_a_manifest():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", b"y", timestamp=MORNING)
    plan = task.plan()

    class Forgetful:
        name = "forgetful"

        def __init__(self, route, destination):
            self.to = destination

        def try_take(self, batch, indexes, values):
            self.to.tallies[0].filtered += 1  # the other record is lost without a word
            return ()

    task.fast = Forgetful
    with pytest.raises(CorruptStateError, match="2 offsets and 2 records read"):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []


# limits and progress


def test_a_count_limit_reads_exactly_so_many():  # bug 85, Gobblin 52, 57
    task = Task(reading=ReadOptions(limits=Limits(records=10)))
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 25, timestamp=MORNING)
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.LIMITED, "record_limit")
    assert unit.partitions[0].covered == Ranges.span(0, 10)
    assert unit.detail == "record_limit reached; 15 offsets are left to the next run"


def test_a_limit_that_is_just_enough_is_no_limit():
    task = Task(reading=ReadOptions(limits=Limits(records=10)))
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 10, timestamp=MORNING)
    assert task.unit().outcome is Outcome.DONE


def test_a_limit_is_shared_by_all_partitions():
    task = Task(reading=ReadOptions(limits=Limits(records=40)))
    task.topic(partitions=4)
    for partition, count in enumerate((100, 100, 5, 0)):
        task.cluster.produce("events", partition, *[b"x"] * count, timestamp=MORNING)
    unit = task.unit()
    reached = [len(part.covered) for part in unit.partitions]
    assert sum(reached) == 40
    assert reached[2:] == [5, 0]
    assert abs(reached[0] - reached[1]) <= 1


def test_shares_that_gaps_leave_over_are_used_by_others():
    task = Task(reading=ReadOptions(limits=Limits(records=40)))
    task.topic(partitions=2)
    task.cluster.produce("events", 0, *[b"x"] * 100, timestamp=MORNING)
    task.cluster.produce("events", 1, *[b"x"] * 100, timestamp=MORNING)
    task.cluster.compact("events", 1, *range(1, 99))
    unit = task.unit()
    assert unit.counts.written == 40
    assert [part.counts.written for part in unit.partitions] == [38, 2]


def test_topics_may_have_limits_of_their_own():
    task = Task(reading=ReadOptions(limits=Limits(records=50)))
    task.topic("few", record_limit=3)
    task.topic("many")
    for topic in ("few", "many"):
        task.cluster.produce(topic, 0, *[b"x"] * 100, timestamp=MORNING)
    assert outcomes(task.run()) == {"few": ("limited", "record_limit", 3), "many": ("limited", "record_limit", 47)}


def test_a_byte_limit_ends_with_the_record_that_reaches_it():
    task = Task(reading=ReadOptions(limits=Limits(bytes=25)))
    task.topic()
    task.cluster.produce("events", 0, *[b"0123456789"] * 10, timestamp=MORNING)
    unit = task.unit()
    assert (unit.outcome, unit.reason, unit.counts.written) == (Outcome.LIMITED, "byte_limit", 3)
    assert unit.counts.bytes_in == 30


def test_a_time_limit_ends_between_two_polls():  # Gobblin 53
    task = Task(per_poll=1, reading=ReadOptions(limits=Limits(time=3)))
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 100, timestamp=MORNING)
    plan = task.plan()
    task.cluster.on_call = lambda name: task.clock.advance(1) if name == "kafka.poll" else None
    unit = task.unit(plan)
    assert (unit.outcome, unit.reason, unit.counts.written) == (Outcome.LIMITED, "time_limit", 3)
    assert "time_limit of 3 s reached; 97 offsets are left" in unit.detail


def test_a_rate_is_kept():
    task = Task(reading=ReadOptions(limits=Limits(rate=20)))
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 100, timestamp=MORNING)
    unit = task.unit()
    assert unit.outcome is Outcome.DONE
    assert task.clock.monotonic() == pytest.approx(5, rel=0.15)


def test_progress_is_told_every_few_seconds():
    task = Task(per_poll=1)
    task.topic()
    task.cluster.produce("events", 0, *[b"0123456789"] * 20, timestamp=MORNING)
    plan = task.plan()
    task.cluster.on_call = lambda name: task.clock.advance(1) if name == "kafka.poll" else None
    task.unit(plan)
    reports = task.progress.reports
    assert [report["records"] for report in reports] == [5, 10, 15, 20]
    assert reports[1] == {
        "records": 10,
        "bytes": 100,
        "lag": 10,
        "rate": 1.0,
        "seconds": 10.0,
        "seconds_left": 10.0,
        "ways": {tiers.choose().name: 10},
    }


def test_finished_partitions_are_paused_and_nothing_is_fetched_twice():
    task = Task()
    task.topic(partitions=2)
    task.cluster.produce("events", 0, *[b"x"] * 3, timestamp=MORNING)
    task.cluster.produce("events", 1, *[b"x"] * 3, timestamp=MORNING)
    plan = task.plan(("events", 0, 0, 2), ("events", 1, 0, 3))
    task.unit(plan)
    assert task.readers[0]._paused == {TopicPartition("events", 0), TopicPartition("events", 1)}


# what else a section tells


def test_late_records_are_counted_in_their_files():  # bug 60
    task = Task()
    task.topic(value_format="json", file_format="jsonl", time_field="time")

    def produce(*times: int) -> None:
        task.cluster.produce("events", 0, *(b'{"time": %d}' % time for time in times))

    produce(MORNING, MORNING + 2 * HOUR)
    plan = task.plan()
    assert [entry.late for entry in task.unit(plan).files] == [0, 0]
    commit_plan(task.context(), plan, CommitPolicy())
    produce(MORNING + HOUR, MORNING + 2 * HOUR + 5, MORNING + 2 * HOUR - 1, MORNING + 3 * HOUR)
    task.run_id = "run-2"
    unit = task.unit(task.plan(("events", 0, 2, 6)))
    assert {entry.time_partition[11:13]: entry.late for entry in unit.files} == {"09": 2, "10": 0, "11": 0}


def test_a_section_tells_log_ends_event_times_and_time_spent():
    task = Task()
    task.topic(partitions=2)
    task.cluster.produce("events", 0, b"x", timestamp=MORNING + 5)
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan(("events", 0, 0, 2), ("events", 1, 0, 0))
    task.cluster.produce("events", 0, b"y", timestamp=MORNING)
    task.cluster.on_call = lambda name: task.clock.advance(2) if name == "kafka.poll" else None
    unit = task.unit(plan)
    first, second = unit.partitions
    assert (first.log_start, first.log_end, first.event_times) == (0, 3, (MORNING, MORNING + 5))  # bug 53
    assert first.seconds == pytest.approx(2)
    assert (second.event_times, second.seconds, second.log_end) == (None, 0.0, 0)
    assert unit.counts.bytes_in == 2


def test_a_manifest_survives_its_json():
    task = two_topics(value_format="json")
    manifest = manifest_of(task.run())
    assert wire.decode("m", "manifest", Manifest, wire.encode("manifest", manifest)) == manifest
    assert manifests(task.context(), task.plan(), 0) == [manifest]


def test_counts_are_kept_per_partition_and_begin_at_zero():
    """Gobblin 25, 26, 29, 30; its tracker begins at -1 and shares the null count, ours does neither."""
    task = Task()
    task.topic(partitions=3, value_format="string", on_null="skip", max_bad_share=None)
    task.cluster.produce("events", 0, b"\xff", b"\xff", b"x" * 150, None, timestamp=MORNING)
    task.cluster.produce("events", 1, b"x" * 100, timestamp=MORNING)
    counts = [part.counts for part in task.unit().partitions]
    assert [(c.quarantined, c.null_values, c.written, c.bytes_in) for c in counts] == [
        (2, 1, 1, 152),
        (0, 0, 1, 100),
        (0, 0, 0, 0),
    ]


def test_pipelines_in_one_process_do_not_share_fields():  # bug 45
    folders = []
    for field in ("a", "b"):
        task = Task()
        task.topic(value_format="json", partition_fields=[field])
        task.cluster.produce("events", 0, b'{"a": 1, "b": 2}', timestamp=MORNING)
        folders += task.data(task.unit())
    assert folders == ["events/a=1/2026/01/01/08", "events/b=2/2026/01/01/08"]


def test_days_of_one_unit_have_files_of_different_names():  # bugs 26, 27
    task = Task()
    task.topic(granularity="daily")
    task.cluster.produce("events", 0, b"a", timestamp=MORNING)
    task.cluster.produce("events", 0, b"b", timestamp=MORNING + 24 * HOUR)
    paths = [entry.path for entry in task.unit().files]
    assert [path.rpartition("/")[0] for path in paths] == ["events/2026/01/01", "events/2026/01/02"]
    assert [path.split("+", 3)[3] for path in paths] == ["0+0+0+0.avro", "1+0+1+1.avro"]


def test_the_zone_holds_for_folder_and_key():  # bug 51
    task = Task()
    task.topic(timezone="America/Los_Angeles")
    task.cluster.produce("events", 0, b"a", timestamp=1391252400000)
    (entry,) = task.unit().files
    assert entry.path.startswith("events/2014/02/01/03/")
    assert entry.time_partition == "2014-02-01T11:00:00"


def test_huge_messages_are_records_like_any():
    task = Task()
    task.topic(codec="null")
    task.cluster.produce("events", 0, b"x" * 5_000_000, b"y", timestamp=MORNING)
    unit = task.unit()
    assert [len(record["value"]) for record in task.data(unit)["events/2026/01/01/08"]] == [5_000_000, 1]
