"""Runs that Airflow's database knows become messages: pairs, states, triggers, aliases; each sent, none lost."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, Asset, AssetAlias, task

from airflow_kafka_hdfs import KafkaToHdfsDag, TopicFilter
from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.expansion import run_lineage
from airflow_kafka_hdfs.lineage.loading import Loader
from airflow_kafka_hdfs.lineage.openlineage_making import run_id
from airflow_kafka_hdfs.plugins import lineage_runs
from airflow_kafka_hdfs.plugins.lineage_snapshot import snapshot, workflow_of
from airflow_kafka_hdfs.plugins.lineage_thread import Emitter
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, EdgeRunRow, RunRow
from tests.airflow.stored import messages
from tests.fakes.lineage import MemoryWarehouse
from tests.fakes.runtime import ManualClock

INGEST = {
    "schedule": None,
    "value_format": "json",
    "file_format": "jsonl",
    "time_field": "time",
    "bootstrap": "earliest",
}


def pairs(topic):
    return {(m["source"]["name"], m["target"]["name"]): m["edge"]["state"] for m in messages(topic, "edge")}


@pytest.fixture
def branching(unique_name):
    """`extract(A) >> choose >> [yes(Y), no(N)]`, a mapped task, and an alias."""
    with DAG(unique_name, schedule=None, tags=["team:lake"], default_args={"owner": "ann"}) as dag:

        @task(inlets=[Asset("kafka://b:9092/orders")])
        def extract():
            return [1, 2]

        @task.branch
        def choose():
            return "yes"

        @task(outlets=[Asset("hdfs://nn/yes")])
        def yes():
            return None

        @task(outlets=[Asset("hdfs://nn/no")])
        def no():
            return None

        @task(outlets=[Asset("hdfs://nn/mapped")])
        def each(item):
            return item

        @task(outlets=[AssetAlias("late")])
        def late(*, outlet_events):
            outlet_events[AssetAlias("late")].add(Asset("hdfs://nn/late"))

        start = extract()
        chosen = choose()
        start >> chosen >> [yes(), no()]
        start >> late()
        each.expand(item=start)
    return dag


def serialized(dag):
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))


def test_a_serialized_dag_becomes_a_workflow(branching, settings):
    workflow = workflow_of(snapshot(serialized(branching)), settings)
    tasks = {spec.task_id: spec for spec in workflow.tasks}
    assert [use.dataset.name for use in tasks["extract"].reads] == ["orders"]
    assert [use.dataset.name for use in tasks["each"].writes] == ["/mapped"]
    assert (tasks["each"].mapped, tasks["each"].xcom, tasks["each"].upstream) == (True, ("extract",), ("extract",))
    assert tasks["late"].alias_writes == ("late",)
    assert tasks["yes"].upstream == ("choose",)


def test_what_a_task_pulls_from_the_run_before_is_no_circle(settings, unique_name):
    from airflow.providers.standard.operators.bash import BashOperator

    def pull(name):
        return f"echo {{{{ ti.xcom_pull(task_ids='{name}', include_prior_dates=True) }}}}"

    with DAG(unique_name, schedule=None) as dag:
        first = BashOperator(task_id="first", bash_command=pull("last"))
        again = BashOperator(task_id="again", bash_command=pull("again"))
        first >> again >> BashOperator(task_id="last", bash_command=pull("first"))
    workflow = workflow_of(snapshot(serialized(dag)), settings)
    assert {spec.task_id: spec.xcom for spec in workflow.tasks} == {"first": (), "again": (), "last": ("first",)}
    assert run_lineage(workflow).derivation.count == 0


def test_a_finished_run_is_sent_with_the_state_of_each_pair(branching, emitter, topic, settings, run_dag):
    run = run_dag(branching).run
    assert emitter.send(run.dag_id, run.run_id) is True
    assert pairs(topic) == {
        ("orders", "/yes"): "written",
        ("orders", "/no"): "skipped",
        ("orders", "/mapped"): "written",
        ("orders", "/late"): "written",
    }
    (told,) = messages(topic, "run")
    assert told["job"]["owners"] == ["ann"]
    assert (told["job"]["team"], told["job"]["instance"]) == ("lake", settings.instance)
    assert (told["run"]["outcome"], told["run"]["run_id"]) == ("success", run.run_id)
    assert told["versions"]["airflow"].startswith("3.")
    warehouse = MemoryWarehouse()
    warehouse.migrate()
    Loader(topic, warehouse, ManualClock(), topics=[settings.topic]).load_available()
    names = {row.dataset_id: row.name for row in warehouse.tables[DatasetRow].values()}
    found = {names[row.target_id]: row.last_state for row in warehouse.tables[EdgeRow].values()}
    assert found == {"/yes": "written", "/no": "skipped", "/mapped": "written", "/late": "written"}
    assert len(warehouse.tables[RunRow]) == 1

    own = messages(topic, "edge")
    more = replace(settings, openlineage_emit_topic="openlineage", openlineage_namespace="prod")
    assert Emitter(LineageHook(more), box=lambda: topic).send(run.dag_id, run.run_id) is True
    ((_, key, value),) = [letter for letter in topic.sent if letter[0] == "openlineage"]
    assert key == f"{settings.instance}/{run.dag_id}/{run.run_id}".encode()
    event = json.loads(value)
    assert (event["eventType"], event["job"]["namespace"], event["job"]["name"]) == ("COMPLETE", "prod", run.dag_id)
    assert event["run"]["runId"] == run_id("prod", run.dag_id, 0, run.logical_date or run.run_after)
    entries = event["job"]["facets"]["lineage"]["entries"]
    told_pairs = {(source["name"], entry["name"]) for entry in entries for source in entry["inputs"]}
    assert told_pairs == {
        (m["source"]["name"], m["target"]["name"]) for m in own if m["edge"]["state"] == "written"
    }  # fmt: skip


def test_a_run_that_is_not_committed_yet_waits(branching, emitter, topic, run_dag):
    run = run_dag(branching).run
    assert emitter.send(run.dag_id, run.run_id, "failed") is None
    assert emitter.send(run.dag_id, "no such run") is None
    assert topic.sent == []


def test_catching_up_sends_what_was_never_sent_and_only_once(branching, emitter, topic, settings, run_dag):
    before = datetime.now(UTC) - timedelta(seconds=1)
    lineage_runs.acknowledge(settings.instance, before)
    run = run_dag(branching).run
    assert emitter.catch_up() >= 1
    assert {m["run"]["run_id"] for m in messages(topic, "run") if m["job"]["dag_id"] == run.dag_id} == {run.run_id}
    assert lineage_runs.acknowledged(settings.instance) >= before
    count = len(topic.sent)
    assert emitter.catch_up() == 0
    assert len(topic.sent) == count


def test_a_run_whose_structure_is_gone_is_looked_at_once(emitter, settings, unique_name, caplog):
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    lineage_runs.acknowledge(settings.instance, datetime.now(UTC) - timedelta(seconds=1))
    with create_session() as session:
        run = DagRun(
            dag_id=unique_name,
            run_id="gone",
            run_type=DagRunType.MANUAL,
            state=DagRunState.SUCCESS,
            triggered_by=DagRunTriggeredByType.TEST,
        )
        run.end_date = datetime.now(UTC)
        session.add(run)
    emitter.catch_up()
    emitter.catch_up()
    assert caplog.text.count(f"the structure of DAG {unique_name} is gone") == 1


def test_messages_wait_in_the_spool_while_kafka_is_away(branching, emitter, topic, settings, run_dag):
    lineage_runs.acknowledge(settings.instance, datetime.now(UTC))
    run = run_dag(branching).run
    topic.undelivered = True
    assert emitter.send(run.dag_id, run.run_id) is True
    assert topic.sent == []
    topic.undelivered = False
    emitter.catch_up()
    told = [m for m in messages(topic, "run") if m["job"]["dag_id"] == run.dag_id]
    assert [m["run"]["run_id"] for m in told] == [run.run_id]


def test_a_full_queue_drops_and_never_waits(emitter, settings):
    for number in range(settings.queue_size + 3):
        emitter.put("dag", f"run{number}", "success")
    assert emitter.dropped == 3


def test_runs_that_found_no_room_in_the_queue_are_sent_by_the_next_catch_up(settings, topic, run_dag, unique_name):
    lineage_runs.acknowledge(settings.instance, datetime.now(UTC) - timedelta(seconds=1))
    emitter = Emitter(LineageHook(replace(settings, queue_size=1)), box=lambda: topic)
    own = []
    for number in range(2):
        with DAG(f"{unique_name}_{number}", schedule=None) as dag:

            @task(inlets=[Asset("kafka://b:9092/orders")], outlets=[Asset("hdfs://nn/orders")])
            def copy():
                return None

            copy()
        run = run_dag(dag).run
        own.append((run.dag_id, run.run_id))
        emitter.put(run.dag_id, run.run_id, "success")
    assert emitter.dropped == 1

    def told():
        found = [(m["job"]["dag_id"], m["run"]["run_id"]) for m in messages(topic, "run")]
        return [run for run in found if run[0].startswith(unique_name)]

    emitter.step(0.1)
    assert told() == own[:1]
    emitter.want_catch_up()
    emitter.step(0.1)
    assert told() == own


def test_an_alias_that_another_dag_writes_stands_for_its_assets(emitter, topic, run_dag, unique_name):
    alias, other = AssetAlias(f"{unique_name}_alias"), AssetAlias(f"{unique_name}_silent")
    with DAG(f"{unique_name}_writer", schedule=None) as writer:

        @task(outlets=[alias])
        def write(*, outlet_events):
            outlet_events[alias].add(Asset(f"hdfs://nn/{unique_name}"))

        write()
    with DAG(f"{unique_name}_reader", schedule=None) as reader:

        @task(inlets=[alias, other], outlets=[Asset("hdfs://nn/read"), alias])
        def read():
            return None

        read()
    run_dag(writer)
    run = run_dag(reader).run
    assert emitter.send(run.dag_id, run.run_id) is True
    assert pairs(topic) == {(f"/{unique_name}", "/read"): "written", (f"/{unique_name}", alias.name): "unresolved"}
    warehouse = MemoryWarehouse()
    warehouse.migrate()
    Loader(topic, warehouse, ManualClock(), topics=[emitter.settings.topic]).load_available()
    names = {row.dataset_id: row.name for row in warehouse.tables[DatasetRow].values()}
    found = {(names[row.source_id], names[row.target_id]) for row in warehouse.tables[EdgeRow].values()}
    assert found == {(f"/{unique_name}", "/read")}
    run_dag(writer)
    (told,) = messages(topic, "run")
    again = Emitter(LineageHook(emitter.settings), box=lambda: topic)
    again.send(run.dag_id, run.run_id)
    assert messages(topic, "run")[1]["inlet_aliases"] == told["inlet_aliases"]


@pytest.mark.parametrize(("kind", "catches_up"), [("SchedulerJob", True), ("DagProcessorJob", False)])
def test_a_scheduler_catches_up_though_its_start_is_told_before_its_kind(airflow_db, monkeypatch, kind, catches_up):
    from airflow.jobs.base_job_runner import BaseJobRunner
    from airflow.jobs.job import Job
    from airflow.listeners.listener import get_listener_manager

    from airflow_kafka_hdfs.plugins import lineage_listener

    class Runner(BaseJobRunner):
        job_type = kind

    wanted = threading.Event()
    monkeypatch.setattr(lineage_listener.lineage_thread, "emitter", lambda: SimpleNamespace(want_catch_up=wanted.set))
    listener, manager = lineage_listener.RunListener(), get_listener_manager()
    manager.add_listener(listener)
    try:
        Runner(Job())
    finally:
        manager.pm.unregister(listener)
    for thread in threading.enumerate():
        if thread.name == "kafka-hdfs-lineage-start":
            thread.join(30)
    assert wanted.is_set() is catches_up


def test_a_listener_looks_at_neither_structure_nor_database(emitter, monkeypatch):
    """On the scheduler's thread it takes ids alone; so what it costs depends on nothing."""
    from airflow_kafka_hdfs.plugins import lineage_listener

    class Untouchable:
        def __init__(self):
            self.dag_id, self.run_id = "thousand", "r1"

        def __getattr__(self, name):
            raise AssertionError(f"the listener asked for {name}")

    monkeypatch.setattr(lineage_listener.lineage_thread, "emitter", lambda: emitter)
    monkeypatch.setattr(lineage_runs, "session", lambda: pytest.fail("the listener opened a session"))
    handed = []
    monkeypatch.setattr(emitter, "put", lambda *given: handed.append(given))
    lineage_listener.RunListener().on_dag_run_success(dag_run=Untouchable(), msg="")
    assert handed == [("thousand", "r1", "success")]


@pytest.fixture
def listening(settings, topic):
    """The task listener, registered as Airflow registers a plugin's."""
    from airflow.sdk import lineage
    from airflow.sdk.listener import get_listener_manager

    from airflow_kafka_hdfs.plugins.lineage_tasks import TaskListener

    collector = lineage.HookLineageCollector()
    listener = TaskListener(LineageHook(settings), box=lambda: topic)
    manager = get_listener_manager()
    manager.add_listener(listener)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lineage, "get_hook_lineage_collector", lambda: collector)
        yield collector
    manager.pm.unregister(listener)


class TestTasks:
    def test_hook_lineage_and_named_pairs_are_reported_by_their_task_alone(
        self, listening, unique_name, run_dag, topic
    ):
        with DAG(unique_name, schedule=None) as dag:

            @task
            def hooked():
                listening.add_input_asset(None, uri="kafka://b:9092/seen")
                listening.add_output_asset(None, uri="hdfs://nn/seen")

            @task
            def named(**context):
                context["ti"].task.lineage_pairs = [("kafka://b:9092/x", "hdfs://nn/x"), ("", "hdfs://nn/log")]

            @task
            def silent():
                return None

            hooked() >> named() >> silent()
        ran = run_dag(dag)
        reports = {m["task"]["task_id"]: m["task"] for m in messages(topic, "task_io")}
        assert set(reports) == {"hooked", "named"}
        assert reports["hooked"]["datasets"] == [["kafka://b:9092", "seen"], ["hdfs://nn", "/seen"]]
        assert (reports["hooked"]["in"], reports["hooked"]["out"]) == ([[0, "hook"]], [[1, "hook"]])
        assert len(reports["named"]["pairs"]) == 2
        (told,) = {m["run"]["run_id"] for m in messages(topic, "task_io")}
        assert told == ran.run.run_id


class TestIngest:
    """The operators of this package under the real listener: one pair per topic, as promised and as it happened."""

    def flows(self, topic, workflow_dag, emitter, run_dag):
        """Pairs of one run in the warehouse, as (topic, last folder) -> state; and which of them the DAG promises."""
        run = run_dag(workflow_dag).run
        assert emitter.send(run.dag_id, run.run_id) is True
        warehouse = MemoryWarehouse()
        warehouse.migrate()
        Loader(topic, warehouse, ManualClock(), topics=[emitter.settings.topic]).load_available()
        names = {row.dataset_id: row.name.rsplit("/", 1)[-1] for row in warehouse.tables[DatasetRow].values()}
        edges = [edge for edge in warehouse.tables[EdgeRunRow].values() if edge.run_id == run.run_id]
        promised = {(names[edge.source_id], names[edge.target_id]) for edge in edges if edge.declared}
        return {(names[edge.source_id], names[edge.target_id]): edge.state for edge in edges}, promised

    def test_each_topic_feeds_its_own_dataset_alone(
        self, kafka, produce, listening, emitter, topic, run_dag, tmp_path, unique_name
    ):
        busy, idle = kafka.create_topic(f"{unique_name}_busy"), kafka.create_topic(f"{unique_name}_idle")
        produce(busy, [{"time": 1_767_225_600_000}])
        job = KafkaToHdfsDag(unique_name, topics=[busy, idle], destination=tmp_path.as_uri(), **INGEST)
        found, promised = self.flows(topic, job, emitter, run_dag)
        assert found == {(busy, busy): "written", (idle, idle): "skipped"}
        assert promised == {(busy, busy), (idle, idle)}

    def test_topics_known_only_at_run_time_do_so_too(
        self, kafka, produce, listening, emitter, topic, run_dag, tmp_path, unique_name
    ):
        names = [kafka.create_topic(f"{unique_name}_{letter}") for letter in "ab"]
        for name in names:
            produce(name, [{"time": 1_767_225_600_000}])
        job = KafkaToHdfsDag(
            unique_name, topics=TopicFilter(allow=[f"{unique_name}_.*"]), destination=tmp_path.as_uri(), **INGEST
        )
        found, promised = self.flows(topic, job, emitter, run_dag)
        assert found == {(name, name): "written" for name in names}
        assert promised == set()

    def test_a_run_that_fails_before_it_publishes_still_promises_no_cross_product(
        self, kafka, listening, emitter, topic, run_dag, tmp_path, unique_name
    ):
        kafka.create_topic(f"{unique_name}_a")
        missing = [f"{unique_name}_a", f"{unique_name}_b"]
        job = KafkaToHdfsDag(
            unique_name, topics=missing, destination="nowhere://x/y", dataset_uri="hdfs://nn/d", **INGEST
        )
        found, promised = self.flows(topic, job, emitter, run_dag)
        assert set(found) == promised == {(name, name) for name in missing}
        assert "written" not in found.values()


def test_while_lineage_is_off_the_plugin_registers_nothing():
    from airflow_kafka_hdfs.plugins.lineage import KafkaHdfsLineagePlugin

    assert KafkaHdfsLineagePlugin.listeners == []
    assert KafkaHdfsLineagePlugin.hook_lineage_readers == []
    assert KafkaHdfsLineagePlugin.fastapi_apps == []
    assert KafkaHdfsLineagePlugin.external_views == []
