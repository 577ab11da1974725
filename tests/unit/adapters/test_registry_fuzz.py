"""Whatever a registry answers, it is a schema, a clear no, or an outage: nothing else is raised, and nothing hangs."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.rest_client import Answer
from airflow_kafka_hdfs.adapters.schema_registry import ConfluentRegistry, WideIdRegistry
from airflow_kafka_hdfs.exceptions import RegistryUnavailableError, UnknownSchemaError, UnusableSchemaError
from tests.fakes.runtime import ManualClock

EXPECTED = (UnknownSchemaError, UnusableSchemaError, RegistryUnavailableError)
RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}
WIDE = "ab" * 16

scalars = st.none() | st.booleans() | st.integers(-5, 2**40) | st.text(max_size=4) | st.just(json.dumps(RECORD))
names = st.sampled_from(
    ["schema", "schemaType", "id", "references", "subject", "version", "name", "error_code", "type", "fields", "items"]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=8
)
schemas = st.sampled_from([RECORD, "long", ["null", RECORD], [], {}, {"type": "nonsense"}, {"type": {"type": "long"}}])
bodies = st.one_of(
    values,
    st.fixed_dictionaries(
        {"schema": schemas.map(json.dumps) | values, "id": st.just(7) | values},
        optional={
            "references": values | st.lists(st.just({"name": "R", "subject": "s", "version": 1})),
            "schemaType": values,
        },
    ),
)
texts = (
    bodies.map(json.dumps) | st.text(max_size=30) | st.sampled_from(["[" * 3_000, '{"schema":' * 3_000, '"\\ud800"'])
)
answers = st.builds(
    Answer,
    url=st.just("http://registry/asked"),
    status=st.sampled_from([200, 200, 200, 201, 204, 301, 400, 404, 404, 409, 422]),
    content_type=st.sampled_from(["application/json", "", "text/plain", "image/png"]),
    text=texts,
    location=st.sampled_from(["", f"/id={WIDE}", "/id=zz"]),
)


class Scripted:
    """A client that gives one answer after the other, the last one for ever."""

    def __init__(self, given: list[Answer]) -> None:
        self.given = given
        self.asked = 0

    def get(self, path: str) -> Answer:
        self.asked += 1
        assert self.asked < 2_000, "it goes on asking"
        return self.given[min(self.asked, len(self.given)) - 1]


@settings(max_examples=150, deadline=None)
@given(st.lists(answers, min_size=1, max_size=3), st.sampled_from(["narrow", "wide"]), st.booleans())
def test_an_answer_is_a_schema_a_no_or_an_outage(given, kind, latest):
    client: Any = Scripted(given)
    registry = ConfluentRegistry(client, ManualClock()) if kind == "narrow" else WideIdRegistry(client, ManualClock())
    text: str | None = None
    with contextlib.suppress(*EXPECTED):
        if latest:
            found = registry.latest("events")
            text = None if found is None else found[1]
        else:
            text = registry.by_id(7 if kind == "narrow" else WIDE)
    if text is not None:
        codec = FastavroCodec()
        with contextlib.suppress(UnusableSchemaError):
            codec.parse(text)
            codec.canonical(text)


@pytest.mark.parametrize(
    "references", [5, {"a": 1}, ["x"], [{}], [{"subject": "s"}], [{"name": "R", "subject": "s"}, {"version": 1}]]
)
def test_references_of_another_shape_name_the_address(references):
    text = json.dumps({"id": 7, "schema": json.dumps(RECORD), "references": references})
    answer = Answer(url="http://registry/asked", status=200, content_type="application/json", text=text)
    client: Any = Scripted([answer])
    with pytest.raises((RegistryUnavailableError, UnusableSchemaError), match=r"http://registry/asked|references"):
        ConfluentRegistry(client, ManualClock()).by_id(7)
