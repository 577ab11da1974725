"""On local files: every call of every scenario dies before and after its effect; the other faults by sample."""

import os
from itertools import count
from pathlib import Path

import pytest

from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.model import STORES_OWN, Modes
from airflow_kafka_hdfs.ports.store import StagedWriter
from tests.crash.scenarios import SCENARIOS, Scenario, calls_of, deaths, dies, sampled
from tests.fakes.faulty_store import Kind


@pytest.fixture(autouse=True)
def _no_machine_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die here and no machine, so nothing has to wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class LocalMachine(LocalStore):
    """Lets go of what dead processes had open, as their machine would."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._opened: list[StagedWriter] = []

    def create(self, path: str, *, modes: Modes = STORES_OWN) -> StagedWriter:
        self._opened.append(super().create(path, modes=modes))
        return self._opened[-1]

    def let_go(self) -> None:
        for writer in self._opened:
            writer._file.close()  # type: ignore[attr-defined]  # `abort` would take the half-written file away


DEATHS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)


@pytest.mark.timeout(1200)  # seconds on a quiet machine, but many cases in one test
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_the_store_may_die_at_any_call(scenario: Scenario, tmp_path: Path):
    calls = calls_of(scenario)
    others = deaths(calls, set(Kind) - set(DEATHS))
    folders = (tmp_path / str(number) for number in count())
    for death in (*deaths(calls, DEATHS), *sampled(others, 10, scenario.__name__)):
        store = LocalMachine(next(folders))
        dies(scenario, death, store)
        store.let_go()
