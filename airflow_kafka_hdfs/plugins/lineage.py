"""The plugin that collects lineage. Off unless switched on; while off it registers nothing at all."""

from __future__ import annotations

import logging
from typing import Any

from airflow.plugins_manager import AirflowPlugin

log = logging.getLogger(__name__)


def _listeners() -> list[Any]:
    """What listens to runs and tasks; nothing while lineage is off.

    A registered listener, any listener, makes Airflow 3.3 refuse DAGs that hold a deferrable operator with
    `end_from_trigger=True`. So none is registered before somebody asks for lineage.
    """
    from airflow_kafka_hdfs.exceptions import ConfigError
    from airflow_kafka_hdfs.hooks.lineage import read_settings

    try:
        if not read_settings().enabled:
            return []
    except ConfigError as error:
        log.error("lineage stays off: %s", error)
        return []
    from airflow_kafka_hdfs.plugins.lineage_listener import RunListener
    from airflow_kafka_hdfs.plugins.lineage_tasks import TaskListener

    return [RunListener(), TaskListener()]


def _readers() -> list[Any]:
    """Airflow keeps what hooks report only if somebody reads it."""
    if not _LISTENERS:
        return []
    from airflow.sdk.lineage import HookLineageReader

    class Reader(HookLineageReader):
        """Switches the collector on; `TaskListener` reads it."""

    return [Reader]


def _apps() -> list[dict[str, Any]]:
    """The web app, mounted beside Airflow's own; nothing while lineage is off."""
    if not _LISTENERS:
        return []
    from airflow_kafka_hdfs.plugins.lineage_app import PREFIX, LazyApp

    return [{"app": LazyApp(), "url_prefix": PREFIX, "name": "Lineage"}]


def _views() -> list[dict[str, Any]]:
    """The pages' places in Airflow's navigation; none while lineage is off."""
    if not _LISTENERS:
        return []
    from airflow.configuration import conf

    from airflow_kafka_hdfs.plugins.lineage_app import PREFIX
    from airflow_kafka_hdfs.plugins.lineage_views import external_views

    return external_views(conf.get("api", "base_url", fallback="") or "", PREFIX)


_LISTENERS = _listeners()


class KafkaHdfsLineagePlugin(AirflowPlugin):
    """Lineage of every DAG, to Kafka; see `[kafka_hdfs_lineage]`."""

    name = "kafka_hdfs_lineage"
    listeners = _LISTENERS
    hook_lineage_readers = _readers()
    fastapi_apps = _apps()
    external_views = _views()
