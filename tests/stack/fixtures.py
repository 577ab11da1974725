"""Fixtures for the real services: started when the first test asks, at most once per session, ended with it.

`tests/conftest.py` makes them known to all tests. A service that does not start makes its tests fail with the
reason. Tests share the services: use `unique_name` for topics, folders, subjects and databases, and a cluster
of your own (``with KafkaCluster(tmp_path) as kafka:``) if you stop nodes in ways that others would notice.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster
from tests.stack.postgres import PostgresServer
from tests.stack.registry import ApicurioRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVICES = {
    "kafka_cluster",
    "kafka_single",
    "secured_broker",
    "hdfs_cluster",
    "hdfs_ha_cluster",
    "schema_registry",
    "postgres_server",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs a real service, directly or through another fixture, with `services`."""
    for item in items:
        if _SERVICES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.services)


@pytest.fixture(scope="session")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Kafka with three nodes."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka-cluster"), nodes=3) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def kafka_single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Kafka with one node: starts in half the time and leaves the machine to others."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka-single")) as kafka:
        yield kafka


SECURED_USER, SECURED_PASSWORD = "reader", "a secret of the tests"


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One broker with passwords, a CA of its own and ACLs, whose cleaner, retention and coordinator work at once."""
    properties: dict[str, str | int] = {
        "log.cleaner.backoff.ms": 200,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 100,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    }
    folder = tmp_path_factory.mktemp("kafka-secured")
    with KafkaCluster(folder, users={SECURED_USER: SECURED_PASSWORD}, properties=properties) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def hdfs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """HDFS with one name node and one data node."""
    with HdfsCluster(tmp_path_factory.mktemp("hdfs")) as hdfs:
        yield hdfs


@pytest.fixture(scope="session")
def hdfs_ha_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """HDFS with two name nodes and one data node."""
    with HdfsCluster(tmp_path_factory.mktemp("hdfs-ha"), ha=True) as hdfs:
        yield hdfs


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApicurioRegistry]:
    """A schema registry with the Confluent REST API."""
    with ApicurioRegistry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """PostgreSQL."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as postgres:
        yield postgres


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """A name no other test has, made from the test's own: for topics, path segments, subjects, databases."""
    words = re.sub(r"[^a-z0-9]+", "_", request.node.name.lower()).strip("_")
    return f"{words[:40].rstrip('_')}_{uuid.uuid4().hex[:8]}"
