"""Records of the log: checkpoints equal their sum, and what is torn, changed or newer is refused."""

from __future__ import annotations

import dataclasses
import json

import pytest

from airflow_kafka_hdfs.exceptions import CorruptStateError, NewerFormatError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import CommitPolicy
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.records import Commit
from tests.fakes.faulty_store import FaultyStore
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.scripted import Job, key

FULL = CommitPolicy(publish="full")
A = key()


def test_checkpoints_shorten_reading_and_equal_the_sum_of_all_records():
    job = Job()
    job.start(A)
    for low in range(0, 120, 3):
        plan = job.plan([(A, low, low + 3)])
        job.extract(plan)
        finish(job.ctx, plan, FULL)
    view = job.ctx.log.unread().read()
    assert view.checkpoint == 39
    assert view.state.coverage == job.ctx.log.recomputed([view.head])[view.head].coverage
    assert job.ctx.log.checkpoints() == [39, 19]
    newest = job.ctx.log.checkpoint_at(39)
    assert Checkpoint.of(newest.state()) == newest
    assert len(view.records) <= 20


@pytest.mark.bug(103)
def test_records_that_are_torn_changed_or_newer_are_refused_with_their_path():
    job = Job()
    job.start(A)
    path = job.ctx.log.paths.commit(0)
    good = job.store.get(path)
    for wrong, error in [
        (good[: len(good) // 2], CorruptStateError),
        (good.replace(b'"start":0', b'"start":7'), CorruptStateError),
        (b"[]", CorruptStateError),
        (good.replace(b'"format":1', b'"format":2'), NewerFormatError),
        (wire.encode("plan", job.plan()), CorruptStateError),
    ]:
        job.store.delete(path)
        job.store.put_if_absent(path, wrong)
        with pytest.raises(error, match=path):
            job.ctx.log.unread().read()


def test_the_digest_is_of_the_fields_and_not_of_their_spelling():
    job = Job()
    job.start(A)
    data = job.store.get(job.ctx.log.paths.commit(0))
    spelled = json.dumps(dict(reversed(json.loads(data).items())), indent=1).encode()
    assert wire.decode("0", "commit", Commit, spelled) == wire.decode("0", "commit", Commit, data)
    with pytest.raises(CorruptStateError, match="does not fit"):
        wire.decode("0", "commit", Commit, spelled.replace(b'"start": 0', b'"start": 7'))


@pytest.mark.parametrize("text", ['"dropped":', ',"dropped":[],"files":', "digest", '"'])
def test_fields_stand_in_the_order_of_their_names_whatever_is_in_them(text: str):
    job = Job()
    job.start(A)
    commit = wire.decode("0", "commit", Commit, job.store.get(job.ctx.log.paths.commit(0)) or b"")
    commit = dataclasses.replace(commit, attempt=text, metrics={"dropped": {text: 1}, "digest": ""})
    data = wire.encode("commit", commit)
    names = list(json.loads(data))
    assert names == sorted(names)
    assert "digest" in names
    assert wire.decode("0", "commit", Commit, data) == commit


def test_what_was_read_once_is_not_read_again():
    store = FaultyStore(InMemoryStore())
    job = Job(store)
    job.start(A)
    for low in range(0, 30, 3):
        plan = job.plan([(A, low, low + 3)])
        job.extract(plan)
        finish(job.ctx, plan, FULL)
    head = job.ctx.log.read().head
    store.calls.clear()
    again = job.ctx.log.read(since=-1)
    assert (again.head, sorted(again.records)) == (head, list(range(head + 1)))
    assert {call.path for call in store.calls} == {job.ctx.log.paths.commit(head + 1 + n) for n in range(2)}
    store.calls.clear()
    assert job.ctx.log.unread().read(since=-1) == again
    assert sum(call.path.startswith("commits/") for call in store.calls) > head
