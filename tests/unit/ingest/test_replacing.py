"""A replace takes whole files and reads all that they held again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import PlanningError
from airflow_kafka_hdfs.ingest.coverage import Coverage, LogState
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import FileEntry, PartitionKey
from airflow_kafka_hdfs.ingest.replacing import Replacement, refuse_what_can_not_be_replaced, widen
from airflow_kafka_hdfs.model import PartitionOffsets

KEYS = [PartitionKey(topic="t", partition=p, cluster_id="c", topic_id="id") for p in range(3)]


def state(lost: Ranges = Ranges()) -> LogState:
    return LogState(
        coverage={key: Coverage(start=0, lost=lost) for key in KEYS},
        current={key.topic_partition: key for key in KEYS},
    )


def file(path: str, quarantine: bool = False, **offsets: tuple[int, int]) -> FileEntry:
    return FileEntry(
        path=path,
        staged="",
        topic="t",
        topic_id="id",
        size=9,
        digest="",
        records=1,
        records_out=1,
        offsets={int(name[1:]): (first, last, 1) for name, (first, last) in offsets.items()},
        quarantine=quarantine,
    )


files = st.lists(
    st.dictionaries(st.sampled_from(["p0", "p1", "p2"]), st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1),
    max_size=8,
)
wishes = st.dictionaries(st.sampled_from(KEYS), st.tuples(st.integers(0, 40), st.integers(0, 40)))


@given(files, wishes)
def test_every_live_file_lies_wholly_inside_or_outside(layout, wish):
    entries = [file(str(i), **{p: (lo, lo + n) for p, (lo, n) in body.items()}) for i, body in enumerate(layout)]
    live = {entry.path: (1, entry) for entry in entries}
    wanted = {key: Ranges.span(*span) for key, span in wish.items()}
    result = widen(wanted, live, state())
    chosen = {item.path for item in result.superseded}
    for entry in entries:
        spans = {KEYS[p]: Ranges.span(first, last + 1) for p, (first, last, _) in entry.offsets.items()}
        inside = [span - result.ranges.get(key, Ranges()) for key, span in spans.items()]
        outside = [span & result.ranges.get(key, Ranges()) for key, span in spans.items()]
        assert not any(inside) if entry.path in chosen else not any(outside)
    for key, span in wanted.items():
        assert not span - result.ranges.get(key, Ranges())


def test_quarantine_files_stay_and_lost_offsets_are_not_asked_for_again():
    live = {"bad": (1, file("bad", quarantine=True, p0=(0, 9)))}
    result = widen({KEYS[0]: Ranges.span(0, 9)}, live, state(lost=Ranges.span(0, 4)))
    assert result == Replacement(ranges={KEYS[0]: Ranges.span(4, 9)}, superseded=())


def test_what_kafka_no_longer_holds_is_named_and_nothing_happens():
    result = widen({KEYS[0]: Ranges.span(5, 9)}, {"a": (1, file("a", p0=(2, 6)))}, state())
    held = {KEYS[0]: PartitionOffsets(log_start=4, last_stable=20, high_watermark=20)}
    with pytest.raises(PlanningError, match=r"t\[0\]: \[2, 4\).*choose a range"):
        refuse_what_can_not_be_replaced(result, held, ())


def test_files_of_commits_that_are_not_published_are_named():
    result = widen({KEYS[0]: Ranges.span(2, 7)}, {"a": (7, file("a", p0=(2, 6)))}, state())
    held = {KEYS[0]: PartitionOffsets(log_start=0, last_stable=20, high_watermark=20)}
    refuse_what_can_not_be_replaced(result, held, ())
    with pytest.raises(PlanningError, match=r"a \(commit 7\).*state recover"):
        refuse_what_can_not_be_replaced(result, held, {7})
