"""Messages of a run, and what becomes of them while Kafka is away."""

from __future__ import annotations

import os

import pytest

from airflow_kafka_hdfs.adapters.lineage_spool import FolderSpool
from airflow_kafka_hdfs.lineage.emitting import deliver, drain, run_messages
from airflow_kafka_hdfs.lineage.events import EdgeMessage, RunMessage
from airflow_kafka_hdfs.lineage.pairs import Options
from airflow_kafka_hdfs.lineage.workflow import RunFacts
from tests.fakes.lineage import MemoryTopic
from tests.fakes.lineage_messages import envelope

from .sketch import draw

TOPIC = "airflow.lineage"


def some_messages(day=0):
    return run_messages(envelope(day=day), draw("e(A->) >> [w(->B), v(->C)]"), RunFacts(), Options())


@pytest.fixture
def spool(tmp_path):
    return FolderSpool(tmp_path / "spool", 10_000_000)


def test_a_run_is_one_message_per_pair_and_one_of_its_own():
    messages = some_messages()
    assert [type(m) for m in messages] == [EdgeMessage, EdgeMessage, RunMessage]
    assert [m.target.dataset.name for m in messages[:2]] == ["B", "C"]
    assert messages[0].declared
    bare = run_messages(envelope(), draw("t(A->B)"), RunFacts(), Options(), with_graph=False)[-1]
    assert bare.graph is None
    assert bare.structure_hash == draw("t(A->B)").structure_hash


def test_an_unresolved_alias_is_told():
    workflow = draw("e(A->) >> w()", w={"alias_writes": ("late",)})
    edge = run_messages(envelope(), workflow, RunFacts(), Options())[0]
    assert (edge.target.dataset.namespace, edge.state.value) == ("asset-alias", "unresolved")


def test_messages_go_to_kafka_and_not_to_the_spool(spool):
    topic = MemoryTopic()
    sent = deliver(some_messages(), topic, spool, TOPIC, 1)
    assert (sent.delivered, sent.spooled, sent.kept, len(topic.sent)) == (3, 0, True, 3)
    assert drain(topic, spool, 1) == 0


@pytest.mark.parametrize("kafka", ["away", "none"])
def test_messages_wait_while_kafka_is_away_and_leave_once(spool, kafka):
    topic = MemoryTopic()
    topic.undelivered = True
    for day in range(3):
        assert deliver(some_messages(day), topic if kafka == "away" else None, spool, TOPIC, 1).spooled == 3
    assert drain(topic, spool, 1) == 0
    topic.undelivered = False
    assert drain(topic, spool, 1) == 9
    assert len({value for _, _, value in topic.sent}) == 9
    assert drain(topic, spool, 1) == 0


def test_a_full_spool_says_what_was_dropped(tmp_path):
    sent = deliver(some_messages(), None, FolderSpool(tmp_path / "spool", 3_000), TOPIC, 1)
    assert not sent.kept
    assert sent.dropped + sent.spooled == 3


def test_a_spool_that_cannot_be_written_drops_and_never_raises(tmp_path):
    (tmp_path / "file").write_text("in the way")
    sent = deliver(some_messages(), None, FolderSpool(tmp_path / "file" / "spool", 10_000), TOPIC, 1)
    assert sent.dropped == 3


def test_only_its_owner_reads_the_spool(tmp_path):
    folder = tmp_path / "spool"
    deliver(some_messages(), None, FolderSpool(folder, 10_000_000), TOPIC, 1)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_two_processes_never_take_the_same_messages(tmp_path):
    one, other = (FolderSpool(tmp_path / "spool", 10_000_000) for _ in range(2))
    deliver(some_messages(), None, one, TOPIC, 1)
    with one.take(10) as first, other.take(10) as second:
        assert (len(first.letters), len(second.letters)) == (3, 0)
        deliver(some_messages(1), None, one, TOPIC, 1)
        first.done = True
    with other.take(10) as rest:
        assert len(rest.letters) == 3


def test_messages_that_a_dead_process_had_taken_come_back(tmp_path):
    spool = FolderSpool(tmp_path / "spool", 10_000_000)
    deliver(some_messages(), None, spool, TOPIC, 1)
    (waiting,) = (tmp_path / "spool").iterdir()
    claimed = waiting.with_suffix(".claimed")
    waiting.rename(claimed)
    with spool.take(10) as batch:
        assert batch.letters == []
    os.utime(claimed, (0, 0))
    with spool.take(10) as batch:
        assert len(batch.letters) == 3


def test_a_half_written_line_is_left_out(tmp_path):
    spool = FolderSpool(tmp_path / "spool", 10_000_000)
    deliver(some_messages(), None, spool, TOPIC, 1)
    (waiting,) = (tmp_path / "spool").iterdir()
    text = waiting.read_text()
    waiting.write_text(text[:-40])
    with spool.take(10) as batch:
        assert len(batch.letters) == 2
