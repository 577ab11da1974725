"""A task with 200 open folders stays small, whatever its codec."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
CLIENT_MIB = 24
"""What the Kafka client's queue and fetch buffer may take of the 64 MiB that a task has above its imports."""


@pytest.mark.parametrize(("kind", "codec"), [("avro", "zstandard"), ("jsonl", "zstandard")])
@pytest.mark.bug(104)
def test_two_hundred_open_folders_fit_into_their_share(kind, codec):
    """30,000 records of 400 bytes fill the open block of each folder."""
    command = [sys.executable, "-m", "tests.unit.ingest.streaming", kind, codec, "30000", "200", "400"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    found = json.loads(done.stdout)
    assert found["files"] == 200
    assert 1 < found["grown_mib"] <= 64 - CLIENT_MIB
