"""A run whose name node dies in the middle of a mapped task: HDFS with two name nodes, WebHDFS through the hook."""

from __future__ import annotations

import json

import pytest
from hdfs import InsecureClient

from airflow_kafka_hdfs import KafkaToHdfsDag
from tests.stack.hdfs import HdfsCluster

HOUR = 3_600_000
FIRST = 1_767_225_600_000  # 2026-01-01T00:00:00Z
RECORDS = 40

CLUSTER: list[HdfsCluster] = []
"""The cluster whose active name node is to die while a record is converted; taken once."""


def lose_the_active_name_node(record):
    if CLUSTER and record.value["id"] == RECORDS // 2:
        hdfs = CLUSTER.pop()
        hdfs.kill_namenode(1)
        hdfs.failover(to=2)
    return record.value


def visible_ids(hdfs: HdfsCluster, root: str) -> dict[str, list[int]]:
    """Folder below the topic -> ids of the records in its visible files."""
    client, found = InsecureClient(hdfs.webhdfs_urls[1], user=hdfs.superuser), {}
    for folder, _, names in client.walk(root):
        for name in names:
            with client.read(f"{folder}/{name}") as reader:
                lines = reader.read().splitlines()
            found.setdefault(folder.removeprefix(root + "/"), []).extend(json.loads(line)["id"] for line in lines)
    return {folder: sorted(ids) for folder, ids in found.items()}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the hook leaves its probe socket open
def test_a_standby_promoted_in_mid_task_neither_loses_nor_doubles_a_record(
    kafka, produce, run_dag, hdfs_ha_cluster, unique_name, monkeypatch
):
    monkeypatch.setenv("AIRFLOW_CONN_WEBHDFS_DEFAULT", hdfs_ha_cluster.airflow_connection)
    topic = kafka.create_topic(unique_name)
    produce(topic, [{"id": n, "time": FIRST + n % 2 * HOUR} for n in range(RECORDS)])
    dag = KafkaToHdfsDag(
        unique_name,
        schedule=None,
        topics=[topic],
        destination=f"webhdfs:///{unique_name}",
        value_format="json",
        file_format="jsonl",
        time_field="time",
        bootstrap="earliest",
        converters=[lose_the_active_name_node],
    )
    CLUSTER.append(hdfs_ha_cluster)
    try:
        ran = run_dag(dag)
        assert not CLUSTER
        assert ran.state == "success", ran.states
        seen = visible_ids(hdfs_ha_cluster, f"/{unique_name}/{topic}")
        assert seen == {"2026/01/01/00": list(range(0, RECORDS, 2)), "2026/01/01/01": list(range(1, RECORDS, 2))}
        produce(topic, [{"id": RECORDS, "time": FIRST}])
        assert run_dag(dag).state == "success"
        seen = visible_ids(hdfs_ha_cluster, f"/{unique_name}/{topic}")
        assert seen["2026/01/01/00"] == list(range(0, RECORDS + 1, 2))
    finally:
        CLUSTER.clear()
        hdfs_ha_cluster.start_namenode(1)
        hdfs_ha_cluster.failover(to=1)
