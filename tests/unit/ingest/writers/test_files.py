"""Files are cut by bytes and records, shared by partitions, bounded in number, and the same however records arrive."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import CorruptStateError
from airflow_kafka_hdfs.ingest.datum.container import BLOCK_BYTES
from airflow_kafka_hdfs.ingest.datum.packing import Span
from airflow_kafka_hdfs.ingest.reading import ReadOptions
from airflow_kafka_hdfs.ingest.writers.files import FileSet, Part
from airflow_kafka_hdfs.ingest.writers.sinks import Closed, Sink, StreamSinks
from tests.fakes.runtime import SerialWorkers
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import HOUR, MORNING, Task


def produce(task: Task, *values: bytes, partition: int = 0, timestamp: int = MORNING) -> None:
    task.cluster.produce("events", partition, *values, timestamp=timestamp)


def offsets(unit) -> list[tuple[int, int]]:
    """First and last offset of each file of one partition, in order."""
    return [entry.offsets[0][:2] for entry in unit.files]


def names(unit) -> list[str]:
    return [entry.path.rpartition("/")[2].split("+", 3)[3].partition(".")[0] for entry in unit.files]


def test_files_of_three_records_and_the_rest():  # peers leave the rest to the next run, a bounded run does not
    task = Task()
    task.topic(max_file_records=3)
    produce(task, *[b"x"] * 10)
    unit = task.unit()
    assert names(unit) == ["0+0+0+2", "1+0+3+5", "2+0+6+8", "3+0+9+9"]
    assert [entry.records_out for entry in unit.files] == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ("first", "count", "most", "cuts"),
    [
        (0, 7, 3, [(0, 2), (3, 5), (6, 6)]),
        (9, 7, 3, [(9, 11), (12, 14), (15, 15)]),
        (0, 20, 10, [(0, 9), (10, 19)]),
    ],
)
def test_cuts_by_records(first, count, most, cuts):
    task = Task()
    task.topic(max_file_records=most)
    produce(task, *[b"x"] * (first + count))
    assert offsets(task.unit(task.plan(("events", 0, first, first + count)))) == cuts


def test_interleaved_partitions_share_files_where_peers_keep_them_apart():
    """Peers have a file per Kafka partition; ours share one and name no offsets then."""
    task = Task(per_poll=1)
    task.topic(partitions=2, max_file_records=4)
    for partition in (0, 1):
        produce(task, *[b"x"] * 4, partition=partition)
    unit = task.unit()
    assert names(unit) == ["0", "1"]
    assert [sum(n for _, _, n in entry.offsets.values()) for entry in unit.files] == [4, 4]


def test_nulls_that_are_left_out_do_not_count_in_a_file():
    task = Task()
    task.topic(max_file_records=3, on_null="skip")
    for value in (b"x", None, b"x", b"x", b"x", None, b"x", b"x", b"x"):
        produce(task, value)
    unit = task.unit()
    assert offsets(unit) == [(0, 3), (4, 7), (8, 8)]
    assert unit.counts.null_values == 2


def test_values_of_a_field_have_folders_of_their_own():
    task = Task()
    task.topic(value_format="json", file_format="jsonl", partition_fields=["n"], max_file_records=3)
    produce(task, *(json.dumps({"n": n}).encode() for n in (16, 16, 16, 17, 17, 17, 18, 18, 18)))
    unit = task.unit()
    assert offsets(unit) == [(0, 2), (3, 5), (6, 8)]
    assert [entry.path.split("/")[1] for entry in unit.files] == ["n=16", "n=17", "n=18"]


@pytest.mark.bug(59)
def test_hours_out_of_order_do_not_cut_files():
    task = Task()
    task.topic()
    for hour in (0, 1, 0, 1, 0):
        produce(task, b"x", timestamp=MORNING + hour * HOUR)
    assert [entry.records for entry in task.unit().files] == [3, 2]


@pytest.mark.bug(57)
def test_large_records_end_a_file_at_most_one_record_behind_its_size():
    task = Task()
    task.topic(max_file_bytes=1_500_000, codec="null")
    produce(task, *[b"x" * 1_000_000] * 3)
    unit = task.unit()
    assert [entry.records for entry in unit.files] == [2, 1]
    assert unit.files[0].size < 2_001_000


def test_small_records_end_a_file_at_most_one_block_behind_its_size():
    task = Task()
    task.topic(max_file_bytes=200_000, codec="null")
    produce(task, *[b"x" * 100] * 6_000)
    sizes = [entry.size for entry in task.unit().files]
    assert len(sizes) == 3
    assert all(200_000 <= size < 265_000 for size in sizes[:-1])


def test_parquet_files_end_at_most_one_row_group_behind_their_size():
    task = Task()
    task.topic(max_file_bytes=200_000, codec="null", file_format="parquet")
    produce(task, *(b"%06d" % number * 20 for number in range(6_000)))
    unit = task.unit()
    assert len(unit.files) == 3
    assert all(200_000 <= entry.size < 400_000 for entry in unit.files[:-1])
    found = [record["value"] for entry in unit.files for record in task.records(entry)]
    assert found == [b"%06d" % number * 20 for number in range(6_000)]


def test_files_that_hold_too_much_together_write_the_largest_part_first():
    class Holder:
        def __init__(self, held):
            self.held = held

        def flush(self):
            self.held = 0

    files = FileSet(InMemoryStore(), "staging", SerialWorkers(), most_held=100)
    held = [Holder(30), Holder(60), Holder(50)]
    for number, holder in enumerate(held):
        files._open[number] = SimpleNamespace(sink=holder)
    files.relieve()
    assert [holder.held for holder in held] == [30, 0, 50]


@pytest.mark.bug(104)
def test_one_more_folder_than_files_may_be_open_closes_the_oldest():
    task = Task(max_open_files=5)
    task.topic(value_format="json", file_format="jsonl", partition_fields=["n"])
    produce(task, *(json.dumps({"n": n}).encode() for n in (0, 1, 2, 3, 4, 0, 5, 1, 0)))
    unit = task.unit()
    assert [(entry.path.split("/")[1], entry.records) for entry in unit.files] == [
        ("n=0", 3),  # written to lately whenever another one had to be closed
        ("n=1", 1),  # closed when the sixth folder came, so that a second file follows
        ("n=2", 1),
        ("n=3", 1),
        ("n=4", 1),
        ("n=5", 1),
        ("n=1", 1),
    ]
    assert unit.counts.written == 9


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 7), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_no_record_is_dropped_however_few_files_are_open(hours, most, records):
    task = Task(max_open_files=most)
    task.topic(max_file_records=records, file_format="raw")
    for number, hour in enumerate(hours):
        produce(task, b"%d" % number, timestamp=MORNING + hour * HOUR)
    unit = task.unit()
    found = Counter(value for values in task.data(unit).values() for value in values)
    assert found == Counter(b"%d" % number for number in range(len(hours)))
    assert all(entry.records_out <= records for entry in unit.files)
    assert task.store.unclosed() == []


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from(["null", "snappy", "deflate"]))
@settings(max_examples=20, deadline=None)
def test_bytes_do_not_depend_on_how_records_arrive(one, other, codec):
    contents = []
    for batch in (one, other):
        task = Task(reading=ReadOptions(batch_records=batch))
        task.topic(codec=codec, max_file_bytes=100_000)
        for number in range(700):
            task.cluster.produce("events", 0, b"%d" % number * 120, timestamp=MORNING + number % 2 * HOUR)
        unit = task.unit()
        contents.append({entry.path: (entry.digest, task.store.files()[entry.staged]) for entry in unit.files})
    assert contents[0] == contents[1]
    assert all(digest.startswith("crc32:") for digest, _ in contents[0].values())


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=60),
    st.integers(1, 5),
    st.sampled_from(["avro", "raw", "parquet"]),
)
@settings(max_examples=40, deadline=None)
def test_chunks_make_the_same_files_as_single_records(sizes, cuts, file_format):
    """What a faster way hands over in chunks, cut at the ends of blocks, against the record by record way."""

    class InChunks:
        name = "chunks"

        def __init__(self, route, destination):
            self.route, self.to = route, destination

        def try_take(self, batch, indexes, values):
            outputs = [self.route.outputs(batch.record(i)) for i in indexes]
            place, schema = outputs[0][0].place, outputs[0][0].schema
            fill, _ = self.to.files.room(place, schema)
            chunks, part, count = [], b"", 0
            for (output,) in outputs:
                part, count, fill = part + output.data, count + 1, fill + len(output.data)
                if fill >= BLOCK_BYTES or count == cuts:
                    chunks.append((part, count))
                    part, count, fill = b"", 0, 0 if fill >= BLOCK_BYTES else fill
            chunks += [(part, count)] if count else []
            offsets = [batch.offsets()[i] for i in indexes]
            spans = {0: Span(offsets[0], offsets[-1], len(offsets), MORNING, MORNING)}
            part = Part(place, schema, len(offsets), sum(len(data) for data, _ in chunks), chunks, spans, late=1)
            if not self.to.files.keeps_whole([part]):
                return indexes
            self.to.files.extend([part])
            self.to.tallies[0].outputs += len(offsets)
            self.to.tallies[0].saw(MORNING, MORNING)
            return ()

    found = []
    for fast in (None, InChunks):
        task = Task(reading=ReadOptions(batch_records=7))
        task.topic(file_format=file_format, codec="null", max_file_bytes=70_000)
        task.fast = fast
        produce(task, *(b"x" * size for size in sizes))
        unit = task.unit()
        late = sum(entry.late for entry in unit.files)
        assert late <= (0 if fast is None else -(-len(sizes) // 7))
        found.append([(dataclasses.replace(e, late=0, staged=""), task.store.files()[e.staged]) for e in unit.files])
    assert found[0] == found[1]


def test_a_writer_that_loses_outputs_is_found_out():
    class Leaky:
        """A sink that drops every second output, as a writer with a bug would."""

        def __init__(self, inner: Sink) -> None:
            self.inner, self.turn = inner, False

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def append(self, data: bytes, count: int = 1) -> bool:
            self.turn = not self.turn
            return self.turn and self.inner.append(data, count)

        def close(self) -> Closed:
            return self.inner.close()

    class LeakySinks(StreamSinks):
        def open(self, out, how):
            return Leaky(super().open(out, how))

    task = Task(reading=ReadOptions(batch_records=1))
    task.topic(file_format="raw")
    produce(task, *[b"x"] * 4)
    task.sinks = lambda config, codecs: LeakySinks(codecs, "null", ".txt")
    with pytest.raises(CorruptStateError, match="took 4 outputs and counts 2"):
        task.run()
