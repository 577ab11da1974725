"""The order in which jobs run again: each after all that write what it reads, circles named."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.repair import job_order
from airflow_kafka_hdfs.ports.lineage_rows import EdgeRow

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def edge(job, source, target):
    return EdgeRow(
        job_id=job,
        source_id=source,
        target_id=target,
        first_seen=WHEN,
        last_seen=WHEN,
        last_success=WHEN,
        last_declared=WHEN,
        last_run_id="r",
        last_state="written",
        last_outcome="success",
        run_count=1,
        evidence="",
        self=source == target,
    )


def test_jobs_of_one_number_may_run_side_by_side():
    order, circular = job_order([edge("a", "1", "2"), edge("b", "2", "3"), edge("c", "2", "4"), edge("d", "3", "5")])
    assert (order, circular) == ({"a": 0, "b": 1, "c": 1, "d": 2}, frozenset())


def test_a_job_that_only_reads_comes_after_its_writers():
    assert job_order([edge("a", "1", "2")], [("report", "2")])[0] == {"a": 0, "report": 1}


def test_a_job_that_reads_what_it_writes_is_no_circle():
    assert job_order([edge("a", "1", "2"), edge("a", "2", "3")]) == ({"a": 0}, frozenset())


def test_a_circle_gets_one_number_and_what_follows_it_comes_later():
    edges = [edge("a", "1", "2"), edge("b", "2", "3"), edge("c", "3", "2"), edge("d", "3", "4")]
    order, circular = job_order(edges)
    assert order == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert circular == {"b", "c"}


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 8)), max_size=20))
def test_law_no_job_comes_before_one_that_writes_what_it_reads(drawn):
    edges = [edge(f"j{job}", str(source), str(target)) for job, source, target in drawn]
    order, circular = job_order(edges)
    assert set(order) == {item.job_id for item in edges}
    for reader in edges:
        for writer in edges:
            if writer.target_id == reader.source_id and writer.job_id != reader.job_id:
                before, after = order[writer.job_id], order[reader.job_id]
                assert before < after or (before == after and {writer.job_id, reader.job_id} <= circular)
