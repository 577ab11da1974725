"""Relations that people post: pairs follow, and stand until they are taken back."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.events import DatasetDetail
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.relations import MAX_RELATIONS, post_relations
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, JobRow, RelationRow
from tests.fakes.lineage import MemoryWarehouse
from tests.fakes.lineage_messages import START, envelope, run_message

from .sketch import draw, ds

JOB = envelope("dag").job
NOW = START + timedelta(days=1, hours=1)


@pytest.fixture
def warehouse():
    made = MemoryWarehouse()
    made.migrate()
    return made


def post(warehouse, inputs="", outputs="", now=NOW, **more):
    def details(names):
        return [DatasetDetail(dataset=ds(name)) for name in names]

    with warehouse.transaction() as tx:
        return post_relations(tx, JOB, details(inputs), details(outputs), now=now, **more)


def run(warehouse, workflow, day):
    with warehouse.transaction() as tx:
        Merge(tx, GraphCache()).apply([run_message(envelope("dag", day=day), draw(workflow))])


def pairs(warehouse):
    """`A>B` -> whether it holds."""
    names = {row.dataset_id: row.name for row in warehouse.tables[DatasetRow].values()}
    rows = warehouse.tables[EdgeRow].values()
    return {f"{names[row.source_id]}>{names[row.target_id]}": row.valid_to is None for row in rows}


def origins(warehouse):
    names = {row.dataset_id: row.name for row in warehouse.tables[DatasetRow].values()}
    return {f"{names[row.dataset_id]} {row.direction}": row.origin for row in warehouse.tables[RelationRow].values()}


def test_every_posted_input_feeds_every_posted_output(warehouse):
    assert post(warehouse, "AB", "Z").pairs == 2
    assert post(warehouse, "", "Y").pairs == 4
    assert set(pairs(warehouse)) == {"A>Z", "B>Z", "A>Y", "B>Y"}
    (job,) = warehouse.tables[JobRow].values()
    assert (job.dag_id, job.first_seen) == ("dag", NOW)
    assert {row.evidence for row in warehouse.tables[EdgeRow].values()} == {"api"}


def test_posting_again_changes_nothing(warehouse):
    post(warehouse, "A", "Z")
    before = dict(warehouse.tables)
    post(warehouse, "A", "Z", now=NOW + timedelta(days=1))
    assert warehouse.tables == before


def test_neither_runs_nor_new_versions_of_the_dag_end_what_was_posted(warehouse):
    post(warehouse, "A", "Z", now=START)
    run(warehouse, "t(B->Y)", 2)
    run(warehouse, "t(C->X)", 3)
    assert pairs(warehouse) == {"A>Z": True, "B>Y": False, "C>X": True}


@pytest.mark.parametrize("first", ["run", "post"])
def test_what_runs_know_stays_when_it_is_taken_back(warehouse, first):
    steps = [lambda: run(warehouse, "t(A->Z)", 1), lambda: post(warehouse, "A", "ZY")]
    for step in steps if first == "run" else reversed(steps):
        step()
    assert origins(warehouse) == {"A input": "both", "Z output": "both", "Y output": "api"}
    post(warehouse, take_back=True)
    assert origins(warehouse) == {"A input": "runs", "Z output": "runs"}
    assert pairs(warehouse) == {"A>Z": True}


def test_too_many_relations_are_refused(warehouse):
    inputs = [DatasetDetail(dataset=ds(str(number))) for number in range(MAX_RELATIONS + 1)]
    with warehouse.transaction() as tx, pytest.raises(ConfigError, match="at most 1000"):
        post_relations(tx, JOB, inputs, [], now=NOW)
