"""State files that somebody damaged or forged: whatever stands in them, an error names the file, and nothing hangs."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.exceptions import CorruptStateError, KafkaHdfsError, NewerFormatError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.inspecting import inspect, recover
from airflow_kafka_hdfs.ingest.ownership import Owner
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.records import Commit, Manifest
from tests.unit.ingest.replays import Pipeline
from tests.upgrades.chain import CHAINS, load

KINDS: dict[str, type] = {
    "commit": Commit,
    "plan": Plan,
    "manifest": Manifest,
    "checkpoint": Checkpoint,
    "owner": Owner,
}
CHAIN = max(CHAINS.glob("*.json"))
RECORDS = {
    path: text for path, text in json.loads(CHAIN.read_text()).items() if '"record":' in text and '"digest":' in text
}
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


def forge(draw: Any, body: Any) -> Any:
    """The body with one value somewhere in it replaced, left out, or put twice."""
    if not isinstance(body, dict | list) or not body or draw(st.integers(0, 5)) == 0:
        return draw(values)
    keys = sorted(body) if isinstance(body, dict) else list(range(len(body)))
    key = draw(st.sampled_from(keys))
    changed = dict(body) if isinstance(body, dict) else list(body)
    if draw(st.integers(0, 8)) == 0:
        del changed[key]
    else:
        changed[key] = forge(draw, body[key])
    return changed


@st.composite
def forged(draw: Any) -> tuple[str, bytes]:
    """A path of the log, and a record for it that is signed as ours are, but with something else in it."""
    path = draw(st.sampled_from(sorted(RECORDS)))
    body = json.loads(RECORDS[path])
    del body["digest"]
    kept = {name: body[name] for name in ("record", "format")}
    new = forge(draw, {name: value for name, value in body.items() if name not in kept})
    signed = {**(new if isinstance(new, dict) else {"odd": new}), **kept}
    return path, json.dumps({**signed, "digest": wire.canonical_digest(signed)}).encode()


@settings(max_examples=150, deadline=None)
@given(forged())
def test_a_forged_record_is_refused_by_its_path_or_read(given):
    path, data = given
    kind = json.loads(data)["record"]
    with contextlib.suppress(CorruptStateError):
        record = wire.decode(path, kind, KINDS[kind], data)
        assert wire.encode(kind, record)


@settings(max_examples=60, deadline=None)
@given(forged())
def test_commands_end_with_an_error_of_ours_whatever_a_record_says(given):
    path, data = given
    pipeline = Pipeline.__new__(Pipeline)
    pipeline.__dict__.update(PIPELINE.__dict__)
    pipeline.store = PIPELINE.store.clone()
    pipeline.store.delete(path)
    pipeline.store.put_if_absent(path, data)
    for command in (inspect, examine, lambda ctx: collect(ctx, dry_run=True), recover):
        with contextlib.suppress(KafkaHdfsError):
            command(pipeline.ctx())


PIPELINE = Pipeline()
PIPELINE.mend()
PIPELINE.store = load(CHAIN)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(RECORDS)), st.data())
def test_damaged_bytes_are_refused_by_their_path(path, data):
    good = RECORDS[path].encode()
    cut = data.draw(st.integers(0, len(good) - 2))
    garbage = data.draw(st.binary(min_size=1, max_size=8))
    bad = good[:cut] + garbage + good[cut + len(garbage) :] if data.draw(st.booleans()) else good[:cut]
    kind = json.loads(good)["record"]
    try:
        same = json.loads(bad) == json.loads(good)
    except ValueError:
        same = False
    if not same:
        with pytest.raises((CorruptStateError, NewerFormatError)) as caught:
            wire.decode(path, kind, KINDS[kind], bad)
        assert path in str(caught.value)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"format":' + "9" * 5000 + "}", "\ufeff{}", '"\\ud800"']
)
def test_texts_that_break_parsers_are_refused_by_their_path(text):
    with pytest.raises((CorruptStateError, NewerFormatError), match="commits/0/7"):
        wire.decode("commits/0/7", "commit", Commit, text.encode())


def test_every_kind_of_record_is_forged():
    assert {json.loads(text)["record"] for text in RECORDS.values()} == KINDS.keys()
