"""Limits of records, bytes, time and rate, and the progress that a task tells."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.model import TopicPartition
from tests.unit.ingest.extracting import MORNING, Task, counts_of, outcomes


@pytest.mark.bug(85)
def test_a_count_limit_reads_exactly_so_many():
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


def test_a_time_limit_ends_between_two_polls():
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


def test_a_topic_over_its_rate_waits_while_others_go_on():
    task = Task(reading=ReadOptions(batch_records=50, stall_seconds=0.3))
    task.topic("slow", rate_limit=20)
    task.topic("free")
    for topic in ("slow", "free"):
        task.cluster.produce(topic, 0, *[b"x"] * 100, timestamp=MORNING)
    plan, seen = task.plan(), []
    task.cluster.on_call = lambda name: seen.append((name, task.clock.monotonic()))
    assert outcomes(task.run(plan)) == {"slow": ("done", "", 100), "free": ("done", "", 100)}
    assert task.clock.monotonic() == pytest.approx(5, rel=0.15)
    assert next(at for name, at in seen if name == "kafka.pause") == 0, "the slow topic is held after its first records"
    polls = [at for name, at in seen if name == "kafka.poll"]
    assert sum(at == 0 for at in polls) >= 3, "the other topic is read without a wait"
    assert len(polls) < 80, "waiting is no busy loop"
    assert max(after - before for before, after in pairwise(polls)) <= 0.11, "stop and time limits are looked at"


def test_the_rate_of_a_topic_is_shared_by_its_partitions_until_they_are_read():
    task = Task()
    task.topic(partitions=3, rate_limit=30, time_limit=2)
    for partition, count in enumerate((100, 100, 5)):
        task.cluster.produce("events", partition, *[b"x"] * count, timestamp=MORNING)
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.LIMITED, "time_limit")
    assert task.clock.monotonic() == pytest.approx(2, abs=0.11)
    read = [part.counts.written for part in unit.partitions]
    assert sum(read) == pytest.approx(60, abs=18), "a budget of half a second may be used at once"
    assert read[2] == 5
    assert abs(read[0] - read[1]) <= 5


def test_nothing_is_lost_or_doubled_where_a_rate_cuts_a_poll():
    task = Task(reading=ReadOptions(batch_records=7))
    task.topic("slow", partitions=2, rate_limit=6)
    task.topic("free", partitions=2)
    for topic in ("slow", "free"):
        for partition in range(2):
            for start in range(0, 30, 6):
                with_markers = task.cluster.transaction()
                with_markers.produce(topic, partition, *[b"%d" % (start + i) for i in range(6)], timestamp=MORNING)
                with_markers.commit()
            task.cluster.compact(topic, partition, 3, 15, 16)
    ranges = (
        (topic, partition, *span) for topic in ("slow", "free") for partition in (0, 1) for span in ((0, 12), (14, 35))
    )
    manifest = task.run(task.plan(*ranges)).manifest
    slow, free = sorted(manifest.units, key=lambda unit: unit.topic == "free")
    assert slow.outcome is Outcome.DONE
    assert counts_of(slow) == counts_of(free)
    values = {
        unit.topic: sorted(r["value"] for rows in task.data(unit).values() for r in rows) for unit in (slow, free)
    }
    assert values["slow"] == values["free"]


def test_the_slower_of_the_rates_of_task_and_topic_holds():
    task = Task(reading=ReadOptions(limits=Limits(rate=20)))
    task.topic(rate_limit=1000)
    task.cluster.produce("events", 0, *[b"x"] * 100, timestamp=MORNING)
    assert task.unit().outcome is Outcome.DONE
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
