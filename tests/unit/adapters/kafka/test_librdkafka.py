"""Whatever is not as expected of librdkafka, or of a connection, is a reason not to read it directly, told in words."""

from __future__ import annotations

import builtins
import ctypes
import logging
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from airflow_kafka_hdfs.adapters.kafka import direct, librdkafka
from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader, direct_fault
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.exceptions import ConfigError, KafkaUnavailableError
from airflow_kafka_hdfs.model import TopicPartition
from tests.contract.kafka.drivers import until

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
REAL = ctypes.CDLL(confluent_kafka.cimpl.__file__)


class Changed:
    """The real library with some functions replaced, or left out where None is given."""

    def __init__(self, **functions: Any) -> None:
        self._functions = {f"rd_kafka_{name}": function for name, function in functions.items()}

    def __getitem__(self, name: str) -> Any:
        function = self._functions.get(name, REAL[name])
        if function is None:
            raise AttributeError(name)
        return function


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives the process another library; the next look is a fresh one."""

    def change(**functions: Any) -> None:
        librdkafka.library.cache_clear()
        library = Changed(**functions)
        monkeypatch.setattr(librdkafka.ctypes, "CDLL", lambda _path: library)

    yield change
    librdkafka.library.cache_clear()


def version(number: int) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int)(lambda: number)


def test_the_library_at_hand_is_the_one_that_the_client_has_loaded():
    found = librdkafka.library()
    assert isinstance(found, librdkafka.Library)
    assert (found.text, found.number) == confluent_kafka.libversion()
    assert direct_fault() == direct_fault(client_settings(NOBODY)) == ""


def test_a_missing_function_is_named(changed):
    changed(event_type=None, queue_poll=None)
    assert direct_fault() == "the Kafka client shows no rd_kafka_event_type, rd_kafka_queue_poll"


@pytest.mark.parametrize("number", [0x01090000, 0x020B0200, 0x03000000, 0x7F000000])
def test_a_version_that_is_not_known_is_told(changed, number):
    changed(version=version(number))
    assert "is not known here; known: 2.12.0 up to, but not, 3.0.0" in direct_fault()


def test_another_library_than_that_of_the_client_is_told(changed):
    changed(version=version(0x02FF0000))
    assert direct_fault().startswith("found librdkafka 2.255.0, but the client has loaded 2.")


def test_structs_of_another_layout_are_found_out(changed):
    one = ctypes.create_string_buffer(64)
    changed(event_message_next=ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: ctypes.addressof(one)))
    assert direct_fault() == "rd_kafka_message_t has another layout than the one known here"
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32)
    changed(topic_partition_list_add=add(lambda *_: ctypes.addressof(one)))
    assert direct_fault() == "rd_kafka_topic_partition_t has another layout than the one known here"
    changed(queue_poll=ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(lambda *_: None))
    assert direct_fault() == "a trial message did not come back"


def test_a_client_that_can_not_be_opened_is_told(monkeypatch):
    librdkafka.library.cache_clear()
    monkeypatch.setattr(librdkafka.cimpl, "__file__", "/nowhere/cimpl.so")
    assert direct_fault().startswith("the client's extension can't be opened: /nowhere/cimpl.so")
    librdkafka.library.cache_clear()


def test_without_the_extension_that_is_told(monkeypatch):
    real = builtins.__import__

    def without(name, globals_=None, locals_=None, fromlist=(), level=0):
        if "_messages" in (fromlist or ()):
            raise ImportError("no _messages")
        return real(name, globals_, locals_, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without)
    assert direct_fault() == "not built: no _messages"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"oauth_cb": print}, "can call oauth_cb"),
        ({"stats_cb": print}, "can call stats_cb"),
        ({"throttle_cb": print}, "can call throttle_cb"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism is OAUTHBEARER: tokens are fetched"),
        ({"sasl.mechanisms": "oauthbearer"}, "sasl.mechanisms is oauthbearer: tokens are fetched"),
        ({"plugin.library.paths": "x"}, "plugins are loaded"),
    ],
)
def test_what_only_the_python_face_can_do_is_told(setting, words):
    assert words in direct_fault(client_settings({**NOBODY, **setting}))


def test_an_error_callback_of_the_user_is_called():
    told: list[KafkaError] = []
    settings = client_settings({**NOBODY, "error_cb": told.append})
    assert direct_fault(settings) == ""
    reader = DirectReader(settings)
    reader.assign({TopicPartition("any", 0): 0})
    until(lambda: len(reader.poll(10, 0.1).batch) == 0 and bool(told))
    assert "refused" in reader.trouble()
    assert isinstance(told[0], KafkaError)
    reader.close()


def test_a_fatal_state_of_the_client_is_raised_with_its_cause():
    reader = DirectReader(client_settings(NOBODY))
    reader.assign({TopicPartition("any", 0): 0})
    fail = REAL.rd_kafka_test_fatal_error
    fail.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    fail(reader._client.handle, KafkaError._OUTDATED, b"for the test")
    with pytest.raises(KafkaUnavailableError, match=r"for the test.*127\.0\.0\.1:1"):
        until(lambda: reader.poll(1, 0.05) is None)
    reader.close()


def test_what_the_client_logs_goes_to_the_log_of_this_package(caplog, capfd):
    caplog.set_level(logging.DEBUG, "airflow_kafka_hdfs.librdkafka")
    reader = DirectReader(client_settings({**NOBODY, "debug": "conf"}))
    until(lambda: len(reader.poll(1, 0.05).batch) == 0 and "#consumer-" in caplog.text)
    reader.close()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"fetch.wait.max.ms": "soon"}, "fetch.wait.max.ms: got 'soon'"),
        ({"fetch.wait.max.mss": "1"}, "Did you mean fetch.wait.max.ms"),
        ({"ssl.ca.location": "/nowhere.pem", "security.protocol": "ssl"}, "what librdkafka takes: "),
    ],
)
def test_what_the_client_refuses_is_a_config_error_as_with_the_other_reader(setting, words):
    with pytest.raises(ConfigError, match=words.replace("?", ".")):
        DirectReader(client_settings({**NOBODY, **setting}))


def test_a_reader_that_was_closed_says_so():
    reader = DirectReader(client_settings(NOBODY))
    tp = TopicPartition("any", 0)
    reader.assign({tp: 0})
    reader.close()
    reader.close()
    for use in (
        lambda: reader.poll(1, 0.0),
        lambda: reader.assign({tp: 0}),
        lambda: reader.pause([tp]),
        lambda: reader.resume({tp: 0}),
        lambda: reader.seek(tp, 1),
    ):
        with pytest.raises(ValueError, match="the reader is closed"):
            use()


def test_without_the_library_no_reader_is_made(changed):
    changed(event_type=None)
    with pytest.raises(librdkafka.Unusable, match="rd_kafka_event_type"):
        direct.DirectReader(client_settings(NOBODY))
