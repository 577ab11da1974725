"""Files written to staging and promoted to their places, on every kind of store."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.exceptions import StoreRefusedError
from tests.contract.stores import RACERS, race, shown, stage


def test_a_staged_file_holds_what_was_written_in_order(store):
    writer = store.create("staging/plan/task/file")
    for number in range(1_000):
        writer.write(b"%06d," % number)
    writer.close()
    assert store.get("staging/plan/task/file") == b"".join(b"%06d," % number for number in range(1_000))
    assert store.status("staging/plan/task/file").size == 7_000


def test_chunks_of_all_sizes_add_up(store):
    chunks = [b"a", b"", b"b" * 100_000, b"c" * 65_536, b"d" * 3, b"e" * 1_000_000]
    writer = store.create("staging/file")
    for chunk in chunks:
        writer.write(chunk)
    writer.close()
    assert store.get("staging/file") == b"".join(chunks)


def test_several_files_are_written_side_by_side(store):
    writers = [store.create(f"staging/{number}") for number in range(RACERS)]
    for turn in range(3):
        for number, writer in enumerate(writers):
            writer.write(b"%d-%d " % (number, turn))
    assert race(lambda number: writers[number].close()) == [None] * RACERS
    assert [store.get(f"staging/{number}") for number in range(RACERS)] == [
        b"%d-0 %d-1 %d-2 " % (number, number, number) for number in range(RACERS)
    ]


def test_a_staged_file_without_content_is_refused_at_its_close(store):
    with pytest.raises(StoreRefusedError, match="empty"):
        store.create("staging/file").close()


def test_a_name_that_is_taken_is_refused_for_staging(store):
    stage(store, "staging/file", b"first")
    with pytest.raises(StoreRefusedError, match=r"taken|stands there"):
        store.create("staging/file")
    assert store.get("staging/file") == b"first"


def test_a_folder_is_refused_for_staging(store):
    stage(store, "staging/file", b"first")
    with pytest.raises(StoreRefusedError, match=r"taken|stands there"):
        store.create("staging")


def test_a_file_given_up_raises_nothing_and_can_be_deleted(store):
    writer = store.create("staging/file")
    writer.write(b"x" * 200_000)
    writer.abort()
    writer.abort()
    store.delete("staging", recursive=True)
    assert store.status("staging/file") is None


def test_a_closed_writer_takes_nothing_more(store):
    writer = store.create("staging/file")
    writer.write(b"x")
    writer.close()
    with pytest.raises(StoreRefusedError, match="closed"):
        writer.write(b"y")
    with pytest.raises(StoreRefusedError, match="closed"):
        writer.close()
    writer.abort()
    assert store.get("staging/file") == b"x"


# promote


@pytest.mark.bug(102)
def test_a_promoted_file_stands_at_its_place_and_no_more_in_staging(store):
    size = stage(store, "staging/a", b"content")
    assert store.promote("staging/a", "data/2026/11/29/a", size) is True
    assert store.get("data/2026/11/29/a") == b"content"
    assert store.status("staging/a") is None
    assert shown(store.list("staging")) == []


def test_promoting_again_is_fine(bench):
    size = stage(bench.open(), "staging/a", b"content")
    assert [bench.open().promote("staging/a", "data/a", size) for _ in range(3)] == [True] * 3
    assert bench.open().get("data/a") == b"content"


def test_with_neither_source_nor_target_the_answer_is_no(store):
    assert store.promote("staging/a", "data/a", 7) is False
    stage(store, "staging/b", b"content")
    assert store.promote("staging/a", "data/a", 7) is False


def test_a_target_of_another_size_is_refused_and_both_stay(store):
    size = stage(store, "staging/a", b"content")
    store.put_if_absent("data/a", b"of a user")
    with pytest.raises(StoreRefusedError, match="9 bytes"):
        store.promote("staging/a", "data/a", size)
    assert store.get("data/a") == b"of a user"
    assert store.get("staging/a") == b"content"


def test_a_folder_at_the_target_is_refused_and_takes_nothing_in(store):
    size = stage(store, "staging/a", b"content")
    store.put_if_absent("data/a/of a user", b"x")
    with pytest.raises(StoreRefusedError, match="folder"):
        store.promote("staging/a", "data/a", size)
    assert shown(store.list("data/a")) == [("data/a/of a user", 1, False)]
    assert store.get("staging/a") == b"content"


def test_a_torn_source_is_refused_and_stays(store):
    stage(store, "staging/a", b"conte")
    with pytest.raises(StoreRefusedError, match="5 bytes"):
        store.promote("staging/a", "data/a", 7)
    assert store.get("data/a") is None
    assert store.get("staging/a") == b"conte"


def test_racing_publishers_of_one_file_all_succeed(bench):
    stores = [bench.open() for _ in range(RACERS)]
    for round_ in range(3):
        source, target = f"staging/{round_}", f"data/{round_}"
        size = stage(stores[0], source, b"content")
        answers = race(lambda number, s=source, t=target, n=size: stores[number].promote(s, t, n))
        assert answers == [True] * RACERS
        assert stores[0].get(target) == b"content"
        assert stores[0].status(source) is None


def test_of_racing_promotes_onto_one_name_exactly_one_wins(bench):
    stores = [bench.open() for _ in range(RACERS)]
    for round_ in range(3):
        target = f"data/{round_}"
        sizes = race(lambda n, r=round_: stage(stores[n], f"staging/{r}/{n}", b"x" * (n + 1)))
        answers = race(lambda n, r=round_, t=target, s=sizes: stores[n].promote(f"staging/{r}/{n}", t, s[n]))
        winners = [number for number, answer in enumerate(answers) if answer is True]
        assert len(winners) == 1
        assert stores[0].get(target) == b"x" * sizes[winners[0]]
        left = [status.name for status in stores[0].list(f"staging/{round_}")]
        assert left == [str(number) for number in range(RACERS) if number not in winners]


def test_a_file_can_be_moved_out_and_back(store):
    size = stage(store, "data/a", b"content")
    assert store.promote("data/a", "superseded/7/data/a", size) is True
    assert store.promote("superseded/7/data/a", "data/a", size) is True
    assert store.get("data/a") == b"content"
