"""All tiers are one: whatever the schema, the data, the damage and the batches, they give the same bytes."""

import io
import json
from array import array
from dataclasses import replace
from datetime import UTC, datetime

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import ConfigError, DecodeError
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long, sync_marker
from airflow_kafka_hdfs.ingest.datum.packing import Batch, FixedPlaces, Packer, Recode, Refusal, Route, Span, batch_size
from airflow_kafka_hdfs.ingest.datum.program import compile_program
from airflow_kafka_hdfs.ingest.datum.reference import walk
from airflow_kafka_hdfs.ingest.writers.sinks import AvroSink
from tests.fakes.librdkafka import direct_values
from tests.unit.ingest.datum.avro_data import Judge, cuts, damaged, encode, laws, names_of, shapes, timed
from tests.unit.ingest.datum.test_container import Memory, Plain

TIERS = [tiers.choose(name) for name in tiers.NAMES]
FRAME = b"\x00\x00\x00\x00\x07"
EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "text", "type": "string"}, {"name": "at", "type": ["null", "long", "string"]}],
}
HOUR = 3_600_000
NOON = 1_767_225_600_000


def text_time(text):
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise DecodeError("bad_time", str(error)) from error


def packer(*, frame=FRAME, route=None, **options):
    options = {
        "routes": {frame: route or Route(program=compile_program(EVENT, "at"))},
        "frame_size": len(frame),
        "locate": FixedPlaces(HOUR),
        "room": lambda _target, _key: (0, 60_000),
        "bounds": (0, 4 * 10**12),
        "text_time": text_time,
    } | options
    return Packer(**options)


def plain(outcome):
    """An outcome as values that can be compared; the words of a detail are the reference's in every tier."""
    groups = [(g.target, g.key, g.count, g.size, g.least, g.greatest, list(g.chunks)) for g in outcome.groups]
    bad = [(b.index, b.reason, b.detail) for b in outcome.bad]
    times = outcome.times[outcome.slots >= 0].tolist()
    return groups, outcome.slots.tolist(), times, bad, list(outcome.nulls), outcome.foreign


def pack_in_all(packer, batch):
    """The outcome, after a look that all tiers give the same."""
    outcomes = [tier.pack(packer, batch_for(tier, batch)) for tier in TIERS]
    told = [plain(outcome) for outcome in outcomes]
    assert all(one == told[0] for one in told)
    return outcomes[0]


def batch_for(tier, batch):
    """The batch as the tier gets it: for `direct` the values lie in foreign memory."""
    return replace(batch, values=direct_values(batch.values)) if tier.name == "direct" else batch


def event(text, at):
    if isinstance(at, str):
        time = b"\x04" + encode_bytes(at.encode())
    else:
        time = b"\x00" if at is None else b"\x02" + encode_long(at)
    return FRAME + encode_bytes(text.encode()) + time


@laws
@given(st.data())
def test_tiers_agree_on_random_schemas_data_and_damage(data):
    times = st.integers(-10, 100) if data.draw(st.booleans()) else None
    shape = data.draw(timed(numbers=times))
    blocks = data.draw(cuts())
    values = []
    for value, _ in data.draw(st.lists(shape.rows, max_size=40)):
        datum = encode(shape.schema, value, names_of(shape.schema), blocks)
        kind = data.draw(st.sampled_from(["good", "good", "good", "damaged", "null", "frame", "other"]))
        datum = data.draw(damaged(datum)) if kind == "damaged" else datum
        frame = {"frame": b"\x01\x00\x00", "other": b"\x00\x00\x00\x00\x08"}.get(kind, FRAME)
        values.append(None if kind == "null" else frame + datum)
    route = Route(
        program=compile_program(shape.schema, shape.path, shape.unit),
        target=3,
        lead=data.draw(st.sampled_from([b"", b"\x02"])),
        sized=data.draw(st.booleans()),
        tail=data.draw(st.sampled_from([b"", b"tail"])),
    )
    fill, limit = data.draw(st.sampled_from([(0, 1), (3, 5), (0, 100), (99, 100), (50, 300)]))
    step = packer(
        route=route,
        locate=FixedPlaces(data.draw(st.sampled_from([7, 40, HOUR])), data.draw(st.integers(0, 9))),
        room=lambda _target, key: (fill if key % 2 else 0, limit),
        bounds=data.draw(st.sampled_from([(0, 4 * 10**12), (5, 50), (-(2**63), 2**63 - 1)])),
    )
    if data.draw(st.booleans()):
        step.routes[b"\x00\x00\x00\x00\x08"] = Refusal(reason="unknown_schema", detail="id 8")
    count = len(values)
    batch = Batch(
        values=values,
        fallback=data.draw(st.sampled_from([None, lambda i: i, lambda i: -i])),
        tails=data.draw(st.sampled_from([None, [bytes([i % 256]) * (i % 3) for i in range(count)]])),
    )
    outcome = pack_in_all(step, batch)
    assert bool(outcome.foreign) == (len(step.routes) == 1 and any(v and v[:5] == FRAME[:4] + b"\x08" for v in values))
    if not outcome.foreign:
        assert outcome.packed + len(outcome.bad) + len(outcome.nulls) == count
        assert (outcome.slots >= 0).sum() == outcome.packed


@laws
@given(st.data())
def test_files_are_the_same_for_every_tier_and_batch_cut_and_hold_what_fastavro_would_decode(data):
    shape = data.draw(timed(numbers=st.integers(0, 3 * HOUR)))
    rows = data.draw(st.lists(shape.rows, min_size=1, max_size=30))
    datums = [encode(shape.schema, value, names_of(shape.schema)) for value, _ in rows]
    values = [FRAME + (data.draw(damaged(d)) if data.draw(st.integers(0, 4)) == 0 else d) for d in datums]
    program = compile_program(shape.schema, shape.path, shape.unit)
    limit = data.draw(st.integers(1, 400))

    def files(tier, cut):
        writers: dict = {}
        outs: dict = {}

        def room(_target, key):
            writer = writers.get(key)
            if writer is None:
                sync = sync_marker(f"t+p+0+{key}")
                outs[key] = Memory()
                writer = writers[key] = AvroSink(
                    outs[key],
                    schema=json.dumps(shape.schema),
                    compressor=Plain(),
                    sync=sync,
                    metadata={},
                    block_bytes=limit,
                )
            return writer.fill, limit

        step = packer(route=Route(program=program), room=room, bounds=(-(2**63), 2**63 - 1))
        for at in range(0, len(values), cut):
            batch = Batch(values=values[at : at + cut], fallback=lambda _i: 0)
            for group in tier.pack(step, batch_for(tier, batch)).groups:
                for chunk, count in group.chunks:
                    writers[group.key].append(chunk, count)
        for writer in writers.values():
            writer.close()
        return {key: out.content for key, out in outs.items()}

    first = files(TIERS[0], len(values))
    for tier in TIERS:
        assert files(tier, data.draw(st.integers(1, 40))) == first
    parsed = fastavro.parse_schema(json.loads(json.dumps(shape.schema)))
    expected = []
    for value in values:
        if sound(program, value[5:]):
            expected.append(fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed))
    read = [row for key in first for row in fastavro.reader(io.BytesIO(first[key]))]
    assert sorted(map(repr, read)) == sorted(map(repr, expected))


def sound(program, datum):
    try:
        walk(program, datum)
    except DecodeError:
        return False
    return True


@laws
@given(st.data())
def test_random_bytes_and_hostile_lengths_never_enter_a_group_unread(data):
    shape = data.draw(shapes())
    hostile = st.sampled_from(
        [b"\xff" * 9 + b"\x01", b"\xfe" * 9 + b"\x01", encode_long(2**31), encode_long(-3), b"\x80"]
    )
    pieces = st.lists(st.one_of(hostile, st.binary(max_size=6)), max_size=8).map(b"".join)
    values = data.draw(st.lists(pieces, max_size=30))
    step = packer(frame=b"", route=Route(program=compile_program(shape.schema)))
    outcome = pack_in_all(step, Batch(values=values, times=range(len(values))))
    judge = Judge(shape.schema)
    for value, slot in zip(values, outcome.slots.tolist(), strict=True):
        assert slot < 0 or judge.reads_whole(value)


def test_times_of_a_batch_are_sorted_into_hours_with_their_least_and_greatest():
    values = [event("a", NOON), event("b", NOON + HOUR), event("c", NOON + 5), event("d", "2026-01-01T00:00:00.001")]
    outcome = pack_in_all(packer(), Batch(values=values))
    assert [(g.key, g.count, g.least, g.greatest) for g in outcome.groups] == [
        (NOON, 3, NOON, NOON + 5),
        (NOON + HOUR, 1, NOON + HOUR, NOON + HOUR),
    ]
    assert outcome.slots.tolist() == [0, 1, 0, 0]
    assert outcome.groups[0].chunks == [(b"".join(values[i][5:] for i in (0, 2, 3)), 3)]


def test_what_can_not_be_packed_is_named_with_its_reason():
    values = [
        event("fine", NOON),
        b"\x00\x00",
        b"\x07" + event("x", NOON)[1:],
        FRAME,
        event("cut", NOON)[:-1],
        event("more", NOON) + b"\x00",
        FRAME + b"\x03",
        event("no time", None),
        event("early", -5),
        event("not a time", "tomorrow"),
        None,
    ]
    outcome = pack_in_all(packer(), Batch(values=values))
    assert [(bad.index, bad.reason) for bad in outcome.bad] == [
        (1, "frame"),
        (2, "frame"),
        (3, "truncated"),
        (4, "truncated"),
        (5, "trailing_bytes"),
        (6, "corrupt"),
        (7, "bad_time"),
        (8, "bad_time"),
        (9, "bad_time"),
    ]
    assert "starts with byte 7" in outcome.bad[1].detail
    assert "-5 ms since the epoch" in outcome.bad[7].detail
    assert (outcome.packed, outcome.nulls) == (1, [10])


def test_a_time_beyond_64_bits_is_out_of_bounds():
    step = packer(text_time=lambda text: int(text) * 1_000)
    outcome = pack_in_all(step, Batch(values=[event("a", "9" * 19), event("b", "-" + "9" * 40), event("c", "1")]))
    assert [(bad.index, bad.reason) for bad in outcome.bad] == [(0, "bad_time"), (1, "bad_time")]


def test_records_with_a_bad_time_may_go_by_another_time():
    values = [event("a", None), event("b", -5), event("c", "tomorrow"), event("d", NOON)]
    kafka = [NOON + HOUR, NOON + 2 * HOUR, -1, NOON]
    outcome = pack_in_all(packer(), Batch(values=values, fallback=kafka.__getitem__))
    assert [group.key for group in outcome.groups] == [NOON + HOUR, NOON + 2 * HOUR, NOON]
    assert [(bad.index, bad.reason) for bad in outcome.bad] == [(2, "bad_time")]
    assert "Kafka's time -1" in outcome.bad[0].detail


def test_a_frame_seen_for_the_first_time_leaves_the_batch_unpacked_until_it_has_a_route():
    step = packer()
    new = b"\x00\x00\x00\x00\x09"
    batch = Batch(values=[event("a", NOON), new + event("b", NOON)[5:], event("c", NOON)])
    outcome = pack_in_all(step, batch)
    assert outcome.foreign == {new}
    assert not outcome.groups
    step.routes[new] = Route(program=compile_program(EVENT, "at"), target=0, tail=b"!")
    outcome = pack_in_all(step, batch)
    assert outcome.groups[0].chunks == [(event("a", NOON)[5:] + event("b", NOON)[5:] + b"!" + event("c", NOON)[5:], 3)]


def test_schemas_that_must_be_decoded_keep_their_place_among_the_others():
    step = packer()
    old = b"\x00\x00\x00\x00\x01"

    def recode(datum):
        if datum == b"?":
            raise DecodeError("unresolvable", "no")
        return datum.upper(), NOON if datum != b"timeless" else None

    step.routes[old] = Recode(call=recode)
    values = [event("a", NOON), old + b"b", event("c", NOON), old + b"?", old + b"timeless"]
    outcome = pack_in_all(step, Batch(values=values))
    assert outcome.groups[0].chunks == [(event("a", NOON)[5:] + b"B" + event("c", NOON)[5:], 3)]
    assert [(bad.index, bad.reason) for bad in outcome.bad] == [(3, "unresolvable"), (4, "bad_time")]


def test_raw_values_become_bytes_strings_and_nulls():
    route = Route(program=None, sized=True, lead=b"\x02", utf8=True)
    step = packer(frame=b"", route=route, null=b"\x00")
    values = [b"hello", None, b"\xff", b"x" * 100]
    outcome = pack_in_all(step, Batch(values=values, times=[NOON] * 4))
    union = ["null", "string"]
    stream = io.BytesIO(outcome.groups[0].chunks[0][0])
    assert [fastavro.schemaless_reader(stream, union) for _ in range(3)] == ["hello", None, "x" * 100]
    assert [(bad.index, bad.reason) for bad in outcome.bad] == [(2, "corrupt")]
    outcome = pack_in_all(replace(step, null=None), Batch(values=values, times=[NOON] * 4))
    assert outcome.nulls == [1]


def test_times_scattered_over_many_hours_make_a_group_each():
    values = [event(str(i), NOON + (i * 7_919 % 500) * HOUR) for i in range(500)]
    outcome = pack_in_all(packer(), Batch(values=values))
    assert len(outcome.groups) == 500
    assert outcome.slots.tolist() == list(range(500))


def test_several_intervals_may_be_one_place():
    def locate(time):
        inner = FixedPlaces(HOUR // 4)(time)
        return replace(inner, key=time // HOUR)

    values = [event(str(i), NOON + i * 60_000) for i in range(120)]
    outcome = pack_in_all(packer(locate=locate), Batch(values=values))
    assert [(group.key, group.count) for group in outcome.groups] == [(NOON // HOUR, 60), (NOON // HOUR + 1, 60)]


def test_targets_never_share_a_group():
    step = packer()
    other = b"\x00\x00\x00\x00\x01"
    step.routes[other] = Route(program=compile_program(EVENT, "at"), target=1)
    values = [event("a", NOON), other + event("b", NOON)[5:], event("c", NOON)]
    outcome = pack_in_all(step, Batch(values=values))
    assert [(group.target, group.count) for group in outcome.groups] == [(0, 2), (1, 1)]


def test_an_empty_batch_is_fine():
    assert plain(pack_in_all(packer(), Batch(values=[]))) == ([], [], [], [], [], frozenset())


def test_missing_times_and_wrong_tails_are_errors_in_every_tier():
    step = packer(route=Route(program=compile_program(EVENT)))
    for tier in TIERS:
        with pytest.raises(ValueError, match=r"Batch\.times is needed"):
            tier.pack(step, batch_for(tier, Batch(values=[event("a", NOON)])))
        with pytest.raises(ValueError):
            tier.pack(packer(), batch_for(tier, Batch(values=[event("a", NOON)], tails=[])))


def test_errors_of_the_callers_functions_come_through():
    def broken(*_):
        raise RuntimeError("broken place")

    for tier in TIERS:
        for options in ({"locate": broken}, {"room": broken}, {"text_time": broken}):
            batch = Batch(values=[event("a", "now")], fallback=lambda _i: NOON)
            with pytest.raises(RuntimeError, match="broken place"):
                tier.pack(packer(**options), batch_for(tier, batch))


def test_the_compiled_tier_refuses_a_place_that_does_not_hold_the_time():
    step = packer(locate=lambda _time: FixedPlaces(HOUR)(0))
    with pytest.raises(ValueError, match="place of"):
        tiers.choose("compiled").pack(step, Batch(values=[event("a", NOON)]))


@laws
@given(st.data())
def test_spans_tell_first_last_and_count_per_kafka_partition(data):
    count = data.draw(st.integers(1, 40))
    partitions = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    hours = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    values = [event(str(i), NOON + HOUR * hours[i]) for i in range(count)]
    outcome = pack_in_all(packer(), Batch(values=values))
    offsets = list(range(100, 100 + count))
    found = [tier.spans(outcome, partitions, offsets) for tier in TIERS]
    found.append(TIERS[0].spans(outcome, numbers(partitions), numbers(offsets)))
    assert all(one == found[0] for one in found)
    for slot, by_partition in enumerate(found[0]):
        for partition in set(partitions):
            mine = [i for i in range(count) if outcome.slots[i] == slot and partitions[i] == partition]
            times = [NOON + HOUR * hours[i] for i in mine]
            wanted = Span(100 + mine[0], 100 + mine[-1], len(mine), min(times), max(times)) if mine else None
            assert by_partition.get(partition) == wanted


def numbers(column):
    """A column as the direct reader gives it."""
    return memoryview(array("q", column))


def test_columns_of_another_length_than_the_batch_are_refused():
    outcome = pack_in_all(packer(), Batch(values=[event("a", NOON)]))
    for partitions, offsets in (([0, 0], [1, 2]), ([0], []), ([], [])):
        for tier in TIERS:
            with pytest.raises(ValueError):
                tier.spans(outcome, partitions, offsets)
        with pytest.raises(ValueError):
            TIERS[0].spans(outcome, numbers(partitions), numbers(offsets))
    with pytest.raises(ValueError):
        TIERS[0].spans(outcome, memoryview(b"1234"), numbers([0]))


def test_auto_takes_the_fastest_tier_and_steps_down_after_a_death():
    assert tiers.choose().name == "compiled"
    assert tiers.choose(below="direct").name == "compiled"
    assert tiers.choose(below="compiled").name == "numpy"
    assert tiers.choose(below="numpy").name == tiers.choose(below="reference").name == "reference"
    assert [tier.name for tier in TIERS] == list(tiers.NAMES) == [info.name for info in tiers.list_tiers()]


def test_without_the_extension_auto_means_numpy_and_asking_for_it_is_refused(monkeypatch):
    monkeypatch.setattr(tiers, "_MODULE", "airflow_kafka_hdfs.ingest.datum._not_built")
    assert tiers.choose().name == "numpy"
    assert not any(tier.available for tier in tiers.list_tiers("")[:2])
    with pytest.raises(ConfigError, match="not built"):
        tiers.choose("compiled")
    with pytest.raises(ConfigError, match="auto, direct, compiled, numpy, reference"):
        tiers.choose("fast")


def test_the_setting_forces_a_tier_or_leaves_one_out(monkeypatch, caplog):
    caplog.set_level("INFO")

    def picked(allowed, below="", fault=""):
        tier = tiers.pick(allowed, below=below, direct_fault=lambda: fault)
        return None if tier is None else tier.name

    assert picked("direct, compiled, numpy, reference") == picked("direct") == "direct"
    assert picked("direct, compiled", fault="no such function") == "compiled"
    assert picked("direct, compiled, numpy", below="direct") == "compiled"
    assert "tier direct is off: no such function" in caplog.text
    with pytest.raises(ConfigError, match="direct: no such function"):
        picked("direct", fault="no such function")
    assert picked("compiled, numpy, reference") == "compiled"
    assert picked("numpy,reference") == picked("numpy") == "numpy"
    assert picked("reference") is None
    assert picked("compiled, numpy", below="compiled") == "numpy"
    assert picked("compiled", below="compiled") is picked("compiled, numpy", below="numpy") is None
    assert picked("compiled", below="reference") is None
    for wrong in ("", "fast", "compiled, quick"):
        with pytest.raises(ConfigError, match="one or more of direct, compiled, numpy, reference"):
            tiers.pick(wrong)
    monkeypatch.setattr(tiers, "_MODULE", "airflow_kafka_hdfs.ingest.datum._not_built")
    assert picked("direct, compiled, numpy") == "numpy"
    assert picked("compiled, reference") is None
    with pytest.raises(ConfigError, match="not built"):
        tiers.pick("compiled")


def test_batches_of_large_values_are_smaller():
    direct, numpy, compiled = map(tiers.choose, ("direct", "numpy", "compiled"))
    assert [batch_size(direct, mean) for mean in (0, 120, 2_000, 8_000)] == [4_000, 4_000, 2_097, 524]
    assert [batch_size(numpy, mean) for mean in (0, 120, 8_000, 10**6)] == [2_000, 2_000, 524, 100]
    assert [batch_size(compiled, mean) for mean in (0, 120, 8_000, 16_000)] == [500, 500, 500, 262]


def test_slots_are_numbers_that_numpy_can_use():
    assert pack_in_all(packer(), Batch(values=[event("a", NOON)])).slots.dtype == np.int32
