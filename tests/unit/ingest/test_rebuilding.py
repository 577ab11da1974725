"""A lost log is brought back from the data files alone, and the doctor looks into them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections import Counter

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.parquet import read_footer
from airflow_kafka_hdfs.exceptions import CorruptStateError, PlanningError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.examining import Looking, Severity
from airflow_kafka_hdfs.ingest.file_facts import measure, read_facts
from airflow_kafka_hdfs.ingest.ownership import claim, owners_of
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.rebuilding import carry_out_rebuild, draft_rebuild
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.settings import Limits
from airflow_kafka_hdfs.model import FileStatus
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.piping import World, records

FORMATS = pytest.mark.parametrize("file_format", ["avro", "parquet"])
RECORDS_OF_THE_LOG = ("commits", "published", "announced", "checkpoints", "plans", "units")


def ingested(file_format: str = "avro", partitions: int = 1, runs: int = 2) -> World:
    world = World(arguments={"file_format": file_format})
    world.cluster.create_topic("events", partitions)
    for run in range(runs):
        for partition in range(partitions):
            first = 100 * partition + 5 * run
            world.produce("events", partition, *range(first, first + 5))
        assert world.run(f"run-{run}").whole()[1].is_green
    return world


def values(world: World) -> Counter[int]:
    """Every number in the visible files, with how often it stands there."""
    found: Counter[int] = Counter()
    for path, content in world.store.files().items():
        if path.startswith("events/"):
            source = io.BytesIO(content)
            rows = pq.read_table(source).to_pylist() if path.endswith(".parquet") else fastavro.reader(source)
            found.update(int(row["value"]) for row in rows)
    return found


def lose_the_log(world: World) -> None:
    for folder in RECORDS_OF_THE_LOG:
        world.store.delete(folder, recursive=True)


def rebuilt(world: World):
    ctx = world.run("command").context()
    draft = draft_rebuild(ctx, read_footer)
    return draft, carry_out_rebuild(ctx, draft, read_footer, "the folder is lost")


def healthy(world: World) -> None:
    for look in Looking:
        assert examine(world.run("doctor").context(), look=look, footers=read_footer) == []


@FORMATS
def test_the_next_run_goes_on_where_the_files_end(file_format):
    world = ingested(file_format)
    before = records(world)[-1]
    lose_the_log(world)
    draft, commit = rebuilt(world)
    assert (draft.assumed, draft.left_out) == ((), ())
    assert draft.told == ("2 files come into the log", "events[0]: [0, 10) covered, starts at 0")
    assert (commit.kind, commit.why, commit.who) == (Kind.REBUILD, "the folder is lost", "tester")
    assert {entry.path for entry in commit.files} >= {entry.path for entry in before.files}
    healthy(world)
    world.produce("events", 0, 10, 11)
    assert world.run("next").whole()[1].is_green
    assert values(world) == dict.fromkeys(range(12), 1)
    healthy(world)


def test_topics_that_were_handed_over_are_left_to_their_owner_and_the_others_are_owned_again():
    world = ingested()
    world.cluster.create_topic("clicks")
    world.produce("clicks", 0, 7)
    assert world.run("run-9", topics=["events", "clicks"]).whole()[1].is_green
    lose_the_log(world)
    world.store.delete(".kafka_hdfs/_owners", recursive=True)
    claim(world.run("x", pipeline_id="other").context(), ["events"])
    draft, commit = rebuilt(world)
    assert {change.key.topic for change in commit.changes} == {"clicks"}
    assert [line.partition(": ")[2] for line in draft.left_out] == ["topic events is owned by pipeline other"] * 2
    assert owners_of(world.run("y").context(), ["events", "clicks"]) == {"events": "other", "clicks": "p"}


@pytest.mark.parametrize("topic", ["_events", "." + "e" * 200])
def test_the_doctor_knows_files_of_topics_whose_names_are_written_in_another_way(topic):
    world = World(arguments={"topics": [topic]})
    world.cluster.create_topic(topic)
    world.produce(topic, 0, 1, 2)
    assert world.run().whole()[1].is_green
    assert examine(world.run("doctor").context()) == []
    assert [f.severity for f in examine(world.run("x", pipeline_id="typo").context())] == [Severity.NOTE]
    (path,) = [path for path in world.store.files() if path.endswith(".jsonl")]
    world.store.put_if_absent(path.replace("+0+0+", "+0+7+"), b"1\n")
    (finding,) = examine(world.run("doctor").context())
    assert "no record lists it" in finding.what


def test_the_doctor_calls_no_log_healthy_that_was_lost_or_restored_from_an_old_copy():
    world = ingested()
    world.cluster.create_topic("clicks")
    world.produce("clicks", 0, 7)
    head = records(world)[-1].number
    assert world.run("run-9", topics=["events", "clicks"]).whole()[1].is_green
    (note,) = examine(world.run("x", pipeline_id="typo").context())
    assert (note.severity, note.what.endswith("has no record")) == (Severity.NOTE, True)
    assert "the data are of p" in note.meaning
    for number in range(head + 1, records(world)[-1].number + 1):
        world.store.delete(f"commits/0/{number}")
    found = [finding.what for finding in examine(world.run("doctor").context()) if finding.severity is Severity.ERROR]
    assert [what.partition("/")[0] for what in found] == ["clicks"]
    lose_the_log(world)
    for _ in range(2):
        (finding,) = examine(world.run("doctor").context())
        assert finding.severity is Severity.ERROR
        assert "has no record, but clicks/" in finding.what
        world.store.delete(".kafka_hdfs", recursive=True)  # and the owners with it


def test_what_a_limit_left_is_read_and_nothing_twice():
    world = ingested(runs=1)
    world.produce("events", 0, *range(5, 15))
    run = world.run("limited")
    plan = run.plan().plan
    run.extract(plan, 0, ReadOptions(limits=Limits(records=4)))
    run.finish(plan)
    lose_the_log(world)
    draft, _ = rebuilt(world)
    assert draft.told[-1] == "events[0]: [0, 9) covered, starts at 0"
    assert world.run("next").whole()[1].is_green
    assert values(world) == dict.fromkeys(range(15), 1)


def test_holes_between_files_are_said_to_be_read_and_are_read():
    world = ingested(runs=3)
    world.store.delete(next(path for path in world.store.files() if "+0+5+9." in path))
    lose_the_log(world)
    draft, _ = rebuilt(world)
    assert draft.told[1:] == (
        "events[0]: [0, 5), [10, 15) covered, starts at 0",
        "events[0]: [5, 10) in between are read by the next run, whatever had been skipped there",
    )
    assert world.run("next").whole()[1].is_green
    assert values(world) == dict.fromkeys(range(15), 1)


def test_of_files_of_several_partitions_the_ends_are_assumed_and_said_so():
    world = ingested(partitions=3, runs=1)
    lose_the_log(world)
    draft, _ = rebuilt(world)
    assert [line.split(": a file")[0] for line in draft.assumed] == [f"events[{p}]: [0, 5)" for p in range(3)]
    assert world.run("next").whole()[1].is_green
    assert sorted(values(world)) == [*range(5), *range(100, 105), *range(200, 205)]
    assert set(values(world).values()) == {1}


def test_a_record_that_is_lost_at_the_end_of_the_log_is_made_anew_and_copies_of_files_are_left_out():
    world = ingested()
    last = records(world)[-1]
    for folder in ("commits", "published", "announced"):
        world.store.delete(f"{folder}/0/{last.number}")
    known = next(entry for commit in records(world) for entry in commit.files)
    copy = known.path.replace("events/", "events/copied/")
    world.store.put_if_absent(copy, world.store.get(known.path))
    draft, commit = rebuilt(world)
    assert [line.split(": ")[0] for line in draft.left_out] == [copy]
    assert [entry.path for entry in commit.files] == [entry.path for entry in last.files]
    assert commit.changes[0].start is None
    world.store.delete(copy)
    healthy(world)


def test_files_that_tell_nothing_and_renamed_ones_are_named():
    world = ingested("jsonl")
    lose_the_log(world)
    with pytest.raises(PlanningError, match=r"left out: events/.*tell nothing of themselves; `state import --folder`"):
        draft_rebuild(world.run("command").context(), read_footer)
    world = ingested()
    lose_the_log(world)
    path = next(path for path in world.store.files() if path.startswith("events/"))
    folder = path.rpartition("/")[0]
    world.store.put_if_absent(f"{folder}/events+20260101T000000Z-00000000+7+7.avro", b"Obj")
    world.store.put_if_absent(f"{folder}/events+20260101T000000Z-00000000+0+0.avro", world.store.get(path))
    draft, _ = rebuilt(world)
    assert [line.partition(".avro: ")[2][:30] for line in draft.left_out] == [
        "its name and its header tell o",
        f"{folder}/events+20260101T000000Z"[:30],
    ]


def test_what_changed_while_somebody_looked_is_not_made():
    world = ingested()
    lose_the_log(world)
    ctx = world.run("command").context()
    draft = draft_rebuild(ctx, read_footer)
    world.store.delete(draft.files[0].path)
    with pytest.raises(PlanningError, match="while you looked"):
        carry_out_rebuild(ctx, draft, read_footer, "x")
    assert ctx.log.read().head == -1


# the doctor's look into files


@FORMATS
def test_a_file_in_the_place_of_another_one_is_found_by_its_header(file_format):
    world = World(arguments={"file_format": file_format, "codec": "null"})
    world.cluster.create_topic("events")
    for run, numbers in enumerate([range(10), range(10, 15), range(20, 25)]):
        world.produce("events", 0, *numbers)
        world.run(f"run-{run}").whole()
    # Two files of one size, whose plans are [10, 15) and [15, 20).
    (first, one), (second, other) = sorted(
        (path, content) for path, content in world.store.files().items() if "+0+10+14." in path or "+0+15+19." in path
    )
    assert len(one) == len(other)
    for path, content in ((first, other), (second, one)):
        world.store.delete(path)
        world.store.put_if_absent(path, content)
    assert examine(world.run("doctor").context()) == []
    found = examine(world.run("doctor").context(), look=Looking.HEADERS, footers=read_footer)
    assert {finding.severity for finding in found} == {Severity.ERROR}
    assert sum("plan: the file has" in finding.what for finding in found) == 2
    assert sum("offsets 10 to 14 are recorded, its header plans [15, 20)" in finding.what for finding in found) == 1


def test_a_flipped_byte_and_a_wrong_count_are_found_by_reading_all():
    world = ingested(runs=1)
    path, content = next((p, c) for p, c in world.store.files().items() if p.startswith("events/"))
    bad = bytearray(content)
    bad[-20] ^= 1
    world.store.delete(path)
    world.store.put_if_absent(path, bytes(bad))
    look = {"look": Looking.WHOLE, "footers": read_footer}
    assert [f.what.split(": ")[1] for f in examine(world.run("doctor").context(), **look)] == ["digest"]
    commit = records(world)[-1]
    (entry,) = commit.files
    wrong = dataclasses.replace(commit, files=(dataclasses.replace(entry, records_out=6, digest=""),))
    world.store.delete(f"commits/0/{commit.number}")
    world.store.put_if_absent(f"commits/0/{commit.number}", wire.encode("commit", wrong))
    assert [f.what.split(": ", 1)[1] for f in examine(world.run("doctor").context(), **look)] == [
        "rows: the file has 5, the record 6"
    ]


PRISTINE = {kind: ingested(kind, runs=1) for kind in ("avro", "parquet")}


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(PRISTINE)))
def test_a_damaged_file_is_named_and_nothing_else_is_raised(data, kind):
    path, good = next((p, c) for p, c in PRISTINE[kind].store.files().items() if p.startswith("events/"))
    cut = data.draw(st.integers(1, len(good) - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=8))
    bad = good[:cut] + garbage + good[cut + len(garbage) :] if data.draw(st.booleans()) else good[:cut]
    store = InMemoryStore()
    store.put_if_absent(path, bad)
    file = FileStatus(path=path, size=len(bad))
    for look in (lambda: read_facts(store, file, read_footer), lambda: measure(store, file)):
        with contextlib.suppress(CorruptStateError):
            look()
