"""Start points move back and forth: skipped is lifted, undecided is skipped, covered and lost stay."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import ConfigError, PlanningError
from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.cluster_view import look
from airflow_kafka_hdfs.ingest.coverage import Coverage, LogState
from airflow_kafka_hdfs.ingest.identities import Identity, Standing
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, Counts, Kind, PartitionChange, PartitionKey
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.ingest.resets import decide_resets, describe, foreign_keys, moved, targets
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import PartitionOffsets, RunRef
from tests.fakes.kafka import FakeCluster

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
KEY = PartitionKey(topic="T", partition=0, cluster_id="c", topic_id="id")


def identity(coverage, log_start=100, last_stable=500, high_watermark=None, standing=Standing.KNOWN):
    offsets = PartitionOffsets(
        log_start=log_start, last_stable=last_stable, high_watermark=high_watermark or last_stable
    )
    return Identity(key=KEY, standing=standing, coverage=coverage, offsets=offsets, previous=None)


def after(coverage, change):
    return (coverage if change.key == KEY and coverage else Coverage(start=change.start)).changed(change)


def test_forward_skips_the_undecided_alone():
    have = Coverage(start=100, covered=Ranges.of([(100, 300), (350, 400)]))
    change = moved(identity(have), 500)
    assert (change.start, change.skipped, change.lost) == (500, Ranges.of([(300, 350), (400, 500)]), Ranges())
    assert change.counts == Counts(skipped=150)
    assert change.caught_up
    assert after(have, change).watermark == 500


def test_forward_over_what_kafka_no_longer_holds_counts_it_as_lost():
    change = moved(identity(Coverage(start=0, covered=Ranges.span(0, 40))), 500)
    assert (change.lost, change.skipped) == (Ranges.span(40, 100), Ranges.span(100, 500))


def test_back_lifts_skipped_and_leaves_covered_and_lost():
    have = Coverage(
        start=300,
        covered=Ranges.span(350, 400),
        skipped=Ranges.of([(150, 200), (300, 350)]),
        lost=Ranges.span(120, 130),
    )
    change = moved(identity(have), 100)
    assert (change.start, change.lifted, change.skipped) == (100, have.skipped, Ranges())
    assert after(have, change).undecided(0, 500) == Ranges.of([(100, 120), (130, 350), (400, 500)])


def test_back_to_the_middle_of_what_was_skipped():
    have = Coverage(start=100, skipped=Ranges.span(100, 500))
    assert after(have, moved(identity(have), 200)).undecided(0, 500) == Ranges.span(200, 500)


def test_bootstrap_latest_can_be_taken_back():
    have = Coverage(start=500)
    change = moved(identity(have), 100)
    assert after(have, change).undecided(0, 500) == Ranges.span(100, 500)


def test_an_unknown_topic_is_started():
    change = moved(identity(None, standing=Standing.UNKNOWN), 200)
    assert (change.start, change.skipped, change.lost) == (200, Ranges(), Ranges())
    covered = Coverage(start=300, covered=Ranges.span(250, 300))
    change = moved(identity(covered, standing=Standing.UNKNOWN), 100)
    assert after(covered, change).undecided(0, 500) == Ranges.of([(100, 250), (300, 500)])


def test_a_truncated_partition_goes_on_in_a_new_generation():
    have = Coverage(start=0, covered=Ranges.span(0, 200), skipped=Ranges.span(200, 900))
    change = moved(identity(have), 300)
    assert change.key.generation == 1
    assert after(None, change).undecided(0, 500) == Ranges.span(300, 500)
    assert after(None, change).covered == Ranges.span(0, 200)


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=4).map(Ranges.of)


@settings(max_examples=300)
@given(
    st.integers(0, 40), spans, spans, spans, st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted), st.data()
)
def test_from_the_new_start_on_all_but_covered_and_lost_is_read(start, covered, skipped, lost, held, data):
    have = Coverage(start=start).changed(PartitionChange(key=KEY, covered=covered, skipped=skipped, lost=lost))
    new = data.draw(st.integers(held[0], held[1]))
    change = moved(identity(have, held[0], held[1], high_watermark=held[1]), new)
    now = after(have, change)
    end = Ranges.span(0, held[1])
    assert now.start == new
    assert now.undecided(0, held[1]) == Ranges.span(new, held[1]) - now.settled
    assert not (have.covered & end) - now.covered
    assert not (have.lost & end) - now.lost
    assert (
        change.counts.lost + change.counts.skipped == len(have.undecided(have.start, new) & end)
        if change.key == KEY
        else True
    )
    # What was promised and is not read from here on is accounted for.
    if change.key == KEY:
        assert not have.undecided(have.start, new) - now.decided


# By topics


def logged(fake, **starts):
    changes = [
        PartitionChange(
            key=PartitionKey(topic=t, partition=0, cluster_id="c", topic_id=fake.catalog().topics()[t].topic_id),
            start=start,
        )
        for t, start in starts.items()
    ]
    record = Commit(
        number=0, kind=Kind.FORWARD, run=RunRef(dag_id="d", run_id="r"), clock="", attempt="", changes=tuple(changes)
    )
    return LogState().fold([(record, "")])


def cluster():
    fake = FakeCluster("c")
    for topic in ("T", "tea", "coffee"):
        fake.create_topic(topic)
        for minute in range(10):
            fake.produce(topic, 0, b"v", timestamp=millis(MIDNIGHT + timedelta(minutes=minute)))
    return fake


def decided(fake, reset, state=None):
    state = state or logged(fake, T=0, tea=0, coffee=0)
    view = look(fake.catalog(), TopicFilter(), state)
    wanted = targets(PlanRequest.of({"reset": reset}).reset, view)
    changes = decide_resets(state, view, wanted, fake.catalog().offsets_for_times)
    return {change.key.topic: change.start for change in changes}, describe(changes, wanted)


@pytest.mark.parametrize(
    ("reset", "moved_to"),
    [
        ({"T": "latest"}, {"T": 10}),
        ({"t.*": "latest"}, {"T": 10, "tea": 10}),  # row 29 of Gobblin's table: no regex there
        ({".*": "latest", "tea": "earliest"}, {"T": 10, "tea": 0, "coffee": 10}),  # a name has the last word
        ({"tea": "2026-01-01T00:04:00Z"}, {"tea": 4}),
        ({"tea": "2026-01-01T00:04:30+00:00"}, {"tea": 5}),
        ({"tea": "2027-01-01T00:00:00Z"}, {"tea": 10}),
    ],
)
def test_topics_are_moved_by_name_or_regex(reset, moved_to):
    assert decided(cluster(), reset)[0] == moved_to


def test_the_reason_says_what_it_does():
    assert decided(cluster(), {"T": "latest"})[1] == "reset: T to latest (10 offsets skipped)"


def test_a_key_that_matches_nothing_is_a_slip_of_the_pen():
    with pytest.raises(ConfigError, match="reset: got 'cofee'.*did you mean 'coffee'"):
        decided(cluster(), {"cofee": "latest"})


@pytest.mark.parametrize(
    ("elsewhere", "key", "is_foreign"),
    [
        ((), "tea", False),
        ((("tea", "milk"),), "tea", True),
        ((("tea", "milk"),), "t.*", True),
        ((("milk",),), "tea", False),
        ((None,), "anything", True),  # only the run of that ingestion knows
        ((TopicFilter(allow=["t.*"]),), "tea", True),
        ((TopicFilter(allow=["t.*"]),), "teaa", False),  # the filter would take it, but there is no such topic
        ((TopicFilter(allow=["t.*"]),), "T|tea", True),
        ((TopicFilter(allow=["coff.*"]),), "tea", False),
    ],
)
def test_a_key_for_another_ingestion_of_the_dag_is_no_slip_of_the_pen(elsewhere, key, is_foreign):
    fake = cluster()
    view = look(fake.catalog(), ("coffee",), logged(fake, coffee=0))
    reset = PlanRequest.of({"reset": {key: "latest", "coffee": "latest"}}).reset
    foreign = foreign_keys(reset, view, elsewhere, fake.catalog().topics)
    assert [found.text for found in foreign] == ([key] if is_foreign else [])
    if is_foreign:
        assert targets(reset, view, foreign).keys() == {"coffee"}
    else:
        with pytest.raises(ConfigError, match=rf"reset: got '{key}'"):
            targets(reset, view, foreign)


def test_a_topic_that_can_not_be_looked_at_leaves_everything_as_it_is():
    fake = cluster()
    state = logged(fake, T=0, tea=0, coffee=0)
    fake.lose_leader("tea", 0)
    with pytest.raises(PlanningError, match="reset: topic tea: no_leader.*nothing was changed"):
        decided(fake, {"t.*": "latest"}, state)
