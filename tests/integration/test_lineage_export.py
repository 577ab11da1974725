"""Export to a governance platform: a real HTTP server that is slow, broken, choosy or away."""

from __future__ import annotations

import logging

import pytest

from airflow_kafka_hdfs.adapters.lineage_platform import HttpPlatform
from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.exceptions import ConfigError, LineageError, PlatformUnavailableError
from airflow_kafka_hdfs.lineage.exchanged import Exchanges
from airflow_kafka_hdfs.lineage.exporting import Exporter, What
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge
from airflow_kafka_hdfs.lineage.openlineage import EventReader
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, ExportRow
from tests.fakes.lineage_chain import AFTER, DAGS, DAY, NOW, chain_warehouse, run_message
from tests.fakes.platform import DROP, HANG, Server
from tests.fakes.runtime import ManualClock

ALL_DAGS = sorted([*DAGS, "api_after"])


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def warehouse(tmp_path):
    """Four jobs in a chain, and one of another deployment, which is not told."""
    made = chain_warehouse(f"sqlite:///{tmp_path}/lineage.db")
    yield made
    made.close()


def export(warehouse, server, *, clock=None, url="", token="", timeout=5.0, again=False, dry_run=False, **options):
    clock = clock or ManualClock(NOW)
    platform = HttpPlatform(url or server.url, clock, token=token, timeout=timeout)
    try:
        exchanges = Exchanges(instance="here", namespace="prod")
        exporter = Exporter(warehouse, platform, clock, exchanges, **{"tries": 3, **options})
        return exporter.run(again=again, dry_run=dry_run)
    finally:
        platform.close()


def told(server):
    return sorted(event["job"]["name"] for event in server.taken)


def rows(warehouse, server):
    with warehouse.look() as reader:
        return reader.rows(ExportRow, ("target",), [(server.url,)])


def test_relations_of_each_job_are_sent_once(warehouse, server):
    assert export(warehouse, server).to_json() == {"sent": 4, "unchanged": 0, "refused": 0, "attempts": 4}
    assert told(server) == ALL_DAGS
    clean = next(event for event in server.taken if event["job"]["name"] == "api_clean")
    assert [item["name"] for item in clean["inputs"]] == ["/raw"]
    assert [item["name"] for item in clean["outputs"]] == ["/clean"]
    (entry,) = clean["job"]["facets"]["lineage"]["entries"]
    assert (entry["name"], [item["name"] for item in entry["inputs"]]) == ("/clean", ["/raw"])
    assert clean["outputs"][0]["facets"]["schema"]["fields"] == [{"name": "id", "type": "long", "description": "key"}]
    assert clean["job"]["facets"]["ownership"]["owners"] == [{"name": "api_clean_owner"}]
    assert export(warehouse, server).to_json() == {"sent": 0, "unchanged": 4, "refused": 0, "attempts": 0}
    assert len(server.taken) == 4


def test_what_changed_is_sent_again_and_nothing_else(warehouse, server):
    export(warehouse, server)
    with warehouse.transaction() as tx:
        Merge(tx, GraphCache()).apply([run_message("api_clean", "orders", "/clean", NOW + DAY, version="3")])
    assert export(warehouse, server, clock=ManualClock(NOW + 2 * DAY)).sent == 1
    assert [item["name"] for item in server.taken[-1]["inputs"]] == ["orders"]


def test_a_platform_that_stumbles_is_asked_again_after_a_pause(warehouse, server):
    server.script = [500, (429, {"Retry-After": "77"}), 201, DROP, 503]
    clock = ManualClock(NOW)
    before = clock.monotonic()
    report = export(warehouse, server, clock=clock)
    assert (report.sent, report.attempts, server.requests) == (4, 8, 8)
    assert told(server) == ALL_DAGS
    assert 77 < clock.monotonic() - before < 100
    assert sorted(row.attempts for row in rows(warehouse, server)) == [1, 1, 3, 3]


def test_a_platform_that_hangs_is_left_after_the_time_out(warehouse, server):
    server.script = [HANG]
    assert export(warehouse, server, timeout=0.3).attempts == 5
    assert told(server) == ALL_DAGS
    keys = [headers["Idempotency-Key"] for headers in server.headers]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4


def test_a_platform_that_stays_away_stops_the_export_which_goes_on_later(warehouse, server):
    server.script = [201, 503, 503, 503]
    with pytest.raises(PlatformUnavailableError, match="not taken in 3 tries; the last one: .*503"):
        export(warehouse, server)
    assert (len(server.taken), len(rows(warehouse, server))) == (1, 1)
    assert export(warehouse, server).to_json() == {"sent": 3, "unchanged": 1, "refused": 0, "attempts": 3}
    assert told(server) == ALL_DAGS
    server.close()
    with pytest.raises(PlatformUnavailableError, match="ConnectionError"):
        export(warehouse, server, what=What.RUNS)


def test_an_export_that_is_killed_goes_on_where_it_stopped(warehouse, server):
    class Killed(BaseException):
        pass

    class Clock(ManualClock):
        def now(self):
            if len(server.taken) == 2:
                raise Killed  # the answer came, and was not written down
            return super().now()

    with pytest.raises(Killed):
        export(warehouse, server, clock=Clock(NOW))
    assert export(warehouse, server).sent == 3
    keys = [headers["Idempotency-Key"] for headers in server.headers]
    # Of the one whose answer was lost nobody knows; the platform tells it by its key.
    assert (len(keys), len(set(keys)), keys[1]) == (5, 4, keys[2])


def test_what_the_platform_refuses_is_written_down_and_left_until_somebody_asks(warehouse, server):
    server.script = [400, (302, {"Location": "http://elsewhere.test/"})]
    assert export(warehouse, server).to_json() == {"sent": 2, "unchanged": 0, "refused": 2, "attempts": 4}
    assert {(row.state, row.status) for row in rows(warehouse, server)} == {
        ("refused", 400),
        ("refused", 302),
        ("sent", 201),
    }
    assert {row.problem for row in rows(warehouse, server)} == {"told", ""}
    assert export(warehouse, server).unchanged == 4
    assert export(warehouse, server, again=True).to_json() == {"sent": 2, "unchanged": 2, "refused": 0, "attempts": 2}


def test_a_dry_run_sends_nothing_and_writes_nothing_down(warehouse, server):
    assert export(warehouse, server, dry_run=True).sent == 4
    assert (server.requests, rows(warehouse, server)) == (0, [])


def test_no_secret_is_ever_shown(warehouse, server, caplog):
    caplog.set_level(logging.DEBUG)
    url = server.url.replace("http://", "http://ann:s3cret-word@")
    server.script = [401]
    with pytest.raises(LineageError, match="refuses the log-in") as caught:
        export(warehouse, server, url=url)
    server.script = [DROP, DROP, DROP]
    with pytest.raises(PlatformUnavailableError) as lost:
        export(warehouse, server, url=url, token="t0ken-word")
    assert server.headers[0]["Authorization"].startswith("Basic ")
    assert server.headers[-1]["Authorization"] == "Bearer t0ken-word"
    export(warehouse, server, url=url)
    platform = HttpPlatform(url, ManualClock(NOW), token="t0ken-word")
    seen = [str(caught.value), str(lost.value), repr(platform), repr(rows(warehouse, server)), caplog.text]
    assert not [text for text in seen if "s3cret" in text or "t0ken" in text]
    assert repr(LineageSettings(export_url=url, export_token="t0ken-word")).find("word") == -1
    with pytest.raises(ConfigError) as refused:
        HttpPlatform(f"{url}?key=s3cret-word", ManualClock(NOW))
    assert "s3cret" not in str(refused.value)


def test_what_is_sent_can_be_read_by_another_warehouse_of_ours(warehouse, server, tmp_path):
    export(warehouse, server, what=What.ALL)
    other = SqlWarehouse(f"sqlite:///{tmp_path}/other.db")
    other.migrate()
    reader = EventReader(LineageSettings())
    with other.transaction() as tx:
        Merge(tx, GraphCache()).apply([], [reader.of(event) for event in server.taken])
    ends = {(source, target) for source, target in [*DAGS.values(), AFTER]}
    assert pairs(other) == pairs(warehouse) == ends
    runs = [event for event in server.taken if "run" in event]
    assert {(event["eventType"], event["job"]["namespace"]) for event in runs} == {("COMPLETE", "prod")}
    assert len({event["run"]["runId"] for event in runs}) == len(runs) == 12
    other.close()


def pairs(warehouse):
    import sqlalchemy as sa

    with warehouse.engine.connect() as connection:
        jobs = [(row[0],) for row in connection.execute(sa.text("SELECT DISTINCT job_id FROM edge"))]
    with warehouse.look() as reader:
        edges = reader.rows(EdgeRow, ("job_id",), jobs)
        ids = {(key,) for edge in edges for key in (edge.source_id, edge.target_id)}
        names = {row.dataset_id: row.name for row in reader.rows(DatasetRow, ("dataset_id",), ids)}
    return {(names[edge.source_id], names[edge.target_id]) for edge in edges}
