"""What the error codes of librdkafka mean for us: a fault of one topic, or trouble with the cluster."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.ports.kafka import Fault

_FAULTS: dict[int, Fault] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: Fault.MISSING,
    KafkaError.UNKNOWN_TOPIC_ID: Fault.MISSING,
    KafkaError._UNKNOWN_TOPIC: Fault.MISSING,
    KafkaError._UNKNOWN_PARTITION: Fault.MISSING,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Fault.DENIED,
    KafkaError._BAD_MSG: Fault.CORRUPT,
    KafkaError._BAD_COMPRESSION: Fault.CORRUPT,
    KafkaError.INVALID_MSG: Fault.CORRUPT,
    KafkaError.INVALID_RECORD: Fault.CORRUPT,
}

# A leader is being elected or has just moved: asking again soon helps.
_ELECTIONS = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError._NOENT,  # the client knows no leader
}

# The broker that keeps a group's offsets is being chosen, or reads them.
_GROUP_SOON = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}

# No answer at all: the broker, the network or the log-in.
_UNREACHABLE = {
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError._RESOLVE,
    KafkaError._UNKNOWN_BROKER,
    KafkaError._DESTROY,
    KafkaError._DESTROY_BROKER,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}


def is_end_of_partition(error: KafkaError) -> bool:
    """Whether this is no error but the event that tells the end of a partition."""
    return error.code() == KafkaError._PARTITION_EOF


def is_out_of_range(error: KafkaError) -> bool:
    """Whether the client would have to choose another offset, which `auto.offset.reset=error` forbids."""
    return error.code() == KafkaError._AUTO_OFFSET_RESET


def no_answer(text: str) -> KafkaError:
    """A time-out that we found ourselves."""
    return KafkaError(KafkaError._TIMED_OUT, text)


def refused(text: str) -> KafkaError:
    """A property, or a whole configuration, that the client does not take."""
    return KafkaError(KafkaError._INVALID_ARG, text)


def is_fatal(error: KafkaError) -> bool:
    """Whether the client can do nothing any more; messages tell it by their code alone."""
    return error.fatal() or error.code() == KafkaError._FATAL


def is_purged(code: int) -> bool:
    """Whether a message comes back because it was thrown away unsent."""
    return code == KafkaError._PURGE_QUEUE


def fault_of(error: KafkaError) -> Fault | None:
    """The lasting fault of one topic or partition that the code tells, None if waiting may cure it."""
    return _FAULTS.get(error.code())


def is_worth_a_retry(error: KafkaError) -> bool:
    """Whether the same question may get an answer soon."""
    return error.code() in _ELECTIONS or error.code() in _UNREACHABLE


def is_group_ready_soon(error: KafkaError) -> bool:
    """Whether a consumer group can't be reached only for a moment."""
    return error.code() in _GROUP_SOON


def is_unreachable(error: KafkaError) -> bool:
    """Whether nobody answered."""
    return error.code() in _UNREACHABLE


def code_of(error: KafkaError) -> str:
    """The `Fault` code for records and reports, with what the broker said where the code alone says too little."""
    fault = fault_of(error)
    if fault is not None:
        return fault.value
    if error.code() in _ELECTIONS or error.code() in _UNREACHABLE:
        return f"{Fault.NO_LEADER}: {error.name()}"
    return f"{Fault.BROKER_ERROR}: {error.name()}"


def kafka_error(error: BaseException) -> KafkaError:
    """The KafkaError that a KafkaException carries; other exceptions as an application error with their text."""
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return error.args[0]
    return KafkaError(KafkaError._APPLICATION, f"{type(error).__name__}: {error}")


class Trouble:
    """Keeps what a client reports on its own: lost connections, failed log-ins, fatal states.

    Give `note` to the client as `error_cb`.

    Args:
        then: the user's own `error_cb`, called as well.
        hide: takes secrets out of a text.
    """

    def __init__(self, then: Callable[[KafkaError], object] | None, hide: Callable[[str], str]) -> None:
        self._then = then
        self._hide = hide
        self.last = ""
        self.fatal: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Remember an error of the client."""
        # "All brokers are down" follows the report that says why; keep the why.
        if not self.last or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = self._hide(f"{error.name()}: {error.str()}")
        if error.fatal():
            self.fatal = error
        if self._then is not None:
            self._then(error)

    def unavailable(self, action: str, error: KafkaError, servers: object) -> KafkaUnavailableError:
        """The error to raise when the cluster does not answer."""
        said = self._hide(f"{error.name()}: {error.str()}")
        more = f"; the client reported {self.last}" if self.last and self.last != said else ""
        return KafkaUnavailableError(
            f"{action}: {said}{more} (bootstrap.servers {servers}). Are the brokers up, reachable from this worker, "
            f"and is the log-in of the connection right?"
        )
