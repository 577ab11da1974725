"""`[kafka_hdfs_lineage]` and connections become what lineage works with; nothing is made before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.connections import connection
from airflow_kafka_hdfs.lineage.settings import SECTION, LineageSettings

if TYPE_CHECKING:
    from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
    from airflow_kafka_hdfs.adapters.lineage_platform import HttpPlatform
    from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterBox, KafkaLetterSource
    from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
    from airflow_kafka_hdfs.lineage.pruning import Retention

DATABASE = "kafka_hdfs_lineage.db"
SPOOL = "kafka_hdfs_lineage_spool"
_PLATFORM = '{"conn_type": "http", "host": "https://platform", "password": "a token"}'


def read_settings() -> LineageSettings:
    """The options of this deployment.

    Raises:
        ConfigError: an option has a value that can't be used.
    """
    from airflow.sdk.configuration import conf

    def get(name: str) -> str | None:
        value = conf.get(SECTION, name, fallback=None)
        return None if value is None else str(value)

    return LineageSettings.read(get)


class LineageHook:
    """Kafka topics and warehouse of lineage.

    Args:
        settings: options; those of this deployment if None.
        kafka_conn_id: connection to use instead of the configured one.
        warehouse_conn_id: connection of the database to use instead of the configured one.
    """

    def __init__(
        self,
        settings: LineageSettings | None = None,
        *,
        kafka_conn_id: str | None = None,
        warehouse_conn_id: str | None = None,
    ) -> None:
        self._given = settings
        self._kafka_conn_id = kafka_conn_id
        self._warehouse_conn_id = warehouse_conn_id

    @cached_property
    def settings(self) -> LineageSettings:
        """Options. Raises ConfigError."""
        return self._given if self._given is not None else read_settings()

    @cached_property
    def kafka(self) -> KafkaSettings:
        """The cluster of the lineage topics. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.kafka.settings import client_settings

        if self._kafka_conn_id is None and self.settings.kafka_config:
            return client_settings(self.settings.kafka_config)
        from airflow_kafka_hdfs.hooks.kafka import KafkaSourceHook

        return KafkaSourceHook(self._kafka_conn_id or self.settings.kafka_conn_id).settings

    def letter_box(self) -> KafkaLetterBox:
        """A new producer; close it. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterBox

        return KafkaLetterBox(self.kafka)

    def letter_source(self) -> KafkaLetterSource:
        """A new reader; close it. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterSource

        return KafkaLetterSource(self.kafka)

    def create_topics(self, *, partitions: int = 6, replication: int = -1) -> dict[str, bool]:
        """Create the topics that are missing; topic -> whether it was created now.

        Raises:
            KafkaUnavailableError, TopicFaultError: as `lineage_topic.create_topics`.
        """
        from airflow_kafka_hdfs.adapters.lineage_topic import create_topics

        return create_topics(self.kafka, self.topics(), partitions=partitions, replication=replication)

    def topics(self) -> Collection[str]:
        """Names of the topics that lineage needs."""
        known = self.settings
        names = (known.topic, known.dead_letter_topic, known.openlineage_topic, known.openlineage_emit_topic)
        return list(dict.fromkeys(name for name in names if name))

    def load_options(self, topic: str | None = None) -> dict[str, Any]:
        """Which topics a `Loader` reads, as arguments of it.

        Args:
            topic: topic of lineage messages to read instead of the configured one.
        """
        from airflow_kafka_hdfs.lineage.openlineage import EventReader

        own, others = topic or self.settings.topic, self.settings.openlineage_topic
        if not others:
            return {"topics": [own]}
        return {"topics": [own, others], "events": EventReader(self.settings), "event_topics": [others]}

    def warehouse_url(self) -> str:
        """SQLAlchemy URL of the warehouse; SQLite in AIRFLOW_HOME if nothing is configured.

        Raises:
            ConfigError: the connection does not name a database.
        """
        conn_id = self._warehouse_conn_id or self.settings.warehouse_conn_id
        if not conn_id:
            return self.settings.warehouse or f"sqlite:///{_home() / DATABASE}"
        from airflow.sdk import BaseHook

        connection = BaseHook.get_connection(conn_id)
        kinds = {"postgres": "postgresql+psycopg2", "redshift": "postgresql+psycopg2", "sqlite": "sqlite"}
        if connection.conn_type not in kinds:
            raise ConfigError(f"connection {conn_id}", connection.conn_type, sorted(kinds), "Set its type.")
        if connection.conn_type == "sqlite":
            return f"sqlite:///{connection.host}"
        from sqlalchemy.engine import URL

        return URL.create(
            kinds[connection.conn_type],
            connection.login,
            connection.password,
            connection.host,
            connection.port,
            connection.schema,
        ).render_as_string(hide_password=False)

    def warehouse(self) -> SqlWarehouse:
        """The warehouse; close it. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse

        portable = False
        conn_id = self._warehouse_conn_id or self.settings.warehouse_conn_id
        if conn_id:
            from airflow.sdk import BaseHook

            portable = BaseHook.get_connection(conn_id).conn_type == "redshift"
        return SqlWarehouse(self.warehouse_url(), portable=portable)

    def retention(self, warehouse: SqlWarehouse) -> Retention | None:
        """Deletes what is older than `keep_days`; None if everything is kept. Raises ConfigError."""
        from airflow_kafka_hdfs.adapters.runtime import SystemClock
        from airflow_kafka_hdfs.lineage.pruning import Pruner, Retention

        if not self.settings.keep_days:
            return None
        clock = SystemClock()
        return Retention(Pruner(warehouse, clock), clock, self.settings.keep_days)

    def platform(self) -> HttpPlatform:
        """The governance platform to export to; close it. Raises ConfigError if none is configured."""
        from airflow_kafka_hdfs.adapters.lineage_platform import HttpPlatform
        from airflow_kafka_hdfs.adapters.runtime import SystemClock

        settings = self.settings
        url, token = settings.export_url, settings.export_token
        if settings.export_conn_id:
            url, more = self._platform_address(settings.export_conn_id)
            token = token or more
        if not url:
            raise ConfigError(
                "[kafka_hdfs_lineage] export_url", "", "the address where a platform takes OpenLineage events"
            )
        return HttpPlatform(url, SystemClock(), token=token, timeout=settings.export_timeout)

    @staticmethod
    def _platform_address(conn_id: str) -> tuple[str, str]:
        """URL (with login and password) and bearer token of a connection."""
        from urllib.parse import quote

        found = connection("[kafka_hdfs_lineage] export_conn_id", conn_id, _PLATFORM)
        host = found.host or ""
        scheme, _, place = host.rpartition("://")
        if not place:
            raise ConfigError(f"connection {conn_id}", host, "a host", "Set its host.")
        login = ""
        if found.login:
            login = f"{quote(found.login, safe='')}:{quote(found.password or '', safe='')}@"
        port = f":{found.port}" if found.port else ""
        endpoint = str(found.extra_dejson.get("endpoint", "")).lstrip("/")
        place, _, path = place.partition("/")
        path = "/".join(part for part in (path.strip("/"), endpoint) if part)
        url = f"{scheme or found.schema or 'http'}://{login}{place}{port}/{path}"
        return url, "" if found.login else found.password or ""

    def spool_folder(self) -> Path:
        """Where messages wait while Kafka is away."""
        return Path(self.settings.spool_dir) if self.settings.spool_dir else _home() / SPOOL


def _home() -> Path:
    """Airflow's home, as Airflow finds it."""
    return Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
