"""Whether another run may still be at work, asked of Airflow from inside a task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.runtime import RunStates

log = logging.getLogger(__name__)

ALIVE = frozenset({"queued", "running"})


class TaskRunStates(RunStates):
    """Asks the API server, which a task may do without a connection to the metadata database.

    Args:
        ask: (dag id, run id) -> state of the run; `RuntimeTaskInstance.get_dagrun_state`.
        own: the task's own run, which is alive without asking.
    """

    def __init__(self, ask: Callable[[str, str], object], own: RunRef) -> None:
        self._ask = ask
        self._own = (own.dag_id, own.run_id)

    def is_alive(self, run: RunRef) -> bool | None:
        """True while it is queued or running, False once it ended or was deleted, None if Airflow did not answer."""
        if (run.dag_id, run.run_id) == self._own:
            return True
        try:
            state = self._ask(run.dag_id, run.run_id)
        except Exception as error:  # noqa: BLE001 - the client raises many kinds, and a guess costs only time
            if _status(error) == HTTPStatus.NOT_FOUND:
                return False
            log.warning("the state of run %s of %s is unknown: %s", run.run_id, run.dag_id, error)
            return None
        return str(getattr(state, "value", state)) in ALIVE


def _status(error: Exception) -> int | None:
    """The HTTP status behind an error: straight from the client, or as the task's supervisor hands it on."""
    detail = getattr(getattr(error, "error", None), "detail", None)
    if isinstance(detail, dict):
        return detail.get("status_code")
    return getattr(getattr(error, "response", None), "status_code", None)
