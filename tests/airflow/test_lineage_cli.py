"""`airflow kafka-hdfs lineage …` on a warehouse that a chain of four jobs filled."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import networkx as nx
import pytest
from airflow.sdk import DAG

from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from tests.airflow.stored import store_dag
from tests.fakes.lineage_chain import DAGS, DAY, NOW, chain_warehouse, key, run_message
from tests.fakes.platform import Server


@pytest.fixture(scope="module")
def warehouse_url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('lineage-cli')}/lineage.db"
    chain_warehouse(url).close()
    return url


@pytest.fixture
def lineage(warehouse_url, monkeypatch, capsys, airflow_db):
    """`lineage("show", "/raw")`: what the command prints."""
    from airflow.cli.cli_parser import get_parser

    monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE", warehouse_url)
    monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__INSTANCE", "here")

    def command(*words):
        args = get_parser().parse_args(["kafka-hdfs", "lineage", *words])
        args.func(args)
        return capsys.readouterr().out

    return command


@pytest.mark.parametrize("name", ["/raw", "hdfs://nn:8020/raw", "hdfs://NN:8020//raw/", key("/raw"), "raw"])
def test_show_takes_a_name_a_uri_or_an_id(lineage, name):
    told = lineage("show", name)
    assert told.startswith("hdfs://nn:8020/raw\n")
    assert "written by    api_ingest" in told
    assert "kafka://b:9092/orders   by api_ingest" in told
    assert json.loads(lineage("show", name, "-o", "json"))["dataset"]["id"] == key("/raw")


def test_a_name_that_does_not_fit_one_dataset_is_refused(lineage):
    with pytest.raises(SystemExit, match="none has this in its name"):
        lineage("show", "nothing")
    with pytest.raises(SystemExit, match="several have this in their names\n.*hdfs://nn:8020"):
        lineage("show", "hdfs")
    with pytest.raises(SystemExit, match="is not in the warehouse"):
        lineage("show", "hdfs://nn/other")


def test_impact_lists_what_a_change_reaches(lineage):
    lines = lineage("impact", "/clean").splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["1", "hdfs://nn:8020/secret"],
        ["2", "hdfs://nn:8020/report"],
        ["2", "datasets"],
    ]
    up = json.loads(lineage("impact", "/clean", "--up", "-o", "json"))
    assert [item["dataset"]["name"] for item in up] == ["/raw", "orders"]


def test_a_graph_is_exported_for_other_tools(lineage):
    graph = nx.parse_graphml(lineage("export", "/clean", "--format", "graphml"))
    assert nx.dag_longest_path_length(graph) == 4
    assert {data["name"] for _, data in graph.nodes(data=True)} == {"orders", "/raw", "/clean", "/secret", "/report"}
    chart = lineage("export", "/clean", "--format", "mermaid", "--up", "1", "--down", "0").splitlines()
    assert chart == [
        "flowchart LR",
        '    n0["hdfs://nn:8020/raw"]',
        '    n1["hdfs://nn:8020/clean"]',
        '    n0 -->|"api_clean"| n1',
    ]
    assert len(json.loads(lineage("export", "/clean"))["links"]) == 4
    assert ElementTree.fromstring(lineage("export", "/clean", "--format", "graphml")) is not None


def test_names_from_messages_are_no_orders_to_the_terminal(lineage, tmp_path, monkeypatch):
    url, evil = f"sqlite:///{tmp_path}/evil.db", "/evil\x1b[2J\nhdfs://nn:8020/fine"
    warehouse = chain_warehouse(url)
    with warehouse.transaction() as tx:
        Merge(tx, GraphCache()).apply([run_message("job\x1b[31m", "/clean", evil, NOW)])
    warehouse.close()
    monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE", url)
    for words in (
        ("show", "/clean"),
        ("show", "evil"),
        ("impact", "/clean"),
        ("repair", "/clean", "--from", "2020-01-01"),
    ):
        told = lineage(*words)
        assert "\\x1b[" in told
        assert told.replace("\n", "").isprintable()
        assert not any(line.startswith("hdfs://nn:8020/fine") for line in told.splitlines())
    for form in ("mermaid", "graphml", "json"):
        assert "\x1b" not in lineage("export", "/clean", "--format", form)


def session_add(row):
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(row)


class TestRepair:
    @pytest.fixture(autouse=True)
    def running(self, airflow_db):
        for dag_id in [*DAGS, "api_after"]:
            store_dag(DAG(dag_id, schedule=None))
        self.pause("api_after")

    def pause(self, *dag_ids):
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            for dag in session.query(DagModel).filter(DagModel.dag_id.like("api_%")):
                dag.is_paused = dag.dag_id in dag_ids

    def paused(self):
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            return {d.dag_id for d in session.query(DagModel).filter(DagModel.dag_id.like("api_%")) if d.is_paused}

    @pytest.fixture
    def stored_run(self, airflow_db):
        """The newest run of `api_clean`, known to Airflow too."""
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        names = {"dag_id": "api_clean", "run_id": f"r{NOW:%Y%m%d}"}
        kinds = {"run_type": DagRunType.MANUAL, "triggered_by": DagRunTriggeredByType.TEST}
        yield lambda: session_add(DagRun(**names, **kinds, state="success", run_after=NOW))
        with create_session() as session:
            session.query(DagRun).filter_by(**names).delete()

    def test_without_more_words_only_the_plan_is_shown(self, lineage):
        told = lineage("repair", "/raw", "--from", f"{NOW:%Y-%m-%dT00:00}", "--dry-run", "--freeze")
        assert "pause: api_clean api_secret api_after" in told
        assert "suspect api_ingest (1 hops up)" in told
        assert "Nothing was done" in told
        assert self.paused() == {"api_after"}

    def test_what_was_paused_is_resumed_and_both_stand_in_the_audit_log(self, lineage):
        from airflow.models.log import Log
        from airflow.utils.session import create_session

        # Moments that do not move, since they name the repair.
        when = ["--from", f"{NOW:%Y-%m-%dT00:00}", "--to", f"{NOW:%Y-%m-%d}"]
        lineage("repair", "/raw", *when, "--freeze", "--yes")
        assert self.paused() == {"api_clean", "api_secret", "api_after"}
        told = lineage("repair", "/raw", *when, "--resume", "--yes")
        assert "Resume 2 DAGs: api_clean api_secret" in told
        assert self.paused() == {"api_after"}
        with create_session() as session:
            found = session.query(Log).filter(Log.event.like("lineage_repair_%"), Log.owner.like("cli:%")).all()
        assert {(log.event, log.dag_id) for log in found} >= {
            ("lineage_repair_freeze", "api_clean"),
            ("lineage_repair_resume", "api_clean"),
        }

    def test_a_step_is_only_shown_until_it_is_agreed_to(self, lineage):
        when = ["--from", f"{NOW - DAY:%Y-%m-%dT00:00}", "--to", f"{NOW:%Y-%m-%d}"]
        told = lineage("repair", "/raw", *when, "--rerun", "api_clean", "--dry-run")
        assert "clear in Airflow's pages or by REST: r" in told
        assert "Run api_clean again" in told
        assert "Nothing was done (--dry-run)." in told
        with pytest.raises(SystemExit, match="not among the steps of this plan; they are: api_clean api_secret"):
            lineage("repair", "/raw", *when, "--rerun", "api_ingest", "--yes")
        assert "is not in this Airflow" in lineage("repair", "/raw", *when, "--rerun", "api_clean", "--yes")

    def test_a_frozen_job_is_resumed_when_it_runs_again_and_only_the_others_are_left_to_resume(
        self, lineage, stored_run
    ):
        when = ["--from", f"{NOW - DAY:%Y-%m-%dT00:00}", "--to", f"{NOW:%Y-%m-%d}"]
        lineage("repair", "/raw", *when, "--freeze", "--yes")
        lineage("repair", "/raw", *when, "--rerun", "api_clean", "--yes")
        assert self.paused() == {"api_secret", "api_clean", "api_after"}, "nothing was run, so it stays frozen"
        stored_run()
        told = lineage("repair", "/raw", *when, "--rerun", "api_clean", "--yes")
        assert "Run api_clean again and resume it" in told
        assert f"api_clean r{NOW:%Y%m%d}: cleared" in told
        assert self.paused() == {"api_secret", "api_after"}
        assert "Resume 1 DAGs: api_secret" in lineage("repair", "/raw", *when, "--resume", "--yes")

    def test_what_airflow_refuses_is_told_beside_what_was_done(self, lineage, tmp_path, monkeypatch):
        url = f"sqlite:///{tmp_path}/dated.db"
        warehouse = chain_warehouse(url)
        message = run_message("api_after", "/secret", "/report", NOW + DAY / 24)
        run = replace(message.envelope.run, run_id="dated", logical_date=NOW)
        with warehouse.transaction() as tx:
            Merge(tx, GraphCache()).apply([replace(message, envelope=replace(message.envelope, run=run))])
        warehouse.close()
        monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE", url)
        self.pause()
        when = ["--from", f"{NOW + DAY / 48:%Y-%m-%dT%H:%M}", "--to", f"{NOW + DAY:%Y-%m-%d}"]
        words = ["--freeze", "--rerun", "api_after", "--resume", "--yes"]
        with pytest.raises(SystemExit, match="not done: Run api_after again and resume it: .*schedule"):
            lineage("repair", "/secret", *when, *words)
        assert self.paused() == {"api_after"}, "what was frozen is to be resumed by hand"

    def test_an_outage_of_the_warehouse_is_told_in_one_line(self, lineage, monkeypatch):
        monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE", "postgresql+psycopg2://me:s3cret@127.0.0.1:1/x")
        for words in (["show", "/raw"], ["repair", "/raw", "--from", "2026-01-01"]):
            with pytest.raises(SystemExit, match=r"^WarehouseUnavailableError: .*me:\*\*\*@127"):
                lineage(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["impact", "/raw", "--as-of", "2026-02-30"],
        ["export", "/raw", "--as-of", "0001-01-01"],
        ["repair", "/raw", "--from", "yesterday"],
        ["repair", "/raw", "--from", "9999-12-31T23:00-14:00"],
    ],
)
def test_a_moment_that_is_none_is_told(lineage, words):
    with pytest.raises(SystemExit, match=r"^ConfigError: --(as-of|from): got .* an ISO date or time"):
        lineage(*words)


@pytest.mark.parametrize("words", [["export", "/raw", "--up", "-1"], ["init", "--partitions", "0"]])
def test_a_number_that_cannot_be_is_refused(lineage, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        lineage(*words)
    assert words[-2] in capsys.readouterr().err


class TestPrune:
    @pytest.fixture(autouse=True)
    def old(self, lineage, monkeypatch, tmp_path, capsys):
        url = f"sqlite:///{tmp_path}/old.db"
        chain_warehouse(url, NOW - 500 * DAY).close()
        monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__WAREHOUSE", url)
        capsys.readouterr()  # what was logged while the tables were made

    def test_shows_what_goes_and_deletes_it_when_told(self, lineage):
        told = json.loads(lineage("prune", "--older-than", "400d", "--dry-run", "-o", "json"))
        assert (told["changed"], told["rows"]) == (False, {"edge_run": 8, "job_version": 4, "run": 8})
        assert "run: 8 rows go" in told["will"]
        shown = lineage("impact", "orders")
        done = json.loads(lineage("prune", "--older-than", "57w", "--yes", "-o", "json"))
        assert (done["changed"], done["rows"]) == (True, {"edge_run": 8, "job_version": 4, "run": 8})
        assert lineage("prune", "--older-than", "400d", "--yes") == "nothing is that old\n"
        assert lineage("impact", "orders") == shown

    def test_needs_an_answer_and_an_age_that_makes_sense(self, lineage, monkeypatch):
        monkeypatch.setattr("builtins.input", lambda _: "n")
        with pytest.raises(SystemExit, match="nothing was changed"):
            lineage("prune", "--older-than", "400d")
        with pytest.raises(SystemExit, match="at least 31d"):
            lineage("prune", "--older-than", "7d", "--yes")
        monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__EXPORT_DAYS", "500")
        with pytest.raises(SystemExit, match="more than .* export_days, 500d"):
            lineage("prune", "--older-than", "400d", "--yes")


class TestSend:
    @pytest.fixture
    def server(self):
        made = Server()
        yield made
        made.close()

    def test_tells_the_platform_of_a_connection_each_job_once(self, lineage, server, monkeypatch):
        with pytest.raises(SystemExit, match="export_url: got ''"):
            lineage("send")
        extra = {"endpoint": "api/v1/lineage"}
        connection = {"conn_type": "http", "host": "127.0.0.1", "port": server.http.server_port, "extra": extra}
        monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__EXPORT_CONN_ID", "governance")
        monkeypatch.setenv("AIRFLOW_CONN_GOVERNANCE", json.dumps(connection | {"password": "t0ken"}))
        assert json.loads(lineage("send", "--dry-run", "-o", "json"))["sent"] == 4
        told = json.loads(lineage("send", "--yes", "-o", "json"))
        assert (told["platform"], told["sent"], told["unchanged"]) == (server.url, 4, 0)
        assert server.headers[0]["Authorization"] == "Bearer t0ken"
        monkeypatch.setenv("AIRFLOW_CONN_GOVERNANCE", json.dumps(connection | {"login": "a@b", "password": "p/w"}))
        told = json.loads(lineage("send", "--what", "all", "--yes", "-o", "json"))
        assert (told["sent"], told["unchanged"]) == (12, 4)
        assert server.headers[-1]["Authorization"] == "Basic YUBiOnAvdw=="

    def test_ends_with_an_error_where_something_is_refused(self, lineage, server, monkeypatch):
        monkeypatch.setenv("AIRFLOW__KAFKA_HDFS_LINEAGE__EXPORT_URL", server.url)
        server.script = [422]
        with pytest.raises(SystemExit, match="1 events were refused"):
            lineage("send", "--yes")
