"""The look at the cluster: which topics it asks for, and which cluster it refuses."""

import pytest

from airflow_kafka_hdfs.exceptions import ClusterChangedError
from airflow_kafka_hdfs.ingest.cluster_view import look
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import held_by_cluster
from airflow_kafka_hdfs.ingest.records import PartitionChange
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from tests.fakes.kafka import FakeCluster
from tests.unit.ingest.deciding import commit, key, read_up_to


def test_a_filter_asks_for_all_topics_and_a_list_only_for_its_own():
    calls = []
    fake = FakeCluster(on_call=calls.append)
    fake.create_topic("t1", 2)
    fake.create_topic("u1", 1)
    listed = look(fake.catalog(), ("t1",), LogState())
    assert calls == ["kafka.cluster_id", "kafka.describe", "kafka.offsets"]
    calls.clear()
    filtered = look(fake.catalog(), TopicFilter(allow=["T.*"]), LogState())
    assert calls == ["kafka.cluster_id", "kafka.topics", "kafka.offsets"]
    assert listed == filtered
    assert len(filtered.offsets) == 2


def test_a_misspelt_topic_is_told_with_the_nearest_name_that_the_cluster_has():
    calls = []
    fake = FakeCluster("c", on_call=calls.append)
    first = fake.create_topic("clicks")
    view = look(fake.catalog(), ("clikcs", "orders"), LogState())
    assert view.hints == {"clikcs": "did you mean 'clicks'?"}
    held = held_by_cluster(view, "clikcs")
    assert held.detail.startswith("there is no such topic: create it")
    assert held.detail.endswith("did you mean 'clicks'?")
    calls.clear()
    gone = commit(LogState(), PartitionChange(key=key(topic="click", topic_id=first), start=0))
    assert look(fake.catalog(), ("click",), gone).hints == {}  # it was there once
    assert "kafka.topics" not in calls


def test_a_known_topic_that_is_no_longer_listed_is_asked_for_by_name():
    fake = FakeCluster("c")
    first = fake.create_topic("t1")
    fake.create_topic("t2")
    state = commit(LogState(), *(PartitionChange(key=key(topic=t, topic_id=first), start=0) for t in ("t1", "t2")))
    fake.deny("t1")
    fake.delete_topic("t2")
    view = look(fake.catalog(), TopicFilter(), state)
    assert {name: info.fault for name, info in view.topics.items()} == {"t1": "denied"}


@pytest.mark.bug(77)
def test_another_cluster_is_refused_with_both_ids():
    fake = FakeCluster("other")
    with pytest.raises(ClusterChangedError, match="cluster id other, the commit log knows c.*state set --cluster"):
        look(fake.catalog(), ("T",), read_up_to(5))
    assert look(fake.catalog(), ("T",), LogState()).cluster_id == "other"
