"""Whole runs on real Kafka by the tiers that the setting and the connection allow."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro

from tests.airflow.test_runs import job, task_states
from tests.unit.ingest.extracting import EVENT, HOUR, MORNING, datum, event

BARE = {"value_format": "avro", "schema": EVENT, "file_format": "avro", "time_field": "header.time", "max_tasks": 1}


def heard(_statistics: str) -> None:
    """A callback of the user."""


def ids_in(folder: Path) -> dict[str, list[int]]:
    found = {}
    for path in sorted(folder.rglob("*.avro")):
        hour = path.parent.relative_to(folder).as_posix()
        found[hour] = sorted(record["id"] for record in fastavro.reader(io.BytesIO(path.read_bytes())))
    return found


def test_a_job_with_the_direct_tier_forced_lands_every_record(
    kafka, produce, run_dag, tmp_path, unique_name, monkeypatch
):
    monkeypatch.setenv("AIRFLOW__KAFKA_HDFS__TIERS", "direct")
    topic = kafka.create_topic(unique_name, partitions=2)
    values = [datum(event(n, MORNING + n % 2 * HOUR)) for n in range(600)]
    for partition in (0, 1):
        produce(topic, values[partition * 300 : partition * 300 + 300], partition=partition)
    ran = run_dag(job([topic], tmp_path, **BARE))
    assert ran.state == "success", ran.states
    assert ids_in(tmp_path / topic) == {
        "2026/01/01/08": list(range(0, 600, 2)),
        "2026/01/01/09": list(range(1, 600, 2)),
    }
    assert [state["ways"] for state in task_states(ran)] == [{"direct": 600}]


def test_a_connection_with_a_callback_is_read_by_the_next_tier_and_refused_where_direct_is_an_order(
    kafka, produce, run_dag, tmp_path, unique_name, monkeypatch, capsys, caplog
):
    caplog.set_level("INFO")
    path = f"{__name__}.{heard.__name__}"
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", path)
    extra = {"bootstrap.servers": kafka.bootstrap_servers, "stats_cb": path}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    topic = kafka.create_topic(unique_name)
    produce(topic, [datum(event(n)) for n in range(10)])
    monkeypatch.setenv("AIRFLOW__KAFKA_HDFS__TIERS", "direct")
    ran = run_dag(job([topic], tmp_path, **BARE))
    assert (ran.state, ran.states["ingest.extract[0]"]) == ("failed", "failed")
    assert "direct: only the client's Python face can call stats_cb" in capsys.readouterr().out
    monkeypatch.delenv("AIRFLOW__KAFKA_HDFS__TIERS")
    ran = run_dag(job([topic], tmp_path, **BARE))
    assert ran.state == "success", ran.states
    assert [state["ways"] for state in task_states(ran)] == [{"compiled": 10}]
    assert "tier direct is off: only the client's Python face can call stats_cb" in caplog.text
