"""Wrong input to the REST of lineage, on PostgreSQL, which takes fewer texts and times than SQLite."""

from __future__ import annotations

import json

import pytest

from tests.airflow.lineage_server import API, serving
from tests.fakes.lineage_chain import DAY, NOW, job_id, key

RAW, CLEAN = key("/raw"), job_id("api_clean")
WRONG = [
    "a\x00b",
    "Ä/ö?#&=%'\"`;--",
    "🚀",
    "x" * 5_000,
    "0001-01-01",
    "0001-01-01T00:00+14:00",
    "9999-12-31T23:00-14:00",
]
READING = [
    ("/search", {"q": "raw", "limit": "5"}),
    ("/datasets", {"q": "", "namespace": "", "offset": "0"}),
    ("/datasets/lookup", {"collection": "nn:8020", "table": "raw", "schema_version": ""}),
    ("/datasets/lookup", {"schema_id": "77"}),
    ("/jobs", {"q": "", "team": "", "domain": ""}),
    (f"/jobs/{CLEAN}/runs", {"limit": "5", "before": "2026-01-01", "before_run": ""}),
    (f"/jobs/{CLEAN}/pairs", {"run_id": ""}),
    (f"/jobs/{CLEAN}/compare", {"at": "2026-01-01", "with": ""}),
    ("/graph", {"node": RAW, "up": "1", "as_of": "", "show": "all"}),
    ("/impact", {"node": RAW, "direction": "down", "as_of": "", "format": "json"}),
    ("/path", {"from": RAW, "to": key("/clean"), "as_of": ""}),
    ("/popularity", {"dataset": RAW, "days": "3"}),
    ("/repair", {"dataset": RAW, "from": f"{NOW - DAY:%Y-%m-%d}", "to": ""}),
]
REPAIR = {"dataset": RAW, "from": f"{NOW - DAY:%Y-%m-%d}", "to": "", "dag_ids": ["api_clean"]}
WRITING = [
    ("PUT", "/responsibilities", {"entity": key("/clean"), "role": "technical_steward", "parties": ["a"]}),
    ("POST", "/relations", {"job": {"name": "api_clean"}, "inputs": [{"uri": "hdfs://nn:8020/raw"}], "replace": True}),
    ("POST", "/repair/freeze", REPAIR),
    ("POST", "/repair/rerun", REPAIR),
    ("POST", "/repair/resume", {"repair_id": "x", "dag_ids": None}),
]


@pytest.fixture(scope="module")
def server(airflow_db, postgres_server):
    with serving(postgres_server.create_database("lineage_input")) as found:
        yield found


@pytest.fixture
def code(server):
    """`code(method, path, …)`: the status of a call of ann's, whatever went wrong in the server."""
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    client, manager = server
    token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="user"))

    def call(method, path, **more):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return client.request(method, f"{API}{path}", headers=headers, **more).status_code

    return call


@pytest.mark.parametrize(("path", "params"), READING, ids=lambda value: value if isinstance(value, str) else "")
def test_a_parameter_that_cannot_be_used_is_told_or_finds_nothing(code, path, params):
    assert code("GET", path, params=params) == 200
    codes = {(name, text): code("GET", path, params=params | {name: text}) for name in params for text in WRONG}
    assert set(codes.values()) <= {200, 404, 422}
    assert {codes[name, "a\x00b"] for name in params} == {422}


@pytest.mark.parametrize("path", ["/datasets/{}", "/jobs/{}", "/jobs/{}/runs", "/jobs/{}/pairs", "/jobs/by-dag/{}"])
def test_an_id_that_cannot_be_is_told(code, path):
    codes = [code("GET", path.format(text)) for text in ("a%00b", "%F0%9F%9A%80", "..%2F..", "%27%22")]
    assert codes == [422, 404, 404, 404]


@pytest.mark.parametrize(("method", "path", "body"), WRITING, ids=lambda value: value if isinstance(value, str) else "")
def test_a_body_that_cannot_be_used_is_told(code, method, path, body):
    for name in body:
        for value in (*WRONG[:1], "\ud800", 7, [["\x00"]], {"\x00": 1}, json.loads("[" * 800 + "]" * 800)):
            wrong = json.dumps({**body, name: value})
            assert code(method, path, content=wrong) in (404, 422), (name, value)
    for moment in WRONG[-3:]:
        if "from" in body:
            assert code(method, path, content=json.dumps({**body, "from": moment})) == 422
    for text in (b"{", b"[]", b"\xff"):
        assert code(method, path, content=text) in (400, 422)


def test_a_wrong_parameter_is_named(call):
    told = call("ann", f"/graph?node={RAW}&as_of=2026-02-30", code=422)["detail"]
    assert told == "as_of: got '2026-02-30'; allowed: an ISO date or time from the year 1900 on"
    (problem,) = call("ann", f"/graph?node={RAW}&up=99999", code=422)["detail"]
    assert (problem["loc"], "50" in problem["msg"]) == (["query", "up"], True)
