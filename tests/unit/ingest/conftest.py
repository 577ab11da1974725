"""What the tests of planning start from."""

from __future__ import annotations

import pytest

from tests.unit.ingest.piping import World


@pytest.fixture
def world() -> World:
    """One topic of two partitions with five records."""
    made = World()
    made.cluster.create_topic("events", 2)
    made.produce("events", 0, 1, 2, 3)
    made.produce("events", 1, 11, 12)
    return made
