"""A plan that commits more than once: what its later records count, say and take out of place."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.ingest.committing import BadRecordLimits, CommitPolicy
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.records import Kind, Outcome, Superseded
from tests.unit.ingest.scripted import Job, key

A, B, OTHER = key(), key(partition=1), key("clicks")


@pytest.mark.parametrize(
    ("limits", "bad", "held"),
    [
        (BadRecordLimits(most=3, share=None), (2, 2), True),
        (BadRecordLimits(share=0.5, share_from=10), (1, 6), False),
    ],
)
def test_the_limits_count_what_earlier_commits_of_the_run_took(limits, bad, held):
    job, policy = Job(), CommitPolicy(publish="successful", bad_records=limits)
    job.start(A, B)
    plan = job.plan([(A, 0, 10)], [(B, 0, 10)])
    job.extract(plan, 0, bad=bad[0])
    finish(job.ctx, plan, policy)
    job.extract(plan, 1, bad=bad[1])
    finish(job.ctx, plan, policy)
    assert ("bad records of 20 read" in "\n".join(judge(job.ctx, plan).faults)) is held


def test_the_gate_names_why_a_topic_is_held_now_and_not_why_it_was():
    job, policy = Job(), CommitPolicy(bad_records=BadRecordLimits(most=1))
    job.start(A, OTHER)
    plan = job.plan([(A, 0, 5)], [(OTHER, 0, 4)])
    job.extract(plan, 1)
    assert [item.reason for item in finish(job.ctx, plan, policy).record.held] == ["unit_failed"]
    job.extract(plan, 0, bad=2)
    assert [item.reason for item in finish(job.ctx, plan, policy).record.held] == ["bad_records"]
    told = "\n".join(judge(job.ctx, plan).faults)
    assert "2 bad records of 5 read" in told
    assert "left no manifest" not in told
    assert finish(job.ctx, plan, policy).record is None  # there is nothing new to say


@pytest.mark.parametrize("policy", ["full", "successful", "partial"])
def test_publishing_a_settled_plan_again_says_nothing_new(policy):
    job = Job()
    job.start(A, OTHER)
    plan = job.plan([(A, 0, 5)], [(OTHER, 0, 4)])
    job.extract(plan, 0, reach=2, outcome=Outcome.FAILED, reason="no_schema")
    job.extract(plan, 1)
    head = finish(job.ctx, plan, CommitPolicy(publish=policy)).view.head
    assert finish(job.ctx, plan, CommitPolicy(publish=policy)).view.head == head


def test_what_a_replace_took_out_of_place_is_told_once():
    job = Job()
    job.start(A, OTHER)
    plan = job.plan([(A, 0, 5), (OTHER, 0, 4)])
    files = {unit.topic: unit.files[0] for unit in job.extract(plan).units}
    finish(job.ctx, plan, CommitPolicy())
    replaces = tuple(Superseded(path=f.path, topic=topic, size=f.size, commit=1) for topic, f in files.items())
    again = job.plan([(A, 0, 5), (OTHER, 0, 4)], kind=Kind.REPLACE, request="once", replaces=replaces)
    job.extract(again, only="events")
    first = finish(job.ctx, again, CommitPolicy()).record
    assert [item.topic for item in first.superseded] == ["events"]
    job.extract(again, only="clicks", k=1)
    second = finish(job.ctx, again, CommitPolicy()).record
    assert [item.topic for item in second.superseded] == second.datasets == ["clicks"]
    assert second.request == "once"
    assert (job.visible("events"), job.visible("clicks")) == (5, 4)
