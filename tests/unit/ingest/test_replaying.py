"""Quarantined records come back through the log once their cause is mended: each once, in its own time folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.exceptions import (
    CorruptStateError,
    KafkaHdfsError,
    OwnedElsewhereError,
    PlanEndedError,
    PlanningError,
    RegistryUnavailableError,
)
from airflow_kafka_hdfs.ingest import steering, wire
from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.inspecting import recover
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.ownership import Owner
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, all_plans
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.publishing import roll_forward_all
from airflow_kafka_hdfs.ingest.quarantine_reading import Choice, Fate, bad_records, quarantine_files
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Kind
from airflow_kafka_hdfs.ingest.replaying import Replay, draft_replay, replay
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.faulty_store import MUTATIONS, Call, Crash, Fault, FaultyStore
from tests.fakes.faulty_store import Kind as FaultKind
from tests.fakes.runtime import KnownRuns, SeededIds, SerialWorkers
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import CODEC, EVENT, HOUR, MORNING, Task, confluent, event, read_back

ARGUMENTS: dict[str, Any] = {
    "topics": ["events"],
    "destination": "file:///data",
    "pipeline_id": "p",
    "registry": "http://registry",
    "value_format": "avro_confluent",
    "time_field": "header.time",
    "bootstrap": "earliest",
    "codec": "null",
    "max_bad_share": None,
}


class Pipeline(Task):
    """A committed run of four records in two hours; those of schema 2 are bad, since the registry forgot it."""

    def __init__(self, values: tuple[bytes, ...] | None = None, **arguments: Any) -> None:
        super().__init__()
        self.config = IngestConfig.of({**ARGUMENTS, **arguments})
        self.topic(**{name: value for name, value in {**ARGUMENTS, **arguments}.items() if name in TOPIC_ARGUMENTS})
        self.registry.register("events", EVENT)
        self.second = {**EVENT, "doc": "second"}
        self.registry.register("events", self.second)
        self.registry.forget(2)
        self.runs = KnownRuns()
        default = tuple(confluent(n % 2 + 1, event(n, MORNING + n * HOUR // 2)) for n in range(4))
        self.cluster.produce("events", 0, *(default if values is None else values), timestamp=MORNING)
        self.ingest("run-1")

    def ctx(self, store: Any = None, run: str = "command") -> Context:
        self.seed += 1
        store = self.store if store is None else store
        return Context(
            log=CommitLog(store, store, SerialWorkers(), "p"),
            run=RunRef(dag_id="d", run_id=run, who="ada"),
            clock=self.clock,
            ids=SeededIds(self.seed),
            run_states=self.runs,
        )

    def ingest(self, run: str, request: PlanRequest | None = None) -> Commit:
        ctx = self.ctx(run=run)
        self.runs.alive[run] = False
        plan = make_plan(ctx, self.sources(), self.config, request or PlanRequest()).plan
        self.run_id = run
        self.run(plan)
        record = commit_plan(ctx, plan, self.config.commit_policy(["events"])).record
        roll_forward_all(ctx, ctx.log.read())
        assert record is not None
        return record

    def mend(self) -> None:
        self.registry._schemas[2] = json.dumps(self.second)

    def replay(self, store: Any = None, choice: Choice | None = None) -> Replay:
        ctx = self.ctx(store)
        draft = draft_replay(ctx, self.sources(), self.config, choice or Choice())
        return replay(ctx, self.sources(), self.config, StandardCodecs(), draft.names, "mended")

    def visible(self) -> dict[str, list[int]]:
        """Folder -> ids of the events in its files, sorted."""
        found: dict[str, list[int]] = {}
        for path, data in self.store.files().items():
            if path.startswith("events/"):
                found.setdefault(path.rpartition("/")[0], []).extend(item["id"] for item in read_back(path, data))
        return {folder: sorted(ids) for folder, ids in sorted(found.items())}

    def ids(self) -> list[int]:
        return sorted(number for numbers in self.visible().values() for number in numbers)


TOPIC_ARGUMENTS = {"value_format", "time_field", "codec", "max_bad_share", "on_null", "converters", "bootstrap"}


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


def replace_everything(pipeline: Pipeline) -> Commit:
    pipeline.clock.advance(timedelta(days=1).total_seconds())
    return pipeline.ingest("replace", PlanRequest(range_end=pipeline.clock.now(), replace=True))


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


# deaths


def calls_of_a_replay() -> list[Call]:
    pipeline = Pipeline()
    pipeline.mend()
    store = FaultyStore(pipeline.store)
    pipeline.replay(store)
    return store.calls


CALLS = calls_of_a_replay()


@pytest.mark.parametrize("kind", list(FaultKind))
def test_a_replay_may_die_at_any_call_and_a_second_one_takes_each_record_once(kind: FaultKind):
    assert {"put_if_absent", "create", "close", "promote"} <= {call.name for call in CALLS}
    start = Pipeline()
    clean = start.store
    start.mend()
    for call in CALLS:
        if kind not in (FaultKind.CRASH_BEFORE, FaultKind.UNAVAILABLE) and call.name not in MUTATIONS:
            continue
        start.store = clean.clone()
        with contextlib.suppress(Crash, KafkaHdfsError):
            start.replay(FaultyStore(start.store, Fault(at=call.number, kind=kind)))
        recover(start.ctx())
        start.replay()
        where = f"{kind} at {call}"
        assert start.ids() == [0, 1, 2, 3], where
        worse = [finding for finding in examine(start.ctx()) if finding.severity != "note"]
        assert not worse, where
        start.runs.alive["command"] = False
        for _ in range(4):
            collect(start.ctx(), grace=timedelta(seconds=-1))
        start.clock.advance(timedelta(days=2).total_seconds())
        collect(start.ctx())
        assert not [path for path in start.store.files() if "/staging/" in path], where
        assert start.ids() == [0, 1, 2, 3], where


def test_a_commit_that_died_before_its_files_were_in_place_is_finished_by_the_next_run():
    pipeline = Pipeline()
    pipeline.mend()
    promote = next(call.number for call in CALLS if call.name == "promote")
    with pytest.raises(Crash):
        pipeline.replay(FaultyStore(pipeline.store, Fault(at=promote, kind=FaultKind.CRASH_BEFORE)))
    assert pipeline.ids() == [0, 2]
    pipeline.clock.advance(timedelta(days=3).total_seconds())
    collect(pipeline.ctx(), grace=timedelta(0))
    make_plan(pipeline.ctx(run="run-2"), pipeline.sources(), pipeline.config, PlanRequest())
    assert pipeline.ids() == [0, 1, 2, 3]


def test_bad_records_of_a_commit_whose_files_are_not_in_place_yet_are_read_from_staging():
    pipeline = Pipeline()
    path = quarantine_path(pipeline)
    (file,) = quarantine_files(pipeline.ctx().log.read(since=-1))
    pipeline.store.promote(path, file.entry.staged, file.entry.size)
    assert len(bad_records(pipeline.store, CODEC, file)) == 2


# damaged files


def quarantine_path(pipeline: Pipeline) -> str:
    (path,) = [path for path in pipeline.store.files() if "/quarantine/" in path]
    return path


PRISTINE = Pipeline()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_quarantine_file_is_named_and_nothing_else_is_raised(data):
    path = quarantine_path(PRISTINE)
    good = PRISTINE.store.files()[path]
    cut = data.draw(st.integers(1, len(good) - 1))
    garbage = data.draw(st.binary(min_size=1, max_size=8))
    bad = good[:cut] + garbage + good[cut + len(garbage) :] if data.draw(st.booleans()) else good[:cut]
    store = InMemoryStore()
    store.put_if_absent(path, bad)
    (file,) = quarantine_files(PRISTINE.ctx().log.read(since=-1))
    with contextlib.suppress(CorruptStateError):
        assert len(bad_records(store, CODEC, file)) <= 2


def test_a_quarantine_file_that_is_gone_is_named():
    pipeline = Pipeline()
    pipeline.store.delete(quarantine_path(pipeline))
    with pytest.raises(CorruptStateError, match="is gone"):
        pipeline.replay()


def test_a_record_of_a_partition_that_its_commit_does_not_name_is_refused():
    pipeline = Pipeline()
    (file,) = quarantine_files(pipeline.ctx().log.read(since=-1))
    other = dataclasses.replace(file, keys={7: file.keys[0]}, replaced={7: Ranges()})
    with pytest.raises(CorruptStateError, match="partition 0"):
        bad_records(pipeline.store, CODEC, other)
