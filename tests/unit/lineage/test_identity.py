"""Spellings of one dataset fold into one name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.identity import DatasetId, Naming, digest, trim_partitions

PLAIN = Naming()
CLUSTERS = Naming(clusters={"main": ("b1:9092", "B2")}, default_fs="nn:8020")


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("kafka://B1:9092/Topic", "kafka://b1:9092", "Topic"),
        ("kafka://b1/t", "kafka://b1:9092", "t"),
        ("kafka://b1/t/", "kafka://b1:9092", "t"),
        ("SASL_SSL://b1:9092/t", "kafka://b1:9092", "t"),
        ("kafka://SASL_SSL://b1:9092,SASL_SSL://b2:9092/t", "kafka://b1:9092", "t"),
        ("hdfs://NN:8020/a/b/", "hdfs://nn:8020", "/a/b"),
        ("webhdfs://nn:9870/a/b", "hdfs://nn:9870", "/a/b"),
        ("hdfs://ns1/a", "hdfs://ns1", "/a"),
        ("hdfs://nn:8020//a//b", "hdfs://nn:8020", "/a/b"),
        ("hdfs://user:secret@nn:8020/a#part", "hdfs://nn:8020", "/a"),
        ("file:///tmp/a/", "file", "/tmp/a"),
        ("file://host/tmp/a", "file://host", "/tmp/a"),
        ("s3a://Bucket/a/b", "s3://bucket", "a/b"),
        ("hive://meta:9083/db.t", "hive://meta:9083", "db.t"),
        ("hive://meta:9083/db/t", "hive://meta:9083", "db.t"),
        ("postgresql://pg:5432/db/public/t", "postgres://pg:5432", "db.public.t"),
        ("bigquery://project/set/t", "bigquery", "project.set.t"),
        ("x-api://host/a?b=2&a=1", "x-api://host", "a?a=1&b=2"),
        ("hdfs://nn/orders/@hourly", "hdfs://nn", "/orders"),
    ],
)
def test_a_uri_has_one_canonical_name(uri, namespace, name):
    assert PLAIN.resolve(uri).dataset == DatasetId(namespace, name)


def test_an_asset_without_a_scheme_is_known_by_its_name():
    assert PLAIN.resolve("orders", "Orders").dataset == DatasetId("asset", "Orders")
    assert PLAIN.resolve("orders").dataset == DatasetId("asset", "orders")


def test_brokers_of_a_known_cluster_take_its_name():
    for uri in ("kafka://b2:9092,x:1/t", "kafka://B1/t", "kafka://main/t", "SASL_SSL://b1:9092/t"):
        assert CLUSTERS.resolve(uri).dataset == DatasetId("kafka://main", "t")


def test_the_other_brokers_of_an_unknown_cluster_become_aliases():
    located = PLAIN.resolve("kafka://b2:9092,b1/t")
    assert located.dataset == DatasetId("kafka://b2:9092", "t")
    assert located.aliases == (DatasetId("kafka://b1:9092", "t"),)


def test_a_path_without_a_name_node_takes_the_default_or_is_refused():
    assert CLUSTERS.resolve("hdfs:///a").dataset == DatasetId("hdfs://nn:8020", "/a")
    with pytest.raises(LineageError, match="default_fs"):
        PLAIN.resolve("hdfs:///a")


@pytest.mark.parametrize("uri", ["", "kafka://b1", "kafka:///t"])
def test_a_uri_that_names_nothing_is_refused(uri):
    with pytest.raises(LineageError):
        PLAIN.resolve(uri)


@pytest.mark.parametrize(
    ("path", "dataset", "subset"),
    [
        ("/data/orders/dt=2024-01-01/hour=03", "/data/orders", "dt=2024-01-01/hour=03"),
        ("/data/orders/2024/01/01", "/data/orders", "2024/01/01"),
        ("/data/orders/2024/01/01/03", "/data/orders", "2024/01/01/03"),
        ("/data/orders/2024/01", "/data/orders", "2024/01"),
        ("/data/orders/20240101", "/data/orders", "20240101"),
        ("/data/orders/2024-01-01", "/data/orders", "2024-01-01"),
        ("/data/orders/country=DE/2024/01/01/", "/data/orders", "country=DE/2024/01/01"),
        ("/data/orders", "/data/orders", ""),
        ("/data/v20240199", "/data/v20240199", ""),
        ("/data/20249901", "/data/20249901", ""),
        ("/data/2024", "/data/2024", ""),
        ("/2024/01/01", "/2024/01/01", ""),
        ("/dt=2024-01-01", "/dt=2024-01-01", ""),
    ],
)
def test_partition_folders_at_the_end_are_cut_off(path, dataset, subset):
    assert trim_partitions(path) == (dataset, subset)


def test_object_stores_keep_their_partition_folders_unless_told():
    assert PLAIN.resolve("s3://b/a/dt=1").dataset.name == "a/dt=1"
    trimming = Naming(trim_schemes=frozenset({"s3"}))
    assert trimming.resolve("s3://b/a/dt=1").dataset.name == "a"


def test_names_from_other_producers_meet_ours():
    assert PLAIN.of_pair("hdfs://nn:8020", "data/orders").dataset == DatasetId("hdfs://nn:8020", "/data/orders")
    assert PLAIN.of_pair("hdfs://nn:8020", "/data/orders").dataset == DatasetId("hdfs://nn:8020", "/data/orders")
    assert PLAIN.of_pair("file", "/tmp/a").dataset == PLAIN.resolve("file:///tmp/a").dataset
    assert PLAIN.of_pair("bigquery", "p.s.t").dataset == DatasetId("bigquery", "p.s.t")
    with pytest.raises(LineageError, match="both are needed"):
        PLAIN.of_pair("", "t")


hosts = st.sampled_from(["nn", "NN:8020", "b1", "b1:9092", "b2:9092,b1", "main", "u@h:1"])
paths = st.lists(st.sampled_from(["a", "B", "dt=1", "2024", "01", "20240101", "@hourly", ""]), max_size=5).map("/".join)


@given(st.sampled_from(["kafka", "hdfs", "webhdfs", "file", "s3a", "hive", "x-other", "SASL_SSL"]), hosts, paths)
def test_a_canonical_name_is_its_own_canonical_name(scheme, host, path):
    try:
        once = CLUSTERS.resolve(f"{scheme}://{host}/{path}").dataset
    except LineageError:
        return
    assert CLUSTERS.of_pair(once.namespace, once.name).dataset == once


@given(st.lists(st.text(max_size=4), min_size=1, max_size=3), st.lists(st.text(max_size=4), min_size=1, max_size=3))
def test_different_names_have_different_keys(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)
