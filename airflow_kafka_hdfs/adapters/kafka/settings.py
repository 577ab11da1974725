"""From a connection and `kafka_config` to the configuration of librdkafka's clients.

A connection is shared with other DAGs, whose own consumers may well want `enable.auto.commit`: what a connection says
against exactness is overruled, and logged. `kafka_config` is written for this package alone: there such a setting is
an error that names the reason.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from airflow_kafka_hdfs.adapters.kafka.properties import CONSUMER_ONLY, PRODUCER_ONLY, SHARED
from airflow_kafka_hdfs.exceptions import ConfigError

log = logging.getLogger(__name__)

C = TypeVar("C")

FIXED: Mapping[str, tuple[bool | str, str]] = {
    "enable.auto.commit": (False, "what was read is decided by the commit log; mirror_group copies it for lag tools"),
    "auto.commit.enable": (False, "what was read is decided by the commit log; mirror_group copies it for lag tools"),
    "enable.auto.offset.store": (False, "what was read is decided by the commit log"),
    "isolation.level": ("read_committed", "records of aborted transactions would be written"),
    "auto.offset.reset": ("error", "the client would jump over records unseen; use bootstrap and on_out_of_range"),
    "enable.partition.eof": (True, "only this event tells that a range ending in transaction markers is read whole"),
    "check.crcs": (True, "records damaged on their way would be written as if they were good"),
    "allow.auto.create.topics": (False, "a look at a missing topic would create it"),
    "api.version.request": (True, "brokers would be asked as in 0.10: records of aborted transactions, and no headers"),
}
"""Settings with one safe value, and what would go wrong with another."""

_LEFT_TO_CLIENT = ("auto.commit.enable", "api.version.request")
"""Of these, what the client does by itself; it calls them deprecated where they are said."""

_NO_GROUP = "no consumer group is joined, so it can do nothing here"
UNUSED: Mapping[str, str] = {
    "auto.commit.interval.ms": "offsets are not committed on a timer",
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "group.protocol.type": _NO_GROUP,
    "group.remote.assignor": _NO_GROUP,
    "heartbeat.interval.ms": _NO_GROUP,
    "max.poll.interval.ms": _NO_GROUP,
    "offset.store.method": "what was read is decided by the commit log",
    "offset.store.path": "what was read is decided by the commit log",
    "offset.store.sync.interval.ms": "what was read is decided by the commit log",
    "on_commit": "offsets are not committed by the reader",
    "partition.assignment.strategy": _NO_GROUP,
    "session.timeout.ms": _NO_GROUP,
}
"""Settings without any use here, and why."""

TUNED: Mapping[str, Any] = {
    "client.id": "airflow-kafka-hdfs",
    # librdkafka insists on a group; none is joined with it. A connection's own name wins, for clusters with ACLs.
    "group.id": "airflow-kafka-hdfs",
    # The default of 1000 ms idles a consumer whose local queue was full for a moment: a factor of six in throughput.
    # A full queue of 2 KB records is empty within 4 ms; a longer pause costs such a consumer a sixth of its rate.
    "fetch.queue.backoff.ms": 2,
    # Memory of a task is queue + one fetch per broker; smaller queues are as fast, larger ones only cost memory.
    "queued.max.messages.kbytes": 8192,
    "fetch.max.bytes": 4 * 1024 * 1024,
    # The end of a partition is told after at most this long.
    "fetch.wait.max.ms": 50,
    "socket.keepalive.enable": True,
    # After a broker's death the next one is tried within seconds.
    "reconnect.backoff.max.ms": 2000,
    # Plans name topics that existed when they were made; a topic that is gone should not be waited for.
    "topic.metadata.propagation.max.ms": 10_000,
}
"""Our defaults; a connection or `kafka_config` may say otherwise."""

_SECRET = re.compile(
    r"password|passphrase|secret|token(?!\.endpoint)|key\.pem|oauthbearer\.config|\bkinit\b|jaas", re.I
)
_CALLBACK = re.compile(r"_cb$|^on_")
_TRUE, _FALSE = {"true", "t", "1", "yes", "on"}, {"false", "f", "0", "no", "off"}


@dataclass(frozen=True, slots=True, repr=False)
class KafkaSettings:
    """A checked configuration. Its repr shows no secret.

    Attributes:
        values: every property with its value.
        overruled: properties of the connection that were replaced or left out.
    """

    values: Mapping[str, Any]
    overruled: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = {name: "***" if is_secret(name) else value for name, value in self.values.items()}
        return f"KafkaSettings({shown})"

    @property
    def servers(self) -> object:
        """The brokers to start from."""
        return self.values.get("bootstrap.servers") or self.values.get("metadata.broker.list")

    def for_consumer(self) -> dict[str, Any]:
        """What a consumer understands."""
        fixed = {name: value for name, (value, _) in FIXED.items() if name not in _LEFT_TO_CLIENT}
        return {**self._without(PRODUCER_ONLY), **fixed}

    def for_admin(self) -> dict[str, Any]:
        """What an admin client understands."""
        return self._without(CONSUMER_ONLY | PRODUCER_ONLY)

    def for_producer(self) -> dict[str, Any]:
        """What a producer understands; without duplicates on retries, acknowledged by all replicas in sync."""
        return {**self._without(CONSUMER_ONLY), "enable.idempotence": True}

    def hide(self, text: str) -> str:
        """The text with every secret value replaced by `***`."""
        for name, value in self.values.items():
            if is_secret(name) and isinstance(value, str) and value:
                text = text.replace(value, "***")
        return text

    def make(self, factory: Callable[..., C], config: Mapping[str, Any]) -> C:
        """Build a client.

        Args:
            factory: a client class of confluent-kafka.
            config: what one of the `for_…` methods gave, perhaps with more.

        Raises:
            ConfigError: the client does not know a property or refuses a value.
        """
        try:
            return factory(dict(config), logger=_client_log())
        except (KafkaException, TypeError, ValueError) as error:
            raise self._config_error(error) from None

    def _without(self, names: frozenset[str]) -> dict[str, Any]:
        return {name: value for name, value in {**TUNED, **self.values}.items() if name not in names}

    def _config_error(self, error: Exception) -> ConfigError:
        reason = error.args[0] if error.args else error
        text = self.hide(reason.str() if hasattr(reason, "str") else str(reason))
        quoted = re.search(r'property:? "([^"]+)"', text)
        name = quoted.group(1) if quoted else next((n for n in self.values if n in text), "kafka_config")
        if "No such configuration property" in text:
            near = difflib.get_close_matches(name, CONSUMER_ONLY | PRODUCER_ONLY | SHARED, n=1)
            hint = f"Did you mean {near[0]}?" if near else ""
            return ConfigError(name, self._shown(name), "the properties of librdkafka", hint)
        return ConfigError(name, self._shown(name), f"what librdkafka takes: {text}")

    def _shown(self, name: str) -> Any:
        return "***" if is_secret(name) else self.values.get(name)


def client_settings(connection: Mapping[str, Any], kafka_config: Mapping[str, Any] | None = None) -> KafkaSettings:
    """Check and merge what the connection and the argument say.

    Args:
        connection: the configuration of a `kafka` connection; `default.topic.config` is merged into it.
        kafka_config: settings on top of it, for this pipeline.

    Raises:
        ConfigError: no brokers are named, a value is no text, number or flag, or `kafka_config` holds a setting
            of `FIXED` with another value, or one of `UNUSED`.
    """
    base, own = _flat(connection), _flat(kafka_config or {})
    for name, value in own.items():
        _refuse(name, value)
    overruled = tuple(sorted(name for name in base if name in UNUSED or not _is_safe(name, base[name])))
    if overruled:
        log.info("settings of the connection that do not apply to exactly-once reading: %s", ", ".join(overruled))
    values = {name: value for name, value in {**base, **own}.items() if name not in UNUSED and name not in FIXED}
    for name, value in values.items():
        _check_type(name, value)
    if not (values.get("bootstrap.servers") or values.get("metadata.broker.list")):
        raise ConfigError("bootstrap.servers", values.get("bootstrap.servers"), "host:port, … of the brokers")
    return KafkaSettings(values, overruled)


def is_secret(name: str) -> bool:
    """Whether the value of a property must not be shown."""
    return _SECRET.search(name) is not None


def is_callback(name: str) -> bool:
    """Whether the value of a property is something to be called."""
    return _CALLBACK.search(name) is not None


class _OncePerMinute(logging.Filter):
    """Passes what differs in more than its numbers from all that passed within a minute.

    A client without brokers reports each of its many attempts, which would bury a task's log.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        shape = re.sub(r"\d+", "#", record.getMessage())
        now = record.created
        if now - self._passed.get(shape, 0.0) < 60:
            return False
        self._passed[shape] = now
        return True


@cache
def _client_log() -> logging.Logger:
    client_log = logging.getLogger("airflow_kafka_hdfs.librdkafka")
    client_log.addFilter(_OncePerMinute())
    return client_log


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    topic_defaults = config.get("default.topic.config") or {}
    if not isinstance(topic_defaults, Mapping):
        raise ConfigError("default.topic.config", topic_defaults, "a mapping of properties")
    rest = {name: value for name, value in config.items() if name != "default.topic.config"}
    return {**topic_defaults, **rest}


def _refuse(name: str, value: Any) -> None:
    if name in UNUSED:
        raise ConfigError(f"kafka_config[{name!r}]", value, "nothing (leave it out)", f"Reason: {UNUSED[name]}.")
    if not _is_safe(name, value):
        allowed, reason = FIXED[name]
        raise ConfigError(f"kafka_config[{name!r}]", value, _text(allowed), f"Reason: {reason}.")


def _is_safe(name: str, value: Any) -> bool:
    if name not in FIXED:
        return True
    allowed = FIXED[name][0]
    if isinstance(allowed, bool):
        return str(value).strip().lower() in (_TRUE if allowed else _FALSE)
    return str(value).strip().lower() == allowed


def _check_type(name: str, value: Any) -> None:
    fits = callable(value) if is_callback(name) else isinstance(value, str | int | float)
    if not fits:
        allowed = "a callable" if is_callback(name) else "text, a number, true or false"
        raise ConfigError(name, "***" if is_secret(name) else value, allowed)


def _text(value: bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else value
