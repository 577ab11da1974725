"""Records of the log: checkpoints equal their sum, and what is torn, changed or newer is refused."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.exceptions import CorruptStateError, NewerFormatError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.committing import CommitPolicy
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.finishing import finish
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
    view = job.ctx.log.read()
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
            job.ctx.log.read()
