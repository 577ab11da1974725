"""Progress of extract tasks as Airflow's API shows it: what each wrote last into its task state store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

Json = dict[str, Any]

KEY = "progress"
"""As the reference of metrics names it; read from outside, as any dashboard would."""


class Airflow(Protocol):
    """What is asked of Airflow."""

    def task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """All task instances of a run."""

    def state_store(self, dag_id: str, run_id: str, task_id: str, *, map_index: int) -> Json:
        """Key -> value of a task's state store."""


class ProgressLog:
    """Tells each state of each mapped task once.

    Args:
        airflow: asked at every look.
        dag_id: DAG.
        run_id: run.
        task_id: the mapped task.
    """

    def __init__(self, airflow: Airflow, dag_id: str, run_id: str, task_id: str) -> None:
        self._airflow = airflow
        self._where = (dag_id, run_id)
        self._task_id = task_id
        self._told: dict[int, str] = {}

    def look(self) -> Iterator[str]:
        """Lines for what is new since the last look; what is seen once a task is over is the last that it left."""
        for task in self._airflow.task_instances(*self._where):
            index = task["map_index"]
            if task["task_id"] != self._task_id or index < 0 or not task["start_date"]:
                continue
            found = self._airflow.state_store(*self._where, self._task_id, map_index=index).get(KEY)
            if found and (words := progress(found)) != self._told.get(index):
                self._told[index] = words
                when = "at work" if task["state"] == "running" else "has left"
                yield f"{self._task_id}[{index}]  {when:<8}  {words}"

    @property
    def tasks(self) -> int:
        """Number of tasks that told of their progress."""
        return len(self._told)


def progress(found: Json) -> str:
    """One state in words."""
    left = found["seconds_left"]
    return (
        f"records {found['records']:,}  bytes {found['bytes']:,}  lag {found['lag']:,}  "
        f"rate {found['rate']:,.0f}/s  time left {'unknown' if left is None else f'{left:.1f} s'}"
    )
