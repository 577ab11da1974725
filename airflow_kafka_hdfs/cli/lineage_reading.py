"""`airflow kafka-hdfs lineage show | impact | export`: what the warehouse knows, for whoever runs the command.

The commands have the rights of Airflow's command line: they see every job.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from airflow_kafka_hdfs.cli.lineage import told
from airflow_kafka_hdfs.cli.screen import leave, plain, say, say_document, say_json, warn
from airflow_kafka_hdfs.lineage.moments import moment

if TYPE_CHECKING:
    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.lineage.describing import Describer
    from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow


@contextmanager
def looking(args: argparse.Namespace) -> Iterator[tuple[Describer, LineageHook]]:
    """One look at the warehouse, which sees every job."""
    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.lineage.access import EVERYTHING
    from airflow_kafka_hdfs.lineage.describing import Describer

    with told():
        hook = LineageHook(warehouse_conn_id=args.warehouse_conn_id)
        warehouse = hook.warehouse()
        try:
            with warehouse.look() as reader:
                yield Describer(reader, EVERYTHING, datetime.now(UTC), hook.settings.instance), hook
        finally:
            warehouse.close()


def dataset_named(describer: Describer, hook: LineageHook, text: str) -> str:
    """The dataset that a text names: an id, a URI, or words that one name alone holds."""
    from airflow_kafka_hdfs.exceptions import LineageError
    from airflow_kafka_hdfs.ports.lineage_reading import Finding
    from airflow_kafka_hdfs.ports.lineage_rows import DatasetAliasRow, DatasetRow

    reader = describer.reader
    if reader.rows(DatasetRow, ("dataset_id",), [(text,)]):
        return text
    if "://" in text:
        try:
            dataset = hook.settings.naming.resolve(text).dataset
        except LineageError as error:
            leave(str(error))
        if reader.rows(DatasetRow, ("dataset_id",), [(dataset.key,)]):
            return dataset.key
        for alias in reader.rows(DatasetAliasRow, ("ns", "name"), [(dataset.namespace, dataset.name)]):
            return alias.dataset_id
        leave(f"dataset {dataset} is not in the warehouse; `airflow kafka-hdfs lineage load` loads what is new")
    found = reader.find(DatasetRow, Finding(words=tuple(text.split())), limit=21)
    exact = [row for row in found if text in (row.name, row.table)]
    chosen = exact or found
    if len(chosen) == 1:
        return chosen[0].dataset_id
    return _no_such_dataset(text, chosen)


def _no_such_dataset(text: str, chosen: Sequence[DatasetRow]) -> NoReturn:
    names = "\n".join(f"  {plain(row.ns)} {plain(row.name)}" for row in chosen[:20])
    leave(f"dataset {text!r}: {'several have this in their names' if chosen else 'none has this in its name'}\n{names}")


def show(args: argparse.Namespace) -> None:
    """One dataset: where from, where to, who."""
    from airflow_kafka_hdfs.lineage.catalog import dataset_page
    from airflow_kafka_hdfs.lineage.drawing import dataset_name
    from airflow_kafka_hdfs.lineage.views import to_json

    with looking(args) as (describer, hook):
        page = dataset_page(describer, dataset_named(describer, hook, args.dataset))
    if page is None:
        leave(f"dataset {args.dataset!r} is not in the warehouse")
    if args.output == "json":
        say_json(to_json(page))
        return
    view = page.dataset
    say(dataset_name(view))
    for name, value in (
        ("id", view.id),
        ("flags", ", ".join(view.flags) or "none"),
        ("owners", ", ".join(view.owners) or "unknown"),
        ("responsible", ", ".join(f"{item.party} ({item.role})" for item in page.responsibilities) or "nobody named"),
        ("schema", f"{view.schema_version} (id {view.schema_id})" if view.schema_version else "unknown"),
        ("last written", view.last_written.isoformat() if view.last_written else "never seen"),
        ("written by", ", ".join(job.dag_id for job in page.writers) or "no job"),
        ("read by", ", ".join(job.dag_id for job in page.readers) or "no job"),
    ):
        say(f"  {name:<13} {value}")
    for title, neighbours, total in (
        ("comes from", page.upstream, page.upstream_total),
        ("goes to", page.downstream, page.downstream_total),
    ):
        say(f"{title} ({total}):")
        for item in neighbours:
            say(f"  {dataset_name(item.dataset)}   by {', '.join(job.dag_id for job in item.jobs)}")


def impact(args: argparse.Namespace) -> None:
    """What a change of a dataset reaches, nearest first."""
    from airflow_kafka_hdfs.lineage.drawing import dataset_name
    from airflow_kafka_hdfs.lineage.traversal import all_impact
    from airflow_kafka_hdfs.lineage.views import to_json
    from airflow_kafka_hdfs.ports.lineage_reading import Direction

    with looking(args) as (describer, hook):
        root = dataset_named(describer, hook, args.dataset)
        direction = Direction.UP if args.up else Direction.DOWN
        items = list(all_impact(describer, root, direction, moment(args.as_of, "--as-of")))
    if args.output == "json":
        say_json([to_json(item) for item in items])
        return
    for item in items:
        owners = ", ".join(item.dataset.owners) or "owner unknown"
        jobs = ", ".join(job.dag_id for job in item.jobs)
        say(f"{item.distance:>3}  {dataset_name(item.dataset)}   {owners}   by {jobs}")
    say(f"{len(items)} datasets")


def export(args: argparse.Namespace) -> None:
    """The surroundings of a dataset for other tools."""
    from airflow_kafka_hdfs.lineage.drawing import graphml, mermaid
    from airflow_kafka_hdfs.lineage.traversal import GRAPH_MAX, graph
    from airflow_kafka_hdfs.lineage.views import to_json

    with looking(args) as (describer, hook):
        root, at = dataset_named(describer, hook, args.dataset), moment(args.as_of, "--as-of")
        found = graph(describer, root, up=args.up_hops, down=args.down_hops, limit=GRAPH_MAX, as_of=at)
    if found.truncated:
        warn(f"more than {GRAPH_MAX} datasets: the nearest are shown")
    if args.format == "json":
        say_json(to_json(found))
    else:
        say_document(graphml(found) if args.format == "graphml" else mermaid(found))
