"""`airflow kafka-hdfs lineage show | impact | export | repair`: what the warehouse knows, for whoever runs the command.

The commands have the rights of Airflow's command line: they see every job, and `repair` pauses DAGs in the metadata
database. Who did what stands in Airflow's audit log.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.cli.asking import Change, change
from airflow_kafka_hdfs.cli.lineage import told

if TYPE_CHECKING:
    from airflow_kafka_hdfs.hooks.lineage import LineageHook
    from airflow_kafka_hdfs.lineage.describing import Describer
    from airflow_kafka_hdfs.lineage.repair import RepairPlan


@contextmanager
def _looking(args: argparse.Namespace) -> Iterator[tuple[Describer, LineageHook]]:
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


def _dataset(describer: Describer, hook: LineageHook, text: str) -> str:
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
            sys.exit(str(error))
        if reader.rows(DatasetRow, ("dataset_id",), [(dataset.key,)]):
            return dataset.key
        for alias in reader.rows(DatasetAliasRow, ("ns", "name"), [(dataset.namespace, dataset.name)]):
            return alias.dataset_id
        sys.exit(f"dataset {dataset} is not in the warehouse; `airflow kafka-hdfs lineage load` loads what is new")
    found = reader.find(DatasetRow, Finding(words=tuple(text.split())), limit=21)
    exact = [row for row in found if text in (row.name, row.table)]
    chosen = exact or found
    if len(chosen) == 1:
        return chosen[0].dataset_id
    names = "\n".join(f"  {row.ns} {row.name}" for row in chosen[:20])
    sys.exit(
        f"dataset {text!r}: {'several have this in their names' if chosen else 'none has this in its name'}\n{names}"
    )


def show(args: argparse.Namespace) -> None:
    """One dataset: where from, where to, who."""
    from airflow_kafka_hdfs.lineage.catalog import dataset_page
    from airflow_kafka_hdfs.lineage.drawing import dataset_name
    from airflow_kafka_hdfs.lineage.views import to_json

    with _looking(args) as (describer, hook):
        page = dataset_page(describer, _dataset(describer, hook, args.dataset))
    if page is None:
        sys.exit(f"dataset {args.dataset!r} is not in the warehouse")
    if args.output == "json":
        print(json.dumps(to_json(page), indent=2))
        return
    view = page.dataset
    print(dataset_name(view))
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
        print(f"  {name:<13} {value}")
    for title, neighbours, total in (
        ("comes from", page.upstream, page.upstream_total),
        ("goes to", page.downstream, page.downstream_total),
    ):
        print(f"{title} ({total}):")
        for item in neighbours:
            print(f"  {dataset_name(item.dataset)}   by {', '.join(job.dag_id for job in item.jobs)}")


def impact(args: argparse.Namespace) -> None:
    """What a change of a dataset reaches, nearest first."""
    from airflow_kafka_hdfs.lineage.drawing import dataset_name
    from airflow_kafka_hdfs.lineage.traversal import all_impact
    from airflow_kafka_hdfs.lineage.views import to_json
    from airflow_kafka_hdfs.ports.lineage_reading import Direction

    with _looking(args) as (describer, hook):
        root = _dataset(describer, hook, args.dataset)
        direction = Direction.UP if args.up else Direction.DOWN
        items = list(all_impact(describer, root, direction, _moment(args.as_of)))
    if args.output == "json":
        print(json.dumps([to_json(item) for item in items], indent=2))
        return
    for item in items:
        owners = ", ".join(item.dataset.owners) or "owner unknown"
        jobs = ", ".join(job.dag_id for job in item.jobs)
        print(f"{item.distance:>3}  {dataset_name(item.dataset)}   {owners}   by {jobs}")
    print(f"{len(items)} datasets")


def export(args: argparse.Namespace) -> None:
    """The surroundings of a dataset for other tools."""
    from airflow_kafka_hdfs.lineage.drawing import graphml, mermaid
    from airflow_kafka_hdfs.lineage.traversal import GRAPH_MAX, graph
    from airflow_kafka_hdfs.lineage.views import to_json

    with _looking(args) as (describer, hook):
        root = _dataset(describer, hook, args.dataset)
        found = graph(describer, root, up=args.up_hops, down=args.down_hops, limit=GRAPH_MAX, as_of=_moment(args.as_of))
    if found.truncated:
        print(f"more than {GRAPH_MAX} datasets: the nearest are shown", file=sys.stderr)
    if args.format == "json":
        print(json.dumps(to_json(found), indent=2))
    else:
        print(graphml(found) if args.format == "graphml" else mermaid(found), end="")


def repair(args: argparse.Namespace) -> None:
    """The plan of a repair; with `--freeze` or `--resume` its first or last step, after a question."""
    from airflow_kafka_hdfs.lineage import repair as repairing
    from airflow_kafka_hdfs.lineage.views import to_json

    with _looking(args) as (describer, hook):
        root = _dataset(describer, hook, args.dataset)
        start, end = _moment(getattr(args, "from")), _moment(args.to)
        if start >= end:
            sys.exit(f"--from {start.isoformat()} must lie before --to {end.isoformat()}")
        plan = repairing.plan(describer, root, start, end)
    if args.output != "json":
        _print_plan(plan)
    if (args.freeze or args.resume) and not args.dry_run:
        _act(args, hook, plan)
    else:
        hint = "--freeze pauses the DAGs above, --resume resumes those that it paused"
        Change(args, ()).tell(
            [f"Nothing was done{' (--dry-run)' if args.dry_run else ''}. {hint}."], changed=False, plan=to_json(plan)
        )


def _print_plan(plan: RepairPlan) -> None:
    print(f"repair {plan.id}: {plan.datasets} datasets downstream, {len(plan.freeze)} DAGs to pause")
    for suspect in plan.suspects:
        changes = "; ".join(f"{item.name}: {item.before or '-'} -> {item.after or '-'}" for item in suspect.changes)
        failed = f"; failed runs: {', '.join(suspect.failed)}" if suspect.failed else ""
        print(f"  suspect {suspect.job.dag_id} ({suspect.distance} hops up): {changes or 'no recent change'}{failed}")
    print(f"  pause: {' '.join(job.dag_id for job in plan.freeze) or 'nothing'}")
    for step in plan.steps:
        circle = "   (feeds itself through others: look at the order yourself)" if step.circle else ""
        print(f"  {step.order + 1}. {step.job.dag_id}{circle}")
        for command in commands_of(step.job.dag_id, step.how, step.first, step.last, step.run_ids):
            print(f"       {command}")
    if plan.truncated:
        print("  the list is cut: choose a shorter time")


def commands_of(
    dag_id: str, how: str, first: datetime | None, last: datetime | None, run_ids: tuple[str, ...]
) -> Iterator[str]:
    """What to type to run a job again."""
    import shlex

    name = shlex.quote(dag_id)
    if how == "backfill" and first is not None and last is not None:
        dates = f"--from-date {first.isoformat()} --to-date {last.isoformat()}"
        yield f"airflow backfill create --dag-id {name} {dates} --reprocess-behavior completed"
    else:
        yield f"clear in Airflow's pages or by REST: {', '.join(run_ids)}"


def _act(args: argparse.Namespace, hook: LineageHook, plan: RepairPlan) -> None:
    from airflow_kafka_hdfs.lineage import repair as repairing
    from airflow_kafka_hdfs.lineage.views import to_json
    from airflow_kafka_hdfs.ports.lineage_rows import RepairFreezeRow

    by = f"cli:{getpass.getuser()}"
    warehouse = hook.warehouse()
    try:
        if args.freeze:
            own = {job.dag_id: job.id for job in plan.freeze if job.link}
            running = {dag_id: job_id for dag_id, job_id in own.items() if _paused(dag_id) is False}
            made = change(args, [f"Pause {len(running)} DAGs: {' '.join(running) or 'none is running'}"])
            with warehouse.transaction() as tx:
                repairing.note_frozen(tx, plan.id, running, by=by, now=datetime.now(UTC))
            told = _set_paused(running, paused=True, by=by)
        else:
            with warehouse.look() as reader:
                frozen = repairing.frozen(reader.rows(RepairFreezeRow, ("repair_id",), [(plan.id,)]))
            made = change(args, [f"Resume {len(frozen)} DAGs: {' '.join(frozen) or 'this repair has paused none'}"])
            told = _set_paused(frozen, paused=False, by=by)
            with warehouse.transaction() as tx:
                repairing.note_resumed(tx, plan.id, frozen, by=by, now=datetime.now(UTC))
    finally:
        warehouse.close()
    made.tell(told, changed=bool(told), plan=to_json(plan))


def _paused(dag_id: str) -> bool | None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        found = session.get(DagModel, dag_id)
        return None if found is None else bool(found.is_paused)


def _set_paused(dag_ids: Any, *, paused: bool, by: str) -> list[str]:
    from airflow.models.dag import DagModel
    from airflow.models.log import Log
    from airflow.utils.session import create_session

    told = []
    for dag_id in dag_ids:
        with create_session() as session:
            found = session.get(DagModel, dag_id)
            if found is None:
                told.append(f"  {dag_id}: is not in this Airflow any more")
                continue
            found.is_paused = paused
            event = "lineage_repair_freeze" if paused else "lineage_repair_resume"
            session.add(Log(event=event, owner=by, dag_id=dag_id, extra=json.dumps({"is_paused": paused})))
            told.append(f"  {dag_id}: {'paused' if paused else 'resumed'}")
    return told


def _moment(text: str | None) -> datetime:
    """As in REST: now if empty, the end of the day if it is a date."""
    if not text:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        sys.exit(f"got {text!r}; expected an ISO date or time")
    if len(text) <= len("2026-01-01"):
        found += timedelta(days=1, microseconds=-1)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
