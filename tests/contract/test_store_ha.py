"""Two name nodes: the store moves to the one that is active, in the middle of its work."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsStore
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StoreUnavailableError
from airflow_kafka_hdfs.hooks.storage import store_for
from tests.contract.hdfs_faults import InterceptedCalls, at
from tests.stack.hdfs import HdfsCluster

# The provider's hook leaves the socket with which it found a standby to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")

CHUNK = b"0123456789" * 10_000


class NameNodePair:
    """The two name nodes by their part in a test, whichever number is active when it starts."""

    def __init__(self, cluster: HdfsCluster) -> None:
        self._cluster = cluster
        self._active = 1
        self.mend()

    def mend(self) -> None:
        """Both run, one is active. A frozen one comes back as a standby, lest there be two active ones."""
        for number, child in enumerate(self._cluster.children[:2], start=1):
            if child.is_running() and child.is_paused():
                self._cluster.kill_namenode(number)
            if not child.is_running():
                self._cluster.start_namenode(number)
        self._cluster.wait_ready()
        self._active = self._cluster.active_namenode()

    def kill(self) -> None:
        self._cluster.kill_namenode(self._active)

    def freeze(self) -> None:
        self._cluster.pause_namenode(self._active)

    def fail_over(self) -> None:
        self._cluster.failover(3 - self._active)

    def kill_and_fail_over(self) -> None:
        self.kill()
        self.fail_over()


@pytest.fixture
def pair(hdfs_ha_cluster):
    pair = NameNodePair(hdfs_ha_cluster)
    yield pair
    pair.mend()


@pytest.fixture(params=["webhdfs", "hdfs"])
def store(request, pair, hdfs_ha_cluster, unique_name, monkeypatch, airflow_home):
    """A store from Airflow connections."""
    monkeypatch.setenv("AIRFLOW_CONN_WEBHDFS_DEFAULT", hdfs_ha_cluster.airflow_connection)
    monkeypatch.setenv("AIRFLOW_CONN_HDFS_NATIVE_DEFAULT", hdfs_ha_cluster.native_airflow_connection)
    monkeypatch.setenv("HADOOP_USER_NAME", hdfs_ha_cluster.superuser)
    return store_for(f"{request.param}:///ha/{unique_name}", timeout=20, retry_seconds=90)


def interrupted(store: HdfsStore, call: str, happening: Callable[[], None]) -> HdfsStore:
    """The same store, with something that happens just before a call."""
    calls = InterceptedCalls(store._calls, before=at(call, happening))
    return HdfsStore(calls, root=store.root, patience=Patience(seconds=90))


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "standby"])
def test_a_put_goes_through_while_the_active_name_node_changes(store, pair, kill):
    assert (
        interrupted(store, "rename", pair.kill_and_fail_over if kill else pair.fail_over).put_if_absent(
            "log/0", b"record"
        )
        is True
    )
    assert store.put_if_absent("log/0", b"other") is False
    assert store.get("log/0") == b"record"
    assert [status.name for status in store.list("log")] == ["0"]


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "standby"])
def test_a_promote_goes_through_while_the_active_name_node_changes(store, pair, kill):
    writer = store.create("staging/a")
    writer.write(b"content")
    writer.close()
    assert (
        interrupted(store, "rename", pair.kill_and_fail_over if kill else pair.fail_over).promote(
            "staging/a", "data/a", 7
        )
        is True
    )
    assert store.promote("staging/a", "data/a", 7) is True
    assert store.get("data/a") == b"content"
    assert store.list("staging") == []


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "standby"])
def test_a_large_file_is_written_on_while_the_active_name_node_changes(store, pair, kill):
    writer = store.create("staging/a")
    writer.write(CHUNK)
    if kill:
        pair.kill()
    pair.fail_over()
    for _ in range(50):
        writer.write(CHUNK)
    writer.close()
    assert store.get("staging/a") == CHUNK * 51


def test_a_small_file_is_closed_after_the_active_name_node_changed(store, pair):
    writer = store.create("staging/a")
    writer.write(b"content")
    pair.fail_over()
    writer.close()
    assert store.get("staging/a") == b"content"


def test_a_name_node_that_hangs_is_left_for_the_other_one(store, pair):
    store.put_if_absent("log/0", b"record")
    pair.freeze()
    pair.fail_over()
    started = time.monotonic()
    # Writing over WebHDFS would also need the data node to leave the frozen one, which takes it a minute or more.
    assert store.promote("log/0", "data/0", 6) is True
    assert [status.name for status in store.list("data")] == ["0"]
    if store.root.startswith("hdfs"):
        assert store.put_if_absent("log/1", b"record") is True
    assert time.monotonic() - started < 240


def test_while_no_name_node_is_active_the_store_says_so_for_each_of_them(store, pair):
    impatient = store_for(store.root, timeout=5, retry_seconds=0)
    impatient.put_if_absent("log/0", b"record")
    pair.kill()
    with pytest.raises(StoreUnavailableError):
        impatient.get("log/0")
    with pytest.raises(StoreUnavailableError) as answer:
        impatient.get("log/0")
    if store.root.startswith("webhdfs"):
        assert "127.0.0.1" in str(answer.value)
        assert "127.0.0.2" in str(answer.value)
    pair.fail_over()
    assert store.get("log/0") == b"record"


def test_the_test_button_of_the_native_connection_is_green(store, pair):
    from airflow_kafka_hdfs.hooks.hdfs_native import HdfsNativeHook

    assert HdfsNativeHook().test_connection() == (True, "The name node answers.")
