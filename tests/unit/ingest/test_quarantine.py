"""A flood of bad records ends a unit at an exact position once no outcome of the run could save it; less never does."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.ingest import quarantine, taking
from airflow_kafka_hdfs.ingest.committing import BadRecordLimits, CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.quarantine import FLOOD, surely_over
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Outcome
from tests.unit.ingest.extracting import MORNING, Task, counts_of


@pytest.fixture
def small_flood(monkeypatch):
    for module in (quarantine, taking):
        monkeypatch.setattr(module, "FLOOD", 20)


def json_topic(bad: int, good: int, **changes) -> Task:
    task = Task()
    task.topic(value_format="json", **changes)
    task.cluster.produce("events", 0, *[b"{"] * bad, *[b"{}"] * good, timestamp=MORNING)
    return task


def staged_bad(unit) -> set[str]:
    """Where its bad records stand before any commit; exactly one file."""
    (entry,) = [entry for entry in unit.files if entry.quarantine]
    return {entry.staged}


@pytest.mark.bug(11, 28)
def test_below_a_flood_a_unit_is_read_to_its_end_and_commits_once_the_limit_is_raised():
    task = json_topic(bad=11, good=5, max_bad_records=10)
    plan = task.plan()
    unit = task.unit(plan)
    assert unit.outcome is Outcome.DONE
    assert counts_of(unit) == {"written": 5, "quarantined": 11}
    held = commit_plan(task.context(), plan, CommitPolicy(bad_records=BadRecordLimits(most=10)))
    assert [item.reason for item in held.record.held] == ["bad_records"]
    assert {path for path in task.store.files() if path in held.record.held[0].detail} == staged_bad(unit)
    done = commit_plan(task.context(), plan, CommitPolicy(bad_records=BadRecordLimits(most=11)))
    assert done.record.counts.quarantined == 11


@pytest.mark.usefixtures("small_flood")
def test_a_flood_over_the_number_ends_the_unit_behind_the_record_that_was_too_much():
    task = json_topic(bad=50, good=50, max_bad_records=25)
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "bad_records")
    assert counts_of(unit) == {"quarantined": 26}
    assert unit.partitions[0].covered == Ranges.span(0, 26)
    assert len(task.bad(unit)) == 26
    assert "max_bad_records is 25, the last at events[0]@25: not_json" in unit.detail
    assert {path for path in task.store.files() if path in unit.detail} == staged_bad(unit)


@pytest.mark.usefixtures("small_flood")
def test_a_share_ends_a_unit_only_if_the_rest_of_the_run_can_not_lower_it():
    task = json_topic(bad=1_100, good=900, max_bad_share=0.5)
    unit = task.unit()
    assert (unit.outcome, unit.reason) == (Outcome.FAILED, "bad_records")
    assert counts_of(unit) == {"quarantined": 1_001}
    task = json_topic(bad=1_000, good=1_000, max_bad_share=0.5)
    assert task.unit().outcome is Outcome.DONE


@pytest.mark.usefixtures("small_flood")
@pytest.mark.parametrize("share", [None, 1.0])
def test_without_limits_a_flood_is_only_kept(share):
    unit = json_topic(bad=60, good=0, max_bad_share=share).unit()
    assert (unit.outcome, counts_of(unit)) == (Outcome.DONE, {"quarantined": 60})


@pytest.mark.parametrize(
    ("bad", "read", "planned", "over"),
    [
        (FLOOD - 1, FLOOD, FLOOD, False),
        (FLOOD, FLOOD, 100 * FLOOD, False),
        (FLOOD, FLOOD, 100 * FLOOD - 1, True),
        (FLOOD, FLOOD, 10**9, False),
    ],
)
def test_a_share_counts_offsets_that_are_still_to_come(bad, read, planned, over):
    assert (surely_over(BadRecordLimits(share=0.01), bad, read, planned) is not None) is over


def test_details_that_are_no_text_are_kept_readable():
    def convert(record):
        raise ValueError("\ud800 " + "x" * 5_000)

    task = Task()
    task.topic(converters=[convert], max_bad_share=None)
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    (bad,) = task.bad(task.unit())
    assert bad["detail"].startswith("test_details")
    assert "\\ud800" in bad["detail"]
    assert len(bad["detail"]) <= 1_000
