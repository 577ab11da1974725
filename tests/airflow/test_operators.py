"""Operators without a database: a fake supervisor answers them, the commit log is in memory."""

from __future__ import annotations

import time
import types
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias, RetryAction
from airflow.sdk.api.client import ServerResponseError
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import AssetEventsResult, ErrorResponse
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_kafka_hdfs import KafkaToHdfsTaskGroup, TopicFilter
from airflow_kafka_hdfs.exceptions import ConfigError, HeldBackError, KafkaUnavailableError, StoreUnavailableError
from airflow_kafka_hdfs.hooks.runs import TaskRunStates
from airflow_kafka_hdfs.ingest.committing import CommitPolicy
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.plans import PlanEntry, Waiting
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Kind, Outcome
from airflow_kafka_hdfs.ingest.timepath import TimePath, load_zone, parse_pattern
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.operators import ports
from airflow_kafka_hdfs.operators.announcing import confirm_events
from airflow_kafka_hdfs.operators.base import RETRY_POLICY
from airflow_kafka_hdfs.operators.outlets import JobAssets, TopicNews, send
from tests.unit.ingest.scripted import Job, key

RUN = RunRef(dag_id="d", run_id="run-1")
EVENTS, OTHER = key("events"), key("other")


@pytest.fixture
def group() -> KafkaToHdfsTaskGroup:
    with DAG("d", schedule=None):
        return KafkaToHdfsTaskGroup("g", topics=["events", "other"], destination="file:///data", pipeline_id="p")


class Task:
    """A running task instance: XComs and states as the test wants them."""

    def __init__(self, *, told: Any = None, published: Any = None, waited: timedelta | None = None, **states: str):
        self.run_id = "run-1"
        self.pulled = {("g.plan", "plan"): told, ("g.publish", "return_value"): published}
        self.states = {"g.plan": "success", "g.publish": "success", **{f"g.{k}": v for k, v in states.items()}}
        self.waited = waited

    def xcom_pull(self, *, task_ids: str, key: str = "return_value") -> Any:
        return self.pulled[(task_ids, key)]

    def get_task_states(self, *, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict:
        return {"run-1": {task: self.states[task] for task in task_ids}}

    def get_first_reschedule_date(self, context: Any) -> datetime | None:
        return None if self.waited is None else datetime.now(UTC) - self.waited

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        return "running"

    @property
    def context(self) -> Any:
        return {"ti": self, "dag_run": SimpleNamespace(triggering_user_name=None), "run_id": self.run_id, "params": {}}


@pytest.fixture
def gate(group, monkeypatch):
    """`gate(job, plan, …)`: one look of the gate at a pipeline in memory."""

    def poke(job: Job, plan: Any, **task: Any) -> bool:
        monkeypatch.setattr(ports, "task_context", lambda *_: job.ctx)
        path = job.ctx.log.paths.plan(plan.key, plan.counter)
        told = {"plan": plan.plan, "path": path, "dry_run": False}
        return group.gate.poke(Task(told=told, **task).context)

    return poke


@pytest.fixture
def supervisor(monkeypatch):
    """The supervisor of the task: answers questions for asset events."""
    stored: list[dict] = []

    def send_message(message: Any) -> AssetEventsResult:
        found = [event for event in stored if message.uri == event["asset"]["uri"]]
        return AssetEventsResult.model_validate({"asset_events": found})

    comms = SimpleNamespace(send=send_message)
    monkeypatch.setattr("airflow.sdk.execution_time.task_runner.SUPERVISOR_COMMS", comms, raising=False)

    def store(uri: str, extra: dict, run_id: str = "run-1") -> None:
        asset = {"name": uri, "uri": uri, "group": "asset"}
        event = {"id": len(stored), "timestamp": datetime.now(UTC), "extra": extra, "asset": asset}
        source = {"source_task_id": "g.publish", "source_dag_id": "d", "source_run_id": run_id, "source_map_index": -1}
        stored.append({**event, **source, "created_dagruns": []})

    return store


def test_an_ingestion_knows_what_the_others_of_its_dag_read():
    with DAG("d", schedule=None):
        mine = KafkaToHdfsTaskGroup("a", topics=["x"], destination="file:///data")
        KafkaToHdfsTaskGroup("b", topics=["y", "z"], destination="file:///data")
        KafkaToHdfsTaskGroup("c", topics=TopicFilter(allow=["w.*"]), destination="file:///data")
        KafkaToHdfsTaskGroup("e", topics=TopicFilter(), destination="file:///data", kafka_conn_id="other")
        KafkaToHdfsTaskGroup("f", topics="{{ params.topics }}", destination="file:///data")
    assert mine.plan._topics_elsewhere() == (("y", "z"), TopicFilter(allow=["w.*"]), None, None)


class TestGate:
    def test_it_holds_no_worker_while_it_waits(self, group):
        assert group.gate.reschedule is True
        assert group.gate.poke_interval == 60

    def test_a_run_whose_offsets_are_decided_is_green(self, gate):
        job = Job()
        job.start(EVENTS)
        plan = job.plan([(EVENTS, 0, 10)])
        job.extract(plan)
        finish(job.ctx, plan, CommitPolicy())
        assert gate(job, plan) is True

    def test_a_held_topic_makes_it_red_with_reason_and_next_step(self, gate):
        job = Job()
        job.start(EVENTS)
        plan = job.plan([(EVENTS, 0, 10)])
        job.extract(plan, outcome=Outcome.FAILED, reason="no_schema", reach=4)
        finish(job.ctx, plan, CommitPolicy())
        with pytest.raises(HeldBackError, match=r"(?s)pipeline p is not complete:.*topic events.*no_schema"):
            gate(job, plan)

    def test_a_publish_that_failed_makes_it_red_though_all_is_decided(self, gate):
        job = Job()
        job.start(EVENTS)
        plan = job.plan([(EVENTS, 0, 10)])
        job.extract(plan)
        finish(job.ctx, plan, CommitPolicy())
        with pytest.raises(HeldBackError, match="g.publish ended as failed"):
            gate(job, plan, publish="failed")

    def test_without_a_plan_it_is_red(self, group):
        with pytest.raises(HeldBackError, match="g.plan ended as failed"):
            group.gate.poke(Task(told=None, plan="failed").context)

    def test_a_dry_run_is_green(self, group):
        assert group.gate.poke(Task(told={"plan": "x", "path": None, "dry_run": True}).context) is True

    def interval_plan_that_waits(self):
        """Another run's live plan holds what this one would have read."""
        other = Job(run="run-2")
        other.start(EVENTS)
        theirs = other.plan([(EVENTS, 0, 10)])
        mine = Job(other.store, run="run-1")
        waiting = Waiting(plan=theirs.plan, log_head=theirs.log_head, key=EVENTS, ranges=Ranges.span(0, 10))
        entry = PlanEntry(key=EVENTS, reason="held_by_open_plan", previous=0, ranges=Ranges(), log_start=0, log_end=10)
        return mine, mine.plan(kind=Kind.INTERVAL, waiting=(waiting,), entries=(entry,)), other, theirs

    @pytest.mark.bug(22)
    def test_it_waits_for_plans_of_live_runs_until_the_log_has_a_record_of_them(self, gate):
        mine, plan, other, theirs = self.interval_plan_that_waits()
        assert gate(mine, plan) is False
        assert gate(mine, plan, waited=timedelta(minutes=59)) is False
        other.extract(theirs)
        finish(other.ctx, theirs, CommitPolicy())
        assert gate(mine, plan) is True

    def test_after_an_hour_it_judges(self, gate):
        mine, plan, _, theirs = self.interval_plan_that_waits()
        with pytest.raises(HeldBackError, match=rf"left to plan {theirs.plan} of another run"):
            gate(mine, plan, waited=timedelta(minutes=61))

    def test_it_marks_commits_whose_events_are_stored(self, gate, supervisor):
        job = Job()
        job.start(EVENTS)
        plan = job.plan([(EVENTS, 0, 10)])
        job.extract(plan)
        done = finish(job.ctx, plan, CommitPolicy())
        assert done.record is not None
        number = done.record.number
        published = {"announced": [number], "probe": {"name": "x", "uri": "x", "n": number}}
        assert gate(job, plan, published=published) is True
        assert job.ctx.log.unannounced(job.ctx.log.read()) == [number]
        supervisor("x", {"pipeline": "p", "n": number})
        assert gate(job, plan, published=published) is True
        assert job.ctx.log.unannounced(job.ctx.log.read()) == []


class TestConfirm:
    told = types.MappingProxyType({"announced": [3, 5], "probe": {"name": "x", "uri": "x", "n": 5}})

    @pytest.mark.parametrize(
        ("extra", "run_id", "marked"),
        [
            ({"pipeline": "p", "n": 5}, "run-1", [3, 5]),
            ({"pipeline": "p", "n": 6}, "run-1", [3, 5]),
            ({"pipeline": "p", "n": 4}, "run-1", []),
            ({"pipeline": "p", "n": 5}, "run-2", []),
            ({"pipeline": "q", "n": 5}, "run-1", []),
            ({}, "run-1", []),
        ],
    )
    def test_only_an_event_of_this_run_proves_it(self, supervisor, extra, run_id, marked):
        supervisor("x", extra, run_id)
        job = Job()
        assert confirm_events(job.ctx, self.told) == marked
        there = [n for n in (3, 5) if job.ctx.state.status(job.ctx.log.paths.announced(n)) is not None]
        assert there == marked

    def test_commits_that_no_event_can_tell_of_are_marked_too(self):
        assert confirm_events(Job().ctx, {"announced": [2], "probe": None}) == [2]

    @pytest.mark.parametrize("told", [None, {"announced": [], "probe": None}])
    def test_nothing_to_mark(self, told):
        assert confirm_events(Job().ctx, told) == []


class TestSend:
    def news(self, n: int, topic: str = "events", *moments: str) -> TopicNews:
        extra = {"n": n, "kind": "forward", "counts": {"written": n, "files": 1}, "late": 2}
        return TopicNews(topic=topic, extra=extra, moments=frozenset(moments))

    def assets(self, **changes: Any) -> JobAssets:
        body = {"topics": ("events", "other"), "base": "file:///data", "cluster": "c", "pipeline": "p"}
        return JobAssets(
            **{**body, "granularity": {"*": "hourly", "events": "hourly"}, "silent": frozenset(), **changes}
        )

    def test_several_commits_of_a_topic_make_one_event_that_tells_of_all(self):
        events = OutletEventAccessors()
        moments = "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00Z"
        sent = send(events, self.assets(), [self.news(3, "events", moments[0]), self.news(5, "events", *moments)])
        dataset, partitions = Asset(name="file:///data/events", uri="file:///data/events"), sent.outlets[1]
        assert sent.outlets[0] == dataset
        assert events[dataset].extra["n"] == 5
        assert events[dataset].extra["recovered"] == [self.news(3).extra]
        assert events[partitions].partition_keys == {"2026-01-01T00:00:00", "2026-01-01T01:00:00"}
        assert sent.probe == {"name": dataset.name, "uri": dataset.uri, "n": 5}

    @pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
    def test_keys_of_partitions_do_not_depend_on_the_clock_of_the_worker(self, zone, monkeypatch):
        hours = TimePath(parse_pattern("yyyy/MM/dd/HH"), load_zone("UTC"))
        moments = [hours.folder(millis).key for millis in (1_767_254_400_000, -36_889_257_600_000)]
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            keys = [self.assets().key("events", moment) for moment in moments]
        finally:
            monkeypatch.undo()
            time.tzset()
        assert keys == moments == ["2026-01-01T08:00:00", "0801-01-10T00:00:00"]

    def test_a_shared_partition_asset_tells_of_older_commits_too(self):
        events = OutletEventAccessors()
        moment = "2026-01-01T00:00:00Z"
        news = [self.news(3, "a", moment), self.news(5, "a", moment), self.news(5, "b", moment)]
        sent = send(events, self.assets(topics=None), news)
        extra = events[sent.outlets[1]].extra
        assert (extra["n"], extra["counts"], extra["late"]) == (5, {"written": 10, "files": 2}, 4)
        assert extra["recovered"] == [self.news(3).extra]

    def test_a_topic_that_the_job_no_longer_has_gets_no_event(self):
        sent = send(OutletEventAccessors(), self.assets(), [self.news(3, "gone")])
        assert (sent.outlets, sent.unknown, sent.probe) == ((), ("gone",), None)

    def test_partitions_stay_silent_where_they_should(self):
        sent = send(
            OutletEventAccessors(),
            self.assets(silent=frozenset({"events"})),
            [self.news(3, "events", "2026-01-01T00:00:00Z")],
        )
        assert [asset.uri for asset in sent.outlets] == ["file:///data/events"]

    def test_topics_of_the_run_go_through_the_alias(self):
        events = OutletEventAccessors()
        sent = send(events, self.assets(topics=None), [self.news(3, "a", "2026-01-01T00:00:00Z"), self.news(3, "b")])
        alias = AssetAlias(name="p")
        assert sent.outlets[0] == alias
        assert [event.dest_asset_key.uri for event in events[alias].asset_alias_events] == [
            "file:///data/a",
            "file:///data/b",
        ]
        assert events[sent.outlets[1]].partition_keys == {"a|2026-01-01T00:00:00"}
        told = {"pipeline": "p", "n": 3, "kind": "forward", "counts": {"written": 6, "files": 2}, "late": 4}
        assert events[sent.outlets[1]].extra == told
        assert sent.probe == {"alias": "p", "n": 3}


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (KafkaUnavailableError("away"), RetryAction.RETRY),
        (StoreUnavailableError("get", "x", "away"), RetryAction.RETRY),
        (HeldBackError("red"), RetryAction.FAIL),
        (ConfigError("a", 1, "b"), RetryAction.FAIL),
        (MemoryError(), RetryAction.DEFAULT),
    ],
)
def test_only_what_time_may_cure_is_tried_again(error, action):
    assert RETRY_POLICY.evaluate(error, 1, 3).action is action


def test_on_kill_asks_the_reading_loop_to_stop(group):
    operator = group.extract.unmap({"work_unit": {}})
    assert not operator._stop.is_set()
    operator.on_kill()
    assert operator._stop.is_set()


class TestRunStates:
    def states(self, answer: Any) -> TaskRunStates:
        def ask(dag_id: str, run_id: str) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return TaskRunStates(ask, RUN)

    def gone(self) -> AirflowRuntimeError:
        detail = {"status_code": 404, "message": "Not Found"}
        return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))

    @pytest.mark.parametrize(
        ("state", "alive"), [("queued", True), ("running", True), ("success", False), ("failed", False)]
    )
    def test_a_run_lives_until_it_ends(self, state, alive):
        assert self.states(state).is_alive(RunRef(dag_id="d", run_id="other")) is alive

    def test_its_own_run_lives_without_asking(self):
        assert self.states(AssertionError("asked")).is_alive(RUN) is True

    def test_a_run_that_was_deleted_is_gone(self):
        assert self.states(self.gone()).is_alive(RunRef(dag_id="d", run_id="other")) is False

    def test_a_client_in_this_process_says_it_in_another_way(self):
        request = SimpleNamespace(method="GET", url="x")
        error = ServerResponseError("gone", request=request, response=SimpleNamespace(status_code=404))  # type: ignore[arg-type]
        assert self.states(error).is_alive(RunRef(dag_id="d", run_id="other")) is False

    def test_without_an_answer_nobody_can_tell(self):
        assert self.states(ConnectionError("away")).is_alive(RunRef(dag_id="d", run_id="other")) is None
