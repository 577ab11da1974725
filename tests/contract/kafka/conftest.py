"""The same tests on the fake cluster and on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.kafka.drivers import PASSWORD, USER, Driver, FakeDriver, RealDriver
from tests.stack.kafka import KafkaCluster


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One broker with passwords and ACLs, whose cleaner and retention work at once instead of in minutes."""
    properties = {
        "log.cleaner.backoff.ms": 200,
        "log.retention.check.interval.ms": 500,
        "log.initial.task.delay.ms": 100,
    }
    folder = tmp_path_factory.mktemp("kafka-secured")
    with KafkaCluster(folder, users={USER: PASSWORD}, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def real_driver(secured_broker: KafkaCluster) -> RealDriver:
    return RealDriver(secured_broker)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.services)])
def kafka(request: pytest.FixtureRequest) -> Driver:
    return FakeDriver() if request.param == "fake" else request.getfixturevalue("real_driver")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"real_driver", "secured_broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.services)
