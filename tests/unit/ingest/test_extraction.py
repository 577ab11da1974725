"""A mapped task from its plan to its manifest: what it reads, writes and tells where nothing goes wrong."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.plan_book import manifests
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Manifest, Outcome
from tests.unit.ingest.extracting import (
    EVENT,
    HOUR,
    MORNING,
    Task,
    confluent,
    counts_of,
    datum,
    event,
    manifest_of,
    two_topics,
)

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


@pytest.mark.bug(58)
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


@pytest.mark.bug(64)
def test_an_empty_range_opens_no_reader_and_asks_no_registry():
    task = Task()
    task.topic(value_format="avro_confluent")
    unit = task.unit(task.plan(("events", 0, 5, 5)))
    assert (unit.outcome, unit.files) == (Outcome.DONE, ())
    assert task.readers == []
    assert task.registry.calls == {}


def test_records_behind_the_planned_end_are_left():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 5, timestamp=MORNING)
    plan = task.plan()
    task.cluster.produce("events", 0, *[b"y"] * 5, timestamp=MORNING)
    assert task.data(task.unit(plan)) == {"events/2026/01/01/08": [{"value": b"x"}] * 5}


@pytest.mark.bug(12)
def test_the_first_record_of_a_partition_is_read():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"only", timestamp=MORNING)
    assert task.unit().counts.written == 1


@pytest.mark.bug(87)
def test_a_first_poll_without_records_ends_nothing():
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
@pytest.mark.bug(65, 67, 71)
def test_markers_at_the_end_count_as_seen_gaps(committed):
    task = Task()
    task.topic()
    txn = task.cluster.transaction()
    txn.produce("events", 0, b"a", b"b", b"c", timestamp=MORNING)
    txn.commit() if committed else txn.abort()
    unit = task.unit()
    assert counts_of(unit) == ({"written": 3, "gaps": 1} if committed else {"gaps": 4})
    assert unit.partitions[0].covered == Ranges.span(0, 4)
    assert bool(unit.files) is committed


@pytest.mark.bug(72)
def test_a_compacted_topic_is_read_to_its_end():
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


# what else a section tells


@pytest.mark.bug(60)
def test_late_records_are_counted_in_their_files():
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


@pytest.mark.bug(53)
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
    assert (first.log_start, first.log_end, first.event_times) == (0, 3, (MORNING, MORNING + 5))
    assert first.seconds == pytest.approx(2)
    assert (second.event_times, second.seconds, second.log_end) == (None, 0.0, 0)
    assert unit.counts.bytes_in == 2


def test_a_manifest_survives_its_json():
    task = two_topics(value_format="json")
    manifest = manifest_of(task.run())
    assert wire.decode("m", "manifest", Manifest, wire.encode("manifest", manifest)) == manifest
    assert manifests(task.context(), task.plan(), 0) == [manifest]


def test_counts_are_kept_per_partition_and_begin_at_zero():
    """Gobblin's tracker begins at -1 and shares the null count, ours does neither."""
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


@pytest.mark.bug(45)
def test_pipelines_in_one_process_do_not_share_fields():
    folders = []
    for field in ("a", "b"):
        task = Task()
        task.topic(value_format="json", partition_fields=[field])
        task.cluster.produce("events", 0, b'{"a": 1, "b": 2}', timestamp=MORNING)
        folders += task.data(task.unit())
    assert folders == ["events/a=1/2026/01/01/08", "events/b=2/2026/01/01/08"]


@pytest.mark.bug(26, 27)
def test_days_of_one_unit_have_files_of_different_names():
    task = Task()
    task.topic(granularity="daily")
    task.cluster.produce("events", 0, b"a", timestamp=MORNING)
    task.cluster.produce("events", 0, b"b", timestamp=MORNING + 24 * HOUR)
    paths = [entry.path for entry in task.unit().files]
    assert [path.rpartition("/")[0] for path in paths] == ["events/2026/01/01", "events/2026/01/02"]
    assert [path.split("+", 3)[3] for path in paths] == ["0+0+0+0.avro", "1+0+1+1.avro"]


@pytest.mark.bug(51)
def test_the_zone_holds_for_folder_and_key():
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
