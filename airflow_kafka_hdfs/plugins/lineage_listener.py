"""Airflow's notifications about runs and tasks. Nothing here may fail, slow or block what it listens to."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from airflow.listeners import hookimpl

from airflow_kafka_hdfs.plugins import lineage_thread
from airflow_kafka_hdfs.plugins.lineage_forks import ForkGuard

log = logging.getLogger(__name__)
_SCHEDULER = "SchedulerJob"
_KIND_KNOWN = 60.0
"""Seconds within which a job is told its kind."""


def _catch_up_in_scheduler(job: Any, guard: ForkGuard) -> None:
    """Wait until the kind of a job is known, and let a scheduler's emitter catch up."""
    until = time.monotonic() + _KIND_KNOWN
    # From the dictionary: nothing may be loaded for it, it belongs to the thread that runs the job.
    while not (kind := job.__dict__.get("job_type")) and time.monotonic() < until:
        time.sleep(0.05)
    if kind == _SCHEDULER:
        with guard.working():
            try:
                lineage_thread.emitter().want_catch_up()
            except Exception:
                log.exception("lineage: could not start")


class RunListener:
    """Tells the emitter which runs ended; uses neither session nor connection, and looks at no structure."""

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """The scheduler looks for runs that were never sent; other processes only send what they are told.

        Airflow calls this from the constructor of a job, before the job is told its kind; so a thread looks at that
        for a while.
        """
        if hasattr(component, "job_type"):
            # On this thread, which forks the workers later: they wait for the other from its first step on.
            args = (component, lineage_thread.guard())
            threading.Thread(
                target=_catch_up_in_scheduler, args=args, name="kafka-hdfs-lineage-start", daemon=True
            ).start()

    @hookimpl
    def before_stopping(self, component: Any) -> None:
        """Give the thread a moment to send what is at hand."""
        if getattr(component, "job_type", "") == _SCHEDULER:
            lineage_thread.stop()

    @hookimpl
    def on_dag_run_success(self, dag_run: Any, msg: str) -> None:
        """A run succeeded; its transaction is not committed yet."""
        self._finished(dag_run, "success")

    @hookimpl
    def on_dag_run_failed(self, dag_run: Any, msg: str) -> None:
        """A run failed; its transaction is not committed yet."""
        self._finished(dag_run, "failed")

    def _finished(self, dag_run: Any, outcome: str) -> None:
        try:
            lineage_thread.emitter().put(str(dag_run.dag_id), str(dag_run.run_id), outcome)
        except Exception:
            log.exception("lineage: could not take up a run")
