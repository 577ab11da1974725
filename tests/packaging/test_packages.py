"""What is shipped: sdist and wheel are built, the wheel goes into an empty environment, and Airflow finds it there."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "airflow-provider-kafka-hdfs"

IMPORT_ALL = """
import importlib, json, pkgutil
import airflow_kafka_hdfs

names = [module.name for module in pkgutil.walk_packages(airflow_kafka_hdfs.__path__, "airflow_kafka_hdfs.")]
for name in names:
    importlib.import_module(name)
for name in airflow_kafka_hdfs.__all__:
    getattr(airflow_kafka_hdfs, name)
print("RESULT" + json.dumps({"modules": len(names), "version": airflow_kafka_hdfs.__version__}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the sdist and the wheel, the wheel made from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["uv", "build", "--quiet", "--out-dir", str(folder)], cwd=ROOT, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program of an environment that has the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv, home = folder / "venv", folder / "home"
    overrides, constraints = folder / "overrides.txt", folder / "constraints.txt"
    # As README says: Kerberos comes without Linux wheels, and WebHDFS works without it.
    overrides.write_text("gssapi; sys_platform == 'never'\nkrb5; sys_platform == 'never'\n")
    constraints.write_text("\n".join(pinned()))
    subprocess.run(["uv", "venv", "--quiet", str(venv)], cwd=folder, check=True, timeout=120)
    install = ["uv", "pip", "install", "--quiet", "--python", str(venv), "--override", str(overrides)]
    subprocess.run([*install, "--constraint", str(constraints), str(wheel)], cwd=folder, check=True, timeout=600)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON", "VIRTUAL"))}
    env |= {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", "PATH": f"{venv}/bin:{env['PATH']}"}

    def run(program: str, *words: str) -> str:
        process = subprocess.run(
            [str(venv / "bin" / program), *words], cwd=folder, env=env, capture_output=True, text=True, timeout=180
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    run("airflow", "db", "migrate")
    return run


def pinned() -> list[str]:
    """The exact versions of the development environment, so that this installation is the one that was tested."""
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return list(settings["tool"]["uv"]["constraint-dependencies"])


def result(printed: str) -> dict:
    (line,) = [line for line in printed.splitlines() if line.startswith("RESULT")]
    return json.loads(line.removeprefix("RESULT"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_kafka_hdfs"}
    assert "airflow_kafka_hdfs/py.typed" in names
    compiled = {name for name in names if name.endswith(".abi3.so")}
    assert compiled == {
        f"airflow_kafka_hdfs/{part}.abi3.so" for part in ("ingest/datum/_packer", "adapters/kafka/_messages")
    }
    pages = {path.name for path in (ROOT / "airflow_kafka_hdfs" / "plugins" / "pages").iterdir()}
    assert {f"airflow_kafka_hdfs/plugins/pages/{name}" for name in pages} <= set(names)
    assert not [name for name in names if name.endswith((".jar", ".class", ".log"))]


def test_the_sdist_builds_alone(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert any(name.endswith("/pyproject.toml") for name in names)
    assert any(name.endswith("/airflow_kafka_hdfs/task_group.py") for name in names)
    assert any(name.count("/") == 1 and name.endswith("/LICENSE") for name in names)


def test_without_a_compiler_it_is_built_all_the_same(built, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    env = {**os.environ, "CC": "/bin/false"}
    build = ["uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(archive)]
    subprocess.run(build, cwd=tmp_path, env=env, check=True, timeout=300)
    (found,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(found).namelist()
    assert not [name for name in names if name.endswith((".so", ".pyd"))]
    assert "airflow_kafka_hdfs/ingest/datum/tiers.py" in names


def test_the_licence_is_declared_and_comes_with_the_wheel(wheel):
    archive = zipfile.ZipFile(wheel)
    (text,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("licenses/LICENSE")]
    assert text == (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    assert {"License-Expression: Apache-2.0", "License-File: LICENSE"} <= set(metadata.splitlines())


def test_every_module_and_every_public_name_can_be_imported(installed):
    found = result(installed("python", "-c", IMPORT_ALL))
    assert found["modules"] > 50
    assert found["version"] == "0.1.0"


def test_airflow_lists_the_provider(installed):
    assert NAME in installed("airflow", "providers", "get", NAME)
    hooks = installed("airflow", "providers", "hooks", "-o", "json")
    assert {"schema_registry", "hdfs_native"} <= {item["connection_type"] for item in json.loads(hooks)}


def test_airflow_loads_plugins_without_complaint(installed):
    installed("airflow", "plugins")


def test_airflow_has_the_commands(installed):
    assert "Kafka to HDFS" in installed("airflow", "kafka-hdfs", "--help")
    assert "recover" in installed("airflow", "kafka-hdfs", "state", "--help")
    told = json.loads(installed("airflow", "kafka-hdfs", "info", "-o", "json"))
    assert told["version"] == "0.1.0"
    assert told["parts"]["hdfs-native"] is None  # an extra, which nobody asked for


def test_airflow_knows_the_options(installed):
    assert installed("airflow", "config", "get-value", "kafka_hdfs", "progress_interval").strip() == "5"
