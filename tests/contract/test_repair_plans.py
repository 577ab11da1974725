"""Plans of repairs, from what runs told the warehouse."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.lineage import catalog, repair, traversal
from airflow_kafka_hdfs.lineage.access import EVERYTHING
from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.lineage.events import DatasetDetail, Job
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.relations import post_relations
from airflow_kafka_hdfs.lineage.workflow import TaskSpec, Use, Workflow
from tests.fakes.lineage_chain import DAY, NOW, dataset, job_id, key, run_message

HOUR = timedelta(hours=1)


@pytest.fixture
def warehouse(tmp_path):
    warehouse = SqlWarehouse(f"sqlite:///{tmp_path}/lineage.db")
    warehouse.migrate()
    yield warehouse
    warehouse.close()


def load(warehouse, *messages):
    with warehouse.transaction() as tx:
        Merge(tx, GraphCache()).apply(messages)


def told(dag_id, source, target, when, **fields):
    message = run_message(dag_id, source, target, when, **fields)
    run = replace(message.envelope.run, run_id=f"r{when:%Y%m%dT%H%M}")
    return replace(message, envelope=replace(message.envelope, run=run))


def reading(dag_id, source, when):
    """A run of a job that reads and writes nothing."""
    workflow = Workflow(tasks=(TaskSpec(task_id="t", reads=(Use(dataset(source)),)),))
    message = told(dag_id, source, "/none", when)
    return replace(message, structure_hash=workflow.structure_hash, graph=workflow, details=())


def planned(warehouse, name, start, end=NOW, **more):
    with warehouse.look() as reader:
        return repair.plan(Describer(reader, EVERYTHING, NOW, "here"), key(name), start, end, **more)


def frozen(plan):
    return {job.dag_id for job in plan.freeze}


def test_a_suspect_that_runs_often_is_compared_with_what_it_was_before_too(warehouse):
    load(
        warehouse,
        *(told("busy", "/a", "/b", NOW - n * HOUR, version="1" if n > 100 else "2") for n in range(230)),
    )
    (suspect,) = planned(warehouse, "/b", NOW - 2 * DAY).suspects
    assert ("version", "image", "1", "2") in [(c.what, c.name, c.before, c.after) for c in suspect.changes]


def test_every_failed_run_of_the_time_is_named(warehouse):
    load(warehouse, *(told("busy", "/a", "/b", NOW - n * HOUR, outcome="failed") for n in range(210)))
    (suspect,) = planned(warehouse, "/b", NOW - 300 * HOUR).suspects
    assert len(suspect.failed) == 210


def test_what_a_job_did_until_it_was_changed_amid_the_bad_time_counts(warehouse):
    load(
        warehouse,
        *(told("moved", "/old", "/x", NOW - n * DAY) for n in (5, 4, 3)),
        *(told("moved", "/new", "/x", NOW - n * DAY) for n in (2, 1, 0)),
    )
    assert frozen(planned(warehouse, "/old", NOW - 4 * DAY)) == {"moved"}
    assert frozen(planned(warehouse, "/old", NOW - DAY)) == set()
    assert [suspect.job.dag_id for suspect in planned(warehouse, "/x", NOW - 4 * DAY).suspects] == ["moved"]


def test_a_job_that_reads_once_a_month_is_frozen_before_its_next_run(warehouse):
    load(warehouse, told("daily", "/a", "/b", NOW), *(reading("monthly", "/b", NOW - n * DAY) for n in (50, 20)))
    assert frozen(planned(warehouse, "/b", NOW - DAY)) == {"monthly"}


def test_a_job_that_only_reads_is_among_the_readers_of_a_dataset(warehouse):
    load(warehouse, told("copy", "/b", "/c", NOW), reading("report", "/b", NOW), reading("left", "/b", NOW - DAY))
    load(warehouse, reading("left", "/other", NOW))
    with warehouse.look() as reader:
        page = catalog.dataset_page(Describer(reader, EVERYTHING, NOW, "here"), key("/b"))
    assert ([job.dag_id for job in page.readers], page.readers_restricted) == (["copy", "report"], 0)


def test_impact_names_the_jobs_that_wrote_at_the_moment(warehouse):
    load(warehouse, *(told("before", "/a", "/b", NOW - n * DAY) for n in (9, 8)))
    load(warehouse, told("before", "/a", "/elsewhere", NOW - 3 * DAY), told("after", "/a", "/b", NOW - DAY))
    with warehouse.look() as reader:
        describer = Describer(reader, EVERYTHING, NOW, "here")
        found = {
            days: {item.dataset.name: [job.dag_id for job in item.jobs] for item in items}
            for days in (7, 0)
            if (items := traversal.impact(describer, key("/a"), as_of=NOW - days * DAY).items)
        }
    assert found == {7: {"/b": ["before"]}, 0: {"/b": ["after"], "/elsewhere": ["before"]}}


def test_a_repair_until_now_is_the_same_one_later(warehouse):
    load(warehouse, told("daily", "/a", "/b", NOW))
    start = NOW - DAY
    first, later = (planned(warehouse, "/a", start, NOW + n * HOUR, open_end=True) for n in (0, 5))
    assert first.id == later.id
    assert planned(warehouse, "/a", start, NOW).id not in (first.id, planned(warehouse, "/a", start, NOW + HOUR).id)


def test_what_is_posted_of_a_job_stays_on_its_page_when_its_dag_changes(warehouse):
    load(warehouse, told("changing", "/a", "/b", NOW - 3 * DAY))
    with warehouse.transaction() as tx:
        job = Job(instance="here", dag_id="changing")
        posted = DatasetDetail(dataset=dataset("/posted"))
        post_relations(tx, job, [posted], [], now=NOW - 2 * DAY)
    load(warehouse, told("changing", "/new", "/b", NOW))
    with warehouse.look() as reader:
        page = catalog.job_page(Describer(reader, EVERYTHING, NOW, "here"), job_id("changing"))
    assert [view.name for view in page.inputs] == ["/new", "/posted"]
    assert frozen(planned(warehouse, "/posted", NOW - HOUR)) == {"changing"}
