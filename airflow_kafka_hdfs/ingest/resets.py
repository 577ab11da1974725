"""Moving start points on request: the Param `reset`, carried out once, as a commit with who and why.

Back, it lifts `skipped` from the new start on; what is covered or lost is never read again (that is `replace`).
Forward, undecided offsets below the new start are skipped, or lost where Kafka no longer holds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from airflow_kafka_hdfs.exceptions import ConfigError, PlanningError
from airflow_kafka_hdfs.ingest import arguments as args
from airflow_kafka_hdfs.ingest.cluster_view import ClusterView
from airflow_kafka_hdfs.ingest.coverage import Coverage, LogState
from airflow_kafka_hdfs.ingest.decisions import Times, first_at, held_by_cluster, released, unanswered
from airflow_kafka_hdfs.ingest.identities import Identities, Identity, Standing, with_losses
from airflow_kafka_hdfs.ingest.records import Held, PartitionChange
from airflow_kafka_hdfs.ingest.requests import ResetTarget
from airflow_kafka_hdfs.ingest.selection import TopicFilter, TopicKey, Topics, by_specificity
from airflow_kafka_hdfs.model import PartitionOffsets, TopicInfo, TopicPartition

Resets = Mapping[TopicKey, ResetTarget]


def targets(resets: Resets, view: ClusterView, foreign: Collection[TopicKey] = ()) -> dict[str, ResetTarget]:
    """Topic -> target of all selected topics that are to be moved; the last key that matches wins, names after regexes.

    Args:
        foreign: keys that are for others, see `foreign_keys`.

    Raises:
        ConfigError: a key that matches no selected topic, and is for nobody else.
    """
    found: dict[str, ResetTarget] = {}
    for topic_key in by_specificity(resets):
        matching = [topic for topic in sorted(view.topics) if topic_key.matches(topic)]
        if not matching and topic_key not in foreign:
            raise args.unknown("reset", topic_key.text, view.topics)
        found.update(dict.fromkeys(matching, resets[topic_key]))
    return found


def foreign_keys(
    resets: Resets, view: ClusterView, elsewhere: Sequence[Topics | None], listed: Callable[[], Collection[str]]
) -> tuple[TopicKey, ...]:
    """Keys, as given, that match no topic here and are for another ingestion of the DAG.

    Args:
        resets: the request.
        view: the cluster, as this ingestion sees it.
        elsewhere: see `PlanRequest.elsewhere`.
        listed: all topics of the cluster; asked only where a filter leaves it open whether there is such a topic.
    """
    strange = [key for key in resets if not any(map(key.matches, view.topics))]
    found = {key for key in strange if any(_is_named(key, topics) for topics in elsewhere)}
    filters = [topics for topics in elsewhere if isinstance(topics, TopicFilter)]
    if filters and (open_ := set(strange) - found):
        names = [name for name in listed() if any(topics.matches(name) for topics in filters)]
        found |= {key for key in open_ if any(map(key.matches, names))}
    return tuple(key for key in strange if key in found)


def _is_named(key: TopicKey, topics: Topics | None) -> bool:
    """Whether a list of topics has what a key stands for; a list that can't be known may have everything."""
    return topics is None or (not isinstance(topics, TopicFilter) and any(map(key.matches, topics)))


def decide_resets(
    state: LogState,
    view: ClusterView,
    wanted: Mapping[str, ResetTarget],
    look_up: Callable[[Mapping[TopicPartition, int]], Times],
) -> tuple[PartitionChange, ...]:
    """The changes of a reset.

    Args:
        state: the log's sum, read before `view` was made.
        view: the cluster.
        wanted: see `targets`.
        look_up: offsets for times, one batched call.

    Raises:
        PlanningError: a topic can't be looked at; nothing happens, and the request is not used up.
    """
    identities = Identities(state, view.cluster_id)
    found: list[tuple[Identity, ResetTarget]] = []
    for topic, target in sorted(wanted.items()):
        _refuse(released(topic) if topic in state.released else held_by_cluster(view, topic))
        found += [(each, target) for each in identities.of_topic(*_of(view, topic))]
    asked = {
        identity.key.topic_partition: args.millis(target.at) for identity, target in found if target.at is not None
    }
    times = look_up(asked) if asked else {}
    changes = []
    for identity, target in found:
        start = _start(identity.offsets, target, times.get(identity.key.topic_partition, "broker_error"))
        if isinstance(start, str):
            _refuse(unanswered(identity.key, start))
        else:
            changes.append(moved(identity, start))
    return tuple(changes)


def decide_offset(state: LogState, view: ClusterView, place: TopicPartition, offset: int) -> PartitionChange:
    """The change that moves the start point of one partition to an offset, such as over a record that stops a topic.

    Args:
        state: the log's sum, read before `view` was made.
        view: the cluster.
        place: the partition. Its topic has start points: to set one alone would make the others new partitions.
        offset: the first one to read.

    Raises:
        ConfigError: no such topic or partition, or an offset that the broker does not hold.
        PlanningError: the topic can't be looked at, or has no start points.
    """
    topic = place.topic
    if topic not in view.topics:
        raise args.unknown("--topic", topic, view.topics)
    _refuse(released(topic) if topic in state.released else held_by_cluster(view, topic))
    found = {each.key.partition: each for each in Identities(state, view.cluster_id).of_topic(*_of(view, topic))}
    identity = found.get(place.partition)
    if identity is None:
        raise ConfigError("--partition", place.partition, sorted(found))
    if identity.standing not in (Standing.KNOWN, Standing.NEW_PARTITION):
        raise PlanningError(
            f"topic {topic} has no start points yet, and one partition alone can't be given one; nothing was changed: "
            "let a run start the topic, or move all of it to earliest, latest or a time"
        )
    held = identity.offsets
    if not held.log_start <= offset <= held.last_stable:
        allowed = f"an offset that the broker holds, {held.log_start} to {held.last_stable}"
        raise ConfigError("--to", offset, allowed)
    return moved(identity, offset)


def _of(view: ClusterView, topic: str) -> tuple[TopicInfo, Mapping[int, PartitionOffsets]]:
    return view.topics[topic], view.readable(topic)


def moved(identity: Identity, start: int) -> PartitionChange:
    """The change that moves the start point of a partition to an offset.

    Args:
        identity: the partition.
        start: the new start point, within what the broker holds.
    """
    change = identity.carried_over() if identity.is_truncated else identity.nothing()
    is_known = identity.standing is Standing.KNOWN
    have = identity.base(change).changed(change) if is_known or change.start is not None else Coverage(start=start)
    lost = have.undecided(have.start, min(start, identity.offsets.log_start))
    skipped = have.undecided(identity.offsets.log_start, start)
    lifted = have.skipped.from_on(start)
    change = dataclasses.replace(change, start=start, skipped=change.skipped - lifted, lifted=lifted)
    change = with_losses(change, lost=lost, skipped=skipped)
    after = identity.base(change).changed(change)
    return dataclasses.replace(change, caught_up=not after.undecided(start, identity.offsets.last_stable))


def describe(changes: tuple[PartitionChange, ...], wanted: Mapping[str, ResetTarget]) -> str:
    """What a reset does, for the commit's `why`."""
    parts = []
    for topic, target in sorted(wanted.items()):
        of_topic = [change for change in changes if change.key.topic == topic]
        sums = {
            "skipped": sum(len(change.skipped) for change in of_topic),
            "lost": sum(len(change.lost) for change in of_topic),
            "lifted": sum(len(change.lifted) for change in of_topic),
        }
        told = ", ".join(f"{count} offsets {what}" for what, count in sums.items() if count)
        parts.append(f"{topic} to {target}" + (f" ({told})" if told else ""))
    return "reset: " + "; ".join(parts)


def _start(offsets: PartitionOffsets, target: ResetTarget, answer: int | None | str) -> int | str:
    if target.word == "earliest":
        return offsets.log_start
    if target.word == "latest":
        return offsets.last_stable
    return answer if isinstance(answer, str) else first_at(answer, offsets)


def _refuse(held: Held | None) -> None:
    if held is not None:
        raise PlanningError(
            f"reset: topic {held.topic}: {held.reason}: {held.detail}; nothing was changed, the request can be repeated"
        )
