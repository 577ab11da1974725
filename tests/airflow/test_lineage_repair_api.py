"""Repairs through the REST of lineage: the plan, and what is done with the rights of the caller."""

from __future__ import annotations

import pytest

from tests.fakes.lineage_chain import DAY, NOW, key


class TestRepair:
    DAY_BEFORE = f"{NOW - DAY:%Y-%m-%dT%H:%M:%S}+00:00"
    BODY = {"dataset": key("/raw"), "from": DAY_BEFORE, "to": f"{NOW + DAY:%Y-%m-%d}"}

    @pytest.fixture(autouse=True)
    def running(self, server):
        """All DAGs run, `api_after` alone is paused."""
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            for dag in session.query(DagModel).filter(DagModel.dag_id.like("api_%")):
                dag.is_paused = dag.dag_id == "api_after"

    def paused(self):
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            return {d.dag_id for d in session.query(DagModel).filter(DagModel.dag_id.like("api_%")) if d.is_paused}

    def test_the_plan_names_suspects_and_what_to_run_again_in_order(self, call):
        plan = call("eve", "/repair", params=self.BODY)["plan"]
        assert [(step["order"], step["job"]["dag_id"]) for step in plan["steps"]] == [
            (0, "api_clean"),
            (1, "api_secret"),
            (2, "api_after"),
        ]
        assert {step["how"] for step in plan["steps"]} == {"clear"}  # these runs have no date
        assert plan["steps"][0]["run_ids"] == [f"r{NOW - DAY:%Y%m%d}", f"r{NOW:%Y%m%d}"]
        (suspect,) = plan["suspects"]
        assert (suspect["job"]["dag_id"], suspect["distance"]) == ("api_ingest", 1)
        assert (plan["datasets"], plan["restricted_jobs"], plan["truncated"]) == (3, 0, False)
        mine = call("ann", "/repair", params=self.BODY)["plan"]
        assert [step["job"]["dag_id"] for step in mine["steps"]] == ["api_clean", "api_after"]
        assert mine["restricted_jobs"] == 1
        call("bob", "/repair", params=self.BODY, code=404)
        call("eve", "/repair", params={**self.BODY, "to": "2020-01-01"}, code=422)

    def test_nothing_is_done_unless_it_is_confirmed(self, call):
        shown = call("ann", "/repair/freeze", method="POST", json=self.BODY, role="user")
        assert shown["would"] == {"pause": ["api_after", "api_clean"]}
        assert shown["refused"] == ["api_after"]
        assert self.paused() == {"api_after"}
        call("ann", "/repair/rerun", method="POST", json={**self.BODY, "dag_ids": ["api_clean"]}, role="user")

    def test_exactly_what_was_paused_is_resumed_with_the_rights_of_the_caller(self, call):
        yes = {**self.BODY, "confirm": True}
        told = call("ann", "/repair/freeze", method="POST", json=yes, role="user")
        assert {item["dag_id"]: item["what"] for item in told["done"]} == {
            "api_after": "unchanged",
            "api_clean": "paused",
        }
        assert (told["failed"], self.paused()) == (0, {"api_after", "api_clean"})
        assert call("ann", "/repair", params=self.BODY)["frozen"] == ["api_clean"]
        over = {"repair_id": told["repair_id"], "confirm": True}
        call("bob", "/repair/resume", method="POST", json=over, code=404)
        told = call("ann", "/repair/resume", method="POST", json=over, role="user")
        assert [item["dag_id"] for item in told["done"]] == ["api_clean"]
        assert self.paused() == {"api_after"}
        assert call("ann", "/repair", params=self.BODY)["frozen"] == []

    def test_what_airflow_refuses_is_told_and_stays_as_it_was(self, call):
        yes = {"dataset": key("/clean"), "from": self.DAY_BEFORE, "confirm": True}
        told = call("bob", "/repair/freeze", method="POST", json=yes, role="user")
        assert [(item["dag_id"], item["problem"][:3]) for item in told["done"]] == [("api_secret", "403")]
        assert (told["failed"], self.paused()) == (1, {"api_after"})

    def test_a_job_that_cannot_be_run_again_stays_frozen(self, call):
        yes = {**self.BODY, "dag_ids": ["api_clean"], "confirm": True}
        call("ann", "/repair/freeze", method="POST", json=yes, role="user")
        shown = call("ann", "/repair/rerun", method="POST", json={**yes, "confirm": False}, role="user")
        assert shown["would"]["resume"] == ["api_clean"]
        told = call("ann", "/repair/rerun", method="POST", json=yes, role="user")
        assert told["failed"] == len(told["done"]) == 2
        assert self.paused() == {"api_after", "api_clean"}

    def test_runs_without_a_date_are_cleared(self, call):
        yes = {**self.BODY, "dag_ids": ["api_clean"], "confirm": True}
        told = call("ann", "/repair/rerun", method="POST", json=yes, role="user")
        # The warehouse knows these runs, this Airflow does not.
        assert [(item["what"], item["problem"][:3]) for item in told["done"]] == [
            (f"clear r{NOW - DAY:%Y%m%d}", "404"),
            (f"clear r{NOW:%Y%m%d}", "404"),
        ]
