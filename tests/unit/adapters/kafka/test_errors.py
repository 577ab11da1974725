from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from airflow_kafka_hdfs.adapters.kafka.errors import Trouble, code_of, is_worth_a_retry, kafka_error


@pytest.mark.parametrize(
    ("code", "text", "retry"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "missing", False),
        (KafkaError._UNKNOWN_PARTITION, "missing", False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied", False),
        (KafkaError._BAD_MSG, "corrupt", False),
        (KafkaError._BAD_COMPRESSION, "corrupt", False),
        (KafkaError.NOT_LEADER_FOR_PARTITION, "no_leader: NOT_LEADER_FOR_PARTITION", True),
        (KafkaError._TIMED_OUT, "no_leader: _TIMED_OUT", True),
        (KafkaError.TOPIC_EXCEPTION, "broker_error: TOPIC_EXCEPTION", False),
    ],
)
def test_codes_of_the_client_become_ours(code: int, text: str, retry: bool):
    assert code_of(KafkaError(code)) == text
    assert type(code_of(KafkaError(code))) is str, "records are JSON"
    assert is_worth_a_retry(KafkaError(code)) is retry


def test_any_exception_has_a_kafka_error():
    inner = KafkaError(KafkaError._TRANSPORT, "gone")
    assert kafka_error(KafkaException(inner)) is inner
    assert kafka_error(TimeoutError("late")).str() == "TimeoutError: late"


def test_the_reason_is_kept_when_all_brokers_are_down():
    seen: list[KafkaError] = []
    trouble = Trouble(seen.append, lambda text: text.replace("geheim", "***"))
    trouble.note(KafkaError(KafkaError._AUTHENTICATION, "password geheim is wrong"))
    trouble.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert trouble.last == "_AUTHENTICATION: password *** is wrong"
    assert len(seen) == 2, "the user's own error_cb hears all"
    error = trouble.unavailable("listing topics", KafkaError(KafkaError._TIMED_OUT, "Timed out"), "b:9092")
    assert str(error).startswith(
        "listing topics: _TIMED_OUT: Timed out; the client reported _AUTHENTICATION: password *** is wrong "
        "(bootstrap.servers b:9092). "
    )


def test_only_a_fatal_report_is_fatal():
    trouble = Trouble(None, str)
    trouble.note(KafkaError(KafkaError._TRANSPORT, "gone"))
    assert trouble.fatal is None
    trouble.note(KafkaError(KafkaError._FATAL, "over", fatal=True))
    assert trouble.fatal is not None
