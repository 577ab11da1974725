"""The demo shows each state of progress once, while a task is at work and when it is over."""

from __future__ import annotations

from tests.demo.progress import ProgressLog


class Airflow:
    def __init__(self) -> None:
        self.state, self.stores = "running", {0: {}, 1: {}}

    def task_instances(self, dag_id, run_id):
        tasks = [("plan", -1), ("extract", 0), ("extract", 1)]
        return [
            {"task_id": task, "map_index": index, "state": self.state, "start_date": None if index == 1 else "now"}
            for task, index in tasks
        ]

    def state_store(self, dag_id, run_id, task_id, *, map_index):
        return self.stores[map_index]


def test_each_state_of_a_task_is_told_once():
    airflow = Airflow()
    log = ProgressLog(airflow, "d", "r", "extract")
    assert list(log.look()) == []
    airflow.stores[0] = {
        "progress": {"records": 1200, "bytes": 48000, "lag": 300, "rate": 4000.0, "seconds_left": 0.1},
        "tier": "compiled",
    }
    told = "records 1,200  bytes 48,000  lag 300  rate 4,000/s  time left 0.1 s"
    assert list(log.look()) == [f"extract[0]  at work   {told}"]
    airflow.stores[0]["progress"]["seconds"] = 0.3
    assert list(log.look()) == []
    airflow.state = "success"
    airflow.stores[0] = {"progress": {"records": 0, "bytes": 0, "lag": 9, "rate": 0.0, "seconds_left": None}}
    (last,) = log.look()
    assert "has left" in last
    assert last.endswith("lag 9  rate 0/s  time left unknown")
    assert log.tasks == 1
