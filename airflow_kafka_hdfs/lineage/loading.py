"""The loader: from the lineage topic into the warehouse, each message once, whatever dies in between.

Rows and the next offsets are written in one database transaction. A batch whose start is not where the warehouse
stands is dropped and read again from there, so several loaders may run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_kafka_hdfs.exceptions import (
    KafkaUnavailableError,
    Transient,
    WarehouseSchemaError,
    WarehouseUnavailableError,
)
from airflow_kafka_hdfs.garbage import no_search
from airflow_kafka_hdfs.lineage.events import Message, MessageError
from airflow_kafka_hdfs.lineage.graph_cache import GraphCache
from airflow_kafka_hdfs.lineage.merging import Merge, Merged
from airflow_kafka_hdfs.lineage.message_json import KINDS, decode
from airflow_kafka_hdfs.lineage.openlineage import ORIGIN, EventReader, OpenLineageEvent
from airflow_kafka_hdfs.lineage.storage_text import pack
from airflow_kafka_hdfs.ports.lineage import Letter, LetterBox, LetterSource, LoadTransaction, Warehouse
from airflow_kafka_hdfs.ports.lineage_rows import OffsetRow, RawRow
from airflow_kafka_hdfs.ports.runtime import Clock, StopSignal

DEFAULT_GROUP = "warehouse"
MAX_LETTERS = 10_000
_NO_PROGRESS = 60.0
_LOOK_AGAIN = 300.0
"""Seconds after which a long-running loader assigns anew, so that added partitions are read."""
_MOST_REFUSED = 20
"""Messages in a row that can't be merged: more of them are hardly at fault themselves."""
_BACK_OFF = (1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(slots=True, kw_only=True)
class LoadReport:
    """What a loader did.

    Attributes:
        letters: messages taken from the topic.
        bad: those that could not be used; they stand in `lineage_raw` with the problem, and in the dead-letter topic.
        waiting: runs of the last batch whose task graph has not arrived.
        old: messages passed over, because runs of their time have been deleted.
    """

    letters: int = 0
    bad: int = 0
    batches: int = 0
    runs: int = 0
    edges: int = 0
    waiting: int = 0
    old: int = 0
    new_jobs: set[str] = field(default_factory=set)
    updated_jobs: set[str] = field(default_factory=set)

    def add(self, letters: int, bad: int, merged: Merged) -> None:
        """Count one batch."""
        self.letters += letters
        self.bad += bad
        self.batches += 1
        self.runs += merged.runs
        self.edges += merged.edges
        self.waiting = merged.waiting
        self.old += merged.old
        self.new_jobs |= set(merged.new_jobs)
        self.updated_jobs |= set(merged.updated_jobs)

    def to_json(self) -> dict[str, int]:
        """Plain values for logs and results."""
        return {
            "letters": self.letters,
            "bad": self.bad,
            "batches": self.batches,
            "runs": self.runs,
            "edges": self.edges,
            "waiting": self.waiting,
            "old": self.old,
            "new_jobs": len(self.new_jobs),
            "updated_jobs": len(self.updated_jobs),
        }


class Loader:
    """Loads messages into a warehouse.

    Args:
        source: where messages are read.
        warehouse: where rows are kept.
        clock: for `received_at` and for waiting.
        topics: topics to read.
        group: name under which offsets are kept.
        max_letters: messages per transaction.
        dead_letters: where unusable messages are sent as well, None for nowhere.
        dead_letter_topic: the topic for them.
        on_outage: told what a long-running loader waits for.
        events: reads events of OpenLineage, None if no topic holds any.
        event_topics: those of the topics that hold them.
    """

    def __init__(
        self,
        source: LetterSource,
        warehouse: Warehouse,
        clock: Clock,
        *,
        topics: Collection[str],
        group: str = DEFAULT_GROUP,
        max_letters: int = MAX_LETTERS,
        dead_letters: LetterBox | None = None,
        dead_letter_topic: str = "",
        on_outage: Callable[[Exception], None] = lambda error: None,
        events: EventReader | None = None,
        event_topics: Collection[str] = (),
    ) -> None:
        self._source = source
        self._warehouse = warehouse
        self._clock = clock
        self._topics = tuple(topics)
        self._group = group
        self._max_letters = max_letters
        self._dead_letters = dead_letters
        self._dead_letter_topic = dead_letter_topic
        self._on_outage = on_outage
        self._events = events
        self._event_topics = frozenset(event_topics)
        self._cache = GraphCache()
        self._at_once = max_letters
        self._refused = 0
        self._stored: dict[tuple[str, int], int] | None = None

    def load_available(self, stop: StopSignal | None = None) -> LoadReport:
        """Load up to the end that the topics have now.

        Raises:
            KafkaUnavailableError, TopicFaultError, WarehouseUnavailableError, LineageError: what is in the
                warehouse stays; a later call goes on from there.
        """
        report = LoadReport()
        self._assign()
        ends = {key: end for key, (start, end) in self._source.ends().items() if end > start}
        moved = self._clock.monotonic()
        before: Mapping[tuple[str, int], int] = {}
        while not (stop is not None and stop.is_set()):
            self._assign()  # what was polled last may not be kept
            positions = self._source.positions()
            if all(positions.get(key, 0) >= end for key, end in ends.items()):
                break
            if positions != before:
                before, moved = positions, self._clock.monotonic()
            elif self._clock.monotonic() - moved > _NO_PROGRESS:
                raise KafkaUnavailableError(
                    f"topics {', '.join(self._topics)}: no progress for {_NO_PROGRESS:.0f} s before {ends} was reached"
                )
            self.step(report, timeout=1.0)
        return report

    def load_forever(
        self, stop: StopSignal, report: LoadReport | None = None, *, between: Callable[[], object] = lambda: None
    ) -> LoadReport:
        """Load until told to stop; while the warehouse or Kafka is away, wait and load nothing.

        Args:
            stop: ends after the batch at hand.
            report: counts what was done.
            between: called after each batch; takes little time, may find the warehouse away.

        Raises:
            TopicFaultError, LineageError: for the caller to decide on.
        """
        report = report or LoadReport()
        failures, assigned = 0, self._clock.monotonic()
        while not stop.is_set():
            if self._clock.monotonic() - assigned > _LOOK_AGAIN:
                self._stored, assigned = None, self._clock.monotonic()
            try:
                self.step(report, timeout=1.0)
                between()
                failures = 0
            except (WarehouseUnavailableError, KafkaUnavailableError) as error:
                self._on_outage(error)
                self._clock.sleep(_BACK_OFF[min(failures, len(_BACK_OFF) - 1)])
                failures += 1
        return report

    def step(self, report: LoadReport, *, timeout: float) -> int:
        """Read and load one batch.

        Args:
            report: counts what was done.
            timeout: seconds to wait for messages.

        Returns:
            Number of messages loaded; 0 also where another loader was faster, and where a message among them can't be
            merged: it is looked for in smaller batches.

        Raises:
            KafkaUnavailableError, WarehouseUnavailableError: reading goes on from where the warehouse stands.
            WarehouseSchemaError: the tables can't be used.
            Exception: what stops message after message from being merged.
        """
        self._assign()
        # Whatever goes wrong from here on, reading starts anew from where the warehouse stands.
        stored, self._stored = self._stored or {}, None
        letters = self._source.poll(self._at_once, timeout)
        if not letters:
            self._stored = stored
            return 0
        with no_search():
            messages, events, raws = self._read(letters)
            try:
                following, merged = self._kept(letters, stored, raws, messages, events)
                self._refused = 0
            except Exception as error:
                if isinstance(error, Transient | WarehouseSchemaError):
                    raise
                if len(letters) > 1:
                    self._at_once = len(letters) // 2
                    return 0
                self._refused += 1
                if self._refused > _MOST_REFUSED:
                    raise
                raws = [replace(raw, type="invalid", problem=_said(error)) for raw in raws]
                following, merged = self._kept(letters, stored, raws, [], [])
        if following is None:
            return 0
        self._at_once = min(2 * self._at_once, self._max_letters)
        self._stored = following
        report.add(len(letters), sum(1 for raw in raws if raw.problem), merged)
        return len(letters)

    def _kept(
        self,
        letters: Sequence[Letter],
        stored: Mapping[tuple[str, int], int],
        raws: Sequence[RawRow],
        messages: Sequence[Message],
        events: Sequence[OpenLineageEvent],
    ) -> tuple[dict[tuple[str, int], int] | None, Merged]:
        """Write a batch with the offsets behind it; None if another loader was faster."""
        self._bury(letters, [raw for raw in raws if raw.problem])
        with self._warehouse.transaction() as tx:
            following = self._advance(tx, letters, stored)
            if following is None:
                return None, Merged()
            tx.put(raws)
            return following, Merge(tx, self._cache).apply(messages, events)

    def _assign(self) -> None:
        """Start reading where the warehouse stands, unless what was read last is known to be kept."""
        if self._stored is None:
            stored = dict(self._warehouse.offsets(self._group))
            self._source.assign(self._topics, stored)
            self._stored = stored

    def _read(self, letters: Sequence[Letter]) -> tuple[list[Message], list[OpenLineageEvent], list[RawRow]]:
        now = self._clock.now()
        messages: list[Message] = []
        events: list[OpenLineageEvent] = []
        raws: list[RawRow] = []
        for letter in letters:
            event_id, kind, problem = "", "invalid", ""
            try:
                if self._events is not None and letter.topic in self._event_topics:
                    event = self._events.read(letter.value)
                    event_id, kind = event.event_id, ORIGIN
                    events.append(event)
                else:
                    message = decode(letter.value)
                    event_id, kind = message.event_id, KINDS[type(message)]
                    messages.append(message)
            except MessageError as error:
                problem = str(error)
            raws.append(
                RawRow(
                    topic=letter.topic,
                    partition=letter.partition,
                    offset=letter.offset,
                    event_id=event_id,
                    type=kind,
                    received_at=now,
                    body=readable(letter.value, plain=not problem),
                    problem=_short(problem),
                )
            )
        return messages, events, raws

    def _bury(self, letters: Sequence[Letter], bad: Sequence[RawRow]) -> None:
        """Send bad messages on before they count as read: they may come twice there, never get lost."""
        if self._dead_letters is None or not bad:
            return
        values = {(letter.topic, letter.partition, letter.offset): letter.value for letter in letters}
        for raw in bad:
            where = (raw.topic, raw.partition, raw.offset)
            key = f"{raw.topic}/{raw.partition}/{raw.offset}".encode()
            self._dead_letters.send(self._dead_letter_topic, key, values[where] or b"")
        self._dead_letters.flush(10.0)

    def _advance(
        self, tx: LoadTransaction, letters: Sequence[Letter], expected: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int] | None:
        """Move the stored offsets over this batch; None if they are not where reading began any more."""
        following = {(letter.topic, letter.partition): letter.offset + 1 for letter in letters}
        stored = {(r.topic, r.partition): r.next_offset for r in tx.rows(OffsetRow, ("group",), [(self._group,)])}
        if any(stored.get(key) != expected.get(key) for key in following):
            return None
        tx.put(
            [
                OffsetRow(group=self._group, topic=topic, partition=partition, next_offset=offset)
                for (topic, partition), offset in following.items()
            ]
        )
        return {**expected, **following}


def _short(problem: str) -> str:
    return readable(problem.encode("utf-8", "replace"))[:2000]


def _said(error: Exception) -> str:
    return _short(f"it can't be merged: {type(error).__name__}: {error}")


def readable(value: bytes | None, *, plain: bool = False) -> str:
    """Text that every database takes: bad bytes and NUL replaced; damaged messages are cut, long ones packed."""
    text = (value or b"").decode("utf-8", "replace").replace("\x00", "\ufffd")
    return pack(text) if plain else text[:15_000]
