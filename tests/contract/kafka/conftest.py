"""The same tests on the fake cluster and on a real broker."""

from __future__ import annotations

import pytest

from tests.contract.kafka.drivers import Driver, FakeDriver, RealDriver
from tests.stack.kafka import KafkaCluster


@pytest.fixture
def reader_name() -> str:
    """Which reader the real driver has; tests of readers name them all."""
    return "client"


@pytest.fixture
def real_driver(secured_broker: KafkaCluster, reader_name: str) -> RealDriver:
    return RealDriver(secured_broker, reader_name)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.services)])
def kafka(request: pytest.FixtureRequest) -> Driver:
    return FakeDriver() if request.param == "fake" else request.getfixturevalue("real_driver")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"real_driver", "secured_broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.services)
