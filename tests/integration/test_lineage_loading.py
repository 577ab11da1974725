"""From real Kafka into real databases: commands, loader, and a second loader beside it."""

from __future__ import annotations

import argparse
import json

import pytest
import sqlalchemy as sa

from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterBox
from airflow_kafka_hdfs.lineage.events import message_key
from airflow_kafka_hdfs.lineage.message_json import encode
from tests.fakes.lineage_messages import edge_message, envelope, run_message
from tests.unit.lineage.sketch import draw, ds


@pytest.fixture(params=["sqlite", "postgresql"])
def configured(request, kafka_single, unique_name, tmp_path, monkeypatch):
    """The options of a deployment; (URL of the warehouse, topic, settings of the cluster)."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/lineage.db"
    else:
        url = request.getfixturevalue("postgres_server").create_database(unique_name)
    servers = {"bootstrap.servers": kafka_single.bootstrap_servers}
    for name, value in {
        "kafka_config": json.dumps(servers),
        "topic": unique_name,
        "dead_letter_topic": f"{unique_name}.dlq",
        "warehouse": url,
    }.items():
        monkeypatch.setenv(f"AIRFLOW__KAFKA_HDFS_LINEAGE__{name.upper()}", value)
    return url, unique_name, client_settings(servers)


def command(function, **more):
    function(argparse.Namespace(kafka_conn_id=None, warehouse_conn_id=None, **more))


def count(url, table):
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = connection.scalar(sa.text(f"SELECT count(*) FROM {table}"))
    engine.dispose()
    return found


def test_init_makes_topics_and_tables_and_load_brings_each_message_once(configured, capsys):
    from airflow_kafka_hdfs.cli.lineage import init, load

    url, topic, cluster = configured
    for words in ("created", "exists"):
        command(init, partitions=3, replication=1, yes=True, output="text")
        said = capsys.readouterr().out
        assert f"topic {topic}: {words}" in said
        assert "lineage is off" in said
    box = KafkaLetterBox(cluster)
    workflow = draw("load(A->B) >> more(B->C)")
    for day in range(40):
        about = envelope(day=day)
        for message in (
            edge_message(about, ds("A"), ds("B")),
            edge_message(about, ds("B"), ds("C")),
            run_message(about, workflow),
        ):
            box.send(topic, message_key(about), encode(message))
    box.send(topic, b"k", b"nonsense")
    assert box.flush(30) == 0
    box.close()
    for letters in (121, 0):
        command(load, forever=False, yes=True, output="json")
        assert json.loads(capsys.readouterr().out)["letters"] == letters
    assert (count(url, "lineage_raw"), count(url, "run"), count(url, "edge"), count(url, "edge_run")) == (
        121,
        40,
        2,
        80,
    )
    assert count(url, "dataset") == 3


def test_a_missing_table_ends_the_command_with_the_next_step(configured):
    from airflow_kafka_hdfs.cli.lineage import load

    with pytest.raises(SystemExit, match="lineage init"):
        command(load, forever=False, yes=True, output="text")


def test_the_commands_are_what_airflow_wants():
    from airflow.cli.cli_config import GroupCommand

    from airflow_kafka_hdfs.cli.lineage import lineage_commands

    (group,) = lineage_commands()
    assert isinstance(group, GroupCommand)
    assert [command.name for command in group.subcommands] == ["init", "load", "show", "impact", "export", "repair"]
    for entry in group.subcommands:
        words = [argument.flags for argument in entry.args]
        assert len({flag for flags in words for flag in flags}) == sum(map(len, words)), entry.name
