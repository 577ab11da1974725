"""Topics and offsets of a cluster, in few requests however many partitions there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from airflow_kafka_hdfs.adapters.kafka.errors import (
    Trouble,
    code_of,
    fault_of,
    is_unreachable,
    is_worth_a_retry,
    kafka_error,
    no_answer,
)
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.adapters.kafka.survey import survey
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.model import PartitionOffsets, TopicInfo, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Fault, TopicCatalog

R = TypeVar("R")

_NO_RECORD = -1  # the answer of a broker that holds no record of that time or later

# One request per broker holds up to this many partitions; a cluster's largest jobs still fit into one or two rounds.
_PER_REQUEST = 20_000
# A request is bound to the broker that led when it was made. When that broker dies, only a new request finds the
# next leader, so the first rounds are short; later ones take longer, for clusters that are merely slow.
_ROUND_SECONDS = (3.0, 3.0, 6.0, 12.0)
# A dead broker's partitions get leaders after its session of 9 s (Kafka's default) is over. While others have answered
# they are waited for so long; then they are a fault of their topic, and the next run's business.
_ELECTION_SECONDS = 20.0
# Brokers hear of a new topic one after the other; a topic is missing if it still is after this time.
_NEWS_SECONDS = 2.0


# From here on a survey costs less than it takes to connect its consumers.
_MANY = 2_000


_Answers: TypeAlias = "list[int | str | KafkaError]"


@dataclass(frozen=True, slots=True)
class _Question:
    isolation: IsolationLevel
    spec: Callable[[TopicPartition], Any]
    least: int = 0  # the least number that is an answer


_EARLIEST = _Question(IsolationLevel.READ_UNCOMMITTED, lambda tp: OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # no types in the library
_LAST_STABLE = _Question(IsolationLevel.READ_COMMITTED, lambda tp: OffsetSpec.latest())  # type: ignore[no-untyped-call]  # as above
_HIGH_WATERMARK = _Question(IsolationLevel.READ_UNCOMMITTED, lambda tp: OffsetSpec.latest())  # type: ignore[no-untyped-call]  # as above


class KafkaCatalog(TopicCatalog):
    """Metadata and offsets through the admin client.

    Args:
        settings: from `client_settings`.
        timeout: seconds that one call may take at most, retries included.
        sleep: waits between rounds.
        many: offsets of so many partitions and more are looked up by a survey first.

    Raises:
        ConfigError: the client refuses the settings.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
        many: int = _MANY,
    ) -> None:
        config = settings.for_admin()
        self._settings = settings
        self._many = many
        self._servers = settings.servers
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
        start = time.monotonic()
        questions = (_EARLIEST, _LAST_STABLE, _HIGH_WATERMARK)
        wanted = _in_order(partitions)
        surveyed = None
        if len(wanted) >= self._many:
            surveyed = survey(self._settings, self._trouble, wanted, min(_ROUND_SECONDS[0], self._timeout))
        answers = zip(*self._ask("looking up offsets", questions, wanted, start, surveyed), strict=True)
        return {tp: _as_offsets(*three) for tp, three in zip(wanted, answers, strict=True)}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | None | str]:
        """One look-up, one request per leader. Raises KafkaUnavailableError."""
        # Negative times are commands in the protocol; nothing is older than the epoch.
        question = _Question(
            IsolationLevel.READ_COMMITTED, lambda tp: OffsetSpec.for_timestamp(max(times[tp], 0)), _NO_RECORD
        )
        wanted = _in_order(times)
        (answers,) = self._ask("looking up offsets by time", (question,), wanted, time.monotonic())
        return {tp: None if answer == _NO_RECORD else answer for tp, answer in zip(wanted, answers, strict=True)}

    def _ask(
        self,
        action: str,
        questions: tuple[_Question, ...],
        wanted: list[TopicPartition],
        start: float,
        surveyed: Sequence[Sequence[int | None]] | None = None,
    ) -> list[list[int | str]]:
        """Answers to each question, in the order of the partitions: an offset, or a code where there is none.

        Args:
            action: for the text of errors.
            questions: to ask of each partition.
            wanted: the partitions.
            start: when the look-up began.
            surveyed: answers that are there already, as this returns them; None for what is not.

        All questions are in flight at once. What meets an election or a silent broker is asked again in the next
        round, alone, for a while. Lists by place cost a fraction of mappings by partition, where there are 10,000.
        """
        nothing = no_answer("not asked")
        answers: list[_Answers] = [
            [nothing if answer is None else answer for answer in known]
            for known in surveyed or [[None] * len(wanted) for _ in questions]
        ]
        pause, rounds = 0.1, iter(_ROUND_SECONDS)
        while open_places := {place for found in answers for place in _open(found)}:
            left = max(start + self._timeout - time.monotonic(), 1.0)
            self._round(questions, wanted, answers, min(next(rounds, _ROUND_SECONDS[-1]), left))
            self._settle_faults(wanted, answers, open_places, young=time.monotonic() < start + _NEWS_SECONDS)
            nobody = all(isinstance(answer, KafkaError) for found in answers for answer in found)
            patience = self._timeout if nobody else min(self._timeout, _ELECTION_SECONDS)
            if time.monotonic() + pause >= start + patience:
                break
            if any(map(_open, answers)):
                self._sleep(pause)
                pause = min(2 * pause, 1.0)
                # The client asks its old leaders again and again unless it is told to look who leads now.
                with suppress(KafkaException):
                    self._admin.list_topics(timeout=_ROUND_SECONDS[0])
        errors = [answer for found in answers for answer in found if isinstance(answer, KafkaError)]
        self._raise_if_silent(action, errors, len(wanted) * len(questions))
        return [[code_of(a) if isinstance(a, KafkaError) else a for a in found] for found in answers]

    def _round(
        self,
        questions: tuple[_Question, ...],
        wanted: list[TopicPartition],
        answers: list[_Answers],
        seconds: float,
    ) -> None:
        """Ask for all that is open, and note what comes."""
        todo = [_open(found) for found in answers]
        in_flight = [
            self._send(question, [wanted[place] for place in places], seconds)
            for question, places in zip(questions, todo, strict=True)
        ]
        for question, found, places, futures in zip(questions, answers, todo, in_flight, strict=True):
            for place, future in zip(places, futures, strict=True):
                found[place] = _offset(future, seconds, question.least)

    def _settle_faults(
        self, wanted: list[TopicPartition], answers: list[_Answers], places: set[int], *, young: bool
    ) -> None:
        """Let the description of a topic say whether a fault lasts.

        A topic that the user may not see can look like one without leaders. One that is missing may be new: while
        the look-up is `young`, brokers may still have to hear of it.
        """
        unclear = {place for found in answers for place in places if _has_reached_a_broker(found[place])}
        with suppress(KafkaUnavailableError):
            infos = self.describe({wanted[place].topic for place in unclear})
            for place in unclear:
                tp = wanted[place]
                fault = infos[tp.topic].fault
                if fault is None and tp.partition not in infos[tp.topic].partitions:
                    fault = Fault.MISSING.value
                if fault == Fault.DENIED or (fault == Fault.MISSING and not young):
                    for found in answers:
                        found[place] = fault

    def _send(self, question: _Question, partitions: list[TopicPartition], seconds: float) -> list[Future[Any]]:
        futures: list[Future[Any]] = []
        for start in range(0, len(partitions), _PER_REQUEST):
            part = partitions[start : start + _PER_REQUEST]
            request = {ClientPartition(tp.topic, tp.partition): question.spec(tp) for tp in part}
            sent = self._admin.list_offsets(request, isolation_level=question.isolation, request_timeout=seconds)
            futures += sent.values()
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


def _offset(future: Future[Any], seconds: float, least: int) -> int | str | KafkaError:
    """The offset, the code of a lasting fault, or an error that may pass."""
    answer = _result(future, seconds)
    if isinstance(answer, KafkaError):
        return answer if is_worth_a_retry(answer) or fault_of(answer) == Fault.MISSING else code_of(answer)
    if answer.offset < least:
        # Seen with 2.16: if one of several brokers is silent, its partitions come as successes with offset -1001.
        return no_answer("the broker did not answer")
    return int(answer.offset)


def _in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(set(partitions), key=lambda tp: (tp.topic, tp.partition))


def _open(answers: _Answers) -> list[int]:
    """Places of the answers that may still come."""
    return [place for place, answer in enumerate(answers) if isinstance(answer, KafkaError)]


def _has_reached_a_broker(answer: int | str | KafkaError) -> bool:
    return isinstance(answer, KafkaError) and not is_unreachable(answer)


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
