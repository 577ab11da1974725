"""What a person changes at a pipeline, each change a commit with who and why."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.exceptions import ConfigError, CorruptStateError, PlanningError
from airflow_kafka_hdfs.ingest import steering, wire
from airflow_kafka_hdfs.ingest.committing import CommitPolicy
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.ownership import Owner, owner_of
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.model import TopicPartition
from tests.fakes.kafka import FakeCluster
from tests.fakes.runtime import SerialWorkers
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.scripted import Job, key

A = key()


def sources(cluster: FakeCluster) -> Sources:
    return Sources(catalog=cluster.catalog(), open_reader=cluster.reader, registry=None, codec=FastavroCodec())


def ingested() -> Job:
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    finish(job.ctx, plan, CommitPolicy())
    return job


def test_a_start_point_is_moved_by_a_commit_with_who_and_why():
    cluster = FakeCluster(cluster_id="c")
    cluster.create_topic("events")
    cluster.produce("events", 0, *[b"{}"] * 9)
    config = IngestConfig.of({"topics": ["events"], "destination": "file:///x", "pipeline_id": "p"})
    job = Job()
    drafting = steering.start_points(sources(cluster), config, {"events": "latest"})
    (told, line) = drafting(job.ctx.log.read().state).told
    assert "events to latest" in told
    assert "events[0]: new, starts at 9" in line
    commit = steering.carry_out(job.ctx, drafting, "tests begin late")
    assert (commit.kind, commit.why) == (Kind.RESET, "tests begin late")
    (current,) = job.ctx.log.read().state.current.values()
    assert job.ctx.log.read().state.coverage[current].watermark == 9


def test_one_partition_is_moved_to_an_offset_and_the_others_stay():
    cluster = FakeCluster(cluster_id="c")
    topic_id = cluster.create_topic("events", 2)
    cluster.produce("events", 0, *[b"{}"] * 9)
    config = IngestConfig.of({"topics": ["events"], "destination": "file:///x", "pipeline_id": "p"})
    job = Job()

    def to(offset, partition=0, topic="events"):
        return steering.start_offset(sources(cluster), config, TopicPartition(topic, partition), offset)

    with pytest.raises(PlanningError, match="has no start points yet"):
        steering.carry_out(job.ctx, to(7), "too early")
    same = dataclasses.replace(A, topic_id=topic_id)
    job.start(same)
    plan = job.plan([(same, 0, 5)])
    job.extract(plan)
    finish(job.ctx, plan, CommitPolicy())
    for drafting, text in (
        (to(10), "--to: got 10; allowed: an offset that the broker holds, 0 to 9"),
        (to(7, partition=2), "--partition: got 2"),
        (to(7, topic="evnets"), "did you mean 'events'"),
    ):
        with pytest.raises(ConfigError, match=text):
            steering.carry_out(job.ctx, drafting, "impossible")
    (told,) = to(7)(job.ctx.log.read().state).told
    assert told == "events[0]: watermark 5, starts at 7 (2 offsets skipped)"
    for offset, mark, rest in ((7, 7, (7, 9)), (6, 6, (6, 9)), (2, 5, (5, 9))):  # back it lifts what was skipped
        steering.carry_out(job.ctx, to(offset), "over a record that stops the topic")
        coverage = job.ctx.log.read().state.coverage[same]
        assert (coverage.watermark, coverage.undecided(0, 9)) == (mark, Ranges.span(*rest))
    assert set(job.ctx.log.read().state.current.values()) == {same}


def replaced(end=9, name="new"):
    cluster = FakeCluster(cluster_id=name)
    topic_id = cluster.create_topic("events")
    cluster.produce("events", 0, *[b"{}"] * end)
    return cluster, topic_id


def test_a_replaced_cluster_keeps_all_watermarks_under_the_present_topic_ids():
    job = ingested()
    cluster, topic_id = replaced()
    drafting = steering.cluster_id(sources(cluster), "new")
    (line,) = drafting(job.ctx.log.read().state).told
    assert f"its topic id was {A.topic_id} and is {topic_id}" in line
    commit = steering.carry_out(job.ctx, drafting, "moved")
    assert len(commit.changes) == 1
    state = job.ctx.log.read().state
    assert state.cluster_ids == {"new"}
    assert state.coverage[dataclasses.replace(A, cluster_id="new", topic_id=topic_id)].watermark == 5
    with pytest.raises(PlanningError, match="already"):
        steering.carry_out(job.ctx, drafting, "again")


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        (replaced(end=4)[0], r"events\[0\]: offsets up to 5 were decided, but its log ends at 4 now"),
        (replaced(name="third")[0], "answer with cluster id third, not new"),
        (FakeCluster(cluster_id="new"), "cluster new has none of the topics events"),
    ],
)
def test_a_cluster_that_does_not_hold_what_was_read_is_refused(cluster, text):
    job = ingested()
    with pytest.raises(PlanningError, match=text):
        steering.carry_out(job.ctx, steering.cluster_id(sources(cluster), "new"), "moved")
    assert job.ctx.log.read().state.cluster_ids == {A.cluster_id}


def owned_by(pipeline: str) -> bytes:
    return wire.encode("owner", Owner(topic="events", pipeline=pipeline))


def test_a_released_topic_loses_its_owner_file_only_after_the_commit():
    job = ingested()
    owner = job.ctx.log.data_paths.owner("events")
    job.store.put_if_absent(owner, owned_by(job.ctx.pipeline))
    steering.remove_owners(job.ctx, ("events",))
    assert owner in job.store.files()
    steering.carry_out(job.ctx, steering.release(("events",)), "handed over")
    steering.remove_owners(job.ctx, ("events",))
    assert owner not in job.store.files()
    job.store.put_if_absent(owner, owned_by(job.ctx.pipeline))  # somebody died before deleting it
    steering.carry_out(job.ctx, steering.release(("events",)), "twice")
    steering.remove_owners(job.ctx, ("events",))
    assert owner not in job.store.files()
    with pytest.raises(PlanningError, match="is not one of this pipeline"):
        steering.carry_out(job.ctx, steering.release(("clicks",)), "unknown")


def test_a_topic_released_once_more_stays_with_the_pipeline_that_has_it_now():
    job = ingested()
    for why in ("handed over", "by mistake"):
        steering.carry_out(job.ctx, steering.release(("events",)), why)
        steering.remove_owners(job.ctx, ("events",))
        job.store.put_if_absent(job.ctx.log.data_paths.owner("events"), owned_by("new"))
        assert owner_of(job.ctx, "events") == "new"
    steering.remove_owners(job.ctx, ("events",))
    assert owner_of(job.ctx, "events") == "new"


def test_a_released_topic_comes_back_by_an_import():
    cluster = FakeCluster(cluster_id="c")
    topic_id = cluster.create_topic("events")
    cluster.produce("events", 0, *[b"{}"] * 8)
    job, same = Job(), dataclasses.replace(A, topic_id=topic_id)
    job.start(same)
    plan = job.plan([(same, 0, 5)])
    job.extract(plan)
    finish(job.ctx, plan, CommitPolicy())
    steering.carry_out(job.ctx, steering.release(("events",)), "handed over")
    steering.carry_out(job.ctx, steering.offsets(sources(cluster), {"events": {0: 8}}), "back again")
    state = job.ctx.log.read().state
    assert state.released == set()
    assert state.coverage[same].start == 8


def test_a_change_that_became_another_one_while_somebody_looked_is_not_made():
    cluster = FakeCluster(cluster_id="c")
    cluster.create_topic("events")
    config = IngestConfig.of({"topics": ["events"], "destination": "file:///x", "pipeline_id": "p"})
    job = Job()
    drafting = steering.start_points(sources(cluster), config, {"events": "latest"})
    shown = drafting(job.ctx.log.read().state)
    cluster.produce("events", 0, b"{}")
    with pytest.raises(PlanningError, match="became another one"):
        steering.carry_out(job.ctx, drafting, "x", shown)
    assert job.ctx.log.read().head == -1


def test_offsets_of_another_tool_become_start_points():
    cluster = FakeCluster(cluster_id="c")
    cluster.create_topic("events", 3)
    cluster.produce("events", 0, *[b"{}"] * 120)
    cluster.produce("events", 1, *[b"{}"] * 99)
    job = Job()
    drafting = steering.offsets(sources(cluster), {"events": {0: 120, 1: 98}})
    assert drafting(job.ctx.log.read().state).told == (
        "events[0]: reading starts at offset 120",
        "events[1]: reading starts at offset 98",
        "events[2]: not named, reading starts at its oldest record",
    )
    steering.claim_topics(job.ctx, drafting(job.ctx.log.read().state))
    steering.carry_out(job.ctx, drafting, "from the old tool")
    state = job.ctx.log.read().state
    assert sorted(state.coverage[item].watermark for item in state.current.values()) == [98, 120]
    for wrong, text in [
        ({"events": {7: 1}}, "has partitions 0 to 2"),
        ({"nope": {0: 1}}, "topic nope: missing"),
        ({"events": {2: 1}}, r"events\[2\]: its log ends at 0, got 1.*another cluster"),
    ]:
        with pytest.raises(PlanningError, match=text):
            steering.carry_out(job.ctx, steering.offsets(sources(cluster), wrong), "x")


def test_an_import_never_moves_a_partition_that_has_a_watermark():
    job = ingested()
    cluster = FakeCluster(cluster_id="c")
    cluster.create_topic("events")
    known = cluster.catalog().describe(["events"])["events"].topic_id
    steering.carry_out(job.ctx, steering.cluster_id(sources(replaced(name="c2")[0]), "c2"), "other")
    cluster.cluster_id = "c"
    same = dataclasses.replace(A, topic_id=known)
    job.start(same)
    plan = job.plan([(same, 0, 3)])
    job.extract(plan)
    finish(job.ctx, plan, CommitPolicy())
    with pytest.raises(PlanningError, match="watermark of 3 already"):
        steering.carry_out(job.ctx, steering.offsets(sources(cluster), {"events": {0: 9}}), "x")


def elsewhere(job: Job, state: InMemoryStore) -> Context:
    log = CommitLog(state, job.store, SerialWorkers(), "p", copies=True)
    return dataclasses.replace(job.ctx, log=log)


def test_a_lost_state_folder_is_rebuilt_from_the_copies_beside_the_data():
    job, first = Job(), InMemoryStore()
    job.ctx = elsewhere(job, first)
    for _ in range(3):
        job.change()
    ctx = elsewhere(job, InMemoryStore())
    assert steering.rebuild(ctx) == 3
    assert ctx.log.read().state == job.ctx.log.read().state
    with pytest.raises(CorruptStateError, match="no copy of this record"):
        steering.rebuild(ctx)


def test_a_copy_that_a_dead_run_did_not_make_is_made_by_the_next_one():
    job = Job()
    job.ctx = elsewhere(job, InMemoryStore())
    job.change()
    job.change()
    missing = job.ctx.log.data_paths.log_copy(0)
    job.store.delete(missing)
    job.store.delete(job.ctx.log.data_paths.log_copy(1))
    job.change()
    assert missing in job.store.files()
    assert steering.rebuild(elsewhere(job, InMemoryStore())) == 3


def test_a_hole_among_the_copies_is_named_instead_of_shortening_the_log():
    job = Job()
    job.ctx = elsewhere(job, InMemoryStore())
    for _ in range(3):
        job.change()
    job.store.delete(job.ctx.log.data_paths.log_copy(1))
    with pytest.raises(CorruptStateError, match="copies up to 2"):
        steering.rebuild(elsewhere(job, InMemoryStore()))
