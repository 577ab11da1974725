from __future__ import annotations

import ctypes
import functools
import logging
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from airflow_kafka_hdfs.adapters.kafka import properties
from airflow_kafka_hdfs.adapters.kafka.settings import (
    FIXED,
    TUNED,
    UNUSED,
    KafkaSettings,
    client_settings,
    is_secret,
)
from airflow_kafka_hdfs.exceptions import ConfigError

BROKERS = {"bootstrap.servers": "127.0.0.1:1"}


def make_consumer(settings: KafkaSettings) -> Consumer:
    return settings.make(Consumer, settings.for_consumer())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.auto.commit", True),
        ("enable.auto.commit", "true"),
        ("enable.auto.commit", "maybe"),
        ("auto.commit.enable", 1),
        ("enable.auto.offset.store", True),
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "earliest"),
        ("auto.offset.reset", "latest"),
        ("enable.partition.eof", False),
        ("enable.partition.eof", "False"),
        ("check.crcs", "no"),
        ("allow.auto.create.topics", True),
        ("api.version.request", False),
    ],
)
@pytest.mark.bug(21)
def test_kafka_config_against_exactness_is_refused_by_name_and_with_the_reason(name: str, value: object):
    with pytest.raises(ConfigError) as caught:
        client_settings(BROKERS, {name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)
    assert FIXED[name][1] in str(caught.value)


@pytest.mark.parametrize("name", sorted(UNUSED))
def test_kafka_config_that_can_do_nothing_is_refused(name: str):
    with pytest.raises(ConfigError, match="leave it out") as caught:
        client_settings(BROKERS, {name: "x"})
    assert UNUSED[name] in str(caught.value)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_the_safe_value_may_be_said_in_any_spelling(name: str):
    safe = FIXED[name][0]
    spellings = [safe, str(safe).upper(), str(safe).lower()] if isinstance(safe, bool) else [safe, str(safe).upper()]
    for value in spellings:
        assert client_settings(BROKERS, {name: value}).overruled == ()


def test_what_other_consumers_of_a_connection_want_is_overruled_and_logged(caplog: pytest.LogCaptureFixture):
    connection = {
        **BROKERS,
        "group.id": "theirs",
        "enable.auto.commit": True,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 3000,
        "max.poll.interval.ms": 5000,
        "group.instance.id": "one",
        "isolation.level": "read_committed",
    }
    with caplog.at_level(logging.INFO):
        settings = client_settings(connection)
    overruled = ("auto.offset.reset", "enable.auto.commit", "group.instance.id", "max.poll.interval.ms")
    assert settings.overruled == (*overruled, "session.timeout.ms")
    for name in settings.overruled:
        assert name in caplog.text
    config = settings.for_consumer()
    assert config["enable.auto.commit"] is False
    assert config["auto.offset.reset"] == "error"
    assert config["group.id"] == "theirs"
    assert not config.keys() & UNUSED.keys()
    make_consumer(settings).close()


def test_defaults_of_a_topic_are_part_of_the_configuration():
    nested = {**BROKERS, "default.topic.config": {"auto.offset.reset": "smallest", "fetch.wait.max.ms": 7}}
    settings = client_settings(nested)
    assert settings.overruled == ("auto.offset.reset",)
    assert settings.for_consumer()["fetch.wait.max.ms"] == 7
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        client_settings(BROKERS, {"default.topic.config": {"auto.offset.reset": "smallest"}})
    with pytest.raises(ConfigError, match=r"default\.topic\.config"):
        client_settings({**BROKERS, "default.topic.config": "x"})


def test_tuned_values_give_way_to_the_connection_and_it_to_kafka_config():
    connection = {**BROKERS, "fetch.max.bytes": 1_000_001, "fetch.wait.max.ms": 9}
    config = client_settings(connection, {"fetch.wait.max.ms": 11}).for_consumer()
    assert config["fetch.max.bytes"] == 1_000_001
    assert config["fetch.wait.max.ms"] == 11
    assert config["queued.max.messages.kbytes"] == TUNED["queued.max.messages.kbytes"]


def test_the_settings_worth_a_factor_of_six_are_on():
    config = client_settings(BROKERS).for_consumer()
    assert config["fetch.queue.backoff.ms"] == 2
    assert {name: config[name] for name in FIXED if name in config} == {
        name: value for name, (value, _) in FIXED.items() if name in config
    }


def test_every_kind_of_client_takes_what_it_is_given_without_a_word(capfd: pytest.CaptureFixture[str], caplog):
    everything = {
        **BROKERS,
        "group.id": "g",
        "fetch.min.bytes": 1,
        "acks": "all",
        "linger.ms": 5,
        "compression.type": "lz4",
        "socket.keepalive.enable": True,
        "error_cb": lambda error: None,
    }
    settings = client_settings(everything)
    assert not settings.for_consumer().keys() & {"auto.commit.enable", "api.version.request"}  # told to standard error
    make_consumer(settings).close()
    settings.make(AdminClient, settings.for_admin()).poll(0)
    settings.make(Producer, settings.for_producer()).poll(0)
    assert "CONFWARN" not in caplog.text + capfd.readouterr().err


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fetch.max.byte": 1}, r"fetch\.max\.byte: got 1; .* Did you mean fetch\.max\.bytes\?"),
        ({"bootstrap.server": "x"}, r"bootstrap\.server: .* Did you mean bootstrap\.servers\?"),
        ({"entirely.unknown.thing": 1}, r"entirely\.unknown\.thing: got 1; allowed: the properties of librdkafka$"),
        ({"security.protocol": "nope"}, r"security\.protocol: got 'nope'"),
        ({"fetch.wait.max.ms": "soon"}, r"fetch\.wait\.max\.ms: got 'soon'"),
        ({"fetch.wait.max.ms": 10**9}, r"fetch\.wait\.max\.ms: got 1000000000"),
        ({"error_cb": "no callable"}, "error_cb: got 'no callable'; allowed: a callable"),
        ({"client.id": ["a"]}, r"client\.id: got \['a'\]; allowed: text, a number, true or false"),
    ],
)
def test_what_the_client_does_not_take_is_named(config: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        make_consumer(client_settings(BROKERS, config))


@pytest.mark.parametrize("connection", [{}, {"bootstrap.servers": ""}])
def test_brokers_must_be_named(connection: dict):
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        client_settings(connection)


SECRETS = [
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
]


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_shown_nowhere(name: str):
    settings = client_settings({**BROKERS, name: "geheim"})
    assert is_secret(name)
    assert "geheim" not in repr(settings)
    assert "geheim" not in str(settings)
    assert settings.hide("the broker said geheim!") == "the broker said ***!"
    with pytest.raises(ConfigError) as caught:
        client_settings(BROKERS, {name: ["geheim"]})
    assert "geheim" not in str(caught.value)


def test_what_is_no_secret_is_shown():
    for name in ("sasl.username", "bootstrap.servers", "sasl.oauthbearer.token.endpoint.url", "ssl.key.location"):
        assert not is_secret(name)
    assert "127.0.0.1:1" in repr(client_settings(BROKERS))


def test_log_ins_by_callback_pass_through():
    def token(config: str) -> tuple[str, float]:
        return "token", 0.0

    connection = {**BROKERS, "sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT"}
    settings = client_settings({**connection, "oauth_cb": functools.partial(token)})
    for config in (settings.for_consumer(), settings.for_admin(), settings.for_producer()):
        assert config["oauth_cb"]("") == ("token", 0.0)


def test_a_flood_of_one_report_is_logged_once(caplog: pytest.LogCaptureFixture):
    make_consumer(client_settings(BROKERS)).close()  # sets the filter
    client_log = logging.getLogger("airflow_kafka_hdfs.librdkafka")
    for attempt in range(50):
        client_log.error("attempt %d to broker %s failed", attempt, "flood")
    client_log.error("something else")
    messages = [record.getMessage() for record in caplog.records if record.name == client_log.name]
    assert [m for m in messages if "flood" in m] == ["attempt 0 to broker flood failed"]
    assert "something else" in messages


def library() -> ctypes.CDLL:
    (path,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*.so*")
    return ctypes.CDLL(str(path))


def names_it_tells() -> set[str]:
    rdkafka, names = library(), set()
    for prefix in ("rd_kafka", "rd_kafka_topic"):
        new, dump = getattr(rdkafka, f"{prefix}_conf_new"), getattr(rdkafka, f"{prefix}_conf_dump")
        new.restype = ctypes.c_void_p
        dump.restype = ctypes.POINTER(ctypes.c_char_p)
        dump.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        count = ctypes.c_size_t()
        pairs = dump(new(), ctypes.byref(count))
        names |= {pairs[i].decode() for i in range(0, count.value, 2)}
    return names


def it_knows(rdkafka: ctypes.CDLL, name: str) -> bool:
    unknown = -2  # rd_kafka_conf_res_t, unlike a value that does not fit
    text = ctypes.create_string_buffer(512)
    for prefix in ("rd_kafka", "rd_kafka_topic"):
        new, put = getattr(rdkafka, f"{prefix}_conf_new"), getattr(rdkafka, f"{prefix}_conf_set")
        new.restype = ctypes.c_void_p
        put.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
        if put(new(), name.encode(), b"no value", text, len(text)) != unknown:
            return True
    return False


OURS = properties.CONSUMER_ONLY | properties.PRODUCER_ONLY | properties.SHARED


def test_no_documented_property_of_the_library_in_use_is_missing_from_the_list():
    undocumented = {"client.software.name", "enable.sparse.connections", "metadata.request.timeout.ms"}
    of_share_consumers = {"share.acknowledgement.mode", "max.poll.records"}
    theirs = {name for name in names_it_tells() if "." in name and not name.startswith(("test.", "internal."))}
    assert theirs - OURS - undocumented - of_share_consumers - {"ssl.certificate.verify_cb"} == set()


def test_every_listed_property_is_known_to_the_library_in_use():
    rdkafka = library()
    of_the_python_client = {"error_cb", "oauth_cb", "stats_cb", "throttle_cb", "on_commit", "on_delivery"}
    assert {name for name in OURS - of_the_python_client if not it_knows(rdkafka, name)} == set()


def test_each_property_is_listed_for_one_kind_of_client():
    assert not properties.CONSUMER_ONLY & properties.PRODUCER_ONLY
    assert not properties.SHARED & (properties.CONSUMER_ONLY | properties.PRODUCER_ONLY)
