"""`airflow kafka-hdfs lineage repair`: the plan of a repair, and its steps, each shown first and done after a question.

The command has the rights of Airflow's command line. Who did what stands in Airflow's audit log, under `cli:<user>` or,
for backfills, as Airflow's own command writes it.
"""

from __future__ import annotations

import argparse
import getpass
import json
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.cli.asking import Change, change
from airflow_kafka_hdfs.cli.lineage import told
from airflow_kafka_hdfs.cli.lineage_reading import dataset_named, looking
from airflow_kafka_hdfs.cli.screen import leave, say
from airflow_kafka_hdfs.lineage.moments import moment

if TYPE_CHECKING:
    from airflow_kafka_hdfs.adapters.warehouse import SqlWarehouse
    from airflow_kafka_hdfs.lineage.repair import RepairPlan, Step


@dataclass(frozen=True, slots=True)
class _Action:
    """A part of a repair.

    Args:
        will: what it will do, one line each.
        do: does it, and gives what was done, one line each.
    """

    will: tuple[str, ...]
    do: Callable[[], list[str]]


def repair(args: argparse.Namespace) -> None:
    """The plan of a repair; with `--freeze`, `--rerun` or `--resume` a part of it, after a question."""
    with told():
        _repair(args)


def _repair(args: argparse.Namespace) -> None:
    from airflow_kafka_hdfs.lineage import repair as repairing
    from airflow_kafka_hdfs.lineage.views import to_json

    with looking(args) as (describer, hook):
        root = dataset_named(describer, hook, args.dataset)
        start, end = moment(getattr(args, "from"), "--from", begins=True), moment(args.to, "--to")
        if start >= end:
            leave(f"--from {start.isoformat()} must lie before --to {end.isoformat()}")
        plan = repairing.plan(describer, root, start, end, open_end=not args.to)
    if args.output != "json":
        _print_plan(plan)
    warehouse = hook.warehouse()
    try:
        actions = list(_actions(args, warehouse, plan))
        will = [line for action in actions for line in action.will]
        if args.dry_run or not actions:
            hint = "--freeze pauses the DAGs above, --rerun DAG_ID runs a step, --resume resumes what --freeze paused"
            lines = [*will, f"Nothing was done{' (--dry-run)' if args.dry_run else ''}. {hint}."]
            Change(args, tuple(will)).tell(lines, changed=False, plan=to_json(plan))
            return
        made = change(args, will)
        # What Airflow's own commands print would stand amid a script's JSON.
        with redirect_stdout(sys.stderr if made.as_json else sys.stdout):
            did, problem = _carry_out(actions)
        made.tell(did, changed=bool(did), plan=to_json(plan))
        if problem:
            leave(problem)
    finally:
        warehouse.close()


def _carry_out(actions: Iterable[_Action]) -> tuple[list[str], str]:
    """What was done, and why the rest was not, empty if all was."""
    did: list[str] = []
    for action in actions:
        try:
            did += action.do()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever Airflow refuses, what was done before has to be told
            return did, f"not done: {action.will[0]}: {type(error).__name__}: {error}"
    return did, ""


def _print_plan(plan: RepairPlan) -> None:
    say(f"repair {plan.id}: {plan.datasets} datasets downstream, {len(plan.freeze)} DAGs to pause")
    for suspect in plan.suspects:
        changes = "; ".join(f"{item.name}: {item.before or '-'} -> {item.after or '-'}" for item in suspect.changes)
        failed = f"; failed runs: {', '.join(suspect.failed)}" if suspect.failed else ""
        say(f"  suspect {suspect.job.dag_id} ({suspect.distance} hops up): {changes or 'no recent change'}{failed}")
    say(f"  pause: {' '.join(job.dag_id for job in plan.freeze) or 'nothing'}")
    for step in plan.steps:
        circle = "   (feeds itself through others: look at the order yourself)" if step.circle else ""
        say(f"  {step.order + 1}. {step.job.dag_id}{circle}")
        for command in commands_of(step):
            say(f"       {command}")
    if plan.truncated:
        say("  the list is cut: choose a shorter time")


def commands_of(step: Step) -> Iterator[str]:
    """What to type to run a job again."""
    words = _backfill(step)
    if words:
        yield shlex.join(["airflow", *words])
    else:
        yield f"clear in Airflow's pages or by REST: {', '.join(step.run_ids)}"


def _backfill(step: Step) -> list[str]:
    """The words of Airflow's own command; none where runs have to be cleared."""
    if step.first is None or step.last is None:
        return []
    dates = ["--from-date", step.first.isoformat(), "--to-date", step.last.isoformat()]
    return ["backfill", "create", "--dag-id", step.job.dag_id, *dates, "--reprocess-behavior", "completed"]


def _actions(args: argparse.Namespace, warehouse: SqlWarehouse, plan: RepairPlan) -> Iterator[_Action]:
    by = f"cli:{getpass.getuser()}"
    frozen = list(_frozen(warehouse, plan))
    if args.freeze:
        own = {job.dag_id: job.id for job in plan.freeze if job.link}
        running = {dag_id: job_id for dag_id, job_id in own.items() if _paused(dag_id) is False}
        will = f"Pause {len(running)} DAGs: {' '.join(running) or 'none is running'}"
        yield _Action((will,), partial(_freeze, warehouse, plan, running, by))
        frozen += [dag_id for dag_id in running if dag_id not in frozen]
    for dag_id in args.rerun or ():
        step = _step(plan, dag_id)
        resumed = dag_id in frozen
        will = f"Run {dag_id} again{' and resume it' if resumed else ''}"
        yield _Action((will, *(f"  {line}" for line in commands_of(step))), partial(_rerun, warehouse, plan, step, by))
        if resumed:
            frozen.remove(dag_id)
    if args.resume:
        will = f"Resume {len(frozen)} DAGs: {' '.join(frozen) or 'this repair has paused none'}"
        yield _Action((will,), partial(_resume, warehouse, plan, tuple(frozen), by))


def _freeze(warehouse: SqlWarehouse, plan: RepairPlan, running: Mapping[str, str], by: str) -> list[str]:
    from airflow_kafka_hdfs.lineage import repair as repairing

    with warehouse.transaction() as tx:
        repairing.note_frozen(tx, plan.id, running, by=by, now=datetime.now(UTC))
    return _set_paused(running, paused=True, by=by)


def _frozen(warehouse: SqlWarehouse, plan: RepairPlan) -> tuple[str, ...]:
    from airflow_kafka_hdfs.lineage import repair as repairing
    from airflow_kafka_hdfs.ports.lineage_rows import RepairFreezeRow

    with warehouse.look() as reader:
        return repairing.frozen(reader.rows(RepairFreezeRow, ("repair_id",), [(plan.id,)]))


def _resume(warehouse: SqlWarehouse, plan: RepairPlan, dag_ids: Collection[str], by: str) -> list[str]:
    from airflow_kafka_hdfs.lineage import repair as repairing

    lines = _set_paused(dag_ids, paused=False, by=by)
    with warehouse.transaction() as tx:
        repairing.note_resumed(tx, plan.id, dag_ids, by=by, now=datetime.now(UTC))
    return lines


def _step(plan: RepairPlan, dag_id: str) -> Step:
    step = next((one for one in plan.steps if one.job.dag_id == dag_id and one.job.link), None)
    if step is None:
        known = " ".join(one.job.dag_id for one in plan.steps if one.job.link)
        leave(f"--rerun {dag_id}: not among the steps of this plan; they are: {known or 'none'}")
    return step


def _rerun(warehouse: SqlWarehouse, plan: RepairPlan, step: Step, by: str) -> list[str]:
    """Run one job of the plan again. Runs of a paused DAG would wait, so a frozen one is resumed after that."""
    dag_id = step.job.dag_id
    words = _backfill(step)
    if words:
        from airflow.cli.cli_parser import get_parser

        parsed = get_parser().parse_args(words)
        parsed.func(parsed)
        lines = [f"  {dag_id}: backfill created"]
    else:
        cleared = [run_id for run_id in step.run_ids if _clear(dag_id, run_id, by)]
        lines = [
            f"  {dag_id} {run_id}: {'cleared' if run_id in cleared else 'is not in this Airflow'}"
            for run_id in step.run_ids
        ]
        if not cleared:
            return lines
    if dag_id in _frozen(warehouse, plan):
        lines += _resume(warehouse, plan, [dag_id], by)
    elif _paused(dag_id):
        lines.append(f"  {dag_id}: is paused, so these runs wait until it is resumed")
    return lines


def _clear(dag_id: str, run_id: str, by: str) -> bool:
    """Clear all tasks of a run, as Airflow's pages do; False if there is no such run."""
    from airflow.models.dagrun import DagRun
    from airflow.models.log import Log
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        run = session.query(DagRun).filter_by(dag_id=dag_id, run_id=run_id).one_or_none()
        serialized = session.scalar(SerializedDagModel.latest_item_select_object(dag_id))
        if run is None or serialized is None:
            return False
        serialized.dag.clear(run_id=run_id, session=session)
        session.add(Log(event="lineage_repair_clear", owner=by, dag_id=dag_id, run_id=run_id))
        return True


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

    lines = []
    for dag_id in dag_ids:
        with create_session() as session:
            found = session.get(DagModel, dag_id)
            if found is None:
                lines.append(f"  {dag_id}: is not in this Airflow any more")
                continue
            found.is_paused = paused
            event = "lineage_repair_freeze" if paused else "lineage_repair_resume"
            session.add(Log(event=event, owner=by, dag_id=dag_id, extra=json.dumps({"is_paused": paused})))
            lines.append(f"  {dag_id}: {'paused' if paused else 'resumed'}")
    return lines
