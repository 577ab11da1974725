import pytest

from airflow_kafka_hdfs.adapters.storage.retry import Patience
from airflow_kafka_hdfs.exceptions import StoreRefusedError, StoreUnavailableError


class Time:
    """A clock that only sleep moves on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def patient(time: Time, seconds: float = 60) -> Patience:
    return Patience(seconds=seconds, clock=lambda: time.now, sleep=time.sleep)


def away() -> None:
    raise StoreUnavailableError("get", "log/0", "away")


def test_an_answer_at_once_waits_for_nothing():
    time = Time()
    assert patient(time).run(lambda: 7) == 7
    assert time.pauses == []


def test_a_store_that_comes_back_is_asked_again_with_growing_pauses():
    time = Time()
    answers = iter([away, away, away, away, away, away, away, lambda: "back"])
    assert patient(time).run(lambda: next(answers)()) == "back"
    assert time.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0])


def test_a_store_that_stays_away_is_given_up_in_time_with_its_own_error():
    time = Time()
    with pytest.raises(StoreUnavailableError, match="away"):
        patient(time, 60).run(away)
    assert 50 < time.now <= 60


def test_without_patience_there_is_one_try():
    time = Time()
    with pytest.raises(StoreUnavailableError):
        patient(time, 0).run(away)
    assert time.pauses == []


def test_a_slow_answer_uses_up_the_time_too():
    time = Time()
    tries = []

    def slow() -> None:
        tries.append(time.now)
        time.now += 45
        away()

    with pytest.raises(StoreUnavailableError):
        patient(time, 60).run(slow)
    assert len(tries) == 2


def test_a_refusal_is_not_tried_again():
    def refuse() -> None:
        raise StoreRefusedError("get", "log/0", "no")

    time = Time()
    with pytest.raises(StoreRefusedError):
        patient(time).run(refuse)
    assert time.pauses == []
