"""In memory: every call of every scenario, with every kind of fault."""

import pytest

from tests.crash.job import Job
from tests.crash.scenarios import SCENARIOS, Scenario, calls_of, deaths, dies, settle
from tests.fakes.store import InMemoryStore


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_scenario_without_any_fault_leaves_everything_in_order(scenario: Scenario):
    job = Job(InMemoryStore())
    scenario(job)
    settle(job)


@pytest.mark.timeout(1200)  # seconds on a quiet machine, but many cases in one test
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
@pytest.mark.bug(20, 25, 29)
def test_the_store_may_die_at_any_call(scenario: Scenario):
    planned = list(deaths(calls_of(scenario)))
    assert len(planned) > 100
    for death in planned:
        dies(scenario, death, InMemoryStore())
