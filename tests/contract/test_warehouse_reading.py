"""What every warehouse answers to readers: SQLite, PostgreSQL, and PostgreSQL with the SQL that Redshift has."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
from airflow_kafka_hdfs.lineage import traversal
from airflow_kafka_hdfs.lineage.access import Access, Listed
from airflow_kafka_hdfs.lineage.describing import Describer, window_at
from airflow_kafka_hdfs.lineage.identity import digest
from airflow_kafka_hdfs.ports.lineage_reading import Direction, Finding, Show
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, JobRow, RelationRow

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
JOBS = 6
NODES = 25
ODD = "/Ünïcödé/ÄÄ%_'x"


def random_edges(seed):
    """(job, source, target) of a graph with circles and self pairs."""
    rng = random.Random(seed)
    return {(rng.randrange(JOBS), rng.randrange(NODES), rng.randrange(NODES)) for _ in range(40)}


EDGES = random_edges(7)


def name(number):
    return f"/d{number:02}"


def key(number):
    return digest("ns", name(number))


def job_key(number):
    return digest("here", f"job{number}")


def edge(job, source, target, **fields):
    values = {
        "first_seen": NOW - 10 * DAY,
        "last_seen": NOW,
        "last_success": NOW,
        "last_declared": NOW,
        "last_run_id": "r",
        "last_state": "written",
        "last_outcome": "success",
        "run_count": 2,
        "evidence": "declared",
        "self": source == target,
    }
    return EdgeRow(job_id=job_key(job), source_id=key(source), target_id=key(target), **{**values, **fields})


def job_row(number):
    return JobRow(
        job_id=job_key(number),
        instance="here",
        dag_id=f"job{number}",
        domain="Airflow",
        owners=f"owner{number}",
        team="",
        tags="",
        config_file="",
        relative_fileloc="",
        description="",
        first_seen=NOW,
        last_seen=NOW,
        last_run=NOW,
        emitted_at=NOW,
    )


def dataset_row(number):
    return DatasetRow(
        dataset_id=key(number),
        ns="ns",
        name=name(number),
        collection="",
        table=name(number),
        first_seen=NOW,
        last_seen=NOW,
    )


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "portable"])
def warehouse(request, tmp_path_factory):
    if request.param == "sqlite":
        found = SqlWarehouse(f"sqlite:///{tmp_path_factory.mktemp('reading')}/lineage.db")
    else:
        server = request.getfixturevalue("postgres_server")
        url = server.create_database(f"reading_{request.param}")
        found = SqlWarehouse(url, portable=request.param == "portable")
    found.migrate()
    with found.transaction() as tx:
        tx.put([edge(*one) for one in EDGES])
        tx.put([dataset_row(number) for number in range(NODES)])
        tx.put([replace(dataset_row(0), dataset_id="odd", ns="odd", name=ODD)])
        tx.put([job_row(number) for number in range(JOBS)])
        related = {(job, source, "input") for job, source, _ in EDGES} | {(job, t, "output") for job, _, t in EDGES}
        tx.put(
            [
                RelationRow(job_id=job_key(j), dataset_id=key(d), direction=way, origin="runs", last_seen=NOW)
                for j, d, way in related
            ]
        )
        # Edges that hold no more, not yet, or were seen too long ago at run time: from and to datasets beyond the rest.
        tx.put(
            [
                edge(0, 100, 101, valid_to=NOW - DAY),
                edge(0, 100, 102, first_seen=NOW + DAY),
                edge(0, 100, 103, last_declared=None, last_seen=NOW - 31 * DAY, first_seen=NOW - 40 * DAY),
                edge(0, 100, 104, last_declared=None, last_seen=NOW - 29 * DAY, first_seen=NOW - 40 * DAY),
            ]
        )
    yield found
    found.close()


def brute(start, hops_down):
    """Distances by looking at every edge again and again."""
    found = {start: 0}
    while True:
        more = {}
        for _, source, target in EDGES:
            one, other = (source, target) if hops_down else (target, source)
            if one in found and other not in found:
                more[other] = min(more.get(other, 99), found[one] + 1)
        if not more:
            return found
        nearest = min(more.values())
        found.update({node: hop for node, hop in more.items() if hop == nearest})


@pytest.mark.parametrize("direction", list(Direction))
def test_a_walk_reaches_what_edges_reach_at_the_shortest_distance(warehouse, direction):
    with warehouse.look() as reader:
        for start in range(NODES):
            walked = traversal.reach(reader, key(start), direction, window_at(NOW))
            distances = {node: hop for hop, level in enumerate(walked.levels, 1) for node in level}
            expected = brute(start, direction is Direction.DOWN)
            del expected[start]
            assert distances == {key(node): hop for node, hop in expected.items()}


def test_only_edges_that_hold_at_the_moment_count(warehouse):
    with warehouse.look() as reader:
        steps = {days: reader.step([key(100)], Direction.DOWN, window_at(NOW + days * DAY)) for days in (-2, 0, 2, 30)}
    assert steps[-2] == {key(101), key(103), key(104)}
    assert steps[0] == {key(104)}
    assert steps[2] == {key(102)}
    assert steps[30] == {key(102)}


def test_only_the_edges_that_are_asked_for_are_shown(warehouse):
    kinds = {
        201: {"last_success": None, "last_state": "unknown"},
        202: {"last_declared": None},
        203: {"last_state": "failed"},
        204: {"last_success": None, "last_state": "upstream_failed", "last_declared": None},
    }
    with warehouse.transaction() as tx:
        tx.put([edge(0, 200, target, **fields) for target, fields in kinds.items()])
    with warehouse.look() as reader:
        steps = {show: reader.step([key(200)], Direction.DOWN, window_at(NOW, show)) for show in Show}
    assert {show: {number for number in kinds if key(number) in found} for show, found in steps.items()} == {
        Show.ALL: {201, 202, 203, 204},
        Show.DECLARED: {201, 203},
        Show.OBSERVED: {202, 203},
        Show.FAILING: {203, 204},
    }


def test_degrees_and_jobs_are_those_of_the_edges(warehouse):
    with warehouse.look() as reader:
        ids = [key(number) for number in range(NODES)]
        out = reader.degrees(ids, Direction.DOWN, window_at(NOW))
        writers = {(dataset, job) for dataset, job, _ in reader.attached(ids, Direction.UP, window_at(NOW))}
        between = {(e.job_id, e.source_id, e.target_id) for e in reader.between(ids, ids[:5], window_at(NOW))}
        touched = reader.touched([job_key(0), job_key(1)])
        touching = reader.touching([key(3), key(4)])
        names = reader.job_names([job_key(1), "nobody"])
    assert out == {
        key(n): len(targets) for n in range(NODES) if (targets := {t for _, s, t in EDGES if s == n and t != n})
    }
    assert writers == {(key(t), job_key(j)) for j, _, t in EDGES}
    assert between == {(job_key(j), key(s), key(t)) for j, s, t in EDGES if t < 5}
    assert touched == {key(end) for j, s, t in EDGES if j < 2 for end in (s, t)}
    assert sorted(touching) == sorted({(key(end), job_key(j)) for j, s, t in EDGES for end in (s, t) if end in (3, 4)})
    assert names == [(job_key(1), "here", "job1")]


def test_one_look_shows_one_state_whatever_is_loaded_meanwhile(warehouse):
    job = replace(job_row(0), job_id="meanwhile", dag_id="meanwhile")
    with warehouse.look() as reader:
        before = reader.count(JobRow)
        with warehouse.transaction() as tx:
            tx.put([job])
        assert (reader.count(JobRow), reader.rows(JobRow, ("job_id",), [("meanwhile",)])) == (before, [])
    with warehouse.transaction() as tx:
        assert tx.rows(JobRow, ("job_id",), [("meanwhile",)]) == [job]
        tx.delete(JobRow, [("meanwhile",)])


def test_names_are_found_by_words_whatever_their_case(warehouse):
    with warehouse.look() as reader:
        found = reader.find(DatasetRow, Finding(words=("D0", "ns")), limit=4, offset=2)
        assert [row.name for row in found] == ["/d02", "/d03", "/d04", "/d05"]
        assert reader.count(DatasetRow, Finding(words=("D0",))) == 10
        assert reader.count(DatasetRow, Finding(words=("d%",))) == 0  # a sign of the pattern language is a letter here
        assert [row.dag_id for row in reader.find(JobRow, Finding(words=("owner3",)), limit=5)] == ["job3"]
        assert [row.name for row in reader.find(DatasetRow, Finding(words=("Ünïc", "Ä%_")), limit=5)] == [ODD]
        mine = Finding(among=[job_key(0)])
        names = {row.dataset_id for row in reader.find(DatasetRow, mine, limit=100)}
        assert names == {key(end) for j, s, t in EDGES if j == 0 for end in (s, t)}
        assert [row.dag_id for row in reader.find(JobRow, mine, limit=5)] == ["job0"]


def test_most_read_counts_readers_then_runs(warehouse):
    with warehouse.look() as reader:
        found = reader.most_read(100)
    others = {key(100), key(200)}  # of the tests of moments and of what is shown
    readers = {dataset: count for dataset, count, _ in found if dataset not in others}
    assert readers == {key(s): len({j for j, source, _ in EDGES if source == s}) for _, s, _ in EDGES}
    assert [count for _, count, _ in found] == sorted((count for _, count, _ in found), reverse=True)
    # Each job ran twice, whatever the number of pairs that it has from a dataset.
    assert {runs / count for dataset, count, runs in found if dataset not in others} == {2.0}


@pytest.mark.parametrize("readable", [set(), {0}, {0, 1, 2}])
def test_law_a_graph_names_only_what_readable_jobs_touch_and_loses_nothing(warehouse, readable):
    access = Access(rights=Listed(frozenset(map(job_key, readable))), secret=b"s")
    mine = {end for j, s, t in EDGES if j in readable for end in (s, t)}
    with warehouse.look() as reader:
        whole = traversal.graph(Describer(reader, Access(), NOW), key(3), up=9, down=9, as_of=NOW)
        cut = traversal.graph(Describer(reader, access, NOW), key(3), up=9, down=9, as_of=NOW)
    assert (len(cut.nodes), len(cut.links)) == (len(whole.nodes), len(whole.links))
    assert {node.dataset.name for node in cut.nodes if not node.dataset.restricted} == {
        node.dataset.name for node in whole.nodes if node.dataset.name in set(map(name, mine))
    }
    assert {job.dag_id for job in cut.jobs if not job.restricted} <= {f"job{j}" for j in readable}
    hidden = {key(n) for n in range(NODES)} - {key(n) for n in mine}
    assert not hidden & {link.source for link in cut.links}


def test_a_graph_stops_at_its_limit_and_counts_what_it_hides(warehouse):
    with warehouse.look() as reader:
        describer = Describer(reader, Access(), NOW)
        whole = traversal.graph(describer, key(3), up=0, down=9, as_of=NOW)
        small = traversal.graph(describer, key(3), up=0, down=9, limit=2, as_of=NOW)
    assert (small.truncated, len(small.nodes), whole.truncated) == (True, 2, False)
    inside = {node.dataset.id for node in small.nodes}
    for node in small.nodes:
        out = {key(t) for _, s, t in EDGES if key(s) == node.dataset.id and s != t}
        assert node.hidden_down == len(out - inside)
