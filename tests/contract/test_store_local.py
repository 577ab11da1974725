"""What only a local disk does: links, other users' symlinks, full disks, a crash between two steps."""

from __future__ import annotations

import errno
import os

import pytest

from airflow_kafka_hdfs.adapters.storage import local
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.exceptions import StoreRefusedError, StoreUnavailableError


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def store(root) -> LocalStore:
    return LocalStore(root)


def stage(store, path: str, data: bytes) -> int:
    writer = store.create(path)
    writer.write(data)
    writer.close()
    return len(data)


def failing(code: int):
    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    return fail


def test_a_crash_between_link_and_unlink_is_finished_by_the_next_promote(store, root):
    size = stage(store, "staging/a", b"content")
    (root / "data").mkdir()
    os.link(root / "staging" / "a", root / "data" / "a")
    assert store.promote("staging/a", "data/a", size) is True
    assert store.status("staging/a") is None
    assert store.get("data/a") == b"content"


def test_a_staged_file_of_the_same_size_as_another_one_at_its_place_is_not_deleted(store):
    size = stage(store, "staging/a", b"content")
    store.put_if_absent("data/a", b"CONTENT")
    assert store.promote("staging/a", "data/a", size) is True
    assert store.get("staging/a") == b"content"


def test_one_place_reached_by_two_paths_is_never_deleted(store, root):
    size = stage(store, "data/a", b"content")
    (root / "alias").symlink_to(root / "data", target_is_directory=True)
    assert store.promote("alias/a", "data/a", size) is True
    assert store.get("data/a") == b"content"


@pytest.mark.parametrize("where", ["link", "link/deeper"])
def test_a_symbolic_link_does_not_lead_out_of_the_root(store, root, tmp_path, where):
    (tmp_path / "outside" / "deeper").mkdir(parents=True)
    (tmp_path / "outside" / "deeper" / "secret").write_bytes(b"secret")
    store.put_if_absent("log/0", b"record")
    (root / "link").symlink_to(tmp_path / "outside", target_is_directory=True)
    size = stage(store, "staging/a", b"content")
    calls = [
        lambda: store.put_if_absent(f"{where}/a", b"x"),
        lambda: store.get(f"{where}/secret"),
        lambda: store.status(f"{where}/secret"),
        lambda: store.list(where),
        lambda: store.create(f"{where}/a"),
        lambda: store.promote("staging/a", f"{where}/a", size),
        lambda: store.promote(f"{where}/secret", "data/a", 6),
        lambda: store.delete(f"{where}/secret"),
        lambda: store.delete(where, recursive=True),
    ]
    for call in calls:
        with pytest.raises(StoreRefusedError, match="leads out of the root"):
            call()
    assert (tmp_path / "outside" / "deeper" / "secret").read_bytes() == b"secret"
    assert [path.name for path in (tmp_path / "outside").rglob("*")] == ["deeper", "secret"]


def test_a_symbolic_link_inside_the_root_is_followed(store, root):
    store.put_if_absent("disk2/0", b"record")
    (root / "topic").symlink_to("disk2", target_is_directory=True)
    (root / "dangling").symlink_to("nowhere")
    assert store.get("topic/0") == b"record"
    assert [status.path for status in store.list("")] == ["disk2", "topic"]


def test_a_dangling_link_at_the_place_of_a_file_is_not_replaced(store, root):
    root.mkdir()
    (root / "0").symlink_to("nowhere")
    with pytest.raises(StoreUnavailableError, match="gone again"):
        store.put_if_absent("0", b"record")
    assert (root / "0").is_symlink()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_refused_with_the_next_step_and_leaves_no_file(store, root, monkeypatch, code):
    store.put_if_absent("log/0", b"record")
    writer = store.create("staging/a")
    writer.write(b"content")
    monkeypatch.setattr("os.fsync", failing(code))
    with pytest.raises(StoreRefusedError, match="make room"):
        store.put_if_absent("log/1", b"record")
    with pytest.raises(StoreRefusedError, match="make room"):
        writer.close()
    monkeypatch.undo()
    assert os.listdir(root / "log") == ["0"]
    assert os.listdir(root / "staging") == []


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
def test_a_mount_that_falls_away_is_unavailable(store, monkeypatch, code):
    monkeypatch.setattr("os.link", failing(code))
    with pytest.raises(StoreUnavailableError, match="try again"):
        store.put_if_absent("log/0", b"record")


def test_a_file_system_without_hard_links_is_refused_by_its_reason(store, monkeypatch):
    monkeypatch.setattr("os.link", failing(errno.EPERM))
    with pytest.raises(StoreRefusedError, match="hard links are refused"):
        store.put_if_absent("log/0", b"record")
    assert store.list("log") == []


@pytest.mark.bug(9)
def test_a_root_over_two_file_systems_is_refused(store, monkeypatch):
    size = stage(store, "staging/a", b"content")
    monkeypatch.setattr("os.link", failing(errno.EXDEV))
    with pytest.raises(StoreRefusedError, match="keep the whole root on one"):
        store.promote("staging/a", "data/a", size)
    assert store.get("staging/a") == b"content"


def test_a_denied_folder_is_refused_with_the_next_step(store, monkeypatch):
    monkeypatch.setattr("os.open", failing(errno.EACCES))
    with pytest.raises(StoreRefusedError, match="grant the user"):
        store.put_if_absent("log/0", b"record")


def test_a_lost_answer_of_a_network_file_system_is_looked_through(store, monkeypatch):
    link = os.link

    def link_and_say_it_exists(*args, **kwargs):
        link(*args, **kwargs)
        raise FileExistsError(errno.EEXIST, "the server repeated its own link")

    monkeypatch.setattr("os.link", link_and_say_it_exists)
    assert store.put_if_absent("log/0", b"record") is True
    size = stage(store, "staging/a", b"content")
    assert store.promote("staging/a", "data/a", size) is True
    assert store.status("staging/a") is None


def test_a_file_has_its_bytes_on_disk_before_it_has_its_name(store, root, monkeypatch):
    steps = []
    fsync, link = os.fsync, os.link
    monkeypatch.setattr("os.fsync", lambda handle: (steps.append("sync"), fsync(handle))[1])
    monkeypatch.setattr("os.link", lambda *args, **kwargs: (steps.append("name"), link(*args, **kwargs))[1])
    root.mkdir()
    store.put_if_absent("0", b"record")
    assert steps == ["sync", "name", "sync"]


def test_what_the_kernel_takes_bit_by_bit_is_written_whole(store, root, monkeypatch):
    pieces = [b"head", b"", b"a longer piece", b"x", b"sync"]
    calls = []

    def slow(handle, given):
        calls.append(len(given))
        return os.write(handle, b"".join(given)[:5])

    monkeypatch.setattr("os.writev", slow)
    writer = store.create("staging/a")
    for piece in pieces:
        writer.write(piece)
    writer.close()
    assert (root / "staging/a").read_bytes() == b"".join(pieces)
    assert len(calls) == 5


def test_an_error_of_the_disk_on_the_way_ends_the_file(store, root, monkeypatch):
    writer = store.create("staging/a")
    monkeypatch.setattr("os.writev", failing(errno.ENOSPC))
    with pytest.raises(StoreRefusedError, match="make room"):
        writer.write(bytes(2 << 20))
    monkeypatch.undo()
    with pytest.raises(StoreUnavailableError, match="does not have its"):
        writer.close()
    assert os.listdir(root / "staging") == []


def test_many_open_files_hold_back_little_together(store, root):
    writers = [store.create(f"staging/{number}") for number in range(100)]
    for _ in range(20):
        for writer in writers:
            writer.write(bytes(10_000))
    on_disk = sum(path.stat().st_size for path in (root / "staging").iterdir())
    assert 100 * 20 * 10_000 - on_disk <= 6 << 20
    for writer in writers:
        writer.close()
    assert {path.stat().st_size for path in (root / "staging").iterdir()} == {200_000}


def ahead_of(path) -> int:
    """Bytes set aside behind the end of a file."""
    found = path.stat()
    return found.st_blocks * 512 - found.st_size


def grow_without_room_aside(store, place):
    """Write 8 MiB; never is there room behind the file's end."""
    writer = store.create("staging/a")
    for _ in range(8):
        writer.write(bytes(1 << 20))
        assert ahead_of(place) < 1 << 20
    writer.close()
    assert place.read_bytes() == bytes(8 << 20)


def test_a_growing_file_has_room_set_aside_and_gives_back_what_it_did_not_need(store, root, monkeypatch):
    monkeypatch.setattr(local, "_PLENTY", 0)
    writer = store.create("staging/a")
    chunk = os.urandom(local._MOST_HELD)  # nothing of it is held back
    reserved = 0
    for count in range(1, 8):
        writer.write(chunk)
        assert (root / "staging/a").stat().st_size == count * len(chunk)  # readers never see room
        reserved = max(reserved, ahead_of(root / "staging/a"))
    writer.close()
    assert (root / "staging/a").read_bytes() == 7 * chunk
    assert ahead_of(root / "staging/a") < 1 << 20
    assert reserved >= 4 << 20


def test_room_of_which_only_a_part_was_left_is_given_back_at_once_and_not_asked_for_again(store, root, monkeypatch):
    libc, asked = local._LIBC, []

    class EndsInTheMidst:
        def fallocate64(self, handle, mode, start, size):
            asked.append(size.value)
            assert libc.fallocate64(handle, mode, start, local.ctypes.c_int64(size.value // 2)) == 0
            return -1

    monkeypatch.setattr(local, "_LIBC", EndsInTheMidst())
    monkeypatch.setattr(local, "_PLENTY", 0)
    grow_without_room_aside(store, root / "staging/a")
    assert len(asked) == 1


def test_many_growing_files_set_little_room_aside_together(store, root, monkeypatch):
    monkeypatch.setattr(local, "_PLENTY", 0)
    monkeypatch.setattr(local, "_LEAST_RESERVED", 64 << 10)
    monkeypatch.setattr(local, "_RESERVED_TOGETHER", 1 << 20)
    writers = [store.create(f"staging/{number}") for number in range(8)]
    for _ in range(3):
        for writer in writers:
            writer.write(bytes(local._HELD_TOGETHER // len(writers)))
    together = sum(map(ahead_of, (root / "staging").iterdir()))
    assert 256 << 10 <= together <= (1 << 20) + 8 * (64 << 10)
    for writer in writers:
        writer.abort()


def test_on_a_disk_with_little_left_no_room_is_set_aside(store, root, monkeypatch):
    monkeypatch.setattr(local, "_PLENTY", 1 << 62)
    grow_without_room_aside(store, root / "staging/a")


def test_a_file_system_that_cannot_set_room_aside_takes_files_all_the_same(store, root, monkeypatch):
    monkeypatch.setattr(local, "_LIBC", object())
    grow_without_room_aside(store, root / "staging/a")


def test_several_processes_deleting_one_folder_do_not_disturb_each_other(store, monkeypatch):
    for number in range(3):
        store.put_if_absent(f"staging/{number}/x", b"x")
    rmdir = os.rmdir
    monkeypatch.setattr("os.rmdir", lambda path, **kwargs: (rmdir(path, **kwargs), rmdir(path, **kwargs)))
    store.delete("staging", recursive=True)
    assert store.status("staging") is None
