"""What a run with a date range reads: the offsets that its interval stands for, minus what is covered or lost.

Dates are Kafka time. An interval run sets no start points and gives nothing up, so it commits nothing before its plan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import PlanningError
from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.choices import OnTopicRecreated, OutOfRange
from airflow_kafka_hdfs.ingest.cluster_view import ClusterView
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import (
    Decisions,
    Times,
    first_at,
    held_by_cluster,
    released,
    truncated,
    unanswered,
)
from airflow_kafka_hdfs.ingest.doctor import live_files
from airflow_kafka_hdfs.ingest.identities import Identities, Identity, Standing
from airflow_kafka_hdfs.ingest.plans import Plan, PlanEntry, Waiting
from airflow_kafka_hdfs.ingest.ranges import Ranges, total
from airflow_kafka_hdfs.ingest.reasons import HeldReason, Reason
from airflow_kafka_hdfs.ingest.records import Commit, Held, Kind, PartitionKey, Superseded
from airflow_kafka_hdfs.ingest.replacing import refuse_what_can_not_be_replaced, widen
from airflow_kafka_hdfs.ingest.requests import Interval
from airflow_kafka_hdfs.model import PartitionOffsets, TopicPartition

LivePlans = Iterable[tuple[Plan, Mapping[PartitionKey, Ranges]]]
"""Open plans of other runs that may be at work, with what they read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Offsets of an interval's two ends.

    Attributes:
        low: empty where the interval begins at the log start.
    """

    low: Times
    high: Times


def find_bounds(
    look_up: Callable[[Mapping[TopicPartition, int]], Times], view: ClusterView, interval: Interval
) -> Bounds:
    """Look both ends up, one batched call for each."""
    partitions = [
        TopicPartition(topic, partition) for topic in sorted(view.topics) for partition in view.readable(topic)
    ]
    low = {} if interval.start is None else dict.fromkeys(partitions, millis(interval.start))
    high = dict.fromkeys(partitions, millis(interval.end))
    return Bounds(low=look_up(low) if low else {}, high=look_up(high) if high else {})


def decide_interval(
    state: LogState, view: ClusterView, config: IngestConfig, interval: Interval, bounds: Bounds
) -> Decisions:
    """Decide for every selected topic; the result has no `changes`.

    Args:
        state: the log's sum, read before `view` was made.
        view: the cluster.
        config: of the pipeline.
        interval: what is asked for.
        bounds: its ends as offsets.
    """
    identities = Identities(state, view.cluster_id)
    entries: list[PlanEntry] = []
    held: list[Held] = []
    for topic in sorted(view.topics):
        outcome = _topic(topic, state, view, config, interval, bounds, identities)
        if isinstance(outcome, Held):
            held.append(outcome)
        else:
            entries += outcome
    notes = tuple(_beginning_gone(entry) for entry in entries if entry.reason == Reason.INTERVAL_BEGINS_GONE)
    return Decisions(entries=tuple(entries), held=tuple(held), notes=notes)


def _beginning_gone(entry: PlanEntry) -> str:
    return (
        f"{entry.key}: the date range begins at or below the log start {entry.log_start}: up to {entry.lost} of its "
        "offsets are gone from Kafka and were never read"
    )


def _topic(
    topic: str,
    state: LogState,
    view: ClusterView,
    config: IngestConfig,
    interval: Interval,
    bounds: Bounds,
    identities: Identities,
) -> list[PlanEntry] | Held:
    if topic in state.released:
        return released(topic)
    if (held := held_by_cluster(view, topic)) is not None:
        return held
    entries = []
    for identity in identities.of_topic(view.topics[topic], view.readable(topic)):
        if identity.is_truncated:
            return truncated(identity)
        if identity.standing is Standing.RECREATED and config.topic(topic).on_topic_recreated is OnTopicRecreated.FAIL:
            detail = "the topic was created anew, and on_topic_recreated is 'fail': settle that in a continuous run"
            return Held(topic=topic, reason=HeldReason.TOPIC_RECREATED, detail=detail)
        entry = _entry(identity, interval, bounds)
        if isinstance(entry, Held):
            return entry
        gone = entry.reason == Reason.INTERVAL_BEGINS_GONE
        if gone and config.topic(topic).config.on_out_of_range is OutOfRange.FAIL:
            detail = f"{_beginning_gone(entry)}; set on_out_of_range to nearest to read what is left, or begin later"
            return Held(topic=topic, reason=HeldReason.OUT_OF_RANGE, detail=detail)
        entries.append(entry)
    return entries


def _entry(identity: Identity, interval: Interval, bounds: Bounds) -> PlanEntry | Held:
    place, offsets = identity.key.topic_partition, identity.offsets
    low = offsets.log_start if interval.start is None else bounds.low.get(place, "broker_error")
    high = bounds.high.get(place, "broker_error")
    for answer in (low, high):
        if isinstance(answer, str):
            return unanswered(identity.key, answer)
    first = first_at(low if isinstance(low, int) else None, offsets)
    last = first_at(high if isinstance(high, int) else None, offsets)
    # No committed record is as young as the end, but an open transaction may hold back some that are older: they
    # belong to the interval too. With an open end the interval is what can be read now.
    waits = high is None and not interval.is_open and offsets.high_watermark > offsets.last_stable
    promised = Ranges.span(first, offsets.high_watermark if waits else last)
    settled = Ranges() if identity.coverage is None else identity.coverage.settled
    ranges = Ranges.span(first, last) - settled
    reason = Reason.INTERVAL if ranges else Reason.INTERVAL_SETTLED if promised else Reason.INTERVAL_EMPTY
    # Nobody can tell the times of records that are gone: those right below the log start may belong to the interval
    # if its first record is the first one that is left.
    begins_below = interval.start is not None and first <= offsets.log_start
    gone = Ranges.span(0, offsets.log_start) - settled if begins_below else Ranges()
    reason = Reason.INTERVAL_BEGINS_GONE if gone else reason
    return PlanEntry(
        key=identity.key,
        reason=reason,
        previous=identity.previous,
        ranges=ranges,
        log_start=offsets.log_start,
        log_end=offsets.last_stable,
        lost=len(gone),
        promised=promised,
    )


def leave_to_others(
    entries: Iterable[PlanEntry], plans: LivePlans
) -> tuple[tuple[PlanEntry, ...], tuple[Waiting, ...]]:
    """Leave out what the plans of live runs read; a wrong guess costs double reading, never correctness.

    Returns:
        The entries, and what was left out, plan by plan.
    """
    holders = list(plans)
    left: list[PlanEntry] = []
    waiting: list[Waiting] = []
    for entry in entries:
        rest = entry.ranges
        for plan, held in holders:
            if overlap := rest & held.get(entry.key, Ranges()):
                waiting.append(Waiting(plan=plan.plan, log_head=plan.log_head, key=entry.key, ranges=overlap))
                rest = rest - overlap
        reason = Reason.HELD_BY_OPEN_PLAN.value if entry.ranges and not rest else entry.reason
        left.append(dataclasses.replace(entry, ranges=rest, reason=reason))
    return tuple(left), tuple(waiting)


def left_to_replays(plans: LivePlans, commits: Sequence[Commit]) -> LivePlans:
    """What a replace may leave to live replays: their bad records, as long as these are in no file.

    Args:
        plans: open plans of other runs, with the offsets that they hold.
        commits: every record of the log, in order.
    """
    left: list[tuple[Plan, Mapping[PartitionKey, Ranges]]] = []
    for plan, held in plans:
        if plan.kind is Kind.REPLAY:
            since = [commit for commit in commits if commit.number > plan.log_head]
            left.append((plan, {key: spans - _taken_again(key, since) for key, spans in held.items()}))
    return left


def _taken_again(key: PartitionKey, commits: Iterable[Commit]) -> Ranges:
    """Bad records of a partition that a replay or a replace has taken: they may be in files now."""
    taken = Ranges()
    for commit in commits:
        # A path tells no topic; what is taken for gone without need is read once more, no worse.
        taken |= Ranges.of(
            (item.offset, item.offset + 1) for item in commit.replayed if item.partition == key.partition
        )
        if commit.kind is Kind.REPLACE:
            taken |= total(change.covered for change in commit.changes if change.key == key)
    return taken


def decide_replace(
    state: LogState,
    view: ClusterView,
    interval: Interval,
    decided: Decisions,
    commits: Iterable[Commit],
    unpublished: Iterable[int],
    plans: LivePlans,
) -> tuple[Decisions, tuple[Superseded, ...]]:
    """Widen an interval to whole files and read all of it again.

    Args:
        state: the log's sum.
        view: the cluster.
        interval: what is asked for.
        decided: what an interval run would do.
        commits: every record of the log, in order.
        unpublished: commits without their `published` marker.
        plans: open plans of other runs.

    Returns:
        Decisions with the ranges to read, and the files to supersede.

    Raises:
        PlanningError: it can't be carried out as a whole, so nothing happens.
    """
    if decided.held:
        reasons = "; ".join(f"{held.topic}: {held.reason}: {held.detail}" for held in decided.held)
        raise PlanningError(f"replace: topics can't be read, so nothing was changed: {reasons}")
    _refuse_beginnings_that_are_gone(state, interval, decided)
    offsets: dict[PartitionKey, PartitionOffsets] = {}
    for entry in decided.entries:
        found = view.offsets[entry.key.topic_partition]
        if not isinstance(found, str):
            offsets[entry.key] = found
    # Partitions without records in the interval too: their part of a file may have to be read again.
    wanted = {entry.key: entry.promised.below(entry.log_end) for entry in decided.entries}
    live = {path: (file.commit, file.entry) for path, file in live_files(commits).items()}
    replacement = widen(wanted, live, state)
    refuse_what_can_not_be_replaced(replacement, offsets, set(unpublished))
    for plan, held in plans:
        clash = sorted(key for key, spans in replacement.ranges.items() if spans & held.get(key, Ranges()))
        if clash and plan.kind is Kind.REPLACE:
            raise PlanningError(
                f"replace: run {plan.run.run_id} is replacing offsets of {clash[0]} too, so nothing was changed; clear "
                "`plan` once that run has ended"
            )
    entries = tuple(
        dataclasses.replace(entry, ranges=replacement.ranges[entry.key], reason=Reason.REPLACE.value)
        if entry.key in replacement.ranges
        else dataclasses.replace(entry, ranges=Ranges())
        for entry in decided.entries
    )
    return dataclasses.replace(decided, entries=entries), replacement.superseded


def _refuse_beginnings_that_are_gone(state: LogState, interval: Interval, decided: Decisions) -> None:
    """Where the interval begins at the log start, older records of it may have been read and be gone from Kafka."""
    gone = []
    for entry in decided.entries:
        have = state.coverage.get(entry.key)
        begins = entry.promised.spans[0][0] if entry.promised else entry.log_end
        if interval.start is not None and have is not None and begins <= entry.log_start:
            below = have.covered.below(entry.log_start)
            gone += [f"{entry.key}: {below}"] if below else []
    if gone:
        raise PlanningError(
            "replace: the range may begin before what Kafka still holds, so nothing was changed; read, and gone from "
            f"Kafka: {'; '.join(gone)}; choose a later range_start"
        )
