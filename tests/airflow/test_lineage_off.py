"""What the installed package does to DAGs of others: nothing, until lineage is switched on."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

ENDS_IN_TRIGGER = """
import datetime as dt

from airflow.providers.standard.sensors.date_time import DateTimeSensorAsync
from airflow.sdk import DAG

with DAG("waits", schedule=None):
    DateTimeSensorAsync(task_id="wait", target_time=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), end_from_trigger=True)
"""
PARSE = """
import json, sys

from airflow.dag_processing.dagbag import DagBag
from airflow.listeners.listener import get_listener_manager

bag = DagBag(sys.argv[1])
ours = [type(one).__module__ for one in get_listener_manager().pm.get_plugins()]
print("RESULT" + json.dumps([sorted(bag.dags), list(bag.import_errors.values()), ours]))
"""


@pytest.mark.parametrize("enabled", [False, True])
def test_a_dag_that_ends_in_its_trigger_is_read_until_lineage_is_switched_on(airflow_db, tmp_path, enabled):
    """Airflow refuses such DAGs while any listener is registered; docs/reference/connections.md names the limit."""
    (tmp_path / "waits.py").write_text(ENDS_IN_TRIGGER)
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(tmp_path)],
        env=os.environ | {"AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED": str(enabled)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    dags, errors, listeners = json.loads(done.stdout.split("RESULT")[1])
    if enabled:
        assert (dags, len(errors)) == ([], 1)
        assert "end_from_trigger=True" in errors[0]
        assert any(name.startswith("airflow_kafka_hdfs.") for name in listeners)
    else:
        assert (dags, errors) == (["waits"], [])
        assert not any(name.startswith("airflow_kafka_hdfs.") for name in listeners)
