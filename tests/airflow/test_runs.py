"""Whole runs with `dag.test()`: real Kafka, local files, the real task runner; states, files and events are counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_kafka_hdfs import KafkaToHdfsDag, TopicFilter
from airflow_kafka_hdfs.exceptions import StoreUnavailableError
from airflow_kafka_hdfs.ingest import finishing
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.inspecting import newest_commits
from airflow_kafka_hdfs.ingest.plan_book import abort_plan, all_plans
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.operators.ports import open_context
from tests.airflow.conftest import Ran, lines_of
from tests.fakes.runtime import KnownRuns

HOUR = 3_600_000
FIRST = 1_767_225_600_000  # 2026-01-01T00:00:00Z

DURING_EXTRACT: list[Callable[[], None]] = []
"""What is to happen while a record is converted; taken once."""


def happen(record):
    while DURING_EXTRACT:
        DURING_EXTRACT.pop()()
    return record.value


def job(topics: Any, folder: Path, **arguments) -> KafkaToHdfsDag:
    name = topics[0] if isinstance(topics, list) else "filtered"
    return KafkaToHdfsDag(
        f"dag_{name}_{folder.name}"[:200],
        schedule=None,
        **{
            "topics": topics,
            "destination": folder.as_uri(),
            "value_format": "json",
            "file_format": "jsonl",
            "time_field": "time",
            "bootstrap": "earliest",
            "target_task_bytes": 4096,
            "max_tasks": 3,
            **arguments,
        },
    )


def records(ids, hour: int = 0) -> list[dict]:
    return [{"id": n, "time": FIRST + hour * HOUR + n} for n in ids]


def ids_in(folder: Path, topic: str) -> dict[str, list[int]]:
    return {hour: sorted(line["id"] for line in lines) for hour, lines in lines_of(folder, topic).items()}


def context_of(dag: KafkaToHdfsDag) -> Context:
    """The pipeline as a command would open it."""
    return open_context(dag.ingest.plan.config(), RunRef(dag_id="test", run_id="test"), KnownRuns())


def announced(dag: KafkaToHdfsDag) -> set[int]:
    """Numbers of commits whose events are known to be stored."""
    ctx = context_of(dag)
    head = ctx.log.read().head
    return {n for n in range(head + 1) if ctx.state.status(ctx.log.paths.announced(n)) is not None}


def told(ran: Ran) -> list[tuple[str, str | None, int]]:
    """(last parts of the asset, partition, commit) of each event."""
    return sorted(
        ("/".join(uri.split("/")[-2:] if "@" in uri else uri.split("/")[-1:]), key or "", extra["n"])
        for uri, key, extra in ran.events
    )


def test_runs_read_what_is_new_and_tell_of_what_changed(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name, partitions=2)
    produce(topic, records(range(10)), partition=0)
    produce(topic, records(range(10, 20), hour=1), partition=1)
    dag = job([topic], tmp_path, mirror_group=f"mirror-{topic}")
    first = run_dag(dag)
    assert first.state == "success", first.states
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": list(range(10)), "2026/01/01/01": list(range(10, 20))}
    hourly = f"{topic}/@hourly"
    assert told(first) == [
        (topic, "", 1),
        (hourly, "2026-01-01T00:00:00", 1),
        (hourly, "2026-01-01T01:00:00", 1),
    ]
    assert {extra["counts"]["written"] for _, _, extra in first.events} == {20}
    assert {(extra["pipeline"], extra["kind"], extra["late"]) for _, _, extra in first.events} == {
        (f"{dag.dag_id}.ingest", "forward", 0)
    }
    assert announced(dag) == {1}
    assert first.labels == {0: f"{topic}[0-1]", 1: f"{topic}[0]", 2: f"{topic}[1]"}
    assert watermarks(topic) == {"pipeline": f"{dag.dag_id}.ingest", "commit": 1, "offsets": {"0": 10, "1": 10}}
    assert group_offsets(kafka, f"mirror-{topic}") == {0: 10, 1: 10}

    idle = run_dag(dag)  # nothing is new: no tasks, no commit, no event
    assert (idle.state, idle.events) == ("success", [])
    assert idle.states["ingest.extract"] == "skipped"
    assert idle.xcom("ingest.plan") == []

    produce(topic, records(range(20, 25)), partition=0)
    second = run_dag(dag)
    assert ids_in(tmp_path, topic)["2026/01/01/00"] == [*range(10), *range(20, 25)]
    assert told(second) == [(topic, "", 2), (hourly, "2026-01-01T00:00:00", 2)]
    assert second.xcom("ingest.publish")["counts"]["written"] == 5
    assert watermarks(topic)["offsets"] == {"0": 15, "1": 10}


def test_progress_of_a_task_is_in_its_state_store(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(10)))
    ran = run_dag(job([topic], tmp_path, max_tasks=1))
    (value,) = task_states(ran)
    assert (value["plan"], value["task"]) == (ran.xcom("ingest.plan", "plan")["plan"], 0)
    assert (value["records"], value["lag"]) == (10, 0)
    assert {"bytes", "rate", "seconds_left"} <= value.keys()


def test_a_dry_run_shows_the_plan_and_leaves_nothing(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(10)))
    ran = run_dag(job([topic], tmp_path), {"dry_run": True})
    assert (ran.state, ran.events) == ("success", [])
    assert list(tmp_path.rglob("*")) == []
    assert ran.xcom("ingest.plan", "plan")["dry_run"] is True
    assert run_dag(job([topic], tmp_path)).state == "success"
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": list(range(10))}


def test_an_aborted_plan_sends_no_event_and_the_next_run_reads_it(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(10)))
    dag = job([topic], tmp_path, converters=[happen])
    DURING_EXTRACT.append(lambda: abort_newest_plan(dag))
    ran = run_dag(dag)
    assert (ran.state, ran.events) == ("failed", [])
    assert ran.states["ingest.publish"] == ran.states["ingest.gate"] == "failed"
    assert ids_in(tmp_path, topic) == {}
    after = run_dag(dag)
    assert (after.state, len(after.events)) == ("success", 2)
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": list(range(10))}


def test_events_are_counted_over_the_six_ends_of_a_run(kafka, produce, run_dag, tmp_path, unique_name, monkeypatch):
    topic = kafka.create_topic(unique_name)
    mirror = f"mirror-{topic}"
    arguments = {"max_tasks": 1, "converters": [happen], "mirror_group": mirror, "publish_policy": "partial"}
    dag = job([topic], tmp_path, **arguments)
    counted: dict[str, tuple[int, int]] = {}

    def ended(name: str, ran: Ran) -> Ran:
        """Events of the dataset, and of its partitions."""
        uris = [uri for uri, _, _ in ran.events]
        counted[name] = (sum("@" not in uri for uri in uris), sum("@" in uri for uri in uris))
        return ran

    ended("empty", run_dag(dag))
    produce(topic, records(range(10)))
    ended("dry", run_dag(job([topic], tmp_path, **arguments), {"dry_run": True}))
    DURING_EXTRACT.append(lambda: abort_newest_plan(dag))
    assert ended("aborted", run_dag(dag)).state == "failed"
    produce(topic, [None, *records(range(10, 15), hour=1)])
    partial = ended("partial", run_dag(dag))
    assert (partial.state, partial.states["ingest.publish"]) == ("failed", "success")
    assert partial.xcom("ingest.publish")["counts"]["written"] == 10
    dag = job([topic], tmp_path, **arguments, on_null="skip", publish_args={"retries": 1, "retry_delay": 0.0})
    ended("full", run_dag(dag))

    produce(topic, records(range(15, 18), hour=2))
    die_once(monkeypatch)
    recovered = ended("recovered", run_dag(dag))
    assert counted == {
        "empty": (0, 0),
        "dry": (0, 0),
        "aborted": (0, 0),
        "partial": (1, 1),
        "full": (1, 1),
        "recovered": (1, 1),
    }
    assert (recovered.state, tries(recovered, "ingest.publish")) == ("success", {2})
    told_of = recovered.xcom("ingest.publish")
    assert told_of["counts"]["written"] == 3
    assert told_of["recovered"] == [told_of["commit"]]
    assert watermarks(topic)["commit"] == told_of["commit"]
    assert watermarks(topic)["offsets"] == {"0": 19}
    assert group_offsets(kafka, mirror) == {0: 19}


def die_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store goes away right after the next commit."""
    bring = finishing.roll_forward

    def away(*arguments: Any) -> Any:
        monkeypatch.setattr(finishing, "roll_forward", bring)
        raise StoreUnavailableError("promote", "a file", "as the test wants it")

    monkeypatch.setattr(finishing, "roll_forward", away)


def test_a_topic_that_fails_holds_back_itself_alone(kafka, produce, run_dag, tmp_path, unique_name):
    good, bad = kafka.create_topic(f"{unique_name}_good"), kafka.create_topic(f"{unique_name}_bad")
    produce(good, records(range(10)))
    produce(bad, [*records(range(5)), None, *records(range(5, 10))])
    dag = job([good, bad], tmp_path)
    ran = run_dag(dag)
    assert ran.state == "failed"
    assert (ran.states["ingest.publish"], ran.states["ingest.gate"]) == ("success", "failed")
    assert told(ran) == [(good, "", 1), (f"{good}/@hourly", "2026-01-01T00:00:00", 1)]
    assert (ids_in(tmp_path, good), ids_in(tmp_path, bad)) == ({"2026/01/01/00": list(range(10))}, {})
    (commit, *_) = newest_commits(context_of(dag), 1)
    assert [(held.topic, held.reason) for held in commit.held] == [(bad, "unit_failed")]
    assert tries(ran, "ingest.extract") == {1}  # a unit that failed for its own reason is not retried

    patient = job([good, bad], tmp_path, on_null="skip")
    assert run_dag(patient).state == "success"
    assert ids_in(tmp_path, bad) == {"2026/01/01/00": list(range(10))}


def test_a_missing_topic_holds_back_itself_alone(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(3)))
    ran = run_dag(job([topic, f"{unique_name}_missing"], tmp_path))
    assert (ran.state, ran.states["ingest.publish"]) == ("failed", "success")
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": [0, 1, 2]}
    assert ran.xcom("ingest.plan", "plan")["held"] == [f"{unique_name}_missing"]


def test_events_that_may_have_been_lost_are_sent_again(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(3)))
    dag = job([topic], tmp_path)
    run_dag(dag)
    ctx = context_of(dag)
    ctx.state.delete(ctx.log.paths.announced(1))  # as if the gate had died
    idle = run_dag(dag)
    assert told(idle) == [(topic, "", 1), (f"{topic}/@hourly", "2026-01-01T00:00:00", 1)]
    assert announced(dag) == {1}

    ctx.state.delete(ctx.log.paths.announced(1))
    produce(topic, records(range(3, 6), hour=1))
    both = run_dag(dag)
    assert told(both) == [
        (topic, "", 2),
        (f"{topic}/@hourly", "2026-01-01T00:00:00", 2),
        (f"{topic}/@hourly", "2026-01-01T01:00:00", 2),
    ]
    assert [item["n"] for item in both.events[0][2]["recovered"]] == [1]
    assert announced(dag) == {1, 2}


def test_a_commit_that_a_store_refused_is_told_once_it_is_whole(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(3)))
    dag = job([topic], tmp_path)
    blocker = tmp_path / topic
    DURING_EXTRACT.append(lambda: blocker.write_text("in the way"))
    dag_blocked = job([topic], tmp_path, converters=[happen])
    ran = run_dag(dag_blocked)
    assert (ran.state, ran.events) == ("failed", [])
    assert ran.states["ingest.publish"] == "success"  # it did its work; the gate names the commit
    blocker.unlink()
    after = run_dag(dag)
    assert after.state == "success"
    assert told(after) == [(topic, "", 1), (f"{topic}/@hourly", "2026-01-01T00:00:00", 1)]
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": [0, 1, 2]}


def test_limits_alone_leave_a_run_green_and_the_next_one_goes_on(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(30)))
    first = run_dag(job([topic], tmp_path, max_tasks=1), {"record_limit": 12})
    assert first.state == "success"
    assert first.xcom("ingest.publish")["counts"]["written"] == 12
    assert run_dag(job([topic], tmp_path, max_tasks=1)).state == "success"
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": list(range(30))}


def test_a_range_is_read_by_kafka_time_and_a_second_time_not_at_all(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    for hour in range(3):
        produce(topic, records(range(hour * 10, hour * 10 + 10), hour), timestamp=FIRST + hour * HOUR)
    asked = {"range_start": "2026-01-01T01:00:00Z", "range_end": "2026-01-01T03:00:00+01:00"}
    assert run_dag(job([topic], tmp_path, bootstrap="latest"), asked).state == "success"
    assert ids_in(tmp_path, topic) == {"2026/01/01/01": list(range(10, 20))}
    again = run_dag(job([topic], tmp_path, bootstrap="latest"), asked)
    assert (again.state, again.events) == ("success", [])
    open_start = {"range_end": "2026-01-01T02:00:00Z"}
    assert run_dag(job([topic], tmp_path, bootstrap="latest"), open_start).state == "success"
    assert sorted(ids_in(tmp_path, topic)) == ["2026/01/01/00", "2026/01/01/01"]


def test_a_replace_takes_old_files_out_of_place_and_tells_their_partitions(
    kafka, produce, run_dag, tmp_path, unique_name
):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(10)), timestamp=FIRST)
    dag = job([topic], tmp_path)
    run_dag(dag)
    before = sorted(path.name for path in (tmp_path / topic).rglob("*.jsonl"))
    asked = {"range_start": "2026-01-01T00:00:00Z", "range_end": "2026-01-01T01:00:00Z", "replace": True}
    ran = run_dag(dag, asked)
    assert ran.state == "success", ran.states
    after = sorted(path.name for path in (tmp_path / topic).rglob("*.jsonl"))
    assert not set(before) & set(after)
    assert ids_in(tmp_path, topic) == {"2026/01/01/00": list(range(10))}
    assert (topic, "", 2) in told(ran)
    assert {extra["kind"] for _, _, extra in ran.events} == {"replace"}


def test_topics_of_a_filter_get_their_events_through_an_alias(kafka, produce, run_dag, tmp_path, unique_name):
    first, second = kafka.create_topic(f"{unique_name}.a"), kafka.create_topic(f"{unique_name}.b")
    produce(first, records(range(3)))
    produce(second, records(range(3), hour=1))
    dag = job(TopicFilter(allow=[f"{unique_name}\\..*"]), tmp_path)
    ran = run_dag(dag)
    assert ran.state == "success", ran.states
    assert sorted((uri.split("/")[-1], key) for uri, key, _ in ran.events if "@" in uri) == [
        ("@hourly", f"{first}|2026-01-01T00:00:00"),
        ("@hourly", f"{second}|2026-01-01T01:00:00"),
    ]
    assert sorted(uri.split("/")[-1] for uri, _, _ in ran.events if "@" not in uri) == [first, second]
    assert announced(dag) == {1}


def test_a_plan_that_fails_fails_the_run_without_a_trace(run_dag, tmp_path, unique_name, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "extra": {"group.id": "no brokers"}}')
    ran = run_dag(job([unique_name], tmp_path))
    assert (ran.state, ran.events) == ("failed", [])
    assert ran.states["ingest.plan"] == "failed"
    assert ran.states["ingest.gate"] == "failed"
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_a_publish_that_lost_its_plan_says_so(kafka, produce, run_dag, tmp_path, unique_name):
    topic = kafka.create_topic(unique_name)
    produce(topic, records(range(3)))
    dag = job([topic], tmp_path, converters=[happen])
    plans = tmp_path / ".kafka_hdfs" / f"{dag.dag_id}.ingest" / "plans"
    DURING_EXTRACT.append(lambda: shutil.rmtree(plans))
    ran = run_dag(dag)
    assert (ran.state, ran.states["ingest.publish"]) == ("failed", "failed")


def abort_newest_plan(dag: KafkaToHdfsDag) -> None:
    ctx = context_of(dag)
    plan = next(all_plans(ctx))
    abort_plan(ctx, plan, "the test wants it")


def tries(ran: Ran, task_id: str) -> set[int]:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(TaskInstance.try_number).where(
            TaskInstance.dag_id == ran.run.dag_id,
            TaskInstance.run_id == ran.run.run_id,
            TaskInstance.task_id == task_id,
        )
        return set(session.scalars(query))


def watermarks(topic: str) -> dict:
    import json

    from airflow.models.asset import AssetModel
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = (
            select(AssetStateStoreModel.value)
            .join(AssetModel, AssetModel.id == AssetStateStoreModel.asset_id)
            .where(AssetModel.uri.endswith(f"/{topic}"), AssetStateStoreModel.key == "kafka_hdfs.watermarks")
        )
        value = session.scalar(query)
    return json.loads(value) if isinstance(value, str) else value


def task_states(ran: Ran) -> list[dict]:
    import json

    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(TaskStateStoreModel.value).where(
            TaskStateStoreModel.dag_id == ran.run.dag_id,
            TaskStateStoreModel.run_id == ran.run.run_id,
            TaskStateStoreModel.key == "progress",
        )
        values = session.scalars(query).all()
    return [json.loads(value) if isinstance(value, str) else value for value in values]


def group_offsets(kafka, group: str) -> dict[int, int]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    (answer,) = kafka.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {part.partition: part.offset for part in answer.result(20).topic_partitions}


@pytest.fixture(autouse=True)
def _nothing_is_left_to_happen():
    DURING_EXTRACT.clear()
    yield
    DURING_EXTRACT.clear()
