"""Which store a URI and a connection mean. No service is asked: settings are checked before the first call."""

import json
import os

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.hdfs_native_form import HDFS_NATIVE_CONNECTION_TYPE
from airflow_kafka_hdfs.hooks.storage import store_for
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.runtime import KnownRuns


@pytest.fixture
def connection(monkeypatch):
    def define(conn_id: str, **fields: object) -> str:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
        return conn_id

    return define


@pytest.fixture(autouse=True)
def no_user(monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "unset-after-the-test")
    monkeypatch.delenv("HADOOP_USER_NAME")


def test_a_file_uri_and_a_plain_path_are_a_local_store(tmp_path):
    for uri in (str(tmp_path / "a b"), (tmp_path / "a b").as_uri(), f"{tmp_path}/a b/"):
        store = store_for(uri)
        assert store.root == (tmp_path / "a b").as_uri()
        store.put_if_absent("log/0", b"record")
    assert (tmp_path / "a b" / "log" / "0").read_bytes() == b"record"


@pytest.mark.parametrize("uri", ["data", "./data", "~/data", "file://data", ""])
def test_a_relative_path_is_refused(uri):
    with pytest.raises(ConfigError, match=r"absolute|three slashes"):
        store_for(uri)


@pytest.mark.parametrize("uri", ["/data/../etc", "webhdfs:///a/./b", "hdfs://nn/a//b", "s3://bucket/../other", "/a:b"])
def test_a_root_that_no_store_can_hold_is_refused(uri):
    with pytest.raises(ConfigError, match="not allowed"):
        store_for(uri)


@pytest.mark.parametrize("scheme", ["webhdfs", "hdfs", "s3"])
def test_user_and_password_in_a_uri_are_refused_and_not_shown(scheme):
    with pytest.raises(ConfigError, match="belong into the connection") as refusal:
        store_for(f"{scheme}://etl:geheim@host/data")
    assert "geheim" not in str(refusal.value)


def test_a_connection_for_a_local_folder_is_refused(tmp_path, connection):
    with pytest.raises(ConfigError, match="storage_conn_id"):
        store_for(str(tmp_path), connection("webhdfs_default", conn_type="webhdfs", host="nn", port=9870))


def test_webhdfs_without_its_connection_says_how_to_make_one():
    with pytest.raises(ConfigError, match="AIRFLOW_CONN_LAKE=.*webhdfs"):
        store_for("webhdfs:///data", "lake")


def test_webhdfs_takes_its_name_nodes_from_the_connection(connection):
    connection("webhdfs_default", conn_type="webhdfs", host="nn1, nn2", port=9870, login="etl", password="geheim")
    for uri in ("webhdfs:///data/x/", "webhdfs://nn1:9870/data/x", "webhdfs://nn2/data/x"):
        store = store_for(uri)
        assert store.root == uri.rstrip("/")
        assert "geheim" not in repr(store)


@pytest.mark.parametrize("uri", ["webhdfs://other:9870/data", "webhdfs://nn1:9871/data", "webhdfs://nn3/data"])
def test_a_webhdfs_uri_that_names_another_cluster_is_refused(uri, connection):
    connection("webhdfs_default", conn_type="webhdfs", host="nn1,nn2", port=9870)
    with pytest.raises(ConfigError, match="webhdfs://nn1:9870, webhdfs://nn2:9870"):
        store_for(uri)


@pytest.mark.parametrize("fields", [{"host": "nn1"}, {"port": 9870}, {"host": " , ", "port": 9870}])
def test_a_webhdfs_connection_without_host_or_port_is_refused(fields, connection):
    connection("webhdfs_default", conn_type="webhdfs", **fields)
    with pytest.raises(ConfigError, match="host and port"):
        store_for("webhdfs:///data")


def test_swebhdfs_needs_a_connection_with_tls(connection):
    connection("plain", conn_type="webhdfs", host="nn", port=9871)
    connection("tls", conn_type="webhdfs", host="nn", port=9871, extra=json.dumps({"use_ssl": True}))
    with pytest.raises(ConfigError, match="use_ssl"):
        store_for("swebhdfs:///data", "plain")
    assert store_for("swebhdfs:///data", "tls").root == "swebhdfs:///data"


def test_native_hdfs_needs_no_connection_if_the_uri_names_the_name_node():
    assert store_for("hdfs://nn:8020/data").root == "hdfs://nn:8020/data"


def test_native_hdfs_without_any_address_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    with pytest.raises(ConfigError, match=r"fs\.defaultFS"):
        store_for("hdfs:///data")


def test_native_hdfs_takes_address_settings_and_user_from_its_connection(connection, tmp_path):
    (tmp_path / "core-site.xml").write_text("<configuration></configuration>")
    extra = {"hadoop_conf_dir": str(tmp_path), "properties": {"dfs.client.failover.max.attempts": 3}}
    connection(
        "hdfs_native_default", conn_type="hdfs_native", host="nn", port=8020, login="etl", extra=json.dumps(extra)
    )
    assert store_for("hdfs:///data").root == "hdfs:///data"
    assert store_for("hdfs://nn:8020/data").root == "hdfs://nn:8020/data"
    assert os.environ["HADOOP_USER_NAME"] == "etl"
    with pytest.raises(ConfigError, match="hdfs://nn:8020, as connection hdfs_native_default says"):
        store_for("hdfs://other/data")


def test_a_second_user_in_one_process_is_refused_for_native_hdfs(connection, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    connection("hdfs_native_default", conn_type="hdfs_native", host="nn", port=8020, login="etl")
    with pytest.raises(ConfigError, match="one user for a process"):
        store_for("hdfs:///data")


def test_properties_that_are_no_object_are_refused(connection):
    extra = json.dumps({"properties": "a=b"})
    connection("hdfs_native_default", conn_type="hdfs_native", host="nn", port=8020, extra=extra)
    with pytest.raises(ConfigError, match="object of Hadoop properties"):
        store_for("hdfs:///data")


def test_s3_takes_its_options_from_the_connection_and_shows_no_secret(connection):
    extra = json.dumps({"endpoint_url": "http://127.0.0.1:1", "region_name": "eu-central-1"})
    connection("lake", conn_type="aws", login="the-key", password="geheim", extra=extra)
    store = store_for("s3://bucket/prefix/", "lake")
    assert store.root == "s3://bucket/prefix"
    assert "geheim" not in repr(store)


@pytest.mark.parametrize("options", [{"file_mode": 0o640}, {"dir_mode": "750"}])
def test_modes_for_an_object_store_are_refused(options):
    with pytest.raises(ConfigError, match="no permission bits"):
        store_for("s3://bucket/prefix", **options)


@pytest.mark.parametrize("override", [{"file_mode": 0o640}, {"dir_mode": "750"}])
def test_modes_of_one_topic_for_an_object_store_are_refused_before_anything_is_asked(override, airflow_home):
    from airflow_kafka_hdfs.operators.ports import open_context

    arguments = {"topics": ["events"], "destination": "s3://bucket/prefix", "pipeline_id": "p"}
    config = IngestConfig.of({**arguments, "topic_overrides": {"events": override}})
    with pytest.raises(ConfigError, match=r"topic_overrides\['events'\]..*_mode: got .*: None. s3://.* no permission"):
        open_context(config, RunRef(dag_id="d", run_id="r"), KnownRuns())


@pytest.mark.parametrize("argument", ["destination", "state_uri"])
def test_a_place_that_can_not_be_opened_is_told_with_its_argument(argument, tmp_path, airflow_home):
    from airflow_kafka_hdfs.operators.ports import open_context

    arguments = {"topics": ["events"], "destination": tmp_path.as_uri(), "pipeline_id": "p"}
    config = IngestConfig.of({**arguments, argument: "webhdf://nn/data"})
    with pytest.raises(ConfigError, match=f"{argument}: got 'webhdf://nn/data'; allowed: file:///data, .*not known"):
        open_context(config, RunRef(dag_id="d", run_id="r"), KnownRuns())


def test_an_unknown_scheme_is_refused_by_name():
    with pytest.raises(ConfigError, match="gopher"):
        store_for("gopher://host/data")


def test_an_object_store_without_a_bucket_is_refused():
    with pytest.raises(ConfigError, match="s3://bucket/prefix"):
        store_for("s3:///data")


@pytest.mark.parametrize("mode", ["rw-r-----", "999", 640, 0o400, -1, 0o10000])
def test_a_mode_that_is_none_or_locks_the_owner_out_is_refused(mode, tmp_path):
    with pytest.raises(ConfigError, match="permission bits"):
        store_for(str(tmp_path), file_mode=mode)


def test_a_timeout_of_zero_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="timeout"):
        store_for(str(tmp_path), timeout=0)


def test_the_form_of_the_native_connection_fits_its_hook():
    from airflow_kafka_hdfs.hooks.hdfs_native import HdfsNativeHook

    form = HDFS_NATIVE_CONNECTION_TYPE
    assert form["connection-type"] == HdfsNativeHook.conn_type
    assert form["hook-name"] == HdfsNativeHook.hook_name
    assert form["hook-class-name"] == f"{HdfsNativeHook.__module__}.{HdfsNativeHook.__qualname__}"


def test_the_test_button_says_why_the_name_node_can_not_be_reached(connection):
    from airflow_kafka_hdfs.hooks.hdfs_native import HdfsNativeHook

    properties = {"dfs.client.failover.max.attempts": 1}
    connection(
        "broken", conn_type="hdfs_native", host="127.0.0.1", port=1, extra=json.dumps({"properties": properties})
    )
    works, text = HdfsNativeHook("broken").test_connection()
    assert not works
    assert "Connection refused" in text
