"""What the commands do: call the core, print a table or JSON, end with an exit code that scripts can use."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.cli.screen import leave, say, say_json, say_table
from airflow_kafka_hdfs.exceptions import KafkaHdfsError

if TYPE_CHECKING:
    from airflow_kafka_hdfs.cli.checking import Check
    from airflow_kafka_hdfs.ingest.context import Context
    from airflow_kafka_hdfs.ingest.records import PartitionKey

_PARTS = {
    "confluent-kafka": "Kafka",
    "fastavro": "Avro",
    "hdfs": "WebHDFS",
    "hdfs-native": "HDFS by native RPC (extra: native)",
    "fsspec": "object stores (extra: object-store)",
    "s3fs": "S3 (extra: s3)",
    "polars": "Parquet (extra: parquet)",
    "pyarrow": "Parquet (extra: parquet)",
}


def told(command: Callable[[Namespace], None]) -> Callable[[Namespace], None]:
    """Errors of ours are answers: their text without a traceback, exit code 1; logs show with `--verbose` alone."""

    @wraps(command)
    def run(args: Namespace) -> None:
        from airflow.utils.cli import suppress_logs_and_warning

        try:
            suppress_logs_and_warning(command)(args)
        except KafkaHdfsError as error:
            leave(f"{type(error).__name__}: {error}")

    return run


@told
def info(args: Namespace) -> None:
    """Version, optional parts, connection types, tiers of the fast path."""
    from airflow.configuration import conf

    from airflow_kafka_hdfs import __version__
    from airflow_kafka_hdfs.adapters.kafka.direct import direct_fault
    from airflow_kafka_hdfs.cli.checking import checks
    from airflow_kafka_hdfs.hooks.hdfs_native_form import HDFS_NATIVE_CONNECTION_TYPE
    from airflow_kafka_hdfs.hooks.schema_registry_form import SCHEMA_REGISTRY_CONNECTION_TYPE
    from airflow_kafka_hdfs.ingest.datum.tiers import list_tiers, pick

    allowed = conf.get("kafka_hdfs", "tiers")
    tiers = list_tiers(direct_fault())
    chosen = pick(allowed, direct_fault=direct_fault)
    parts = {name: _version(name) for name in _PARTS}
    facts: dict[str, Any] = {
        "version": __version__,
        "parts": parts,
        "connection_types": [
            form["connection-type"] for form in (HDFS_NATIVE_CONNECTION_TYPE, SCHEMA_REGISTRY_CONNECTION_TYPE)
        ],
        "tiers": {tier.name: {"available": tier.available, "detail": tier.detail} for tier in tiers},
        "tiers_allowed": allowed,
        "tier": "reference" if chosen is None else chosen.name,
    }
    found = [] if args.dag_id is None else checks(args)
    if args.dag_id is not None:
        facts["checks"] = [asdict(check) for check in found]
    if args.output == "json":
        say_json(facts)
        _end_with(found)
        return
    say(f"airflow-provider-kafka-hdfs {__version__}")
    say_table(("part", "for", "version"), [(n, _PARTS[n], v or "-") for n, v in parts.items()])
    say(f"connection types: kafka, webhdfs, {', '.join(facts['connection_types'])}")
    rows = [(tier.name, "yes" if tier.available else "no", tier.detail) for tier in tiers]
    say_table(("tier", "there", "detail"), rows)
    say(f"extract uses tier {facts['tier']} where a topic allows it ([kafka_hdfs] tiers = {allowed})")
    if found:
        rows = [(check.what, "yes" if check.works else "NO", check.detail) for check in found]
        say_table(("part", "works", "detail"), rows)
    _end_with(found)


def _end_with(found: list[Check]) -> None:
    if not all(check.works for check in found):
        raise SystemExit(1)


@told
def plan(args: Namespace) -> None:
    """Show what the next run would read."""
    from airflow_kafka_hdfs.cli.addressing import command_run, config_of
    from airflow_kafka_hdfs.cli.runs import MetadataRunStates
    from airflow_kafka_hdfs.exceptions import ConfigError
    from airflow_kafka_hdfs.ingest import wire
    from airflow_kafka_hdfs.ingest.planning import make_plan
    from airflow_kafka_hdfs.ingest.requests import PlanRequest
    from airflow_kafka_hdfs.operators.ports import open_context, open_sources
    from airflow_kafka_hdfs.operators.tables import plan_table

    if not args.dry_run:
        raise ConfigError("--dry-run", None, "--dry-run: a plan is made by a run of the DAG")
    if args.dag_id is None:
        raise ConfigError("--dag-id", None, "the DAG of the pipeline")
    config = config_of(args.dag_id, args.group_id)
    ctx = open_context(config, command_run(args), MetadataRunStates())
    planned = make_plan(ctx, open_sources(config), config, PlanRequest(dry_run=True))
    if args.output == "json":
        say_json({**wire.to_plain(planned.plan), "notes": list(planned.notes)})
        return
    say(*plan_table(planned.plan, whole=True).split("\n"), *planned.notes)


@told
def state_show(args: Namespace) -> None:
    """Watermarks, open plans, commits in need of care."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import wire
    from airflow_kafka_hdfs.ingest.inspecting import inspect, newest_commits

    ctx = context_of(args)
    found = inspect(ctx)
    last = newest_commits(ctx, _LAST_COMMITS)
    lag = _lag_of(args, ctx)
    if args.output == "json":
        commits = [wire.to_plain(commit) for commit in last]
        told = [{**wire.to_plain(item), "lag": lag.get(item.key)} for item in found.partitions]
        say_json({**wire.to_plain(found), "partitions": told, "last_commits": commits})
        return
    say(f"pipeline {found.pipeline}, state in {found.state}: {found.head + 1} commits")
    columns = ("partition", "start", "watermark", "lag", "ahead", "covered", "skipped", "lost")
    rows = [
        (
            str(p.key),
            p.start,
            p.watermark,
            lag.get(p.key, "-"),
            str(p.ahead) if p.ahead else "-",
            p.covered,
            p.skipped,
            p.lost,
        )
        for p in found.partitions
    ]
    say_table(columns, rows)
    for commit in last:
        say(f"commit {commit.number} ({commit.kind.value}) of {commit.clock}: {commit.counts.read:,} records read")
    for item in found.open_plans:
        alive = {True: "at work", False: "gone", None: "unknown"}[item.alive]
        say(f"open plan {item.plan} of {item.dag_id} {item.run_id} ({alive}): {item.undecided} units undecided")
    if found.unpublished:
        say(f"files not all in place: commits {_numbers(found.unpublished)}; `state recover` or the next run mends it")
    if found.unannounced:
        say(f"events not known to be stored: commits {_numbers(found.unannounced)}; the next run sends them")


_LAST_COMMITS = 5


def _lag_of(args: Namespace, ctx: Context) -> dict[PartitionKey, int | str]:
    """Readable offsets that are not decided yet, asked of the brokers with `--lag`; a code where they do not tell."""
    from airflow_kafka_hdfs.cli.addressing import config_of
    from airflow_kafka_hdfs.exceptions import ConfigError
    from airflow_kafka_hdfs.ingest.inspecting import lags
    from airflow_kafka_hdfs.operators.ports import open_sources

    if not args.lag:
        return {}
    if args.dag_id is None:
        raise ConfigError("--dag-id", None, "the DAG of the pipeline: --lag asks its brokers")
    return lags(ctx, open_sources(config_of(args.dag_id, args.group_id)).catalog)


@told
def state_log(args: Namespace) -> None:
    """The last commits, newest first."""
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import wire
    from airflow_kafka_hdfs.ingest.inspecting import newest_commits

    commits = newest_commits(context_of(args), args.number)
    if args.output == "json":
        say_json([wire.to_plain(commit) for commit in commits])
        return
    columns = ("commit", "kind", "clock", "read", "files", "lost", "skipped", "held", "run", "why")
    rows = []
    for commit in commits:
        files = sum(not entry.quarantine for entry in commit.files)
        held = ", ".join(item.topic for item in commit.held) or "-"
        by = f"{commit.run.dag_id} {commit.run.run_id}".strip()
        counts = commit.counts
        rows.append(
            (
                commit.number,
                commit.kind.value,
                commit.clock,
                counts.read,
                files,
                counts.lost,
                counts.skipped,
                held,
                by,
                commit.why or "-",
            )
        )
    say_table(columns, rows)


@told
def state_doctor(args: Namespace) -> None:
    """Check log, records and files."""
    from airflow_kafka_hdfs.adapters.parquet import read_footer
    from airflow_kafka_hdfs.cli.addressing import context_of
    from airflow_kafka_hdfs.ingest import wire
    from airflow_kafka_hdfs.ingest.doctor import examine
    from airflow_kafka_hdfs.ingest.examining import Looking, Severity

    findings = examine(context_of(args), look=Looking(args.look), footers=read_footer)
    if args.output == "json":
        say_json([wire.to_plain(finding) for finding in findings])
    else:
        for finding in findings:
            say(f"{finding.severity.value}: {finding.what}", f"  means: {finding.meaning}", f"  next: {finding.mend}")
        say(f"{len(findings)} findings" if findings else "healthy")
    if any(finding.severity is not Severity.NOTE for finding in findings):
        raise SystemExit(1)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _numbers(values: Any) -> str:
    return ", ".join(map(str, values))
