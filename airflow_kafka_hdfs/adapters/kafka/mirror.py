"""A copy of our offsets in a consumer group, so that lag tools and dashboards see how far the pipeline is.

Nothing ever reads this copy: what is decided stands in the commit log. So trouble here is logged and never raised.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from airflow_kafka_hdfs.adapters.kafka.errors import kafka_error
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
    """

    def __init__(self, settings: KafkaSettings, group: str, *, timeout: float = 10.0) -> None:
        if not group:
            raise ConfigError("mirror_group", group, "the name of a consumer group")
        self._settings = settings
        self._group = group
        self._timeout = timeout

    def copy(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Set the group's offsets; what the group holds of other partitions stays."""
        if not offsets:
            return True
        wanted = [ClientPartition(tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())]
        try:
            admin = self._settings.make(AdminClient, self._settings.for_admin())
            request = [ConsumerGroupTopicPartitions(self._group, wanted)]
            (answer,) = admin.alter_consumer_group_offsets(request, request_timeout=self._timeout).values()
            refused = [part for part in answer.result(self._timeout + 5).topic_partitions if part.error]
        except (KafkaException, TimeoutError) as error:
            text = self._settings.hide(kafka_error(error).str())
            log.warning("group %s: offsets are not mirrored: %s", self._group, text)
            return False
        for part in refused:
            log.warning("group %s: %s[%s] is not mirrored: %s", self._group, part.topic, part.partition, part.error)
        return not refused
