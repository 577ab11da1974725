"""What only a real HDFS does: lost answers, denied rights, quotas, safe mode, dead nodes."""

from __future__ import annotations

import time

import pytest

from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsStore
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StorageError, StoreRefusedError, StoreUnavailableError
from airflow_kafka_hdfs.model import PRIVATE
from tests.contract.hdfs_faults import InterceptedCalls, at, connection_lost
from tests.contract.stores import native_bench, webhdfs_bench

ONE_TRY = Patience(seconds=0)
AT_ONCE = Patience(seconds=60, sleep=lambda seconds: None)
BLOCK = 128 * 1024 * 1024
WAYS = ["webhdfs", "native"]


@pytest.fixture(params=WAYS)
def way(request):
    return webhdfs_bench if request.param == "webhdfs" else native_bench


@pytest.fixture
def folder(unique_name):
    return f"/hdfs-only/{unique_name}"


@pytest.fixture
def bench(way, hdfs_cluster, folder):
    return way(hdfs_cluster, folder)


def intercepted(bench, *, before=None, after=None, patience=AT_ONCE) -> HdfsStore:
    planted = {name: plant for name, plant in (("before", before), ("after", after)) if plant}
    return HdfsStore(InterceptedCalls(bench.open()._calls, **planted), root="hdfs://test", patience=patience)


def stage(store, path: str, data: bytes) -> int:
    writer = store.create(path)
    writer.write(data)
    writer.close()
    return len(data)


def everything(store, path: str = "") -> dict[str, bytes]:
    """Every file below a path, hidden ones too."""
    found = {}
    for status in store._calls.list("test", path):
        found.update(everything(store, status.path) if status.is_dir else {status.path: store.get(status.path)})
    return found


# lost answers: at every call, before and after its effect

PUT_CALLS = 4
PROMOTE_CALLS = 5


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, PUT_CALLS + 1))
def test_a_put_survives_a_lost_answer_at_any_of_its_calls(bench, number, moment):
    store = intercepted(bench, **{moment: at(number, connection_lost)})
    assert store.put_if_absent("log/0", b"record") is True
    assert store.put_if_absent("log/0", b"record") is True
    assert store.put_if_absent("log/0", b"other") is False
    assert everything(bench.open()) == {"log/0": b"record"}


def test_a_put_takes_as_many_calls_as_the_test_above_knows(bench):
    store = intercepted(bench)
    store.put_if_absent("log/0", b"record")
    assert store._calls.names == ["status", "write", "rename", "status"]
    store.put_if_absent("log/0", b"record")
    assert store._calls.names[PUT_CALLS:] == ["status", "read"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, PROMOTE_CALLS + 1))
def test_a_promote_survives_a_lost_answer_at_any_of_its_calls(bench, number, moment):
    size = stage(bench.open(), "staging/a", b"content")
    store = intercepted(bench, **{moment: at(number, connection_lost)})
    assert store.promote("staging/a", "data/x/a", size) is True
    assert store.promote("staging/a", "data/x/a", size) is True
    assert everything(bench.open()) == {"data/x/a": b"content"}


def test_a_promote_takes_as_many_calls_as_the_test_above_knows(bench):
    size = stage(bench.open(), "staging/a", b"content")
    store = intercepted(bench)
    store.promote("staging/a", "data/x/a", size)
    assert store._calls.names == ["status", "status", "make_folders", "rename", "status"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_small_staged_file_survives_a_lost_answer(bench, moment):
    store = intercepted(bench, **{moment: at("write", connection_lost)})
    stage(store, "staging/a", b"content")
    assert everything(bench.open()) == {"staging/a": b"content"}


def test_a_torn_file_of_a_lost_request_is_replaced_by_the_whole_one(bench):
    store = intercepted(bench, before=at("write", lambda: tear(bench.open())))
    stage(store, "staging/a", b"content")
    assert everything(bench.open()) == {"staging/a": b"content"}


def tear(store) -> None:
    store._calls.write("test", "staging/a", b"con", None)
    connection_lost()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_start_of_a_large_staged_file_survives_a_lost_answer(bench, moment):
    store = intercepted(bench, **{moment: at("open", connection_lost)})
    data = b"0123456789" * 30_000
    stage(store, "staging/a", data)
    assert everything(bench.open()) == {"staging/a": data}


def test_a_put_gives_up_when_its_time_is_up(bench):
    seconds = iter(range(0, 1000, 20))
    patience = Patience(seconds=60, clock=lambda: float(next(seconds)), sleep=lambda pause: None)
    store = intercepted(bench, before=lambda number, name: connection_lost(), patience=patience)
    with pytest.raises(StoreUnavailableError, match="planted"):
        store.put_if_absent("log/0", b"record")
    assert store._calls.names == ["status"] * 3


# a folder that turns up between the look and the move


def test_a_folder_made_in_mid_promote_takes_nothing_in(bench):
    size = stage(bench.open(), "staging/a", b"content")
    calls = bench.open()._calls
    store = intercepted(bench, before=at("rename", lambda: calls.make_folders("test", "data/a", None)))
    with pytest.raises(StoreRefusedError, match="folder"):
        store.promote("staging/a", "data/a", size)
    assert everything(bench.open()) == {"staging/a": b"content"}


def test_a_folder_made_in_mid_put_takes_nothing_in(bench):
    calls = bench.open()._calls
    store = intercepted(bench, before=at("rename", lambda: calls.make_folders("test", "log/0", None)))
    with pytest.raises(StoreRefusedError, match="folder"):
        store.put_if_absent("log/0", b"record")
    assert bench.open().list("log/0") == []


# denied, full, read-only


def test_a_user_without_permission_is_refused_by_name_and_nothing_changes(hdfs_cluster, folder):
    bench = webhdfs_bench(hdfs_cluster, folder)
    owner, guest = bench.open(), bench.open(user="guest", patience=AT_ONCE)
    size = stage(owner, "staging/a", b"content")
    owner.put_if_absent("log/0", b"record")
    calls = [
        lambda: guest.put_if_absent("log/1", b"record"),
        lambda: guest.promote("staging/a", "data/a", size),
        lambda: guest.promote("staging/a", "staging/b", size),
        lambda: stage(guest, "staging/b", b"content"),
        lambda: stage(guest, "staging/b", b"x" * 300_000),
        lambda: guest.delete("log/0"),
        lambda: guest.delete("log", recursive=True),
    ]
    for call in calls:
        with pytest.raises(StoreRefusedError, match=r"user=guest, access=WRITE.*; grant"):
            call()
    assert guest.get("log/0") == b"record"
    assert everything(owner) == {"staging/a": b"content", "log/0": b"record"}


def test_a_user_without_permission_is_refused_over_native_rpc_too(hdfs_cluster, folder, monkeypatch):
    bench = native_bench(hdfs_cluster, folder)
    bench.open().put_if_absent("log/0", b"record")
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    guest = bench.open(patience=AT_ONCE)
    with pytest.raises(StoreRefusedError, match=r"user=guest, access=WRITE.*; grant"):
        guest.put_if_absent("log/1", b"record")
    with pytest.raises(StoreRefusedError, match=r"user=guest, access=WRITE.*; grant"):
        stage(guest, "staging/b", b"x" * 300_000)


def test_a_private_folder_is_closed_to_others_and_that_is_not_taken_for_missing(hdfs_cluster, folder):
    bench = webhdfs_bench(hdfs_cluster, folder)
    writer = bench.open().create("quarantine/a", modes=PRIVATE)
    writer.write(b"secret")
    writer.close()
    guest = bench.open(user="guest", patience=AT_ONCE)
    for call in (guest.get, guest.status):
        with pytest.raises(StoreRefusedError, match="Permission denied"):
            call("quarantine/a")
    with pytest.raises(StoreRefusedError, match="Permission denied"):
        guest.list("quarantine")


def test_a_quota_of_names_refuses_puts_and_promotes_until_it_is_raised(bench, hdfs_cluster, folder):
    store = bench.open(patience=AT_ONCE)
    size = stage(store, "staging/a", b"content")
    store.put_if_absent("data/b", b"x")
    hdfs_cluster.set_name_quota(f"{folder}/data", 2)
    with pytest.raises(StoreRefusedError, match=r"(?i)quota.*raise the quota"):
        store.promote("staging/a", "data/a", size)
    with pytest.raises(StoreRefusedError, match=r"(?i)quota.*raise the quota"):
        store.put_if_absent("data/c", b"x")
    assert everything(store) == {"staging/a": b"content", "data/b": b"x"}
    hdfs_cluster.set_name_quota(f"{folder}/data", None)
    assert store.promote("staging/a", "data/a", size) is True


@pytest.mark.parametrize("size", [100, 300_000])
def test_a_quota_of_bytes_refuses_staged_files(bench, hdfs_cluster, folder, size):
    store = bench.open(patience=AT_ONCE)
    store.put_if_absent("staging/first", b"x")
    hdfs_cluster.set_space_quota(f"{folder}/staging", BLOCK // 2)
    with pytest.raises(StoreRefusedError, match=r"(?i)quota.*raise the quota"):
        stage(store, "staging/a", b"x" * size)
    hdfs_cluster.set_space_quota(f"{folder}/staging", None)
    assert stage(store, "staging/b", b"x" * size) == size


def test_in_safe_mode_writing_waits_and_reading_works(bench, hdfs_cluster):
    store = bench.open(patience=ONE_TRY)
    store.put_if_absent("log/0", b"record")
    hdfs_cluster.safemode("enter")
    try:
        for call in (
            lambda: store.put_if_absent("log/1", b"record"),
            lambda: stage(store, "staging/a", b"content"),
            lambda: store.promote("log/0", "log/2", 6),
            lambda: store.delete("log/0"),
        ):
            with pytest.raises(StoreUnavailableError, match="safe mode"):
                call()
        assert store.get("log/0") == b"record"
        assert [status.name for status in store.list("log")] == ["0"]
        waiting = bench.open(patience=Patience(seconds=60, sleep=lambda pause: hdfs_cluster.safemode("leave")))
        assert waiting.put_if_absent("log/1", b"record") is True
    finally:
        hdfs_cluster.safemode("leave")


# nodes that are down


def test_a_data_node_that_dies_spoils_the_file_at_hand_and_later_calls_fail_in_time(bench, hdfs_cluster):
    store = bench.open(patience=ONE_TRY, timeout=10)
    store.put_if_absent("log/0", b"record")
    writer = store.create("staging/a")
    writer.write(b"x" * 200_000)
    hdfs_cluster.kill_datanode()
    try:
        started = time.monotonic()
        with pytest.raises(StorageError):  # noqa: PT012 - the failure shows in one of the next calls
            for _ in range(100):
                writer.write(b"x" * 200_000)
            writer.close()
        writer.abort()
        for call in (lambda: store.put_if_absent("log/1", b"record"), lambda: store.get("log/0")):
            with pytest.raises(StoreUnavailableError):
                call()
        assert time.monotonic() - started < 120
    finally:
        hdfs_cluster.start_datanode()
    store = bench.open()
    store.delete("staging", recursive=True)
    assert store.list("staging") == []
    assert store.put_if_absent("log/1", b"record") is True
    assert store.get("log/0") == b"record"


def test_a_name_node_that_hangs_is_given_up_after_the_time_out(bench, hdfs_cluster):
    bench.open().put_if_absent("log/0", b"record")
    store = bench.open(patience=ONE_TRY, timeout=3)
    assert store.get("log/0") == b"record"
    hdfs_cluster.pause_namenode()
    try:
        started = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            store.get("log/0")
        assert time.monotonic() - started < 60
    finally:
        hdfs_cluster.continue_namenode()
    assert store.get("log/0") == b"record"


def test_nobody_there_is_told_with_the_address(hdfs_cluster, way):
    class Nowhere:
        webhdfs_url = "http://127.0.0.1:1"
        superuser = "somebody"
        rpc_url = "hdfs://127.0.0.1:1"
        hadoop_conf_dir = hdfs_cluster.hadoop_conf_dir

    with pytest.raises(StoreUnavailableError, match=r"(?i)refused|no answer within"):
        way(Nowhere(), "/x").open(patience=ONE_TRY, timeout=3).get("log/0")


def test_a_name_that_the_webhdfs_client_would_expand_is_refused(hdfs_cluster, folder):
    store = webhdfs_bench(hdfs_cluster, folder).open()
    for path in ("log/#LATEST", "log/#LATEST{2}/x", "log/a#LATEST"):
        with pytest.raises(StoreRefusedError, match="LATEST"):
            store.get(path)
