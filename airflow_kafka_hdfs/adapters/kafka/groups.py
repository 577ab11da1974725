"""What a consumer group has committed, for taking over from a tool that kept its place there."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from airflow_kafka_hdfs.adapters.kafka.errors import kafka_error
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError

_SECONDS = 30


def group_offsets(settings: KafkaSettings, group: str) -> dict[str, dict[int, int]]:
    """Topic -> partition -> committed offset, which is the next one to be read.

    Args:
        settings: from `client_settings`.
        group: id of the group; one that nobody knows has no offsets.

    Raises:
        KafkaUnavailableError: no answer, or the group may not be described.
    """
    found: dict[str, dict[int, int]] = {}
    try:
        admin = settings.make(AdminClient, settings.for_admin())
        request = [ConsumerGroupTopicPartitions(group)]
        (answer,) = admin.list_consumer_group_offsets(request, request_timeout=_SECONDS).values()
        parts = answer.result(_SECONDS + 5).topic_partitions
    except (KafkaException, TimeoutError) as error:
        text = settings.hide(kafka_error(error).str())
        raise KafkaUnavailableError(f"the offsets of consumer group {group} can't be read: {text}") from error
    for part in parts:
        if part.error is None and part.offset >= 0:
            found.setdefault(part.topic, {})[part.partition] = part.offset
    return found
