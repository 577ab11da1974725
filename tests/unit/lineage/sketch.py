"""Draws workflows in one line: `e(A->) >> [b(), c()] >> l(->Z); r() >> l`.

A task is written once with what it reads and writes and named afterwards; datasets that start with `tmp` are
temporary. `>` inside the brackets after `!` names explicit pairs: `t(A,B->C,D ! A>C, B>D, >E)`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from airflow_kafka_hdfs.lineage.expansion import RunLineage, run_lineage
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.pairs import Flow, Intermediates, Options
from airflow_kafka_hdfs.lineage.workflow import ExplicitTarget, RunFacts, TaskIo, TaskSpec, Use, Workflow

WORKFLOW = Options(flow=Flow.WORKFLOW)
DATASET = Options(flow=Flow.DATASET)
ALL = Options(intermediates=Intermediates.ALL)
NONE = Options(intermediates=Intermediates.NONE)
YELP = Options.profile("yelp")

_TASK = re.compile(r"^(\w+)(?:\((.*)\))?$")


def ds(name: str) -> DatasetId:
    return DatasetId("test", name)


def uses(names: str) -> tuple[Use, ...]:
    return tuple(Use(ds(name.strip())) for name in names.split(",") if name.strip())


def explicit(text: str) -> tuple[ExplicitTarget, ...]:
    targets: dict[str, list[str]] = {}
    for pair in text.split(","):
        source, target = (side.strip() for side in pair.split(">"))
        targets.setdefault(target, []).extend([source] if source else [])
    return tuple(ExplicitTarget(ds(target), tuple(map(ds, sources))) for target, sources in targets.items())


def draw(text: str, schedule: str = "", **changes: dict[str, object]) -> Workflow:
    """The workflow of a sketch; `changes` are further fields of a task, by its id."""
    tasks: dict[str, TaskSpec] = {}
    for line in text.split(";"):
        before: list[str] = []
        for station in line.split(">>"):
            names = _bare_split(station.strip().removeprefix("[").removesuffix("]"))
            now = [_task(name, tasks) for name in names]
            for task_id in now:
                tasks[task_id] = replace(tasks[task_id], upstream=(*tasks[task_id].upstream, *before))
            before = now
    for task_id, fields in changes.items():
        tasks[task_id] = replace(tasks[task_id], **fields)
    names = {use.dataset for task in tasks.values() for use in (*task.reads, *task.writes)}
    return Workflow(
        tasks=tuple(tasks.values()),
        schedule=tuple(use.dataset for use in uses(schedule)),
        temporary=frozenset(name for name in names if name.name.startswith("tmp")),
    )


def _bare_split(text: str) -> list[str]:
    return [part.strip() for part in re.split(r",(?![^(]*\))", text)]


def _task(text: str, tasks: dict[str, TaskSpec]) -> str:
    match = _TASK.match(text)
    assert match, text
    task_id, body = match.groups()
    if task_id not in tasks:
        io, _, pairs = (body or "").partition("!")
        reads, _, writes = io.partition("->")
        tasks[task_id] = TaskSpec(
            task_id=task_id,
            reads=uses(reads),
            writes=uses(writes),
            explicit=explicit(pairs) if pairs else None,
        )
    return task_id


def facts(**states: str) -> RunFacts:
    """States by task id: `success`, or `success/2` for two attempts; `x__3` is instance 3 of x."""
    known = {}
    for name, text in states.items():
        task_id, _, index = name.partition("__")
        state, _, attempts = text.partition("/")
        known[task_id, int(index or -1)] = (state, int(attempts or 1))
    return RunFacts(states=known)


def declared(workflow: Workflow, options: Options | None = None, run: RunFacts | None = None, *reports: TaskIo) -> str:
    """All pairs as text, `A>Z B>Z`."""
    return _text(run_lineage(workflow, run, reports, options), observed_only=False)


def observed(workflow: Workflow, run: RunFacts, *reports: TaskIo, options: Options | None = None) -> str:
    """The pairs that data can have taken."""
    return _text(run_lineage(workflow, run, reports, options), observed_only=True)


def states(workflow: Workflow, run: RunFacts, *reports: TaskIo, options: Options | None = None) -> dict[str, str]:
    found = run_lineage(workflow, run, reports, options)
    pairs = (*found.derivation.pairs, *found.unresolved)
    return {f"{pair.source.name}>{pair.target.name}": pair.state.value for pair in pairs}


def _text(found: RunLineage, *, observed_only: bool) -> str:
    return " ".join(
        f"{pair.source.name}>{pair.target.name}"
        for pair in found.derivation.pairs
        if pair.observed or not observed_only
    )
