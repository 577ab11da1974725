"""Load lineage from Kafka into the warehouse, as a task."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.loading import DEFAULT_GROUP, MAX_LETTERS, Loader

if TYPE_CHECKING:
    from airflow.sdk import Context

_PRUNING = 60.0


class LineageLoadOperator(BaseOperator):
    """Loads the lineage topic into the warehouse, up to the end that it has when the task starts.

    Where `[kafka_hdfs_lineage] openlineage_topic` names one, events of OpenLineage are loaded with it. Where
    `keep_days` says so, runs that are older are deleted afterwards: once a day, for at most a minute of each task.

    Rows and offsets are written in one transaction, so a task that dies and is retried goes on where it stopped and
    doubles nothing. While the warehouse is away the task fails and nothing is lost: the topic keeps 30 days.

    Args:
        kafka_conn_id: connection of the cluster; by default as in `[kafka_hdfs_lineage]`.
        warehouse_conn_id: connection of the database; by default as in `[kafka_hdfs_lineage]`.
        topic: topic to load; by default as in `[kafka_hdfs_lineage]`.
        group: name under which offsets are kept in the warehouse.
        max_letters: messages per transaction.
        migrate: create or update the tables first.
    """

    template_fields: Sequence[str] = ("kafka_conn_id", "warehouse_conn_id", "topic", "group")
    ui_color = "#e8f1fb"

    def __init__(
        self,
        *,
        kafka_conn_id: str | None = None,
        warehouse_conn_id: str | None = None,
        topic: str | None = None,
        group: str = DEFAULT_GROUP,
        max_letters: int = MAX_LETTERS,
        migrate: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kafka_conn_id = kafka_conn_id
        self.warehouse_conn_id = warehouse_conn_id
        self.topic = topic
        self.group = group
        self.max_letters = max_letters
        self.migrate = migrate
        self._stop: threading.Event | None = None

    def execute(self, context: Context) -> dict[str, int]:
        """Load.

        Returns:
            Counts: letters, bad, batches, runs, edges, waiting, old, new_jobs, updated_jobs.

        Raises:
            KafkaUnavailableError, WarehouseUnavailableError: a retry goes on where this attempt stopped.
            TopicFaultError, LineageError, ConfigError: something has to be set right first.
        """
        from airflow_kafka_hdfs.adapters.runtime import SystemClock

        self._stop = threading.Event()
        hook = LineageHook(kafka_conn_id=self.kafka_conn_id, warehouse_conn_id=self.warehouse_conn_id)
        warehouse, source, dead_letters = hook.warehouse(), hook.letter_source(), hook.letter_box()
        try:
            if self.migrate:
                warehouse.migrate()
            loader = Loader(
                source,
                warehouse,
                SystemClock(),
                **hook.load_options(self.topic),
                group=self.group,
                max_letters=self.max_letters,
                dead_letters=dead_letters,
                dead_letter_topic=hook.settings.dead_letter_topic,
            )
            report = loader.load_available(self._stop)
            retention = hook.retention(warehouse)
            if retention is not None:
                retention.work(_PRUNING, self._stop)
        finally:
            source.close()
            dead_letters.close()
            warehouse.close()
        self.log.info("lineage loaded into %s: %s", warehouse.where, report.to_json())
        if report.bad:
            self.log.warning("%d messages could not be used: see lineage_raw.problem", report.bad)
        return report.to_json()

    def on_kill(self) -> None:
        """End after the transaction at hand."""
        if self._stop is not None:
            self._stop.set()
