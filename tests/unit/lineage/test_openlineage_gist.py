"""A run is folded from the few events that still say something: the result is that of folding them all at once."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.openlineage import EventReader
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.ports.lineage_rows import (
    EdgeRow,
    EdgeRunRow,
    JobRow,
    OpenLineageEventRow,
    OpenLineageSaidRow,
    RunRow,
)
from tests.fakes.lineage import MemoryWarehouse
from tests.fakes.openlineage import at, dag_event, dataset, event, task_event

READER = EventReader(LineageSettings())
NAMES = st.lists(st.sampled_from("ABCD"), max_size=2)


def loaded(*batches):
    warehouse = MemoryWarehouse()
    warehouse.migrate()
    cache = GraphCache()
    for batch in batches:
        with warehouse.transaction() as tx:
            Merge(tx, cache).apply([], [READER.read(json.dumps(body).encode()) for body in batch])
    return warehouse


def rows(warehouse, kind):
    return list(warehouse.tables[kind].values())


def test_a_job_that_only_goes_on_is_kept_in_a_few_events():
    events = [event("START", 0, ["A", "B"], ["Z"])]
    events += [event("RUNNING", minute, ["A", "B"], ["Z"]) for minute in range(1, 60)]
    warehouse = loaded(*([body] for body in events))
    assert len(rows(warehouse, OpenLineageEventRow)) == 60
    kept = rows(warehouse, OpenLineageSaidRow)
    assert sorted((row.happened_at.isoformat(), row.events) for row in kept) == [(at(0), 0), (at(59), 60)]


def test_a_run_that_goes_on_reads_neither_its_job_s_other_runs_nor_those_of_its_edges():
    warehouse = loaded([event("START", 0, ["A"], ["Z"])], [event("COMPLETE", 1, ["A"], ["Z"])])
    read = []

    def note(call):
        read.append(call)

    later = [event("START", 9, ["A"], ["Z"], run=2), event("RUNNING", 10, [], [], run=2)]
    later.append(event("COMPLETE", 11, [], [], run=2))
    for body in later:
        with warehouse.transaction() as tx:
            whole, tx.job_runs = tx.job_runs, lambda job_id: note("runs") or whole(job_id)  # noqa: B023 - called at once
            sums, tx.edge_runs = tx.edge_runs, lambda keys: note(keys) or sums(keys)  # noqa: B023 - called at once
            Merge(tx, GraphCache()).apply([], [READER.of(body)])
    assert [call for call in read if call] == []
    (edge,) = rows(warehouse, EdgeRow)
    assert (edge.run_count, edge.last_state, edge.last_outcome) == (2, "written", "success")
    assert edge.last_success.isoformat() == at(9)
    assert rows(warehouse, JobRow)[0].last_outcome == "success"


def test_a_late_event_that_says_nothing_counts_and_is_not_kept():
    warehouse = loaded(
        [event("START", 0, ["A"], ["Z"])], [event("COMPLETE", 9, ["A"], ["Z"])], [event("RUNNING", 5, ["A"], ["Z"])]
    )
    assert sorted(row.events for row in rows(warehouse, OpenLineageSaidRow)) == [0, 3]
    assert rows(warehouse, RunRow)[0].outcome == "success"


def _facets(draw_):
    """Facets of which each event tells some."""
    job, run = {}, {}
    if draw_(st.booleans()):
        job["ownership"] = {"owners": [{"name": draw_(st.sampled_from(["ann", "bob"])), "type": "OWNER"}]}
    if draw_(st.booleans()):
        job["documentation"] = {"description": draw_(st.sampled_from(["one", "two"]))}
    if draw_(st.booleans()):
        run["nominalTime"] = {"nominalStartTime": at(-60 * draw_(st.integers(0, 2)))}
    if draw_(st.booleans()):
        run["processing_engine"] = {"name": "spark", "version": draw_(st.sampled_from(["3", "4"]))}
    if draw_(st.booleans()):
        run["errorMessage"] = {"message": draw_(st.sampled_from(["no room", "no way"])), "programmingLanguage": "JVM"}
    if draw_(st.booleans()):
        sources = [{"namespace": "test", "name": name, "type": "DATASET"} for name in draw_(NAMES)]
        target = {"namespace": "test", "name": draw_(st.sampled_from("YZ")), "type": "DATASET", "inputs": sources}
        job["lineage"] = {"entries": [target]}
    return {"job_facets": job, "run_facets": run}


def _output(draw_):
    fields = {"x": {"inputFields": [{"namespace": "test", "name": draw_(st.sampled_from("AB")), "field": "y"}]}}
    told = {"columnLineage": {"fields": fields}} if draw_(st.booleans()) else {}
    return dataset(
        draw_(st.sampled_from("YZ")), **told, datasetType={"datasetType": draw_(st.sampled_from(["", "TEMPORARY"]))}
    )


@st.composite
def histories(draw_):
    """Events of a job with one task, and of a DAG that is cleared, its tasks tried and mapped; in some order."""
    kinds = st.sampled_from(["START", "RUNNING", "RUNNING", "OTHER", "COMPLETE", "FAIL"])
    found = [
        event(draw_(kinds), draw_(st.integers(0, 6)), draw_(NAMES), [_output(draw_)], **_facets(draw_))
        for _ in range(draw_(st.integers(1, 6)))
    ]
    for clear in range(draw_(st.integers(0, 2))):
        found.append(dag_event("START", clear * 5, graph={"r": ["w"], "w": []}, clear=clear))
        states = {"r": "success", "w": draw_(st.sampled_from(["success", "failed", "skipped"]))}
        found.append(dag_event(draw_(kinds), draw_(st.integers(0, 9)), states=states, clear=clear))
    for _ in range(draw_(st.integers(0, 5))):
        found.append(
            task_event(
                draw_(kinds), draw_(st.integers(1, 9)), draw_(st.sampled_from("rw")), draw_(NAMES), draw_(NAMES),
                clear=draw_(st.integers(0, 1)), attempt=draw_(st.integers(1, 2)),
                map_index=draw_(st.sampled_from([None, 0, 1])),
            )
        )  # fmt: skip
    return found, draw_(st.permutations(found)), draw_(st.integers(0, len(found)))


@settings(max_examples=25, deadline=None)
@given(histories())
def test_one_by_one_in_any_order_is_all_at_once(history):
    events, shuffled, half = history
    truth = loaded(events).tables
    assert loaded(*([body] for body in shuffled)).tables == truth
    assert loaded(shuffled[:half], shuffled[half:], shuffled).tables == truth


def test_what_is_kept_is_what_a_fold_of_everything_reads():
    events = [event("RUNNING", minute, ["A"], ["Z"]) for minute in range(9)]
    warehouse = loaded(events)
    said = [replace(row, events=0) for row in rows(warehouse, OpenLineageSaidRow)]
    again = loaded([body for body in events if READER.of(body).event_id in {row.event_id for row in said}])
    assert [replace(row, emitted_at=None) for row in rows(again, EdgeRunRow)] == [
        replace(row, emitted_at=None) for row in rows(warehouse, EdgeRunRow)
    ]
