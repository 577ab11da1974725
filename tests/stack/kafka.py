"""A Kafka cluster of one or three nodes, each broker and controller (KRaft), on the loopback address."""

from __future__ import annotations

import base64
import json
import shutil
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from tests.stack.java import Java, jars, with_startup_cache
from tests.stack.process import Child, Service, ServiceError, port_of, run, wait_until
from tests.stack.tls import make_tls_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

JARS = "kafka-4.3.1"
# The log goes to standard output by slf4j-simple; at "info" a node prints its whole configuration twice.
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    number: int
    child: Child
    port: int
    controller_port: int
    secure_port: int
    folder: Path
    properties: dict[str, str] = field(default_factory=dict)


class KafkaCluster(Service):
    """Kafka 4.3 with `nodes` KRaft nodes, numbered from 1 as their ``node.id``.

    Args:
        folder: Data, configuration and logs; a cluster started again on the same folder has its old data.
        nodes: 1 or 3.
        properties: Broker properties on top of ours, for every node.
        users: Name -> password. If given, the nodes also listen with SASL_SSL (PLAIN and SCRAM) on ports of
            their own and check ACLs. Who comes over the plain port is super user; the users may do all that
            no `deny` forbids.
        heap_mb: Java heap of a node.
        quick: False for benchmarks: Java compiles as on a server, and takes three times as long to start.
        java: How to run Java instead of what `quick` says.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: Literal[1, 3] = 1,
        properties: Mapping[str, str | int] | None = None,
        users: Mapping[str, str] | None = None,
        heap_mb: int = 384,
        quick: bool = True,
        java: Java | None = None,
    ) -> None:
        self.folder = folder
        self._java = java or _java(quick)
        self.users = dict(users or {})
        self.ca_file = folder / "tls" / "ca.pem"
        self._extra = {name: str(value) for name, value in (properties or {}).items()}
        self._id_file = folder / "cluster.id"
        self._heap_mb = heap_mb
        self._admin: AdminClient | None = None
        self._nodes = [self._make_node(number) for number in range(1, nodes + 1)]

    @property
    def children(self) -> Sequence[Child]:
        return [node.child for node in self._nodes]

    @property
    def bootstrap_servers(self) -> str:
        """All plain listeners: ``127.0.0.1:port,…``."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)

    @property
    def secure_bootstrap_servers(self) -> str:
        """All SASL_SSL listeners; there are none without `users`."""
        if not self.users:
            raise ServiceError("this cluster has no SASL_SSL listener: give it `users`")
        return ",".join(f"127.0.0.1:{node.secure_port}" for node in self._nodes)

    @property
    def cluster_id(self) -> str:
        """The cluster id, 22 characters of URL-safe base64."""
        if not self._id_file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            # Kafka's own generator avoids a leading "-", which its command lines take for an option.
            self._id_file.write_text("A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:])
        return self._id_file.read_text()

    @property
    def admin(self) -> AdminClient:
        """An admin client of the whole cluster, made once."""
        if self._admin is None:
            self._admin = _admin_client(self.bootstrap_servers)
        return self._admin

    @property
    def airflow_connection(self) -> str:
        """Value of ``AIRFLOW_CONN_KAFKA_DEFAULT``."""
        return json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap_servers}})

    def secure_config(self, user: str, mechanism: Mechanism = "SCRAM-SHA-256") -> dict[str, str]:
        """Settings of librdkafka for one of `users` over SASL_SSL."""
        return {
            "bootstrap.servers": self.secure_bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self.users[user],
            "ssl.ca.location": str(self.ca_file),
        }

    def start(self) -> Self:
        if not all((node.folder / "meta.properties").exists() for node in self._nodes):
            self._format()
        for node in self._nodes:
            self._write_config(node)
            node.child.start()
        self.wait_ready()
        if self.users:
            self._make_scram_users()
        return self

    def wait_ready(self, timeout: float = 150.0) -> None:
        """Wait until every running node is known to the cluster and serves clients."""
        running = [node for node in self._nodes if node.child.is_running()]
        if not running:
            raise ServiceError("no node of the Kafka cluster runs")
        for node in running:
            own = _admin_client(f"127.0.0.1:{node.port}")

            def knows_all(own: AdminClient = own) -> bool:
                return len(own.list_topics(timeout=2).brokers) >= len(running)

            wait_until(
                knows_all,
                what=f"Kafka node {node.number} knows {len(running)} nodes",
                timeout=timeout,
                children=[one.child for one in running],
            )

    def kill_node(self, number: int) -> None:
        """End a node by SIGKILL; its data stays."""
        self._node(number).child.kill()

    def stop_node(self, number: int) -> None:
        """Shut a node down in order (it hands over its leaderships first)."""
        self._node(number).child.stop(grace=30)

    def start_node(self, number: int, *, wait: bool = True) -> None:
        """Start a stopped or killed node on its old port and data."""
        self._node(number).child.start()
        if wait:
            self.wait_ready()

    def pause_node(self, number: int) -> None:
        """Freeze a node: connections stay open, nothing answers."""
        self._node(number).child.pause()

    def continue_node(self, number: int) -> None:
        """Let a frozen node go on."""
        self._node(number).child.resume()

    def create_topic(self, name: str, partitions: int = 1, *, config: Mapping[str, str | int] | None = None) -> str:
        """Create a topic and wait until all its partitions have leaders.

        Time stamps of test events often lie in the past, and a broker removes what is older than
        ``retention.ms`` (7 days by default) while readers look: here the default is to keep everything.

        Returns:
            `name`.
        """
        settings = {"retention.ms": "-1"} | {key: str(value) for key, value in (config or {}).items()}
        new = NewTopic(name, num_partitions=partitions, config=settings)
        self.admin.create_topics([new])[name].result(timeout=60)

        def has_leaders() -> bool:
            found = self.admin.list_topics(name, timeout=5).topics[name].partitions.values()
            return len(found) == partitions and all(one.leader > 0 and one.error is None for one in found)

        wait_until(has_leaders, what=f"topic {name} has leaders", timeout=60, children=self._running())
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the cluster has forgotten it."""
        self.admin.delete_topics([name])[name].result(timeout=60)
        wait_until(
            lambda: name not in self.admin.list_topics(timeout=5).topics,
            what=f"topic {name} is gone",
            timeout=60,
        )

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Number of the node that leads a partition; -1 while there is none."""
        return self.admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader

    def deny(self, user: str, topic: str, operation: AclOperation = AclOperation.ALL) -> None:
        """Forbid `user` (on the SASL_SSL listener) an operation on one topic; all else stays allowed."""
        # A topic with any ACL is closed to all whom no ACL allows, so "all others" must be said.
        everyone = self._acl(topic, "User:*", AclOperation.ALL, AclPermissionType.ALLOW)
        denied = self._acl(topic, f"User:{user}", operation, AclPermissionType.DENY)
        for future in self.admin.create_acls([everyone, denied]).values():
            future.result(timeout=30)

    def _acl(self, topic: str, who: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
        return AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, who, "*", operation, permission)

    def _running(self) -> list[Child]:
        return [child for child in self.children if child.is_running()]

    def _node(self, number: int) -> _Node:
        if not 1 <= number <= len(self._nodes):
            raise ServiceError(f"there is no Kafka node {number}: they are numbered 1 to {len(self._nodes)}")
        return self._nodes[number - 1]

    def _make_node(self, number: int) -> _Node:
        name = f"kafka-{number}"
        config = self.folder / f"{name}.properties"
        command = self._java.command("kafka", "kafka.Kafka", config, heap_mb=self._heap_mb)
        return _Node(
            number=number,
            child=Child(name, command, self.folder / "logs", env=self._java.env),
            port=port_of(self.folder, name),
            controller_port=port_of(self.folder, f"{name}-controller"),
            secure_port=port_of(self.folder, f"{name}-secure"),
            folder=self.folder / f"{name}-data",
        )

    def _write_config(self, node: _Node) -> Path:
        path = self.folder / f"kafka-{node.number}.properties"
        lines = self._properties(node) | self._secure_properties(node) | self._extra
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path

    def _properties(self, node: _Node) -> dict[str, str]:
        count = len(self._nodes)
        plain, controller = (
            f"PLAINTEXT://127.0.0.1:{node.port}",
            f"CONTROLLER://127.0.0.1:{node.controller_port}",
        )
        voters = ",".join(f"{one.number}@127.0.0.1:{one.controller_port}" for one in self._nodes)
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{plain},{controller}",
            "advertised.listeners": plain,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
            "log.dirs": str(node.folder),
            "auto.create.topics.enable": "false",
            "num.partitions": "1",
            "default.replication.factor": str(count),
            "min.insync.replicas": str(min(count, 2)),
            "offsets.topic.replication.factor": str(count),
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": str(count),
            "transaction.state.log.min.isr": str(min(count, 2)),
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # the default takes 128 MiB of the heap
            "num.network.threads": "2",
            "num.io.threads": "4",
            "broker.session.timeout.ms": "6000",  # a killed node loses its leaderships after this time
            "controlled.shutdown.enable": "true",
        }

    def _secure_properties(self, node: _Node) -> dict[str, str]:
        if not self.users:
            return {}
        ca, server = make_tls_files(self.ca_file.parent)
        secure = f"SECURE://127.0.0.1:{node.secure_port}"
        base = self._properties(node)
        plain_users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        return {
            "listeners": f"{base['listeners']},{secure}",
            "advertised.listeners": f"{base['advertised.listeners']},{secure}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.secure.plain.sasl.jaas.config": f"{_PLAIN} required {plain_users};",
            "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ca),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
        }

    def _format(self) -> None:
        """Format the folder of the first node with Kafka's tool, and those of the others by its model.

        They differ in two ids only, and a Java program less per node is worth it.
        """
        first = self._nodes[0]
        config = self._write_config(first)
        words = ["format", "-t", self.cluster_id, "-c", str(config)]
        command = self._java.without_recording.command("kafka", "kafka.tools.StorageTool", *words, heap_mb=128)
        shutil.rmtree(first.folder, ignore_errors=True)
        run(command, what="formatting the Kafka folder", timeout=120, env=self._java.env)
        for node in self._nodes[1:]:
            shutil.rmtree(node.folder, ignore_errors=True)
            shutil.copytree(first.folder, node.folder)
            meta = (node.folder / "meta.properties").read_text().splitlines()
            own = {
                "node.id": str(node.number),
                "directory.id": base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
            }
            lines = (f"{key}={own.get(key, value)}" for key, _, value in (line.partition("=") for line in meta))
            (node.folder / "meta.properties").write_text("\n".join(lines) + "\n")

    def _make_scram_users(self) -> None:
        # One credential per user and request is the rule of the brokers.
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            wanted: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, info, password.encode()) for user, password in self.users.items()
            ]
            for future in self.admin.alter_user_scram_credentials(wanted).values():
                future.result(timeout=30)


def _java(quick: bool) -> Java:
    java = Java(class_path=tuple(jars(JARS)), options=_LOGGING, quick=quick)
    return with_startup_cache(java, ["kafka"], _train) if quick else java


def _train(java: Java, folder: Path) -> None:
    with KafkaCluster(folder, java=java) as kafka:
        kafka.create_topic("training", 2)
        kafka.stop(grace=120)


def _admin_client(servers: str) -> AdminClient:
    # Killed nodes are the business of these tests: librdkafka need not report each lost connection on the
    # terminal.
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})
