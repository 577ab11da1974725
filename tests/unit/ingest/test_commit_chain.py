"""The commit loop, publishing and the gate on plans made by hand."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_kafka_hdfs.exceptions import CorruptStateError, PlanEndedError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import BadRecordLimits, CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.finishing import finish, owed_events
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, standing
from airflow_kafka_hdfs.ingest.publishing import announce
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Counts, Held, Kind, Outcome, PartitionChange, Superseded
from tests.unit.ingest.scripted import Job, key

FULL, SUCCESSFUL, PARTIAL = (CommitPolicy(publish=name) for name in ("full", "successful", "partial"))
A, B, OTHER = key(), key(partition=1), key("clicks")


def watermarks(job: Job) -> dict[str, int]:
    state = job.ctx.log.read().state
    return {str(item): state.coverage[item].watermark for item in state.current.values()}


@pytest.mark.bug(36)
def test_a_run_commits_publishes_and_is_green():
    job = Job()
    job.start(A, B)
    plan = job.plan([(A, 0, 5), (B, 0, 3)])
    job.extract(plan)
    done = finish(job.ctx, plan, FULL)
    assert done.record.number == 1
    assert done.record.counts.written == 8
    assert watermarks(job) == {"events[0]": 5, "events[1]": 3}
    assert job.visible() == 8
    assert [commit.number for commit in done.to_announce] == [1]
    assert judge(job.ctx, plan).is_green
    announce(job.ctx, [1])
    assert owed_events(job.ctx, job.ctx.log.read()) == ()


@pytest.mark.bug(38)
def test_publishing_again_records_nothing_and_moves_nothing():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    finish(job.ctx, plan, FULL)
    before = dict(job.store.files())
    again = finish(job.ctx, plan, FULL)
    assert again.record is None
    assert dict(job.store.files()) == before


@pytest.mark.bug(37, 39)
def test_of_two_runs_that_planned_the_same_the_second_is_already_covered_and_green():
    first, second = Job(run="run-1"), None
    first.start(A)
    second = Job(first.store, run="run-2")
    plan_1, plan_2 = first.plan([(A, 0, 5)]), second.plan([(A, 0, 7)])
    first.extract(plan_1)
    second.extract(plan_2)
    finish(first.ctx, plan_1, FULL)
    done = finish(second.ctx, plan_2, FULL)
    assert [unit.outcome for unit in done.record.dropped] == ["already_covered"]
    assert done.record.files == ()
    assert first.visible() == 5
    assert not any(path.startswith(".kafka_hdfs/p/staging/" + plan_2.plan) for path in first.store.files())
    assert judge(second.ctx, plan_2).is_green
    assert watermarks(first) == {"events[0]": 5}


def test_a_unit_that_overlaps_another_of_its_own_record_is_dropped():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)], [(A, 3, 8)])
    job.extract(plan, 0)
    job.extract(plan, 1)
    done = finish(job.ctx, plan, FULL)
    assert job.visible() == 5
    assert len(done.record.dropped) == 1


@pytest.mark.parametrize(
    ("policy", "written", "green"), [(FULL, 4, False), (SUCCESSFUL, 9, False), (PARTIAL, 11, False)]
)
def test_the_publish_policy_decides_what_of_a_topic_with_a_failed_unit_commits(policy, written, green):
    job = Job()
    job.start(A, B, OTHER)
    plan = job.plan([(A, 0, 5), (OTHER, 0, 4)], [(B, 0, 6)])
    job.extract(plan, 0)
    job.extract(plan, 1, reach=2, outcome=Outcome.FAILED, reason="no_schema")
    done = finish(job.ctx, plan, policy)
    assert done.record.counts.written == written
    assert [(held.topic, held.reason) for held in done.record.held] == [("events", "unit_failed")]
    verdict = judge(job.ctx, plan)
    assert verdict.is_green is green
    assert "events" in "\n".join(verdict.faults)
    assert "clicks" not in "\n".join(verdict.faults)


def test_an_empty_prefix_of_a_failed_unit_is_not_listed_under_partial():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan, reach=0, outcome=Outcome.FAILED, reason="denied")
    done = finish(job.ctx, plan, PARTIAL)
    assert done.record.units == ()
    assert done.record.changes == ()


def test_clearing_a_failed_extract_with_downstream_completes_the_same_plan():
    job = Job()
    job.start(A, B)
    plan = job.plan([(A, 0, 5)], [(B, 0, 6)])
    job.extract(plan, 0)
    job.extract(plan, 1, reach=2, outcome=Outcome.FAILED, reason="no_schema")
    assert finish(job.ctx, plan, FULL).record.units == ()
    job.extract(plan, 1, k=1)
    done = finish(job.ctx, plan, FULL)
    assert {(unit.task, unit.k) for unit in done.record.units} == {(0, 0), (1, 1)}
    assert job.visible() == 11
    assert judge(job.ctx, plan).is_green


def test_a_unit_without_a_manifest_counts_as_failed_and_is_named():
    job = Job()
    job.start(A, B)
    plan = job.plan([(A, 0, 5)], [(B, 0, 6)])
    job.extract(plan, 0)
    done = finish(job.ctx, plan, FULL)
    assert "extract[1] left no manifest" in done.record.held[0].detail
    assert not judge(job.ctx, plan).is_green


def test_a_limited_unit_is_green_in_a_continuous_run_and_red_in_an_interval_run():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 9)])
    job.extract(plan, reach=4, outcome=Outcome.LIMITED)
    finish(job.ctx, plan, FULL)
    assert judge(job.ctx, plan).is_green
    assert watermarks(job) == {"events[0]": 4}
    interval = job.plan([(A, 4, 9)], kind=Kind.INTERVAL)
    job.extract(interval, reach=6, outcome=Outcome.LIMITED)
    finish(job.ctx, interval, FULL)
    verdict = judge(job.ctx, interval)
    assert not verdict.is_green
    assert "[6, 9)" in verdict.faults[0]
    assert "run the same interval again" in verdict.faults[0]


def test_an_interval_covers_what_was_skipped_and_not_what_is_covered_or_lost():
    job = Job()
    job.start(A, at=10)
    job.change(
        PartitionChange(
            key=A, skipped=Ranges.span(10, 20), lost=Ranges.span(20, 22), counts=Counts(skipped=10, lost=2)
        ),
        kind=Kind.FORWARD,
    )
    plan = job.plan([(A, 12, 15)], [(A, 19, 23)], kind=Kind.INTERVAL)
    job.extract(plan, 0)
    job.extract(plan, 1)
    finish(job.ctx, plan, FULL)
    coverage = job.ctx.log.read().state.coverage[A]
    assert coverage.covered == Ranges.span(12, 15)
    assert coverage.skipped == Ranges.of([(10, 12), (15, 20)])
    assert coverage.lost == Ranges.span(20, 22)
    assert coverage.watermark == 22


def test_interval_commits_set_no_start_point():
    job = Job()
    plan = job.plan([(A, 3, 6)], kind=Kind.INTERVAL)
    job.extract(plan)
    finish(job.ctx, plan, FULL)
    state = job.ctx.log.read().state
    assert state.known("events") == {}
    job.start(A, at=8)
    assert job.ctx.log.read().state.coverage[A].undecided(0, 12) == Ranges.span(8, 12)


@pytest.mark.bug(28)
def test_bad_records_over_the_limit_hold_the_topic_until_the_limit_is_raised():
    job = Job()
    job.start(A, OTHER)
    plan = job.plan([(A, 0, 5), (OTHER, 0, 4)])
    job.extract(plan, bad=2)
    strict = CommitPolicy(bad_records_of={"events": BadRecordLimits(most=1)})
    done = finish(job.ctx, plan, strict)
    assert [(held.topic, held.reason) for held in done.record.held] == [("events", "bad_records")]
    assert "2 bad records of 5 read; max_bad_records is 1" in done.record.held[0].detail
    assert "events" in "\n".join(judge(job.ctx, plan).faults)
    relaxed = CommitPolicy(bad_records_of={"events": BadRecordLimits(most=2)})
    done = finish(job.ctx, plan, relaxed)
    assert done.record.counts.quarantined == 2
    assert judge(job.ctx, plan).is_green


@pytest.mark.parametrize(
    ("bad", "read", "exceeded"), [(10, 999, False), (10, 1000, False), (11, 1000, True), (0, 0, False)]
)
def test_the_share_of_bad_records_counts_from_a_thousand_records_up(bad, read, exceeded):
    assert (BadRecordLimits().exceeded(bad, read) is not None) is exceeded


def test_an_aborted_plan_can_not_commit_any_more():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    abort_plan(Job(job.store, run="operator").ctx, plan, "its run is gone")
    with pytest.raises(PlanEndedError, match="ended by commit 1 .*its run is gone.*clear `plan`"):
        finish(job.ctx, plan, FULL)
    assert not judge(job.ctx, plan).is_green
    assert job.visible() == 0


def test_an_abort_ends_only_what_no_commit_lists():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    finish(job.ctx, plan, FULL)
    view = abort_plan(job.ctx, plan, "too late")
    assert standing(view, plan).aborted is None
    assert view.head == 1


def test_manifests_that_do_not_add_up_stop_the_commit_with_their_path():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    manifest = job.extract(plan)
    path = job.ctx.log.paths.manifest(plan.plan, 0, 0)
    (unit,) = manifest.units
    (part,) = unit.partitions
    cases = {
        "0 \\+ gaps": dataclasses.replace(part, counts=Counts(written=4)),
        "files hold 5": dataclasses.replace(part, counts=Counts(written=3, gaps=2)),
        "decided": dataclasses.replace(part, covered=Ranges.span(0, 6), counts=Counts(written=6)),
    }
    for text, wrong in cases.items():
        job.store.delete(path)
        broken = dataclasses.replace(manifest, units=(dataclasses.replace(unit, partitions=(wrong,)),))
        job.store.put_if_absent(path, wire.encode("manifest", broken))
        with pytest.raises(CorruptStateError, match=text) as caught:
            commit_plan(job.ctx, plan, FULL)
        assert caught.value.path == path


@pytest.mark.bug(2)
def test_a_staged_file_that_is_gone_stops_the_commit():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (entry,) = job.extract(plan).units[0].files
    job.store.delete(entry.staged)
    with pytest.raises(CorruptStateError, match="gone or has another size"):
        commit_plan(job.ctx, plan, FULL)
    assert job.ctx.log.read().head == 0


@pytest.mark.bug(2)
def test_a_committed_file_that_is_neither_staged_nor_in_place_is_corruption():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (entry,) = job.extract(plan).units[0].files
    commit_plan(job.ctx, plan, FULL)
    job.store.delete(entry.staged)
    with pytest.raises(CorruptStateError, match="neither there nor in staging"):
        finish(job.ctx, plan, FULL)


def test_a_refused_file_leaves_its_commit_open_and_the_run_red_while_others_go_on():
    job = Job()
    job.start(A, B)
    plan = job.plan([(A, 0, 5), (B, 0, 3)])
    entries = job.extract(plan).units[0].files
    job.store.put_if_absent(entries[0].path, b"something of somebody else")
    done = finish(job.ctx, plan, FULL)
    assert [refusal.path for refusal in done.refusals] == [entries[0].path]
    assert done.to_announce == ()
    assert entries[1].path in job.store.files()
    assert "not all its files are in place" in judge(job.ctx, plan).faults[0]
    job.store.delete(entries[0].path)
    assert [commit.number for commit in finish(job.ctx, plan, FULL).to_announce] == [1]
    assert judge(job.ctx, plan).is_green


def test_a_replace_supersedes_files_once_everything_of_it_stands():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (old,) = job.extract(plan).units[0].files
    finish(job.ctx, plan, FULL)
    again = job.plan(
        [(A, 0, 5)],
        kind=Kind.REPLACE,
        request="once",
        replaces=(Superseded(path=old.path, topic="events", size=old.size, commit=1),),
    )
    (new,) = job.extract(again).units[0].files
    finish(job.ctx, again, FULL)
    assert job.data_files() == [new.path]
    assert job.ctx.log.data_paths.superseded(2, old.path) in job.store.files()
    assert job.ctx.log.read().state.requests == {"once"}
    assert job.ctx.log.read().state.coverage[A].covered == Ranges.span(0, 5)


def test_a_replace_that_failed_supersedes_nothing_and_its_request_is_not_used_up():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (old,) = job.extract(plan).units[0].files
    finish(job.ctx, plan, FULL)
    replaces = (Superseded(path=old.path, topic="events", size=old.size, commit=1),)
    again = job.plan([(A, 0, 5)], kind=Kind.REPLACE, request="once", replaces=replaces)
    job.extract(again, reach=2, outcome=Outcome.FAILED, reason="no_schema")
    done = finish(job.ctx, again, PARTIAL)
    assert done.record.superseded == ()
    assert job.data_files() == [old.path]
    assert job.ctx.log.read().state.requests == set()
    job.extract(again, k=1)
    assert finish(job.ctx, again, PARTIAL).record.request == "once"
    assert job.visible() == 5


def test_a_replace_is_ended_when_a_later_commit_touched_what_it_was_planned_from():
    job, rival = Job(), None
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    (old,) = job.extract(plan).units[0].files
    finish(job.ctx, plan, FULL)
    rival = Job(job.store, run="run-2")
    replaces = (Superseded(path=old.path, topic="events", size=old.size, commit=1),)
    plans = [
        (who, who.plan([(A, 0, 5)], kind=Kind.REPLACE, request=who.ctx.run.run_id, replaces=replaces))
        for who in (job, rival)
    ]
    for who, again in plans:
        who.extract(again)
    finish(job.ctx, plans[0][1], FULL)
    with pytest.raises(PlanEndedError, match="commit 2 changed what it was to replace"):
        finish(rival.ctx, plans[1][1], FULL)
    assert job.visible() == 5
    assert job.ctx.log.read().state.requests == {"run-1"}


def test_a_unit_of_a_retired_generation_is_dropped():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    job.start(key(generation=1))
    done = finish(job.ctx, plan, FULL)
    assert [unit.outcome for unit in done.record.dropped] == ["already_covered"]
    assert job.visible() == 0


def test_a_unit_of_a_topic_that_was_recreated_since_still_commits_under_its_own_identity():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    job.start(key(topic_id="other"))
    finish(job.ctx, plan, FULL)
    state = job.ctx.log.read().state
    assert state.coverage[A].covered == Ranges.span(0, 5)
    assert state.coverage[key(topic_id="other")].covered == Ranges()
    assert job.visible() == 5


def test_a_topic_that_was_released_is_dropped_from_later_commits():
    job = Job()
    job.start(A)
    plan = job.plan([(A, 0, 5)])
    job.extract(plan)
    job.change(released=("events",))
    done = finish(job.ctx, plan, FULL)
    assert [unit.outcome for unit in done.record.dropped] == ["released"]
    assert job.visible() == 0


def test_moving_a_start_point_back_lifts_what_was_skipped_and_never_what_is_covered():
    job = Job()
    job.start(A, at=0)
    job.change(PartitionChange(key=A, covered=Ranges.span(0, 5), skipped=Ranges.span(5, 9)), kind=Kind.FORWARD)
    job.change(PartitionChange(key=A, start=3, lifted=Ranges.span(3, 100)))
    coverage = job.ctx.log.read().state.coverage[A]
    assert coverage.undecided(0, 12) == Ranges.span(5, 12)
    assert coverage.watermark == 5


def test_an_empty_plan_leaves_no_record_and_is_green():
    job = Job()
    job.start(A)
    plan = job.plan()
    done = finish(job.ctx, plan, FULL)
    assert done.record is None
    assert done.to_announce == ()
    assert judge(job.ctx, plan).is_green


def test_a_topic_held_by_planning_is_recorded_and_red_until_a_later_run_took_it_up():
    job = Job()
    job.start(A)
    plan = job.plan(held=(Held(topic="events", reason="denied", detail="no read permission: grant it"),))
    assert finish(job.ctx, plan, FULL).record.held[0].reason == "denied"
    assert "grant it" in judge(job.ctx, plan).faults[0]
    later = Job(job.store, run="run-2")
    next_plan = later.plan([(A, 0, 5)])
    later.extract(next_plan)
    finish(later.ctx, next_plan, FULL)
    assert judge(job.ctx, plan).is_green


@pytest.mark.parametrize(("held_in", "taken_up_by"), [(Kind.INTERVAL, Kind.FORWARD), (Kind.FORWARD, Kind.INTERVAL)])
def test_a_held_topic_stays_red_where_a_later_commit_read_other_offsets_of_it(held_in, taken_up_by):
    job = Job()
    job.start(A)
    plan = job.plan(kind=held_in, held=(Held(topic="events", reason="no_leader", detail="the next run tries again"),))
    finish(job.ctx, plan, FULL)
    later = Job(job.store, run="run-2")
    other = later.plan([(A, 5, 9)], kind=taken_up_by)
    later.extract(other)
    finish(later.ctx, other, FULL)
    assert "no_leader" in "\n".join(judge(job.ctx, plan).faults)
