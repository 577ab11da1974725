"""A first look at the offsets of very many partitions, by consumers that join no group.

The admin client makes a future with a lock of its own for each partition and question: for 10,000 partitions that is
most of what a look-up costs. A consumer answers a whole list at once, but knows no more than "it worked" or "it did
not": what it leaves open, a dead broker's partitions or all of them, is for the admin client to clear up.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from airflow_kafka_hdfs.adapters.kafka.errors import Trouble
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.model import TopicPartition

Column = list[int | None]
"""An offset per partition, None where there was no answer."""

# In the protocol the earliest and the latest offset are asked for as if they were times, of just these values.
_COMMITTED = ("read_committed", (OFFSET_BEGINNING, OFFSET_END))
_UNCOMMITTED = ("read_uncommitted", (OFFSET_END,))


def survey(
    settings: KafkaSettings, trouble: Trouble, partitions: Sequence[TopicPartition], seconds: float
) -> tuple[Column, Column, Column]:
    """Log start, last stable offset and high watermark of many partitions.

    Args:
        settings: from `client_settings`.
        trouble: keeps what the clients report on their own.
        partitions: in any order.
        seconds: each of the two consumers may take for each of its questions.

    Returns:
        Answers in the order of the partitions.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def ask(job: tuple[str, tuple[int, ...]]) -> list[Column]:
        isolation, questions = job
        config = {**settings.for_consumer(), "isolation.level": isolation, "error_cb": trouble.note}
        consumer = settings.make(Consumer, config)
        try:
            return [_column(consumer, partitions, question, seconds) for question in questions]
        finally:
            consumer.close()

    with ThreadPoolExecutor(2) as threads:
        (start, stable), (high,) = threads.map(ask, (_COMMITTED, _UNCOMMITTED))
    return start, stable, high


def _column(consumer: Consumer, partitions: Sequence[TopicPartition], question: int, seconds: float) -> Column:
    asked = [ClientPartition(tp.topic, tp.partition, question) for tp in partitions]
    try:
        answers = consumer.offsets_for_times(asked, timeout=seconds)
    except KafkaException:
        return [None] * len(asked)
    # A partition without an answer comes back as it was asked for.
    return [found.offset if found.error is None and found.offset >= 0 else None for found in answers]
