import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from airflow_kafka_hdfs.adapters.storage.probe import ProvableStore
from tests.contract.stores import (
    Bench,
    local_bench,
    memory_bench,
    native_bench,
    s3_bench,
    s3_filesystem,
    s3_server,
    webhdfs_bench,
)
from tests.fakes.registry_server import RegistryServer, registry_server


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def s3(s3_endpoint: str) -> Any:
    """One client for all tests: to make one costs a second, and it caches nothing."""
    return s3_filesystem(s3_endpoint)


KINDS = [
    "memory",
    "local",
    "s3",
    pytest.param("webhdfs", marks=pytest.mark.services),
    pytest.param("native", marks=pytest.mark.services),
]


@pytest.fixture(params=KINDS)
def bench(request) -> Bench:
    return _bench(request.param, request)


@pytest.fixture(params=KINDS[1:2] + KINDS[3:])
def moded(request) -> Bench:
    """Stores with permission bits."""
    with umask(0o022):
        yield _bench(request.param, request)


@pytest.fixture(params=KINDS[1:2] + KINDS[3:])
def streaming(request) -> Bench:
    """Stores that send a file while it is written."""
    return _bench(request.param, request)


@pytest.fixture
def store(bench: Bench) -> ProvableStore:
    return bench.open()


def _bench(kind: str, request: pytest.FixtureRequest) -> Bench:
    if kind == "memory":
        return memory_bench()
    if kind == "local":
        return local_bench(request.getfixturevalue("tmp_path") / "root")
    if kind == "s3":
        return s3_bench(request.getfixturevalue("s3"))
    hdfs, folder = request.getfixturevalue("hdfs_cluster"), f"/contract/{request.getfixturevalue('unique_name')}"
    # HDFS gives folders that nobody asked for the mode of the one above them: it must not be that of another test.
    hdfs.webhdfs("PUT", "/contract", "MKDIRS", permission="755")
    hdfs.webhdfs("PUT", "/contract", "SETPERMISSION", permission="755")
    return webhdfs_bench(hdfs, folder) if kind == "webhdfs" else native_bench(hdfs, folder)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Airflow makes its home when it is imported; it belongs to the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow-home")))
        import airflow  # noqa: F401

        yield


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        yield running
