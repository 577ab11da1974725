"""Every command that changes something: it shows what it will do, asks, and answers scripts in JSON.

The commands are taken from the parser's definition, so a new one needs a line here before it may be released.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.exceptions import KafkaUnavailableError
from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.context import Sources
from airflow_kafka_hdfs.ingest.ownership import Owner
from airflow_kafka_hdfs.operators import ports
from airflow_kafka_hdfs.ports.lineage import Reply
from tests.airflow.commands import DAG_FILE, all_commands
from tests.airflow.stored import store_dag
from tests.fakes.kafka import FakeCluster
from tests.fakes.lineage import MemoryTopic
from tests.fakes.lineage_chain import DAGS, DAY, NOW, chain_warehouse

READ_ONLY = {
    "info",
    "plan",
    "state show",
    "state log",
    "state doctor",
    "quarantine list",
    "quarantine show",
    "lineage show",
    "lineage impact",
    "lineage export",
}
CHANGING = sorted(all_commands().keys() - READ_ONLY)
WITHOUT_COMMIT = {"state recover", *(f"lineage {word}" for word in ("init", "load", "prune", "repair", "send"))}


@dataclasses.dataclass
class Scene:
    """What a command finds, and how it is called."""

    folder: Path
    fixture: object
    monkeypatch: pytest.MonkeyPatch

    def by_place(self) -> list[str]:
        self.fixture("pipeline")
        return ["--destination", self.folder.as_uri(), "--pipeline-id", "p"]

    def by_dag(self) -> list[str]:
        self.fixture("pipeline")
        text = DAG_FILE.format(destination=self.folder.as_uri()).replace("['events']", "['events', 'clicks']")
        self.fixture("dag_file")(text.replace('["events"]', '["events", "clicks"]'))
        cluster = FakeCluster(cluster_id="c")
        for topic in ("events", "clicks"):
            cluster.create_topic(topic)
            cluster.produce(topic, 0, *[b"{}"] * 20)
        sources = Sources(catalog=cluster.catalog(), open_reader=cluster.reader, registry=None, codec=FastavroCodec())
        self.monkeypatch.setattr(ports, "open_sources", lambda config: sources)
        return ["--dag-id", "looked_after"]

    def state_recover(self) -> list[str]:
        return self.by_place()

    def state_gc(self) -> list[str]:
        at = self.by_place()
        orphan = self.folder / ".kafka_hdfs/p/staging/20200101T000000Z-0000abcd"
        orphan.mkdir(parents=True)
        (orphan / "file").write_bytes(b"x")
        os.utime(orphan, (0, 0))
        return at

    def state_rebuild(self) -> list[str]:
        at = self.by_place()
        commits = self.folder / ".kafka_hdfs/p/commits"
        shutil.copytree(commits, self.folder / ".kafka_hdfs/_log/p")
        shutil.rmtree(commits)
        return at

    def state_set(self) -> list[str]:
        return [*self.by_dag(), "--topic", "events", "--to", "latest"]

    def state_import(self) -> list[str]:
        at = self.by_dag()
        (self.folder / "offsets.json").write_text('{"clicks": {"0": 7}}')
        return [*at, "--file", str(self.folder / "offsets.json")]

    def state_release(self) -> list[str]:
        return ["events", *self.by_place()]

    def quarantine_replay(self) -> list[str]:
        self.fixture("quarantined")
        return ["--dag-id", "mended"]

    def lineage(self, now: datetime = NOW) -> None:
        self.fixture("airflow_db")
        url = f"sqlite:///{self.folder}/lineage.db"
        chain_warehouse(url, now).close()
        self.monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE", url)
        self.monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__INSTANCE", "here")
        topic = MemoryTopic()
        made = {"made": self.folder / "made"}

        def create(self, **options):
            made["made"].write_text("topic")
            return {"t": True}

        self.monkeypatch.setattr(LineageHook, "create_topics", create)
        for name in ("letter_source", "letter_box"):
            self.monkeypatch.setattr(LineageHook, name, lambda self: topic)

    def lineage_init(self) -> list[str]:
        self.lineage()
        return []

    def lineage_load(self) -> list[str]:
        self.lineage()
        return []

    def lineage_prune(self) -> list[str]:
        self.lineage(NOW - 500 * DAY)
        return ["--older-than", "400d"]

    def lineage_send(self) -> list[str]:
        self.lineage()

        class Platform:
            name = "https://platform.test/lineage"

            def post(self, body: bytes, key: str) -> Reply:
                return Reply(status=201)

            def close(self) -> None:
                pass

        self.monkeypatch.setattr(LineageHook, "platform", lambda self: Platform())
        return []

    def lineage_repair(self) -> list[str]:
        self.lineage()
        from airflow.sdk import DAG

        for dag_id in [*DAGS, "api_after"]:
            store_dag(DAG(dag_id, schedule=None))
        return ["/raw", "--from", f"{NOW:%Y-%m-%dT00:00}", "--to", f"{NOW:%Y-%m-%d}", "--freeze"]


@pytest.fixture
def call(tmp_path, request, monkeypatch, capsys):
    """`call(path, *words)`: the exit code or text of a command in its scene, what it printed, and on the error side."""
    from airflow.cli.cli_parser import get_parser

    scene = Scene(tmp_path, request.getfixturevalue, monkeypatch)

    def run(path: str, *words: str, at: list[str] | None = None) -> tuple[object, str, str]:
        if not hasattr(scene, "at"):
            scene.at = getattr(scene, path.replace(" ", "_"))() if at is None else at
        reason = () if path in WITHOUT_COMMIT else ("--reason", "as the test wants it")
        args = get_parser().parse_args(["kafka-hdfs", *path.split(), *scene.at, *reason, *words])
        capsys.readouterr()
        try:
            args.func(args)
            code: object = 0
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def answers(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    def answer(prompt: str = "") -> str:
        if said is None:
            raise EOFError
        return said

    monkeypatch.setattr("builtins.input", answer)


def flags(path: str) -> dict[str, dict]:
    return {flag: argument.kwargs for argument in all_commands()[path].args for flag in argument.flags}


@pytest.mark.parametrize("path", sorted(all_commands()))
def test_every_command_answers_scripts_and_every_changing_one_can_be_agreed_to_beforehand(path):
    have = flags(path)
    formats = have.get("--output", have.get("--format"))
    assert formats is not None
    assert "json" in formats["choices"]
    if path in READ_ONLY:
        assert "--yes" not in have
    else:
        assert "--yes" in have
        assert path in WITHOUT_COMMIT or have["--reason"].get("required")


@pytest.mark.parametrize("path", CHANGING)
def test_a_changing_command_shows_what_it_will_do_and_changes_nothing_without_a_yes(path, call, tmp_path, monkeypatch):
    answers(monkeypatch, "n")
    call(path)
    before = content(tmp_path)
    code, shown, _ = call(path)
    assert code == "nothing was changed"
    assert len(shown.splitlines()) >= 2
    assert shown.endswith("Go on? [y/N] ")
    assert content(tmp_path) == before
    answers(monkeypatch, None)
    code, out, told = call(path, "--output", "json")
    assert "--yes" in str(code)
    assert (out, content(tmp_path)) == ("", before)
    assert told.splitlines()[:-1] == shown.splitlines()[-len(told.splitlines()) : -1]


@pytest.mark.parametrize("path", CHANGING)
def test_a_changing_command_tells_scripts_in_one_object_what_it_did(path, call, tmp_path):
    code, out, _ = call(path, "--yes", "--output", "json")
    assert code == 0
    told = json.loads(out)
    assert told["will"]
    assert told["changed"] is True
    assert told["did"]
    if path not in WITHOUT_COMMIT | {"state rebuild", "state gc"}:
        assert "as the test wants it" in content_of_newest_commit(tmp_path)


def content_of_newest_commit(folder: Path) -> str:
    found = [path for path in folder.rglob("commits/*/*") if path.name.isdigit()]
    return max(found, key=lambda path: int(path.name)).read_text()


def test_a_reason_without_a_word_is_refused_before_anything_is_looked_at(capsys):
    from airflow.cli.cli_parser import get_parser

    with pytest.raises(SystemExit):
        get_parser().parse_args(["kafka-hdfs", "state", "gc", "--dag-id", "shop", "--reason", "  "])
    assert "say in a few words why" in capsys.readouterr().err


def test_gc_writes_the_reason_into_the_records_that_end_plans(call, pipeline, tmp_path, monkeypatch):
    from airflow_kafka_hdfs.cli import addressing
    from tests.fakes.runtime import KnownRuns

    pipeline.store = pipeline.ctx.state
    open_plan = pipeline.plan(
        [(dataclasses.replace(next(iter(pipeline.ctx.log.read().state.current.values()))), 15, 20)]
    )
    states = KnownRuns(alive={pipeline.ctx.run.run_id: False})
    monkeypatch.setattr(addressing, "MetadataRunStates", lambda: states)
    code, out, _ = call("state gc", "--grace-hours", "0", "--yes", "--output", "json")
    assert (code, json.loads(out)["aborted"]) == (0, [open_plan.plan])
    assert "its run is gone (as the test wants it)" in content_of_newest_commit(tmp_path)


def test_a_release_that_cannot_reach_the_owner_files_changes_nothing(call, pipeline, tmp_path):
    elsewhere = tmp_path / "elsewhere/p"
    shutil.copytree(tmp_path / ".kafka_hdfs/p", elsewhere)
    before = content(tmp_path)
    code, _, _ = call("state release", "--state-uri", elsewhere.as_uri(), "--yes", at=["events"])
    assert str(code).startswith("ConfigError: --destination")
    assert content(tmp_path) == before


def test_a_release_of_what_another_pipeline_owns_says_so_and_leaves_it_there(call, tmp_path):
    owner = tmp_path / ".kafka_hdfs/_owners/events"
    owner.parent.mkdir(parents=True)
    owner.write_bytes(wire.encode("owner", Owner(topic="events", pipeline="new")))
    code, out, _ = call("state release", "--yes")
    assert code == 0
    assert "topic events: pipeline new owns it, and goes on doing so" in out
    assert owner.exists()


@pytest.mark.parametrize("words", [("--to", "7"), ("--to", "latest", "--partition", "0"), ("--partition", "0")])
def test_an_offset_is_that_of_one_partition(call, words):
    code, _, _ = call("state set", "--yes", *words, at=["--dag-id", "looked_after", "--topic", "events"])
    assert "an offset beside --partition" in str(code)


def test_one_partition_is_set_to_an_offset(call, tmp_path, request, monkeypatch):
    at = Scene(tmp_path, request.getfixturevalue, monkeypatch).by_dag()
    words = ("--topic", "clicks", "--yes", "--output", "json")
    assert call("state set", *words, "--to", "latest", at=at)[0] == 0
    code, out, _ = call("state set", *words, "--partition", "0", "--to", "3")
    assert (code, json.loads(out)["will"]) == (0, ["clicks[0]: watermark 20, starts at 3"])


@pytest.mark.parametrize("hours", ["-1", "nan", "1e9"])
def test_a_grace_that_is_no_time_is_refused(call, hours):
    code, _, _ = call("state gc", "--yes", "--grace-hours", hours)
    assert str(code).startswith("ConfigError: --grace-hours")


def test_a_plan_is_shown_to_scripts(call, capsys, tmp_path, request, monkeypatch):
    scene = Scene(tmp_path, request.getfixturevalue, monkeypatch)
    at = scene.by_dag()
    from airflow.cli.cli_parser import get_parser

    args: argparse.Namespace = get_parser().parse_args(["kafka-hdfs", "plan", *at, "--dry-run", "--output", "json"])
    args.func(args)
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"] is True
    assert {entry["key"]["topic"] for entry in told["entries"]} == {"events", "clicks"}
    assert {"reason", "ranges", "log_end"} <= told["entries"][0].keys()


def test_lag_is_asked_of_the_brokers(call, capsys, tmp_path, request, monkeypatch):
    from airflow.cli.cli_parser import get_parser

    at = Scene(tmp_path, request.getfixturevalue, monkeypatch).by_dag()
    reached = ports.open_sources(None).catalog.describe(["events"])["events"]
    job = request.getfixturevalue("pipeline")
    same = dataclasses.replace(next(iter(job.ctx.log.read().state.current.values())), topic_id=reached.topic_id)
    job.store = job.ctx.state
    job.start(same, at=15)
    args = get_parser().parse_args(["kafka-hdfs", "state", "show", *at, "--lag", "--output", "json"])
    args.func(args)
    told = json.loads(capsys.readouterr().out)
    assert [item["lag"] for item in told["partitions"]] == [5]
    assert [commit["number"] for commit in told["last_commits"]] == [3, 2, 1, 0]


def test_info_tries_each_part_by_itself_and_one_fault_hides_none(call, capsys, tmp_path, request, monkeypatch):
    from airflow.cli.cli_parser import get_parser

    at = Scene(tmp_path, request.getfixturevalue, monkeypatch).by_dag()

    def info(*words):
        args = get_parser().parse_args(["kafka-hdfs", "info", *at, *words, "--output", "json"])
        capsys.readouterr()
        try:
            args.func(args)
            code = 0
        except SystemExit as ended:
            code = ended.code
        return code, {check["what"]: check for check in json.loads(capsys.readouterr().out)["checks"]}

    code, found = info("--probe")
    assert code == 0
    assert list(found) == ["DAG", "brokers", "topics", "destination", "state", "destination: atomic create"]
    assert found["topics"]["detail"] == "2 of 2 topics can be looked at"
    assert not list(tmp_path.rglob(".probe*"))

    class Away:
        def cluster_id(self):
            raise KafkaUnavailableError("127.0.0.1:9: nobody there")

    away = dataclasses.replace(ports.open_sources(None), catalog=Away())
    monkeypatch.setattr(ports, "open_sources", lambda config: away)
    code, found = info()
    assert code == 1
    assert [what for what, check in found.items() if not check["works"]] == ["brokers", "topics"]
    assert "nobody there" in found["brokers"]["detail"]
    assert found["topics"]["detail"] == "not asked, since the brokers do not answer"
    assert found["destination"]["works"]
