"""The REST of lineage inside Airflow's API server: login, rights on DAGs, and what each route answers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from tests.airflow.lineage_server import API
from tests.fakes.lineage_chain import DAY, NOW, job_id, key


def routes():
    from airflow_kafka_hdfs.plugins.lineage_app import create_app

    app = create_app(LineageHook(LineageSettings(enabled=True)))
    return sorted((method, route.path) for route in app.routes for method in route.methods)


@pytest.mark.parametrize(("method", "path"), routes())
def test_no_route_answers_without_a_login(server, method, path):
    client, _ = server
    full = "/lineage" + path.replace("{dataset_id}", "x").replace("{job_id}", "x").replace("{dag_id}", "x")
    answer = client.request(method, full, headers={"Authorization": "Bearer "})
    assert answer.status_code == 401, answer.text


@pytest.mark.parametrize(("method", "path"), [one for one in routes() if one[0] != "GET" and one[1] != "/layout"])
def test_no_route_that_writes_answers_to_another_web_site(server, method, path):
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    client, manager = server
    cookie = f"_token={manager.generate_jwt(SimpleAuthManagerUser(username='eve', role='admin'))}"
    codes = [
        client.request(method, f"/lineage{path}", headers={"Cookie": cookie, "Origin": origin}, content=b"").status_code
        for origin in ("http://evil.test", "http://airflow.test.evil", "http://airflow.test")
    ]
    assert codes == [403, 403, 422]


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/api/v1/docs", "/api/v1/openapi.json"])
def test_there_are_no_pages_of_documentation(server, path):
    client, _ = server
    assert client.get(f"/lineage{path}").status_code == 404


class TestTheCaller:
    def test_finds_only_datasets_and_jobs_of_readable_dags(self, call):
        names = {item["name"] for item in call("ann", "/search?q=e")["items"]}
        assert {"orders", "/clean", "api_ingest", "api_clean", "/secret"} <= names
        assert "api_secret" not in names
        assert {item["name"] for item in call("bob", "/search?q=e")["items"]} == {"/clean", "/secret", "api_secret"}
        assert {job["dag_id"] for job in call("bob", "/jobs")["items"]} == {"api_secret"}
        assert call("bob", "/datasets")["total"] == 2

    def test_sees_what_lies_behind_without_a_name(self, call):
        graph = call("bob", f"/graph?node={key('/clean')}&up=5&down=5")
        found = {node["dataset"]["name"] or "?": node["distance"] for node in graph["nodes"]}
        hidden = [node["dataset"] for node in graph["nodes"] if node["dataset"]["restricted"]]
        assert found == {"/clean": 0, "/secret": 1, "?": 2}
        assert sorted(node["distance"] for node in graph["nodes"]) == [-2, -1, 0, 1, 2]
        assert all(view["id"].startswith("restricted-") and not view["namespace"] for view in hidden)
        assert len(graph["links"]) == 4
        assert {job["dag_id"] for job in graph["jobs"]} == {"api_secret", ""}
        text = json.dumps(graph)
        assert not [
            word for word in ("orders", "raw", "report", "api_ingest", "api_clean_", key("/raw")) if word in text
        ]

    def test_gets_no_page_of_what_is_restricted(self, call):
        for path in (f"/datasets/{key('orders')}", f"/graph?node={key('orders')}", f"/impact?node={key('orders')}"):
            call("bob", path, code=404)
        for path in ("", "/runs", "/pairs", "/compare?at=2026-01-01"):
            call("bob", f"/jobs/{job_id('api_ingest')}{path}", code=404)
        call("bob", f"/path?from={key('/clean')}&to={key('/report')}", code=404)
        call("bob", f"/popularity?dataset={key('orders')}", code=404)
        assert call("bob", "/datasets/lookup?schema_id=77")["items"][0]["dataset"]["name"] == "/secret"

    def test_with_rights_on_all_sees_all(self, call):
        assert call("eve", "/datasets")["total"] == 5
        assert call("eve", "/stats")["jobs"] == 4


def test_a_dataset_page_tells_where_it_comes_from_and_goes_to(call):
    page = call("ann", f"/datasets/{key('/raw')}")
    assert (page["dataset"]["name"], page["dataset"]["owners"]) == ("/raw", ["api_ingest_owner"])
    assert [job["dag_id"] for job in page["writers"]] == ["api_ingest"]
    assert [job["dag_id"] for job in page["readers"]] == ["api_clean"]
    assert [item["dataset"]["name"] for item in page["upstream"]] == ["orders"]
    assert [item["dataset"]["name"] for item in page["downstream"]] == ["/clean"]
    assert [schema["schema_version"] for schema in page["schemas"]] == ["2", "1"]
    assert page["schemas"][0]["columns"] == [["id", "long", "key"]]
    assert len(page["runs"]) == 3


def test_a_job_page_tells_versions_and_runs(call):
    page = call("ann", f"/jobs/{job_id('api_clean')}")
    assert (page["job"]["dag_id"], page["job"]["link"]) == ("api_clean", "/dags/api_clean")
    assert [item["name"] for item in page["inputs"]] == ["/raw"]
    assert [item["name"] for item in page["outputs"]] == ["/clean"]
    assert len(page["versions"]) == 2
    assert call("ann", "/jobs/by-dag/api_clean") == page
    runs = call("ann", f"/jobs/{job_id('api_clean')}/runs?limit=2")["items"]
    assert len(runs) == 2
    rest = call(
        "ann",
        f"/jobs/{job_id('api_clean')}/runs",
        params={"before": runs[-1]["run_after"], "before_run": runs[-1]["run_id"]},
    )
    assert [run["run_id"] for run in rest["items"]] == [f"r{NOW - 2 * DAY:%Y%m%d}"]
    (pair,) = call("ann", f"/jobs/{job_id('api_clean')}/pairs")["items"]
    assert (pair["source"]["name"], pair["target"]["name"], pair["runs"]) == ("/raw", "/clean", 3)
    (pair,) = call("ann", f"/jobs/{job_id('api_clean')}/pairs?run_id={runs[0]['run_id']}")["items"]
    assert (pair["state"], pair["path"]) == ("written", ["t"])


def test_two_dates_of_a_job_are_compared(call):
    at, later = (f"{NOW - days * DAY:%Y-%m-%d}" for days in (1, 0))
    found = call("ann", f"/jobs/{job_id('api_clean')}/compare?at={at}&with={later}")
    changes = {(change["what"], change["name"]): (change["before"], change["after"]) for change in found["changes"]}
    assert changes["version", "image"] == ("1", "2")
    assert set(changes) == {("version", "image"), ("job", "structure")}
    assert found["with"]["run_id"] == f"r{NOW:%Y%m%d}"


def test_impact_is_a_list_by_distance_and_a_table_for_spreadsheets(call):
    found = call("ann", f"/impact?node={key('orders')}")
    assert [(item["dataset"]["name"], item["distance"]) for item in found["items"]] == [
        ("/raw", 1),
        ("/clean", 2),
        ("/secret", 3),
        ("/report", 4),
    ]
    assert (found["total"], found["restricted"], found["by_distance"]) == (4, 0, [1, 1, 1, 1])
    assert [job["restricted"] for job in found["items"][2]["jobs"]] == [True]
    up = call("ann", f"/impact?node={key('/clean')}&direction=up")
    assert [item["dataset"]["name"] for item in up["items"]] == ["/raw", "orders"]
    table = call("ann", f"/impact?node={key('orders')}&format=csv").splitlines()
    assert table[1] == "1,hdfs://nn:8020,/raw,api_ingest_owner,api_ingest_team,,api_ingest"
    before = f"{NOW - 5 * DAY:%Y-%m-%d}"
    assert call("ann", f"/impact?node={key('orders')}&as_of={before}")["total"] == 0


def test_a_path_leads_from_one_dataset_to_another(call):
    found = call("ann", f"/path?from={key('orders')}&to={key('/report')}")
    assert [node["name"] for node in found["nodes"]] == ["orders", "/raw", "/clean", "/secret", "/report"]
    assert len(found["links"]) == 4
    assert call("ann", f"/path?from={key('/report')}&to={key('orders')}")["nodes"] == []


def test_identifiers_are_looked_up_both_ways(call):
    by_place = call("ann", "/datasets/lookup", params={"collection": "nn:8020", "table": "raw"})
    assert by_place["items"] == []
    page = call("ann", f"/datasets/{key('/raw')}")["dataset"]
    found = call("ann", "/datasets/lookup", params={"collection": page["collection"], "table": page["table"]})
    assert [(item["dataset"]["id"], item["schema"]["schema_version"]) for item in found["items"]] == [
        (key("/raw"), "2")
    ]
    assert {item["dataset"]["name"] for item in call("ann", "/datasets/lookup?schema_id=77")["items"]} == {
        "/raw",
        "/clean",
        "/secret",
        "/report",
    }
    call("ann", "/datasets/lookup", code=422)


def test_popularity_counts_readers_day_by_day(call):
    found = call("ann", f"/popularity?dataset={key('/raw')}")
    assert (found["readers"], found["runs"], found["teams"]) == (1, 3, ["api_clean_team"])
    assert found["days"][-1] == [f"{NOW:%Y-%m-%d}", 1, 1, 1]
    items = {item["dataset"]["name"]: item for item in call("ann", "/popularity")["items"]}
    assert items.keys() >= {"orders", "/raw"}
    assert items["/raw"]["teams"] == found["teams"]


def test_health_tells_how_far_the_warehouse_was_loaded(call):
    assert call("ann", "/health") == {"status": "healthy", "last_loaded": None, "runs_waiting": 0}


class TestResponsibilities:
    BODY = {"entity": key("/clean"), "parties": ["data-platform"]}

    def test_are_set_by_those_who_may_edit_and_shown_to_all(self, call):
        told = call("ann", "/responsibilities", method="PUT", json=self.BODY, role="user")
        assert told == {"entity": key("/clean"), "role": "technical_steward", "parties": ["data-platform"]}
        (found,) = call("bob", f"/datasets/{key('/clean')}")["responsibilities"]
        assert (found["party"], found["origin"], found["changed_by"]) == ("data-platform", "api", "ann")
        call("ann", "/responsibilities", method="PUT", json={**self.BODY, "parties": []}, role="user")
        assert call("bob", f"/datasets/{key('/clean')}")["responsibilities"] == []

    def test_are_refused_to_those_who_may_only_read(self, call):
        call("bob", "/responsibilities", method="PUT", json=self.BODY, code=403, role="user")
        call("bob", "/responsibilities", method="PUT", json={**self.BODY, "entity": key("orders")}, code=404)
        call("ann", "/responsibilities", method="PUT", json={**self.BODY, "role": "no role"}, code=422)

    def test_of_jobs_elsewhere_need_the_right_to_tell_of_them_whatever_their_names(self, call):
        from tests.fakes.openlineage import event

        # The name of a DAG here that ann may edit.
        there = {**event("COMPLETE", 30, [], []), "eventTime": NOW.isoformat()}
        there["job"] = {
            **there["job"],
            "namespace": "spark",
            "name": "api_clean",
        }
        call("eve", "/events", method="POST", json=there, role="admin")
        body = {"entity": job_id("api_clean", "spark"), "parties": ["spark-team"]}
        call("ann", "/responsibilities", method="PUT", json=body, code=403)
        call("eve", "/responsibilities", method="PUT", json=body, role="admin")

    def test_stand_in_the_audit_log(self, call):
        from airflow.models.log import Log
        from airflow.utils.session import create_session

        call("ann", "/responsibilities", method="PUT", json=self.BODY)
        with create_session() as session:
            found = session.query(Log).filter(Log.event == "put_responsibilities", Log.owner == "ann").all()
            assert json.loads(found[-1].extra)["parties"] == ["data-platform"]

    def test_a_call_from_another_web_site_is_refused(self, server):
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        client, manager = server
        token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="user"))
        codes = {}
        for origin in ("http://evil.test", "http://airflow.test", "null", ""):
            headers = {"Cookie": f"_token={token}"} | ({"Origin": origin} if origin else {})
            url = f"{API}/responsibilities"
            codes[origin] = client.put(url, json=self.BODY, headers=headers).status_code
        assert codes == {"http://evil.test": 403, "http://airflow.test": 200, "null": 403, "": 403}


def test_a_graph_shows_what_is_asked_for(call):
    def names(show):
        graph = call("ann", f"/graph?node={key('/raw')}&show={show}")
        return {node["dataset"]["name"] for node in graph["nodes"]}

    assert names("all") == names("observed") == names("declared") == {"orders", "/raw", "/clean"}
    assert names("failing") == {"/raw"}
    call("ann", f"/graph?node={key('/raw')}&show=some", code=422)


class TestWhatALoginMayRead:
    @pytest.fixture
    def asked(self, server, monkeypatch):
        """(user, what was asked for) of every question to Airflow; `ann` may read `dag_1`, admins all."""
        from airflow_kafka_hdfs.plugins import lineage_security

        asked = []

        def some(user, dag_ids):
            asked.append((user.username, sorted(dag_ids)))
            return {dag_id for dag_id in dag_ids if dag_id == "dag_1" or user.role.lower() == "admin"}

        monkeypatch.setattr(lineage_security, "readable_dags", some)
        monkeypatch.setattr(lineage_security, "all_readable_dags", some)
        return asked

    @staticmethod
    def user(name, role="viewer"):
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

        return SimpleAuthManagerUser(username=name, role=role)

    class Reader:
        jobs = [(f"j{number}", "here", f"dag_{number}") for number in range(4)] + [("s1", "spark", "x")]

        def count(self, kind):
            return len(self.jobs)

        def job_names(self, job_ids=None):
            return [job for job in self.jobs if job_ids is None or job[0] in job_ids]

    def test_a_page_asks_for_its_own_jobs_and_for_each_once(self, asked):
        from airflow_kafka_hdfs.plugins.lineage_rights import RememberedRights

        access = RememberedRights()(self.user("ann"), self.Reader(), "here")
        assert access.readable(["j1", "j2", "s1", "nobody"]) == {"j1"}
        assert (access.reads("j1"), access.reads("j2"), access.reads("j3")) == (True, False, False)
        assert asked == [("ann", ["dag_1", "dag_2"]), ("ann", ["dag_3"])]

    def test_jobs_of_other_deployments_are_readable_where_these_are_open(self, asked):
        from airflow_kafka_hdfs.plugins.lineage_rights import RememberedRights

        access = RememberedRights()(self.user("ann"), self.Reader(), "here", {"spark"})
        assert access.readable(["s1"]) == {"s1"}
        assert asked == []

    @pytest.mark.parametrize("ask", [lambda access: access.reads("j1"), lambda access: access.among])
    def test_it_is_asked_again_after_a_while_and_at_once_for_a_new_login(self, asked, ask):
        from airflow_kafka_hdfs.plugins.lineage_rights import RememberedRights

        now = [0.0]
        remembered = RememberedRights(seconds=10, clock=lambda: now[0])

        def look(name, role="viewer"):
            return ask(remembered(self.user(name, role), self.Reader(), "here"))

        first = [look(name) for name in ("ann", "ann", "bob", "ann")]
        assert first == [first[0]] * 4
        assert [user for user, _ in asked] == ["ann", "bob"]
        look("ann", role="admin")
        now[0] = 9.9
        look("ann")
        assert [user for user, _ in asked] == ["ann", "bob", "ann"]
        now[0] = 10.1
        look("ann")
        assert [user for user, _ in asked] == ["ann", "bob", "ann", "ann"]

    def test_a_new_job_counts_at_once(self, asked):
        from airflow_kafka_hdfs.plugins.lineage_rights import RememberedRights

        reader, remembered = self.Reader(), RememberedRights()
        assert remembered(self.user("eve", "admin"), reader, "here", {"spark"}).among is None
        assert remembered(self.user("ann"), reader, "here").among == {"j1"}
        reader.jobs = [*reader.jobs, ("j9", "here", "dag_1")]
        assert remembered(self.user("ann"), reader, "here").among == {"j1", "j9"}
        assert remembered(self.user("ann"), reader, "here").readable(["j9"]) == {"j9"}

    @pytest.mark.parametrize("name", ["ann", "bob", "eve"])
    def test_law_a_few_dags_are_judged_as_all_are(self, server, name):
        from airflow_kafka_hdfs.plugins import lineage_security

        dags = {"api_ingest", "api_clean", "api_secret", "api_after", "gone_one"}
        whole = lineage_security.all_readable_dags(self.user(name), dags) & dags
        assert lineage_security.readable_dags(self.user(name), dags) == whole
        for dag_id in dags:
            assert lineage_security.readable_dags(self.user(name), {dag_id}) == whole & {dag_id}

    def test_with_teams_nobody_reads_what_is_gone(self, server, monkeypatch):
        from airflow_kafka_hdfs.plugins import lineage_security

        assert "gone_one" in lineage_security.readable_dags(self.user("eve"), {"gone_one"})
        monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
        assert lineage_security.readable_dags(self.user("eve"), {"gone_one"}) == set()


def test_what_no_job_touches_is_for_those_who_read_everything():
    from airflow_kafka_hdfs.lineage.access import Access, Listed

    class All(Listed):
        def all_readable(self):
            return None

    reader = SimpleNamespace(touching=lambda ids: [("d1", "j1"), ("d2", "j2")])
    seen = {who: Access(rights=who(frozenset({"j1"}))).visible(reader, {"d1", "d2", "d3"}) for who in (Listed, All)}
    assert seen == {Listed: {"d1"}, All: {"d1", "d3"}}


def test_a_missing_warehouse_is_told_as_such(tmp_path, server):
    from airflow_kafka_hdfs.plugins.lineage_app import create_app
    from airflow_kafka_hdfs.plugins.lineage_security import User

    settings = LineageSettings(enabled=True, warehouse=f"sqlite:///{tmp_path}/none.db")
    app = create_app(LineageHook(settings))
    app.dependency_overrides[User.__metadata__[0].dependency] = lambda: None
    answer = TestClient(app).get("/api/v1/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "unhealthy")
    assert answer.json()["problem"].startswith("warehouse: schema missing")
    assert "lineage init" in answer.json()["problem"]


def test_a_warehouse_that_is_away_does_not_tell_where_it_is(server, caplog):
    from airflow_kafka_hdfs.plugins.lineage_app import create_app
    from airflow_kafka_hdfs.plugins.lineage_security import User

    url = "postgresql+psycopg2://keeper:s3cret@127.0.0.1:1/vault"
    app = create_app(LineageHook(LineageSettings(enabled=True, warehouse=url)))
    app.dependency_overrides[User.__metadata__[0].dependency] = lambda: None
    answers = [TestClient(app).get(path) for path in ("/api/v1/health", "/api/v1/search?q=x")]
    assert [answer.status_code for answer in answers] == [503, 503]
    for answer in answers:
        assert "the warehouse could not answer" in answer.text
        assert not [word for word in ("keeper", "127.0.0.1", "vault") if word in answer.text]
    assert "keeper:***@127.0.0.1:1/vault" in caplog.text
