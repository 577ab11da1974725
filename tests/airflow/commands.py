"""Pipelines on local disk for tests of `airflow kafka-hdfs …`, and the commands through Airflow's own parser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_kafka_hdfs.adapters.runtime import ThreadWorkers
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, commit_plan
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.log import CommitLog
from tests.unit.ingest.scripted import Job, key

DAG_FILE = """
from airflow_kafka_hdfs import KafkaToHdfsDag

KafkaToHdfsDag("looked_after", schedule=None, topics=["events"], destination={destination!r}, pipeline_id="p")
"""


REPLAY_DAG = """
from airflow_kafka_hdfs import KafkaToHdfsDag

KafkaToHdfsDag(
    "mended", schedule=None, topics=["events"], destination={place!r}, state_uri={place!r}, pipeline_id="p",
    value_format="string", file_format="jsonl",
)
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Job:
    """Pipeline `p` on local disk with a topic of two commits; the files of the second are not in place yet."""
    data = LocalStore(tmp_path)
    state = LocalStore(tmp_path / ".kafka_hdfs/p")
    job = Job(data)
    log = CommitLog(state, data, ThreadWorkers(), "p")
    object.__setattr__(job.ctx, "log", log)
    job.store = state
    job.start(key("events"))
    first = job.plan([(key("events"), 0, 10)])
    job.store = data
    extract(job, state, first)
    finish(job.ctx, first, CommitPolicy())
    job.store = state
    second = job.plan([(key("events"), 10, 15)])
    job.store = data
    extract(job, state, second)
    commit_plan(job.ctx, second, CommitPolicy())
    return job


def extract(job: Job, state: LocalStore, plan) -> None:
    """As `Job.extract`, with files on the destination and the manifest in the state."""
    put = job.store.put_if_absent
    job.store.put_if_absent = state.put_if_absent  # type: ignore[method-assign]
    try:
        job.extract(plan)
    finally:
        job.store.put_if_absent = put  # type: ignore[method-assign]


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`command("state", "show", …)` -> what was printed; the pipeline is told by its places."""
    from airflow.cli.cli_parser import get_parser

    def run(*words: str, at: tuple[str, ...] = ("--destination", tmp_path.as_uri(), "--pipeline-id", "p")) -> str:
        args = get_parser().parse_args(["kafka-hdfs", *words, *at])
        capsys.readouterr()
        args.func(args)
        return capsys.readouterr().out

    return run


@pytest.fixture
def dag_file(tmp_path, airflow_db, monkeypatch):
    """`dag_file(text)`: a DAG file that Airflow's commands find."""
    folder = tmp_path / "dag_files"
    folder.mkdir()
    bundle = {"name": "cli", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle"}
    bundle = {**bundle, "kwargs": {"path": str(folder)}}
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    return (folder / "looked_after.py").write_text


@pytest.fixture
def quarantined(tmp_path: Path, dag_file, monkeypatch) -> Path:
    """A pipeline that took two texts for JSON; its DAG knows better by now."""
    from tests.unit.ingest.replays import Pipeline

    class OnDisk(Pipeline):
        def __init__(self) -> None:
            self.disk = LocalStore(tmp_path)
            super().__init__(values=(b"one", b"{}", b"two"), value_format="json", registry=None, time_field=None)

        def ctx(self, store=None, run: str = "command"):
            return super().ctx(self.disk, run)

        def context(self):
            return self.ctx(run=self.run_id)

    OnDisk()
    dag_file(REPLAY_DAG.format(place=tmp_path.as_uri()))
    extra = json.dumps({"bootstrap.servers": "127.0.0.1:9"})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": extra}))
    return tmp_path


def all_commands():
    from airflow.cli.cli_config import GroupCommand

    from airflow_kafka_hdfs.cli.definition import get_kafka_hdfs_cli_commands

    def walk(command, path):
        if isinstance(command, GroupCommand):
            for each in command.subcommands:
                yield from walk(each, f"{path} {each.name}".strip())
        else:
            yield path, command

    (top,) = get_kafka_hdfs_cli_commands()
    return dict(walk(top, ""))
