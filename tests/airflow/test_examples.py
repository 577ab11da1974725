"""The DAG files in `dags/` that no other test runs, as they stand, on real Kafka and local files."""

from __future__ import annotations

import json
import time
from pathlib import Path

import fastavro
import pytest

from tests.airflow.conftest import lines_of

DAGS = Path(__file__).parents[2] / "dags"
FIRST = 1_767_225_600_000  # 2026-01-01T00:00:00Z


@pytest.fixture
def example(tmp_path, monkeypatch):
    """`example(dag id)`: the DAG of an example file, with its destination on local disk."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("KAFKA_HDFS_DESTINATION", tmp_path.as_uri())

    def load(dag_id: str):
        bag = DagBag(str(DAGS / f"{dag_id}.py"), bundle_name="testing")
        assert bag.import_errors == {}
        return bag.dags[dag_id]

    return load


def test_orders_hand_wired(kafka, produce, run_dag, example, tmp_path):
    kafka.create_topic("orders", partitions=2)
    orders = [{"id": n, "created_at": f"2026-01-01T0{n % 2}:30:00Z"} for n in range(10)]
    produce("orders", orders[:5], partition=0)
    produce("orders", orders[5:], partition=1)
    ran = run_dag(example("orders_hand_wired"))
    assert ran.state == "success", ran.states
    found = {hour: sorted(order["id"] for order in lines) for hour, lines in lines_of(tmp_path, "orders").items()}
    assert found == {"2026/01/01/00": [0, 2, 4, 6, 8], "2026/01/01/01": [1, 3, 5, 7, 9]}
    assert ran.states["tell"] == "success"


def test_web_events(kafka, produce, run_dag, example, tmp_path):
    for topic in ("page_views", "clicks", "errors", "audit.logins"):
        kafka.create_topic(topic)
    now = int(time.time() * 1000)  # bootstrap is a week back by Kafka's time
    views = [
        {"id": n, "time": FIRST, "country": "FR", "agent": "bot" if n == 3 else "x", "ip": "1.2.3.4"} for n in range(5)
    ]
    produce("page_views", views, timestamp=now)
    produce("clicks", [{"id": 1, "time": FIRST, "country": "DE", "agent": "x"}], timestamp=now)
    produce("errors", [{"id": n, "time": FIRST} for n in range(3)], timestamp=now)
    produce("audit.logins", [b"first"], timestamp=now)
    dag = example("web_events")
    ran = run_dag(dag)
    assert ran.state == "success", ran.states
    found = lines_of(tmp_path, "page_views")
    assert [(place, [line["id"] for line in lines]) for place, lines in found.items()] == [
        ("country=FR/2026/01/01/00", [0, 1, 2, 4])
    ]
    assert not any("ip" in line for lines in found.values() for line in lines)
    assert list(lines_of(tmp_path, "errors")) == ["2026/01/01"]
    assert ran.xcom("web.publish")["counts"]["filtered"] == 1

    produce("audit.logins", [json.dumps({"user": "a"}).encode()], timestamp=now)  # its bootstrap is `latest`
    again = run_dag(dag)
    assert again.state == "success", again.states
    (path,) = (tmp_path / "audit").rglob("*.avro")
    with path.open("rb") as file:
        (record,) = fastavro.reader(file)
    assert (record["value"], record["_kafka_offset"]) == (b'{"user": "a"}', 1)
