"""Topics and offsets of a cluster, in few requests however many partitions there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_kafka_hdfs.adapters.kafka.errors import (
    Trouble,
    code_of,
    is_unreachable,
    is_worth_a_retry,
    kafka_error,
    no_answer,
)
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.model import PartitionOffsets, TopicInfo, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Fault, TopicCatalog

R = TypeVar("R")

# One request per broker holds up to this many partitions; a cluster's largest jobs still fit into one or two rounds.
_PER_REQUEST = 20_000
# A request is bound to the broker that led when it was made. When that broker dies, only a new request finds the
# next leader, so a round must end well before the whole call does.
_ROUND_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Question:
    isolation: IsolationLevel
    spec: Callable[[TopicPartition], Any]


_EARLIEST = _Question(IsolationLevel.READ_UNCOMMITTED, lambda tp: OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # no types in the library
_LAST_STABLE = _Question(IsolationLevel.READ_COMMITTED, lambda tp: OffsetSpec.latest())  # type: ignore[no-untyped-call]  # as above
_HIGH_WATERMARK = _Question(IsolationLevel.READ_UNCOMMITTED, lambda tp: OffsetSpec.latest())  # type: ignore[no-untyped-call]  # as above


class KafkaCatalog(TopicCatalog):
    """Metadata and offsets through the admin client.

    Args:
        settings: from `client_settings`.
        timeout: seconds that one call may take at most, retries included.
        sleep: waits between rounds.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(
        self, settings: KafkaSettings, *, timeout: float = 30.0, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        config = settings.for_admin()
        self._servers = config.get("bootstrap.servers") or config.get("metadata.broker.list")
        self._trouble = Trouble(config.get("error_cb"), settings.hide)
        self._timeout = timeout
        self._sleep = sleep
        self._admin = settings.make(AdminClient, {**config, "error_cb": self._trouble.note})

    def cluster_id(self) -> str:
        """Id of the cluster, as its metadata say. Raises KafkaUnavailableError."""
        try:
            answer = self._admin.describe_cluster(request_timeout=self._timeout).result(self._timeout + 5)
        except (KafkaException, TimeoutError) as error:
            raise self._unavailable("asking for the cluster id", kafka_error(error)) from error
        return str(answer.cluster_id)

    def topics(self) -> Mapping[str, TopicInfo]:
        """All topics: one request for their names, one for their ids. Raises KafkaUnavailableError."""
        try:
            listed = self._admin.list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise self._unavailable("listing topics", kafka_error(error)) from error
        names = [name for name in listed if not name.startswith("__")]
        # Between the two requests a topic may go.
        return {name: info for name, info in self.describe(names).items() if info.fault != Fault.MISSING}

    def describe(self, names: Collection[str]) -> Mapping[str, TopicInfo]:
        """Topics by name, in one request. Raises KafkaUnavailableError."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        infos: dict[str, TopicInfo] = {}
        errors: list[KafkaError] = []
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout)
        for name, future in futures.items():
            answer = _result(future, self._timeout)
            if isinstance(answer, KafkaError):
                errors.append(answer)
                infos[name] = TopicInfo(name=name, topic_id="", partitions=(), fault=code_of(answer))
                continue
            partitions = tuple(sorted(partition.id for partition in answer.partitions))
            infos[name] = TopicInfo(name=name, topic_id=_as_kafka_prints(answer.topic_id), partitions=partitions)
        self._raise_if_silent("describing topics", errors, len(wanted))
        return infos

    def offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets | str]:
        """Three look-ups side by side, each one request per leader. Raises KafkaUnavailableError."""
        questions = (_EARLIEST, _LAST_STABLE, _HIGH_WATERMARK)
        earliest, stable, high = self._ask("looking up offsets", questions, partitions)
        return {tp: _as_offsets(earliest[tp], stable[tp], high[tp]) for tp in earliest}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None | str]:
        """One look-up, one request per leader. Raises KafkaUnavailableError."""
        # Negative times are commands in the protocol; nothing is older than the epoch.
        question = _Question(IsolationLevel.READ_COMMITTED, lambda tp: OffsetSpec.for_timestamp(max(times[tp], 0)))
        (answers,) = self._ask("looking up offsets by time", (question,), times)
        return {tp: None if answer == -1 else answer for tp, answer in answers.items()}

    def _ask(
        self, action: str, questions: tuple[_Question, ...], partitions: Iterable[TopicPartition]
    ) -> list[dict[TopicPartition, int | str]]:
        """Answers to each question: an offset, or a code where the partition gives none.

        All questions are in flight at once. What meets an election or a silent broker is asked again in the next
        round; the other partitions wait for nobody.
        """
        wanted = sorted(set(partitions))
        answers: list[dict[TopicPartition, int | KafkaError]] = [{} for _ in questions]
        still = [wanted] * len(questions)
        deadline = time.monotonic() + self._timeout
        pause = 0.1
        while any(still):
            seconds = min(_ROUND_SECONDS, max(deadline - time.monotonic(), 1.0))
            in_flight = [self._send(question, todo, seconds) for question, todo in zip(questions, still, strict=True)]
            for number, futures in enumerate(in_flight):
                answers[number].update((tp, _offset(future, seconds)) for tp, future in futures.items())
                still[number] = [tp for tp in still[number] if _ask_again(answers[number][tp])]
            if time.monotonic() + pause >= deadline:
                break
            if any(still):
                self._sleep(pause)
                pause = min(2 * pause, 1.0)
        errors = [answer for found in answers for answer in found.values() if isinstance(answer, KafkaError)]
        self._raise_if_silent(action, errors, len(wanted) * len(questions))
        return [{tp: code_of(a) if isinstance(a, KafkaError) else a for tp, a in found.items()} for found in answers]

    def _send(
        self, question: _Question, partitions: list[TopicPartition], seconds: float
    ) -> dict[TopicPartition, Future[Any]]:
        futures: dict[TopicPartition, Future[Any]] = {}
        for start in range(0, len(partitions), _PER_REQUEST):
            part = partitions[start : start + _PER_REQUEST]
            request = {ClientPartition(tp.topic, tp.partition): question.spec(tp) for tp in part}
            sent = self._admin.list_offsets(request, isolation_level=question.isolation, request_timeout=seconds)
            futures.update(zip(part, sent.values(), strict=True))
        return futures

    def _raise_if_silent(self, action: str, errors: list[KafkaError], asked: int) -> None:
        """Trouble of the cluster: nobody answered anything. One dead broker among others is a fault of its topics."""
        if errors and len(errors) == asked and all(map(is_unreachable, errors)):
            raise self._unavailable(action, errors[0])

    def _unavailable(self, action: str, error: KafkaError) -> Exception:
        self._admin.poll(0)  # lets the client tell what it knows
        return self._trouble.unavailable(action, error, self._servers)


def _result(future: Future[R], seconds: float) -> R | KafkaError:
    """The answer, or the KafkaError. librdkafka ends each request in time; the margin is for a client that hangs."""
    try:
        return future.result(seconds + 5)
    except KafkaException as error:
        return kafka_error(error)
    except TimeoutError:
        return no_answer("no answer from the client itself")


def _offset(future: Future[Any], seconds: float) -> int | KafkaError:
    answer = _result(future, seconds)
    return answer if isinstance(answer, KafkaError) else int(answer.offset)


def _ask_again(answer: int | KafkaError) -> bool:
    return isinstance(answer, KafkaError) and is_worth_a_retry(answer)


def _as_kafka_prints(topic_id: object) -> str:
    # Brokers and their tools print ids in the URL-safe alphabet, the client in the other one.
    return str(topic_id).replace("+", "-").replace("/", "_")


def _as_offsets(earliest: int | str, stable: int | str, high: int | str) -> PartitionOffsets | str:
    if isinstance(earliest, str):
        return earliest
    if isinstance(stable, str):
        return stable
    if isinstance(high, str):
        return high
    # The three answers are of slightly different moments: retention or a commit may have come between them.
    last_stable = max(stable, earliest)
    return PartitionOffsets(log_start=earliest, last_stable=last_stable, high_watermark=max(high, last_stable))
