"""The stack itself: every service starts and answers, survives what tests do to it, and never outlives a session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hdfs
import hdfs_native
import psutil
import psycopg2
import pytest
import requests
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AclOperation, AdminClient

from tests.stack import java
from tests.stack.__main__ import main as stack
from tests.stack.guard import ProcessId
from tests.stack.kafka import KafkaCluster
from tests.stack.process import Child, ServiceError, wait_until

if TYPE_CHECKING:
    from tests.stack.hdfs import HdfsCluster
    from tests.stack.postgres import PostgresServer
    from tests.stack.registry import ApicurioRegistry

ROOT = Path(__file__).parents[2]
QUIET = {"log_level": 0}


def produce(servers: dict[str, str], topic: str, values: list[bytes]) -> None:
    producer = Producer({**QUIET, "linger.ms": 0, "message.timeout.ms": 30_000, **servers})
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(40) == 0
    assert failures == []


def consume(servers: dict[str, str], topic: str, count: int, timeout: float = 40.0) -> list[bytes]:
    settings = {"group.id": f"read-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**QUIET, **settings, **servers})
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + timeout
    try:
        while len(values) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(values), 0.2):
                if message.error():
                    raise KafkaException(message.error())
                values.append(message.value())
    finally:
        consumer.close()
    return values


def plain(kafka: KafkaCluster) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


class TestKafka:
    def test_three_nodes_take_and_give_messages(
        self, kafka_cluster: KafkaCluster, unique_name: str, request: pytest.FixtureRequest
    ) -> None:
        kafka_cluster.create_topic(unique_name, 3)
        produce(plain(kafka_cluster), unique_name, [b"%d" % i for i in range(100)])
        assert sorted(map(int, consume(plain(kafka_cluster), unique_name, 100))) == list(range(100))
        assert len(kafka_cluster.cluster_id) == 22
        assert request.node.get_closest_marker("services"), "tests with these fixtures carry the marker"

    def test_a_killed_leader_is_replaced_and_comes_back_with_its_data(
        self, kafka_cluster: KafkaCluster, unique_name: str
    ) -> None:
        kafka_cluster.create_topic(unique_name)
        produce(plain(kafka_cluster), unique_name, [b"before"])
        killed = kafka_cluster.leader_of(unique_name)
        kafka_cluster.kill_node(killed)
        wait_until(
            lambda: kafka_cluster.leader_of(unique_name) not in (killed, -1), what="another node leads", timeout=30
        )
        produce(plain(kafka_cluster), unique_name, [b"between"])
        kafka_cluster.start_node(killed)
        assert consume(plain(kafka_cluster), unique_name, 2) == [b"before", b"between"]

    def test_a_frozen_node_answers_again_when_it_goes_on(self, kafka_single: KafkaCluster) -> None:
        client = AdminClient({**QUIET, **plain(kafka_single)})
        assert len(client.list_topics(timeout=10).brokers) == 1
        kafka_single.pause_node(1)
        try:
            with pytest.raises(KafkaException):
                client.list_topics(timeout=0.5)
        finally:
            kafka_single.continue_node(1)
        kafka_single.wait_ready()

    @pytest.mark.services
    def test_one_topic_can_be_denied_to_a_user_of_the_secure_listener(self, tmp_path: Path) -> None:
        with KafkaCluster(tmp_path, users={"reader": "reader-secret"}) as kafka:
            for topic in ("open", "closed"):
                kafka.create_topic(topic)
                produce(plain(kafka), topic, [b"value"])
            kafka.deny("reader", "closed", AclOperation.READ)
            scram, simple = kafka.secure_config("reader"), kafka.secure_config("reader", "PLAIN")
            assert consume(scram, "open", 1) == consume(simple, "open", 1) == [b"value"]
            with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
                consume(scram, "closed", 1)
            assert consume(plain(kafka), "closed", 1) == [b"value"]
            wrong = kafka.secure_config("reader") | {"sasl.password": "wrong"}
            assert consume(wrong, "open", 1, timeout=1) == []


class TestHdfs:
    def test_webhdfs_and_native_clients_see_each_others_files(
        self, hdfs_cluster: HdfsCluster, unique_name: str
    ) -> None:
        web = hdfs.InsecureClient(hdfs_cluster.webhdfs_url, user=hdfs_cluster.superuser)
        native = hdfs_native.Client(hdfs_cluster.rpc_url, hdfs_cluster.client_properties)
        web.write(f"/{unique_name}/web", data=b"from web")
        with native.create(f"/{unique_name}/native") as file:
            file.write(b"from native")
        web.rename(f"/{unique_name}/native", f"/{unique_name}/renamed")
        with web.read(f"/{unique_name}/renamed") as reader:
            assert reader.read() == b"from native"
        with native.read(f"/{unique_name}/web") as file:
            assert file.read() == b"from web"
        with pytest.raises(FileNotFoundError):
            native.get_file_info(f"/{unique_name}/native")

    def test_permissions_quotas_and_safe_mode_are_in_force(self, hdfs_cluster: HdfsCluster, unique_name: str) -> None:
        web = hdfs.InsecureClient(hdfs_cluster.webhdfs_url, user=hdfs_cluster.superuser)
        web.makedirs(f"/{unique_name}", permission="755")
        stranger = hdfs.InsecureClient(hdfs_cluster.webhdfs_url, user="stranger")
        with pytest.raises(hdfs.HdfsError, match="Permission denied"):
            stranger.write(f"/{unique_name}/theirs", data=b"no")
        hdfs_cluster.set_space_quota(f"/{unique_name}", 1024)
        with pytest.raises(hdfs.HdfsError, match="quota"):
            web.write(f"/{unique_name}/big", data=b"x" * 2048)
        hdfs_cluster.set_space_quota(f"/{unique_name}", None)
        hdfs_cluster.safemode("enter")
        try:
            with pytest.raises(hdfs.HdfsError, match="safe mode"):
                web.write(f"/{unique_name}/late", data=b"no")
        finally:
            hdfs_cluster.safemode("leave")
        web.write(f"/{unique_name}/now", data=b"yes")

    def test_killed_nodes_come_back_with_their_data(self, hdfs_cluster: HdfsCluster, unique_name: str) -> None:
        web = hdfs.InsecureClient(hdfs_cluster.webhdfs_url, user=hdfs_cluster.superuser)
        web.write(f"/{unique_name}", data=b"kept")
        hdfs_cluster.kill_namenode()
        hdfs_cluster.kill_datanode()
        hdfs_cluster.start_namenode(wait=False)
        hdfs_cluster.start_datanode()
        with web.read(f"/{unique_name}") as reader:
            assert reader.read() == b"kept"

    # The WebHDFS hook of the HDFS provider leaves its probing socket open when a name node refuses.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_standby_takes_over_from_a_killed_name_node(
        self, hdfs_ha_cluster: HdfsCluster, unique_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from airflow.providers.apache.hdfs.hooks.webhdfs import WebHDFSHook

        monkeypatch.setenv("AIRFLOW_CONN_WEBHDFS_DEFAULT", hdfs_ha_cluster.airflow_connection)
        native = hdfs_native.Client(hdfs_ha_cluster.rpc_url, hdfs_ha_cluster.client_properties)
        WebHDFSHook().get_conn().write(f"/{unique_name}/web", data=b"before")
        hdfs_ha_cluster.kill_namenode(1)
        hdfs_ha_cluster.failover(to=2)
        with WebHDFSHook().get_conn().read(f"/{unique_name}/web") as reader:
            assert reader.read() == b"before"
        with native.create(f"/{unique_name}/native") as file:
            file.write(b"after")
        hdfs_ha_cluster.start_namenode(1)
        assert hdfs_ha_cluster.active_namenode() == 2
        hdfs_ha_cluster.failover(to=1)
        assert hdfs_ha_cluster.active_namenode() == 1
        with WebHDFSHook().get_conn().read(f"/{unique_name}/native") as reader:
            assert reader.read() == b"after"


class TestRegistry:
    def test_a_schema_keeps_its_id_over_an_outage(self, schema_registry: ApicurioRegistry, unique_name: str) -> None:
        schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": "long"}]})
        number = schema_registry.register(f"{unique_name}-value", schema)
        schema_registry.stop()
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{schema_registry.url}/subjects", timeout=5)
        schema_registry.start()
        answer = requests.get(f"{schema_registry.url}/schemas/ids/{number}", timeout=10).json()
        assert json.loads(answer["schema"]) == json.loads(schema)
        assert schema_registry.register(f"{unique_name}-value", schema) == number


class TestPostgres:
    def test_databases_are_reached_by_tcp_and_by_socket(
        self, postgres_server: PostgresServer, unique_name: str
    ) -> None:
        url = postgres_server.create_database(unique_name)
        assert url.endswith(f"/{unique_name}")
        postgres_server.query("CREATE TABLE t AS SELECT generate_series(1, 10) AS n", unique_name)
        assert postgres_server.query("SELECT sum(n) FROM t", unique_name) == [(55,)]
        for uri in (postgres_server.uri, postgres_server.tcp_uri):
            connection = psycopg2.connect(uri)
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_user")
                assert cursor.fetchone() == ("postgres",)
            connection.close()


STARTER = """
    import sys, time
    from pathlib import Path
    from tests.stack.process import Child

    child = Child("family", ["/bin/sh", "-c", "sleep 600 & setsid sleep 600 & wait"], Path(sys.argv[1]))
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
"""


class TestProcesses:
    def test_all_that_was_started_ends_when_the_starter_is_killed(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", textwrap.dedent(STARTER), str(tmp_path)]
        starter = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert starter.stdout is not None
        with starter, starter.stdout:
            leader = psutil.Process(int(starter.stdout.readline()))
            family = wait_until(
                lambda: [leader, *leader.children()] if len(leader.children()) == 2 else None,
                what="the shell has two children",
                timeout=10,
            )
            starter.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(family, timeout=10)
        assert alive == []

    def test_a_number_used_anew_is_never_signalled(self, tmp_path: Path) -> None:
        child = Child("stranger", ["sleep", "600"], tmp_path)
        child.start()
        try:
            former = ProcessId(name="former", pid=child.pid, started=child.process_id.started - 60)
            assert former.process() is None
            assert former.end(signal_number=signal.SIGKILL) == []
            assert child.is_running()
        finally:
            child.kill()
        assert not child.is_running()

    def test_a_service_that_ends_too_early_says_why(self, tmp_path: Path) -> None:
        child = Child("unlucky", ["/bin/sh", "-c", "echo no space left; exit 3"], tmp_path)
        child.start()
        with pytest.raises(ServiceError, match=r"(?s)unlucky ended with status 3.*no space left"):
            wait_until(lambda: None, what="it answers", timeout=30, children=[child])

    def test_the_last_failure_is_shown_when_the_time_runs_out(self) -> None:
        def ask() -> None:
            raise ConnectionRefusedError("nobody there")

        with pytest.raises(ServiceError, match=r"in vain until it answers.*nobody there"):
            wait_until(ask, what="it answers", timeout=0.2)

    def test_services_started_by_hand_outlive_the_command_and_end_by_the_next(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["--root", str(tmp_path)]
        command = [sys.executable, "-m", "tests.stack", *words, "up", "--only", "postgres"]
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=120, check=True)
        assert "postgresql+psycopg2://" in done.stdout
        assert stack([*words, "status", "--only", "postgres"]) == 0
        assert "postgres  up: 1 databases" in capsys.readouterr().out
        (entry,) = json.loads((tmp_path / "state.json").read_text())["postgres"]["processes"]
        assert stack([*words, "down", "--delete"]) == 0
        assert ProcessId(**entry).process() is None
        assert not (tmp_path / "postgres").exists()
        assert stack([*words, "status"]) == 0
        assert "postgres  down" in capsys.readouterr().out


class TestDownloads:
    LINE = "org.example:thing:jar:1.0 " + "0" * 64

    def test_a_file_with_another_digest_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        tries = []

        def half(artifact: object, folder: Path) -> Path:
            tries.append(artifact)
            file = folder / "thing.jar"
            file.write_bytes(b"half")
            return file

        (tmp_path / "lists").mkdir()
        (tmp_path / "lists" / "things.txt").write_text(self.LINE)
        monkeypatch.setenv("AKH_STACK_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(java, "_LISTS", tmp_path / "lists")
        monkeypatch.setattr(java, "_download", half)
        with pytest.raises(ServiceError, match=r"org.example:thing:1.0 \(3 tries\): its SHA-256 is [0-9a-f]{64}"):
            java.jars("things")
        assert len(tries) == 3
        assert list((tmp_path / "cache").rglob("*.jar")) == []
