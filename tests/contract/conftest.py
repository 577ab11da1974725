from collections.abc import Iterator
from typing import Any

import pytest

from airflow_kafka_hdfs.ports.store import Store
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
def bench(request, tmp_path) -> Bench:
    if request.param == "memory":
        return memory_bench()
    if request.param == "local":
        return local_bench(tmp_path / "root")
    if request.param == "s3":
        return s3_bench(request.getfixturevalue("s3"))
    hdfs, folder = request.getfixturevalue("hdfs_cluster"), f"/contract/{request.getfixturevalue('unique_name')}"
    return webhdfs_bench(hdfs, folder) if request.param == "webhdfs" else native_bench(hdfs, folder)


@pytest.fixture
def store(bench: Bench) -> Store:
    return bench.open()
