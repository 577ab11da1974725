"""Messages survive their JSON, keep their ids, and say what is wrong with a bad one."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.events import (
    _NAMES,
    DatasetDetail,
    EdgeMessage,
    Envelope,
    Job,
    MessageError,
    Run,
    RunMessage,
    TaskIoMessage,
    Versions,
    message_key,
)
from airflow_kafka_hdfs.lineage.identity import DatasetId, digest
from airflow_kafka_hdfs.lineage.message_json import MAX_BYTES, decode, encode, location
from airflow_kafka_hdfs.lineage.pairs import Flow, Options
from airflow_kafka_hdfs.lineage.workflow import Evidence, RunFacts, TaskIo, Use
from airflow_kafka_hdfs.ports.lineage import PairState

from .sketch import draw, ds, explicit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENVELOPE = Envelope(
    job=Job(instance="prod", dag_id="orders", owners=("ann", "bob"), tags=("x",), description="Orders."),
    run=Run(
        run_id="r1", run_type="scheduled", run_after=NOW, interval_start=NOW, interval_end=NOW + timedelta(hours=1)
    ),
    versions=Versions(airflow="3.3.2", bundle="git", bundle_version="abc"),
    emitted_at=NOW,
)
EDGE = EdgeMessage(
    envelope=ENVELOPE,
    source=DatasetDetail(dataset=DatasetId("kafka://b:9092", "orders"), schema_id="7", aliases=(ds("x"),)),
    target=DatasetDetail(
        dataset=DatasetId("hdfs://nn", "/data/orders"), subset="dt=1", fields=(("a", "int", "An a."),)
    ),
    state=PairState.WRITTEN,
    evidence=("declared", "order"),
    flow=Flow.WORKFLOW,
    path=("e", "l"),
    instances=3,
    declared=True,
    columns=(ColumnEdge(DatasetId("kafka://b:9092", "orders"), "a", DatasetId("hdfs://nn", "/data/orders"), "a"),),
)
RUN = RunMessage(
    envelope=ENVELOPE,
    structure_hash="00",
    graph=draw("e(A->tmp) >> l(tmp->Z ! tmp>Z)", schedule="S"),
    facts=RunFacts(states={("e", -1): ("success", 2)}, triggers=(ds("S"),), aliases={"al": (ds("P"),)}),
    options=Options.profile("yelp"),
    details=(DatasetDetail(dataset=ds("A"), temporary=True),),
    pairs=1,
)
REPORT = TaskIoMessage(
    envelope=ENVELOPE,
    report=TaskIo(
        task_id="e",
        map_index=3,
        try_number=2,
        state="failed",
        reads=(Use(ds("A"), Evidence.HOOK),),
        writes=(Use(ds("B"), Evidence.OPERATOR, inherit=False),),
        explicit=explicit("A>B"),
        aliases={"al": (ds("P"),)},
        temporary=frozenset({ds("B")}),
        complete=False,
    ),
)


@pytest.mark.parametrize("message", [EDGE, RUN, REPORT, replace(RUN, graph=None, truncated=("graph",))])
def test_a_message_survives_its_json(message):
    again = decode(encode(message))
    if isinstance(message, RunMessage) and message.graph:
        assert again.graph.structure_hash == message.graph.structure_hash
        again = replace(again, graph=message.graph)
    assert again == message


def test_an_edge_message_has_the_documented_fields():
    body = json.loads(encode(EDGE))
    assert set(body) == {
        "schema_version", "type", "event_id", "emitted_at", "job", "run", "versions", "source", "target", "edge"
    }  # fmt: skip
    assert body["source"] == {
        "namespace": "kafka://b:9092",
        "name": "orders",
        "collection": "b:9092",
        "table": "orders",
        "schema_id": "7",
        "aliases": [["test", "x"]],
    }
    assert body["run"]["data_interval"] == ["2026-03-01T12:00:00+00:00", "2026-03-01T13:00:00+00:00"]
    assert {"state", "evidence", "flow", "path", "instances", "self", "compressed", "columns"} <= set(body["edge"])


def test_ids_depend_on_what_a_message_is_about_and_not_on_when_it_is_sent():
    later = replace(ENVELOPE, emitted_at=NOW + timedelta(days=1))
    cleared = replace(ENVELOPE, run=replace(ENVELOPE.run, clear_number=1))
    for message in (EDGE, RUN, REPORT):
        assert replace(message, envelope=later).event_id == message.event_id
        assert replace(message, envelope=cleared).event_id != message.event_id
    assert len({EDGE.event_id, RUN.event_id, REPORT.event_id}) == 3
    assert all(uuid.UUID(message.event_id).version == 5 for message in (EDGE, RUN, REPORT))
    run = EDGE.envelope.run
    about = digest("run", EDGE.envelope.job.instance, EDGE.envelope.job.dag_id, run.run_id, str(run.clear_number))
    assert replace(RUN, envelope=EDGE.envelope).event_id == str(uuid.uuid5(_NAMES, about))
    assert replace(EDGE, source=EDGE.target).event_id != EDGE.event_id


def test_messages_of_a_run_share_a_key():
    assert message_key(ENVELOPE) == b"prod/orders/r1"


def test_long_texts_and_paths_are_cut_and_marked():
    envelope = replace(ENVELOPE, job=replace(ENVELOPE.job, description="x" * 5000))
    body = json.loads(encode(replace(EDGE, envelope=envelope, path=tuple(f"t{i}" for i in range(80)))))
    assert len(body["job"]["description"]) == 2000
    assert body["truncated"] == ["description"]
    assert (len(body["edge"]["path"]), body["edge"]["path_length"]) == (50, 80)


def test_a_graph_that_is_too_large_is_left_out_and_named():
    big = draw(" >> ".join(f"a_task_with_quite_a_long_name_{i:06}()" for i in range(4000)))
    data = encode(replace(RUN, graph=big))
    assert len(data) <= MAX_BYTES
    again = decode(data)
    assert (again.graph, again.truncated) == (None, ("datasets_detail", "graph"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "json"),
        (b"", "json"),
        (b"\xff", "json"),
        (b"[]", "json"),
        (b"{}", "version"),
        (b'{"schema_version": 99, "type": "edge"}', "version"),
        (b'{"schema_version": 1, "type": "odd"}', "type"),
        (b'{"schema_version": 1, "type": "edge"}', "fields"),
    ],
)
def test_a_bad_message_says_what_is_wrong(data, reason):
    with pytest.raises(MessageError) as caught:
        decode(data)
    assert caught.value.reason == reason


@given(st.sampled_from([EDGE, RUN, REPORT]), st.data())
def test_a_damaged_message_is_refused_or_read_and_never_breaks_the_reader(message, data):
    body = json.loads(encode(message))
    spot = body
    while isinstance(spot, dict) and spot:
        key = data.draw(st.sampled_from(sorted(spot)))
        if not isinstance(spot[key], dict) or data.draw(st.booleans()):
            spot[key] = data.draw(st.sampled_from([None, 0, "x", [], {}, [[1]], "2026-01-01"]))
            break
        spot = spot[key]
    damaged = json.dumps(body).encode()
    try:
        again = decode(damaged)
    except MessageError:
        return
    assert decode(encode(again)).event_id == again.event_id


def outcome(text):
    try:
        message = decode(text.encode())
    except MessageError as error:
        return error.reason, "" if error.reason == "json" else error.detail  # places in a text that is moved by one
    if isinstance(message, RunMessage) and message.graph:
        return replace(message, graph=None), message.graph.structure_hash
    return message


PIECES = [
    ',"source":',
    ',"job":{"instance":"x","dag_id":"y"}',
    ',"type":"run"',
    '"',
    "{",
    "}",
    ",",
    " ",
    "[",
    "\\",
    "é",
]


@given(st.sampled_from([EDGE, RUN, REPORT]), st.data())
def test_a_message_read_in_parts_is_the_message_read_whole(message, data):
    text = encode(message).decode()
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(
            st.one_of(st.integers(0, len(text)), st.sampled_from([n for n, c in enumerate(text) if c in '{,"']))
        )
        gone = data.draw(st.integers(0, 3))
        text = text[:at] + data.draw(st.sampled_from([*PIECES, ""])) + text[at + gone :]
    # A leading space is allowed everywhere in JSON and nowhere in what `encode` writes.
    assert outcome(text) == outcome(" " + text)


@pytest.mark.parametrize("text", [b'"\\u0000"', b'"\\ud800"'])
def test_a_text_that_no_database_takes_is_refused(text):
    with pytest.raises(MessageError, match="json"):
        decode(encode(EDGE).replace(b'"prod"', text))


@pytest.mark.parametrize(("key", "value"), [("instance", 1), ("owners", "ann"), ("owners", [1]), ("dag_id", None)])
def test_a_field_of_the_wrong_kind_is_refused(key, value):
    body = json.loads(encode(EDGE))
    body["job"][key] = value
    with pytest.raises(MessageError, match="fields"):
        decode(json.dumps(body).encode())


@pytest.mark.parametrize("name", ["up", "xcom", "each", "in_alias", "out_alias"])
def test_names_in_a_graph_are_texts(name):
    body = json.loads(encode(RUN))
    body["graph"]["tasks"][0][name] = [[]]
    with pytest.raises(MessageError, match="expected a list of names"):
        decode(json.dumps(body).encode())


def test_fields_that_a_later_version_adds_are_ignored():
    body = json.loads(encode(EDGE))
    body["job"]["colour"] = body["run"]["colour"] = body["colour"] = "blue"
    assert decode(json.dumps(body).encode()) == EDGE


@pytest.mark.parametrize(
    ("dataset", "where"),
    [
        (DatasetId("kafka://main", "orders"), ("main", "orders")),
        (DatasetId("hdfs://nn", "/data/lake/orders"), ("data/lake", "orders")),
        (DatasetId("hive://m:9083", "db.t"), ("db", "t")),
        (DatasetId("asset", "orders"), ("asset", "orders")),
        (DatasetId("s3://b", "a.b/c.d"), ("a.b", "c.d")),
    ],
)
def test_a_dataset_is_found_by_collection_and_table(dataset, where):
    assert location(dataset) == where


@given(st.lists(st.sampled_from(["state", "evidence", "path", "instances", "declared", "columns"]), max_size=3))
def test_a_pair_that_is_told_in_other_words_is_read_anew(changed):
    said = EdgeMessage(
        envelope=ENVELOPE,
        source=DatasetDetail(dataset=ds("a")),
        target=DatasetDetail(dataset=ds("b")),
        state=PairState.WRITTEN,
    )
    others = {
        "state": PairState.FAILED,
        "evidence": ("hook",),
        "path": ("t",),
        "instances": 2,
        "declared": True,
        "columns": (ColumnEdge(ds("a"), "x", ds("b"), "y", True, "IDENTITY", False),),
    }
    other = replace(said, **{name: others[name] for name in changed})
    assert [decode(encode(message)) for message in (said, other, said)] == [said, other, said]
