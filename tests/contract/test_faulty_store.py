"""The crash tests trust these fakes, so the fakes are tested themselves."""

import pytest

from airflow_kafka_hdfs.exceptions import StoreUnavailableError
from airflow_kafka_hdfs.ports.store import Store
from tests.fakes.faulty_store import Call, Crash, Fault, FaultyStore, Kind, every_fault
from tests.fakes.store import InMemoryStore


def write_and_promote(store: Store) -> None:
    writer = store.create("staging/a")
    writer.write(b"0123456789")
    writer.close()
    store.promote("staging/a", "data/a", 10)
    store.put_if_absent("log/0", b"record")
    store.get("log/0")


def run(fault: Fault | None) -> tuple[InMemoryStore, FaultyStore]:
    shared = InMemoryStore()
    faulty = FaultyStore(shared, fault)
    write_and_promote(faulty)
    return shared, faulty


def test_without_a_fault_calls_are_counted_and_nothing_changes():
    shared, faulty = run(None)
    assert [call.name for call in faulty.calls] == ["create", "write", "close", "promote", "put_if_absent", "get"]
    assert faulty.calls[3] == Call(number=4, name="promote", path="staging/a")
    assert shared.files() == {"data/a": b"0123456789", "log/0": b"record"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Kind.CRASH_BEFORE, {"staging/a": b"0123456789"}),
        (Kind.CRASH_TORN, {"staging/a": b"0123456789"}),
        (Kind.CRASH_AFTER, {"data/a": b"0123456789"}),
    ],
)
def test_a_crash_in_promote_leaves_the_state_before_or_after(kind, expected):
    shared = InMemoryStore()
    with pytest.raises(Crash, match="call 4: promote"):
        write_and_promote(FaultyStore(shared, Fault(at=4, kind=kind)))
    assert shared.files() == expected


def test_a_torn_write_leaves_half_of_its_bytes_in_an_unclosed_file():
    shared = InMemoryStore()
    with pytest.raises(Crash):
        write_and_promote(FaultyStore(shared, Fault(at=2, kind=Kind.CRASH_TORN)))
    assert shared.files() == {"staging/a": b"01234"}
    assert shared.unclosed() == ["staging/a"]


def test_a_lost_answer_has_its_effect_and_the_process_lives_on():
    shared = InMemoryStore()
    faulty = FaultyStore(shared, Fault(at=1, kind=Kind.ANSWER_LOST))
    with pytest.raises(StoreUnavailableError):
        faulty.put_if_absent("log/0", b"record")
    assert shared.files() == {"log/0": b"record"}
    assert faulty.put_if_absent("log/0", b"record")


def test_an_unavailable_store_has_no_effect_and_the_process_lives_on():
    shared = InMemoryStore()
    faulty = FaultyStore(shared, Fault(at=1, kind=Kind.UNAVAILABLE))
    with pytest.raises(StoreUnavailableError):
        faulty.put_if_absent("log/0", b"record")
    assert shared.files() == {}
    assert faulty.put_if_absent("log/0", b"record")


def test_a_dead_process_does_nothing_more_even_in_finally():
    shared = InMemoryStore()
    faulty = FaultyStore(shared, Fault(at=1, kind=Kind.CRASH_AFTER))
    with pytest.raises(Crash):
        faulty.create("staging/a")
    with pytest.raises(Crash, match="dead already"):
        faulty.delete("staging/a")
    assert shared.files() == {"staging/a": b""}


def test_every_kind_of_fault_shows_at_every_call():
    _, counted = run(None)
    for number in range(1, len(counted.calls) + 1):
        for fault in every_fault(number):
            with pytest.raises((Crash, StoreUnavailableError), match=r"planted|call"):
                run(fault)


def test_an_observer_sees_each_call_before_its_effect():
    shared = InMemoryStore()
    seen = []
    faulty = FaultyStore(shared, before_call=lambda call: seen.append((call.name, dict(shared.files()))))
    faulty.put_if_absent("log/0", b"record")
    faulty.get("log/0")
    assert seen == [("put_if_absent", {}), ("get", {"log/0": b"record"})]


def test_a_stale_listing_lags_behind_while_get_does_not():
    faulty = FaultyStore(InMemoryStore(), listing_lag=2)
    for name in ("log/0", "log/1", "log/2", "log/3"):
        faulty.put_if_absent(name, b"record")
    assert [status.path for status in faulty.list("log")] == ["log/0", "log/1"]
    assert faulty.get("log/3") == b"record"
    faulty.delete("log/0")
    assert [status.path for status in faulty.list("log")] == ["log/0", "log/1", "log/2"]


def test_a_clone_goes_its_own_way():
    store = InMemoryStore()
    store.put_if_absent("log/0", b"record")
    clone = store.clone()
    clone.put_if_absent("log/1", b"record")
    store.delete("log/0")
    assert list(clone.files()) == ["log/0", "log/1"]
    assert store.files() == {}
