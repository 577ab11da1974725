"""Names hold on every store, can be read back, and nothing that is written into them leaves its folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.storage.paths import check_path
from airflow_kafka_hdfs.ingest.layout import DataPaths, FileName, escape, file_topic, unescape

PLAN = "20260101T000000Z-0123abcd"
texts = st.text(min_size=1, max_size=20)
topics = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True)


@given(texts)
def test_an_escaped_text_is_one_visible_element_and_can_be_read_back(text):
    element = escape(text)
    assert unescape(element) == text
    assert check_path("test", element) == element
    assert not {"/", "+", "=", ":"} & set(element)
    assert element[0] not in "._"


def test_lone_surrogates_survive():
    assert unescape(escape("\ud800x")) == "\ud800x"


@given(topics, st.integers(0, 999), st.integers(0, 10**6), st.none() | st.tuples(*[st.integers(0, 10**15)] * 3))
def test_file_names_fit_every_store_and_are_read_back(topic, task, index, offsets):
    name = FileName(topic=topic, plan=PLAN, task=task, index=index, extension=".avro", offsets=offsets)
    assert check_path("test", str(name)) == str(name)
    assert str(name)[0] not in "._"
    parsed = FileName.parse(str(name))
    assert (parsed.task, parsed.index, parsed.offsets, parsed.extension) == (task, index, offsets, ".avro")
    assert parsed.topic == topic or (len(topic) > 150 and file_topic(topic) == escape(parsed.topic))
    assert parsed.plan == PLAN


def test_long_topics_with_one_beginning_have_different_names():
    assert file_topic("t" * 248 + "a") != file_topic("t" * 248 + "b")


@pytest.mark.parametrize("topic", ["..", "_schemas", ".hidden", "a/../../b"])
def test_no_topic_leaves_its_folder(topic):
    paths = DataPaths("etl.events")
    for path in (paths.owner(topic), paths.quarantine(topic, PLAN, 3)):
        check_path("test", path)
        assert path.startswith(".kafka_hdfs/")


@pytest.mark.parametrize("name", ["a.b.c", "a-1-2", "x"])
@pytest.mark.parametrize("extension", [".avro", ".jsonl.gz", ".snappy.parquet", ""])
@pytest.mark.bug(41, 42)
def test_dots_in_topics_and_double_extensions_do_not_confuse(name, extension):
    text = str(FileName(topic=name, plan=PLAN, task=0, index=9, extension=extension, offsets=(0, 0, 9)))
    assert FileName.parse(text) == FileName(
        topic=name, plan=PLAN, task=0, index=9, extension=extension, offsets=(0, 0, 9)
    )


@pytest.mark.parametrize("name", ["part-0.avro", "a+b+0+1.avro", f"a+{PLAN}+x+1.avro", f".a+{PLAN}+0+1.avro/b"])
def test_other_names_are_not_taken_for_ours(name):
    assert FileName.parse(name) is None
