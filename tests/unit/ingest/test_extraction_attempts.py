"""Attempts at a mapped task: what is read again, what fails the attempt, and what a failed one leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.exceptions import (
    CorruptStateError,
    KafkaUnavailableError,
    PlanEndedError,
    RegistryUnavailableError,
    StoreUnavailableError,
)
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.extraction import is_long_settled
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, manifests
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.publishing import roll_forward_all
from airflow_kafka_hdfs.ingest.reading import ReadOptions, Stopped
from airflow_kafka_hdfs.ingest.records import Manifest, Outcome
from airflow_kafka_hdfs.ingest.settings import Limits
from tests.fakes.faulty_store import Fault, FaultyStore
from tests.fakes.faulty_store import Kind as FaultKind
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import (
    EVENT,
    HOUR,
    MORNING,
    Task,
    confluent,
    datum,
    event,
    manifest_of,
    on_poll,
    two_topics,
)


def test_a_task_that_is_finished_does_nothing_again():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    first = task.run(plan)
    again = task.run(plan)
    assert (first.read, first.made) == (True, True)
    assert (again.read, again.made, again.faults) == (False, False, [])
    assert again.manifest == first.manifest
    assert len(task.readers) == 1


def test_only_failed_units_are_read_again_under_new_names():
    task = two_topics()
    plan = task.plan()
    task.per_poll = 2
    on_poll(task, 2, lambda: task.cluster.deny("bad", read_only=True))
    first = manifest_of(task.run(plan))
    assert [u.outcome for u in first.units] == [Outcome.FAILED, Outcome.DONE]
    task.cluster.allow("bad")
    second = manifest_of(task.run(plan))
    assert (second.k, [u.topic for u in second.units]) == (1, ["bad"])
    assert second.units[0].counts.written == 4
    names = [entry.path for manifest in (first, second) for unit in manifest.units for entry in unit.files]
    indexes = [path.split("+")[3].split(".")[0] for path in names]
    assert len(set(indexes)) == len(indexes)
    result = commit_plan(task.context(), plan, CommitPolicy())
    assert result.record.counts.written == 8


def test_files_and_folders_of_a_topic_have_its_modes_when_they_are_published(tmp_path):
    task = Task(store=LocalStore(tmp_path, file_mode=0o640, dir_mode=0o750))
    task.topic("plain")
    task.topic("shared", file_mode="664", dir_mode="775", value_format="json", max_bad_share=None)
    for topic in ("plain", "shared"):
        task.cluster.produce(topic, 0, b"{}", b"{", timestamp=MORNING)
    plan = task.plan()
    task.run(plan)
    commit_plan(task.context(), plan, CommitPolicy())
    ctx = task.context()
    assert roll_forward_all(ctx, ctx.log.read()) == []

    def modes(folder: str) -> set[tuple[bool, int]]:
        found = (tmp_path / folder, *(tmp_path / folder).rglob("*"))
        return {(path.is_dir(), path.stat().st_mode & 0o7777) for path in found}

    assert modes("plain") == {(True, 0o750), (False, 0o640)}
    assert modes("shared") == {(True, 0o775), (False, 0o664)}
    assert modes("commits") == {(True, 0o750), (False, 0o640)}
    assert modes(".kafka_hdfs/p/quarantine") == {(True, 0o700), (False, 0o600)}


def committed_without_a_rest():
    """A task of two topics of which one could not be read to its end, and its plan, of which that is committed."""
    task = two_topics()
    plan = task.plan()
    task.per_poll = 2
    on_poll(task, 2, lambda: task.cluster.deny("bad", read_only=True))
    task.run(plan)
    commit_plan(task.context(), plan, CommitPolicy(publish="partial"))
    return task, plan


def test_a_unit_whose_rest_went_back_reads_nothing_and_says_where():
    task, plan = committed_without_a_rest()
    task.cluster.allow("bad")
    with pytest.raises(PlanEndedError, match="topic bad: the rest went back in commit 0: clear `plan` or wait for"):
        task.run(plan)
    assert len(task.readers) == 1


class CleanedStore(InMemoryStore):
    """Somebody settles a plan and cleans it away between an attempt's lost race and its look at the winner."""

    def __init__(self) -> None:
        super().__init__()
        self.settle: Callable[[], object] = lambda: None

    def put_if_absent(self, path: str, data: bytes) -> bool:
        made = super().put_if_absent(path, data)
        if not made and path.startswith("units/"):
            self.settle()
            self.delete(path.rpartition("/")[0], recursive=True)
        return made


def test_an_attempt_whose_plan_was_committed_and_cleaned_away_by_a_faster_one_does_no_more():
    task, plan, store = _overtaken()
    store.settle = lambda: commit_plan(task.context(), plan, CommitPolicy())
    done = task.run(plan)
    assert (done.manifest, done.made, done.faults) == (None, False, [])


def test_an_attempt_whose_plan_was_ended_and_cleaned_away_meanwhile_says_so():
    task, plan, store = _overtaken()
    store.settle = lambda: abort_plan(task.context(), plan, "its run looked dead")
    with pytest.raises(PlanEndedError, match="was ended by commit 0 .its run looked dead"):
        task.run(plan)


def test_a_task_of_a_plan_that_was_cleaned_away_has_nothing_to_do_if_all_was_committed():
    task = two_topics()
    plan = task.plan()
    task.run(plan)
    assert not is_long_settled(task.context(), plan.plan, 0)
    commit_plan(task.context(), plan, CommitPolicy())
    for _ in range(50):
        task.clock.advance(HOUR / 1000)
        later = task.plan(("good", 1, 0, 0))
        abort_plan(task.context(), later, "of no matter")
    assert is_long_settled(task.context(), plan.plan, 0)
    assert not is_long_settled(task.context(), "20260101T000000Z-99999999", 0)
    assert not is_long_settled(task.context(), "no name of a plan", 0)


def test_a_task_of_a_plan_that_was_ended_and_cleaned_away_says_where_its_offsets_are():
    task = two_topics()
    plan = task.plan()
    abort_plan(task.context(), plan, "its run is gone")
    with pytest.raises(PlanEndedError, match="was ended by commit 0 .its run is gone.*clear `plan`"):
        is_long_settled(task.context(), plan.plan, 0)


def test_a_task_whose_rest_went_back_says_so_after_its_plan_was_cleaned_away_too():
    task, plan = committed_without_a_rest()
    with pytest.raises(PlanEndedError, match="topic bad: the rest went back in commit 0: clear `plan` or wait for"):
        is_long_settled(task.context(), plan.plan, 0)


def _overtaken() -> tuple[Task, Plan, CleanedStore]:
    store = CleanedStore()
    task = Task(store=store)
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    on_poll(task, 1, lambda: task.run(plan))
    return task, plan, store


def test_a_task_that_is_committed_whole_is_left_alone_when_cleared():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    task.run(plan)
    commit_plan(task.context(), plan, CommitPolicy())
    assert task.run(plan).faults == []
    assert len(task.readers) == 1


def test_a_plan_that_was_ended_reads_nothing():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    abort_plan(task.context(), plan, "the run is gone")
    with pytest.raises(PlanEndedError, match="was ended by commit 0 .the run is gone.*clear `plan`"):
        task.run(plan)
    assert task.readers == []


@pytest.mark.bug(5, 39)
def test_the_slower_of_two_attempts_takes_the_others_manifest_and_leaves_nothing():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    winner: list[Manifest] = []

    def other_attempt() -> None:
        rival = dataclasses.replace(task, seed=50, readers=[])
        task.cluster.on_call = lambda name: None
        winner.append(manifest_of(rival.run(plan)))

    on_poll(task, 1, other_attempt)
    result = task.run(plan)
    assert (result.read, result.made) == (True, False)
    assert result.manifest == winner[0]
    assert {path.split("/")[5] for path in task.staged()} == {winner[0].attempt}


def test_a_stop_while_waiting_for_the_rate_leaves_quickly_too():
    task = Task(reading=ReadOptions(limits=Limits(rate=1)))
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 50, timestamp=MORNING)
    plan = task.plan()
    task.stop.after = 4
    with pytest.raises(Stopped):
        task.run(plan)
    assert task.clock.monotonic() < 2


@pytest.mark.bug(13)
def test_a_bad_quarantine_is_left_behind_by_a_failed_attempt_like_any_file():
    task = Task()
    task.topic(value_format="json", max_bad_share=None)
    task.cluster.produce("events", 0, b"{", b"{}", timestamp=MORNING)
    plan = task.plan()
    counting = FaultyStore(InMemoryStore())
    task.store = counting
    task.run(plan)
    closes = [call.number for call in counting.calls if call.name == "close"]
    for at in closes:
        inner = InMemoryStore()
        task.store = FaultyStore(inner, Fault(at=at, kind=FaultKind.UNAVAILABLE))
        with pytest.raises(StoreUnavailableError):
            task.run(plan)
        task.store = inner
        assert task.staged() == []


def test_staging_that_can_not_be_deleted_stays_for_the_collector():
    task = Task(reading=ReadOptions(batch_records=1))
    task.topic(value_format="avro_confluent")
    schema_id = task.registry.register("events", EVENT)
    task.cluster.produce("events", 0, confluent(schema_id, event(1)), timestamp=MORNING)
    task.cluster.produce("events", 0, b"\x00\x00\x00\x00\x09" + datum(event(1)), timestamp=MORNING)
    plan = task.plan()

    class Undeletable(InMemoryStore):
        def delete(self, path: str, *, recursive: bool = False) -> None:
            raise StoreUnavailableError("delete", path, "not now")

    task.store = Undeletable()
    first = []

    def away_at_the_second_id(name: str) -> None:
        if name == "registry.by_id":
            first.append(name)
            task.registry.down = len(first) == 2

    task.registry._on_call = away_at_the_second_id
    with pytest.raises(RegistryUnavailableError):
        task.run(plan)
    assert len(task.staged()) == 1


def test_a_stop_leaves_quickly_without_a_manifest():
    task = Task(per_poll=1)
    task.topic()
    task.cluster.produce("events", 0, *[b"x"] * 50, timestamp=MORNING)
    plan = task.plan()
    task.stop.after = 5
    with pytest.raises(Stopped):
        task.run(plan)
    assert task.readers[0].closed
    assert manifests(task.context(), plan, 0) == []


@pytest.mark.bug(97)
def test_an_outage_of_the_registry_fails_the_attempt_and_blames_no_record():
    task = Task()
    task.topic(value_format="avro_confluent", time_field="header.time")
    schema_id = task.registry.register("events", EVENT)
    task.cluster.produce("events", 0, confluent(schema_id, event(1)))
    plan = task.plan()
    task.registry.down = True
    with pytest.raises(RegistryUnavailableError):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
    assert task.staged() == []
    task.registry.down = False
    assert task.unit(plan).counts.written == 1


def test_kafka_away_at_the_last_check_fails_the_attempt():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    describes = []

    def on_call(name: str) -> None:
        describes.append(name)
        if describes.count("kafka.describe") == 2:
            raise KafkaUnavailableError("away")

    task.cluster.on_call = on_call
    with pytest.raises(KafkaUnavailableError):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
    assert task.staged() == []


@pytest.mark.parametrize("name", ["create", "write", "close"])
@pytest.mark.bug(6, 7, 8, 34)
def test_a_store_that_fails_once_fails_the_attempt_and_the_next_starts_clean(name):
    def task_on(store) -> Task:
        task = Task(store=store)
        task.topic()
        task.cluster.produce("events", 0, *[b"x" * 1_000] * 100, timestamp=MORNING)
        task.cluster.produce("events", 0, b"z", timestamp=MORNING + HOUR)
        return task

    counting = FaultyStore(InMemoryStore())
    task_on(counting).run()
    calls = [call.number for call in counting.calls if call.name == name]
    assert calls
    for at in calls:
        for kind in (FaultKind.UNAVAILABLE, FaultKind.ANSWER_LOST):
            inner = InMemoryStore()
            task = task_on(FaultyStore(inner, Fault(at=at, kind=kind)))
            plan = task.plan()
            with pytest.raises(StoreUnavailableError):
                task.run(plan)
            assert manifests(task.context(), plan, 0) == []
            task.store = inner
            unit = task.unit(plan)
            assert unit.counts.written == 101
            assert task.staged() == [entry.staged for entry in unit.files]


def test_an_answer_lost_on_the_manifest_keeps_its_files():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", timestamp=MORNING)
    plan = task.plan()
    task.store = FaultyStore(InMemoryStore())
    task.run(plan)
    at = next(call.number for call in task.store.calls if call.name == "put_if_absent")
    inner = InMemoryStore()
    task.store = FaultyStore(inner, Fault(at=at, kind=FaultKind.ANSWER_LOST))
    with pytest.raises(StoreUnavailableError):
        task.run(plan)
    task.store = inner
    result = task.run(plan)
    assert result.read is False
    assert task.staged() == [entry.staged for entry in manifest_of(result).units[0].files]


def test_counts_that_do_not_add_up_never_become_a_manifest():
    task = Task()
    task.topic()
    task.cluster.produce("events", 0, b"x", b"y", timestamp=MORNING)
    plan = task.plan()

    class Forgetful:
        name = "forgetful"

        def __init__(self, route, destination):
            self.to = destination

        def try_take(self, batch, indexes, values):
            self.to.tallies[0].filtered += 1  # the other record is lost without a word
            return ()

    task.fast = Forgetful
    with pytest.raises(CorruptStateError, match="2 offsets and 2 records read"):
        task.run(plan)
    assert manifests(task.context(), plan, 0) == []
