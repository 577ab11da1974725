"""What `state doctor` finds, each fault planted once."""

from __future__ import annotations

from datetime import timedelta

from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.doctor import examine, undecided_below
from airflow_kafka_hdfs.ingest.examining import Severity
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Counts, Kind, PartitionChange
from tests.unit.ingest.scripted import RUNS, Job, key

A = key()
LATE = timedelta(seconds=-1)


def healthy(commits: int = 1) -> Job:
    job = Job()
    job.start(A)
    for low in range(0, 5 * commits, 5):
        plan = job.plan([(A, low, low + 5)])
        job.extract(plan)
        finish(job.ctx, plan, CommitPolicy())
    return job


def only(job: Job, **kwargs):
    (finding,) = examine(job.ctx, **kwargs)
    assert finding.meaning
    assert finding.mend
    return finding


def test_a_healthy_pipeline_gives_no_finding():
    assert examine(healthy(25).ctx) == []


def test_an_unreadable_record_is_the_only_finding_since_nothing_after_it_counts():
    job = healthy()
    path = job.ctx.log.paths.commit(1)
    job.store.delete(path)
    job.store.put_if_absent(path, b"torn")
    assert path in only(job).what


def test_a_record_above_a_hole_is_an_error():
    job = healthy(2)
    job.store.delete(job.ctx.log.paths.commit(1))
    texts = [finding.what for finding in examine(job.ctx) if finding.severity is Severity.ERROR]
    assert any("commits/0/2 stands above the head 0" in what for what in texts)


def test_a_checkpoint_that_differs_from_the_records_is_an_error():
    job = healthy(25)
    (number,) = job.ctx.log.checkpoints()
    path = job.ctx.log.paths.checkpoint(number)
    checkpoint = job.ctx.log.checkpoint_at(number)
    job.store.delete(path)
    wrong = checkpoint.partitions[0].coverage.changed(PartitionChange(key=A, covered=Ranges.span(900, 901)))
    body = wire.to_plain(checkpoint)
    body["partitions"][0]["coverage"] = wire.to_plain(wrong)
    forged = wire.from_plain(type(checkpoint), body)
    job.store.put_if_absent(path, wire.encode("checkpoint", forged))
    assert "differs from the sum of records" in only(job).what


def test_offsets_decided_twice_are_an_error():
    job = healthy()
    job.change(PartitionChange(key=A, covered=Ranges.span(3, 6), counts=Counts(gaps=3)), kind=Kind.FORWARD)
    assert "[3, 5)" in only(job).what


def test_a_file_that_was_deleted_is_a_warning_and_one_of_another_size_an_error():
    job = healthy(2)
    first, second = job.data_files()
    job.store.delete(first)
    assert only(job).severity is Severity.WARNING
    job.store.delete(second)
    job.store.put_if_absent(second, b"other")
    job.store.delete(second)
    job.store.put_if_absent(second, b"longer than it was")
    assert {finding.severity for finding in examine(job.ctx)} == {Severity.WARNING, Severity.ERROR}


def test_an_unpublished_commit_is_a_note():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    commit_plan(job.ctx, plan, CommitPolicy())
    finding = only(job)
    assert finding.severity is Severity.NOTE
    assert "state recover" in finding.mend


def test_a_file_of_ours_that_no_record_lists_is_an_error():
    job = healthy()
    (path,) = job.data_files()
    copy = path.rsplit("/", 1)[0] + "/events+20260101T000000Z-00000000+0+0.txt"
    job.store.put_if_absent(copy, b"xxxxx")
    assert "no record lists it" in only(job).what


def test_leftovers_of_dead_runs_are_notes():
    job = healthy()
    dead = Job(job.store, run="dead")
    dead.plan([(A, 5, 9)])
    orphan = f"{job.ctx.log.data_paths.staging('20200101T000000Z-00000000')}/0/a/file"
    job.store.put_if_absent(orphan, b"x")
    RUNS.alive["dead"] = False
    try:
        findings = examine(job.ctx, grace=LATE)
    finally:
        del RUNS.alive["dead"]
    assert {finding.severity for finding in findings} == {Severity.NOTE}
    assert len(findings) == 2


def test_holes_below_the_decided_end_are_named():
    job = Job()
    job.start(A)
    job.change(PartitionChange(key=A, covered=Ranges.of([(0, 3), (5, 9)])), kind=Kind.FORWARD)
    assert undecided_below(job.ctx.log.read().state) == {"events[0]": Ranges.span(3, 5)}
