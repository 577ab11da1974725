"""What every warehouse promises: in memory, SQLite, PostgreSQL, and PostgreSQL with the SQL that Redshift has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from operator import attrgetter

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.adapters.warehouse.migrating import upgrade
from airflow_kafka_hdfs.adapters.warehouse.tables import METADATA, REVISION, VERSION_TABLE
from airflow_kafka_hdfs.exceptions import ConfigError, LineageError, WarehouseUnavailableError
from airflow_kafka_hdfs.ports.lineage_rows import (
    DatasetRow,
    EdgeRow,
    EdgeRunRow,
    JobRow,
    OffsetRow,
    OpenLineageEventRow,
    OpenLineageSaidRow,
    RawRow,
    RunRow,
)
from tests.fakes.lineage import MemoryWarehouse

NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
DAY = timedelta(days=1)
KINDS = ["memory", "sqlite", "postgresql", "portable"]


@pytest.fixture(params=KINDS)
def empty(request, tmp_path):
    """A warehouse without tables."""
    if request.param == "memory":
        warehouse = MemoryWarehouse()
    elif request.param == "sqlite":
        warehouse = SqlWarehouse(f"sqlite:///{tmp_path}/lineage.db")
    else:
        server, name = request.getfixturevalue("postgres_server"), request.getfixturevalue("unique_name")
        warehouse = SqlWarehouse(server.create_database(name), portable=request.param == "portable")
    yield warehouse
    warehouse.close()


@pytest.fixture
def warehouse(empty):
    empty.migrate()
    return empty


def raw(offset, **fields):
    values = {"topic": "t", "partition": 0, "event_id": "e", "type": "edge", "received_at": NOW, "body": "{}"}
    return RawRow(offset=offset, **{**values, **fields})


def dataset(key, **fields):
    values = {"ns": "n", "name": key, "collection": "c", "table": "t", "first_seen": NOW, "last_seen": NOW}
    return DatasetRow(dataset_id=key, **{**values, **fields})


def edge(job, source, target, **fields):
    values = {
        "first_seen": NOW,
        "last_seen": NOW,
        "last_success": None,
        "last_declared": None,
        "last_run_id": "r",
        "last_state": "written",
        "last_outcome": "success",
        "run_count": 1,
        "evidence": "declared",
        "self": source == target,
    }
    return EdgeRow(job_id=job, source_id=source, target_id=target, **{**values, **fields})


def job(key, **fields):
    texts = dict.fromkeys(
        ["instance", "dag_id", "domain", "owners", "team", "tags", "config_file", "relative_fileloc", "description"], ""
    )
    return JobRow(job_id=key, first_seen=NOW, last_seen=NOW, emitted_at=NOW, **{**texts, **fields})


def run(job_id, run_id, run_after):
    return RunRow(
        job_id=job_id,
        run_id=run_id,
        clear_number=0,
        run_type="scheduled",
        triggered_by="",
        logical_date=None,
        interval_start=None,
        interval_end=None,
        run_after=run_after,
        started_at=None,
        ended_at=None,
        outcome="success",
        reason="",
        versions="{}",
        job="{}",
        structure_hash="h",
        facts="{}",
        emitted_at=NOW,
        event_id="e",
    )


def edge_run(job_id, run_id, source, target):
    return EdgeRunRow(
        job_id=job_id,
        run_id=run_id,
        source_id=source,
        target_id=target,
        run_after=NOW,
        state="written",
        outcome="success",
        evidence="declared",
        instances=1,
        path="[]",
        declared=True,
        origin="graph",
        clear_number=0,
        emitted_at=NOW,
    )


def stored(warehouse, kind, columns, *values):
    with warehouse.transaction() as tx:
        return sorted(tx.rows(kind, columns, values), key=repr)


def test_a_row_comes_back_as_it_was_put(warehouse):
    rows = [
        raw(1, body="Ünïcödé 🚀 'quoted' \"double\" %s :name {x} \\n", problem="line\nline"),
        raw(2, body="x" * 60_000),
        raw(3, body="", problem='a\n\\.\nb,"";\t\\N\r\n'),
        raw(2**40),
    ]
    with warehouse.transaction() as tx:
        tx.put(rows)
    assert stored(warehouse, RawRow, ("topic", "partition"), ("t", 0)) == sorted(rows, key=repr)


def test_a_row_takes_the_place_of_one_with_the_same_key(warehouse):
    with warehouse.transaction() as tx:
        tx.put([dataset("a"), dataset("b")])
        tx.put([dataset("a", name="new", temporary=True, schema_seen=NOW)])
    assert stored(warehouse, DatasetRow, ("dataset_id",), ("a",), ("b",)) == sorted(
        [dataset("a", name="new", temporary=True, schema_seen=NOW), dataset("b")], key=repr
    )


def test_of_rows_with_the_same_key_in_one_put_the_last_one_counts(warehouse):
    with warehouse.transaction() as tx:
        tx.put([dataset("a", name="one"), dataset("b"), dataset("a", name="two")])
    assert stored(warehouse, DatasetRow, ("dataset_id",), ("a",)) == [dataset("a", name="two")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([raw(1), raw(2)], [raw(3), raw(2, body="new"), raw(4)]),
        ([run("j", "r1", NOW)], [run("j", "r2", NOW), run("j", "r1", NOW + DAY)]),
        ([edge_run("j", "r1", "a", "b")], [edge_run("j", "r1", "a", "b"), edge_run("j", "r2", "a", "b")]),
    ],
    ids=["raw", "run", "edge_run"],
)
def test_rows_that_most_often_are_new_may_have_been_there(warehouse, first, second):
    kind, key = type(first[0]), attrgetter(*type(first[0]).KEY)
    with warehouse.transaction() as tx:
        tx.put([dataset("a")])
        tx.put(first)
        tx.put(second)
    wanted = {key(row): row for row in (*first, *second)}
    assert stored(warehouse, kind, kind.KEY, *wanted) == sorted(wanted.values(), key=repr)
    assert stored(warehouse, DatasetRow, ("dataset_id",), ("a",)) == [dataset("a")]


def test_times_are_the_same_moment_in_utc(warehouse):
    there = NOW.astimezone(timezone(timedelta(hours=5)))
    with warehouse.transaction() as tx:
        tx.put([dataset("a", first_seen=there)])
    found = stored(warehouse, DatasetRow, ("dataset_id",), ("a",))[0]
    assert found.first_seen == NOW
    assert found.first_seen.tzinfo is not None


def test_rows_are_found_by_a_part_of_their_key(warehouse):
    rows = [edge_run("j", r, s, "t") for r in ("r1", "r2") for s in ("a", "b")]
    with warehouse.transaction() as tx:
        tx.put(rows)
        assert sorted(tx.rows(EdgeRunRow, ("job_id", "run_id"), [("j", "r1"), ("j", "r9")]), key=repr) == rows[:2]
        assert tx.edge_runs([("j", "a", "t")]) in ([rows[0], rows[2]], [rows[2], rows[0]])
        assert tx.rows(EdgeRunRow, ("job_id", "run_id"), []) == []


def test_rows_are_deleted_by_key_and_missing_ones_are_fine(warehouse):
    with warehouse.transaction() as tx:
        tx.put([dataset("a"), dataset("b")])
        tx.delete(DatasetRow, [("a",), ("z",)])
        tx.delete(DatasetRow, [])
    assert stored(warehouse, DatasetRow, ("dataset_id",), ("a",), ("b",)) == [dataset("b")]


def test_thousands_of_keys_are_no_matter(warehouse):
    rows = [edge("j", f"s{i}", "t") for i in range(12_000)]
    keys = [("j", row.source_id, "t") for row in rows]
    with warehouse.transaction() as tx:
        tx.put(rows)
    with warehouse.transaction() as tx:
        assert len(tx.rows(EdgeRow, EdgeRow.KEY, keys)) == 12_000
        tx.delete(EdgeRow, keys[1:])
    assert stored(warehouse, EdgeRow, ("job_id",), ("j",)) == [rows[0]]


def test_an_error_in_the_block_takes_everything_back(warehouse):
    def write_and_stop():
        with warehouse.transaction() as tx:
            tx.put([dataset("a")])
            tx.put([OffsetRow(group="g", topic="t", partition=0, next_offset=5)])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_and_stop()
    assert stored(warehouse, DatasetRow, ("dataset_id",), ("a",)) == []
    assert warehouse.offsets("g") == {}


def test_offsets_are_kept_by_group(warehouse):
    with warehouse.transaction() as tx:
        tx.put([OffsetRow(group="g", topic="t", partition=p, next_offset=5 + p) for p in (0, 1)])
        tx.put([OffsetRow(group="other", topic="t", partition=0, next_offset=9)])
    assert warehouse.offsets("g") == {("t", 0): 5, ("t", 1): 6}


def test_runs_of_a_job_come_newest_first(warehouse):
    runs = [run("j", "b", NOW), run("j", "a", NOW), run("j", "c", NOW - DAY), run("other", "d", NOW)]
    with warehouse.transaction() as tx:
        tx.put(runs)
        assert [row.run_id for row in tx.job_runs("j")] == ["b", "a", "c"]


def test_an_edge_ends_where_the_structure_has_it_no_more(warehouse):
    before, after = NOW - DAY, NOW + DAY
    edges = {
        "gone": edge("j", "gone", "t", last_declared=before, last_seen=before),
        "declared": edge("j", "declared", "t", last_declared=NOW, last_seen=NOW, valid_to=before),
        "seen later": edge("j", "seen later", "t", last_declared=before, last_seen=after),
        "run time only": edge("j", "run time only", "t", last_declared=None, last_seen=before),
        "another job's": edge("k", "another job's", "t", last_declared=before, last_seen=before),
        "job without structure": edge("l", "x", "t", last_declared=before, last_seen=before),
    }
    with warehouse.transaction() as tx:
        tx.put([job("j", structure_since=NOW), job("k", structure_since=NOW), job("l")])
        tx.put(list(edges.values()))
        tx.end_edges(["j", "l"])
        tx.end_edges([])
    found = {row.source_id: row.valid_to for row in stored(warehouse, EdgeRow, ("target_id",), ("t",))}
    assert found == {
        "gone": NOW,
        "declared": None,
        "seen later": None,
        "run time only": None,
        "another job's": None,
        "x": None,
    }


def test_tables_may_be_created_again(warehouse):
    with warehouse.transaction() as tx:
        tx.put([dataset("a")])
    warehouse.migrate()
    assert stored(warehouse, DatasetRow, ("dataset_id",), ("a",)) == [dataset("a")]


def test_missing_tables_name_the_command_that_makes_them(empty):
    with pytest.raises(LineageError, match="lineage init"):
        empty.offsets("g")
    with pytest.raises(LineageError, match="lineage init"), empty.transaction():
        pass


@pytest.fixture
def sql(warehouse):
    if not isinstance(warehouse, SqlWarehouse):
        pytest.fail("only for databases: parametrize with `indirect`")
    return warehouse


only_sql = pytest.mark.parametrize("empty", KINDS[1:], indirect=True)


@only_sql
def test_migrations_lead_to_the_tables_that_the_rows_ask_for(sql):
    with sql.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == REVISION


@only_sql
def test_events_that_an_older_package_kept_are_kept_and_count(empty):
    with empty.engine.begin() as connection:
        upgrade(connection, "0004")
        for number, minute in enumerate((0, 1)):
            connection.execute(
                sa.text("INSERT INTO openlineage_event VALUES ('j', 'r', :event, :at, '[]')"),
                {"event": f"e{number}", "at": f"2026-03-01 00:0{minute}:00.000000"},
            )
    empty.migrate()
    said = stored(empty, OpenLineageSaidRow, ("job_id", "run_id"), ("j", "r"))
    assert [(row.event_id, row.events, row.body) for row in said] == [("e0", 2, "[]"), ("e1", 2, "[]")]
    assert stored(empty, OpenLineageEventRow, ("job_id", "run_id"), ("j", "r")) == [
        OpenLineageEventRow(job_id="j", run_id="r", event_id=row.event_id, happened_at=row.happened_at) for row in said
    ]


@only_sql
def test_tables_of_a_newer_package_are_left_alone(sql):
    with sql.engine.begin() as connection:
        connection.execute(sa.text("UPDATE lineage_version SET version_num = '9999'"))
    again = SqlWarehouse(sql.engine.url.render_as_string(hide_password=False))
    with pytest.raises(LineageError, match="newer"):
        again.offsets("g")
    again.close()


@only_sql
def test_a_second_loader_waits_until_the_first_is_done(sql):
    import threading

    order = []
    inside, second_done = threading.Event(), threading.Event()

    def second():
        inside.wait(10)
        with sql.transaction() as tx:
            order.append(tx.rows(OffsetRow, ("group",), [("g",)])[0].next_offset)
        second_done.set()

    thread = threading.Thread(target=second)
    thread.start()
    with sql.transaction() as tx:
        inside.set()
        tx.put([OffsetRow(group="g", topic="t", partition=0, next_offset=7)])
        assert not second_done.wait(0.3)
    thread.join(20)
    assert order == [7]


def test_sql_for_redshift_has_nothing_that_redshift_lacks(postgres_server, unique_name):
    warehouse = SqlWarehouse(postgres_server.create_database(unique_name), portable=True)
    warehouse.migrate()
    said = []
    sa.event.listen(warehouse.engine, "before_cursor_execute", lambda *args: said.append(args[2].upper()))
    with warehouse.transaction() as tx:
        tx.put([edge("j", "s", "t")])
        tx.rows(EdgeRow, EdgeRow.KEY, [("j", "s", "t"), ("j", "s", "u")])
        tx.delete(EdgeRow, [("j", "s", "u"), ("j", "s", "v")])
        tx.end_edges(["j"])
    warehouse.close()
    text = "\n".join(said)
    assert "DELETE FROM EDGE USING PUT_EDGE" in text
    for lacking in ("ON CONFLICT", "RETURNING", "SERIAL", "NEXTVAL", "IS DISTINCT", ") IN ((", "JSONB", "ADVISORY"):
        assert lacking not in text


def test_a_database_that_is_away_says_so_without_its_password():
    warehouse = SqlWarehouse("postgresql+psycopg2://user:secret@127.0.0.1:1/none")
    with pytest.raises(WarehouseUnavailableError, match="127.0.0.1:1") as caught:
        warehouse.offsets("g")
    assert "secret" not in str(caught.value)
    warehouse.close()


@pytest.mark.parametrize("url", ["nonsense", "oracle2+nodriver://x", "sqlite+nodriver:///x"])
def test_a_url_that_cannot_be_used_is_a_configuration_error(url):
    with pytest.raises(ConfigError, match="warehouse"):
        SqlWarehouse(url)


def test_replacing_a_part_of_a_row_keeps_the_rest(warehouse):
    with warehouse.transaction() as tx:
        tx.put([edge("j", "s", "t")])
        row = tx.rows(EdgeRow, EdgeRow.KEY, [("j", "s", "t")])[0]
        tx.put([replace(row, run_count=2)])
    assert stored(warehouse, EdgeRow, ("job_id",), ("j",)) == [edge("j", "s", "t", run_count=2)]
