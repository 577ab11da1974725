import pytest

from airflow_kafka_hdfs.adapters.storage.probe import probe
from airflow_kafka_hdfs.exceptions import StoreRefusedError, StoreUnavailableError, UnsafeStoreError
from airflow_kafka_hdfs.model import STORES_OWN
from tests.fakes.store import InMemoryStore


class Replacing(InMemoryStore):
    """Looks before it creates, so one writer at a time sees nothing wrong; the single step replaces."""

    def create_blindly(self, path, data):
        self.delete(path)
        return self.put_if_absent(path, data)


class LooksFirst(InMemoryStore):
    """Two writers at once both find nothing, and both write."""

    def create_blindly(self, path, data):
        if "race" not in path:
            return super().create_blindly(path, data)
        self.delete(path)
        return self.put_if_absent(path, data)


class MovesOver(InMemoryStore):
    def move_blindly(self, source, target):
        self.delete(target)
        return super().move_blindly(source, target)


class Forgetful(InMemoryStore):
    def list(self, path):
        return []


class Tearing(InMemoryStore):
    def promote(self, source, target, size, *, modes=STORES_OWN):
        done = super().promote(source, target, size)
        self._tree.files[target].content[:] = b"torn"
        return done


@pytest.mark.parametrize(
    ("store", "what"),
    [
        (Replacing(), "created where one existed"),
        (LooksFirst(), "4 won the same name"),
        (MovesOver(), "moved onto one that existed"),
        (Forgetful(), "not listed"),
        (Tearing(), "4 bytes stands there|another content"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.bug(100)
def test_a_store_that_can_not_be_trusted_is_refused_and_left_clean(store, what):
    with pytest.raises((UnsafeStoreError, StoreRefusedError), match=what):
        probe(store)
    assert store.files() == {}


def test_a_good_store_passes_and_nothing_of_others_is_touched():
    store = InMemoryStore()
    store.put_if_absent("data/a", b"x")
    probe(store)
    assert store.files() == {"data/a": b"x"}


def test_a_store_that_is_away_is_not_called_unsafe():
    class Away(InMemoryStore):
        def create_blindly(self, path, data):
            raise StoreUnavailableError("put_if_absent", path, "away")

    with pytest.raises(StoreUnavailableError):
        probe(Away())
