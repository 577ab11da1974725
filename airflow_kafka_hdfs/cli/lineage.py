"""`airflow kafka-hdfs lineage …`: the commands, first steps and loading."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.cli.asking import change
from airflow_kafka_hdfs.cli.screen import leave, warn
from airflow_kafka_hdfs.exceptions import KafkaHdfsError

if TYPE_CHECKING:
    from airflow.cli.cli_config import CLICommand

_HERE = "airflow_kafka_hdfs.cli.lineage"
_READING = "airflow_kafka_hdfs.cli.lineage_reading"


def lineage_commands() -> list[CLICommand]:
    """The group `lineage`, for the group `kafka-hdfs`."""
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command, positive_int

    kafka = Arg(("--kafka-conn-id",), help="connection of the cluster; by default as configured")
    warehouse = Arg(("--warehouse-conn-id",), help="connection of the database; by default as configured")
    output = Arg(("-o", "--output"), help="text or json", choices=("text", "json"), default="text")
    yes = Arg(("-y", "--yes"), help="do it without asking", action="store_true")
    return [
        GroupCommand(
            name="lineage",
            help="Which dataset feeds which",
            subcommands=(
                ActionCommand(
                    name="init",
                    help="Create topics and tables; safe to repeat; shows and asks first",
                    func=lazy_load_command(f"{_HERE}.init"),
                    args=(
                        kafka,
                        warehouse,
                        Arg(
                            ("--partitions",),
                            help="partitions of new topics",
                            type=positive_int(allow_zero=False),
                            default=6,
                        ),
                        Arg(
                            ("--replication",),
                            help="copies of new topics; -1: the brokers' default",
                            type=int,
                            default=-1,
                        ),
                        yes,
                        output,
                    ),
                ),
                ActionCommand(
                    name="load",
                    help="Load the lineage topic into the warehouse; shows and asks first",
                    func=lazy_load_command(f"{_HERE}.load"),
                    args=(
                        kafka,
                        warehouse,
                        Arg(
                            ("--forever",),
                            help="go on until stopped, also while the warehouse or Kafka is away",
                            action="store_true",
                        ),
                        yes,
                        output,
                    ),
                ),
                *_reading_commands(warehouse, output, yes),
            ),
        )
    ]


def _reading_commands(warehouse: Any, output: Any, yes: Any) -> list[CLICommand]:
    from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command, positive_int

    hops = positive_int(allow_zero=True)
    dataset = Arg(("dataset",), help="URI, id, or words that one dataset alone has in its name")
    as_of = Arg(("--as-of",), help="ISO date or time; now by default")
    formats = ("json", "graphml", "mermaid")
    repair = (
        Arg(("--from",), help="since when the dataset is wrong: ISO date or time", required=True),
        Arg(("--to",), help="until when; now by default"),
        Arg(("--freeze",), help="pause the DAGs downstream", action="store_true"),
        Arg(("--rerun",), help="run this DAG of the plan again; may be repeated", metavar="DAG_ID", action="append"),
        Arg(("--resume",), help="resume the DAGs that --freeze paused, no others", action="store_true"),
        Arg(("--dry-run",), help="only show what would be done", action="store_true"),
        yes,
        output,
    )
    return [
        ActionCommand(
            name="show",
            help="One dataset: where from, where to, who",
            func=lazy_load_command(f"{_READING}.show"),
            args=(dataset, warehouse, output),
        ),
        ActionCommand(
            name="impact",
            help="What a change of a dataset reaches, nearest first",
            func=lazy_load_command(f"{_READING}.impact"),
            args=(
                dataset,
                warehouse,
                as_of,
                output,
                Arg(("--up",), help="what it comes from instead", action="store_true"),
            ),
        ),
        ActionCommand(
            name="export",
            help="The surroundings of a dataset as JSON, GraphML or Mermaid",
            func=lazy_load_command(f"{_READING}.export"),
            args=(
                dataset,
                warehouse,
                as_of,
                Arg(
                    ("--format",),
                    help="json, graphml or mermaid",
                    choices=formats,
                    default="json",
                ),
                Arg(("--up",), help="hops upstream", type=hops, default=20, dest="up_hops"),
                Arg(("--down",), help="hops downstream", type=hops, default=20, dest="down_hops"),
            ),
        ),
        ActionCommand(
            name="send",
            help="Send a governance platform what it does not know yet, as OpenLineage events; shows and asks first",
            func=lazy_load_command("airflow_kafka_hdfs.cli.lineage_sending.send"),
            args=(
                warehouse,
                Arg(("--what",), help="relations, runs or all; as configured", choices=("relations", "runs", "all")),
                Arg(("--again",), help="send also what was refused before", action="store_true"),
                Arg(("--dry-run",), help="count what would be sent, send nothing", action="store_true"),
                yes,
                output,
            ),
        ),
        ActionCommand(
            name="prune",
            help="Delete runs and messages older than some days; pairs and facts stay; shows and asks first",
            func=lazy_load_command("airflow_kafka_hdfs.cli.lineage_pruning.prune"),
            args=(
                warehouse,
                Arg(("--older-than",), help="age: days or weeks, such as 400d or 60w; at least 31d", required=True),
                Arg(("--dry-run",), help="count what would be deleted, delete nothing", action="store_true"),
                yes,
                output,
            ),
        ),
        ActionCommand(
            name="repair",
            help="Plan the repair of a wrong dataset; pause, run again and resume what reads it",
            func=lazy_load_command("airflow_kafka_hdfs.cli.lineage_repair.repair"),
            args=(dataset, warehouse, *repair),
        ),
    ]


@contextmanager
def told() -> Iterator[None]:
    """Errors of ours end the command with their text, not with a trace."""
    try:
        yield
    except KafkaHdfsError as error:
        leave(f"{type(error).__name__}: {error}")


def init(args: argparse.Namespace) -> None:
    """Create topics and tables."""
    from airflow_kafka_hdfs.hooks.lineage import LineageHook

    with told():
        hook = LineageHook(kafka_conn_id=args.kafka_conn_id, warehouse_conn_id=args.warehouse_conn_id)
        warehouse = hook.warehouse()
        try:
            made = change(
                args,
                [
                    *(f"topic {topic} is created unless it exists" for topic in hook.topics()),
                    f"tables are created or brought up to date in {warehouse.where}",
                ],
            )
            topics = hook.create_topics(partitions=args.partitions, replication=args.replication)
            warehouse.migrate()
        finally:
            warehouse.close()
        lines = [f"topic {topic}: {'created' if new else 'exists'}" for topic, new in topics.items()]
        lines.append(f"warehouse {warehouse.where}: ready")
        if not hook.settings.enabled:
            lines.append(
                "lineage is off: set AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED=True and restart Airflow to collect it"
            )
        made.tell(lines, created=sorted(topic for topic, new in topics.items() if new), enabled=hook.settings.enabled)


def load(args: argparse.Namespace) -> None:
    """Load what is in the topic, once or for ever."""
    from airflow_kafka_hdfs.adapters.runtime import SystemClock
    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.lineage.loading import Loader, LoadReport

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with told():
        hook = LineageHook(kafka_conn_id=args.kafka_conn_id, warehouse_conn_id=args.warehouse_conn_id)
        warehouse = hook.warehouse()
        how = "until it is stopped" if args.forever else "as far as they go now"
        made = change(args, [f"messages of topic {hook.settings.topic} go into {warehouse.where}, {how}"])
        source, dead_letters = hook.letter_source(), hook.letter_box()
        report = LoadReport()
        try:
            loader = Loader(
                source,
                warehouse,
                SystemClock(),
                **hook.load_options(),
                dead_letters=dead_letters,
                dead_letter_topic=hook.settings.dead_letter_topic,
                on_outage=lambda error: warn(f"waiting: {error}"),
            )
            if args.forever:
                retention = hook.retention(warehouse)
                report = loader.load_forever(stop, between=retention.step if retention else lambda: None)
            else:
                report = loader.load_available(stop)
        finally:
            source.close()
            dead_letters.close()
            warehouse.close()
        counts: dict[str, Any] = {**report.to_json()}
        made.tell([", ".join(f"{name}: {count}" for name, count in counts.items())], **counts)
