"""Commands that change a pipeline: each shows first what it will do, and asks."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_kafka_hdfs.cli.commands import told
from airflow_kafka_hdfs.exceptions import ConfigError

if TYPE_CHECKING:
    from airflow_kafka_hdfs.ingest.context import Context
    from airflow_kafka_hdfs.ingest.steering import Drafting


@told
def state_set(args: Namespace) -> None:
    """Move start points, or take the state over to another cluster id."""
    from airflow_kafka_hdfs.cli.addressing import config_of, context_of
    from airflow_kafka_hdfs.ingest import steering
    from airflow_kafka_hdfs.operators.ports import open_sources

    ctx = context_of(args)
    if args.dag_id is None or (args.cluster is None and (args.topic is None or args.to is None)):
        raise ConfigError("--topic", args.topic, "--dag-id with --topic and --to, or with --cluster")
    config = config_of(args.dag_id, args.group_id)
    if args.cluster is not None:
        drafting = steering.cluster_id(open_sources(config), args.cluster)
    else:
        drafting = steering.start_points(open_sources(config), config, {args.topic: args.to})
    _show_and_ask(args, ctx, drafting)


@told
def state_release(args: Namespace) -> None:
    """Give topics up, so that another pipeline may own them."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import steering

    ctx = context_of(args)
    topics = tuple(args.topics)
    _show_and_ask(args, ctx, steering.release(topics))
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
    print("\n".join(notes), end="\n" if notes else "")
    drafting = steering.offsets(open_sources(config), start)
    _show_and_ask(args, ctx, drafting)


@told
def state_rebuild(args: Namespace) -> None:
    """Bring commit records back from their copies beside the data."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import steering

    ctx = context_of(args)
    print(f"records from the copies below {ctx.data.root} come to {ctx.state.root}; none there is replaced")
    ask(args)
    print(f"{steering.rebuild(ctx)} records were brought back; look with `state doctor`")


@told
def state_gc(args: Namespace) -> None:
    """Clean what dead runs left, now instead of at the next publish."""
    from airflow_kafka_hdfs.cli.addressing import context_of, grace_of
    from airflow_kafka_hdfs.ingest.collecting import collect

    grace = grace_of(args) if args.grace_hours is None else timedelta(hours=args.grace_hours)
    done = collect(context_of(args), grace=grace, most=1000)
    print(
        f"ended {len(done.aborted)} plans of dead runs; deleted {len(done.plans)} settled plans, "
        f"{len(done.staging)} orphaned folders, superseded files of {len(done.superseded)} commits"
    )


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


def _show_and_ask(args: Namespace, ctx: Context, drafting: Drafting) -> None:
    from airflow_kafka_hdfs.ingest.steering import carry_out, claim_topics

    shown = drafting(ctx.log.read().state)
    for line in shown.told:
        print(line)
    ask(args)
    claim_topics(ctx, shown)
    commit = carry_out(ctx, drafting, args.reason, shown)
    print(f"commit {commit.number} ({commit.kind.value}) by {commit.who or 'nobody known'}: {commit.why}")


def ask(args: Namespace) -> None:
    """Go on only if the person says so, or `--yes` was given.

    Raises:
        SystemExit: with code 1: nothing was changed.
    """
    if not args.yes and input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise SystemExit("nothing was changed")
