"""`uv run poe chaos`: steps and services are killed until it is enough; then nothing may be lost or doubled."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.chaos.campaign import SCHEMA, Campaign
from tests.chaos.worker import Places
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster
from tests.stack.registry import ApicurioRegistry

TOPICS = ["clicks", "events"]
FOLDER = "/chaos/data"


class Trouble:
    """What happens to the services, one thing after the other, each mended again."""

    def __init__(self, kafka: KafkaCluster, hdfs: HdfsCluster, registry: ApicurioRegistry, campaign: Campaign) -> None:
        self.kafka, self.hdfs, self.registry, self.campaign = kafka, hdfs, registry, campaign
        self.chance = random.Random(f"trouble/{campaign.seed}")
        self.done: list[str] = []
        self.error: BaseException | None = None

    def all(self) -> list[Callable[[], None]]:
        return [
            self.registry_is_down,
            self.leader_is_killed,
            self.name_node_in_safe_mode,
            self.standby_is_promoted,
            self.data_node_is_gone,
            self.quota_is_exhausted,
            self.all_brokers_are_away,
            self.name_node_is_killed,
        ]

    def until(self, enough: Callable[[], bool]) -> None:
        """Every kind of trouble at least once, then at random."""
        try:
            waiting = self.all()
            while not enough() or waiting:
                happens = waiting.pop(0) if waiting else self.chance.choice(self.all())
                kills = sum(self.campaign.kills.values())
                self.campaign.say(f"{kills} kills; {happens.__name__.replace('_', ' ')}")
                happens()
                self.done.append(happens.__name__)
                time.sleep(self.chance.uniform(1, 8))
        except BaseException as error:
            self.campaign.say(f"trouble ends with {error!r}")
            self.error = error

    def _killed(self, what: str) -> None:
        self.campaign.kills[what] += 1

    def registry_is_down(self) -> None:
        self.registry.kill()
        self._killed("registry")
        time.sleep(self.chance.uniform(3, 8))
        self.registry.start()

    def leader_is_killed(self) -> None:
        leader = self.kafka.leader_of(self.chance.choice(TOPICS), self.chance.randrange(3))
        if leader > 0:
            self.kafka.kill_node(leader)
            self._killed("broker")
            time.sleep(self.chance.uniform(2, 6))
            self.kafka.start_node(leader)

    def all_brokers_are_away(self) -> None:
        for number in (1, 2, 3):
            self.kafka.pause_node(number)
        time.sleep(20)
        for number in (1, 2, 3):
            self.kafka.continue_node(number)
        self.kafka.wait_ready()

    def name_node_in_safe_mode(self) -> None:
        self.hdfs.safemode("enter")
        time.sleep(self.chance.uniform(2, 5))
        self.hdfs.safemode("leave")

    def standby_is_promoted(self) -> None:
        self.hdfs.failover(3 - (self.hdfs.active_namenode() or 1))

    def name_node_is_killed(self) -> None:
        """Without anybody to promote the standby it is an outage; then it is promoted."""
        active = self.hdfs.active_namenode() or 1
        self.hdfs.kill_namenode(active)
        self._killed("name node")
        time.sleep(self.chance.uniform(1, 4))
        self.hdfs.failover(3 - active)
        self.hdfs.start_namenode(active)

    def data_node_is_gone(self) -> None:
        self.hdfs.kill_datanode()
        self._killed("data node")
        time.sleep(self.chance.uniform(3, 8))
        self.hdfs.start_datanode()

    def quota_is_exhausted(self) -> None:
        """In one topic's folder: its files can't come into place, everything else goes on."""
        folder = f"{FOLDER}/{TOPICS[1]}"
        self.hdfs.webhdfs("PUT", folder, "MKDIRS")
        self.hdfs.set_name_quota(folder, 1)
        time.sleep(self.chance.uniform(4, 8))
        self.hdfs.set_name_quota(folder, None)


def main() -> int:
    """Run it; 0 if nothing was lost or doubled and the doctor is content."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="kill -9 at least so often (default 500)")
    parser.add_argument("--seed", type=int, default=None, help="by default one by the clock")
    parser.add_argument("--minutes", type=float, default=40, help="stop the fire after so long (default 40)")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:6.0f} s] {text}", flush=True)

    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaCluster(folder / "kafka", nodes=3))
        hdfs = stack.enter_context(HdfsCluster(folder / "hdfs", ha=True))
        registry = stack.enter_context(ApicurioRegistry(folder / "registry"))
        for topic in TOPICS:
            kafka.create_topic(topic, 3)
        schema_id = registry.register(f"{TOPICS[0]}-value", json.dumps(SCHEMA))
        registry.register(f"{TOPICS[1]}-value", json.dumps(SCHEMA))  # one text, one id
        places = Places(
            kafka=kafka.bootstrap_servers,
            registry=registry.url,
            webhdfs=hdfs.webhdfs_urls,
            rpc=hdfs.rpc_url,
            conf_dir=str(hdfs.hadoop_conf_dir),
            user=hdfs.superuser,
            folder=FOLDER,
            topics=TOPICS,
        )
        campaign = Campaign(places=places, folder=folder, schema_id=schema_id, seed=seed, say=say)
        trouble = Trouble(kafka, hdfs, registry, campaign)
        deadline = time.monotonic() + 60 * given.minutes

        def enough() -> bool:
            done = sum(campaign.kills.values()) >= given.kills or time.monotonic() > deadline
            return done or trouble.error is not None

        say(f"services are up; seed {seed}")
        fire = threading.Thread(target=trouble.until, args=(enough,))
        fire.start()
        campaign.under_fire(lambda: enough() and not fire.is_alive())
        fire.join()
        if trouble.error is not None:
            raise trouble.error
        say(f"the fire is out: {dict(campaign.kills)}; {dict(campaign.ends)}; trouble: {trouble.done}")
        verdict = campaign.settle()
    for name in ("green", "lost", "doubled", "strange", "findings", "orphans", "broken"):
        found = getattr(verdict, name)
        if found and found != "green":
            print(f"{name}: {found if isinstance(found, str) else found[:5]}")
    if verdict.is_good:
        shutil.rmtree(folder, ignore_errors=True)
    kills = sum(campaign.kills.values())
    print(f"records {len(campaign.produced)}, good: {verdict.is_good}, {time.monotonic() - started:.0f} s")
    print(f"chaos: {kills} kills, {len(verdict.lost)} lost, {len(verdict.doubled)} doubled, seed {seed}")
    return 0 if verdict.is_good and kills >= given.kills else 1


if __name__ == "__main__":
    raise SystemExit(main())
