"""The loader: each message once, whatever dies in between."""

from __future__ import annotations

import gc
from contextlib import contextmanager

import pytest

from airflow_kafka_hdfs.exceptions import KafkaUnavailableError, LineageError, WarehouseUnavailableError
from airflow_kafka_hdfs.lineage.events import RunMessage, message_key
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.lineage.message_json import encode
from airflow_kafka_hdfs.lineage.storage_text import LARGEST_PLAIN, pack, unpack
from airflow_kafka_hdfs.lineage.workflow import TaskIo, TaskSpec, Workflow
from airflow_kafka_hdfs.ports.lineage_rows import EdgeRow, OffsetRow, RawRow, RunRow
from tests.fakes.lineage import MemoryTopic, MemoryWarehouse
from tests.fakes.lineage_messages import edge_message, envelope, report_message, run_message
from tests.fakes.runtime import ManualClock

from .sketch import draw, ds, uses

TOPIC = "airflow.lineage"
DEAD = "airflow.lineage.dlq"


class Stop:
    """Stops after some looks."""

    def __init__(self, after: int) -> None:
        self.left = after

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def a_weeks_messages():
    workflow = draw("e(A->) >> w(->B)")
    found = []
    for day in range(7):
        about = envelope(day=day)
        found.append(edge_message(about, ds("A"), ds("B")))
        found.append(report_message(about, TaskIo(task_id="w", writes=uses("Z"))))
        found.append(run_message(about, workflow, with_graph=day % 2 == 0))
    return found


def filled_topic(messages=None, made=None):
    topic = made if made is not None else MemoryTopic()
    for message in messages if messages is not None else a_weeks_messages():
        topic.send(TOPIC, message_key(message.envelope), encode(message))
    topic.flush(1)
    return topic


def loader(topic, warehouse, **options):
    warehouse.migrate()
    return Loader(topic, warehouse, ManualClock(), **{"topics": [TOPIC], "max_letters": 4, **options})


def tables(warehouse):
    return {kind: rows for kind, rows in warehouse.tables.items() if kind is not RawRow}


@pytest.fixture
def truth():
    warehouse = MemoryWarehouse()
    loader(filled_topic(), warehouse, max_letters=1000).load_available()
    assert len(warehouse.tables[RunRow]) == 7
    return tables(warehouse)


def test_everything_up_to_the_end_is_loaded_once(truth):
    warehouse = MemoryWarehouse()
    topic = filled_topic()
    report = loader(topic, warehouse).load_available()
    assert (report.letters, report.bad, len(warehouse.tables[RawRow])) == (21, 0, 21)
    assert tables(warehouse) == truth
    assert loader(topic, warehouse).load_available().letters == 0


def test_a_warehouse_that_goes_away_at_any_call_loses_and_doubles_nothing(truth):
    for calls in range(1000):
        warehouse, topic = MemoryWarehouse(), filled_topic()
        job = loader(topic, warehouse)
        warehouse.calls_until_away = calls
        try:
            job.load_available()
        except WarehouseUnavailableError:
            warehouse.calls_until_away = None
            job.load_available()
            assert tables(warehouse) == truth, calls
            assert len(warehouse.tables[RawRow]) == 21
        else:
            break
    else:
        pytest.fail("the loader never came through")


def test_the_long_running_loader_waits_for_the_warehouse_and_goes_on(truth):
    warehouse, topic = MemoryWarehouse(), filled_topic()
    job = loader(topic, warehouse)
    warehouse.calls_until_away = 20
    clock = job._clock

    def come_back(_seconds):
        if len(clock.sleeps) == 3:
            warehouse.calls_until_away = None

    clock.on_sleep = come_back
    job.load_forever(Stop(40))
    assert tables(warehouse) == truth
    assert clock.sleeps == [1.0, 2.0, 5.0]


def test_the_long_running_loader_waits_for_kafka_and_loses_nothing_of_what_it_had_read(truth):
    class Torn(MemoryTopic):
        polls = 0

        def poll(self, max_letters, timeout):
            found = super().poll(max_letters, timeout)
            self.polls += 1
            if self.polls in (2, 3):
                raise KafkaUnavailableError("brokers: away")
            return found

    warehouse, topic, noticed = MemoryWarehouse(), filled_topic(made=Torn()), []
    job = loader(topic, warehouse, on_outage=lambda error: noticed.append(str(error)))
    job.load_forever(Stop(40))
    assert tables(warehouse) == truth
    assert (noticed, job._clock.sleeps) == (["brokers: away"] * 2, [1.0, 2.0])


def test_two_loaders_side_by_side_load_each_message_once(truth):
    warehouse, topic, same = MemoryWarehouse(), filled_topic(), filled_topic()
    one, other = loader(topic, warehouse), loader(same, warehouse)
    reports = [one.load_available(Stop(2)), other.load_available(Stop(3)), one.load_available(), other.load_available()]
    assert sum(report.letters for report in reports) == 21
    assert tables(warehouse) == truth


def test_a_bad_message_is_kept_with_its_problem_and_sent_on():
    topic, warehouse, dead = filled_topic(), MemoryWarehouse(), MemoryTopic()
    for value in (b"\xff\x00 nonsense", b'{"schema_version": 7}'):
        topic.send(TOPIC, b"k", value)
    topic.flush(1)
    report = loader(topic, warehouse, dead_letters=dead, dead_letter_topic=DEAD).load_available()
    assert (report.letters, report.bad) == (23, 2)
    problems = [row for row in warehouse.tables[RawRow].values() if row.problem]
    assert {row.type for row in problems} == {"invalid"}
    assert "\x00" not in problems[0].body
    assert {value for _, _, value in dead.sent} == {b"\xff\x00 nonsense", b'{"schema_version": 7}'}
    assert dead.sent[0][0] == DEAD


def test_a_run_whose_tasks_wait_for_each_other_stops_nobody_else(truth):
    topic, warehouse, dead = filled_topic(), MemoryWarehouse(), MemoryTopic()
    circle = Workflow(tasks=(TaskSpec(task_id="a", upstream=("b",)), TaskSpec(task_id="b", xcom=("a",))))
    about = envelope("circle")
    sent = encode(RunMessage(envelope=about, structure_hash=circle.structure_hash, graph=circle))
    topic.send(TOPIC, message_key(about), sent)
    topic.flush(1)
    report = loader(topic, warehouse, dead_letters=dead, dead_letter_topic=DEAD).load_available()
    assert (report.letters, report.bad) == (22, 1)
    (problem,) = [row.problem for row in warehouse.tables[RawRow].values() if row.problem]
    assert "wait for each other in a circle: ['a', 'b', 'a']" in problem or "['b', 'a', 'b']" in problem
    assert [value for _, _, value in dead.sent] == [sent]
    assert {**tables(warehouse), OffsetRow: truth[OffsetRow]} == truth


class Picky(MemoryWarehouse):
    """A database that refuses runs of some jobs."""

    def __init__(self, *bad):
        super().__init__()
        self.bad = frozenset(bad)

    @contextmanager
    def transaction(self):
        with super().transaction() as tx:
            put = tx.put

            def judged(rows):
                for row in rows:
                    if isinstance(row, RunRow) and row.job_id in self.bad:
                        raise LineageError(f"job {row.job_id}: value too long")
                put(rows)

            tx.put = judged
            yield tx


@pytest.mark.parametrize("at_once", [1, 4, 1000])
def test_a_message_that_cannot_be_merged_stops_none_of_the_others(truth, at_once):
    odd = [run_message(envelope(f"odd{number}"), draw("x(P->Q)")) for number in range(3)]
    good = a_weeks_messages()
    topic = filled_topic([*good[:5], odd[0], *good[5:9], *odd[1:], *good[9:]])
    warehouse, dead = Picky(*(message.envelope.job.job_id for message in odd)), MemoryTopic()
    job = loader(topic, warehouse, max_letters=at_once, dead_letters=dead, dead_letter_topic=DEAD)
    report = job.load_available()
    assert (report.letters, report.bad) == (24, 3)
    assert {**tables(warehouse), OffsetRow: truth[OffsetRow]} == truth
    problems = {row.problem for row in warehouse.tables[RawRow].values() if row.problem}
    assert problems == {f"it can't be merged: LineageError: job {m.envelope.job.job_id}: value too long" for m in odd}
    assert {value for _, _, value in dead.sent} == {encode(message) for message in odd}
    topic.send(TOPIC, b"k", encode(run_message(envelope("late"), draw("x(P->Q)"))))
    topic.flush(1)
    assert job.load_available().bad == 0


def test_when_no_message_can_be_merged_the_loader_stops_instead_of_throwing_all_away():
    messages = [run_message(envelope(f"m{number}"), draw("x(P->Q)")) for number in range(30)]
    warehouse, dead = Picky(*(message.envelope.job.job_id for message in messages)), MemoryTopic()
    job = loader(filled_topic(messages), warehouse, dead_letters=dead, dead_letter_topic=DEAD)
    with pytest.raises(LineageError, match="value too long"):
        job.load_available()
    assert len(warehouse.tables[RawRow]) == len({value for _, _, value in dead.sent}) == 20


def test_a_topic_that_was_made_anew_is_read_from_its_start(truth):
    topic, warehouse = filled_topic(), MemoryWarehouse()
    loader(topic, warehouse).load_available()
    topic.recreate(TOPIC)
    message = run_message(envelope("other", 1), draw("x(P->Q)"))
    topic.send(TOPIC, message_key(message.envelope), encode(message))
    topic.flush(1)
    assert loader(topic, warehouse).load_available().letters == 1
    assert len(warehouse.tables[EdgeRow]) == len(truth[EdgeRow]) + 1


def test_missing_tables_stop_the_loader_with_the_command():
    with pytest.raises(LineageError, match="lineage init"):
        Loader(filled_topic(), MemoryWarehouse(), ManualClock(), topics=[TOPIC]).load_available()


def test_the_report_counts_new_and_updated_jobs():
    messages = [run_message(envelope(day=1), draw("t(A->B)")), run_message(envelope(day=2), draw("t(A->C)"))]
    report = loader(filled_topic(messages), MemoryWarehouse(), max_letters=1).load_available()
    assert report.to_json() == {
        "letters": 2, "old": 0, "bad": 0, "batches": 2, "runs": 2, "edges": 2, "waiting": 0,
        "new_jobs": 1, "updated_jobs": 1,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "{}", "ü" * 10, "x" * LARGEST_PLAIN, "ab" * LARGEST_PLAIN, "zlib:x" * 20_000])
def test_long_texts_are_packed_and_come_back(text):
    packed = pack(text)
    assert unpack(packed) == text
    assert len(packed.encode()) <= LARGEST_PLAIN


@pytest.mark.parametrize("on", [True, False])
def test_a_batch_leaves_the_collection_of_garbage_as_it_was(on):
    topic, warehouse = MemoryTopic(), MemoryWarehouse()
    warehouse.migrate()
    topic.send("lineage", b"k", b"no message")
    topic.flush(1)
    loader = Loader(topic, warehouse, ManualClock(), topics=["lineage"])
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        assert loader.load_available().bad == 1
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()
