"""What stores answer, in our words. Texts of HDFS and its clients are real ones."""

import errno
import os

import pytest
import requests
from urllib3.exceptions import MaxRetryError, NewConnectionError

from airflow_kafka_hdfs.adapters.storage.errors import from_hadoop, from_os_error, hadoop_exception
from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsStore
from airflow_kafka_hdfs.adapters.storage.native import from_client_error
from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.adapters.storage.webhdfs import WebHdfsCalls
from airflow_kafka_hdfs.exceptions import StoreRefusedError, StoreUnavailableError, Transient


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EISDIR])
def test_what_waiting_does_not_cure_is_refused_with_the_next_step(code):
    error = from_os_error("promote", "data/a", OSError(code, os.strerror(code)))
    assert isinstance(error, StoreRefusedError)
    assert str(error).startswith(f"promote data/a: {os.strerror(code)}; ")


@pytest.mark.parametrize(
    "code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.EBUSY, errno.ENOENT]
)
def test_what_may_pass_is_unavailable(code):
    assert isinstance(from_os_error("get", "data/a", OSError(code, os.strerror(code))), StoreUnavailableError)


def test_a_library_error_without_a_number_is_known_by_its_class():
    assert isinstance(from_os_error("get", "a", PermissionError("Access Denied")), StoreRefusedError)
    assert isinstance(from_os_error("get", "a", OSError("Connection refused (os error 111)")), StoreUnavailableError)


@pytest.mark.parametrize(
    "name",
    ["AccessControlException", "NSQuotaExceededException", "DSQuotaExceededException", "ParentNotDirectoryException"],
)
def test_hdfs_exceptions_that_stay_are_refused(name):
    error = from_hadoop("put_if_absent", "log/0", name, "No.\n\tat org.apache.hadoop.Some.java")
    assert isinstance(error, StoreRefusedError)
    assert "at org" not in str(error)


@pytest.mark.parametrize(
    "name", ["StandbyException", "SafeModeException", "RetriableException", "LeaseExpiredException", ""]
)
def test_hdfs_exceptions_that_may_pass_are_unavailable(name):
    assert isinstance(from_hadoop("get", "log/0", name, "Not now"), Transient)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org.apache.hadoop.ipc.StandbyException: Operation category READ", "StandbyException"),
        (
            "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException",
            "PathComponentTooLongException",
        ),
        ("nothing of Java", ""),
    ],
)
def test_the_java_class_is_found_in_a_text(text, name):
    assert hadoop_exception(text) == name


DENIED = (
    'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=bob, access=WRITE, '
    'inode=\\"/x\\":root:supergroup:drwxr-xr-x\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSPermissionChecker")'
)
STANDBY = (
    'RPCError("org.apache.hadoop.ipc.StandbyException", "Operation category WRITE is not supported in state standby")'
)
SAFE_MODE = (
    'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", '
    '"Cannot create file. Name node is in safe mode.")'
)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (RuntimeError(DENIED), StoreRefusedError, 'user=bob, access=WRITE, inode="/x":root'),
        (RuntimeError(STANDBY), StoreUnavailableError, "not the active one"),
        (RuntimeError(SAFE_MODE), StoreUnavailableError, "wait, or see"),
        (RuntimeError('OperationFailed("Failed to complete file in time")'), StoreUnavailableError, "in time"),
        (RuntimeError('InvalidArgument("No fs.defaultFS setting found")'), StoreRefusedError, "HADOOP_CONF_DIR"),
        (RuntimeError('DataTransferError("broken")'), StoreUnavailableError, "broken"),
        (OSError("Connection refused (os error 111)"), StoreUnavailableError, "Connection refused"),
        (FileExistsError("/x/f for client 127.0.0.1 already exists"), StoreRefusedError, "already exists"),
        (RuntimeError("something new"), StoreUnavailableError, "something new"),
    ],
)
def test_texts_of_the_native_client_are_understood(error, kind, words):
    found = from_client_error("put_if_absent", "log/0", error)
    assert type(found) is kind
    assert words in str(found)
    assert "\n" not in str(found)


def webhdfs(client) -> HdfsStore:
    calls = WebHdfsCalls(lambda: client, "/data", timeout=1)
    return HdfsStore(calls, root="webhdfs:///data", patience=Patience(seconds=0))


class Answering:
    """A client that fails in one way."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def status(self, path: str) -> object:
        raise self._error


TOKEN_URL = "/webhdfs/v1/data/log?op=GETFILESTATUS&delegation=geheim"


@pytest.mark.parametrize(
    "error",
    [
        requests.ConnectionError(MaxRetryError(None, TOKEN_URL, NewConnectionError(None, f"refused {TOKEN_URL}"))),
        requests.ReadTimeout(f"Read timed out: {TOKEN_URL}"),
        requests.exceptions.SSLError(f"certificate verify failed: {TOKEN_URL}"),
        requests.exceptions.InvalidURL(f"bad {TOKEN_URL}"),
    ],
)
def test_a_token_in_a_url_never_gets_into_a_text_or_its_shown_cause(error):
    with pytest.raises((StoreUnavailableError, StoreRefusedError)) as found:
        webhdfs(Answering(error)).status("log")
    assert "geheim" not in str(found.value)
    assert type(error).__name__ in str(found.value)
    assert found.value.__suppress_context__


def test_nonsense_instead_of_an_answer_is_unavailable():
    with pytest.raises(StoreUnavailableError, match="KeyError"):
        webhdfs(Answering(KeyError("RemoteException"))).status("log")


def test_a_factory_that_fails_makes_the_store_unavailable():
    def connect() -> object:
        raise OSError("no route")

    store = HdfsStore(WebHdfsCalls(connect, "/", timeout=1), root="webhdfs:///", patience=Patience(seconds=0))
    with pytest.raises(StoreUnavailableError, match="no client for an active name node.*no route"):
        store.get("log/0")


def test_a_client_that_failed_is_not_asked_again():
    made = []

    def connect() -> Answering:
        made.append(1)
        return Answering(requests.ConnectionError("reset"))

    patience = Patience(seconds=1, sleep=lambda pause: None, clock=iter(range(10)).__next__)
    store = HdfsStore(WebHdfsCalls(connect, "/", timeout=1), root="webhdfs:///", patience=patience)
    with pytest.raises(StoreUnavailableError):
        store.status("log/0")
    assert len(made) == 1
    with pytest.raises(StoreUnavailableError):
        store.status("log/0")
    assert len(made) == 2
