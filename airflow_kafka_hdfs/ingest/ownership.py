"""One pipeline per topic and destination, and no fresh start beside data of ours.

Two pipelines that write one topic's folders would each be exact and double everything together. So each topic has an
owner file at the destination, made before the topic's first plan. And where files with our names stand but the log has
no word of the topic, somebody lost the state, or another pipeline wrote them: starting afresh would double them too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import OwnedElsewhereError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.layout import ROOT, FileName, escape, file_topic, unescape
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.reasons import HeldReason
from airflow_kafka_hdfs.ingest.records import Held

MOST_LISTINGS = 200
"""Folders looked into per topic. Data lies a handful of levels deep, so the first file is found after few; a tree of
foreign folders must not hold planning up for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Which pipeline owns a topic at a destination."""

    topic: str
    pipeline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOwner:
    """Which pipeline a log belongs to."""

    pipeline: str


def check_log(ctx: Context, state_uri: str | None) -> bool:
    """Refuse a log of another pipeline, which `state_uri` may name by mistake; changes nothing.

    What one pipeline has covered, another one with the same topics would never read.

    Args:
        ctx: ports of this run.
        state_uri: the argument; None for the default place, which is told by its folder.

    Returns:
        Whether the log has an owner already; if not, `claim_log` is due before anything counts on it.

    Raises:
        OwnedElsewhereError: the log is another one's.
        CorruptStateError, NewerFormatError: of the record.
    """
    if state_uri is None:
        return True
    _, is_default, folder = state_uri.rstrip("/").rpartition(f"/{ROOT}/")
    if is_default:
        owner: LogOwner | None = LogOwner(pipeline=unescape(folder)) if folder != escape(ctx.pipeline) else None
    else:
        data = ctx.state.get(ctx.log.paths.owner)
        owner = None if data is None else wire.decode(ctx.log.paths.owner, "log_owner", LogOwner, data)
    if owner is not None:
        _refuse_log_of(ctx, owner.pipeline)
    return bool(is_default) or owner is not None


def claim_log(ctx: Context, state_uri: str | None) -> None:
    """Take a log that nobody owns; the first one to come has it. Raises as `check_log`."""
    mine = wire.encode("log_owner", LogOwner(pipeline=ctx.pipeline))
    if not ctx.state.put_if_absent(ctx.log.paths.owner, mine):
        check_log(ctx, state_uri)


def refuse_foreign_start(ctx: Context, view: LogView) -> None:
    """Refuse a log that another pipeline began, whoever came first to claim it: their start points are not ours.

    Args:
        ctx: ports of this run.
        view: a reading of the log; records below its checkpoint have been looked at often enough.

    Raises:
        OwnedElsewhereError: its first record names another pipeline.
    """
    first = view.records.get(0)
    if first is not None and first.pipeline is not None:
        _refuse_log_of(ctx, first.pipeline)


def _refuse_log_of(ctx: Context, pipeline: str) -> None:
    if pipeline != ctx.pipeline:
        raise OwnedElsewhereError(
            f"the commit log at {ctx.state.root} is that of pipeline {pipeline}: pipeline {ctx.pipeline} would "
            "take what that one has read for read. Give state_uri a folder for each pipeline, or leave it out; if the "
            f"pipeline was only renamed, keep its name with pipeline_id={pipeline!r}"
        )


def owners_of(ctx: Context, topics: Collection[str]) -> dict[str, str]:
    """Topic -> pipeline, of the topics that anybody owns; changes nothing."""
    found = ctx.workers.map(lambda topic: _owner(ctx, topic), sorted(topics))
    return {owner.topic: owner.pipeline for owner in found if owner is not None}


def all_owners(ctx: Context) -> dict[str, str]:
    """Topic -> pipeline, of every topic that anybody owns at this destination."""
    return owners_of(ctx, [unescape(file.name) for file in ctx.data.list(f"{ROOT}/_owners") if not file.is_dir])


def owned_elsewhere(ctx: Context, topics: Collection[str]) -> dict[str, str]:
    """Topic -> pipeline, of the topics that other pipelines own; changes nothing."""
    return of_others(ctx, owners_of(ctx, topics))


def of_others(ctx: Context, owners: Mapping[str, str]) -> dict[str, str]:
    """Those of `owners_of` that are not this pipeline's."""
    return {topic: pipeline for topic, pipeline in owners.items() if pipeline != ctx.pipeline}


def owner_of(ctx: Context, topic: str) -> str | None:
    """Id of the pipeline that owns a topic at this destination, None if none does."""
    owner = _owner(ctx, topic)
    return None if owner is None else owner.pipeline


def claim(ctx: Context, topics: Collection[str]) -> dict[str, str]:
    """Make the owner files of topics, side by side; doing it again is harmless.

    Returns:
        Topic -> pipeline, of the topics that other pipelines own.
    """
    found = ctx.workers.map(lambda topic: _claim(ctx, topic), sorted(topics))
    return of_others(ctx, {owner.topic: owner.pipeline for owner in found})


def hold_foreign(ctx: Context, foreign: Mapping[str, str]) -> list[Held]:
    """Topics that other pipelines own are held back; the pipeline's others go on."""
    return [
        Held(topic=topic, reason=HeldReason.OWNED_ELSEWHERE, detail=_told(ctx, {topic: pipeline}))
        for topic, pipeline in foreign.items()
    ]


def refuse_foreign(ctx: Context, foreign: Mapping[str, str]) -> None:
    """Refuse what can't be done with topics of others.

    Raises:
        OwnedElsewhereError: there are such topics; names both pipelines.
    """
    if foreign:
        raise OwnedElsewhereError(_told(ctx, foreign))


def _claim(ctx: Context, topic: str) -> Owner:
    mine = Owner(topic=topic, pipeline=ctx.pipeline)
    while not ctx.data.put_if_absent(ctx.log.data_paths.owner(topic), wire.encode("owner", mine)):
        if (owner := _owner(ctx, topic)) is not None:
            return owner  # else it was released between the two calls, and anybody may have it
    return mine


def _owner(ctx: Context, topic: str) -> Owner | None:
    path = ctx.log.data_paths.owner(topic)
    data = ctx.data.get(path)
    return None if data is None else wire.decode(path, "owner", Owner, data)


def _told(ctx: Context, foreign: Mapping[str, str]) -> str:
    told = "; ".join(f"topic {topic} is owned by pipeline {pipeline}" for topic, pipeline in foreign.items())
    return (
        f"pipeline {ctx.pipeline} may not write below {ctx.data.root}: {told} (its owner file there says so). Two "
        "pipelines would double each other's data: give each its own topics or destination (pipeline_id names a "
        "pipeline, by default <dag_id>.<group_id>), or hand the topic over with `airflow kafka-hdfs state release` "
        "in the pipeline that owns it"
    )


def find_data(ctx: Context, topic: str, path_template: str) -> str | None:
    """Path of some file of the topic with a name of ours, None if none is found.

    Args:
        ctx: ports of this run.
        topic: the topic.
        path_template: where its files go.
    """
    start: list[str] = []
    for element in path_template.split("/"):
        element = element.replace("{topic}", escape(topic))
        if "{" in element:
            break
        start.append(element)
    prefix = f"{file_topic(topic)}+"
    for name, path in _walk(ctx, "/".join(start)):
        if name.startswith(prefix) and FileName.parse(name) is not None:
            return path
    return None


def _walk(ctx: Context, top: str) -> Iterator[tuple[str, str]]:
    """Name and path of files below a folder, deepest first, as far as `MOST_LISTINGS` goes."""
    open_ = [top]
    for _ in range(MOST_LISTINGS):
        if not open_:
            return
        children = ctx.data.list(open_.pop())
        yield from ((child.name, child.path) for child in children if not child.is_dir)
        open_ += [child.path for child in reversed(children) if child.is_dir and child.name[:1] not in "._"]
