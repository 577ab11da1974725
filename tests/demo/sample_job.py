"""The sample job of Gobblin's users at full size, on real parts: `python -m tests.demo.sample_job`.

Three Kafka nodes, HDFS over WebHDFS and by native RPC, a schema registry, PostgreSQL, a scheduler with two workers:
three topics of twelve partitions, a million Avro records over several hours, hourly folders by `header.time`. Every
file is read back with fastavro, some with Apache's own library too; each record must stand once, in its hour.

With `--topics 1 --partitions 1000 --tasks 1000 --way native` each of 1,000 partitions is a mapped task of its own.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import avro.datafile
import avro.io
import fastavro
from confluent_kafka import Producer
from hdfs import InsecureClient

from tests.demo.events import SCHEMA
from tests.stack.airflow import AirflowStandalone
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster
from tests.stack.postgres import PostgresServer
from tests.stack.registry import ApicurioRegistry

TOPICS = ("CaptchaEvent", "LoginEvent", "SearchEvent")
HOURS = 6
BUILD = Path("build/sample_job").resolve()
START = datetime(2026, 11, 1, 6, tzinfo=UTC)

DAG_FILE = """
from datetime import UTC, datetime, timedelta
from airflow_kafka_hdfs import KafkaToHdfsDag

for way, (destination, codec) in {ways!r}.items():
    KafkaToHdfsDag(
        f"sample_{{way}}",
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        topics={topics!r},
        destination=destination,
        codec=codec,
        registry={registry!r},
        value_format="avro_confluent",
        bootstrap="earliest",
        time_field="header.time",
        granularity="hourly",
        path_pattern="YYYY/MM/dd/HH",
        max_tasks={tasks},
        target_task_bytes={task_bytes},
        time_limit=timedelta(minutes=15),
    )
"""


def produce(servers: str, schema_id: int, records: int, topics: Sequence[str], partitions: int) -> None:
    """Send records `0 … records-1`, each naming itself; topic, partition and hour follow from the number."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 500,
            "batch.num.messages": 10000,
            "acks": "all",
            # Brokers that just made a thousand partitions are slow at first.
            "request.timeout.ms": 240_000,
        }
    )
    schema = fastavro.parse_schema(SCHEMA)
    chance, head = random.Random(1), b"\0" + schema_id.to_bytes(4, "big")
    for number in range(records):
        millis = time_of(number)
        value = {
            "header": {"time": millis, "host": "web-1"},
            "event_id": str(number),
            "page": chance.choice(("/", "/search", "/cart")),
            "user": None if number % 3 else "ada",
        }
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        while True:
            try:
                number_in_topic, topic = divmod(number, len(topics))
                producer.produce(
                    topics[topic], head + out.getvalue(), partition=number_in_topic % partitions, timestamp=millis
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(300):
        raise SystemExit("not all records arrived")


def time_of(number: int) -> int:
    """Event time of a record, in ms: spread over the hours."""
    seconds = number * 7919 % (HOURS * 3600)
    return int((START + timedelta(seconds=seconds)).timestamp() * 1000)


def check(hdfs: HdfsCluster, root: str, records: int, topics: Sequence[str], *, both: bool) -> dict[str, int]:
    """Every record once, in the folder of its hour, readable by fastavro and, with `both`, by Apache's library."""
    client = InsecureClient(hdfs.webhdfs_url, user=hdfs.superuser)
    seen = bytearray(records)
    files = size = 0
    for path, content in read_all(client, root):
        files += 1
        size += len(content)
        if both and files % 25 == 1:
            count = sum(1 for _ in avro.datafile.DataFileReader(io.BytesIO(content), avro.io.DatumReader()))
            if count != sum(1 for _ in fastavro.reader(io.BytesIO(content))):
                raise SystemExit(f"{path}: the two Avro libraries do not agree")
        topic, hour = path.split("/")[0], "/".join(path.split("/")[1:5])
        for record in fastavro.reader(io.BytesIO(content)):
            number = int(record["event_id"])  # type: ignore[index,call-overload,arg-type]
            seen[number] += 1
            at = datetime.fromtimestamp(time_of(number) / 1000, UTC)
            if at.strftime("%Y/%m/%d/%H") != hour or topics[number % len(topics)] != topic:
                raise SystemExit(f"record {number} stands in {path}")
    wrong = sum(1 for count in seen if count != 1)
    if wrong:
        raise SystemExit(f"{root}: {seen.count(0)} records missing, {wrong - seen.count(0)} more than once")
    return {"records": records, "files": files, "bytes": size}


def read_all(client: Any, root: str) -> Iterator[tuple[str, bytes]]:
    """Path below the root and content of every visible file."""
    for folder, _, names in client.walk(root):
        relative = folder.removeprefix(root).strip("/")
        if relative.startswith("."):
            continue
        for name in names:
            with client.read(f"{folder}/{name}") as reader:
                yield f"{relative}/{name}", reader.read()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=len(TOPICS), choices=range(1, len(TOPICS) + 1))
    parser.add_argument("--partitions", type=int, default=12, help="of each topic")
    parser.add_argument("--tasks", type=int, default=20, help="at most so many mapped tasks")
    parser.add_argument("--task-bytes", type=int, default=16 * 1024 * 1024, help="a task is filled up to this")
    parser.add_argument("--way", choices=("webhdfs", "native"), help="only this one")
    parser.add_argument("--timeout", type=float, default=900, help="seconds that a run may take")
    chosen = parser.parse_args()
    records, topics = chosen.records, TOPICS[: chosen.topics]
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaCluster(BUILD / "kafka", nodes=3))
        hdfs = stack.enter_context(HdfsCluster(BUILD / "hdfs"))
        registry = stack.enter_context(ApicurioRegistry(BUILD / "registry"))
        postgres = stack.enter_context(PostgresServer(BUILD / "postgres"))
        for topic in topics:
            kafka.create_topic(topic, chosen.partitions)
        schema_id = registry.register(f"{TOPICS[0]}-value", json.dumps(SCHEMA))
        # Apache's library reads snappy only with a further package, deflate as it is.
        ways = {"webhdfs": ("webhdfs:///data/web", "snappy"), "native": (f"{hdfs.rpc_url}/data/native", "deflate")}
        ways = {way: place for way, place in ways.items() if chosen.way in (way, None)}
        dags = BUILD / "dags"
        dags.mkdir()
        (dags / "sample.py").write_text(
            DAG_FILE.format(
                ways=ways,
                topics=list(topics),
                registry=registry.url,
                tasks=chosen.tasks,
                task_bytes=chosen.task_bytes,
            )
        )
        airflow = stack.enter_context(
            AirflowStandalone(
                (BUILD / "airflow").resolve(),
                dags.resolve(),
                postgres,
                parallelism=2,
                users={},
                triggerer=False,
                env={
                    "AIRFLOW_CONN_KAFKA_DEFAULT": kafka.airflow_connection,
                    "AIRFLOW_CONN_WEBHDFS_DEFAULT": hdfs.airflow_connection,
                    "HADOOP_CONF_DIR": str(hdfs.hadoop_conf_dir.resolve()),
                },
            )
        )
        begin = time.monotonic()
        produce(kafka.bootstrap_servers, schema_id, records, topics, chosen.partitions)
        print(f"produced {records:,} records in {time.monotonic() - begin:.0f} s", flush=True)
        for way, (destination, codec) in ways.items():
            begin = time.monotonic()
            run_id, state = airflow.run_to_end(f"sample_{way}", timeout=chosen.timeout)
            seconds = time.monotonic() - begin
            instances = airflow.task_instances(f"sample_{way}", run_id)
            tasks = sum(one["task_id"] == "ingest.extract" for one in instances)
            steps = {one["task_id"]: round(one["duration"], 1) for one in instances if one["map_index"] < 0}
            if state != "success":
                print(airflow.logs(f"sample_{way}", run_id, "ingest.gate"))
                raise SystemExit(f"{way}: run ended {state}")
            root = "/" + destination.partition("://")[2].partition("/")[2]
            found = check(hdfs, root, records, topics, both=codec == "deflate")
            print(
                *(
                    line
                    for line in airflow.logs(f"sample_{way}", run_id, "ingest.plan").splitlines()
                    if "planned" in line
                )
            )
            print(f"{way}: {seconds:.0f} s, {tasks} tasks, {found}: each record once, in its hour; {steps}", flush=True)


if __name__ == "__main__":
    main()
