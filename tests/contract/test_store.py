"""What every store promises (`airflow_kafka_hdfs/ports/store.py`), on every kind of store; files are next door."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from airflow_kafka_hdfs.adapters.storage.probe import probe
from airflow_kafka_hdfs.exceptions import StoreRefusedError
from airflow_kafka_hdfs.model import PRIVATE, Modes
from tests.contract.stores import RACERS, race, shown, stage

NAMES = [
    "events+20261129T213600Z-0a1b2c3d+7+0+3+100+199.avro",
    "Füße 中文 🙂.avro",
    "country=DE&city=K%C3%B6ln",
    "100% a+b=c;d,e'f\"g(h)[i]{j}*?.jsonl",
    "back\\slash #hash ~tilde @at !bang $dollar",
    ".hidden",
    "_under",
    "a" * 255,
]
TRICKS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../outside",
    "a/../../outside",
    "a/./b",
    "a//b",
    "a/",
    "a:b",
    "nul\0",
    "line\nbreak",
    "\udcff",
    "b" * 256,
    "ü" * 128,
]


# put_if_absent and get


def test_a_file_that_was_put_can_be_read_back_by_another_process(bench):
    assert bench.open().put_if_absent("log/000/0", b"first") is True
    assert bench.open().get("log/000/0") == b"first"


@pytest.mark.bug(100)
def test_the_second_put_of_other_content_says_no_and_the_first_content_stays(store):
    assert store.put_if_absent("log/0", b"first") is True
    assert store.put_if_absent("log/0", b"other") is False
    assert store.put_if_absent("log/0", b"first and longer") is False
    assert store.get("log/0") == b"first"


def test_the_same_content_twice_is_ours_both_times(bench):
    assert bench.open().put_if_absent("log/0", b"first") is True
    assert bench.open().put_if_absent("log/0", b"first") is True


def test_any_bytes_come_back_unchanged(store):
    data = bytes(range(256)) * 3_000
    assert store.put_if_absent("binary", data) is True
    assert store.get("binary") == data


@pytest.mark.parametrize(("start", "size"), [(0, 4), (3, 2), (8, 100), (10, 5), (99, 5)])
def test_a_part_of_a_file_is_read_as_far_as_the_file_goes(store, start, size):
    store.put_if_absent("log/0", b"0123456789")
    assert store.get_part("log/0", start, size) == b"0123456789"[start : start + size]
    assert store.get_part("log/1", start, size) is None
    assert store.get_part("log", start, size) is None


def test_nothing_but_the_file_is_left_in_its_folder(store):
    store.put_if_absent("log/0", b"first")
    store.put_if_absent("log/0", b"other")
    assert shown(store.list("log")) == [("log/0", 5, False)]


@pytest.mark.bug(101)
def test_an_empty_file_is_refused(store):
    with pytest.raises(StoreRefusedError, match="empty"):
        store.put_if_absent("log/0", b"")
    assert store.get("log/0") is None


def test_a_put_onto_a_folder_is_refused(store):
    store.put_if_absent("log/0", b"first")
    with pytest.raises(StoreRefusedError, match="folder|directory"):
        store.put_if_absent("log", b"first")
    assert shown(store.list("log")) == [("log/0", 5, False)]


def test_a_put_below_a_file_is_refused(bench, store):
    store.put_if_absent("log", b"a file")
    if not bench.has_folders:
        assert store.put_if_absent("log/0", b"first") is True
        return
    with pytest.raises(StoreRefusedError, match="log"):
        store.put_if_absent("log/0", b"first")
    assert store.get("log") == b"a file"


def test_nothing_is_there_before_something_was_put(store):
    assert store.get("log/0") is None
    assert store.status("log/0") is None
    assert store.status("log") is None
    assert store.list("log") == []
    assert store.list("") == []


def test_what_lies_below_a_file_is_not_there(store):
    store.put_if_absent("log", b"a file")
    assert store.get("log/0") is None
    assert store.status("log/0") is None
    assert store.list("log/0") == []
    assert store.list("log") == []


def test_a_folder_has_no_content(store):
    store.put_if_absent("log/0", b"first")
    assert store.get("log") is None


@pytest.mark.bug(100, 101)
def test_of_racing_puts_exactly_one_wins_and_all_agree_on_it(bench):
    stores = [bench.open() for _ in range(RACERS)]
    for round_ in range(3):
        answers = race(lambda number, path=f"log/{round_}": stores[number].put_if_absent(path, b"writer %d" % number))
        assert sorted(answers) == [False] * (RACERS - 1) + [True]
        assert stores[0].get(f"log/{round_}") == b"writer %d" % answers.index(True)


def test_racing_puts_of_one_content_are_all_ours(bench):
    stores = [bench.open() for _ in range(RACERS)]
    assert race(lambda number: stores[number].put_if_absent("log/0", b"same")) == [True] * RACERS


def test_one_store_object_serves_many_threads(store):
    answers = race(lambda number: store.put_if_absent(f"units/{number}", b"unit %d" % number))
    assert answers == [True] * RACERS
    assert [store.get(f"units/{number}") for number in range(RACERS)] == [b"unit %d" % n for n in range(RACERS)]


# names


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_foreign_names_survive_every_call(store, name):
    folder = f"dir {name[:20]}/x"
    assert store.put_if_absent(f"{folder}/{name}", b"record") is True
    assert store.get(f"{folder}/{name}") == b"record"
    assert store.status(f"{folder}/{name}").size == 6
    assert shown(store.list(folder)) == [(f"{folder}/{name}", 6, False)]
    size = stage(store, f"staging/{name}", b"content")
    assert store.promote(f"staging/{name}", f"moved {folder}/{name}", size) is True
    assert store.get(f"moved {folder}/{name}") == b"content"
    store.delete(f"moved {folder}/{name}")
    assert store.status(f"moved {folder}/{name}") is None
    store.delete(folder, recursive=True)
    assert store.list(folder) == []


@pytest.mark.parametrize("path", TRICKS)
def test_a_path_that_leaves_the_root_or_no_store_can_hold_is_refused(store, path):
    store.put_if_absent("staged", b"content")
    calls = [
        lambda: store.put_if_absent(path, b"x"),
        lambda: store.get(path),
        lambda: store.create(path),
        lambda: store.promote(path, "target", 7),
        lambda: store.promote("staged", path, 7),
        lambda: store.delete(path),
        lambda: store.delete(path, recursive=True),
    ]
    if path:
        calls += [lambda: store.list(path), lambda: store.status(path)]
    for call in calls:
        with pytest.raises(StoreRefusedError, match="not allowed|bytes, allowed"):
            call()
    assert shown(store.list("")) == [("staged", 7, False)]


# list and status


def test_a_listing_shows_direct_children_sorted_by_path(store):
    for path in ("data/b", "data/a/1", "data/a/2", "data/c/x/y", "datafile", "data/B"):
        store.put_if_absent(path, b"12345")
    assert shown(store.list("data")) == [
        ("data/B", 5, False),
        ("data/a", 0, True),
        ("data/b", 5, False),
        ("data/c", 0, True),
    ]
    assert shown(store.list("")) == [("data", 0, True), ("datafile", 5, False)]


def test_a_listing_shows_what_another_process_just_did(bench):
    mine, theirs = bench.open(), bench.open()
    assert mine.list("log") == []
    for number in range(3):
        theirs.put_if_absent(f"log/{number}", b"record")
        assert len(mine.list("log")) == number + 1
    theirs.delete("log/1")
    assert [status.name for status in mine.list("log")] == ["0", "2"]


def test_a_status_tells_size_kind_and_time(store):
    store.put_if_absent("log/0", b"first")
    file, folder = store.status("log/0"), store.status("log")
    assert (file.path, file.size, file.is_dir) == ("log/0", 5, False)
    assert file.modified is not None
    assert file.modified > 0
    assert (folder.path, folder.size, folder.is_dir) == ("log", 0, True)
    assert store.list("log")[0].modified == pytest.approx(file.modified, abs=1.5)


def test_the_root_itself_has_a_status_once_something_is_in_it(store):
    store.put_if_absent("log/0", b"first")
    assert store.status("").is_dir


def test_a_long_folder_is_listed_whole(store):
    with ThreadPoolExecutor(RACERS) as pool:
        list(pool.map(lambda number: store.put_if_absent(f"many/{number:04}", b"x"), range(60)))
    assert [status.name for status in store.list("many")] == [f"{number:04}" for number in range(60)]


# delete


def test_deleting_is_repeatable_and_missing_is_fine(store):
    store.put_if_absent("log/0", b"first")
    for _ in range(2):
        store.delete("log/0")
        assert store.get("log/0") is None
    store.delete("never/there")
    store.delete("never/there", recursive=True)


def test_a_folder_goes_with_all_in_it_and_nothing_else(store):
    for path in ("staging/p/1/a", "staging/p/1/b/c", "staging/p/2", "staging/p1", "staging/pp/x"):
        store.put_if_absent(path, b"x")
    store.delete("staging/p", recursive=True)
    assert shown(store.list("staging")) == [("staging/p1", 1, False), ("staging/pp", 0, True)]
    assert store.status("staging/p") is None


def test_wildcards_in_names_are_only_names(store):
    for path in ("staging/[ab]/x", "staging/a/x", "staging/*/x", "staging/b"):
        store.put_if_absent(path, b"x")
    store.delete("staging/[ab]", recursive=True)
    store.delete("staging/*", recursive=True)
    assert shown(store.list("staging")) == [("staging/a", 0, True), ("staging/b", 1, False)]


def test_a_full_folder_does_not_go_by_mistake(bench, store):
    store.put_if_absent("staging/a/x", b"x")
    with pytest.raises(StoreRefusedError, match="recursive") if bench.has_folders else nullcontext():
        store.delete("staging/a")
    assert store.get("staging/a/x") == b"x"


# the start-up probe


def test_the_probe_finds_nothing_wrong_and_leaves_nothing_behind(store):
    store.put_if_absent("of a user", b"x")
    probe(store)
    assert shown(store.list("")) == [("of a user", 1, False)]


def test_a_store_whose_root_is_not_there_yet_can_be_probed(store):
    probe(store)
    assert store.list("") == []


# modes


def test_files_and_folders_get_the_modes_that_were_asked_for(moded):
    store = moded.open(file_mode=0o640, dir_mode=0o750)
    store.put_if_absent("log/000/0", b"record")
    store.promote("staging/a", "data/x/a", stage(store, "staging/a", b"content"))
    store.promote("staging/big", "data/x/big", stage(store, "staging/big", b"x" * 200_000))
    assert [moded.mode(path) for path in ("log/000/0", "data/x/a", "data/x/big")] == [0o640] * 3
    assert [moded.mode(path) for path in ("log", "log/000", "staging", "data", "data/x")] == [0o750] * 5


def test_a_file_and_its_new_folders_may_have_modes_of_their_own(moded):
    store, own = moded.open(file_mode=0o640, dir_mode=0o750), Modes(file=0o664, folder=0o770)
    for name, content in (("a", b"content"), ("big", b"x" * 200_000)):
        writer = store.create(f"staging/{name}", modes=Modes(file=0o664))
        writer.write(content)
        writer.close()
        assert store.promote(f"staging/{name}", f"data/x/{name}", len(content), modes=own)
    store.promote("staging/c", "data/y/c", stage(store, "staging/c", b"content"))
    assert [moded.mode(f"data/{name}") for name in ("x/a", "x/big", "y/c")] == [0o664, 0o664, 0o640]
    assert [moded.mode(path) for path in ("staging", "data", "data/x", "data/y")] == [0o750, 0o770, 0o770, 0o750]


def test_a_store_tells_whether_it_has_modes(store, request):
    assert store.has_modes == ("s3" not in request.node.callspec.id)


def test_without_a_mode_the_store_decides(moded):
    store = moded.open()
    store.put_if_absent("log/0", b"record")
    store.promote("staging/a", "data/a", stage(store, "staging/a", b"content"))
    assert {moded.mode("log/0"), moded.mode("data/a")} == {0o644}
    assert {moded.mode("log"), moded.mode("data")} == {0o755}


@pytest.mark.parametrize("size", [7, 200_000])
def test_private_files_and_new_folders_are_for_their_owner_alone(moded, size):
    store = moded.open(file_mode=0o664, dir_mode=0o775)
    writer = store.create("quarantine/staged/a", modes=PRIVATE)
    writer.write(b"x" * size)
    writer.close()
    assert moded.mode("quarantine/staged/a") == 0o600
    assert moded.mode("quarantine/staged") == 0o700
    assert store.promote("quarantine/staged/a", "quarantine/topic/a", size, modes=PRIVATE)
    assert moded.mode("quarantine/topic/a") == 0o600
    assert moded.mode("quarantine/topic") == 0o700


# memory


def test_a_large_file_is_streamed_and_not_held_in_memory(streaming):
    store, chunk = streaming.open(), b"0123456789abcdef" * 4096
    tracemalloc.start()
    try:
        writer = store.create("staging/large")
        for _ in range(1024):
            writer.write(chunk)
        writer.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert store.status("staging/large").size == 64 * 1024 * 1024
    assert peak < 2_000_000


def test_a_store_shows_its_root_and_no_more_in_its_repr(bench):
    store = bench.open()
    assert store.root
    assert "testing" not in repr(store)
    assert not store.root.endswith("/")
