"""What messages make of the warehouse."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.events import DatasetDetail
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.identity import digest
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.workflow import TaskIo, Workflow
from airflow_kafka_hdfs.ports.lineage_rows import (
    DatasetAliasRow,
    DatasetRow,
    DatasetSchemaRow,
    EdgeColumnRow,
    EdgeRow,
    EdgeRunRow,
    JobAttributeRow,
    JobRow,
    JobVersionRow,
    RelationRow,
    RunRow,
    StageRow,
)
from tests.fakes.lineage import MemoryWarehouse
from tests.fakes.lineage_messages import START, edge_message, envelope, report_message, run_message

from .sketch import draw, ds, uses

DAY = timedelta(days=1)
COPY = draw("load(A->B)")
WIDER = draw("load(A->B) >> more(B->C)")
OTHER = draw("load(A->D)")


def merged(*batches, warehouse=None):
    warehouse = warehouse or MemoryWarehouse()
    warehouse.migrate()
    cache, results = GraphCache(), []
    for batch in batches:
        with warehouse.transaction() as tx:
            results.append(Merge(tx, cache).apply(batch))
    return warehouse, results


def rows(warehouse, kind):
    return list(warehouse.tables[kind].values())


def edges(warehouse):
    """`A>B` -> row, for datasets of one letter."""
    names = {row.dataset_id: row.name for row in rows(warehouse, DatasetRow)}
    return {f"{names[row.source_id]}>{names[row.target_id]}": row for row in rows(warehouse, EdgeRow)}


def only(warehouse, kind):
    (row,) = rows(warehouse, kind)
    return row


def test_a_run_makes_its_edges_datasets_job_and_relations():
    warehouse, (result,) = merged([run_message(envelope(day=1), WIDER)])
    assert set(edges(warehouse)) == {"A>B", "B>C"}
    edge = edges(warehouse)["A>B"]
    assert (edge.first_seen, edge.last_success, edge.run_count) == (START + DAY, START + DAY, 1)
    assert (edge.last_state, edge.last_outcome, edge.evidence, edge.self) == ("written", "success", "declared", False)
    assert {row.name for row in rows(warehouse, DatasetRow)} == {"A", "B", "C"}
    job = only(warehouse, JobRow)
    assert (job.dag_id, job.owners, job.last_outcome, job.structure_since) == ("dag", "ann", "success", START + DAY)
    relations = {(row.dataset_id, row.direction) for row in rows(warehouse, RelationRow)}
    assert relations == {
        (ds("A").key, "input"), (ds("B").key, "input"), (ds("B").key, "output"), (ds("C").key, "output")
    }  # fmt: skip
    assert result.new_jobs == (job.job_id,)
    assert only(warehouse, RunRow).pairs == 2


def test_a_changed_structure_is_detected_and_ends_the_edges_it_lost():
    warehouse, results = merged(
        [run_message(envelope(day=1), WIDER)],
        [run_message(envelope(day=2), WIDER)],
        [run_message(envelope(day=3), COPY)],
    )
    assert [bool(r.new_jobs) for r in results] == [True, False, False]
    assert [bool(r.updated_jobs) for r in results] == [False, False, True]
    found = edges(warehouse)
    assert found["B>C"].valid_to == START + 3 * DAY
    assert found["A>B"].valid_to is None
    assert found["A>B"].run_count == 3
    assert {v.valid_from for v in rows(warehouse, JobVersionRow)} == {START + DAY, START + 3 * DAY}


def test_a_structure_that_comes_back_revives_its_edges():
    warehouse, _ = merged([run_message(envelope(day=d), w) for d, w in ((1, WIDER), (2, COPY), (3, WIDER))])
    assert edges(warehouse)["B>C"].valid_to is None
    assert only(warehouse, JobRow).structure_since == START + 3 * DAY


def test_a_failed_run_ends_no_edge():
    failed = run_message(envelope(day=2, outcome="failed"), WIDER, {("load", -1): ("failed", 3)})
    warehouse, _ = merged([run_message(envelope(day=1), WIDER)], [failed])
    edge = edges(warehouse)["A>B"]
    assert (edge.valid_to, edge.last_state, edge.last_outcome) == (None, "failed", "failed")
    assert edge.last_success == START + DAY


def test_a_report_that_comes_after_its_run_is_merged_into_it():
    workflow = draw("e(A->) >> w()")
    report = report_message(envelope(), TaskIo(task_id="w", writes=uses("Z")))
    for batches in ([[run_message(envelope(), workflow)], [report]], [[report], [run_message(envelope(), workflow)]]):
        warehouse, _ = merged(*batches)
        assert set(edges(warehouse)) == {"A>Z"}
        assert edges(warehouse)["A>Z"].last_declared is None


def test_a_cleared_run_takes_the_place_of_the_first_one():
    first = run_message(envelope(outcome="failed"), COPY, {("load", -1): ("failed", 1)})
    again = run_message(envelope(clear=1, emitted=5), OTHER)
    for batches in ([[first], [again]], [[again], [first]], [[first, again]]):
        warehouse, _ = merged(*batches)
        assert set(edges(warehouse)) == {"A>D"}
        assert only(warehouse, RunRow).clear_number == 1


def test_reports_of_an_earlier_clearing_do_not_count():
    workflow = draw("e(A->) >> w()")
    stale = report_message(envelope(clear=0), TaskIo(task_id="w", try_number=9, writes=uses("X")))
    warehouse, _ = merged([stale], [run_message(envelope(clear=1), workflow)])
    assert edges(warehouse) == {}


def test_a_run_waits_for_its_graph_and_shows_its_edge_messages_meanwhile():
    waiting = run_message(envelope(day=2), COPY, with_graph=False)
    told = edge_message(envelope(day=2), ds("A"), ds("X"))
    warehouse, (result,) = merged([told, waiting])
    assert (result.waiting, set(edges(warehouse))) == (1, {"A>X"})
    assert only(warehouse, StageRow).run_id == "scheduled__2"
    merged([run_message(envelope(day=1), COPY)], warehouse=warehouse)
    assert set(edges(warehouse)) == {"A>B"}
    assert edges(warehouse)["A>B"].run_count == 2
    assert rows(warehouse, StageRow) == []


def test_edge_messages_alone_make_edges_and_a_job():
    warehouse, _ = merged([edge_message(envelope(), ds("A"), ds("B"))])
    assert set(edges(warehouse)) == {"A>B"}
    assert only(warehouse, JobRow).owners == "ann"


def test_more_pairs_than_the_limit_leave_relations():
    sources = ", ".join(f"r{i}(S{i}->)" for i in range(101))
    targets = ", ".join(f"w{i}(->T{i})" for i in range(101))
    warehouse, _ = merged([run_message(envelope(), draw(f"[{sources}] >> j() >> [{targets}]"))])
    assert rows(warehouse, EdgeRow) == []
    run = only(warehouse, RunRow)
    assert (run.compressed, run.pairs) == (True, 101 * 101)
    assert len(rows(warehouse, RelationRow)) == 202


def test_columns_are_those_of_the_newest_run():
    def with_column(field):
        column = ColumnEdge(ds("A"), field, ds("B"), "b")
        return draw("load(A->B)", load={"columns": (column,)})

    batches = [[run_message(envelope(day=d), with_column(f))] for d, f in ((1, "old"), (2, "new"))]
    for order in (batches, batches[::-1]):
        warehouse, _ = merged(*order)
        assert only(warehouse, EdgeColumnRow).source_col == "new"


def test_schemas_and_aliases_of_datasets_are_kept():
    detail = DatasetDetail(
        dataset=ds("A"), schema_id="7", schema_version="2", aliases=(ds("old"),), fields=(("id", "int", "The id."),)
    )
    older = replace(detail, schema_id="5", schema_version="1")
    messages = [
        replace(edge_message(envelope(day=d), ds("A"), ds("B")), source=found) for d, found in ((1, older), (2, detail))
    ]
    for order in (messages, messages[::-1]):
        warehouse, _ = merged(*[[m] for m in order])
        newest = next(row for row in rows(warehouse, DatasetRow) if row.name == "A")
        assert (newest.schema_id, newest.schema_version) == ("7", "2")
        versions = {row.schema_version: row for row in rows(warehouse, DatasetSchemaRow)}
        assert json.loads(versions["2"].fields) == [["id", "int", "The id."]]
        assert versions["1"].schema_id == "5"
        assert only(warehouse, DatasetAliasRow).dataset_id == ds("A").key


def test_frequency_failing_and_attributes_follow_from_the_runs():
    messages = [
        run_message(envelope(day=d, outcome="failed" if d > 3 else "success", image="v2" if d >= 4 else "v1"), COPY)
        for d in range(1, 7)
    ]
    warehouse, _ = merged(messages)
    job = only(warehouse, JobRow)
    assert (job.frequency, job.period_seconds, job.failing) == ("daily", 86_400, True)
    image = next(row for row in rows(warehouse, JobAttributeRow) if row.name == "version.image")
    assert (image.value, image.changed_at, image.attribute_id) == (
        "v2", START + 4 * DAY, digest(job.job_id, "version.image")
    )  # fmt: skip


def test_failed_backfills_make_no_job_failing():
    warehouse, _ = merged(
        [run_message(envelope(day=d, outcome="failed", run_type="backfill"), COPY) for d in range(1, 6)]
    )
    assert only(warehouse, JobRow).failing is False


def test_a_task_that_died_unheard_is_named_in_its_run():
    lost = report_message(envelope(), TaskIo(task_id="load", state="failed", complete=False))
    warehouse, _ = merged([lost, run_message(envelope(outcome="failed"), COPY, {("load", -1): ("failed", 1)})])
    assert json.loads(only(warehouse, RunRow).incomplete) == ["load"]


# Laws.

WORKFLOWS = [COPY, WIDER, OTHER, draw("e(A->) >> [p(), q(->C)] >> w()"), draw("e(A->tmp) >> w(tmp->B)")]
REPORTS = [
    TaskIo(task_id="w", try_number=t, writes=uses(names), state=state, map_index=index)
    for t, names, state, index in ((1, "X", "failed", -1), (2, "Y", "success", -1), (1, "B,C", "success", 0))
]


@st.composite
def message_sets(draw_):
    """Some runs of two DAGs: run messages, reports and edge messages, superseded ones among them."""
    messages = []
    for _ in range(draw_(st.integers(1, 7))):
        about = envelope(
            draw_(st.sampled_from(["one", "two"])),
            draw_(st.integers(0, 3)),
            clear=draw_(st.integers(0, 1)),
            emitted=draw_(st.integers(0, 2)),
            outcome=draw_(st.sampled_from(["success", "failed"])),
        )
        about = replace(about, job=replace(about.job, owners=(f"owner{about.emitted_at.day % 3}",)))
        kind = draw_(st.sampled_from(["run", "run", "bare run", "report", "edge"]))
        workflow = draw_(st.sampled_from(WORKFLOWS))
        if kind == "report":
            messages.append(report_message(about, draw_(st.sampled_from(REPORTS))))
        elif kind == "edge":
            ends = draw_(st.sampled_from([("A", "B"), ("A", "X"), ("Q", "C")]))
            messages.append(edge_message(about, *map(ds, ends)))
        else:
            states = {
                (t.task_id, -1): (draw_(st.sampled_from(["success", "success", "failed", "skipped"])), 1)
                for t in workflow.tasks
            }
            messages.append(run_message(about, workflow, states, with_graph=kind == "run"))
    return messages


def with_every_graph(messages):
    """A run whose graph never arrives may show more or less of its edge messages: send every graph in the end."""
    wanted = {(m.envelope.job.dag_id, m.structure_hash) for m in messages if hasattr(m, "structure_hash")}
    by_hash = {workflow.structure_hash: workflow for workflow in WORKFLOWS}
    extra = []
    for number, (dag_id, found) in enumerate(sorted(wanted)):
        about = envelope(dag_id, 50 + number)
        extra.append(run_message(about, by_hash[found]))
    return messages + extra


def tables(warehouse):
    return {kind.TABLE: found for kind, found in warehouse.tables.items() if found}


@settings(max_examples=100, deadline=None)
@given(message_sets(), st.randoms(use_true_random=False))
def test_order_repetition_and_batching_of_messages_never_matter(messages, chance: random.Random):
    messages = with_every_graph(messages)
    one, _ = merged(messages)
    again = messages + [m for m in messages if chance.random() < 0.4]
    chance.shuffle(again)
    batches = []
    while again:
        size = chance.randint(1, 4)
        batches.append(again[:size])
        again = again[size:]
    other, _ = merged(*batches)
    assert tables(one) == tables(other)


@settings(max_examples=60, deadline=None)
@given(message_sets())
def test_an_edge_is_the_sum_of_its_runs(messages):
    warehouse, _ = merged(*[[m] for m in messages])
    per_edge = {}
    for row in rows(warehouse, EdgeRunRow):
        per_edge.setdefault((row.job_id, row.source_id, row.target_id), []).append(row)
    found = {(row.job_id, row.source_id, row.target_id): row for row in rows(warehouse, EdgeRow)}
    assert found.keys() == per_edge.keys()
    for key, runs in per_edge.items():
        edge, last = found[key], max(runs, key=lambda row: (row.run_after, row.run_id))
        assert edge.run_count == len(runs)
        assert (edge.first_seen, edge.last_seen) == (min(r.run_after for r in runs), last.run_after)
        assert (edge.last_state, edge.last_run_id, edge.evidence) == (last.state, last.run_id, last.evidence)
        assert edge.last_success == max((r.run_after for r in runs if r.state == "written"), default=None)
        assert edge.last_declared == max((r.run_after for r in runs if r.declared), default=None)


def test_an_empty_workflow_is_a_run_without_pairs():
    warehouse, _ = merged([run_message(envelope(), Workflow(tasks=()))])
    assert rows(warehouse, EdgeRow) == []
    assert only(warehouse, RunRow).pairs == 0
