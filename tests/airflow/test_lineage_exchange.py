"""REST of lineage: events of OpenLineage and relations that people post, and what they may not open."""

from __future__ import annotations

import json

from tests.fakes.lineage_chain import NOW, job_id, key
from tests.fakes.openlineage import event, task_event


def told(dag_id, inputs, outputs, namespace="here"):
    """What Airflow's OpenLineage provider says of a task of a DAG."""
    body = task_event("COMPLETE", 0, "t", inputs, outputs, dag_id=dag_id)
    body["eventTime"] = body["run"]["facets"]["airflow"]["dagRun"]["run_after"] = NOW.isoformat()
    return {**body, "job": {**body["job"], "namespace": namespace}}


def named(name):
    return {"namespace": "hdfs://nn:8020" if name.startswith("/") else "kafka://b:9092", "name": name}


class TestEventsOfOthers:
    def test_become_pairs_at_once_and_only_once(self, call):
        body = {**event("COMPLETE", 0, [named("/told")], [named("/more")]), "eventTime": NOW.isoformat()}
        assert call("eve", "/events", method="POST", json=body, role="admin") == {
            "accepted": 1, "new": 1, "rejected": []
        }  # fmt: skip
        assert call("eve", "/events", method="POST", json=[body, body], role="admin")["new"] == 0
        page = call("bob", f"/datasets/{key('/told')}")
        assert [(job["instance"], job["dag_id"]) for job in page["readers"]] == [("spark", "app")]

    def test_need_the_right_to_edit_the_dag_or_to_post_events_of_assets(self, call):
        mine = told("api_clean", [named("/raw")], [named("/clean")])
        assert call("ann", "/events", method="POST", json=mine, role="user")["new"] == 1
        call("bob", "/events", method="POST", json=mine, code=403, role="user")
        others = told("api_clean", [named("/raw")], [named("/clean")], namespace="elsewhere")
        call("ann", "/events", method="POST", json=others, code=403)
        call("ann", "/events", method="POST", json={"eventTime": 7}, code=403)

    def test_do_not_open_what_is_hidden(self, call):
        hidden = told("vault", [], [named("/vault")], namespace="elsewhere")
        call("eve", "/events", method="POST", json=hidden, role="admin")
        call("ann", f"/datasets/{key('/vault')}", code=404)
        spying = told("api_clean", [named("/vault")], [named("/clean")])
        refused = call("ann", "/events", method="POST", json=spying, code=403, role="user")
        assert "/vault" in refused["detail"]
        body = {"job": {"name": "api_clean"}, "inputs": [named("/vault")]}
        call("ann", "/relations", method="POST", json=body, code=403, role="user")
        call("ann", f"/datasets/{key('/vault')}", code=404)

    def test_name_what_started_them_to_those_who_may_read_it(self, call):
        parents = ["api_secret.group.task", "api_clean.t", "api_clean", "unheard.of"]
        for number, name in enumerate(parents):
            parent = {"parent": {"job": {"namespace": "here", "name": name}, "run": {"runId": "x"}}}
            started = {**event("COMPLETE", run=100 + number, run_facets=parent), "eventTime": NOW.isoformat()}
            call("eve", "/events", method="POST", json=started, role="admin")

        def told(user, role="viewer"):
            runs = call(user, f"/jobs/{job_id('app', 'spark')}/runs", role=role)["items"]
            return {run["triggered_by"] for run in runs} - {""}

        assert told("bob") == {"here/api_secret.group.task", "restricted"}
        assert told("ann") == {"here/api_clean.t", "here/api_clean", "restricted"}
        assert told("eve", "admin") >= {f"here/{name}" for name in parents[:3]}

    def test_that_cannot_be_used_are_told_one_by_one(self, call):
        good, bad = event("COMPLETE", 1, [named("/told")], [named("/most")]), {"eventTime": 7}
        answer = call("eve", "/events", method="POST", json=[bad, good], role="admin")
        assert (answer["accepted"], [item["index"] for item in answer["rejected"]]) == (1, [0])
        assert "eventTime" in call("eve", "/events", method="POST", json=bad, code=422, role="admin")["detail"]
        call("eve", "/events", method="POST", content=b"{", code=422, role="admin")

    def test_stand_in_the_audit_log_without_their_bodies(self, call):
        from airflow.models.log import Log
        from airflow.utils.session import create_session

        secret = {"environmentVariables": {"environmentVariables": [{"name": "KEY", "value": "s3cret"}]}}
        call("eve", "/events", method="POST", json=event("COMPLETE", 2, run_facets=secret), role="admin")
        with create_session() as session:
            found = session.query(Log).filter(Log.event == "post_lineage_events", Log.owner == "eve").all()
            assert json.loads(found[-1].extra) == {"accepted": 1, "rejected": 0, "jobs": ["spark/app"]}


class TestRelations:
    def post(self, call, user, code=200, **body):
        body = {"job": {"name": "api_clean"}, **body}
        return call(user, "/relations", method="POST", json=body, code=code, role="user")

    def test_make_pairs_until_they_are_taken_back(self, call):
        body = {"inputs": [named("orders")], "outputs": [{"uri": "hdfs://nn:8020/board"}]}
        posted = self.post(call, "ann", **body)
        assert (posted["job_id"], posted["pairs"]) == (job_id("api_clean"), 1)
        page = call("ann", f"/datasets/{key('/board')}")
        assert [item["dataset"]["name"] for item in page["upstream"]] == ["orders"]
        assert [job["dag_id"] for job in page["writers"]] == ["api_clean"]
        assert self.post(call, "ann", replace=True)["pairs"] == 0
        call("ann", f"/datasets/{key('/board')}", code=404)

    def test_need_the_right_to_edit_the_dag(self, call):
        self.post(call, "bob", code=403)
        self.post(call, "ann", code=403, job={"name": "api_ingest"})
        self.post(call, "ann", code=404, job={"id": job_id("api_secret")})
        self.post(call, "ann", code=404, inputs=[{"id": key("nothing")}])
        self.post(call, "ann", code=422, inputs=[{"uri": "kafka://"}])
        self.post(call, "ann", code=422, job={})
