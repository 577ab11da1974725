"""Commands that change a pipeline: each shows first what it will do, and asks."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_hdfs.cli.asking import change
from airflow_kafka_hdfs.cli.commands import told
from airflow_kafka_hdfs.cli.screen import leave, warn
from airflow_kafka_hdfs.exceptions import ConfigError

if TYPE_CHECKING:
    from airflow_kafka_hdfs.ingest.collecting import Collected
    from airflow_kafka_hdfs.ingest.context import Context
    from airflow_kafka_hdfs.ingest.records import Commit
    from airflow_kafka_hdfs.ingest.steering import Drafting

_MOST_PLANS = 1000
_MOST_HOURS = 24 * 366


@told
def state_set(args: Namespace) -> None:
    """Move start points, or take the state over to another cluster id."""
    from airflow_kafka_hdfs.cli.addressing import config_of, context_of
    from airflow_kafka_hdfs.ingest import steering
    from airflow_kafka_hdfs.model import TopicPartition
    from airflow_kafka_hdfs.operators.ports import open_sources

    offset = int(args.to) if args.to is not None and args.to.isdecimal() else None
    if (offset is None) != (args.partition is None):
        raise ConfigError("--to", args.to, "an offset beside --partition; earliest, latest or an ISO time without it")
    ctx = context_of(args)
    if args.dag_id is None or (args.cluster is None and (args.topic is None or args.to is None)):
        raise ConfigError("--topic", args.topic, "--dag-id with --topic and --to, or with --cluster")
    config = config_of(args.dag_id, args.group_id)
    if args.cluster is not None:
        drafting = steering.cluster_id(open_sources(config), args.cluster)
    elif offset is not None:
        place = TopicPartition(args.topic, args.partition)
        drafting = steering.start_offset(open_sources(config), config, place, offset)
    else:
        drafting = steering.start_points(open_sources(config), config, {args.topic: args.to})
    _show_and_ask(args, ctx, drafting)


@told
def state_release(args: Namespace) -> None:
    """Give topics up, so that another pipeline may own them."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import steering
    from airflow_kafka_hdfs.ingest.ownership import owned_elsewhere

    ctx = context_of(args)
    topics = tuple(args.topics)
    foreign = owned_elsewhere(ctx, topics)  # it also shows that the destination can be had, before anything is changed
    notes = [f"topic {topic}: pipeline {owner} owns it, and goes on doing so" for topic, owner in foreign.items()]
    _show_and_ask(args, ctx, steering.release(topics), notes)
    steering.remove_owners(ctx, topics)


@told
def state_import(args: Namespace) -> None:
    """Take over where another tool ended."""
    from airflow_kafka_hdfs.cli.addressing import config_of, context_of
    from airflow_kafka_hdfs.cli.importing import offsets_of
    from airflow_kafka_hdfs.ingest import steering
    from airflow_kafka_hdfs.operators.ports import open_sources

    if args.dag_id is None:
        raise ConfigError("--dag-id", None, "the DAG of the pipeline")
    ctx = context_of(args)
    config = config_of(args.dag_id, args.group_id)
    start, notes = offsets_of(args, config)
    _show_and_ask(args, ctx, steering.offsets(open_sources(config), start), notes)


@told
def state_rebuild(args: Namespace) -> None:
    """Bring the log back: its records from their copies beside the data, or what the data files tell of themselves."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import steering

    ctx = context_of(args)
    if args.source == "files":
        _rebuild_from_files(args, ctx)
        return
    numbers = steering.copies(ctx)
    made = change(args, [_copies_told(ctx, numbers)])
    count = steering.rebuild(ctx)
    made.tell([f"{count} records were brought back; look with `state doctor`"], records=count, commit=None)


def _rebuild_from_files(args: Namespace, ctx: Context) -> None:
    from airflow_kafka_hdfs.adapters.parquet import read_footer
    from airflow_kafka_hdfs.ingest.rebuilding import carry_out_rebuild, draft_rebuild

    draft = draft_rebuild(ctx, read_footer)
    if draft.assumed and not args.assume_planned:
        raise ConfigError(
            "--assume-planned",
            None,
            "--assume-planned, if those plans were read to their ends (no limit, no failed unit)",
            "files do not prove:\n" + "\n".join(draft.assumed) + "\nWhat is assumed wrongly is never read; "
            "`state set` or `replace` can mend it while Kafka still holds it",
        )
    made = change(
        args,
        [
            *draft.told,
            *(f"assumed: {line}" for line in draft.assumed),
            *(f"left out: {line}" for line in draft.left_out),
        ],
    )
    commit = carry_out_rebuild(ctx, draft, read_footer, args.reason)
    made.tell(
        [f"commit {commit.number} (rebuild) by {commit.who or 'nobody known'}: {commit.why}; look with `state doctor`"],
        records=1,
        commit=commit.number,
        left_out=list(draft.left_out),
    )


def _copies_told(ctx: Context, numbers: range) -> str:
    there = f"commits {numbers.start} to {numbers.stop - 1}" if numbers else "no record"
    return f"{there} of the copies below {ctx.data.root} come to {ctx.state.root}; none there is replaced"


@told
def state_recover(args: Namespace) -> None:
    """Bring files of unfinished commits into place."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import wire
    from airflow_kafka_hdfs.ingest.inspecting import recover, unfinished

    ctx = context_of(args)
    commits = unfinished(ctx)
    made = change(args, (_unfinished_told(commit) for commit in commits))
    if not commits:
        made.tell(["every commit is whole"], changed=False, commits=[], refusals=[])
        return
    done = recover(ctx)
    refused = {refusal.commit for refusal in done.refusals}
    finished = [number for number in done.commits if number not in refused]
    told = [f"finished commits {', '.join(map(str, finished))}"] if finished else []
    made.tell(told, changed=bool(finished), commits=finished, refusals=wire.to_plain(done.refusals))
    for refusal in done.refusals:
        warn(refusal)
    if done.refusals:
        leave(f"{len(done.refusals)} files were refused: mend the store, then run this again")


def _unfinished_told(commit: Commit) -> str:
    out = f", {len(commit.superseded)} superseded ones out of theirs" if commit.superseded else ""
    return f"commit {commit.number} ({commit.kind.value}): {len(commit.files)} files come to their places{out}"


@told
def state_gc(args: Namespace) -> None:
    """Clean what dead runs left."""
    from airflow_kafka_hdfs.cli.addressing import context_of, grace_of
    from airflow_kafka_hdfs.ingest import wire
    from airflow_kafka_hdfs.ingest.collecting import collect

    grace = grace_of(args) if args.grace_hours is None else _grace(args.grace_hours)
    ctx = context_of(args)
    due = collect(ctx, grace=grace, most=_MOST_PLANS, dry_run=True)
    made = change(args, _due_told(due))
    if not made.will:
        made.tell([f"nothing to clean that is older than {grace}"], changed=False, **wire.to_plain(due))
        return
    done = collect(ctx, grace=grace, most=_MOST_PLANS, why=f"its run is gone ({args.reason})")
    counts = (
        f"ended {len(done.aborted)} plans of dead runs; deleted {len(done.plans)} settled plans, "
        f"{len(done.staging)} orphaned folders, superseded files of {len(done.superseded)} commits"
    )
    made.tell([counts], **wire.to_plain(done))


def _due_told(due: Collected) -> list[str]:
    return [
        *(f"plan {plan}: its run is gone; a record in the log ends it, then its staging goes" for plan in due.aborted),
        *(f"plan {plan}: settled; its record and empty staging go" for plan in due.plans if plan not in due.aborted),
        *(f"folder of plan {plan}: no such plan; it goes" for plan in due.staging),
        *(f"files that commit {number} superseded are deleted for good" for number in due.superseded),
    ]


def _grace(hours: float) -> timedelta:
    if not 0 <= hours <= _MOST_HOURS:
        raise ConfigError("--grace-hours", hours, f"hours from 0 to {_MOST_HOURS}")
    return timedelta(hours=hours)


def read_offsets(path: str) -> dict[str, Mapping[int, int]]:
    """Offsets from a JSON file `{"topic": {"partition": offset}}`.

    Raises:
        ConfigError: no such file, or another content.
    """
    allowed = 'a JSON file {"topic": {"0": 120, "1": 98}} with the first offset to read of each partition'
    try:
        body = json.loads(Path(path).read_text())
        return {str(topic): {int(p): _offset(o) for p, o in parts.items()} for topic, parts in body.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError("--file", path, allowed, str(error)) from error


def _offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"an offset is a whole number from 0 up, got {value!r}")
    return value


def _show_and_ask(args: Namespace, ctx: Context, drafting: Drafting, notes: Sequence[str] = ()) -> None:
    from airflow_kafka_hdfs.ingest.steering import carry_out, claim_topics

    shown = drafting(ctx.log.read().state)
    made = change(args, (*notes, *shown.told))
    claim_topics(ctx, shown)
    commit = carry_out(ctx, drafting, args.reason, shown)
    told = f"commit {commit.number} ({commit.kind.value}) by {commit.who or 'nobody known'}: {commit.why}"
    made.tell([told], commit=commit.number, kind=commit.kind.value, who=commit.who, why=commit.why)
