"""What a task instance read and wrote beyond its declaration: hook lineage, and what its operator names itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from airflow.listeners import hookimpl

from airflow_kafka_hdfs.adapters.lineage_spool import FolderSpool
from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.emitting import deliver, drain
from airflow_kafka_hdfs.lineage.events import Envelope, Job, Run, TaskIoMessage
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import Evidence, ExplicitTarget, TaskIo, Use
from airflow_kafka_hdfs.plugins.lineage_snapshot import PAIRS_ATTRIBUTE, Names
from airflow_kafka_hdfs.ports.lineage import LetterBox

log = logging.getLogger(__name__)


class TaskListener:
    """Sends one message when a task instance ends that has something to report.

    It takes at most `task_deadline` seconds; while Kafka is away the message waits in the spool.

    Args:
        hook: topics and options.
        box: makes the producer; for tests.
    """

    def __init__(self, hook: LineageHook | None = None, box: Callable[[], LetterBox] | None = None) -> None:
        self._hook = hook or LineageHook()
        self._make_box = box or self._hook.letter_box
        self._seen_before: set[tuple[str, str, str]] = set()

    @hookimpl
    def on_task_instance_running(self, previous_state: Any, task_instance: Any) -> None:
        """Several tasks may share a process (`dag.test()`): what was collected before is not this task's."""
        try:
            self._seen_before = {entry[:3] for entry in _collected()}
        except Exception:
            log.exception("lineage: could not look at hook lineage")

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: Any) -> None:
        """The task succeeded."""
        self._ended(task_instance, "success")

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
        """An attempt failed, whether it will be retried or not; a later attempt takes the place of its report."""
        self._ended(task_instance, "failed")

    @hookimpl
    def on_task_instance_skipped(self, previous_state: Any, task_instance: Any) -> None:
        """The task skipped itself."""
        self._ended(task_instance, "skipped")

    def _ended(self, instance: Any, state: str) -> None:
        started = time.monotonic()
        try:
            if type(instance).__module__.startswith("airflow.models"):
                self._lost(instance, state)
                return
            message = self._message(instance, state)
            if message is not None:
                self._send(message, started + self._hook.settings.task_deadline)
        except Exception:
            log.exception("lineage: could not report what the task read and wrote")

    def _lost(self, instance: Any, state: str) -> None:
        """The scheduler or an API server ended the instance: its own report may never have been made."""
        from airflow_kafka_hdfs.plugins import lineage_thread

        if state == "failed":
            seen = instance.__dict__
            lineage_thread.emitter().put_lost(
                str(seen["dag_id"]),
                str(seen["run_id"]),
                TaskIo(
                    task_id=str(seen["task_id"]),
                    map_index=int(seen.get("map_index", -1)),
                    try_number=int(seen.get("try_number") or 0),
                    state=state,
                    complete=False,
                ),
            )

    def _message(self, instance: Any, state: str) -> TaskIoMessage | None:
        settings = self._hook.settings
        names = Names(settings)
        reads, writes = self._hook_lineage(names)
        explicit = _explicit(instance.task, names)
        if not reads and not writes and explicit is None:
            return None
        report = TaskIo(
            task_id=instance.task_id,
            map_index=instance.map_index if instance.map_index is not None else -1,
            try_number=instance.try_number,
            state=state,
            reads=reads,
            writes=writes,
            explicit=explicit,
            temporary=frozenset(names.temporary),
        )
        return TaskIoMessage(envelope=_envelope(instance, settings), report=report)

    def _hook_lineage(self, names: Names) -> tuple[tuple[Use, ...], tuple[Use, ...]]:
        found: dict[str, list[Use]] = {"input": [], "output": []}
        for direction, uri, name, extra in _collected():
            if (direction, uri, name) in self._seen_before:
                continue
            dataset = names.dataset(uri, name, extra)
            if dataset is not None:
                found[direction].append(Use(dataset, Evidence.HOOK, extra.get("inherit") is not False))
        return tuple(dict.fromkeys(found["input"])), tuple(dict.fromkeys(found["output"]))

    def _send(self, message: TaskIoMessage, deadline: float) -> None:
        settings = self._hook.settings
        spool = FolderSpool(self._hook.spool_folder(), settings.spool_max_bytes)
        box: LetterBox | None = None
        try:
            box = self._make_box()
        except Exception as error:  # noqa: BLE001 - a missing connection is one of many: the message waits until mended
            log.warning("lineage: no producer, the message waits in the spool: %s", error)
        sent = deliver([message], box, spool, settings.topic, max(deadline - time.monotonic(), 0.1))
        if not sent.kept:
            log.warning("lineage: the report found neither Kafka nor spool")
        if box is not None:
            if sent.delivered and deadline - time.monotonic() > 0.5:
                drain(box, spool, deadline - time.monotonic(), at_most=100)
            box.close()


def _collected() -> Iterable[tuple[str, str, str, dict[str, Any]]]:
    """(direction, URI, name, lineage part of the extra) of what hooks have reported in this process."""
    from airflow.sdk.lineage import get_hook_lineage_collector

    collected = get_hook_lineage_collector().collected_assets
    for direction, entries in (("input", collected.inputs), ("output", collected.outputs)):
        for entry in entries:
            lineage = (entry.asset.extra or {}).get("lineage")
            yield direction, entry.asset.uri, entry.asset.name, lineage if isinstance(lineage, dict) else {}


def _explicit(task: Any, names: Names) -> tuple[ExplicitTarget, ...] | None:
    pairs = getattr(task, PAIRS_ATTRIBUTE, None)
    return None if pairs is None else names.pairs([(str(source), str(target)) for source, target in pairs])


def _envelope(instance: Any, settings: LineageSettings) -> Envelope:
    run = instance.get_template_context()["dag_run"]
    return Envelope(
        job=Job(instance=settings.instance, dag_id=instance.dag_id),
        run=Run(
            run_id=run.run_id,
            clear_number=getattr(run, "clear_number", 0) or 0,
            run_type=str(getattr(run.run_type, "value", run.run_type)),
            logical_date=run.logical_date,
            run_after=run.run_after,
        ),
        emitted_at=datetime.now(UTC),
    )
