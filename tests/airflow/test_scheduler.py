"""One real Airflow: scheduler, two workers, metadata in PostgreSQL; real Kafka, local files.

The example DAGs run as they stand in `dags/`; a second file brings jobs for backfills, clears and many partitions.
"""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tests.airflow.conftest import lines_of
from tests.stack.airflow import AirflowStandalone
from tests.stack.kafka import KafkaCluster
from tests.stack.postgres import PostgresServer
from tests.stack.process import wait_until

DAGS = Path(__file__).parents[2] / "dags"
HOUR = 3_600_000
FIRST = 1_767_225_600_000  # 2026-01-01T00:00:00Z
SCHEMA = {
    "type": "record",
    "name": "CaptchaEvent",
    "fields": [
        {"name": "header", "type": {"type": "record", "name": "Header", "fields": [{"name": "time", "type": "long"}]}},
        {"name": "event_id", "type": "string"},
        {"name": "solved", "type": "boolean"},
    ],
}

JOBS = '''
import os
import time
from datetime import UTC, datetime, timedelta

from airflow_kafka_hdfs import KafkaToHdfsDag
from airflow_kafka_hdfs.exceptions import Transient

COMMON = {
    "destination": os.environ["KAFKA_HDFS_DESTINATION"] + "/jobs",
    "value_format": "json",
    "file_format": "jsonl",
    "time_field": "time",
    "bootstrap": "earliest",
    "start_date": datetime(2025, 12, 1, tzinfo=UTC),
}


class NotNow(Transient, RuntimeError):
    pass


def fragile(record):
    """Needs something at a certain record that is away until a file says that it is back."""
    if record.value["id"] == 7 and not os.path.exists(os.environ["KAFKA_HDFS_MENDED"]):
        raise NotNow("the test wants it")
    return record.value


def fragile_once(record):
    """As `fragile`, and back by the next attempt."""
    try:
        return fragile(record)
    except NotNow:
        open(os.environ["KAFKA_HDFS_MENDED"], "a").close()
        raise


def slow_once(record):
    """Waits in the midst of the task, unless a file says that it was there before."""
    begun = os.environ["KAFKA_HDFS_MENDED"] + "-begun"
    if record.value["id"] == 7 and not os.path.exists(begun):
        open(begun, "a").close()
        time.sleep(600)
    return record.value


KafkaToHdfsDag("backfilled", schedule="@hourly", topics=["backfilled"], **COMMON)
KafkaToHdfsDag(
    "cleared",
    schedule=None,
    topics=["cleared"],
    converters=[fragile],
    target_task_bytes=4096,
    max_tasks=3,
    extract_args={"retries": 0},
    **COMMON,
)
KafkaToHdfsDag(
    "retried",
    schedule=None,
    topics=["retried"],
    converters=[fragile_once],
    extract_args={"retry_delay": timedelta(seconds=1)},
    **COMMON,
)
KafkaToHdfsDag(
    "orphaned",
    schedule=None,
    topics=["orphaned"],
    converters=[slow_once],
    extract_args={"retry_delay": timedelta(seconds=1)},
    **COMMON,
)
KafkaToHdfsDag("wide", schedule=None, topics=["wide"], target_task_bytes=16384, **COMMON)
'''


@dataclass(frozen=True)
class Lab:
    airflow: AirflowStandalone
    kafka: KafkaCluster
    data: Path
    mended: Path

    def events(self, dataset: str) -> list[dict]:
        """Asset events of a dataset below the destination, oldest first."""
        uri = f"{self.data.as_uri()}/{dataset}"
        (asset,) = [one for one in self.airflow.get("assets", limit=100)["assets"] if one["uri"] == uri]
        found = self.airflow.get("assets/events", asset_id=asset["id"], limit=100)["asset_events"]
        return sorted(found, key=lambda event: event["id"])


@pytest.fixture(scope="module")
def lab(
    kafka_single: KafkaCluster, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    dags, data, schemas = folder / "dags", folder / "data", folder / "schemas"
    shutil.copytree(DAGS, dags, ignore=shutil.ignore_patterns("__pycache__"))
    (dags / "jobs.py").write_text(JOBS)
    schemas.mkdir()
    (schemas / "7.avsc").write_text(json.dumps(SCHEMA))
    kafka_extra = {"bootstrap.servers": kafka_single.bootstrap_servers}
    env = {
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": kafka_extra}),
        "AIRFLOW__KAFKA_HDFS__GATE_POKE_INTERVAL": "3",
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
        "KAFKA_HDFS_DESTINATION": data.as_uri(),
        "KAFKA_HDFS_REGISTRY": schemas.as_uri(),
        "KAFKA_HDFS_MENDED": str(folder / "mended"),
    }
    with AirflowStandalone(folder / "home", dags, postgres_server, parallelism=3, env=env, triggerer=False) as airflow:
        yield Lab(airflow, kafka_single, data, folder / "mended")


@pytest.fixture
def send(lab: Lab) -> Callable[..., None]:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap_servers, "linger.ms": 5, "log_level": 0})

    def send(topic: str, values: dict[int, list[bytes]], *, timestamp: int = 0) -> None:
        for partition, of_partition in values.items():
            for value in of_partition:
                producer.produce(topic, value, partition=partition, timestamp=timestamp)
        assert producer.flush(60) == 0

    return send


def avro(number: int, hour: int) -> bytes:
    out = io.BytesIO(b"\x00\x00\x00\x00\x07")
    out.seek(5)
    event = {"header": {"time": FIRST + hour * HOUR + number}, "event_id": f"e{number}", "solved": number % 2 == 0}
    fastavro.schemaless_writer(out, SCHEMA, event)
    return out.getvalue()


def line(number: int, hour: int) -> bytes:
    return json.dumps({"id": number, "time": FIRST + hour * HOUR + number}).encode()


def ids_of(folder: Path, topic: str) -> dict[str, list[int]]:
    return {hour: sorted(entry["id"] for entry in lines) for hour, lines in lines_of(folder, topic).items()}


@pytest.mark.timeout(900)
def test_the_sample_job_reads_each_record_once_and_starts_a_run_per_changed_hour(lab: Lab, send: Any):
    topic = lab.kafka.create_topic("CaptchaEvent", partitions=4)
    send(topic, {partition: [avro(n, n % 3) for n in range(partition, 400, 4)] for partition in range(4)})
    lab.airflow.unpause("captcha_event_report")
    lab.airflow.unpause("captcha_event_hourly")  # its schedule has one slot that is due
    first = wait_until(
        lambda: next(iter(lab.airflow.runs("captcha_event_hourly")), None), what="the scheduled run", timeout=120
    )
    assert lab.airflow.wait_run("captcha_event_hourly", first["dag_run_id"], 300) == "success"
    assert first["run_type"] == "scheduled"
    assert captchas(lab.data) == Counter((f"2026/01/01/{n % 3:02}", f"e{n}") for n in range(400))

    send(topic, {1: [avro(n, 2) for n in range(400, 410)]})
    second = lab.airflow.trigger("captcha_event_hourly")
    assert lab.airflow.wait_run("captcha_event_hourly", second, 300) == "success"
    assert lab.airflow.xcom("captcha_event_hourly", second, "ingest.publish")["counts"]["written"] == 10
    assert sum(captchas(lab.data).values()) == 410
    assert [event["extra"]["n"] for event in lab.events("CaptchaEvent")] == [1, 2]
    hours = Counter(event["partition_key"] for event in lab.events("CaptchaEvent/@hourly"))
    assert hours == {"2026-01-01T00:00:00": 1, "2026-01-01T01:00:00": 1, "2026-01-01T02:00:00": 2}

    def reports() -> Counter | None:
        runs = lab.airflow.runs("captcha_event_report")
        keys = Counter(run["partition_key"] for run in runs if run["state"] == "success")
        return keys if set(keys) == set(hours) else None

    assert wait_until(reports, what="a run per changed hour", timeout=180)


@pytest.mark.timeout(900)
def test_a_backfill_of_six_hours_runs_beside_a_scheduled_run(lab: Lab, send: Any):
    topic = lab.kafka.create_topic("backfilled", partitions=2)
    for hour in range(6):
        numbers = range(hour * 100, hour * 100 + 100)
        halves = {partition: [line(n, hour) for n in numbers[partition::2]] for partition in range(2)}
        send(topic, halves, timestamp=FIRST + hour * HOUR)
    lab.airflow.unpause("backfilled")
    lab.airflow.backfill("backfilled", "2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z", max_active_runs=3)
    lab.airflow.wait_backfill("backfilled", 6, 600)
    scheduled = lab.airflow.runs("backfilled", run_type="scheduled")
    for run in scheduled:
        lab.airflow.wait_run("backfilled", run["dag_run_id"], 300)
    assert scheduled
    red = [run for run in lab.airflow.runs("backfilled") if run["state"] != "success"]
    for run in red:  # plans that were made at the same moment may have read the same: the log took one of them
        lab.airflow.clear("backfilled", run["dag_run_id"])
        assert lab.airflow.wait_run("backfilled", run["dag_run_id"], 300) == "success"
    found = ids_of(lab.data / "jobs", topic)
    assert found == {f"2026/01/01/{hour:02}": list(range(hour * 100, hour * 100 + 100)) for hour in range(6)}


@pytest.mark.timeout(900)
def test_clearing_one_failed_mapped_task_completes_the_same_plan(lab: Lab, send: Any):
    topic = lab.kafka.create_topic("cleared", partitions=3)
    send(topic, {partition: [line(n, 0) for n in range(partition, 30, 3)] for partition in range(3)})
    run, state = lab.airflow.run_to_end("cleared", timeout=300)
    states = lab.airflow.task_states("cleared", run)
    failed = [name for name, found in states.items() if "extract" in name and found == "failed"]
    assert (state, len(failed)) == ("failed", 1), states
    (instance,) = [
        one for one in lab.airflow.task_instances("cleared", run) if one["state"] == "failed" and one["map_index"] >= 0
    ]
    index = instance["map_index"]
    assert f"extract[{index}] left no manifest" in lab.airflow.logs("cleared", run, "ingest.gate")
    assert ids_of(lab.data / "jobs", topic) == {}

    lab.mended.touch()
    lab.airflow.clear("cleared", run, [("ingest.extract", index)])
    assert lab.airflow.wait_run("cleared", run, 300) == "success"
    assert ids_of(lab.data / "jobs", topic) == {"2026/01/01/00": list(range(30))}
    plans = list((lab.data / "jobs/.kafka_hdfs/cleared.ingest/plans").iterdir())
    assert len(plans) == 1


@pytest.mark.timeout(900)
def test_a_mapped_task_is_tried_again_after_an_outage_and_its_files_count_once(lab: Lab, send: Any):
    topic = lab.kafka.create_topic("retried")
    send(topic, {0: [line(n, 0) for n in range(30)]})
    lab.mended.unlink(missing_ok=True)
    run, state = lab.airflow.run_to_end("retried", timeout=300)
    assert state == "success", lab.airflow.task_states("retried", run)
    (extract,) = [one for one in lab.airflow.task_instances("retried", run) if one["task_id"] == "ingest.extract"]
    assert extract["try_number"] == 2
    assert ids_of(lab.data / "jobs", topic) == {"2026/01/01/00": list(range(30))}


@pytest.mark.timeout(900)
def test_a_scheduler_killed_with_its_workers_in_mid_task_loses_and_doubles_nothing(lab: Lab, send: Any):
    topic = lab.kafka.create_topic("orphaned")
    send(topic, {0: [line(n, 0) for n in range(30)]})
    lab.airflow.unpause("orphaned")
    run = lab.airflow.trigger("orphaned")
    begun = lab.mended.with_name(f"{lab.mended.name}-begun")
    wait_until(begun.exists, what="the task is in the midst of its records", timeout=180)
    lab.airflow.kill_scheduler()
    assert ids_of(lab.data / "jobs", topic) == {}
    lab.airflow.start_scheduler()
    assert lab.airflow.wait_run("orphaned", run, 600) == "success"
    assert ids_of(lab.data / "jobs", topic) == {"2026/01/01/00": list(range(30))}
    (extract,) = [one for one in lab.airflow.task_instances("orphaned", run) if one["task_id"] == "ingest.extract"]
    assert extract["start_date"] > datetime.fromtimestamp(begun.stat().st_mtime, UTC).isoformat()


@pytest.mark.timeout(900)
def test_a_thousand_partitions_fit_into_twenty_tasks_with_labels_that_postgresql_takes(lab: Lab, send: Any):
    topic = lab.kafka.create_topic("wide", partitions=1000)
    send(topic, {partition: [line(partition, 0), line(1000 + partition, 0)] for partition in range(1000)})
    run, state = lab.airflow.run_to_end("wide", timeout=600)
    assert state == "success", lab.airflow.task_states("wide", run)
    instances = [one for one in lab.airflow.task_instances("wide", run) if one["task_id"] == "ingest.extract"]
    assert len(instances) == 20
    labels = {one["rendered_map_index"] for one in instances}
    assert len(labels) == 20
    assert max(map(len, labels)) <= 200
    assert all(label.startswith("wide[") for label in labels)
    assert ids_of(lab.data / "jobs", topic) == {"2026/01/01/00": list(range(2000))}


def captchas(folder: Path) -> Counter:
    """(hour, event id) -> how often, over all files."""
    found: Counter = Counter()
    root = folder / "CaptchaEvent"
    for path in root.rglob("*.avro"):
        with path.open("rb") as file:
            hour = path.parent.relative_to(root).as_posix()
            found.update((hour, record["event_id"]) for record in fastavro.reader(file))
    return found
