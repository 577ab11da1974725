"""The emitter: a thread that turns finished runs into messages, away from the scheduler's thread and session."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from airflow_kafka_hdfs.adapters.lineage_spool import FolderSpool
from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.emitting import GRAPH_EVERY, deliver, drain, openlineage_event, run_messages
from airflow_kafka_hdfs.lineage.events import Envelope, Job, Message, TaskIoMessage, message_key
from airflow_kafka_hdfs.lineage.message_json import encode
from airflow_kafka_hdfs.lineage.workflow import TaskIo
from airflow_kafka_hdfs.plugins import lineage_runs
from airflow_kafka_hdfs.plugins.lineage_forks import ForkGuard, GuardedBox
from airflow_kafka_hdfs.plugins.lineage_structure import Structures, envelope_of
from airflow_kafka_hdfs.ports.lineage import LetterBox

log = logging.getLogger(__name__)
_COMMIT_WAIT = 60.0
"""Seconds after which a run that is not finished in the database is left to the next catch-up."""
_RETRY = 0.5
_FLUSH = 10.0
_OVERLAP = timedelta(minutes=10)
"""How far behind its last acknowledged end a catch-up begins: transactions may commit late."""
_REMEMBERED = 20_000


@dataclass(slots=True)
class _Waiting:
    dag_id: str
    run_id: str
    outcome: str
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What is to be said of a run: messages, those to other topics, and the hash of the graph among them, if any."""

    messages: list[Message]
    others: list[tuple[str, bytes, bytes]]
    graph: str
    day: str


class Emitter:
    """Sends the lineage of finished runs.

    Args:
        hook: topics and options.
        catch_up: whether this process looks for runs that were never sent (the scheduler does).
        box: makes the producer; for tests.
        clock: monotonic seconds; for tests.
        guard: holds forks up while the emitter works; one that holds nothing up if None.
    """

    def __init__(
        self,
        hook: LineageHook,
        *,
        catch_up: bool = False,
        box: Callable[[], LetterBox] | None = None,
        clock: Callable[[], float] = time.monotonic,
        guard: ForkGuard | None = None,
    ) -> None:
        self.settings = hook.settings
        self._spool_folder = hook.spool_folder()
        self._spool = FolderSpool(self._spool_folder, self.settings.spool_max_bytes)
        self._make_box = box or hook.letter_box
        self._guard = guard or ForkGuard()
        self._clock = clock
        self._queue: queue.Queue[_Waiting] = queue.Queue(self.settings.queue_size)
        self._lost: queue.Queue[tuple[str, str, TaskIo]] = queue.Queue(self.settings.queue_size)
        self._late: list[_Waiting] = []
        self._box: LetterBox | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._sent: dict[tuple[str, str], str] = {}
        self._graphs: dict[tuple[str, str], str] = {}
        self._structures = Structures(self.settings)
        self._catch_up = catch_up
        self._next_look = 0.0
        self._warned = float("-inf")
        self.dropped = 0

    def put(self, dag_id: str, run_id: str, outcome: str) -> None:
        """Hand over a finished run; never waits, never raises. Called on the scheduler's thread."""
        try:
            self._queue.put_nowait(_Waiting(dag_id, run_id, outcome, self._clock()))
        except queue.Full:
            self.dropped += 1
            if self._clock() - self._warned > 60:
                self._warned = self._clock()
                log.warning("lineage queue is full: %d runs left to the next catch-up so far", self.dropped)

    def put_lost(self, dag_id: str, run_id: str, report: TaskIo) -> None:
        """Hand over the marker of a task that may have died unheard; never waits, never raises."""
        try:
            self._lost.put_nowait((dag_id, run_id, report))
        except queue.Full:
            self.dropped += 1

    def start(self) -> None:
        """Start the thread, again after a fork."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self._work, name="kafka-hdfs-lineage", daemon=True)
            self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Let the thread finish what is at hand."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def forget_thread(self) -> None:
        """In a child process: neither thread nor producer survived the fork, and the spool's file is the parent's."""
        if self._box is not None:
            self._box.abandon()
        self._thread, self._box = None, None
        self._spool = FolderSpool(self._spool_folder, self.settings.spool_max_bytes)
        self._queue = queue.Queue(self.settings.queue_size)
        self._lost = queue.Queue(self.settings.queue_size)

    def want_catch_up(self) -> None:
        """From now on look for runs that were never sent."""
        self._catch_up = True

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self.step(_RETRY)
            except Exception:
                # Whatever happens here must not end the thread, and never reaches the scheduler.
                with self._guard.working():
                    log.exception("lineage: could not send; going on")
                self._stop.wait(_RETRY)
        with self._guard.working():
            if self._box is not None:
                self._box.close()

    def step(self, timeout: float) -> None:
        """Send what is waiting, then catch up if it is time.

        Args:
            timeout: seconds to wait for a run.
        """
        waiting, self._late = self._late, []
        try:
            waiting.append(self._queue.get(timeout=timeout))
            while True:
                waiting.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        with self._guard.working():
            self._send_all(waiting)

    def _send_all(self, waiting: list[_Waiting]) -> None:
        while waiting:
            run = waiting[0]
            try:
                open_yet = self.send(run.dag_id, run.run_id, run.outcome) is None
            except Exception:
                self._late += [one for one in waiting if self._clock() - one.since < _COMMIT_WAIT]
                raise
            waiting = waiting[1:]
            if open_yet and self._clock() - run.since < _COMMIT_WAIT:
                self._late.append(run)
        self._send_lost()
        if self._catch_up and self._clock() >= self._next_look:
            self._next_look = self._clock() + self.settings.catch_up_interval
            self.catch_up()

    def send(self, dag_id: str, run_id: str, outcome: str = "") -> bool | None:
        """Send one run.

        Args:
            dag_id: of the run.
            run_id: of the run.
            outcome: what the database must say before the run is taken; empty for any outcome.

        Returns:
            True if it is done with (messages delivered or spooled, or its DAG is gone), False if not, None if it is not
            finished yet.
        """
        found = lineage_runs.read_run(dag_id, run_id, self.settings)
        if found is None or outcome not in ("", found.run.outcome):
            return None
        mark = lineage_runs.mark_of(found.run.clear_number, found.run.outcome, found.run.ended_at)
        try:
            told = self._told(dag_id, run_id, found)
        except SQLAlchemyError:
            raise
        except Exception:
            # It would fail the same way at every look, and no later run would be sent.
            log.exception("lineage: DAG %s can't be read; run %s is not sent", dag_id, run_id)
            told = None
        if told is None:
            self._remember(dag_id, run_id, mark)
            return True
        sent = deliver(told.messages, self._producer(), self._spool, self.settings.topic, _FLUSH, told.others)
        if not sent.kept:
            log.warning("lineage: %d messages of %s %s found neither Kafka nor spool", sent.dropped, dag_id, run_id)
            return False
        if told.graph and sent.spooled == 0 and len(encode(told.messages[-1])) > GRAPH_EVERY:
            self._graphs[dag_id, told.graph] = told.day
        self._remember(dag_id, run_id, mark)
        return True

    def _told(self, dag_id: str, run_id: str, found: lineage_runs.FinishedRun) -> _Told | None:
        """What is to be said of a run; None if its DAG is gone."""
        structure = self._structures.of(dag_id, run_id)
        if structure is None:
            log.warning("lineage: the structure of DAG %s is gone; run %s is not sent", dag_id, run_id)
            return None
        workflow, options, facts = structure.workflow, self.settings.options, found.facts
        if read := {alias for task in workflow.tasks for alias in task.alias_reads}:
            stood_for = lineage_runs.inlet_aliases(dag_id, found.run, read, self.settings)
            facts = replace(facts, inlet_aliases=stood_for)
        envelope = envelope_of(structure, found.run, self.settings, datetime.now(UTC))
        day = f"{envelope.emitted_at:%Y-%m-%d}"
        with_graph = self._graphs.get((dag_id, workflow.structure_hash)) != day
        others = []
        if self.settings.openlineage_emit_topic:
            event = openlineage_event(envelope, workflow, facts, options, self.settings.namespace)
            others.append((self.settings.openlineage_emit_topic, message_key(envelope), event))
        return _Told(
            messages=run_messages(envelope, workflow, facts, options, with_graph=with_graph),
            others=others,
            graph=workflow.structure_hash if with_graph else "",
            day=day,
        )

    def _send_lost(self) -> None:
        messages = []
        while not self._lost.empty():
            dag_id, run_id, report = self._lost.get_nowait()
            run = lineage_runs.read_run_columns(dag_id, run_id)
            if run is not None:
                job = Job(instance=self.settings.instance, dag_id=dag_id)
                envelope = Envelope(job=job, run=run, emitted_at=datetime.now(UTC))
                messages.append(TaskIoMessage(envelope=envelope, report=report))
        if messages:
            deliver(messages, self._producer(), self._spool, self.settings.topic, _FLUSH)

    def catch_up(self) -> int:
        """Send the runs that ended since the last acknowledged one and were not sent by this process.

        Returns:
            How many were sent.
        """
        box = self._producer()
        if box is not None:
            drain(box, self._spool, _FLUSH)
        now = datetime.now(UTC)
        since = lineage_runs.acknowledged(self.settings.instance) or now - timedelta(hours=self.settings.catch_up_hours)
        reached, done, going = since, 0, True
        for portion in lineage_runs.finished_since(since - _OVERLAP):
            for run in portion:
                if self._sent.get((run.dag_id, run.run_id)) != run.mark:
                    with self._guard.pausing():
                        pass  # however many there are, a fork waits for one
                    going = self.send(run.dag_id, run.run_id) is not False
                    if not going:
                        break
                    done += 1
                reached = max(reached, run.at)
            if reached > since:
                lineage_runs.acknowledge(self.settings.instance, reached)
            if not going:
                break
        return done

    def _remember(self, dag_id: str, run_id: str, mark: str) -> None:
        self._sent[dag_id, run_id] = mark
        while len(self._sent) > _REMEMBERED:
            self._sent.pop(next(iter(self._sent)))

    def _producer(self) -> LetterBox | None:
        if self._box is None:
            try:
                self._box = GuardedBox(self._make_box(), self._guard)
            except Exception as error:  # noqa: BLE001 - a missing connection is one of many: messages wait until mended
                log.warning("lineage: no producer, messages wait in the spool: %s", error)
        return self._box


_emitter: Emitter | None = None
_lock = threading.Lock()
_guard = ForkGuard()


def emitter() -> Emitter:
    """The emitter of this process, started."""
    global _emitter
    with _lock:
        if _emitter is None:
            _emitter = Emitter(LineageHook(), guard=guard())
            os.register_at_fork(after_in_child=_in_child)
        _emitter.start()
        return _emitter


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    if _emitter is not None:
        _emitter.forget_thread()


def guard() -> ForkGuard:
    """What forks of this process wait for; installed."""
    _guard.install()
    return _guard


def stop() -> None:
    """Let the emitter of this process, if there is one, finish what is at hand."""
    if _emitter is not None:
        _emitter.stop()
