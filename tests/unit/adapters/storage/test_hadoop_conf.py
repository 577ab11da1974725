import pytest

from airflow_kafka_hdfs.adapters.storage.hadoop_conf import read_property

SITE = "<configuration><property><name> {name} </name><value> {value} </value></property></configuration>"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("HADOOP_HOME", raising=False)


def test_a_property_is_read_from_either_file_and_the_later_one_wins(tmp_path):
    (tmp_path / "core-site.xml").write_text(SITE.format(name="fs.defaultFS", value="hdfs://old"))
    assert read_property("fs.defaultFS", str(tmp_path)) == "hdfs://old"
    (tmp_path / "hdfs-site.xml").write_text(SITE.format(name="fs.defaultFS", value="hdfs://lake"))
    assert read_property("fs.defaultFS", str(tmp_path)) == "hdfs://lake"
    assert read_property("dfs.nameservices", str(tmp_path)) is None


def test_the_folder_comes_from_the_environment_if_none_is_given(tmp_path, monkeypatch):
    assert read_property("fs.defaultFS") is None
    (tmp_path / "etc" / "hadoop").mkdir(parents=True)
    (tmp_path / "etc" / "hadoop" / "core-site.xml").write_text(SITE.format(name="fs.defaultFS", value="hdfs://home"))
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    assert read_property("fs.defaultFS") == "hdfs://home"
    (tmp_path / "core-site.xml").write_text(SITE.format(name="fs.defaultFS", value="hdfs://conf"))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert read_property("fs.defaultFS") == "hdfs://conf"


def test_files_that_are_broken_or_missing_say_nothing(tmp_path):
    (tmp_path / "core-site.xml").write_text("<configuration>")
    assert read_property("fs.defaultFS", str(tmp_path)) is None
