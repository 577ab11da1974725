"""How much a dataset is read, day by day, from every database."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.lineage.access import EVERYTHING
from airflow_kafka_hdfs.lineage.describing import Describer
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.popularity import by_day
from airflow_kafka_hdfs.lineage.workflow import TaskSpec, Use, Workflow
from tests.fakes.lineage_messages import START, envelope, run_message
from tests.unit.lineage.sketch import draw, ds

DAY = timedelta(days=1)
COPY = draw("load(A->B)")
REPORT = Workflow(tasks=(TaskSpec(task_id="report", reads=(Use(ds("A")),)),))
OTHER = Workflow(tasks=(TaskSpec(task_id="report", reads=(Use(ds("C")),)),))


@pytest.fixture(params=["sqlite", "postgresql"])
def popular(request, tmp_path):
    """`popular(messages, now, days)`: what is told of A."""
    url = f"sqlite:///{tmp_path}/lineage.db"
    if request.param == "postgresql":
        server, name = request.getfixturevalue("postgres_server"), request.getfixturevalue("unique_name")
        url = server.create_database(name)
    warehouse = SqlWarehouse(url)
    warehouse.migrate()

    def told(messages, now=START + 10 * DAY, days=30):
        with warehouse.transaction() as tx:
            Merge(tx, GraphCache()).apply(messages)
        with warehouse.look() as reader:
            view = by_day(Describer(reader, EVERYTHING, now), ds("A").key, days=days)
        return view.readers, view.runs, view.teams, [(day[8:], *counts) for day, *counts in view.days]

    yield told
    warehouse.close()


def test_a_job_that_reads_and_writes_nothing_is_a_reader_in_each_of_its_runs(popular):
    copies = [run_message(envelope(day=day), COPY) for day in (0, 1)]
    reports = [run_message(envelope("report", day=day, team="sales"), REPORT) for day in (1, 2)]
    first, last = f"{START:%d}", f"{START + 2 * DAY:%d}"
    middle = f"{START + DAY:%d}"
    days = [(first, 1, 1, 1), (middle, 2, 2, 2), (last, 1, 1, 1)]
    assert popular([*copies, *reports]) == (2, 4, ("data", "sales"), days)
    assert popular([], now=START + 3 * DAY, days=2) == (2, 3, ("data", "sales"), days[1:])


def test_a_job_that_reads_it_no_more_is_no_reader(popular):
    told = [run_message(envelope("report", day=day), REPORT if day < 2 else OTHER) for day in range(4)]
    assert popular(told[:2])[:2] == (1, 2)
    assert popular(told[2:])[:2] == (0, 0)


def test_a_job_that_began_to_read_it_counts_from_then_on(popular):
    told = [run_message(envelope("report", day=day), OTHER if day < 2 else REPORT) for day in range(4)]
    assert popular(told)[:2] == (1, 2)
