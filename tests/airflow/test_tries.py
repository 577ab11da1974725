"""An attempt that dies without a word is known to the next one; one that ends takes its word back."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.operators.reporting import Tries


class States(dict):
    """As Airflow's accessor of the task state store."""

    down = False

    def get(self, key, default=None):
        self._up()
        return super().get(key, default)

    def set(self, key, value):
        self._up()
        self[key] = value

    def delete(self, key):
        self._up()
        self.pop(key, None)

    def _up(self):
        if self.down:
            raise RuntimeError("the API server is away")


def test_only_a_death_leaves_its_tier_behind():
    states = States()
    with Tries(states, "p1", 0).noted("compiled"):
        assert Tries(states, "p1", 0).died_in() == "compiled"
        assert Tries(states, "p2", 0).died_in() == Tries(states, "p1", 1).died_in() == ""
    assert Tries(states, "p1", 0).died_in() == ""
    with pytest.raises(ValueError), Tries(states, "p1", 0).noted("numpy"):
        raise ValueError
    assert Tries(states, "p1", 0).died_in() == ""


def test_work_goes_on_without_the_store():
    states = States()
    states.down = True
    for store in (states, None):
        tries, done = Tries(store, "p1", 0), []
        with tries.noted("compiled"):
            done.append(tries.died_in())
        assert done == [""]
