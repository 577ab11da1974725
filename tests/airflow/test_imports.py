"""What importing costs: the public names load no client library, the core loads no Airflow."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys

import pytest

import airflow_kafka_hdfs

# isal and zstandard are not among them: fsspec, which Airflow loads, takes them where they are installed.
CLIENTS = {
    "confluent_kafka",
    "cramjam",
    "deflate",
    "fastavro",
    "hdfs",
    "hdfs_native",
    "networkx",
    "polars",
    "pyarrow",
    "s3fs",
}


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh process has after some code."""
    script = (
        f"import json, sys\n{code}\nprint('RESULT' + json.dumps(sorted({{n.partition('.')[0] for n in sys.modules}})))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    (line,) = [line for line in process.stdout.splitlines() if line.startswith("RESULT")]
    return set(json.loads(line.removeprefix("RESULT")))


def test_importing_the_package_loads_nothing():
    loaded = loaded_after("import airflow_kafka_hdfs")
    assert not loaded & (CLIENTS | {"airflow", "numpy"})


def test_every_public_name_is_there_and_none_loads_a_client_library():
    names = [name for name in airflow_kafka_hdfs.__all__ if name != "__version__"]
    loaded = loaded_after(f"from airflow_kafka_hdfs import {', '.join(names)}")
    assert "airflow" in loaded
    assert not loaded & CLIENTS


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'KafkaToHdfs'"):
        airflow_kafka_hdfs.KafkaToHdfs  # noqa: B018 - the look-up is the test


@pytest.mark.parametrize("room", ["ingest", "lineage", "ports", "model", "metrics", "exceptions"])
def test_the_core_loads_neither_airflow_nor_a_client_library(room):
    base = f"airflow_kafka_hdfs.{room}"
    names = [base]
    package = __import__(base, fromlist=["__path__"])
    if hasattr(package, "__path__"):
        names += [module.name for module in pkgutil.walk_packages(package.__path__, f"{base}.")]
    loaded = loaded_after("\n".join(f"import {name}" for name in names))
    allowed = {"networkx"} if room == "lineage" else set()
    assert not loaded & (CLIENTS - allowed | {"airflow", "requests", "fsspec", "sqlalchemy"})
