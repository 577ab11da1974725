"""What a person changes at a pipeline: start points, the cluster's id, owners. Each change is a commit of its own.

A change is first drafted from the log as it is, shown to whoever asked for it, and then made through the same
optimistic loop as every commit: if another record came first, it is drafted anew and must be the same change still.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import CorruptStateError, PlanningError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.cluster_view import is_missing, look
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.layout import ROOT, escape
from airflow_kafka_hdfs.ingest.ownership import claim, owner_of, refuse_foreign
from airflow_kafka_hdfs.ingest.records import Commit, Kind, PartitionChange, PartitionKey
from airflow_kafka_hdfs.ingest.requests import ResetTarget
from airflow_kafka_hdfs.ingest.resets import decide_offset, decide_resets, describe, targets
from airflow_kafka_hdfs.ingest.selection import TopicKey
from airflow_kafka_hdfs.model import PartitionOffsets, TopicInfo, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A change that is not made yet.

    Attributes:
        kind: of the commit.
        changes: of the coverage.
        released: topics given up.
        told: what it does, one line per topic or partition.
    """

    kind: Kind
    changes: tuple[PartitionChange, ...] = ()
    released: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


Drafting = Callable[[LogState], Draft]
"""Makes a draft from the log's sum; called again when another record came first."""


def carry_out(ctx: Context, drafting: Drafting, why: str, shown: Draft | None = None) -> Commit:
    """Make a change.

    Args:
        drafting: makes the change from the log's sum.
        why: for people; stands in the commit beside who.
        shown: what was confirmed; None for whatever it is.

    Raises:
        PlanningError: from the drafting, or it is not what was confirmed any more; nothing was changed.
    """
    view = ctx.log.read()
    while True:
        draft = drafting(view.state)
        if shown is not None and (draft.changes, draft.released) != (shown.changes, shown.released):
            raise PlanningError(
                f"while you looked, the change became another one: {'; '.join(draft.told)}; nothing was changed, "
                "run the command again"
            )
        record = Commit(
            number=view.head + 1,
            kind=draft.kind,
            run=ctx.run,
            clock=ctx.timestamp(),
            attempt=ctx.ids.hex(16),
            who=ctx.run.who,
            why=why,
            changes=draft.changes,
            released=draft.released,
        )
        if ctx.log.append(record):
            return record
        view = ctx.log.read(known=view)


def start_points(sources: Sources, config: IngestConfig, moves: Mapping[str, str]) -> Drafting:
    """Move start points, as the Param `reset` does.

    Args:
        sources: the cluster.
        config: the pipeline's configuration, for its topics.
        moves: topic or regex -> `earliest`, `latest` or ISO time.

    Raises:
        ConfigError: a key or value that can't be used.
    """
    wanted = {TopicKey.of("topic", key): ResetTarget.of("to", value) for key, value in moves.items()}

    def draft(state: LogState) -> Draft:
        view = look(sources.catalog, config.topics, state)
        found = targets(wanted, view)
        changes = decide_resets(state, view, found, sources.catalog.offsets_for_times)
        told = tuple(_told(state, change) for change in changes)
        return Draft(kind=Kind.RESET, changes=changes, told=(describe(changes, found), *told))

    return draft


def start_offset(sources: Sources, config: IngestConfig, place: TopicPartition, offset: int) -> Drafting:
    """Move the start point of one partition to an offset. Drafting raises as `decide_offset`.

    Args:
        sources: the cluster.
        config: the pipeline's configuration, for its topics.
        place: the partition.
        offset: the first one to read.
    """

    def draft(state: LogState) -> Draft:
        change = decide_offset(state, look(sources.catalog, config.topics, state), place, offset)
        return Draft(kind=Kind.RESET, changes=(change,), told=(_told(state, change),))

    return draft


def cluster_id(sources: Sources, new: str) -> Drafting:
    """Take the coverage of all current partitions over to another cluster id: the cluster was replaced, its data kept.

    Topics get their present ids: a cluster that was restored elsewhere may have given them new ones.

    Args:
        sources: the cluster as it is now.
        new: the id that the brokers answer with now.

    Raises:
        PlanningError: the brokers answer with another id, nothing is to be taken over, or a topic does not hold what
            was decided of it.
    """

    def draft(state: LogState) -> Draft:
        if (found := sources.catalog.cluster_id()) != new:
            raise PlanningError(f"the brokers answer with cluster id {found}, not {new}; nothing was changed")
        old = {key.topic_partition: key for key in sorted(state.current.values()) if key.cluster_id != new}
        if not old:
            raise PlanningError(f"every partition that the log knows has cluster id {new} already; nothing was changed")
        infos = sources.catalog.describe(sorted({key.topic for key in old.values()}))
        gone = sorted(topic for topic, info in infos.items() if is_missing(info.fault))
        kept = {place: _present(infos[place.topic], key, new) for place, key in old.items() if place.topic not in gone}
        ends = sources.catalog.offsets(list(kept)) if kept else {}
        for place in kept:
            _refuse_other_data(old[place], state, ends[place])
        changes = tuple(_copied(key, old[place], state) for place, key in kept.items())
        if not changes:
            raise PlanningError(f"cluster {new} has none of the topics {', '.join(gone)}; nothing was changed")
        told = [_taken_over(old[place], key, state) for place, key in kept.items()]
        told += [f"{topic}: there is no such topic now, its watermarks stay with the old cluster" for topic in gone]
        return Draft(kind=Kind.RESET, changes=changes, told=tuple(told))

    return draft


def _present(info: TopicInfo, key: PartitionKey, cluster: str) -> PartitionKey:
    if info.fault is not None:
        raise PlanningError(f"topic {info.name}: {info.fault}; nothing was changed")
    if key.partition not in info.partitions:
        raise PlanningError(f"topic {info.name} has no partition {key.partition} any more; nothing was changed")
    generation = key.generation if info.topic_id == key.topic_id else 0
    return dataclasses.replace(key, cluster_id=cluster, topic_id=info.topic_id, generation=generation)


def _refuse_other_data(key: PartitionKey, state: LogState, offsets: PartitionOffsets | str) -> None:
    """Decided offsets above the log's end prove that the data were not kept: offsets mean other records now."""
    if isinstance(offsets, str):
        raise PlanningError(f"the offsets of {key} can't be had: {offsets}; nothing was changed")
    have = state.coverage[key]
    end = max(have.decided.end or 0, have.start)
    if end > offsets.high_watermark:
        raise PlanningError(
            f"{key}: offsets up to {end} were decided, but its log ends at {offsets.high_watermark} now: it holds "
            "other data, or not all of it; nothing was changed. A topic that was made anew is read from its start by a "
            "pipeline of another pipeline_id and destination, or released here first"
        )


def _taken_over(old: PartitionKey, new: PartitionKey, state: LogState) -> str:
    mark = f"{new}: watermark {state.coverage[old].watermark} is taken over from cluster {old.cluster_id}"
    if new.topic_id == old.topic_id:
        return mark
    return f"{mark}; its topic id was {old.topic_id} and is {new.topic_id}: only right if offsets mean the same records"


def release(topics: tuple[str, ...]) -> Drafting:
    """Give topics up: later commits of this pipeline drop them. Their owner files go after that.

    Raises:
        PlanningError: a topic that the log does not know, or that was given up before.
    """

    def draft(state: LogState) -> Draft:
        for topic in topics:
            if topic in state.released:
                continue  # the owner file may still be there: somebody died in between
            if not state.known(topic):
                known = ", ".join(sorted(set(state.topics) - state.released)) or "none"
                raise PlanningError(f"topic {topic} is not one of this pipeline; its topics: {known}")
        told = tuple(f"topic {topic}: this pipeline writes no more of it" for topic in topics)
        return Draft(kind=Kind.RESET, released=topics, told=told)

    return draft


def remove_owners(ctx: Context, topics: tuple[str, ...]) -> None:
    """Delete the owner files of topics that a commit released; another pipeline may claim them then.

    Whoever releases a topic again, or one that he never got, must not take it from the pipeline that has it.
    """
    released = ctx.log.read().state.released
    for topic in topics:
        if topic in released and owner_of(ctx, topic) == ctx.pipeline:
            ctx.data.delete(ctx.log.data_paths.owner(topic))


def offsets(sources: Sources, start: Mapping[str, Mapping[int, int]]) -> Drafting:
    """Take over where another tool ended: the first offset to read, per topic and partition.

    Args:
        sources: the cluster, for identities.
        start: topic -> partition -> offset.

    Raises:
        PlanningError: a topic that can't be described, a partition that it does not have, or one with a watermark; an
            offset beyond the log's end.
    """

    def draft(state: LogState) -> Draft:
        cluster = sources.catalog.cluster_id()
        infos = sources.catalog.describe(sorted(start))
        changes = [
            PartitionChange(key=_new_key(cluster, infos[topic], partition, state), start=offset)
            for topic, partitions in sorted(start.items())
            for partition, offset in sorted(partitions.items())
        ]
        ends = sources.catalog.offsets([change.key.topic_partition for change in changes])
        for change in changes:
            _refuse_beyond(change, ends[change.key.topic_partition])
        told = [f"{change.key}: reading starts at offset {change.start}" for change in changes]
        for topic in sorted(start):
            left = sorted(set(infos[topic].partitions) - set(start[topic]) - set(state.known(topic)))
            told += [f"{topic}[{partition}]: not named, reading starts at its oldest record" for partition in left]
        return Draft(kind=Kind.IMPORT, changes=tuple(changes), told=tuple(told))

    return draft


def _refuse_beyond(change: PartitionChange, held: PartitionOffsets | str) -> None:
    """A start beyond the log's end would look like a truncated log to the next plan, and nothing below it be read."""
    if isinstance(held, str):
        raise PlanningError(f"the offsets of {change.key} can't be had: {held}; nothing was changed")
    if change.start is not None and change.start > held.high_watermark:
        raise PlanningError(
            f"{change.key}: its log ends at {held.high_watermark}, got {change.start}; nothing was changed. Are these "
            "the offsets of another cluster, or of another partition?"
        )


def claim_topics(ctx: Context, draft: Draft) -> None:
    """Make the owner files of the topics whose start points a change sets. Raises OwnedElsewhereError."""
    refuse_foreign(ctx, claim(ctx, {change.key.topic for change in draft.changes if change.start is not None}))


def copies(ctx: Context) -> range:
    """Numbers of the records that `rebuild` would bring back, as far as copies go without a hole."""
    first = end = ctx.log.read().head + 1
    while ctx.data.status(ctx.log.data_paths.log_copy(end)) is not None:
        end += 1
    return range(first, end)


def rebuild(ctx: Context) -> int:
    """Bring commit records back from their copies beside the data, in order, as far as they go without a hole.

    Returns:
        How many records were brought back.

    Raises:
        CorruptStateError: a copy is unreadable, or there is none at all.
    """
    number = ctx.log.read().head + 1
    first = number
    while (data := ctx.data.get(ctx.log.data_paths.log_copy(number))) is not None:
        path = ctx.log.data_paths.log_copy(number)
        commit = wire.decode(path, "commit", Commit, data)
        if commit.number != number:
            raise CorruptStateError(path, f"the copy says that it is number {commit.number}")
        ctx.state.put_if_absent(ctx.log.paths.commit(number), data)
        number += 1
    _refuse_hole(ctx, number)
    if number == first:
        raise CorruptStateError(
            ctx.log.data_paths.log_copy(first),
            "there is no copy of this record: copies are kept only where state_uri lies elsewhere than the data; "
            "`state rebuild --from files` goes by what the data files tell",
        )
    return number - first


def _refuse_hole(ctx: Context, number: int) -> None:
    """A copy above a hole proves that the log was longer: starting from the shorter one would read data again."""
    above = []
    for shard in ctx.data.list(f"{ROOT}/_log/{escape(ctx.pipeline)}"):
        above += [int(f.name) for f in ctx.data.list(shard.path) if f.name.isdigit() and int(f.name) > number]
    if above:
        raise CorruptStateError(
            ctx.log.data_paths.log_copy(number),
            f"this copy is missing, but there are copies up to {max(above)}: records 0 to {number - 1} were brought "
            "back, the rest can't be proven; put the missing record in place before any run starts",
        )


def _told(state: LogState, change: PartitionChange) -> str:
    before = state.coverage.get(change.key)
    was = "new" if before is None else f"watermark {before.watermark}"
    given_up = {"skipped": change.skipped, "lost": change.lost, "lifted": change.lifted}
    parts = [f"{len(spans)} offsets {what}" for what, spans in given_up.items() if spans]
    return f"{change.key}: {was}, starts at {change.start}" + (f" ({', '.join(parts)})" if parts else "")


def _copied(new: PartitionKey, old: PartitionKey, state: LogState) -> PartitionChange:
    have = state.coverage[old]
    return PartitionChange(key=new, start=have.start, covered=have.covered, skipped=have.skipped, lost=have.lost)


def _new_key(cluster: str, info: TopicInfo, partition: int, state: LogState) -> PartitionKey:
    if info.fault is not None:
        raise PlanningError(f"topic {info.name}: {info.fault}; nothing was changed")
    if partition not in info.partitions:
        raise PlanningError(
            f"topic {info.name} has partitions 0 to {max(info.partitions)}, got {partition}; nothing was changed"
        )
    key = PartitionKey(topic=info.name, partition=partition, cluster_id=cluster, topic_id=info.topic_id)
    if info.name not in state.released and key in state.coverage and state.coverage[key].decided:
        raise PlanningError(
            f"{key} has a watermark of {state.coverage[key].watermark} already; use `state set` to move its start"
        )
    return key
