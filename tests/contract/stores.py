"""The kinds of store that the contract suite runs on, each with what a test may ask beyond the port."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hdfs_native
from hdfs import InsecureClient

from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsStore
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.adapters.storage.native import NativeCalls
from airflow_kafka_hdfs.adapters.storage.objects import ObjectStore
from airflow_kafka_hdfs.adapters.storage.probe import ProvableStore
from airflow_kafka_hdfs.adapters.storage.webhdfs import WebHdfsCalls
from airflow_kafka_hdfs.exceptions import StoreRefusedError
from airflow_kafka_hdfs.model import FileStatus
from airflow_kafka_hdfs.ports.store import Store
from tests.fakes.store import InMemoryStore
from tests.stack.hdfs import HdfsCluster

RACERS = 8


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One store under test.

    Attributes:
        open: a store object on the place of this test, as each process has its own; takes the options of its kind.
        has_folders: folders are there of themselves, so that a path below a file can't be.
        mode: permission bits of a path, None where the store has none.
    """

    kind: str
    open: Callable[..., ProvableStore]
    has_folders: bool = True
    mode: Callable[[str], int] | None = None


def memory_bench() -> Bench:
    store = InMemoryStore()
    return Bench(kind="memory", open=lambda: store)


def local_bench(folder: Path) -> Bench:
    return Bench(
        kind="local",
        open=lambda **options: LocalStore(folder, **options),
        mode=lambda path: (folder / path).stat().st_mode & 0o7777,
    )


def webhdfs_bench(hdfs: HdfsCluster, folder: str, **options: Any) -> Bench:
    def open_(*, user: str | None = None, timeout: float = 30, **more: Any) -> ProvableStore:
        def connect() -> Any:
            return InsecureClient(hdfs.webhdfs_url, user=user or hdfs.superuser, timeout=timeout)

        calls = WebHdfsCalls(connect, folder, timeout=timeout)
        return HdfsStore(calls, root=f"webhdfs://{folder}", **options, **more)

    return Bench(kind="webhdfs", open=open_, mode=lambda path: hdfs_mode(hdfs, f"{folder}/{path}"))


def native_bench(hdfs: HdfsCluster, folder: str, **options: Any) -> Bench:
    def open_(*, timeout: float = 30, **more: Any) -> ProvableStore:
        calls = NativeCalls(
            lambda: hdfs_native.Client(hdfs.rpc_url, config_dir=str(hdfs.hadoop_conf_dir)), folder, timeout=timeout
        )
        return HdfsStore(calls, root=f"{hdfs.rpc_url}{folder}", **options, **more)

    return Bench(kind="native", open=open_, mode=lambda path: hdfs_mode(hdfs, f"{folder}/{path}"))


def hdfs_mode(hdfs: HdfsCluster, path: str) -> int:
    return int(hdfs.webhdfs("GET", path, "GETFILESTATUS").json()["FileStatus"]["permission"], 8)


def s3_bench(filesystem: Any) -> Bench:
    bucket = f"bucket-{uuid.uuid4().hex[:8]}"
    filesystem.mkdir(bucket)
    prefix = f"{bucket}/some/prefix"
    return Bench(
        kind="s3",
        open=lambda **options: ObjectStore(filesystem, prefix, root=f"s3://{prefix}", **options),
        has_folders=False,
    )


def s3_filesystem(endpoint: str) -> Any:
    import s3fs

    return s3fs.S3FileSystem(
        endpoint_url=endpoint, key="testing", secret="testing", skip_instance_cache=True, use_listings_cache=False
    )


@contextmanager
def s3_server() -> Iterator[str]:
    """A moto server on the loopback address; one request at a time, which makes its conditional writes atomic."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def stage(store: Store, path: str, data: bytes) -> int:
    writer = store.create(path)
    writer.write(data)
    writer.close()
    return len(data)


def race(call: Callable[[int], object]) -> list[object]:
    """What the call answers or raises for 0..RACERS-1, all let go at once."""
    start = threading.Barrier(RACERS)

    def one(number: int) -> object:
        start.wait()
        try:
            return call(number)
        except StoreRefusedError as error:
            return error

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(one, range(RACERS)))


def shown(entries: list[FileStatus]) -> list[tuple[str, int, bool]]:
    return [(entry.path, entry.size, entry.is_dir) for entry in entries]
