"""An array of nulls has items without bytes: how many a datum may claim, in all tiers."""

from airflow_kafka_hdfs.ingest.datum.container import encode_long
from airflow_kafka_hdfs.ingest.datum.packing import Batch, Route
from airflow_kafka_hdfs.ingest.datum.program import MAX_EMPTY_ITEMS, compile_program
from tests.unit.ingest.datum.test_tiers import pack_in_all, packer


def test_items_without_bytes_are_counted_over_all_blocks_and_arrays_of_a_datum():
    nulls = {"type": "array", "items": {"type": "array", "items": "null"}}
    half = encode_long(MAX_EMPTY_ITEMS // 2) + b"\x00"
    some = b"\x04" + half + half + b"\x00"
    more = b"\x06" + half + half + b"\x02\x00\x00"
    blocks = b"\x02" + encode_long(MAX_EMPTY_ITEMS // 2) + half + b"\x00"
    values = [some, more, blocks, b"\x02" + encode_long(MAX_EMPTY_ITEMS - 1) + b"\x04\x00\x00", some]
    step = packer(frame=b"", route=Route(program=compile_program(nulls)))
    outcome = pack_in_all(step, Batch(values=values, times=range(len(values))))
    assert [slot >= 0 for slot in outcome.slots.tolist()] == [True, False, True, False, True]
    assert [(bad.index, bad.reason) for bad in outcome.bad] == [(1, "corrupt"), (3, "corrupt")]
