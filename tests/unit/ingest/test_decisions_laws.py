"""Under every policy each promised offset is read, decided already, or named as lost or skipped."""

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import decide
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import PartitionChange
from tests.unit.ingest.deciding import CLOCK, cluster, commit, config, key, only, plan_of

POLICIES = {name: config(on_out_of_range=name) for name in ("nearest", "earliest", "latest", "skip", "fail")}
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5).map(Ranges.of)


@settings(max_examples=400)
@given(
    st.integers(0, 40),
    spans,
    spans,
    spans,
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60)).map(sorted),
    st.sampled_from(sorted(POLICIES)),
)
def test_every_promised_offset_is_read_decided_or_named(start, covered, skipped, lost, held, policy):
    state = commit(LogState(), PartitionChange(key=key(), start=start, covered=covered, skipped=skipped, lost=lost))
    before = state.coverage[key()]
    view = cluster(*held)
    decided, after = plan_of(state, view, POLICIES[policy])
    if decided.held:
        assert policy in ("skip", "fail")
        assert decided.changes == ()
        return
    entry = only(decided)
    now = after.coverage.get(entry.key)
    if entry.reason == "skipped_out_of_range":
        assert now == before
        return
    # Only undecided, readable offsets are read, and all of them.
    assert not entry.ranges & now.decided
    assert entry.ranges == now.undecided(now.start, held[1])
    assert not entry.ranges.below(held[0])
    assert not now.undecided(now.start, held[0])
    # Planning never claims to have read anything.
    new = entry.key.generation == 0
    assert not now.covered - before.covered
    if new:
        assert not before.decided - now.decided
        assert entry.lost == len(now.lost - before.lost)
    else:
        assert max(before.start, before.decided.end or 0) > held[2]
        assert not now.decided.from_on(held[2])
    # Doing it again right away finds nothing to commit.
    assert decide(after, view, POLICIES[policy], CLOCK, {}).changes == ()
