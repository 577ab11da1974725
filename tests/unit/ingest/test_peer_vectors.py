"""Small cases that other tools for this job are tested with, where no other test here shows what ours does."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.exceptions import ConfigError, CorruptStateError
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.layout import FileName
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Outcome
from airflow_kafka_hdfs.ingest.timepath import TimePath, load_zone, parse_pattern
from airflow_kafka_hdfs.ingest.writer_schemas import schema_key
from tests.unit.ingest.extracting import HOUR, MORNING, Task, counts_of, one_topic, written
from tests.unit.ingest.piping import ranges
from tests.unit.ingest.scripted import Job, key

PLAN = "20260101T000000Z-0123abcd"


# times and folders


@pytest.mark.parametrize(
    ("granularity", "template", "path"),
    [
        ("hourly", "{topic}/hourly/{time}", "events/hourly/2014/02/01/11"),
        ("daily", "{topic}/daily/{time}", "events/daily/2014/02/01"),
        ("daily", "{topic}/{time}", "events/2014/02/01"),
    ],
)
def test_the_word_for_the_granularity_stands_in_a_path_only_if_the_template_has_it(granularity, template, path):
    task = Task()
    task.topic(granularity=granularity, path_template=template)
    task.cluster.produce("events", 0, b"x", timestamp=1391252400000)
    assert list(task.data(task.unit())) == [path]


def test_an_hour_begins_at_the_same_moment_in_every_zone_of_whole_hours():
    for zone in ("America/Los_Angeles", "UTC", "Europe/Amsterdam"):
        hours = TimePath(parse_pattern("yyyy/MM/dd/HH"), load_zone(zone))
        assert hours.folder(1400549463000).start.timestamp() * 1000 == 1400547600000
        assert hours.folder(1400549463000).key == "2014-05-20T01:00:00"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"path_pattern": ""}, "path_pattern"),
        ({"path_pattern": "/"}, "path_pattern"),
        ({"path_pattern": "year=YYYY/month=MM"}, "path_pattern"),
        ({"timezone": ""}, "timezone"),
        ({"timezone": "Mars/X"}, "timezone"),
        ({"granularity": -1}, "granularity"),
        ({"granularity": "2 hours"}, "granularity"),
    ],
)
def test_what_can_not_make_a_folder_is_refused_before_anything_is_read(arguments, name):
    with pytest.raises(ConfigError) as caught:
        IngestConfig.of({"topics": ["events"], "destination": "file:///data", "pipeline_id": "p", **arguments})
    assert caught.value.key == name


@pytest.mark.parametrize("on_bad_time", ["quarantine", "kafka_time"])
def test_the_extremes_of_64_bits_as_times_are_bad_times_and_nothing_breaks(on_bad_time):
    extremes = [json.dumps({"t": str(millis)}).encode() for millis in (-(2**63), 2**63 - 1, -1, 0)]
    task = one_topic(*extremes, value_format="json", file_format="jsonl", time_field="t", on_bad_time=on_bad_time)
    if on_bad_time == "kafka_time":
        assert written(task) == [json.loads(text) for text in extremes]
        return
    unit = task.unit()
    assert unit.outcome is Outcome.DONE
    assert [(bad["reason"], bad["value"]) for bad in task.bad(unit)] == [("bad_time", text) for text in extremes]


def test_a_key_that_is_null_and_one_that_spells_null_are_told_apart():
    task = Task()
    task.topic(include_key=True)
    for name in (None, b"null", b""):
        task.cluster.produce("events", 0, b"x", key=name, timestamp=MORNING)
    assert [record["_kafka_key"] for record in written(task)] == [None, b"null", b""]


# when files end, and what is committed


def test_a_day_that_is_not_over_has_its_file_at_the_end_of_the_run():
    """Where only a later record ends a file, the last ones of a quiet topic stay unseen."""
    task = Task()
    task.topic(granularity="daily")
    for hour in range(4):
        task.cluster.produce("events", 0, b"x", timestamp=MORNING + hour * HOUR)
    (entry,) = task.unit().files
    assert (entry.records, entry.offsets) == (4, {0: (0, 3, 4)})


def test_each_run_commits_all_it_read_and_not_full_files_alone(world):
    """Others hold back what fills no file."""
    world.arguments["max_file_records"] = 3
    world.run("run-1").whole()
    for number, (values, span) in enumerate([((4, 5), (3, 5)), ((6,), (5, 6))], 2):
        world.produce("events", 0, *values)
        planned, verdict = world.run(f"run-{number}").whole()
        assert verdict.is_green
        assert ranges(planned) == {"events[0]": Ranges.span(*span)}
    assert world.run("run-4").plan().plan.is_empty
    assert world.values() == Counter([1, 2, 3, 4, 5, 6, 11, 12])


def test_null_values_at_the_end_are_passed_though_no_file_holds_them():
    task = one_topic(b"a", None, b"b", None, None, on_null="skip", max_file_records=1)
    unit = task.unit()
    assert counts_of(unit) == {"written": 2, "filtered": 3, "null_values": 3}
    assert unit.partitions[0].covered == Ranges.span(0, 5)
    assert [entry.offsets for entry in unit.files] == [{0: (0, 0, 1)}, {0: (2, 2, 1)}]


def test_a_file_of_the_end_of_one_partition_and_the_start_of_another_names_no_offsets():
    """Others begin a new file for the other partition."""
    task = Task(per_poll=5)
    task.topic(partitions=2, max_file_records=2)
    task.cluster.produce("events", 0, *[b"x"] * 5, timestamp=MORNING)
    task.cluster.produce("events", 1, *[b"y"] * 13, timestamp=MORNING)
    files = task.unit(task.plan(("events", 0, 0, 5), ("events", 1, 10, 13))).files
    assert [sum(count for _, _, count in entry.offsets.values()) for entry in files] == [2, 2, 2, 2]
    names = [FileName.parse(entry.path.rpartition("/")[2]) for entry in files]
    both = [name.offsets for name, entry in zip(names, files, strict=True) if len(entry.offsets) == 2]
    assert both == [None]
    assert sum(name.offsets is None for name in names) == 1


def test_nothing_of_an_attempt_counts_without_its_commit_record(world):
    planned = world.run("run-1").plan()
    world.run("run-1").extract(planned.plan, 0)
    assert [path for path in world.store.files() if "/staging/" in path]
    assert world.values() == Counter()
    world.runs.alive["run-1"] = False
    again, verdict = world.run("run-2").whole()
    assert verdict.is_green
    assert again.plan.ranges() == planned.plan.ranges()
    assert world.values() == Counter([1, 2, 3, 11, 12])


@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\x01", b"nonsense"])
def test_a_commit_record_without_sense_stops_everything_where_others_start_anew(tmp_path, content):
    job = Job(LocalStore(tmp_path))
    job.start(key())
    path = job.ctx.log.paths.commit(0)
    (tmp_path / path).chmod(0o644)
    (tmp_path / path).write_bytes(content)
    with pytest.raises(CorruptStateError, match=path):
        job.ctx.log.unread().read()


def test_a_name_that_tells_of_greater_offsets_does_not_move_where_reading_goes_on(world):
    """Others go on behind the greatest offset that they find in a name."""
    world.run("run-1").whole()
    path = next(path for path in world.store.files() if path.startswith("events/"))
    later = FileName(topic="events", plan=PLAN, task=0, index=0, extension=".jsonl", offsets=(0, 0, 99))
    world.store.put_if_absent(f"{path.rpartition('/')[0]}/{later}", b"7\n")
    world.produce("events", 0, 4)
    assert ranges(world.run("run-2").plan()) == {"events[0]": Ranges.span(3, 4)}


# names


@pytest.mark.parametrize(
    ("name", "topic", "offsets"),
    [
        (f"t+{PLAN}+0+0+1+2+3.abc", "t", (1, 2, 3)),
        (f"name.space.t+{PLAN}+0+0+1+55+67.def", "name.space.t", (1, 55, 67)),
        (f"t+{PLAN}+0+0+234+56+78", "t", (234, 56, 78)),
        (f"t+{PLAN}+0+0+1+0123132133+0213314343.avro", "t", (1, 123132133, 213314343)),
    ],
)
def test_topic_and_offsets_are_read_from_a_name(name, topic, offsets):
    parsed = FileName.parse(name)
    assert parsed is not None
    assert (parsed.topic, parsed.offsets) == (topic, offsets)


@pytest.mark.parametrize("rest", ["234+56+78.", "234+56", "234+56+", "a+56+78.avro"])
def test_a_name_that_ends_too_early_is_not_ours(rest):
    assert FileName.parse(f"t+{PLAN}+0+0+{rest}") is None


def test_offsets_in_names_have_no_leading_zeros():
    """Nothing reads the order of offsets from the order of names."""
    assert str(FileName(topic="t", plan=PLAN, task=0, index=0, extension=".avro", offsets=(1, 9, 10))) == (
        f"t+{PLAN}+0+0+1+9+10.avro"
    )


# schemas


@pytest.mark.parametrize(
    "within",
    [
        lambda enum: enum,
        lambda enum: {"type": "record", "name": "S", "fields": [{"name": "e", "type": enum}]},
        lambda enum: {"type": "array", "items": enum},
        lambda enum: {"type": "map", "values": enum},
        lambda enum: ["null", enum],
    ],
    ids=["itself", "record", "array", "map", "union"],
)
def test_a_symbol_more_or_less_in_an_enum_is_another_file(within):
    """Others go on with the file where a symbol is gone; ours never asks which schema is wider."""

    def key_of(*symbols: str) -> str:
        field = {"name": "f", "type": within({"type": "enum", "name": "E", "symbols": symbols})}
        return schema_key({"type": "record", "name": "R", "fields": [field]})

    assert len({key_of("A", "B"), key_of("A", "B", "C"), key_of("A")}) == 3
