"""The structure of a DAG as plain values, and what they mean.

`snapshot` only copies; `workflow_of` does the thinking. Both run on the emitter's thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import Evidence, ExplicitTarget, TaskSpec, Use, Workflow, without_circles

log = logging.getLogger(__name__)
_PULL = re.compile(r"xcom_pull\(\s*(?:task_ids\s*=\s*)?(?P<ids>\[[^\]]*\]|['\"][^'\"]+['\"])")
_QUOTED = re.compile(r"['\"]([^'\"]+)['\"]")
_DEPTH = 4

PAIRS_ATTRIBUTE = "lineage_pairs"
"""An operator that knows its pairs keeps a list of (source URI, target URI) under this name; an empty source says that
nothing flows into the target. Then they stand for the task instead of inlets × outlets: those that it has when it ends
for what really flowed, and, where `get_serialized_fields` names the attribute, those of the DAG file for what is
promised."""

RawAsset = tuple[str, str, str, Mapping[str, Any]]
"""Kind (`asset`, `alias`), URI, name, the `lineage` part of its extra."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTask:
    """One task as copied."""

    task_id: str
    upstream: tuple[str, ...]
    templates: tuple[str, ...]
    expanded: tuple[str, ...]
    single: bool
    inlets: tuple[RawAsset, ...]
    outlets: tuple[RawAsset, ...]
    mapped: bool
    group: str
    operator: str
    owner: str
    pairs: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDag:
    """One DAG as copied."""

    dag_id: str
    owners: tuple[str, ...]
    tags: tuple[str, ...]
    relative_fileloc: str
    description: str
    schedule: tuple[RawAsset, ...]
    tasks: tuple[RawTask, ...]


def snapshot(dag: Any) -> RawDag:
    """Copy a serialized DAG; no look-ups, no parsing.

    Args:
        dag: Airflow's `SerializedDAG`.
    """
    tasks = tuple(_raw_task(task) for task in dag.task_dict.values())
    condition = getattr(getattr(dag, "timetable", None), "asset_condition", None)
    owners = dict.fromkeys(task.owner for task in tasks if task.owner and task.owner != "airflow")
    return RawDag(
        dag_id=str(dag.dag_id),
        owners=tuple(owners),
        tags=tuple(sorted(str(tag) for tag in dag.tags or ())),
        relative_fileloc=str(getattr(dag, "relative_fileloc", None) or ""),
        description=str(dag.description or ""),
        schedule=tuple(_raw_asset(asset) for _, asset in condition.iter_assets()) if condition else (),
        tasks=tasks,
    )


def _raw_task(task: Any) -> RawTask:
    mapped = type(task).__name__.endswith("MappedOperator")
    expanded: list[str] = []
    single = False
    if mapped:
        arguments = getattr(task, "op_kwargs_expand_input", None) or getattr(task, "expand_input", None)
        value = getattr(arguments, "value", None)
        values: list[Any] = list(value.values()) if isinstance(value, Mapping) else [value]
        single = len(values) == 1
        for item in values:
            if hasattr(item, "iter_references"):
                expanded += [str(operator.task_id) for operator, _ in item.iter_references()]
        fields: Iterable[Any] = (task.partial_kwargs.get(name) for name in task.template_fields)
    else:
        fields = (getattr(task, name, None) for name in task.template_fields)
    group = getattr(task, "task_group", None)
    owner = task.partial_kwargs.get("owner", "") if mapped else task.owner
    return RawTask(
        task_id=str(task.task_id),
        upstream=tuple(sorted(task.upstream_task_ids)),
        templates=tuple(text for item in fields for text in _pulling(item, _DEPTH)),
        expanded=tuple(expanded),
        single=single,
        inlets=tuple(_raw_asset(asset) for asset in task.inlets or ()),
        outlets=tuple(_raw_asset(asset) for asset in task.outlets or ()),
        mapped=mapped,
        group=str(group.group_id or "") if group is not None else "",
        operator=str(getattr(task, "operator_name", "") or ""),
        owner=str(owner or ""),
        pairs=_raw_pairs(task),
    )


def _raw_pairs(task: Any) -> tuple[tuple[str, str], ...] | None:
    pairs = getattr(task, PAIRS_ATTRIBUTE, None)
    return None if pairs is None else tuple((str(source), str(target)) for source, target in pairs)


def _pulling(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if "xcom_pull" in value:
            yield value
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from _pulling(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from _pulling(item, depth - 1)


def _raw_asset(asset: Any) -> RawAsset:
    """An asset or alias; those of mapped tasks come as encoded dictionaries."""
    if isinstance(asset, Mapping):
        values = {getattr(key, "value", key): value for key, value in asset.items()}
        body, kind = values.get("__var", {}), values.get("__type", "")
        fields = body if isinstance(body, Mapping) else {}
        kind = str(getattr(kind, "value", kind))
    else:
        kind = type(asset).__name__
        fields = {name: getattr(asset, name, None) for name in ("uri", "name", "extra")}
    extra = fields.get("extra")
    lineage = extra.get("lineage") if isinstance(extra, Mapping) else None
    alias = "alias" in kind.lower()
    return (
        "alias" if alias else "asset",
        str(fields.get("uri") or ""),
        str(fields.get("name") or ""),
        dict(lineage) if isinstance(lineage, Mapping) else {},
    )


def workflow_of(raw: RawDag, settings: LineageSettings) -> Workflow:
    """The structure in the words of lineage; assets that can't be named are left out and logged."""
    names = Names(settings)
    mapped = {task.task_id for task in raw.tasks if task.mapped}
    known = {task.task_id for task in raw.tasks}
    return Workflow(
        tasks=without_circles(_spec(task, names, mapped, known) for task in raw.tasks),
        schedule=tuple(use.dataset for use in names.uses(raw.schedule)),
        temporary=frozenset(names.temporary),
    )


def _spec(task: RawTask, names: Names, mapped: set[str], known: set[str]) -> TaskSpec:
    pulled = {
        name for text in task.templates for match in _PULL.finditer(text) for name in _QUOTED.findall(match["ids"])
    }
    return TaskSpec(
        task_id=task.task_id,
        upstream=task.upstream,
        xcom=tuple(sorted((pulled | set(task.expanded)) & known)),
        elementwise=tuple(name for name in task.expanded if name in mapped) if task.single else (),
        reads=names.uses(task.inlets),
        writes=names.uses(task.outlets),
        alias_reads=tuple(name for kind, _, name, _ in task.inlets if kind == "alias"),
        alias_writes=tuple(name for kind, _, name, _ in task.outlets if kind == "alias"),
        explicit=names.pairs(task.pairs) if task.pairs is not None else None,
        mapped=task.mapped,
        group=task.group,
        operator=task.operator,
    )


class Names:
    """Turns assets into datasets.

    Attributes:
        temporary: datasets met that are temporary.
        unknown: how many assets could not be named.
    """

    def __init__(self, settings: LineageSettings) -> None:
        self._settings = settings
        self.temporary: set[DatasetId] = set()
        self.unknown = 0

    def dataset(self, uri: str, name: str = "", extra: Mapping[str, Any] | None = None) -> DatasetId | None:
        """The canonical name, None if there is none."""
        try:
            dataset = self._settings.naming.resolve(uri, name).dataset
        except LineageError as error:
            self.unknown += 1
            log.warning("lineage: %s", error)
            return None
        if (extra or {}).get("temporary") is True or self._settings.is_temporary(dataset.namespace, dataset.name):
            self.temporary.add(dataset)
        return dataset

    def uses(self, assets: Iterable[RawAsset], evidence: Evidence = Evidence.DECLARED) -> tuple[Use, ...]:
        """Uses of the assets among them; aliases are left out."""
        found = []
        for kind, uri, name, extra in assets:
            dataset = self.dataset(uri, name, extra) if kind == "asset" else None
            if dataset is not None:
                found.append(Use(dataset, evidence, extra.get("inherit") is not False))
        return tuple(found)

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> tuple[ExplicitTarget, ...]:
        """Explicit pairs from (source URI, target URI); an empty source means that nothing flows into the target."""
        targets: dict[DatasetId, list[DatasetId]] = {}
        for source_uri, target_uri in pairs:
            target = self.dataset(target_uri)
            if target is None:
                continue
            sources = targets.setdefault(target, [])
            source = self.dataset(source_uri) if source_uri else None
            if source is not None:
                sources.append(source)
        return tuple(ExplicitTarget(target, tuple(sources)) for target, sources in targets.items())
