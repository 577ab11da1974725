"""The DAG files in `dags/`: they parse without services, and serialise alike in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DAGS = Path(__file__).parents[2] / "dags"
FILES = sorted(path.name for path in DAGS.glob("*.py"))

HASHES = """
import json, socket, sys

def no_network(*args, **kwargs):
    raise AssertionError(f"a DAG file opened a connection: {args}")

socket.socket.connect = no_network
socket.getaddrinfo = no_network

from airflow.dag_processing.dagbag import DagBag
from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.serialized_objects import DagSerialization

bag = DagBag(sys.argv[1])
clients = {"confluent_kafka", "hdfs", "hdfs_native", "fastavro", "cramjam", "deflate", "s3fs", "pyarrow", "polars"}
print("RESULT" + json.dumps({
    "errors": bag.import_errors,
    "hashes": {dag.dag_id: SerializedDagModel.hash(DagSerialization.to_dict(dag)) for dag in bag.dags.values()},
    "clients": sorted(clients & {name.partition(".")[0] for name in sys.modules}),
}))
"""


def parse(folder: Path, seed: str) -> dict:
    process = subprocess.run(
        [sys.executable, "-c", HASHES, str(folder)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (line,) = [line for line in process.stdout.splitlines() if line.startswith("RESULT")]
    return json.loads(line.removeprefix("RESULT"))


@pytest.fixture(scope="module")
def parsed() -> list[dict]:
    return [parse(DAGS, seed) for seed in ("1", "271828")]


def test_every_dag_file_parses_without_a_network(parsed):
    assert parsed[0]["errors"] == {}
    assert set(parsed[0]["hashes"]) == {name.removesuffix(".py") for name in FILES}


def test_a_dag_serialises_to_the_same_hash_in_processes_with_different_hash_seeds(parsed):
    assert parsed[0]["hashes"] == parsed[1]["hashes"]


def test_parsing_loads_no_client_library(parsed):
    assert parsed[0]["clients"] == []


def test_arguments_that_are_objects_do_not_change_the_hash(tmp_path):
    (tmp_path / "objects.py").write_text(
        """
from datetime import UTC, datetime, timedelta
from functools import partial
from airflow_kafka_hdfs import KafkaToHdfsDag, TopicFilter

class Decoder:
    def __call__(self, record): return record.value

class Scale:
    def __init__(self, by): self.by = by
    def __call__(self, record): return record.value

def keep(record, fields): return record.value

KafkaToHdfsDag(
    "objects",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    topics=TopicFilter(allow=["a.*", "b.*"], deny=["abc"]),
    destination="file:///data",
    value_format=Decoder(),
    file_format="jsonl",
    converters=[Scale(2), partial(keep, fields={"x", "y", "z"}), lambda record: None],
    bootstrap=timedelta(days=1),
    time_limit=timedelta(minutes=1),
    kafka_config={"sasl.password": "hunter2"},
    extract_args={"pool": "kafka", "execution_timeout": timedelta(hours=1)},
)
"""
    )
    first, second = parse(tmp_path, "1"), parse(tmp_path, "2")
    assert first["errors"] == {}
    assert first["hashes"] == second["hashes"]
