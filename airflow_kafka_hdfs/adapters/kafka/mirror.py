"""A copy of our offsets in a consumer group, so that lag tools and dashboards see how far the pipeline is.

Nothing ever reads this copy: what is decided stands in the commit log. So trouble here is logged and never raised.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_hdfs.adapters.kafka.errors import is_group_ready_soon, kafka_error
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.model import TopicPartition
from airflow_kafka_hdfs.ports.kafka import OffsetMirror

log = logging.getLogger(__name__)


class GroupMirror(OffsetMirror):
    """Sets the offsets of a consumer group that has no members.

    Args:
        settings: from `client_settings`.
        group: the group, for this purpose alone; the cluster makes it when it is first set.
        timeout: seconds that a copy may take.
        sleep: waits between tries.

    Raises:
        ConfigError: no group is named.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        group: str,
        *,
        timeout: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not group:
            raise ConfigError("mirror_group", group, "the name of a consumer group")
        self._settings = settings
        self._group = group
        self._timeout = timeout
        self._sleep = sleep
        self._admin: AdminClient | None = None

    def copy(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Set the group's offsets; what the group holds of other partitions stays."""
        if not offsets:
            return True
        wanted = [ClientPartition(tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())]
        deadline = time.monotonic() + self._timeout
        refused = self._try(wanted)
        while any(is_group_ready_soon(error) for _, error in refused) and time.monotonic() < deadline:
            self._sleep(0.2)
            refused = self._try(wanted)
        for where, error in refused:
            text = self._settings.hide(f"{error.name()}: {error.str()}")
            log.warning("group %s: %s is not mirrored: %s", self._group, where, text)
        return not refused

    def _try(self, wanted: list[ClientPartition]) -> list[tuple[str, KafkaError]]:
        """What was refused, and why; all of it if nobody answers."""
        try:
            if self._admin is None:
                self._admin = self._settings.make(AdminClient, self._settings.for_admin())
            request = [ConsumerGroupTopicPartitions(self._group, wanted)]
            (answer,) = self._admin.alter_consumer_group_offsets(request, request_timeout=self._timeout).values()
            parts = answer.result(self._timeout + 5).topic_partitions
        except (KafkaException, TimeoutError, ConfigError) as error:
            return [(f"all of {len(wanted)} partitions", kafka_error(error))]
        return [(f"{part.topic}[{part.partition}]", part.error) for part in parts if part.error]
