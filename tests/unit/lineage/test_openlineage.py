"""Events of OpenLineage: what they mean, in whatever order and however often they come."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.events import MessageError
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.openlineage import EventReader
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.ports.lineage_rows import (
    DatasetAliasRow,
    DatasetRow,
    DatasetSchemaRow,
    EdgeColumnRow,
    EdgeRow,
    EdgeRunRow,
    JobRow,
    RawRow,
    RunRow,
)
from tests.fakes.lineage import MemoryTopic, MemoryWarehouse
from tests.fakes.lineage_messages import envelope, run_message
from tests.fakes.openlineage import START, at, dag_event, dataset, event, task_event
from tests.fakes.runtime import ManualClock

from .sketch import draw

READER = EventReader(LineageSettings())
ETL = {"read": ["clean"], "clean": ["write"], "write": []}


def read(body):
    return READER.read(json.dumps(body).encode())


def loaded(*batches, warehouse=None):
    warehouse = warehouse or MemoryWarehouse()
    warehouse.migrate()
    cache = GraphCache()
    for batch in batches:
        with warehouse.transaction() as tx:
            Merge(tx, cache).apply([], [read(body) for body in batch])
    return warehouse


def rows(warehouse, kind):
    return list(warehouse.tables[kind].values())


def pairs(warehouse):
    """`A>B` -> state of its last run."""
    names = {row.dataset_id: row.name for row in rows(warehouse, DatasetRow)}
    return {f"{names[row.source_id]}>{names[row.target_id]}": row.last_state for row in rows(warehouse, EdgeRow)}


def only(warehouse, kind):
    (row,) = rows(warehouse, kind)
    return row


def column(source, name, **transformation):
    return {"namespace": "test", "name": source, "field": name, "transformations": [transformation]}


def test_what_several_events_of_a_run_name_adds_up():
    warehouse = loaded([event("START", 0, ["A"]), event("RUNNING", 1, ["B"]), event("COMPLETE", 2, [], ["Z"])])
    assert pairs(warehouse) == {"A>Z": "written", "B>Z": "written"}
    run, job = only(warehouse, RunRow), only(warehouse, JobRow)
    assert (run.outcome, run.started_at, run.ended_at.isoformat()) == ("success", START, at(2))
    assert (job.instance, job.dag_id, job.domain, job.last_outcome) == ("spark", "app", "OpenLineage", "success")


@pytest.mark.parametrize(
    ("kind", "outcome", "state"),
    [("FAIL", "failed", "failed"), ("ABORT", "failed", "failed"), (None, "running", "unknown")],
)
def test_a_run_that_did_not_complete_has_written_nothing_for_sure(kind, outcome, state):
    events = [event("START", 0, ["A"], ["Z"])]
    if kind:
        facets = {"errorMessage": {"message": "no room\nat secret line", "programmingLanguage": "JVM"}}
        events.append(event(kind, 1, run_facets=facets))
    warehouse = loaded(events)
    run = only(warehouse, RunRow)
    assert (run.outcome, run.reason, pairs(warehouse)) == (outcome, "no room" if kind else "", {"A>Z": state})


def test_a_stream_that_runs_writes():
    facets = {"jobType": {"processingType": "STREAMING", "integration": "FLINK"}}
    warehouse = loaded([event("START", 0, job_facets=facets), event("RUNNING", 1, ["A"], ["Z"], job_facets=facets)])
    assert (pairs(warehouse), only(warehouse, JobRow).domain) == ({"A>Z": "written"}, "Flink")


WHO = {"name": "who", "type": "struct", "fields": [{"name": "name", "type": "string"}]}


def test_facets_become_facts():
    warehouse = loaded([
        event(
            "COMPLETE",
            3,
            [dataset("a/b/", "hdfs://NN:8020")],
            [dataset("db.t", "hive://meta:9083", symlinks={"identifiers": [dataset("/w/t", "hdfs://nn:8020")]},
                     schema={"fields": [{"name": "id", "type": "long", "description": "key"}, WHO]})],
            job_facets={
                "ownership": {"owners": [{"name": "team:core", "type": "OWNER"}]},
                "tags": {"tags": [{"key": "team", "value": "core"}, {"key": "daily", "value": "true"}]},
                "documentation": {"description": "sums up"},
                "sourceCodeLocation": {"url": "https://git/x/job.py", "path": "job.py", "version": "abc"},
            },
            run_facets={
                "nominalTime": {"nominalStartTime": "2026-03-01T00:00:00Z", "nominalEndTime": "2026-03-02T00:00:00Z"},
                "parent": {"job": {"namespace": "other", "name": "dag.task"}, "run": {"runId": "x"}},
                "processing_engine": {"name": "spark", "version": "4.0", "openlineageAdapterVersion": "1.54.0"},
            },
        )
    ])  # fmt: skip
    job, run = only(warehouse, JobRow), only(warehouse, RunRow)
    assert (job.owners, job.team, job.tags, job.description) == ("team:core", "core", "daily, team:core", "sums up")
    assert (job.config_file, job.relative_fileloc) == ("https://git/x/job.py", "job.py")
    assert (run.run_type, run.triggered_by, run.logical_date.isoformat()) == (
        "scheduled", "other/dag.task", "2026-03-01T00:00:00+00:00"
    )  # fmt: skip
    assert json.loads(run.versions) == {"provider": "1.54.0", "bundle_version": "abc", "service": "spark 4.0"}
    names = {(row.ns, row.name) for row in rows(warehouse, DatasetRow)}
    assert names == {("hdfs://nn:8020", "/a/b"), ("hive://meta:9083", "db.t")}
    assert (only(warehouse, DatasetAliasRow).name, only(warehouse, DatasetAliasRow).ns) == ("/w/t", "hdfs://nn:8020")
    schema = json.loads(only(warehouse, DatasetSchemaRow).fields)
    assert schema == [["id", "long", "key"], ["who", "struct", ""], ["who.name", "string", ""]]


class TestWhatFeedsAnOutput:
    def test_is_every_input_if_the_event_says_no_more(self):
        assert set(pairs(loaded([event("COMPLETE", 0, ["A", "B"], ["Y", "Z"])]))) == {"A>Y", "A>Z", "B>Y", "B>Z"}

    def test_is_what_column_lineage_names(self):
        facet = {
            "fields": {"y": {"inputFields": [column("A", "x", type="DIRECT", subtype="AGGREGATION", masking=True)]}},
            "dataset": [column("B", "k", type="INDIRECT", subtype="FILTER")],
        }
        warehouse = loaded([event("COMPLETE", 0, ["A", "B", "C"], [dataset("Y", columnLineage=facet), "Z"])])
        assert set(pairs(warehouse)) == {"A>Y", "B>Y", "A>Z", "B>Z", "C>Z"}
        found = {(r.source_col, r.target_col, r.direct, r.subtype, r.masking) for r in rows(warehouse, EdgeColumnRow)}
        assert found == {("x", "y", True, "AGGREGATION", True), ("k", "*", False, "FILTER", False)}

    def test_is_what_the_lineage_facet_names_before_all_others(self):
        source = {"namespace": "test", "name": "A", "type": "DATASET"}
        entry = {"namespace": "test", "name": "Y", "type": "DATASET", "inputs": [source]}
        nothing = {"namespace": "test", "name": "Z", "type": "DATASET", "inputs": []}
        columns = {"fields": {"y": {"inputFields": [column("B", "x", type="DIRECT")]}}}
        facets = {"lineage": {"entries": [entry, nothing]}}
        warehouse = loaded(
            [event("COMPLETE", 0, ["A", "B"], [dataset("Y", columnLineage=columns), "Z"], job_facets=facets)]
        )
        assert set(pairs(warehouse)) == {"A>Y"}


class TestAnotherAirflow:
    EVENTS = (
        dag_event("START", 0, graph=ETL),
        task_event("START", 1, "read", ["A"]),
        task_event("COMPLETE", 2, "read", ["A"]),
        task_event("COMPLETE", 3, "clean"),
        task_event("COMPLETE", 4, "write", [], ["Z"]),
        dag_event("COMPLETE", 5, states={"read": "success", "clean": "success", "write": "success"}),
    )

    def test_has_pairs_over_its_task_graph(self):
        warehouse = loaded(self.EVENTS)
        assert pairs(warehouse) == {"A>Z": "written"}
        run, job = only(warehouse, RunRow), only(warehouse, JobRow)
        assert (run.run_id, run.run_type, run.outcome, run.pairs) == ("scheduled__1", "scheduled", "success", 1)
        assert (job.instance, job.dag_id, job.owners, job.team) == ("other", "dag", "ann", "data")
        assert (job.domain, job.relative_fileloc) == ("Airflow", "/dags/dag.py")
        assert json.loads(only(warehouse, EdgeRunRow).path) == ["read", "clean", "write"]

    def test_has_pairs_of_single_tasks_for_as_long_as_the_graph_is_missing(self):
        alone = task_event("COMPLETE", 2, "read", ["A"], ["B"])
        warehouse = loaded([alone])
        assert pairs(warehouse) == {"A>B": "written"}
        loaded([dag_event("START", 0, graph={"read": ["write"], "write": []})], warehouse=warehouse)
        loaded([task_event("COMPLETE", 3, "write", ["B"], ["Z"])], warehouse=warehouse)
        assert set(pairs(warehouse)) == {"A>B", "B>Z"}
        assert {row.origin for row in rows(warehouse, EdgeRunRow)} == {"graph"}

    def test_reads_its_declared_inlets_too(self):
        declared = {"inlets": ["kafka://b/t"], "outlets": ["hdfs://nn/x"]}
        events = [dag_event("START", 0, graph={"t": []}), task_event("COMPLETE", 1, "t", ["A"], ["Z"], **declared)]
        assert set(pairs(loaded(events))) == {"A>Z", "t>Z", "A>/x", "t>/x"}

    def test_takes_the_last_attempt(self):
        events = [
            dag_event("START", 0, graph={"t": []}),
            task_event("FAIL", 1, "t", ["A"], ["Y"]),
            task_event("COMPLETE", 2, "t", ["A"], ["Z"], attempt=2),
        ]
        assert pairs(loaded(events)) == {"A>Z": "written"}

    def test_never_crosses_mapped_instances(self):
        events = [dag_event("START", 0, graph={"t": []})]
        events += [task_event("COMPLETE", n, "t", [f"K{n}"], [f"H{n}"], map_index=n) for n in (0, 1)]
        events.append(dag_event("COMPLETE", 3, states={"t": "success"}))
        assert pairs(loaded(events)) == {"K0>H0": "written", "K1>H1": "written"}

    def test_shows_what_was_skipped(self):
        graph = {"read": ["yes", "no"], "yes": [], "no": []}
        events = [
            dag_event("START", 0, graph=graph),
            task_event("COMPLETE", 1, "read", ["A"]),
            task_event("COMPLETE", 2, "yes", [], ["Y"]),
            task_event("COMPLETE", 2, "no", [], ["N"]),
            dag_event("COMPLETE", 3, states={"read": "success", "yes": "success", "no": "skipped"}),
        ]
        assert pairs(loaded(events)) == {"A>Y": "written", "A>N": "skipped"}

    def test_keeps_what_was_not_run_again_after_a_clear(self):
        again = [
            dag_event("START", 6, graph=ETL, clear=1),
            task_event("COMPLETE", 7, "write", [], ["Y"], clear=1, attempt=2),
            dag_event("COMPLETE", 8, states={"read": "success", "clean": "success", "write": "success"}, clear=1),
        ]
        warehouse = loaded(self.EVENTS, again)
        assert (pairs(warehouse), only(warehouse, RunRow).clear_number) == ({"A>Y": "written"}, 1)

    def test_stands_behind_what_a_plugin_of_ours_says_of_the_same_run(self):
        own = run_message(envelope("dag", outcome="failed"), draw("read(A->) >> clean() >> write(->Z)"))
        about = own.envelope
        job = about.job.__class__(instance="other", dag_id="dag")
        run = about.run.__class__(run_id="scheduled__1", run_after=START, outcome="failed")
        own = own.__class__(
            envelope=about.__class__(job=job, run=run, emitted_at=START),
            structure_hash=own.structure_hash, graph=own.graph, facts=own.facts,
        )  # fmt: skip
        for first in (True, False):
            warehouse = MemoryWarehouse()
            warehouse.migrate()
            steps = [([own], []), ([], [read(body) for body in self.EVENTS])]
            for messages, events in steps if first else reversed(steps):
                with warehouse.transaction() as tx:
                    Merge(tx, GraphCache()).apply(messages, events)
            assert (only(warehouse, RunRow).outcome, only(warehouse, RunRow).origin) == ("failed", "")
            assert set(pairs(warehouse)) == {"A>Z"}


def test_a_job_event_promises_pairs_and_the_newest_one_counts():
    def designed(minutes, outputs):
        body = event("COMPLETE", minutes, ["A"], outputs)
        return {name: value for name, value in body.items() if name not in ("run", "eventType")}

    warehouse = loaded([designed(1, ["Y"])], [designed(2, ["Z"])])
    assert pairs(warehouse) == {"A>Z": "unknown"}
    assert only(warehouse, EdgeRow).last_declared.isoformat() == at(2)


def test_a_dataset_event_tells_a_schema_and_no_job():
    body = {"eventTime": at(0), "dataset": dataset("T", schema={"fields": [{"name": "id", "type": "long"}]})}
    warehouse = loaded([body])
    assert (only(warehouse, DatasetRow).name, rows(warehouse, JobRow)) == ("T", [])
    assert only(warehouse, DatasetSchemaRow).fields == '[["id", "long", ""]]'


def without(body, *path):
    copy = json.loads(json.dumps(body))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return copy


GOOD = event("COMPLETE", 0, ["A"], ["Z"])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "json: got an empty message"),
        (b"{", "json: JSONDecodeError"),
        (b"[1]", "json: got list, expected an object"),
        (b"[" * 100_000, "json: "),
        (without(GOOD, "eventTime"), "eventTime: got None, expected an ISO time with a zone"),
        (GOOD | {"eventTime": "2026-01-01T00:00:00"}, "eventTime: got str, expected an ISO time with a zone"),
        (GOOD | {"eventType": "DONE"}, "eventType: got 'DONE'; known: START"),
        (without(GOOD, "job"), "job.namespace: got None, expected a text that is not empty"),
        (GOOD | {"run": {"runId": "7"}}, "run.runId: got str, expected a UUID"),
        (GOOD | {"inputs": {"a": 1}}, "inputs: got dict, expected a list"),
        (GOOD | {"inputs": ["A"]}, r"inputs\.0: got str, expected an object"),
        (GOOD | {"inputs": [{"namespace": "n"}]}, r"inputs\[0\]\.name: got None"),
        (GOOD | {"inputs": [dataset("a", "kafka://")]}, r"inputs\[0\].*a Kafka dataset is written"),
        (GOOD | {"outputs": [dataset("x" * 3_000)]}, "longer than"),
        (event("COMPLETE", job_facets={"jobType": {"integration": "x" * 30_000}}), "domain: longer than"),
        (event("COMPLETE", job_facets={"ownership": {"owners": [{"name": "x" * 30_000}]}}), "owners: longer than"),
        (event("COMPLETE", run_facets={"processing_engine": {"version": "x" * 30_000}}), "service: longer than"),
        (GOOD | {"job": {"namespace": "n", "name": "x\x00"}}, "text: got a NUL character"),
        ({"eventTime": at(0)}, "type: got an event without run, job or dataset"),
        (dag_event("START", 0, graph={"a": ["b"], "b": ["a"]}), "wait for each other in a circle"),
    ],
)  # fmt: skip
def test_an_event_that_cannot_be_used_says_where_and_why(value, told):
    with pytest.raises(MessageError, match=told):
        READER.read(value if isinstance(value, bytes | None) else json.dumps(value).encode())


def test_the_loader_takes_both_topics_and_buries_what_it_cannot_use():
    from airflow_kafka_hdfs.lineage.events import message_key
    from airflow_kafka_hdfs.lineage.loading import Loader
    from airflow_kafka_hdfs.lineage.message_json import encode

    topic, warehouse = MemoryTopic(), MemoryWarehouse()
    warehouse.migrate()
    own = run_message(envelope(), draw("w(B->C)"))
    topic.send("own", message_key(own.envelope), encode(own))
    topic.send("others", b"k", json.dumps(event("COMPLETE", 0, ["A"], ["B"])).encode())
    topic.send("others", b"k", b'{"eventTime": 7}')
    topic.flush(1)
    loader = Loader(
        topic, warehouse, ManualClock(), topics=["own", "others"], dead_letters=topic, dead_letter_topic="dead",
        events=READER, event_topics=["others"],
    )  # fmt: skip
    report = loader.load_available()
    assert (report.letters, report.bad, set(pairs(warehouse))) == (3, 1, {"A>B", "B>C"})
    assert topic.sent[-1][::2] == ("dead", b'{"eventTime": 7}')
    assert sorted((row.type, row.problem.partition(":")[0]) for row in rows(warehouse, RawRow)) == [
        ("invalid", "lineage message"), ("openlineage", ""), ("run", "")
    ]  # fmt: skip


def _tables(warehouse):
    return {kind.TABLE: table for kind, table in warehouse.tables.items()}


@st.composite
def histories(draw_):
    """Events of two jobs, one of them a DAG that is cleared, in some order and with some twice."""
    names = st.lists(st.sampled_from("ABC"), max_size=2)
    found = [
        event(
            draw_(st.sampled_from(["START", "RUNNING", "COMPLETE", "FAIL"])),
            minute,
            draw_(names),
            draw_(names),
            run=run,
        )
        for minute, run in draw_(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2)), max_size=4))
    ]
    found += [dag_event("START", 0, graph={"r": ["w"], "w": []}, clear=n) for n in range(draw_(st.integers(0, 2)))]
    for task, clear, attempt in draw_(
        st.lists(st.tuples(st.sampled_from("rw"), st.integers(0, 1), st.integers(1, 2)), max_size=4)
    ):
        kind = draw_(st.sampled_from(["START", "COMPLETE", "FAIL"]))
        minute = draw_(st.integers(1, 9))
        found.append(task_event(kind, minute, task, draw_(names), draw_(names), clear=clear, attempt=attempt))
    if draw_(st.booleans()):
        found.append(
            dag_event("COMPLETE", 9, states={"r": "success", "w": draw_(st.sampled_from(["success", "failed"]))})
        )
    return found, draw_(st.randoms(use_true_random=False))


@settings(max_examples=40, deadline=None)
@given(histories())
def test_neither_order_nor_repetition_nor_batches_matter(history):
    events, rng = history
    truth = _tables(loaded(events))
    shuffled = [*events, *rng.sample(events, k=len(events) // 2)]
    rng.shuffle(shuffled)
    assert _tables(loaded(*([body] for body in shuffled))) == truth
    random.Random(1).shuffle(shuffled)
    half = len(shuffled) // 2
    assert _tables(loaded(shuffled[:half], shuffled[half:])) == truth
