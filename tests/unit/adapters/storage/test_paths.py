import os.path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.storage.paths import check_folder, check_path, is_temp, join, parent, temp_beside
from airflow_kafka_hdfs.exceptions import StoreRefusedError


@given(st.text(alphabet=st.sampled_from("a.:/\\\0é\n ~"), max_size=12))
def test_no_path_that_passes_leads_out_of_the_root(path):
    try:
        check_path("get", path)
    except StoreRefusedError:
        return
    place = os.path.normpath(os.path.join("/store", path))
    assert place.startswith("/store/")
    assert place == f"/store/{path}"


@given(st.text(max_size=40).filter(lambda text: ".." in text.split("/") or ":" in text or text[:1] in ("", "/")))
def test_a_refusal_shows_what_was_given(path):
    with pytest.raises(StoreRefusedError) as refusal:
        check_path("get", path)
    assert repr(path) in str(refusal.value)


@given(st.text(alphabet="abcÄ%+= #?*[]", min_size=1, max_size=40))
def test_a_path_that_passes_comes_back_unchanged(path):
    assert check_path("get", path) == path


@given(st.lists(st.text(alphabet="ab.=+%", min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_folder_and_a_name_make_the_path_again(elements):
    path = "/".join(elements)
    assert join(parent(path), elements[-1]) == path


def test_the_root_is_a_folder_but_no_file():
    assert check_folder("list", "") == ""
    with pytest.raises(StoreRefusedError):
        check_path("get", "")


def test_hidden_names_are_fresh_lie_beside_the_file_and_are_known_again():
    names = {temp_beside("a/b/c") for _ in range(100)}
    assert len(names) == 100
    for name in names:
        assert parent(check_path("put", name)) == "a/b"
        assert is_temp(name.rpartition("/")[2])


@pytest.mark.parametrize("name", [".put-", ".put-xyz", "put-" + "0" * 32, ".put-" + "0" * 33, "0"])
def test_other_names_are_not_taken_for_hidden_ones(name):
    assert not is_temp(name)
