"""A producer whose caller learns of every message that did not arrive."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from airflow_kafka_hdfs.adapters.kafka.errors import Trouble, code_of, fault_of, kafka_error, no_answer
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError, TopicFaultError


class CheckedProducer:
    """Sends messages; `flush` tells whether all arrived. Use it as a context: leaving it flushes.

    Args:
        settings: from `client_settings`.
        timeout: seconds that a message may take to arrive, retries included.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(self, settings: KafkaSettings, *, timeout: float = 30.0) -> None:
        config = settings.for_producer()
        self._trouble = Trouble(config.get("error_cb"), settings.hide)
        self._servers = settings.servers
        self._timeout = timeout
        delivery = {"delivery.timeout.ms": int(timeout * 1000), "error_cb": self._trouble.note}
        self._producer = settings.make(Producer, {**config, **delivery})
        self._failed: list[tuple[str, KafkaError]] = []

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Hand a message to the client; waits while the client's queue is full.

        Raises:
            KafkaUnavailableError: the queue did not move.
        """
        for _ in range(2):
            try:
                self._producer.produce(topic, value=value, key=key, headers=list(headers), on_delivery=self._note)
            except BufferError:
                self._producer.flush(self._timeout)
            except KafkaException as error:
                raise self._error(topic, kafka_error(error)) from error
            else:
                self._producer.poll(0)
                return
        raise self._error(topic, no_answer("the client's queue is full and does not move"))

    def flush(self) -> None:
        """Wait until every message has arrived.

        Raises:
            TopicFaultError: a topic is missing or denied.
            KafkaUnavailableError: messages are still on their way, or failed otherwise.
        """
        waiting = self._producer.flush(self._timeout)
        failed, self._failed = self._failed, []
        if failed:
            raise self._error(*failed[0])
        if waiting:
            raise KafkaUnavailableError(
                f"{waiting} messages are not delivered after {self._timeout} s (bootstrap.servers {self._servers})"
            )

    def __enter__(self) -> CheckedProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append((message.topic() or "", error))

    def _error(self, topic: str, error: KafkaError) -> Exception:
        if fault_of(error) is not None:
            return TopicFaultError(topic, code_of(error), error.str())
        return self._trouble.unavailable(f"sending to topic {topic}", error, self._servers)
