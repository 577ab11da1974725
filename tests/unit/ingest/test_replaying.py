"""Quarantined records come back through the log once their cause is mended: each once, in its own time folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_kafka_hdfs.exceptions import OwnedElsewhereError, PlanEndedError, PlanningError, RegistryUnavailableError
from airflow_kafka_hdfs.ingest import steering, wire
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.ownership import Owner
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, all_plans
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.quarantine_reading import Choice, Fate, bad_records, quarantine_files
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.replaying import Replay, draft_replay
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from tests.fakes.faulty_store import Call, FaultyStore
from tests.unit.ingest.extracting import CODEC, MORNING, confluent, event
from tests.unit.ingest.replays import ARGUMENTS, Pipeline, replace_everything


@pytest.mark.bug(96)
def test_mended_records_land_in_their_own_time_folders_by_a_commit_of_their_own():
    pipeline = Pipeline()
    assert pipeline.visible() == {"events/2026/01/01/08": [0], "events/2026/01/01/09": [2]}
    pipeline.mend()
    done = pipeline.replay()
    assert done.record is not None
    assert (done.record.kind, done.record.who, done.record.why) == (Kind.REPLAY, "ada", "mended")
    assert [(item.partition, item.offset) for item in done.record.replayed] == [(0, 1), (0, 3)]
    assert (done.record.counts.written, done.record.counts.read) == (2, 2)
    assert pipeline.visible() == {"events/2026/01/01/08": [0, 1], "events/2026/01/01/09": [2, 3]}
    assert not examine(pipeline.ctx())
    assert done.record.number in pipeline.ctx().log.unannounced(pipeline.ctx().log.read())


def test_a_replay_that_is_repeated_takes_nothing_twice():
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.replay()
    head = pipeline.ctx().log.read().head
    assert pipeline.replay().record is None
    assert pipeline.ctx().log.read().head == head
    assert pipeline.ids() == [0, 1, 2, 3]


def test_what_is_still_bad_stays_and_is_told():
    pipeline = Pipeline(values=(confluent(2, event(0)), b"\x01\x00\x00\x00\x01x", b"x"))
    pipeline.mend()
    draft = draft_replay(pipeline.ctx(), pipeline.sources(), pipeline.config, Choice())
    assert draft.folders == {("events", "events/2026/01/01/08"): 1}
    assert [(bad.record.record.offset, bad.reason) for bad in draft.still_bad] == [(1, "frame"), (2, "frame")]
    assert "1 records go to events/2026/01/01/08" in draft.told[0]
    assert "2 records are still bad (frame), such as events[0]@1" in draft.told[1]
    pipeline.replay()
    assert pipeline.ids() == [0]
    (file,) = quarantine_files(pipeline.ctx().log.read(since=-1))
    fates = [record.fate for record in bad_records(pipeline.store, CODEC, file)]
    assert fates == [Fate.REPLAYED, Fate.WAITING, Fate.WAITING]


def test_while_nothing_is_mended_nothing_is_changed():
    pipeline = Pipeline()
    files = dict(pipeline.store.files())
    assert pipeline.replay().record is None
    assert pipeline.store.files() == files


def test_an_outage_of_the_registry_takes_nothing_and_blames_no_record():
    pipeline = Pipeline()
    pipeline.registry.down = True
    with pytest.raises(RegistryUnavailableError):
        pipeline.replay()
    pipeline.registry.down = False
    pipeline.mend()
    pipeline.replay()
    assert pipeline.ids() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("choice", "taken"),
    [
        (Choice(topic="clicks"), 0),
        (Choice(topic="events", reason="unknown_schema"), 2),
        (Choice(reason="frame"), 0),
        (Choice(path="elsewhere"), 0),
    ],
)
def test_a_part_may_be_chosen(choice, taken):
    pipeline = Pipeline()
    pipeline.mend()
    done = pipeline.replay(choice=choice)
    assert len(done.record.replayed if done.record else ()) == taken


def test_a_converter_that_now_leaves_a_record_out_settles_it():
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.config = IngestConfig.of({**ARGUMENTS, "converters": [lambda record: None]})
    done = pipeline.replay()
    assert done.record is not None
    assert (done.record.counts.filtered, done.record.files) == (2, ())
    assert pipeline.replay().record is None


def test_null_values_follow_the_policy_of_now():
    pipeline = Pipeline(values=(confluent(2, event(0)),))
    pipeline.mend()
    (file,) = quarantine_files(pipeline.ctx().log.read(since=-1))
    (bad,) = bad_records(pipeline.store, CODEC, file)
    bad = dataclasses.replace(bad, record=dataclasses.replace(bad.record, value=None))
    assert bad.name.offset == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_kafka_hdfs.ingest.replaying.bad_records", lambda *args: [bad])
        draft = draft_replay(pipeline.ctx(), pipeline.sources(), pipeline.config, Choice())
        assert [item.reason for item in draft.still_bad] == ["null_value"]
        skipping = IngestConfig.of({**ARGUMENTS, "on_null": "skip"})
        assert draft_replay(pipeline.ctx(), pipeline.sources(), skipping, Choice()).filtered == 1


def test_a_replace_that_reads_the_offsets_again_settles_what_waited():
    pipeline = Pipeline()
    pipeline.mend()
    replace_everything(pipeline)
    assert pipeline.ids() == [0, 1, 2, 3]
    assert pipeline.replay().record is None
    (file,) = quarantine_files(pipeline.ctx().log.read(since=-1))
    assert {record.fate for record in bad_records(pipeline.store, CODEC, file)} == {Fate.REPLACED}
    assert not file.waits


def test_a_replace_takes_replayed_files_out_of_place_too():
    pipeline = Pipeline()
    pipeline.mend()
    replayed = pipeline.replay().record
    assert replayed is not None
    record = replace_everything(pipeline)
    assert {entry.path for entry in replayed.files} <= {item.path for item in record.superseded}
    assert pipeline.ids() == [0, 1, 2, 3]
    assert not [finding for finding in examine(pipeline.ctx()) if finding.severity != "note"]


def test_a_replace_that_was_planned_before_a_replay_is_ended():
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.clock.advance(timedelta(days=1).total_seconds())
    ctx = pipeline.ctx(run="replace")
    request = PlanRequest(range_end=pipeline.clock.now(), replace=True)
    plan = make_plan(ctx, pipeline.sources(), pipeline.config, request).plan
    pipeline.run_id = "replace"
    pipeline.run(plan)
    pipeline.replay()
    with pytest.raises(PlanEndedError):
        commit_plan(ctx, plan, pipeline.config.commit_policy(["events"]))
    assert pipeline.ids() == [0, 1, 2, 3]


def beside(pipeline: Pipeline, meanwhile: Callable[[], object], number: int = 1) -> Replay:
    """A replay; right before its commit something else happens."""
    done: list[bool] = []

    def look(call: Call) -> None:
        if not done and call.name == "put_if_absent" and "commits/" in call.path:
            done.append(True)
            meanwhile()

    return pipeline.replay(FaultyStore(pipeline.store, before_call=look))


def test_of_two_replays_at_once_each_record_is_taken_by_one():
    pipeline = Pipeline()
    pipeline.mend()
    done = beside(pipeline, lambda: pipeline.replay(choice=Choice(reason="unknown_schema")))
    assert done.record is None
    assert pipeline.ids() == [0, 1, 2, 3]
    assert not [path for path in pipeline.store.files() if "/staging/" in path]


@pytest.mark.parametrize("looks_alive", [True, False])
def test_a_replace_leaves_offsets_to_a_replay_at_work_or_takes_them_from_it(looks_alive):
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.runs.alive["command"] = looks_alive
    done = beside(pipeline, lambda: replace_everything(pipeline))
    assert (done.record is not None) is looks_alive
    assert pipeline.ids() == [0, 1, 2, 3]


@pytest.mark.parametrize("taker", ["replay", "replace"])
def test_a_replace_reads_what_was_taken_from_a_replay_at_work_since(taker):
    """It is in a file that the replace takes out of place, although the replay still counts on it."""
    pipeline = Pipeline()
    pipeline.mend()

    def meanwhile() -> None:
        pipeline.runs.alive["command"] = False
        pipeline.replay() if taker == "replay" else replace_everything(pipeline)
        pipeline.runs.alive["command"] = True
        pipeline.ingest("again", PlanRequest(range_end=pipeline.clock.now(), replace=True))

    pipeline.clock.advance(timedelta(days=1).total_seconds())
    done = beside(pipeline, meanwhile)
    assert done.record is None
    assert pipeline.ids() == [0, 1, 2, 3]


def test_an_unrelated_commit_meanwhile_only_costs_another_try():
    pipeline = Pipeline()
    pipeline.mend()

    def more() -> None:
        pipeline.cluster.produce("events", 0, confluent(1, event(4)), timestamp=MORNING)
        pipeline.ingest("run-2")

    done = beside(pipeline, more)
    assert done.record is not None
    assert done.record.number == 3
    assert pipeline.ids() == [0, 1, 2, 3, 4]


def test_a_replay_whose_plan_was_ended_changes_nothing():
    pipeline = Pipeline()
    pipeline.mend()

    def end() -> None:
        (plan,) = [plan for plan in all_plans(pipeline.ctx()) if plan.kind is Kind.REPLAY]
        abort_plan(pipeline.ctx(), plan, "an operator")

    with pytest.raises(PlanEndedError, match="run it again"):
        beside(pipeline, end)
    assert pipeline.ids() == [0, 2]
    pipeline.replay()
    assert pipeline.ids() == [0, 1, 2, 3]


def test_topics_that_this_pipeline_gave_up_are_refused():
    pipeline = Pipeline()
    pipeline.mend()
    ctx = pipeline.ctx()
    view = ctx.log.read()
    record = dataclasses.replace(
        ctx.log.records([0])[0][0], number=view.head + 1, kind=Kind.RESET, changes=(), released=("events",), attempt="x"
    )
    assert ctx.log.append(record)
    with pytest.raises(PlanningError, match="gave up events"):
        pipeline.replay()


def test_topics_of_another_pipeline_are_refused():
    pipeline = Pipeline()
    pipeline.mend()
    owner = pipeline.ctx().log.data_paths.owner("events")
    pipeline.store.delete(owner)
    pipeline.store.put_if_absent(owner, wire.encode("owner", Owner(topic="events", pipeline="other")))
    with pytest.raises(OwnedElsewhereError):
        pipeline.replay()


def test_records_keep_their_way_when_the_cluster_got_another_id():
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.cluster.cluster_id = "new"
    steering.carry_out(pipeline.ctx(), steering.cluster_id(pipeline.sources(), "new"), "moved")
    done = pipeline.replay()
    assert done.record is not None
    assert {change.key.cluster_id for change in done.record.changes} == {"new"}
    assert pipeline.ids() == [0, 1, 2, 3]


def test_the_log_remembers_replays_in_its_checkpoints():
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.replay()
    state = pipeline.ctx().log.read().state
    assert Checkpoint.of(state).state() == state
    assert len(state.replayed) == 2
