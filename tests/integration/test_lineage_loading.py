"""From real Kafka into real databases: commands, loader, and a second loader beside it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading

import pytest
import sqlalchemy as sa

from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.lineage_topic import KafkaLetterBox
from airflow_kafka_hdfs.adapters.runtime import SystemClock
from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.events import message_key
from airflow_kafka_hdfs.lineage.loading import Loader, LoadReport
from airflow_kafka_hdfs.lineage.message_json import encode
from tests.fakes.lineage_messages import edge_message, envelope, run_message
from tests.stack.process import wait_until
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
    assert [command.name for command in group.subcommands] == [
        "init",
        "load",
        "show",
        "impact",
        "export",
        "send",
        "prune",
        "repair",
    ]
    for entry in group.subcommands:
        words = [argument.flags for argument in entry.args]
        assert len({flag for flags in words for flag in flags}) == sum(map(len, words)), entry.name


@pytest.fixture
def postgres(postgres_server, kafka_single, unique_name, monkeypatch):
    """A warehouse in PostgreSQL and a topic with forty runs: (URL, sender of the runs of some days)."""
    from airflow_kafka_hdfs.adapters.lineage_topic import create_topics
    from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse

    url = postgres_server.create_database(unique_name)
    servers = {"bootstrap.servers": kafka_single.bootstrap_servers}
    for name, value in {"kafka_config": json.dumps(servers), "topic": unique_name, "warehouse": url}.items():
        monkeypatch.setenv(f"AIRFLOW__KAFKA_HDFS_LINEAGE__{name.upper()}", value)
    create_topics(client_settings(servers), [unique_name], partitions=2, replication=1)
    warehouse = SqlWarehouse(url)
    warehouse.migrate()
    workflow = draw("load(A->B) >> more(B->C)")

    def send(days):
        box = KafkaLetterBox(client_settings(servers))
        for day in days:
            about = envelope(day=day)
            for message in (edge_message(about, ds("A"), ds("B")), run_message(about, workflow)):
                box.send(unique_name, message_key(about), encode(message))
        assert box.flush(30) == 0
        box.close()

    yield warehouse, send
    warehouse.close()


def truth(url, days):
    """What the warehouse holds after the runs of so many days, each once."""
    tables = ("lineage_raw", "run", "edge", "edge_run", "dataset")
    return [count(url, table) for table in tables] == [2 * days, days, 2, 2 * days, 3]


def test_a_loader_killed_in_mid_transaction_leaves_nothing_and_the_next_one_loads_each_message_once(
    postgres, postgres_server
):
    warehouse, send = postgres
    url = warehouse.engine.url.render_as_string(hide_password=False)
    database = warehouse.engine.url.database
    send(range(40))
    command = [sys.executable, "-m", "airflow", "kafka-hdfs", "lineage", "load", "--yes"]

    def waiting():
        return postgres_server.query(
            f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND wait_event_type = 'Lock'"
        )

    with warehouse.engine.connect() as other, other.begin():
        other.execute(sa.text("LOCK TABLE edge IN SHARE MODE"))  # the loader's transaction gets as far as its edges
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_until(
                lambda: waiting() or child.poll() is not None, what="the loader stands in mid-transaction", timeout=120
            )
        finally:
            child.kill()
            told = child.communicate()[1]
        assert waiting(), told.decode()
    wait_until(
        lambda: (
            not postgres_server.query(
                f"SELECT 1 FROM pg_stat_activity WHERE datname = '{database}' AND state <> 'idle'"
            )
        ),
        what="the server gave the dead loader up",
        timeout=120,
    )
    assert count(url, "lineage_raw") == count(url, "run") == count(url, "lineage_offset") == 0
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert truth(url, 40)


def test_a_loader_waits_while_the_warehouse_is_away_and_loads_the_rest_once(postgres, postgres_server):
    warehouse, send = postgres
    url = warehouse.engine.url.render_as_string(hide_password=False)
    database = warehouse.engine.url.database
    stop, noticed = threading.Event(), []
    hook = LineageHook()
    source, report = hook.letter_source(), LoadReport()
    loader = Loader(source, warehouse, SystemClock(), topics=[hook.settings.topic], on_outage=noticed.append)
    thread = threading.Thread(target=loader.load_forever, args=(stop, report))
    thread.start()
    try:
        send(range(20))
        wait_until(lambda: report.letters == 40, what="the first runs are loaded", timeout=120)
        postgres_server.query(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        postgres_server.query(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
        send(range(20, 40))
        wait_until(lambda: noticed, what="the loader has noticed", timeout=120)
        postgres_server.query(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
        wait_until(lambda: report.letters == 80, what="the rest is loaded", timeout=120)
    finally:
        postgres_server.query(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
        stop.set()
        thread.join(30)
        source.close()
    assert truth(url, 40)
