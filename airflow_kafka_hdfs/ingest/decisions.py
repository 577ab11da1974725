"""What a continuous run reads of each partition, and what planning has to commit before.

Everything here is a function of the log's sum, one look at the cluster, and the configuration. A fault of one partition
holds its whole topic back, so that nothing of it is committed by halves; other topics go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.choices import BootstrapKind, OnTopicRecreated, OutOfRange
from airflow_kafka_hdfs.ingest.cluster_view import ClusterView, fault_code, is_missing
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.identities import Identities, Identity, Standing, with_losses
from airflow_kafka_hdfs.ingest.plans import PlanEntry
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.reasons import HeldReason, Reason
from airflow_kafka_hdfs.ingest.records import Held, PartitionChange, PartitionKey, Selection
from airflow_kafka_hdfs.ingest.settings import TopicSettings
from airflow_kafka_hdfs.model import PartitionOffsets, TopicPartition
from airflow_kafka_hdfs.ports.kafka import Fault

Times = Mapping[TopicPartition, int | None | str]
"""Answers of `offsets_for_times`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What was decided.

    Attributes:
        entries: one per partition looked at; their ranges assume that `changes` are committed.
        changes: what planning has to commit before its plan.
        held: topics held back.
        notes: what people should know of the changes.
    """

    entries: tuple[PlanEntry, ...] = ()
    changes: tuple[PartitionChange, ...] = ()
    held: tuple[Held, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ranges(self) -> dict[PartitionKey, Ranges]:
        """What is to be read."""
        return {entry.key: entry.ranges for entry in self.entries if entry.ranges}

    def with_entries(self, entries: tuple[PlanEntry, ...]) -> Decisions:
        """The same with other entries."""
        return dataclasses.replace(self, entries=entries)

    def holding(self, held: Iterable[Held]) -> Decisions:
        """The same with further topics held back: nothing of them is read or committed."""
        more = tuple(held)
        topics = {item.topic for item in more}
        return dataclasses.replace(
            self,
            entries=tuple(entry for entry in self.entries if entry.key.topic not in topics),
            changes=tuple(change for change in self.changes if change.key.topic not in topics),
            held=tuple(sorted((*self.held, *more), key=lambda item: item.topic)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The decision for one partition.

    Attributes:
        change: None if nothing has to be committed.
        note: for people, empty if there is nothing to say.
    """

    entry: PlanEntry
    change: PartitionChange | None = None
    note: str = ""


def held_by_cluster(view: ClusterView, topic: str) -> Held | None:
    """Why a topic can't be planned for what the brokers say of it; None if it can."""
    fault = view.topics[topic].fault
    if fault is not None:
        detail = " ".join(filter(None, (_next_step(topic, fault), view.hints.get(topic))))
        return Held(topic=topic, reason=fault_code(fault), detail=detail)
    faults = view.faults(topic)
    if not faults:
        return None
    partition, first = min(faults.items())
    others = f" (and {len(faults) - 1} more partitions)" if len(faults) > 1 else ""
    detail = f"the offsets of {topic}[{partition}]{others} can't be had: {_next_step(topic, first)}"
    return Held(topic=topic, reason=fault_code(first), detail=f"{detail}; what was committed of it stays as it is")


def _next_step(topic: str, fault: str) -> str:
    steps: dict[str, str] = {
        Fault.MISSING: "there is no such topic: create it, or take it out of `topics`",
        Fault.DENIED: f"the connection's user may not read it: grant READ and DESCRIBE on topic {topic}",
        Fault.NO_LEADER: "a partition has no leader now: the next run tries again once the brokers are well",
    }
    code = fault_code(fault)
    step = steps.get(code, "see the brokers' logs; the next run tries again")
    return step if fault == code == Fault.MISSING else f"{fault}: {step}"


def released(topic: str) -> Held:
    """A topic that this pipeline gave up."""
    return Held(
        topic=topic,
        reason=HeldReason.RELEASED,
        detail="this pipeline released it: take it out of `topics`, or take it back with "
        "`airflow kafka-hdfs state import`",
    )


def truncated(identity: Identity) -> Held:
    """A topic whose log ends below what was decided, and nobody said how to go on."""
    have = identity.coverage
    end = 0 if have is None else max(have.decided.end or 0, have.start)
    return Held(
        topic=identity.key.topic,
        reason=HeldReason.TRUNCATED,
        detail=f"{identity.key}: offsets up to {end} were decided, the log ends at {identity.offsets.high_watermark}: "
        "records were lost by the cluster (unclean leader election), or the topic was restored; set on_out_of_range to "
        "nearest (go on at the end) or earliest (read all again), or use the Param reset",
    )


def decide(
    state: LogState,
    view: ClusterView,
    config: IngestConfig,
    clock: datetime,
    times: Times,
    moved: Collection[PartitionKey] = (),
) -> Decisions:
    """Decide for every selected topic.

    Args:
        state: the log's sum, read before `view` was made.
        view: the cluster.
        config: of the pipeline.
        clock: the plan's now.
        times: offsets for the times that `times_needed` asked for.
        moved: partitions whose start point this run has reset, for the reason codes.
    """
    identities = Identities(state, view.cluster_id)
    entries: list[PlanEntry] = []
    changes: list[PartitionChange] = []
    held: list[Held] = []
    notes: list[str] = []
    for topic in sorted(view.topics):
        outcome = _topic(topic, state, view, config, times, identities)
        if isinstance(outcome, Held):
            held.append(outcome)
            continue
        for choice in outcome:
            reset = choice.entry.key in moved and choice.entry.reason in (Reason.RESUMED, Reason.NO_DATA)
            entries.append(dataclasses.replace(choice.entry, reason=Reason.RESET) if reset else choice.entry)
            changes += [choice.change] if choice.change is not None else []
            notes += [choice.note] if choice.note else []
    if not view.topics:
        notes.append("no topic of the cluster is selected")
    return Decisions(entries=tuple(entries), changes=tuple(changes), held=tuple(held), notes=tuple(notes))


def times_needed(
    state: LogState, view: ClusterView, config: IngestConfig, clock: datetime
) -> dict[TopicPartition, int]:
    """Partitions whose first offset at a time decides where they start: milliseconds since the epoch."""
    known = state.topics
    needed = {}
    for topic in view.topics:
        at = config.topic(topic).bootstrap.time(clock)
        if topic not in known and at is not None and not _is_late(state, config, topic):
            needed.update({TopicPartition(topic, partition): millis(at) for partition in view.readable(topic)})
    return needed


def _topic(
    topic: str,
    state: LogState,
    view: ClusterView,
    config: IngestConfig,
    times: Times,
    identities: Identities,
) -> list[Choice] | Held:
    if topic in state.released:
        return released(topic)
    if (held := held_by_cluster(view, topic)) is not None:
        return held
    settings = config.topic(topic)
    choices = []
    for identity in identities.of_topic(view.topics[topic], view.readable(topic)):
        choice: Choice | Held
        if identity.standing is Standing.KNOWN:
            choice = _resumed(identity, settings.config.on_out_of_range)
        elif identity.standing is Standing.RECREATED:
            choice = _recreated(identity, settings.on_topic_recreated)
        elif identity.standing is Standing.NEW_PARTITION:
            choice = _started(identity, identity.offsets.log_start, Reason.NEW_PARTITION)
        elif _is_late(state, config, topic):
            choice = _late_topic(identity, settings)
        else:
            choice = _first_seen(identity, settings, times)
        if isinstance(choice, Held):
            return choice
        choices.append(choice)
    return choices


def _is_late(state: LogState, config: IngestConfig, topic: str) -> bool:
    """Whether an unknown topic showed up while the `topics` argument stayed the same."""
    have = state.selection
    return have is not None and have.digest == config.topics_digest and topic not in have.waiting


def new_selection(state: LogState, view: ClusterView, config: IngestConfig, decided: Decisions) -> Selection | None:
    """What the log has to be told of the `topics` argument, None if it knows.

    A topic that does not exist does not wait: once it is made, all of it is new.
    """
    have, digest = state.selection, config.topics_digest
    known = state.topics.keys() | {change.key.topic for change in decided.changes if change.start is not None}
    waiting = {topic for topic, info in view.topics.items() if topic not in known and not is_missing(info.fault)}
    if have is not None and have.digest == digest:
        waiting &= set(have.waiting)
    selection = Selection(digest=digest, waiting=tuple(sorted(waiting)))
    return None if selection == have else selection


def _late_topic(identity: Identity, settings: TopicSettings) -> Choice:
    if settings.bootstrap.kind is BootstrapKind.SKIP:
        return Choice(entry=_entry(identity, identity.key, Reason.BOOTSTRAP_SKIP))
    return _started(identity, identity.offsets.log_start, Reason.NEW_TOPIC)


def _first_seen(identity: Identity, settings: TopicSettings, times: Times) -> Choice | Held:
    offsets, kind = identity.offsets, settings.bootstrap.kind
    if kind is BootstrapKind.SKIP:
        return Choice(entry=_entry(identity, identity.key, Reason.BOOTSTRAP_SKIP))
    if kind is BootstrapKind.EARLIEST:
        return _started(identity, offsets.log_start, Reason.BOOTSTRAP_EARLIEST)
    if kind is BootstrapKind.LATEST:
        return _started(identity, offsets.last_stable, Reason.BOOTSTRAP_LATEST)
    answer = times.get(identity.key.topic_partition, Fault.BROKER_ERROR)
    if isinstance(answer, str):
        return unanswered(identity.key, answer)
    reason = Reason.BOOTSTRAP_TIME if kind is BootstrapKind.TIME else Reason.BOOTSTRAP_LOOKBACK
    return _started(identity, first_at(answer, offsets), reason)


def unanswered(key: PartitionKey, fault: str) -> Held:
    """A topic whose offset for a time can't be had."""
    detail = f"the offset of {key} for a time can't be had: {_next_step(key.topic, fault)}"
    return Held(topic=key.topic, reason=fault_code(fault), detail=detail)


def first_at(answer: int | None, offsets: PartitionOffsets) -> int:
    """The answer of a look-up by time as an offset that can be read; the end if no record is that young."""
    if answer is None:
        return offsets.last_stable
    return min(max(answer, offsets.log_start), offsets.last_stable)


def _started(identity: Identity, start: int, reason: Reason, note: str = "") -> Choice:
    """A first start point under a key; what interval runs covered before stays covered."""
    change = identity.carried_over() if identity.is_truncated else identity.nothing()
    return _chosen(identity, dataclasses.replace(change, start=start), reason, note=note)


def _recreated(identity: Identity, policy: OnTopicRecreated) -> Choice | Held:
    key, offsets = identity.key, identity.offsets
    note = f"{key}: the topic was created anew with id {key.topic_id}"
    if policy is OnTopicRecreated.EARLIEST:
        return _started(identity, offsets.log_start, Reason.RECREATED_EARLIEST, note)
    if policy is OnTopicRecreated.LATEST:
        return _started(identity, offsets.last_stable, Reason.RECREATED_LATEST, note)
    return Held(
        topic=key.topic,
        reason=HeldReason.TOPIC_RECREATED,
        detail=f"the topic was created anew with id {key.topic_id}; say with on_topic_recreated whether to go on at "
        "its earliest or latest offset, or use the Param reset",
    )


def _resumed(identity: Identity, policy: OutOfRange) -> Choice | Held:
    """A partition with a start point goes on at its watermark."""
    change, reason, note = identity.nothing(), Reason.RESUMED, ""
    if identity.is_truncated:
        if policy in (OutOfRange.SKIP, OutOfRange.FAIL):
            return truncated(identity)
        change, reason, note = _after_truncation(identity, policy)
    have = identity.base(change).changed(change)
    offsets = identity.offsets
    gone = have.undecided(have.start, offsets.log_start)
    if not gone:
        return _chosen(identity, change, reason, note=note)
    if policy is OutOfRange.SKIP:
        return Choice(entry=_entry(identity, change.key, Reason.SKIPPED_OUT_OF_RANGE))
    if policy is OutOfRange.FAIL:
        return Held(
            topic=change.key.topic,
            reason=HeldReason.OUT_OF_RANGE,
            detail=f"{change.key}: offsets {gone} were never read and lie below the log start {offsets.log_start}; "
            "set on_out_of_range to nearest, earliest or latest to go on without them",
        )
    skipped = have.undecided(offsets.log_start, offsets.last_stable) if policy is OutOfRange.LATEST else Ranges()
    if reason is Reason.RESUMED:
        reason = Reason.RESET_TOO_EARLY_LATEST if policy is OutOfRange.LATEST else Reason.RESET_TOO_EARLY
    lost = f"{change.key}: {len(gone)} offsets below the log start {offsets.log_start} are lost: {gone}"
    note = "; ".join(filter(None, (note, lost, f"{len(skipped)} skipped" if skipped else "")))
    return _chosen(identity, with_losses(change, lost=gone, skipped=skipped), reason, gone, skipped, note)


def _after_truncation(identity: Identity, policy: OutOfRange) -> tuple[PartitionChange, Reason, str]:
    offsets = identity.offsets
    carried = identity.carried_over()
    note = f"{identity.key}: the log was truncated to {offsets.high_watermark}"
    if policy is not OutOfRange.EARLIEST:
        return carried, Reason.RESET_TOO_LATE, f"{note}, reading goes on there"
    again = len(carried.covered.from_on(offsets.log_start))
    change = dataclasses.replace(identity.nothing(), key=identity.next_generation(), start=offsets.log_start)
    return change, Reason.RESET_TOO_LATE_EARLIEST, f"{note}, {again} offsets that were read come again"


def _chosen(
    identity: Identity,
    change: PartitionChange,
    reason: Reason,
    lost: Ranges = Ranges(),
    skipped: Ranges = Ranges(),
    note: str = "",
) -> Choice:
    """Read whatever is undecided after a change."""
    after = identity.base(change).changed(change)
    ranges = after.undecided(after.start, identity.offsets.last_stable)
    changes_something = change.start is not None or bool(change.lost or change.skipped)
    if reason is Reason.RESUMED and not ranges:
        reason = Reason.NO_DATA
    entry = dataclasses.replace(
        _entry(identity, change.key, reason), ranges=ranges, lost=len(lost), skipped=len(skipped)
    )
    return Choice(
        entry=entry,
        change=dataclasses.replace(change, caught_up=not ranges) if changes_something else None,
        note=note,
    )


def _entry(identity: Identity, key: PartitionKey, reason: Reason) -> PlanEntry:
    return PlanEntry(
        key=key,
        reason=reason,
        previous=identity.previous,
        ranges=Ranges(),
        log_start=identity.offsets.log_start,
        log_end=identity.offsets.last_stable,
    )
