"""What a run tells of its work: metrics of commits, losses and incidents, and progress in the task state store."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_kafka_hdfs.ingest.committing import CommitPolicy
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.incidents import Incident, IncidentKind
from airflow_kafka_hdfs.ingest.planning import Planned
from airflow_kafka_hdfs.ingest.plans import PlanEntry
from airflow_kafka_hdfs.ingest.publishing import announce
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.operators import reporting
from tests.fakes.runtime import KnownRuns
from tests.unit.ingest.scripted import Job, key

EVENTS, OTHER = key("events"), key("other")


class TestMetrics:
    @pytest.fixture
    def told(self, monkeypatch) -> list[tuple[str, float, tuple]]:
        found: list[tuple[str, float, tuple]] = []

        def note(name: str, value: float, *, tags: dict[str, str]) -> None:
            found.append((name, value, tuple(sorted(tags.values()))))

        for kind in ("incr", "gauge", "timing"):
            monkeypatch.setattr(reporting.stats, kind, note)
        return found

    def test_a_commit_is_told_with_its_topics(self, told):
        job = Job()
        job.start(EVENTS, OTHER)
        entries = tuple(
            PlanEntry(key=k, reason="resumed", previous=0, ranges=Ranges.span(0, 10), log_start=0, log_end=12)
            for k in (EVENTS, OTHER)
        )
        plan = job.plan([(EVENTS, 0, 10), (OTHER, 0, 10)], entries=entries)
        job.extract(plan, bad=2, only="events")
        done = finish(job.ctx, plan, CommitPolicy())
        reporting.report_publish(plan, done, 0.5)
        assert ("kafka_hdfs.records", 8, ("events", "p")) in told
        assert ("kafka_hdfs.bad", 2, ("events", "p")) in told
        assert ("kafka_hdfs.lag", 2, ("events", "p")) in told
        assert ("kafka_hdfs.lag", 12, ("other", "p")) in told
        assert ("kafka_hdfs.held", 1, ("other", "p")) in told
        assert ("kafka_hdfs.publish_duration", 500.0, ("p",)) in told

    def test_a_commit_of_an_attempt_that_died_is_told_by_the_next_one(self, told):
        job = Job()
        job.start(EVENTS)
        plan = job.plan([(EVENTS, 0, 10)])
        job.extract(plan)
        first = finish(job.ctx, plan, CommitPolicy())
        again = finish(job.ctx, plan, CommitPolicy())  # the first attempt died before it could tell of anything
        reporting.report_publish(plan, again, 0.5)
        assert ("kafka_hdfs.records", 10, ("events", "p")) in told
        assert again.record is None
        assert again.own == again.recovered == (first.record,)

        announce(job.ctx, [first.record.number])
        told.clear()
        cleared = finish(job.ctx, plan, CommitPolicy())  # people cleared `publish`; all was told before
        reporting.report_publish(plan, cleared, 0.5)
        assert "kafka_hdfs.records" not in {name for name, _, _ in told}
        assert (cleared.own, cleared.recovered) == ((first.record,), ())

    @pytest.mark.parametrize(("alive", "tells"), [(False, True), (True, False), (None, False)])
    def test_a_commit_of_another_run_is_told_once_that_run_is_gone(self, told, alive, tells):
        other = Job(run="run-2")
        other.start(EVENTS)
        theirs = other.plan([(EVENTS, 0, 7)])
        other.extract(theirs)
        finish(other.ctx, theirs, CommitPolicy())
        runs = KnownRuns(alive={} if alive is None else {"run-2": alive})
        mine = dataclasses.replace(Job(other.store, run="run-3").ctx, run_states=runs)
        plan = Job(other.store, run="run-3").plan()
        reporting.report_publish(plan, finish(mine, plan, CommitPolicy()), 0.5)
        assert (("kafka_hdfs.records", 7, ("events", "p")) in told) is tells

    def test_a_range_that_may_have_lost_its_beginning_is_no_certain_loss(self, told):
        job = Job()
        entries = tuple(
            PlanEntry(key=k, reason=reason, previous=None, ranges=Ranges(), log_start=9, log_end=9, lost=9)
            for k, reason in ((EVENTS, "interval_begins_gone"), (OTHER, "interval"))
        )
        reporting.report_plan(Planned(plan=job.plan(entries=entries)), 0.5)
        assert [found for found in told if found[2] != ("p",)] == [("kafka_hdfs.begins_gone", 1, ("events", "p"))]

    def test_what_happened_behind_our_back_is_counted_once(self, told):
        plan = Job().plan()
        happened = tuple(
            Incident(kind=kind, key=k, offsets=offsets)
            for kind, k, offsets in (
                (IncidentKind.TRUNCATED, EVENTS, 0),
                (IncidentKind.TOPIC_RECREATED, OTHER, 0),
                (IncidentKind.TOPIC_RECREATED, key("other", 1), 0),
                (IncidentKind.LOST, EVENTS, 7),
            )
        )
        planned = Planned(plan=plan, incidents=happened, skipped={"events": 3, "other": 0})
        reporting.report_plan(dataclasses.replace(planned, reused=True), 0.5)
        reporting.report_plan(planned, 0.5)
        assert [found for found in told if found[2] != ("p",)] == [
            ("kafka_hdfs.lost", 7, ("events", "p")),
            ("kafka_hdfs.skipped", 3, ("events", "p")),
            ("kafka_hdfs.topic_recreated", 2, ("other", "p")),
            ("kafka_hdfs.truncated", 1, ("events", "p")),
        ]
        assert {name for name, _, _ in told} <= set(reporting.METRICS)

    def test_every_metric_that_is_told_stands_in_the_table(self, told):
        self.test_a_commit_is_told_with_its_topics(told)
        assert {name for name, _, _ in told} <= set(reporting.METRICS)

    def test_what_user_code_counts_is_told_too(self, told):
        reporting._report_user(
            "p",
            {
                "bots": {"kind": "counter", "count": 3},
                "size of it": {"kind": "histogram", "count": 2, "total": 10.0, "min": 4.0, "max": 6.0},
            },
        )
        assert told == [
            ("kafka_hdfs.user.bots", 3, ("p",)),
            ("kafka_hdfs.user.size_of_it.count", 2, ("p",)),
            ("kafka_hdfs.user.size_of_it.mean", 5.0, ("p",)),
            ("kafka_hdfs.user.size_of_it.min", 4.0, ("p",)),
            ("kafka_hdfs.user.size_of_it.max", 6.0, ("p",)),
        ]


def test_progress_that_can_not_be_written_stops_nothing():
    class Refusing:
        def set(self, key: str, value: Any) -> None:
            raise ConnectionError("away")

    reporting.TaskStateProgress(Refusing(), "plan", 0).report({"records": 1})
    reporting.TaskStateProgress(None, "plan", 0).report({"records": 1})
