"""What one DAG run looks like to lineage: tasks, order, what each reads and writes, and how each ended.

A `Workflow` is the structure that the DAG declares; `TaskIo` is what one task instance reported at run time;
`RunFacts` holds how the instances ended. `expansion` makes the graph of instances from the three.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.identity import DatasetId

MAX_NAMESPACE = 255
MAX_NAME = 2_000
MAX_KEY_TEXT = 500
"""Limits in bytes of what becomes part of keys in the warehouse, which databases limit."""


class Evidence(StrEnum):
    """Why a read, a write or a link between tasks is believed."""

    DECLARED = "declared"
    HOOK = "hook"
    OPERATOR = "operator"
    ALIAS = "alias"
    SCHEDULE = "schedule"
    API = "api"
    XCOM = "xcom"
    ORDER = "order"
    DATASET = "dataset"


@dataclass(frozen=True, slots=True)
class Use:
    """One dataset that a task reads or writes.

    Attributes:
        inherit: whether what flows into the task counts as a source of this output (asset extra `lineage.inherit`).
    """

    dataset: DatasetId
    evidence: Evidence = Evidence.DECLARED
    inherit: bool = True


@dataclass(frozen=True, slots=True)
class ExplicitTarget:
    """An output whose sources the task names itself; no sources means that nothing flows into it."""

    target: DatasetId
    sources: tuple[DatasetId, ...]
    evidence: Evidence = Evidence.OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task as the DAG declares it.

    Attributes:
        upstream: ids of the tasks that it waits for.
        xcom: ids of the tasks whose results it uses.
        elementwise: the mapped tasks of `upstream` whose instance i feeds instance i of this one.
        alias_reads, alias_writes: names of asset aliases among its inlets and outlets.
        explicit: outputs with named sources, None if it names none.
        mapped: whether it is expanded at run time.
        group: id of its task group; metadata only.
    """

    task_id: str
    upstream: tuple[str, ...] = ()
    xcom: tuple[str, ...] = ()
    elementwise: tuple[str, ...] = ()
    reads: tuple[Use, ...] = ()
    writes: tuple[Use, ...] = ()
    alias_reads: tuple[str, ...] = ()
    alias_writes: tuple[str, ...] = ()
    explicit: tuple[ExplicitTarget, ...] | None = None
    columns: tuple[ColumnEdge, ...] = ()
    mapped: bool = False
    group: str = ""
    operator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """The structure of one version of a DAG.

    Attributes:
        schedule: datasets whose updates trigger the DAG.
        temporary: datasets that exist only to pass data between tasks.
    """

    tasks: tuple[TaskSpec, ...]
    schedule: tuple[DatasetId, ...] = ()
    temporary: frozenset[DatasetId] = frozenset()

    @property
    def structure_hash(self) -> str:
        """32 hex digits; equal exactly if the structure is equal, whatever the order of tasks."""
        text = json.dumps(encode_workflow(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIo:
    """What one task instance reported.

    Attributes:
        map_index: -1 for a task that is not mapped.
        try_number: of the attempt that reported; the highest one counts.
        state: how that attempt ended, as Airflow names it.
        aliases: alias -> datasets that it stood for in this run.
        complete: False if the task died before it could report, so that more may have been read or written.
    """

    task_id: str
    map_index: int = -1
    try_number: int = 1
    state: str = "success"
    reads: tuple[Use, ...] = ()
    writes: tuple[Use, ...] = ()
    explicit: tuple[ExplicitTarget, ...] | None = None
    columns: tuple[ColumnEdge, ...] = ()
    aliases: Mapping[str, tuple[DatasetId, ...]] = field(default_factory=dict)
    temporary: frozenset[DatasetId] = frozenset()
    complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of one run beside its structure.

    Attributes:
        states: (task id, map index) -> (state as Airflow names it, attempts); empty if nothing is known.
        triggers: datasets whose updates started this run.
        aliases: alias -> datasets that the run itself wrote under it.
        inlet_aliases: alias that a task reads -> datasets of its events that started the run, else of all its events
            until the run's end.
    """

    states: Mapping[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    triggers: tuple[DatasetId, ...] = ()
    aliases: Mapping[str, tuple[DatasetId, ...]] = field(default_factory=dict)
    inlet_aliases: Mapping[str, tuple[DatasetId, ...]] = field(default_factory=dict)


class DatasetTable:
    """Numbers the datasets of one document so that each is written once."""

    def __init__(self) -> None:
        self._numbers: dict[DatasetId, int] = {}

    def number(self, dataset: DatasetId) -> int:
        """Its number, a new one at first sight."""
        return self._numbers.setdefault(dataset, len(self._numbers))

    def rows(self) -> list[list[str]]:
        """[namespace, name] in the order of the numbers."""
        return [[dataset.namespace, dataset.name] for dataset in self._numbers]


def decode_datasets(rows: Any) -> list[DatasetId]:
    """The datasets that a `DatasetTable` wrote. Raises TypeError or ValueError if they are not texts."""
    return [decode_dataset(namespace, name) for namespace, name in rows]


@lru_cache(maxsize=100_000, typed=True)
def decode_dataset(namespace: Any, name: Any) -> DatasetId:
    """One dataset; raises as `decode_datasets`."""
    if not isinstance(namespace, str) or not isinstance(name, str):
        raise TypeError(f"dataset: got {namespace!r}, {name!r}; expected two texts")
    if len(namespace.encode()) > MAX_NAMESPACE or len(name.encode()) > MAX_NAME:
        raise ValueError(f"dataset: namespace longer than {MAX_NAMESPACE} or name longer than {MAX_NAME} bytes")
    return DatasetId(namespace, name)


def key_text(value: Any) -> str:
    """A text that becomes part of a key. Raises TypeError or ValueError if it is none or too long."""
    if not isinstance(value, str):
        raise TypeError(f"got {value!r}, expected a text")
    if len(value.encode()) > MAX_KEY_TEXT:
        raise ValueError(f"got {value[:50]!r}…, longer than {MAX_KEY_TEXT} bytes")
    return value


def encode_workflow(workflow: Workflow) -> dict[str, Any]:
    """The structure as plain JSON values; tasks and their parts are sorted, so equal structures encode equally."""
    datasets = DatasetTable()
    tasks = [_encode_task(task, datasets) for task in sorted(workflow.tasks, key=lambda task: task.task_id)]
    body: dict[str, Any] = {"tasks": tasks}
    if workflow.schedule:
        body["schedule"] = [datasets.number(dataset) for dataset in sorted(workflow.schedule)]
    if workflow.temporary:
        body["temporary"] = [datasets.number(dataset) for dataset in sorted(workflow.temporary)]
    body["datasets"] = datasets.rows()
    return body


def decode_workflow(body: Mapping[str, Any]) -> Workflow:
    """The structure from its JSON values.

    Raises:
        LineageError: the document is not what `encode_workflow` writes.
    """
    try:
        datasets = decode_datasets(body["datasets"])
        return Workflow(
            tasks=tuple(_decode_task(task, datasets) for task in body["tasks"]),
            schedule=tuple(datasets[n] for n in body.get("schedule", ())),
            temporary=frozenset(datasets[n] for n in body.get("temporary", ())),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise LineageError(
            f"task graph: got a document that can't be read ({type(error).__name__}: {error})"
        ) from error


def circle_in(upstream: Mapping[str, Collection[str]]) -> list[str]:
    """Tasks that wait for each other, empty if none do. Such a graph would stop every later walk over it.

    Args:
        upstream: task -> the tasks that it waits for.
    """
    try:
        TopologicalSorter(upstream).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def without_circles(tasks: Iterable[TaskSpec]) -> tuple[TaskSpec, ...]:
    """Tasks whose results that come from an earlier run are left out.

    A task may pull what a later task, or it itself, left in the run before (`include_prior_dates`). Within one run
    that would be a circle; the order of tasks alone never is one.
    """
    found = {task.task_id: task for task in tasks}
    while circle := circle_in({task.task_id: (*task.upstream, *task.xcom) for task in found.values()}):
        before = dict(found)
        for source, name in zip(circle, circle[1:], strict=False):
            task = found[name]
            if source in task.xcom and source not in task.upstream:
                kept = tuple(other for other in task.xcom if other != source)
                elementwise = tuple(other for other in task.elementwise if other != source)
                found[name] = replace(task, xcom=kept, elementwise=elementwise)
        if found == before:
            break  # the order itself is a circle: whoever walks over it says so
    return tuple(found.values())


def encode_uses(uses: tuple[Use, ...], datasets: DatasetTable) -> list[Any]:
    """Uses as [number, evidence] or [number, evidence, 0] where nothing is inherited."""
    ordered = sorted(set(uses), key=lambda use: (use.dataset, use.evidence, use.inherit))
    return [[datasets.number(use.dataset), use.evidence.value, *([] if use.inherit else [0])] for use in ordered]


def decode_uses(rows: Any, datasets: list[DatasetId]) -> tuple[Use, ...]:
    """The uses that `encode_uses` wrote."""
    return tuple(Use(datasets[row[0]], Evidence(row[1]), len(row) < 3) for row in rows)


def encode_explicit(explicit: tuple[ExplicitTarget, ...], datasets: DatasetTable) -> list[Any]:
    """Explicit targets as [target, [sources], evidence]."""
    return [
        [datasets.number(item.target), [datasets.number(s) for s in sorted(set(item.sources))], item.evidence.value]
        for item in sorted(explicit, key=lambda item: (item.target, item.sources))
    ]


def decode_explicit(rows: Any, datasets: list[DatasetId]) -> tuple[ExplicitTarget, ...] | None:
    """The explicit targets that `encode_explicit` wrote; None for None."""
    if rows is None:
        return None
    return tuple(
        ExplicitTarget(datasets[target], tuple(datasets[s] for s in sources), Evidence(evidence))
        for target, sources, evidence in rows
    )


def encode_columns(columns: tuple[ColumnEdge, ...], datasets: DatasetTable) -> list[Any]:
    """Column edges as rows."""
    return [
        [
            datasets.number(edge.source),
            edge.source_field,
            datasets.number(edge.target),
            edge.target_field,
            edge.direct,
            edge.subtype,
            edge.masking,
        ]
        for edge in sorted(columns)
    ]


def decode_columns(rows: Any, datasets: list[DatasetId]) -> tuple[ColumnEdge, ...]:
    """The column edges that `encode_columns` wrote."""
    return tuple(
        ColumnEdge(
            datasets[source],
            key_text(source_field),
            datasets[target],
            key_text(target_field),
            bool(direct),
            str(subtype),
            bool(masking),
        )
        for source, source_field, target, target_field, direct, subtype, masking in rows
    )


def _encode_task(task: TaskSpec, datasets: DatasetTable) -> dict[str, Any]:
    body: dict[str, Any] = {"id": task.task_id}
    for key, names in (
        ("up", task.upstream),
        ("xcom", task.xcom),
        ("each", task.elementwise),
        ("in_alias", task.alias_reads),
        ("out_alias", task.alias_writes),
    ):
        if names:
            body[key] = sorted(set(names))
    if task.reads:
        body["in"] = encode_uses(task.reads, datasets)
    if task.writes:
        body["out"] = encode_uses(task.writes, datasets)
    if task.explicit is not None:
        body["pairs"] = encode_explicit(task.explicit, datasets)
    if task.columns:
        body["columns"] = encode_columns(task.columns, datasets)
    if task.mapped:
        body["mapped"] = True
    if task.group:
        body["group"] = task.group
    if task.operator:
        body["operator"] = task.operator
    return body


def _names(values: Any) -> tuple[str, ...]:
    if not all(type(value) is str for value in values):
        raise TypeError(f"got {values!r}, expected a list of names")
    return tuple(values)


def _decode_task(body: Mapping[str, Any], datasets: list[DatasetId]) -> TaskSpec:
    return TaskSpec(
        task_id=str(body["id"]),
        upstream=_names(body.get("up", ())),
        xcom=_names(body.get("xcom", ())),
        elementwise=_names(body.get("each", ())),
        reads=decode_uses(body.get("in", ()), datasets),
        writes=decode_uses(body.get("out", ()), datasets),
        alias_reads=_names(body.get("in_alias", ())),
        alias_writes=_names(body.get("out_alias", ())),
        explicit=decode_explicit(body.get("pairs"), datasets),
        columns=decode_columns(body.get("columns", ()), datasets),
        mapped=bool(body.get("mapped", False)),
        group=str(body.get("group", "")),
        operator=str(body.get("operator", "")),
    )
