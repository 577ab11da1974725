"""Old runs go from every database, and what is known over all runs stays as it was."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta
from operator import attrgetter

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES
from airflow_kafka_hdfs.exceptions import ConfigError, WarehouseUnavailableError
from airflow_kafka_hdfs.lineage import catalog, traversal
from airflow_kafka_hdfs.lineage.access import EVERYTHING
from airflow_kafka_hdfs.lineage.comparing import compare
from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.message_json import encode
from airflow_kafka_hdfs.lineage.openlineage import EventReader
from airflow_kafka_hdfs.lineage.popularity import by_day
from airflow_kafka_hdfs.lineage.pruning import LOOK_AGAIN, Pruner, Retention, age
from airflow_kafka_hdfs.lineage.repair import RECENT, plan
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.views import to_json
from airflow_kafka_hdfs.lineage.workflow import TaskIo
from airflow_kafka_hdfs.ports.lineage_rows import (
    EdgeRow,
    EdgeRunRow,
    ExportRow,
    JobAttributeRow,
    JobRow,
    OpenLineageEventRow,
    OpenLineageSaidRow,
    PrunedRow,
    RawRow,
    RunRow,
    TaskIoRow,
)
from tests.fakes.lineage import MemoryTopic
from tests.fakes.lineage_messages import START, envelope, report_message, run_message
from tests.fakes.openlineage import event
from tests.fakes.runtime import ManualClock
from tests.unit.lineage.sketch import draw, ds, uses

DAY = timedelta(days=1)
COPY = draw("load(A->B)")
WIDER = draw("load(A->B) >> more(B->C)")
NEVER_CHANGES = [
    kind for kind in TABLES if kind.TABLE.split("_")[0] in ("dataset", "job", "relation", "responsibility", "repair")
    and kind.TABLE != "job_version" or kind.TABLE == "edge_column"
]  # fmt: skip
"""Tables that no deletion touches."""


@pytest.fixture(params=["sqlite", "postgresql", "portable"])
def warehouse(request, tmp_path):
    if request.param == "sqlite":
        found = SqlWarehouse(f"sqlite:///{tmp_path}/lineage.db")
    else:
        server, name = request.getfixturevalue("postgres_server"), request.getfixturevalue("unique_name")
        found = SqlWarehouse(server.create_database(name), portable=request.param == "portable")
    found.migrate()
    yield found
    found.close()


def load(warehouse, *batches, events=()):
    cache, results = GraphCache(), []
    reader = EventReader(LineageSettings())
    for batch in batches:
        with warehouse.transaction() as tx:
            results.append(Merge(tx, cache).apply(batch))
    for body in events:
        with warehouse.transaction() as tx:
            results.append(Merge(tx, cache).apply([], [reader.of(body)]))
    return results


def prune(warehouse, before, **options):
    return Pruner(warehouse, ManualClock(before), **options).run(before)


def every(warehouse, kind):
    names = TABLES[kind].columns.keys()
    with warehouse.reading() as connection:
        rows = connection.execute(sa.select(TABLES[kind])).fetchall()
    return sorted((kind(**dict(zip(names, row, strict=True))) for row in rows), key=attrgetter(*kind.KEY))


def edges(warehouse):
    """The sums over all runs, without what they say of deletions."""
    return [replace(row, pruned_runs=0, pruned_first=None) for row in every(warehouse, EdgeRow)]


def known(warehouse, *, since=True):
    """All that no deletion changes; without `since`, but for when facts of jobs began to hold and pairs ended."""
    found = {kind.TABLE: every(warehouse, kind) for kind in NEVER_CHANGES} | {"edge": edges(warehouse)}
    if not since:
        found["job_attribute"] = [replace(row, changed_at=START) for row in found["job_attribute"]]
        found["job"] = [replace(row, structure_since=START) for row in found["job"]]
        found["edge"] = [replace(row, valid_to=None) for row in found["edge"]]
    return found


def days(numbers, workflow=COPY, **options):
    return [run_message(envelope(day=day, **options), workflow) for day in numbers]


def test_old_runs_go_and_what_is_known_over_all_runs_stays(warehouse):
    load(warehouse, days(range(10)), [report_message(envelope(day=d), TaskIo(task_id="load")) for d in range(10)])
    before = known(warehouse)
    report = prune(warehouse, START + 6 * DAY)
    # The newest old run stays whole; so does the newest old row of the pair, which is its own.
    assert [row.run_id for row in every(warehouse, RunRow)] == [f"scheduled__{day}" for day in range(5, 10)]
    assert [row.run_id for row in every(warehouse, EdgeRunRow)] == [f"scheduled__{day}" for day in range(5, 10)]
    assert len(every(warehouse, TaskIoRow)) == 5
    assert report.rows == {"edge_run": 5, "run": 5, "task_io": 5}
    assert known(warehouse) == before
    (edge,) = every(warehouse, EdgeRow)
    assert (edge.run_count, edge.pruned_runs, edge.pruned_first) == (10, 5, START)


def test_a_dry_run_counts_the_same_and_deletes_nothing(warehouse):
    load(warehouse, days(range(10), WIDER))
    before, moment = every(warehouse, RunRow), START + 6 * DAY
    counted = Pruner(warehouse, ManualClock(moment)).run(moment, dry_run=True)
    assert (every(warehouse, RunRow), every(warehouse, PrunedRow)) == (before, [])
    assert prune(warehouse, moment) == counted
    assert prune(warehouse, moment).rows == {}


def test_a_dry_run_counts_what_goes_since_its_last_run_goes_too(warehouse):
    """Structures, messages that wait for one, and reports of runs that nobody else told of."""
    headless = run_message(envelope(day=3, run_type="manual"), draw("load(A->D)"), with_graph=False)
    alone = [report_message(envelope(day=day, run_type="asset"), TaskIo(task_id="load")) for day in (2, 9)]
    load(warehouse, days([0, 1]), days([2], WIDER), days(range(4, 12)), [headless], alone)
    moment = START + 7 * DAY
    counted = Pruner(warehouse, ManualClock(moment), rows_at_once=6).run(moment, dry_run=True)
    assert (counted.rows["job_version"], counted.rows["lineage_stage"], counted.rows["task_io"]) == (2, 1, 1)
    assert prune(warehouse, moment, rows_at_once=6) == counted


def test_a_message_that_is_read_again_brings_nothing_back_and_counts_nothing_twice(warehouse):
    messages = days(range(10), WIDER)
    load(warehouse, messages)
    prune(warehouse, START + 6 * DAY)
    before = {kind: every(warehouse, kind) for kind in TABLES}
    (result,) = load(warehouse, messages)
    assert result.old == 6
    assert {kind: every(warehouse, kind) for kind in TABLES} == before


def test_a_backfill_of_an_old_date_is_a_new_run(warehouse):
    load(warehouse, days(range(10)))
    prune(warehouse, START + 6 * DAY)
    load(warehouse, days([1], run_type="backfill", emitted=24 * 8))
    assert every(warehouse, EdgeRow)[0].run_count == 11
    assert "backfill__1" in [row.run_id for row in every(warehouse, RunRow)]
    assert prune(warehouse, START + 6 * DAY).rows == {}


def test_a_run_that_was_told_of_since_stays_whole(warehouse):
    late = report_message(envelope(day=1, emitted=24 * 8), TaskIo(task_id="load", reads=uses("A"), writes=uses("B")))
    load(warehouse, days(range(10)), [late])
    prune(warehouse, START + 6 * DAY)
    assert [row.run_id for row in every(warehouse, RunRow)][:2] == ["scheduled__1", "scheduled__5"]


def test_structure_and_attributes_of_a_job_are_older_than_its_oldest_run(warehouse):
    load(warehouse, days(range(2)), days(range(2, 9), WIDER), days([9], WIDER, image="v2"))
    prune(warehouse, START + 6 * DAY)
    before = known(warehouse)
    assert every(warehouse, JobRow)[0].structure_since == START + 2 * DAY
    # A run that comes late, and between others, makes the job's facts from all its runs.
    load(warehouse, days([7], WIDER, run_type="manual"))
    since = {row.name: row.changed_at for row in every(warehouse, JobAttributeRow)}
    assert every(warehouse, JobRow)[0].structure_since == START + 2 * DAY
    assert (since["owners"], since["version.image"]) == (START, START + 9 * DAY)
    assert {row.name: row.changed_at for row in before["job_attribute"]} == since


def test_an_edge_that_is_gone_keeps_its_last_run(warehouse):
    load(warehouse, days(range(3), WIDER), days(range(3, 10)))
    before = edges(warehouse)
    prune(warehouse, START + 8 * DAY)
    assert edges(warehouse) == before
    gone = next(row for row in before if row.valid_to is not None)
    assert (gone.last_seen, gone.run_count, gone.valid_to) == (START + 2 * DAY, 3, START + 3 * DAY)
    # What its job does from now on does not change it.
    load(warehouse, days([10]))
    assert [row for row in edges(warehouse) if row.valid_to] == [gone]


def test_events_and_messages_go_by_age_and_the_newest_message_stays(warehouse):
    topic, clock = MemoryTopic(partitions=1), ManualClock(START)
    loader = Loader(topic, warehouse, clock, topics=["t"])
    for message in days(range(3)):
        topic.send("t", b"k", encode(message))
        topic.flush(1)
        loader.load_available()
        clock.advance(DAY.total_seconds())
    events = [event("START", 0, ["X"], ["Y"])] + [event("RUNNING", 60 * hour, ["X"], ["Y"]) for hour in (1, 2, 24 * 90)]
    load(warehouse, events=events)
    with warehouse.transaction() as tx:
        sent = {"digest": "d", "state": "sent", "status": 200, "attempts": 1, "sent_at": START}
        tx.put([ExportRow(target="p", subject=f"{kind}/j", **sent) for kind in ("job", "run")])
    moment = START + 60 * DAY
    with warehouse.look() as reader:
        loaded = reader.loaded()
    assert prune(warehouse, moment).rows == {
        "edge_run": 2, "run": 2, "lineage_raw": 2, "lineage_export": 1, "openlineage_event": 3
    }  # fmt: skip
    assert [row.offset for row in every(warehouse, RawRow)] == [2]
    with warehouse.look() as reader:
        assert reader.loaded() == loaded == START + 2 * DAY
    # The long run goes on: what its old events said is still known, though they can't be told apart any more.
    assert len(every(warehouse, OpenLineageEventRow)) == 1
    load(warehouse, events=[*events[:3], event("COMPLETE", 60 * 24 * 91, [], [])])
    assert max(row.events for row in every(warehouse, OpenLineageSaidRow)) == 5
    assert [row.last_state for row in every(warehouse, EdgeRow)] == ["written", "written"]
    (run,) = [row for row in every(warehouse, RunRow) if row.origin]
    assert (run.started_at, run.outcome) == (START + timedelta(hours=6), "success")


def describer(reader, now):
    return Describer(reader, EVERYTHING, now, "test")


def test_questions_before_the_kept_range_are_refused_and_those_within_answer_the_same(warehouse):
    load(warehouse, days([0, 1]), days([4, 5, 9, 20], WIDER), days([40]))
    now, moment, job = START + 41 * DAY, START + 8 * DAY, envelope().job.job_id

    def asked():
        with warehouse.look() as reader:
            found = describer(reader, now)
            graphs = [
                to_json(traversal.graph(found, ds("B").key, up=2, down=2, limit=9, as_of=START + day * DAY))
                for day in (0.5, 3, 6, 30, 41)
            ]
            # The run before day 8.5 is a deleted one's successor: the newest old run, which is whole.
            compared = to_json(compare(found, job, START + 8.5 * DAY, now))
            popular = to_json(by_day(found, ds("A").key, days=30))
            return graphs, compared, popular

    before = asked()
    assert prune(warehouse, moment).rows["run"] == 3
    assert asked() == before
    with warehouse.look() as reader:
        found = describer(reader, now)
        with pytest.raises(ConfigError, match=r"at: got '2026-03-04.*2026-03-09.*or later.*lineage prune"):
            compare(found, job, START + 3 * DAY, now)
        with pytest.raises(ConfigError, match="7 days before"):
            plan(found, ds("A").key, moment + RECENT - DAY, now)
        assert plan(found, ds("A").key, moment + RECENT, now).steps
        assert by_day(found, ds("A").key, days=40).kept_since == moment
        assert by_day(found, ds("A").key, days=30).kept_since is None
        assert catalog.job_page(found, job).kept_since == catalog.stats(found).kept_since == moment


def test_a_loader_goes_on_between_the_batches(warehouse):
    load(warehouse, days(range(30)))
    pruner = Pruner(warehouse, ManualClock(START), rows_at_once=30)
    loaded = []
    for number, _ in enumerate(pruner.steps(START + 20 * DAY)):
        thread = threading.Thread(target=load, args=(warehouse, days([100 + number])), daemon=True)
        thread.start()
        thread.join(30)
        loaded.append(not thread.is_alive())
    assert len(loaded) > 4
    assert all(loaded)
    assert every(warehouse, EdgeRow)[0].run_count == 30 + len(loaded)


def test_a_deletion_that_died_is_ended_by_the_next_one(warehouse):
    load(warehouse, days(range(30), WIDER))
    before, moment = known(warehouse), START + 20 * DAY
    pruner = Pruner(warehouse, ManualClock(moment), rows_at_once=30)
    for steps in (2, 3, 2):
        dying = pruner.steps(moment)
        for _ in range(steps):
            next(dying)
        dying.close()
        assert known(warehouse) == before
        assert pruner.finished_at() is None
    pruner.run(moment)
    assert (known(warehouse), pruner.finished_at()) == (before, moment)
    assert len(every(warehouse, RunRow)) == 11


HISTORY = st.lists(
    st.tuples(
        st.integers(0, 12),  # day
        st.sampled_from([COPY, WIDER]),
        st.sampled_from(["success", "failed"]),
        st.integers(0, 1),  # clear number
        st.sampled_from([0, 24 * 5]),  # told so many hours later
        st.sampled_from(["ann", "bob"]),
    ),
    min_size=1,
    max_size=9,
)


def _message(day, workflow, outcome, clear, emitted, owner):
    about = envelope(day=day, clear=clear, emitted=emitted + clear, outcome=outcome, owner=owner)
    return run_message(about, workflow, {(task.task_id, -1): (outcome, 1) for task in workflow.tasks})


def _in_order(messages):
    """Without those of an attempt that are told after its run was cleared and the next attempt told: nobody sends them.

    Such a message changes nothing while the next attempt is known; once that is deleted it looks like a new run.
    """

    def is_late(message):
        run, told = message.envelope.run, message.envelope.emitted_at
        others = [other.envelope for other in messages if other.envelope.run.run_id == run.run_id]
        return any(other.run.clear_number > run.clear_number and other.emitted_at < told for other in others)

    return [message for message in messages if not is_late(message)]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HISTORY, HISTORY, st.integers(2, 12), st.integers(0, 12), st.integers(1, 40))
def test_what_is_known_is_the_same_as_if_nothing_had_been_deleted(tmp_path_factory, first, second, one, other, at_once):
    """Whatever was told before, is told again, and is told after."""
    told, after = _in_order([_message(*item) for item in first]), [_message(*item) for item in second]
    pruned, whole = (SqlWarehouse(f"sqlite:///{tmp_path_factory.mktemp('w')}/w.db") for _ in range(2))
    for warehouse in (pruned, whole):
        warehouse.migrate()
        load(warehouse, told)
    for number in sorted((one, other)):
        moment = START + number * DAY
        # What is loaded for the first time once its time was deleted is not loaded at all.
        after = [message for message in after if message.envelope.emitted_at >= moment]
        # A run that is deleted and then cleared counts as another one: its new message can't be told from a new run's.
        old = {m.envelope.run.run_id for m in told if m.envelope.run.run_after < moment}
        after = [message for message in after if message.envelope.run.run_id not in old]
        counted = Pruner(pruned, ManualClock(moment), rows_at_once=at_once).run(moment, dry_run=True)
        assert prune(pruned, moment, rows_at_once=at_once) == counted
        assert known(pruned) == known(whole)
        load(pruned, told)
        assert known(pruned) == known(whole)
    for warehouse in (pruned, whole):
        load(warehouse, *([message] for message in after))
    # A run of an old date that is told only now may stand between deleted ones: nobody knows what came right after it.
    past = max((m.envelope.run.run_after for m in told if m.envelope.run.run_after < moment), default=START)
    exact = all(message.envelope.run.run_after >= past for message in after)
    assert known(pruned, since=exact) == known(whole, since=exact)
    for warehouse in (pruned, whole):
        warehouse.close()


def test_a_loader_keeps_as_many_days_as_it_is_told(tmp_path):
    warehouse = SqlWarehouse(f"sqlite:///{tmp_path}/lineage.db")
    warehouse.migrate()
    load(warehouse, days(range(10)))
    clock = ManualClock(START + 40 * DAY)
    retention = Retention(Pruner(warehouse, clock), clock, days=35)
    retention.work(60, threading.Event())
    assert [row.run_id for row in every(warehouse, RunRow)] == [f"scheduled__{day}" for day in range(4, 10)]
    clock.advance(2 * DAY.total_seconds() - LOOK_AGAIN.total_seconds() - 60)
    retention.work(60, threading.Event())
    assert len(every(warehouse, RunRow)) == 6
    clock.advance(120)
    retention.work(60, threading.Event())
    assert [row.run_id for row in every(warehouse, RunRow)] == [f"scheduled__{day}" for day in range(6, 10)]
    warehouse.close()


def test_a_deletion_that_finds_the_database_away_begins_anew_later(tmp_path):
    class Away(Pruner):
        """Whose warehouse goes away once."""

        gone = False

        def steps(self, before, *, dry_run=False):
            yield {}
            if not self.gone:
                self.gone = True
                raise WarehouseUnavailableError("away")
            yield from super().steps(before, dry_run=dry_run)

    warehouse = SqlWarehouse(f"sqlite:///{tmp_path}/lineage.db")
    warehouse.migrate()
    load(warehouse, days(range(10)))
    clock = ManualClock(START + 40 * DAY)
    retention = Retention(Away(warehouse, clock), clock, days=35)
    with pytest.raises(WarehouseUnavailableError):
        retention.step()
    assert not retention.step()
    clock.advance(61)
    retention.work(60, threading.Event())
    assert [row.run_id for row in every(warehouse, RunRow)] == [f"scheduled__{day}" for day in range(5, 10)]
    warehouse.close()


@pytest.mark.parametrize("text", ["400", "d", "30d", "4w", "-40d", "4e2d", "400h", "", "999999d", "４００d"])
def test_an_age_that_is_none_or_too_small_is_refused(text):
    with pytest.raises(ConfigError, match="400d or 60w, at least 31d"):
        age(text)
    assert (age("31d"), age("60w")) == (31 * DAY, 420 * DAY)


def test_a_plan_of_what_said_stays_readable(tmp_path):
    warehouse = SqlWarehouse(f"sqlite:///{tmp_path}/lineage.db")
    warehouse.migrate()
    load(warehouse, days(range(10)))
    prune(warehouse, START + 6 * DAY)
    row = every(warehouse, PrunedRow)[-1]
    assert (row.run_id, json.loads(row.said)["owners"]) == ("scheduled__5", ["ann", START.isoformat()])
    warehouse.close()
