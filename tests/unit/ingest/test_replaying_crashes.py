"""A replay that dies at any call, and quarantine files that are damaged or gone: nothing is doubled, all is named."""

from __future__ import annotations

import contextlib
import dataclasses
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import CorruptStateError, KafkaHdfsError
from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.inspecting import recover
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.quarantine_reading import bad_records, quarantine_files
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from tests.fakes.faulty_store import MUTATIONS, Call, Crash, Fault, FaultyStore
from tests.fakes.faulty_store import Kind as FaultKind
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import CODEC
from tests.unit.ingest.replays import Pipeline, quarantine_path

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
