"""The short form of `poe chaos`: real processes on real services, killed at random and at store calls."""

import json
import threading
import time
from pathlib import Path

from tests.chaos.campaign import SCHEMA, Campaign
from tests.chaos.worker import Places
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster
from tests.stack.registry import ApicurioRegistry

SECONDS = 25


def test_killed_steps_lose_and_double_nothing(
    kafka_single: KafkaCluster,
    hdfs_cluster: HdfsCluster,
    schema_registry: ApicurioRegistry,
    unique_name: str,
    tmp_path: Path,
):
    topics = [f"{unique_name}_{number}" for number in (1, 2)]
    for topic in topics:
        kafka_single.create_topic(topic, 2)
        schema_id = schema_registry.register(f"{topic}-value", json.dumps(SCHEMA))
    places = Places(
        kafka=kafka_single.bootstrap_servers,
        registry=schema_registry.url,
        webhdfs=hdfs_cluster.webhdfs_urls,
        rpc=hdfs_cluster.rpc_url,
        conf_dir=str(hdfs_cluster.hadoop_conf_dir),
        user=hdfs_cluster.superuser,
        folder=f"/{unique_name}",
        topics=topics,
    )
    campaign = Campaign(places=places, folder=tmp_path, schema_id=schema_id, seed=4)
    deadline = time.monotonic() + SECONDS
    fire = threading.Thread(target=lambda: (time.sleep(5), hdfs_cluster.safemode("enter"), time.sleep(2)))
    fire.start()

    def enough() -> bool:
        return time.monotonic() > deadline

    def calm_again() -> None:
        fire.join()
        hdfs_cluster.safemode("leave")

    mender = threading.Thread(target=calm_again)
    mender.start()
    campaign.under_fire(enough, actors=1)
    mender.join()
    verdict = campaign.settle()
    assert verdict.is_good, (verdict, campaign.ends)
    assert sum(campaign.kills.values()) >= 5
