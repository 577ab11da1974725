"""The real job code under a seeded scheduler; more seeds with `python -m tests.simulation`."""

from collections.abc import Iterator

import pytest

from tests.simulation.mix import simulate, small_world
from tests.simulation.planted import FAULTS
from tests.simulation.store import Violation

SEEDS = 150
MOST_SEEDS_TO_FIND_A_FAULT = 2000


@pytest.fixture(autouse=True)
def _small_world() -> Iterator[None]:
    with small_world():
        yield


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_no_seed_loses_or_doubles_anything(first: int):
    for seed in range(first, first + 50):
        simulate(seed)


def test_a_seed_gives_the_same_again():
    one, two = simulate(3), simulate(3)
    assert one.scheduler.trace == two.scheduler.trace
    assert one.disk.files == two.disk.files


def test_the_mix_meets_crashes_replaces_and_aborts():
    """Else the other tests would show nothing."""
    worlds = [simulate(seed) for seed in range(1000, 1060)]
    kinds = {commit["kind"] for world in worlds for commit in world.disk.commits}
    assert kinds >= {"forward", "interval", "replace", "abort", "reset", "replay"}
    assert sum(world.scheduler.crashes for world in worlds) > 10
    assert any(len(world.disk.logs) > 1 for world in worlds)
    assert any(commit["dropped"] for world in worlds for commit in world.disk.commits)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_by_what_it_does_to_the_data(fault):
    """An actor that only ends with an error finds nothing: the invariants have to."""
    with fault():
        for seed in range(MOST_SEEDS_TO_FIND_A_FAULT):
            try:
                simulate(seed)
            except Violation:
                return
            except Exception:  # noqa: S112 - see above
                continue
    pytest.fail(f"{MOST_SEEDS_TO_FIND_A_FAULT} seeds and nothing found")
