"""Whole runs with `dag.test()`: real Kafka, local files, the real task runner; states, files and events are counted."""

from __future__ import annotations

from pathlib import Path

from airflow_kafka_hdfs import KafkaToHdfsDag
from tests.airflow.conftest import lines_of

HOUR = 3_600_000
FIRST = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def job(topic: str, folder: Path, **arguments) -> KafkaToHdfsDag:
    return KafkaToHdfsDag(
        f"dag_{topic}",
        schedule=None,
        **{
            "topics": [topic],
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


def events_of(ids, hour: int = 0) -> list[dict]:
    return [{"id": n, "time": FIRST + hour * HOUR + n} for n in ids]


def test_a_run_reads_what_is_new_and_sends_events_for_what_changed(kafka, produce, run_dag, tmp_path, unique_name):
    kafka.create_topic(unique_name, partitions=2)
    produce(unique_name, events_of(range(10)), partition=0)
    produce(unique_name, events_of(range(10, 20), hour=1), partition=1)
    dag = job(unique_name, tmp_path)
    first = run_dag(dag)
    assert first.state == "success", first.states
    found = lines_of(tmp_path, unique_name)
    assert {hour: sorted(line["id"] for line in lines) for hour, lines in found.items()} == {
        "2026/01/01/00": list(range(10)),
        "2026/01/01/01": list(range(10, 20)),
    }
    print(first.states, first.labels, first.events, first.xcom("ingest.publish"), first.xcom("ingest.plan", "plan"))
