"""`airflow kafka-hdfs …`, through Airflow's own parser, on a pipeline on local disk."""

from __future__ import annotations

import json
import shlex

import pytest

from airflow_kafka_hdfs.hooks import storage
from airflow_kafka_hdfs.ingest import collecting
from airflow_kafka_hdfs.model import RunRef
from tests.airflow.commands import DAG_FILE, all_commands


def test_state_show_tells_watermarks_and_what_needs_care(pipeline, command):
    told = json.loads(command("state", "show", "-o", "json"))
    assert told["head"] == 2
    assert [(item["key"]["topic"], item["watermark"]) for item in told["partitions"]] == [("events", 15)]
    assert (told["unpublished"], told["unannounced"]) == ([2], [1])
    text = command("state", "show")
    assert "events[0]" in text
    assert "files not all in place: commits 2" in text


def test_state_log_lists_the_newest_commit_first(pipeline, command):
    told = json.loads(command("state", "log", "-n", "2", "-o", "json"))
    assert [commit["number"] for commit in told] == [2, 1]
    assert "forward" in command("state", "log")


def test_state_recover_brings_files_into_place_and_may_be_repeated(pipeline, command, tmp_path):
    assert sum(path.stat().st_size for path in (tmp_path / "events").rglob("*.txt")) == 10
    assert command("state", "recover", "--yes").splitlines()[-1] == "finished commits 2"
    assert sum(path.stat().st_size for path in (tmp_path / "events").rglob("*.txt")) == 15
    assert command("state", "recover", "--yes").strip() == "every commit is whole"


def test_state_doctor_says_what_it_found(pipeline, command):
    findings = json.loads(command("state", "doctor", "-o", "json"))
    assert any("2" in finding["what"] for finding in findings)


def test_a_pipeline_can_be_named_by_its_dag(pipeline, command, tmp_path, dag_file):
    dag_file(DAG_FILE.format(destination=tmp_path.as_uri()))
    told = json.loads(command("state", "show", "-o", "json", at=("--dag-id", "looked_after")))
    assert (told["pipeline"], told["head"]) == ("p", 2)


@pytest.mark.parametrize(("words", "grace"), [((), 3.0), (("--grace-hours", "7"), 7.0)])
def test_gc_keeps_what_the_pipeline_keeps(pipeline, command, tmp_path, dag_file, monkeypatch, words, grace):
    text = DAG_FILE.replace("pipeline_id", "gc_grace=timedelta(hours=3), pipeline_id")
    dag_file("from datetime import timedelta\n" + text.format(destination=tmp_path.as_uri()))
    given = []
    collect = collecting.collect
    monkeypatch.setattr(collecting, "collect", lambda *a, **options: given.append(options) or collect(*a, **options))
    command("state", "gc", *words, "--reason", "x", "--yes", at=("--dag-id", "looked_after"))
    assert {options["grace"].total_seconds() / 3600 for options in given} == {grace}


def test_the_place_of_the_records_alone_names_a_pipeline(pipeline, command, tmp_path):
    at = ("--state-uri", f"{tmp_path.as_uri()}/.kafka_hdfs/p")
    told = json.loads(command("state", "show", "-o", "json", at=at))
    assert (told["pipeline"], told["head"]) == ("p", 2)
    assert command("state", "recover", "--yes", at=at).splitlines()[-1] == "finished commits 2"


def test_records_elsewhere_tell_all_but_what_the_data_know(pipeline, command, tmp_path):
    elsewhere = tmp_path / "records"
    (tmp_path / ".kafka_hdfs/p").rename(elsewhere)
    (tmp_path / ".kafka_hdfs/p").mkdir()
    (elsewhere / "staging").rename(
        tmp_path / ".kafka_hdfs/p/staging"
    )  # which is with the data wherever the records are
    at = ("--state-uri", elsewhere.as_uri())
    told = json.loads(command("state", "show", "-o", "json", at=at))
    assert (told["pipeline"], told["head"]) == ("p", 2)
    assert [commit["number"] for commit in json.loads(command("state", "log", "-o", "json", at=at))] == [2, 1, 0]
    with pytest.raises(SystemExit, match="--destination: got None.*looks at the data"):
        command("state", "recover", "--yes", at=at)
    at = (*at, "--destination", tmp_path.as_uri(), "--pipeline-id", "p")
    assert command("state", "recover", "--yes", at=at).splitlines()[-1] == "finished commits 2"


@pytest.mark.parametrize("destination", ["{{ params.place }}", "{{ var.value.place }}"])
def test_a_templated_destination_is_rendered_where_it_needs_no_run(
    pipeline, command, tmp_path, dag_file, monkeypatch, destination
):
    monkeypatch.setenv("AIRFLOW_VAR_PLACE", tmp_path.as_uri())
    text = DAG_FILE.replace("pipeline_id", "dataset_uri='file:///x', params={{'place': {place!r}}}, pipeline_id")
    dag_file(text.format(destination=destination, place=tmp_path.as_uri()))
    told = json.loads(command("state", "show", "-o", "json", at=("--dag-id", "looked_after")))
    assert (told["pipeline"], told["head"]) == ("p", 2)


def test_a_destination_that_needs_a_run_is_asked_for(pipeline, command, tmp_path, dag_file):
    text = DAG_FILE.replace("pipeline_id", "dataset_uri='file:///x', pipeline_id")
    dag_file(text.format(destination="file:///data/{{ dag_run.conf.team }}").replace("['events']", "'{{ ds }}'"))
    at = ("--dag-id", "looked_after")
    with pytest.raises(
        SystemExit, match=r"destination: got 'file:///data/{{ dag_run.conf.team }}'.*--destination URI --pipeline-id ID"
    ):
        command("state", "show", at=at)
    told = json.loads(command("state", "show", "-o", "json", at=(*at, "--destination", tmp_path.as_uri())))
    assert (told["pipeline"], told["head"]) == ("p", 2)


def test_a_pipeline_that_nobody_named_is_asked_for(command):
    with pytest.raises(SystemExit, match="--dag-id, --state-uri, or --destination with --pipeline-id"):
        command("state", "show", at=())


def test_runs_are_looked_up_in_the_metadata_database(airflow_db):
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    from airflow_kafka_hdfs.cli.runs import MetadataRunStates

    with create_session() as session:
        for state in (DagRunState.RUNNING, DagRunState.FAILED):
            session.add(
                DagRun(
                    dag_id="cli_runs",
                    run_id=f"run_{state.value}",
                    run_type=DagRunType.MANUAL,
                    state=state,
                    triggered_by=DagRunTriggeredByType.TEST,
                )
            )
    states = MetadataRunStates()
    found = [
        states.is_alive(RunRef(dag_id="cli_runs", run_id=run)) for run in ("run_running", "run_failed", "run_deleted")
    ]
    assert found == [True, False, False]


def test_info_tells_versions(command):
    told = json.loads(command("info", "-o", "json", at=()))
    assert told["connection_types"] == ["hdfs_native", "schema_registry"]
    assert told["tier"] == "direct"
    assert list(told["tiers"]) == ["direct", "compiled", "numpy", "reference"]


def test_default_connections_are_those_of_the_stores():
    from airflow_kafka_hdfs import assets

    assert set(assets._DEFAULT_CONNECTION.values()) == {storage._WEBHDFS_DEFAULT, storage._NATIVE_DEFAULT}


# bad records


def test_bad_records_are_shown_and_replayed_once_with_who_and_why(quarantined, command):
    at = ("--dag-id", "mended")
    (listed,) = json.loads(command("quarantine", "list", "-o", "json", at=at))
    assert (listed["records"], listed["replayed"]) == (2, 0)
    shown = json.loads(command("quarantine", "show", "-o", "json", "--error", "not_json", at=at))
    assert [(item["offset"], item["value_base64"], item["state"]) for item in shown] == [
        (0, "b25l", "waiting"),
        (2, "dHdv", "waiting"),
    ]
    assert "events[0]@2" in command("quarantine", "show", "--topic", "events", at=at)
    with pytest.raises(SystemExit):
        command("quarantine", "replay", at=at)  # without a reason
    told = command("quarantine", "replay", "--reason", "they are texts", "--yes", at=at)
    assert "2 records go to events/2026/01/01/08" in told
    assert "they are texts" in told
    written = [path.read_text() for path in (quarantined / "events").rglob("*.jsonl")]
    assert sorted("".join(written).split()) == ['{"value":"one"}', '{"value":"two"}']
    again = command("quarantine", "replay", "--reason", "again", "--yes", at=at)
    assert again.strip() == "nothing waits in the quarantine that was asked for"
    (listed,) = json.loads(command("quarantine", "list", "-o", "json", at=at))
    assert listed["replayed"] == 2


# all commands


def test_a_misspelt_topic_does_not_look_like_good_news(quarantined, command):
    told = command("quarantine", "show", "--dag-id", "mended", "--topic", "evnets")
    assert "nothing in quarantine that was asked for; it holds records of events" in told


@pytest.mark.parametrize("words", [("state", "log"), ("quarantine", "show")])
@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_of_lines_that_is_none_is_refused(words, number, capsys):
    from airflow.cli.cli_parser import get_parser

    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["kafka-hdfs", *words, "-n", number])
    assert ended.value.code == 2
    assert "-n/--number: invalid" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(all_commands()))
def test_every_command_has_help_with_examples_that_can_be_typed_and_exit_codes(path, capsys):
    from airflow.cli.cli_parser import get_parser

    from airflow_kafka_hdfs.cli.examples import EXAMPLES

    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["kafka-hdfs", *path.split(), "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "exit codes: 0 done" in text
    is_lineage = path.startswith("lineage")
    assert is_lineage or f"examples: airflow kafka-hdfs {path.split()[0]}" in text
    for line in EXAMPLES.get(path, ()):
        assert line.startswith(path)
        args = get_parser().parse_args(["kafka-hdfs", *shlex.split(line)])
        assert callable(args.func)


@pytest.mark.parametrize(
    ("names", "offsets", "holes"),
    [
        (["t+0+0+9.avro", "t+0+10+14.avro", "t+1+3+3.avro"], {"t": {0: 15, 1: 4}}, []),
        (["a+b+0+0+9.snappy.parquet", "_tmp", "x.avro"], {"a+b": {0: 10}}, []),
        (["t+0+0+1.avro", "t+0+4+5.avro"], {"t": {0: 6}}, ["t[0]: no file holds offsets 2 to 3"]),
    ],
)
def test_offsets_are_read_from_file_names_and_holes_are_told(names, offsets, holes):
    from airflow_kafka_hdfs.cli.importing import CONNECT_NAMES, offsets_of_names

    found, notes = offsets_of_names(names, CONNECT_NAMES)
    assert found == offsets
    assert [note.split(": gaps")[0] for note in notes] == holes


def test_a_pattern_without_its_groups_is_refused():
    from airflow_kafka_hdfs.cli.importing import offsets_of_names
    from airflow_kafka_hdfs.exceptions import ConfigError

    with pytest.raises(ConfigError, match="it lacks last, partition"):
        offsets_of_names([], "(?P<topic>.*)")
    with pytest.raises(ConfigError, match="--pattern"):
        offsets_of_names([], "(")


def test_an_import_names_one_source(quarantined, command):
    at = ("--dag-id", "mended")
    with pytest.raises(SystemExit, match="exactly one of --file, --group, --folder"):
        command("state", "import", "--reason", "x", at=at)
    (quarantined / "old").mkdir()
    with pytest.raises(SystemExit, match="none were found"):
        command("state", "import", "--reason", "x", "--folder", (quarantined / "old").as_uri(), at=at)
