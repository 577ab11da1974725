from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import pytest

from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader
from airflow_kafka_hdfs.adapters.kafka.mirror import GroupMirror
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.kafka import KafkaSourceHook
from tests.unit.hooks.connections import set_connection

BROKERS = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a connection and returns its id."""
    return functools.partial(set_connection, monkeypatch)


def token_of_the_tests(config: str) -> tuple[str, float]:
    return f"token for {config}", 0.0


def test_the_connection_of_the_kafka_provider_is_used_as_it_is(connection: Callable[..., str]):
    extra = {**BROKERS, "group.id": "theirs", "enable.auto.commit": False, "auto.offset.reset": "beginning"}
    hook = KafkaSourceHook(connection("kafka_test", "kafka", extra=extra), {"fetch.wait.max.ms": 7})
    config = hook.settings.for_consumer()
    assert config["bootstrap.servers"] == "127.0.0.1:1"
    assert config["group.id"] == "theirs"
    assert config["fetch.wait.max.ms"] == 7
    assert hook.settings.overruled == ("auto.offset.reset",)


def test_adapters_are_made_from_it(connection: Callable[..., str]):
    hook = KafkaSourceHook(connection("kafka_test", "kafka", extra=BROKERS))
    assert isinstance(hook.catalog(), KafkaCatalog)
    assert isinstance(hook.mirror("group"), GroupMirror)
    assert hook.direct_fault() == ""
    for reader, kind in ((hook.reader(), KafkaReader), (hook.direct_reader(), DirectReader)):
        assert isinstance(reader, kind)
        reader.close()
    hook.producer().flush()


def test_a_mirror_needs_a_group(connection: Callable[..., str]):
    with pytest.raises(ConfigError, match="mirror_group"):
        KafkaSourceHook(connection("kafka_test", "kafka", extra=BROKERS)).mirror("")


def test_a_callback_that_the_provider_allows_passes_through(
    connection: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    path = f"{__name__}.token_of_the_tests"
    monkeypatch.setenv("AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST", path)
    assert sys.modules[__name__], "the provider imports it by name"
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": path}
    settings = KafkaSourceHook(connection("kafka_test", "kafka", extra={**BROKERS, **login})).settings
    assert settings.for_consumer()["oauth_cb"]("x") == ("token for x", 0.0)
    assert settings.for_admin()["oauth_cb"]("x") == ("token for x", 0.0)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, r"bootstrap\.servers"),
        ({**BROKERS, "oauth_cb": "not.allowed.callback"}, "callback_allowlist"),
    ],
)
def test_what_the_provider_refuses_names_the_connection(connection: Callable[..., str], extra: dict, message: str):
    with pytest.raises(ConfigError, match=f"connection kafka_test: .*{message}"):
        KafkaSourceHook(connection("kafka_test", "kafka", extra=extra)).settings  # noqa: B018  # a property


def test_kafka_config_is_checked_before_any_client_is_made(connection: Callable[..., str]):
    hook = KafkaSourceHook(connection("kafka_test", "kafka", extra=BROKERS), {"enable.auto.commit": True})
    with pytest.raises(ConfigError, match=r"enable\.auto\.commit"):
        hook.catalog()


@pytest.mark.parametrize(
    ("name", "value"), [("fetch.min.bytes", "x"), ("fetch.wait.max.ms", -7), ("fetch.error.backoff.ms", "soon")]
)
def test_a_setting_that_only_readers_use_is_judged_before_anything_is_planned(
    connection: Callable[..., str], name: str, value: object
):
    hook = KafkaSourceHook(connection("kafka_test", "kafka", extra=BROKERS), {name: value})
    with pytest.raises(ConfigError, match=f"{name}: got {value!r}; allowed: what librdkafka takes: .*{name}"):
        hook.catalog()


def test_a_connection_that_is_not_there_is_told_with_its_argument(airflow_home: None):
    hook = KafkaSourceHook("kafka_defalt")
    with pytest.raises(ConfigError, match="kafka_conn_id: got 'kafka_defalt'.*AIRFLOW_CONN_KAFKA_DEFALT="):
        hook.catalog()
