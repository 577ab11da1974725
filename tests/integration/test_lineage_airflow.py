"""Lineage under a real scheduler with two workers: Kafka's connection only in the metadata database, runs queued.

The ingestion example, Yelp's figure, a diamond, a branch and a mapped job go through Airflow, Kafka, the loader and
PostgreSQL; then parts are killed or taken away, and jobs are run again through Airflow with the rights of the caller.
"""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pytest
import requests

from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterSource, create_topics
from airflow_kafka_hdfs.adapters.runtime import SystemClock
from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.adapters.warehouse.tables import TABLES
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.lineage.openlineage import EventReader
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.storage_text import unpack
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, JobRow, RawRow, RunRow
from tests.fakes.auth_manager import RIGHTS
from tests.stack.airflow import AirflowStandalone
from tests.stack.kafka import KafkaCluster
from tests.stack.process import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "dags" / "captcha_event_hourly.py"
TOPIC = "airflow.lineage"
EVENTS = "airflow.openlineage"
"""Where Airflow's own OpenLineage provider tells of the same runs."""
RUNS = 20
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "header", "type": {"type": "record", "name": "Header", "fields": [{"name": "time", "type": "long"}]}}
    ],
}
P = DatasetId("hdfs://nn", "/p").key
WINDOW = {"from": "2026-01-01T00:00Z", "to": "2026-01-04T12:00Z"}

DAGS = textwrap.dedent(
    '''
    """Two sources, a join, two targets, as in the figure of Yelp's Spark-Lineage; a diamond, a branch, a mapped job."""
    import datetime as dt

    from airflow.sdk import Asset, dag, task
    from airflow.sdk.lineage import get_hook_lineage_collector

    START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


    def reading(name):
        return task(task_id=f"read_{name}", inlets=[Asset(f"kafka://b:9092/{name}")])(lambda: None)()


    def writing(name):
        return task(task_id=f"write_{name}", outlets=[Asset(f"hdfs://nn/{name}")])(lambda: None)()


    def idle(name):
        return task(task_id=name)(lambda: None)()


    @dag(schedule=None, start_date=START, max_active_runs=20)
    def figure():
        @task
        def hooked():
            get_hook_lineage_collector().add_output_asset(None, uri="hdfs://nn/hooked")

        one, join = reading("one"), idle("join")
        [one, reading("two")] >> join >> writing("p")
        one >> [writing("q"), hooked()]


    @dag(schedule=None, start_date=START)
    def diamond():
        reading("top") >> [idle("left"), idle("right")] >> writing("bottom")


    @dag(schedule=None, start_date=START)
    def branch():
        @task.branch
        def choose():
            return "write_yes"

        reading("asked") >> choose() >> [writing("yes"), writing("no")]


    @dag(schedule=None, start_date=START)
    def mapped():
        @task
        def copy(number):
            get_hook_lineage_collector().add_input_asset(None, uri=f"kafka://b:9092/k{number}")
            get_hook_lineage_collector().add_output_asset(None, uri=f"hdfs://nn/h{number}")

        copy.expand(number=[0, 1])


    @dag(schedule="@daily", start_date=START, end_date=START + dt.timedelta(days=2), catchup=True)
    def daily():
        task(task_id="sum", inlets=[Asset("hdfs://nn/p")], outlets=[Asset("hdfs://nn/report")])(lambda: None)()


    figure(), diamond(), branch(), mapped(), daily()
    '''
)


@dataclass
class Lab:
    """Airflow, Kafka and a warehouse in PostgreSQL; `ann` may read two DAGs and edit one, `bob` may read another."""

    airflow: AirflowStandalone
    kafka: KafkaCluster
    warehouse: SqlWarehouse
    data: Path
    topics: tuple[str, ...] = (TOPIC,)

    def load(self) -> None:
        """Load what is in the topic now."""
        source = KafkaLetterSource(client_settings({"bootstrap.servers": self.kafka.bootstrap_servers}))
        try:
            Loader(
                source,
                self.warehouse,
                SystemClock(),
                topics=[*self.topics, EVENTS],
                events=EventReader(LineageSettings(instance="test")),
                event_topics=[EVENTS],
            ).load_available()
        finally:
            source.close()

    def rows(self, kind: type[Any]) -> list[Any]:
        with self.warehouse.reading() as connection:
            return list(connection.execute(TABLES[kind].select()))

    def runs(self, dag_id: str) -> dict[str, Any]:
        """The runs of a DAG that the warehouse knows."""
        (job_id,) = {row.job_id for row in self.rows(JobRow) if row.dag_id == dag_id} or {None}
        return {row.run_id: row for row in self.rows(RunRow) if row.job_id == job_id}

    def edges(self, dag_id: str) -> dict[tuple[str, str], tuple[int, str]]:
        """(source, target) -> (number of runs, last state)."""
        names = {row.dataset_id: row.name for row in self.rows(DatasetRow)}
        (job_id,) = {row.job_id for row in self.rows(JobRow) if row.dag_id == dag_id}
        return {
            (names[row.source_id], names[row.target_id]): (row.run_count, row.last_state)
            for row in self.rows(EdgeRow)
            if row.job_id == job_id
        }

    def loaded(self, dag_id: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Load until the runs of a DAG fit."""

        def found() -> dict[str, Any] | None:
            self.load()
            runs = self.runs(dag_id)
            return runs if fits(runs) else None

        return wait_until(found, what=f"runs of {dag_id} in the warehouse", timeout=120, every=1)

    def ask(self, user: str | None, path: str, body: Any = None, **parameters: str) -> requests.Response:
        """One call of lineage's REST."""
        headers = {"Authorization": f"Bearer {self.airflow.token(user)}"} if user else {}
        url = f"{self.airflow.url}/lineage/api/v1/{path}"
        method = "GET" if body is None else "POST"
        return requests.request(method, url, json=body, params=parameters, headers=headers, timeout=120)

    def backfills(self, dag_id: str) -> list[Any]:
        return list(self.airflow.get("backfills", dag_id=dag_id)["backfills"])

    def backfilled(self, dag_id: str, count: int) -> None:
        """Wait until so many backfills of a DAG are over."""
        wait_until(
            lambda: sum(bool(one["completed_at"]) for one in self.backfills(dag_id)) == count,
            what=f"{count} backfills of {dag_id}",
            timeout=300,
            children=self.airflow.children,
            every=1,
        )


@pytest.fixture(scope="module")
def lab(postgres_server, kafka_single, tmp_path_factory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lineage-airflow")
    dags, schemas, data = folder / "dags", folder / "schemas", folder / "data"
    dags.mkdir()
    schemas.mkdir()
    (dags / "shapes.py").write_text(DAGS)
    # The example on a topic that no other test uses, and with a schedule whose next slot does not come in the midst.
    example = EXAMPLE.read_text()
    for old, new in (("CaptchaEvent", "LineageEvent"), ("captcha_event_hourly", "ingest"), ("@hourly", "@weekly")):
        assert old in example
        example = example.replace(old, new)
    (dags / "ingest.py").write_text(example)
    (schemas / "7.avsc").write_text(json.dumps(SCHEMA))
    create_topics(
        client_settings({"bootstrap.servers": kafka_single.bootstrap_servers}),
        [TOPIC, EVENTS],
        partitions=3,
        replication=1,
    )
    url = postgres_server.create_database("lineage_airflow")
    rights = {
        "ann": {"read": ["figure", "daily"], "edit": ["daily"]},
        "bob": {"read": ["diamond"], "edit": []},
    }
    transport = {
        "type": "kafka",
        "topic": EVENTS,
        "config": {"bootstrap.servers": kafka_single.bootstrap_servers},
        "flush": True,
    }
    # The tests alone: beside the installed package the checkout would make its plugin known twice, and at a name that
    # comes twice Airflow's tasks leave out all plugins that come after it, the OpenLineage provider's among them.
    path = folder / "path"
    path.mkdir()
    (path / "tests").symlink_to(ROOT / "tests")
    env = {
        "PYTHONPATH": str(path),
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.fakes.auth_manager.DagRights",
        RIGHTS: json.dumps(rights),
        "AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED": "True",
        "AIRFLOW__KAFKA_HDFS_LINEAGE__INSTANCE": "test",
        "AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE": url,
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "test",
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "3",  # each task waits twice as long for it while Kafka is away
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "KAFKA_HDFS_DESTINATION": data.as_uri(),
        "KAFKA_HDFS_REGISTRY": schemas.as_uri(),
    }
    users = {"admin": "admin", "ann": "user", "bob": "viewer"}
    warehouse = SqlWarehouse(url)
    warehouse.migrate()
    airflow = AirflowStandalone(folder / "home", dags, postgres_server, env=env, users=users, triggerer=False)
    with airflow:
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": kafka_single.bootstrap_servers}}
        airflow.cli("connections", "add", "kafka_default", "--conn-json", json.dumps(connection), timeout=400)
        yield Lab(airflow, kafka_single, warehouse, data)
    warehouse.close()


def produce(kafka: KafkaCluster, topic: str, count: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for number in range(count):
        out = io.BytesIO(b"\x00\x00\x00\x00\x07")
        out.seek(5)
        fastavro.schemaless_writer(out, SCHEMA, {"header": {"time": 1_767_225_600_000 + number}})
        producer.produce(topic, out.getvalue())
    assert producer.flush(60) == 0


def test_queued_runs_complete_and_each_is_in_the_warehouse(lab):
    produce(lab.kafka, lab.kafka.create_topic("LineageEvent"), 10)
    run_ids = {}
    for dag_id, count in {"figure": RUNS, "diamond": 1, "branch": 1, "mapped": 1}.items():
        lab.airflow.unpause(dag_id)
        run_ids[dag_id] = {lab.airflow.trigger(dag_id) for _ in range(count)}
    lab.airflow.unpause("ingest")  # its schedule has one slot that is due
    lab.airflow.unpause("daily")  # and this one's three
    for dag_id, found in run_ids.items():
        for run_id in found:
            assert lab.airflow.wait_run(dag_id, run_id, timeout=600) == "success"
        assert set(lab.loaded(dag_id, lambda runs, found=found: runs.keys() >= found)) == found
    written = (1, "written")
    assert lab.edges("figure") == {
        ("one", "/p"): (RUNS, "written"),
        ("one", "/q"): (RUNS, "written"),
        ("two", "/p"): (RUNS, "written"),
        ("one", "/hooked"): (RUNS, "written"),
    }
    assert lab.edges("diamond") == {("top", "/bottom"): written}
    assert lab.edges("branch") == {("asked", "/yes"): written, ("asked", "/no"): (1, "skipped")}
    assert lab.edges("mapped") == {("k0", "/h0"): written, ("k1", "/h1"): written}
    # The events of the other provider tell of a run as soon as it begins.
    (run,) = lab.loaded("ingest", lambda runs: [row.origin for row in runs.values()] == [""]).values()
    assert (run.outcome, run.run_type) == ("success", "scheduled")
    assert lab.edges("ingest") == {("LineageEvent", f"{lab.data}/LineageEvent"): written}


def test_the_openlineage_provider_beside_it_tells_the_same_and_doubles_nothing(lab, tmp_path):
    """Its events alone make the same pairs of the same jobs and datasets; loaded with ours they change nothing."""
    alone = Lab(lab.airflow, lab.kafka, SqlWarehouse(f"sqlite:///{tmp_path}/events.db"), lab.data, topics=())
    alone.warehouse.migrate()
    dag_ids = ("figure", "diamond", "branch", "mapped", "ingest")
    ours = {dag_id: lab.edges(dag_id) for dag_id in dag_ids}
    # What never ran is told by nobody but the DAG itself.
    told = {**ours, "branch": {("asked", "/yes"): (1, "written")}}

    def arrived() -> bool:
        alone.load()
        known = {row.dag_id for row in alone.rows(JobRow)}
        return known >= set(dag_ids) and {dag_id: alone.edges(dag_id) for dag_id in dag_ids} == told

    wait_until(arrived, what="events of every task", timeout=120, every=2)
    lab.load()
    assert {dag_id: lab.edges(dag_id) for dag_id in dag_ids} == ours
    assert {row.origin for dag_id in dag_ids for row in lab.runs(dag_id).values()} == {""}
    for kind, key in ((JobRow, "job_id"), (DatasetRow, "dataset_id")):
        assert {getattr(row, key) for row in alone.rows(kind)} <= {getattr(row, key) for row in lab.rows(kind)}

    bodies = [json.loads(unpack(row.body)) for row in alone.rows(RawRow)]
    (published,) = [
        body for body in bodies if (body["job"]["name"], body["eventType"]) == ("ingest.ingest.publish", "COMPLETE")
    ]
    (entry,) = published["job"]["facets"]["lineage"]["entries"]
    assert [source["name"] for source in entry["inputs"]] == ["LineageEvent"]
    assert published["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10
    alone.warehouse.close()


def test_two_users_see_what_their_dags_reach_and_nobody_without_a_login(lab):
    assert lab.ask(None, f"datasets/{P}").status_code == 401
    assert (
        requests.get(f"{lab.airflow.url}/lineage/dataset?id={P}", timeout=60, allow_redirects=False).status_code == 401
    )
    page = lab.ask("ann", f"datasets/{P}").json()
    assert {one["dataset"]["name"] for one in page["upstream"]} == {"one", "two"}
    assert lab.ask("bob", f"datasets/{P}").status_code == 404
    assert lab.ask("bob", "search", q="/").json()["items"] != []
    assert {one["name"] for one in lab.ask("bob", "search", q="/").json()["items"]} <= {"/bottom", "top", "diamond"}


def test_runs_that_ended_while_kafka_was_away_arrive_after_the_scheduler_was_killed(lab):
    lab.airflow.unpause("diamond")
    lab.kafka.pause_node(1)
    try:
        run_ids = {lab.airflow.trigger("diamond") for _ in range(3)}
        for run_id in run_ids:
            assert lab.airflow.wait_run("diamond", run_id, timeout=300) == "success"
        lab.airflow.kill_scheduler()
    finally:
        lab.kafka.continue_node(1)
    lab.airflow.start_scheduler()
    runs = lab.loaded("diamond", lambda runs: runs.keys() >= run_ids)
    truth = {run["dag_run_id"]: run["state"] for run in lab.airflow.runs("diamond")}
    assert {run_id: row.outcome for run_id, row in runs.items()} == truth
    assert lab.edges("diamond") == {("top", "/bottom"): (len(truth), "written")}
    # No task outlived its end: one does whose process inherited a lock that another thread held at the fork.
    assert "overtime reached" not in (lab.airflow.home / "logs" / "parts" / "scheduler.log").read_text()


def test_a_repair_runs_a_frozen_job_again_and_resumes_it(lab):
    lab.airflow.unpause("daily")
    lab.loaded("daily", lambda runs: len(runs) == 3)
    plan = lab.ask("ann", "repair", dataset=P, **WINDOW).json()["plan"]
    assert [(step["job"]["dag_id"], step["how"], len(step["run_ids"])) for step in plan["steps"]] == [
        ("daily", "backfill", 3)
    ]
    body = {"dataset": P, **WINDOW, "dag_ids": ["daily"]}
    assert lab.ask("ann", "repair/freeze", {**body, "confirm": True}).json()["failed"] == 0
    shown = lab.ask("ann", "repair/rerun", body).json()
    assert (shown["would"]["resume"], lab.backfills("daily")) == (["daily"], [])
    assert lab.ask("bob", "repair/rerun", {**body, "confirm": True}).status_code == 404
    told = lab.ask("ann", "repair/rerun", {**body, "confirm": True}).json()
    assert [(one["what"], one["problem"]) for one in told["done"]] == [("backfill", ""), ("resumed", "")]
    lab.backfilled("daily", 1)
    runs = lab.loaded("daily", lambda runs: all(row.clear_number == 1 for row in runs.values()))
    assert {(row.run_type, row.outcome) for row in runs.values()} == {("backfill", "success")}
    assert len(runs) == 3
    assert lab.edges("daily") == {("/p", "/report"): (3, "written")}
    events = lab.airflow.get("eventLogs", dag_id="daily", owner="ann", limit=50)["event_logs"]
    assert {"create_backfill", "patch_dag"} <= {one["event"] for one in events}


def test_the_command_shows_a_step_first_and_runs_it_when_told(lab):
    words = ["kafka-hdfs", "lineage", "repair", "hdfs://nn/p", "--from", WINDOW["from"], "--to", WINDOW["to"]]
    shown = lab.airflow.cli(*words, "--rerun", "daily", "--dry-run")
    assert "airflow backfill create --dag-id daily" in shown
    assert len(lab.backfills("daily")) == 1
    assert "daily: backfill created" in lab.airflow.cli(*words, "--rerun", "daily", "--yes")
    lab.backfilled("daily", 2)
    runs = lab.loaded("daily", lambda runs: all(row.clear_number == 2 for row in runs.values()))
    assert (len(runs), lab.edges("daily")) == (3, {("/p", "/report"): (3, "written")})
