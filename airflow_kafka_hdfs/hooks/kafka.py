"""The Kafka provider's `kafka` connection, as this package reads with it.

Users keep one connection for all their Kafka work: its extra is the client configuration, callbacks and managed
log-ins (MSK IAM, Google) are resolved by the provider's own hook. Clients are made here, never when a DAG is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.connections import telling_of_missing
from airflow_kafka_hdfs.ports.kafka import OffsetMirror, RecordReader, TopicCatalog

if TYPE_CHECKING:
    from airflow_kafka_hdfs.adapters.kafka.producer import CheckedProducer
    from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings

_EXAMPLE = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "broker:9092"}}'


class KafkaSourceHook:
    """Adapters for one Kafka connection.

    Args:
        kafka_conn_id: connection of type `kafka`.
        kafka_config: client settings on top of it; those that break exactness are refused.
    """

    def __init__(self, kafka_conn_id: str = "kafka_default", kafka_config: Mapping[str, Any] | None = None) -> None:
        self.kafka_conn_id = kafka_conn_id
        self.kafka_config = dict(kafka_config or {})

    @cached_property
    def settings(self) -> KafkaSettings:
        """The checked configuration.

        Raises:
            ConfigError: the connection names no brokers or a callback that is not allowed, or `kafka_config` holds
                a setting that must not be changed.
        """
        from airflow_kafka_hdfs.adapters.kafka.settings import client_settings

        return client_settings(_connection_config(self.kafka_conn_id), self.kafka_config)

    def catalog(self) -> TopicCatalog:
        """Topics and offsets of the cluster; who asks for them means to read. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
        from airflow_kafka_hdfs.adapters.kafka.reader import check_reader_settings

        check_reader_settings(self.settings)
        return KafkaCatalog(self.settings)

    def reader(self) -> RecordReader:
        """A new reader; close it. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader

        return KafkaReader(self.settings)

    def direct_reader(self) -> RecordReader:
        """A new reader whose values stay in the client's memory, where there is no `direct_fault`; close it."""
        from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader

        return DirectReader(self.settings)

    def direct_fault(self) -> str:
        """Why the connection can't have a `direct_reader`, empty if it can. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.kafka.direct import direct_fault

        return direct_fault(self.settings)

    def mirror(self, group: str) -> OffsetMirror:
        """A copy of our offsets in a consumer group, for lag tools. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.kafka.mirror import GroupMirror

        return GroupMirror(self.settings, group)

    def group_offsets(self, group: str) -> dict[str, dict[int, int]]:
        """Topic -> partition -> offset that a consumer group has committed. Raises KafkaUnavailableError."""
        from airflow_kafka_hdfs.adapters.kafka.groups import group_offsets

        return group_offsets(self.settings, group)

    def producer(self) -> CheckedProducer:
        """A producer that tells whether every message arrived. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.kafka.producer import CheckedProducer

        return CheckedProducer(self.settings)


def _connection_config(conn_id: str) -> dict[str, Any]:
    from airflow.providers.apache.kafka.hooks.base import KafkaBaseHook

    class ConfigOnly(KafkaBaseHook):
        """Stops where the provider's hooks make their client: what they would give it is what we want."""

        def _get_client(self, config: dict[str, Any]) -> dict[str, Any]:
            return config

    try:
        with telling_of_missing("kafka_conn_id", conn_id, _EXAMPLE):
            hook = ConfigOnly(kafka_config_id=conn_id)  # type: ignore[no-untyped-call]  # the provider has no types here
            config: dict[str, Any] = dict(hook.get_conn)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"connection {conn_id}", "its extra", "a client configuration that the Kafka provider takes", str(error)
        ) from error
    return config
