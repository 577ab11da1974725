"""From the structure of a DAG and what happened in a run to the graph of its task instances, and to its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from airflow_kafka_hdfs.lineage.columns import ColumnEdge, through
from airflow_kafka_hdfs.lineage.graph import derive, endpoints
from airflow_kafka_hdfs.lineage.identity import ALIAS_NAMESPACE, DatasetId
from airflow_kafka_hdfs.lineage.pairs import Derivation, Node, Options, Pair
from airflow_kafka_hdfs.lineage.workflow import Evidence, RunFacts, TaskIo, TaskSpec, Use, Workflow
from airflow_kafka_hdfs.ports.lineage import PairState

STATES = {
    "success": PairState.WRITTEN,
    "failed": PairState.FAILED,
    "upstream_failed": PairState.UPSTREAM_FAILED,
    "skipped": PairState.SKIPPED,
}
"""Airflow's states of task instances -> what they mean for pairs; any other is unknown."""
REMOVED = "removed"
"""Airflow's state of instances of a mapped task that an earlier attempt had and this one has not."""
_NO_XCOM: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLineage:
    """The lineage of one run.

    Attributes:
        derivation: its pairs.
        declared: (source, target) of the pairs that the structure alone promises.
        unresolved: pairs whose target is an alias that stood for nothing in this run.
        columns: column edges of the pairs.
        attempts: most attempts that any task needed.
        incomplete: ids of tasks that died before they could report what they read and wrote.
    """

    derivation: Derivation
    declared: frozenset[tuple[DatasetId, DatasetId]]
    unresolved: tuple[Pair, ...] = ()
    columns: tuple[ColumnEdge, ...] = ()
    attempts: int = 1
    incomplete: tuple[str, ...] = ()


def run_lineage(
    workflow: Workflow,
    facts: RunFacts | None = None,
    reports: Iterable[TaskIo] = (),
    options: Options | None = None,
    declared: frozenset[tuple[DatasetId, DatasetId]] | None = None,
) -> RunLineage:
    """Everything that is known of one run, brought together.

    Args:
        workflow: the structure that the run had.
        facts: how the instances ended; None if nothing is known yet.
        reports: what the instances reported, in any order; of several attempts the highest counts.
        options: how pairs are derived.
        declared: `declared_pairs` of the structure, if it is at hand already.

    Raises:
        LineageError: the tasks wait for each other in a circle.
    """
    facts, options = facts or RunFacts(), options or Options()
    latest = latest_reports(reports)
    temporary = workflow.temporary.union(*(report.temporary for report in latest.values()))
    nodes = expand(workflow, facts, latest, options)
    derivation = derive(nodes, options, temporary)
    if declared is None and _went_as_declared(workflow, facts, latest):
        # Every pair is one that the structure promises; how the tasks ended is told by its state.
        declared = frozenset(_ends(derivation))
    aliased = [pair for pair in derivation.pairs if pair.target.namespace == ALIAS_NAMESPACE]
    unresolved = tuple(replace(pair, state=PairState.UNRESOLVED, observed=False) for pair in aliased)
    if aliased:
        kept = tuple(pair for pair in derivation.pairs if pair.target.namespace != ALIAS_NAMESPACE)
        derivation = replace(derivation, pairs=kept, count=len(kept), outputs=_without_aliases(derivation.outputs))
    if derivation.compressed:
        declared = frozenset()
    elif declared is None:
        declared = declared_pairs(workflow, options)
    derivation = _with_idle(derivation, workflow, declared, known=bool(facts.states))
    return RunLineage(
        derivation=derivation,
        declared=declared,
        unresolved=unresolved,
        columns=_columns(workflow, latest, derivation),
        attempts=max([attempts for _, attempts in facts.states.values()], default=1),
        incomplete=tuple(sorted({report.task_id for report in latest.values() if not report.complete})),
    )


def _went_as_declared(workflow: Workflow, facts: RunFacts, reports: Mapping[tuple[str, int], TaskIo]) -> bool:
    """Whether a run has the very graph that its structure alone gives: nothing mapped, reported or found out later."""
    if reports or facts.aliases or facts.inlet_aliases or facts.triggers not in ((), workflow.schedule):
        return False
    return _plain(facts)


def _ends(derivation: Derivation) -> Iterator[tuple[DatasetId, DatasetId]]:
    return ((pair.source, pair.target) for pair in derivation.pairs if pair.target.namespace != ALIAS_NAMESPACE)


def _with_idle(
    derivation: Derivation, workflow: Workflow, declared: frozenset[tuple[DatasetId, DatasetId]], *, known: bool
) -> Derivation:
    """Add the named pairs that no instance had work for in this run (a topic without new data)."""
    named = {item.target for task in workflow.tasks for item in task.explicit or ()}
    have = {(pair.source, pair.target) for pair in derivation.pairs}
    idle = [
        Pair(
            source=source,
            target=target,
            state=PairState.SKIPPED if known else PairState.UNKNOWN,
            observed=False,
            evidence=(Evidence.DECLARED.value,),
            path=(),
            instances=0,
        )
        for source, target in declared
        if target in named and (source, target) not in have
    ]
    if not idle:
        return derivation
    pairs = tuple(sorted((*derivation.pairs, *idle), key=lambda pair: (pair.source, pair.target)))
    return replace(derivation, pairs=pairs, count=len(pairs))


def declared_pairs(workflow: Workflow, options: Options | None = None) -> frozenset[tuple[DatasetId, DatasetId]]:
    """(source, target) of the pairs that the structure alone promises, without aliases.

    Raises:
        LineageError: the tasks wait for each other in a circle.
    """
    nodes = expand(workflow, RunFacts(), {}, options or Options())
    found = endpoints(nodes, options, workflow.temporary)
    return frozenset(pair for pair in found if pair[1].namespace != ALIAS_NAMESPACE)


def latest_reports(reports: Iterable[TaskIo]) -> dict[tuple[str, int], TaskIo]:
    """Of each instance the report of its highest attempt; the order of reports does not matter."""
    latest: dict[tuple[str, int], TaskIo] = {}
    for report in reports:
        key = (report.task_id, report.map_index)
        have = latest.get(key)
        if have is None or _rank(report) > _rank(have):
            latest[key] = report
    return latest


def _rank(report: TaskIo) -> tuple[int, bool, str]:
    return report.try_number, report.complete, repr(report)


def _without_aliases(datasets: Iterable[DatasetId]) -> tuple[DatasetId, ...]:
    return tuple(dataset for dataset in datasets if dataset.namespace != ALIAS_NAMESPACE)


def expand(
    workflow: Workflow, facts: RunFacts, reports: Mapping[tuple[str, int], TaskIo], options: Options
) -> list[Node]:
    """One node per task instance; where every instance of one mapped task feeds every one of another, they meet.

    Args:
        workflow: the structure.
        facts: instances and how they ended; a task without any gets one node.
        reports: of each instance its latest report.
        options: `schedule_inputs` is used here.

    Returns:
        Nodes whose `parents` and `xcom` index into the list.
    """
    if not reports and _plain(facts):
        nodes = _one_of_each(workflow, facts)
    else:
        nodes = _all_instances(workflow, facts, reports)
    if options.schedule_inputs and (facts.triggers or workflow.schedule):
        return [_scheduled(node, workflow, facts) for node in nodes]
    return nodes


def _plain(facts: RunFacts) -> bool:
    """Whether no task was mapped, as in most runs."""
    return all(index == -1 and state != REMOVED for (_, index), (state, _) in facts.states.items())


def _one_of_each(workflow: Workflow, facts: RunFacts) -> list[Node]:
    """The nodes of a run in which every task has one instance and none reported anything."""
    where = {task.task_id: number for number, task in enumerate(workflow.tasks)}
    states = {task_id: STATES.get(state, PairState.UNKNOWN) for (task_id, _), (state, _) in facts.states.items()}
    nodes = []
    for task in workflow.tasks:
        xcom = frozenset(where[name] for name in task.xcom if name in where) if task.xcom else _NO_XCOM
        upstream = dict.fromkeys((*task.upstream, *task.xcom)) if task.xcom else task.upstream
        parents = tuple([where[name] for name in upstream if name in where])
        state = states.get(task.task_id, PairState.UNKNOWN)
        if task.alias_reads or task.alias_writes:
            nodes.append(_told_node(task, -1, (parents, xcom), state, facts, None))
            continue
        reads, writes = task.reads, task.writes
        if len(reads) > 1 or len(writes) > 1:
            reads, writes = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        nodes.append(Node(task.task_id, -1, parents, xcom, reads, writes, task.explicit, state))
    return nodes


def _all_instances(workflow: Workflow, facts: RunFacts, reports: Mapping[tuple[str, int], TaskIo]) -> list[Node]:
    instances = _instances(workflow, facts, reports)
    where: dict[tuple[str, int], int] = {}
    for task in workflow.tasks:
        for map_index in instances[task.task_id]:
            where[task.task_id, map_index] = len(where)
    joints = {
        task.task_id: len(where) + number
        for number, task in enumerate(t for t in workflow.tasks if len(instances[t.task_id]) > 1)
    }
    nodes: list[Node] = []
    for task in workflow.tasks:
        for map_index in instances[task.task_id]:
            parents = _parents(task, map_index, instances, where, joints)
            report = reports.get((task.task_id, map_index))
            state = _state((task.task_id, map_index), facts, report)
            nodes.append(_told_node(task, map_index, parents, state, facts, report))
    for task_id in joints:
        members = tuple(where[task_id, map_index] for map_index in instances[task_id])
        nodes.append(Node(task_id=task_id, parents=members, xcom=frozenset(members), joint=True))
    return nodes


def _instances(
    workflow: Workflow, facts: RunFacts, reports: Mapping[tuple[str, int], TaskIo]
) -> dict[str, tuple[int, ...]]:
    """Map indexes of each task; a mapped task that was expanded loses its placeholder -1."""
    found: dict[str, set[int]] = {task.task_id: set() for task in workflow.tasks}
    for (task_id, map_index), (state, _) in facts.states.items():
        if task_id in found and state != REMOVED:
            found[task_id].add(map_index)
    for task_id, map_index in reports:
        removed = facts.states.get((task_id, map_index), ("", 0))[0] == REMOVED
        if task_id in found and not removed:
            found[task_id].add(map_index)
    for indexes in found.values():
        if len(indexes) > 1:
            indexes.discard(-1)
    return {task_id: tuple(sorted(indexes)) or (-1,) for task_id, indexes in found.items()}


def _parents(
    task: TaskSpec,
    map_index: int,
    instances: Mapping[str, tuple[int, ...]],
    where: Mapping[tuple[str, int], int],
    joints: Mapping[str, int],
) -> tuple[tuple[int, ...], frozenset[int]]:
    parents: list[int] = []
    xcom: set[int] = set()
    for upstream in dict.fromkeys((*task.upstream, *task.xcom)) if task.xcom else task.upstream:
        if upstream not in instances:
            continue
        if upstream in task.elementwise and (upstream, map_index) in where:
            index = where[upstream, map_index]
        elif upstream in joints:
            index = joints[upstream]
        else:
            index = where[upstream, instances[upstream][0]]
        parents.append(index)
        if upstream in task.xcom:
            xcom.add(index)
    return tuple(parents), frozenset(xcom)


def _told_node(
    task: TaskSpec,
    map_index: int,
    parents: tuple[tuple[int, ...], frozenset[int]],
    state: PairState,
    facts: RunFacts,
    report: TaskIo | None,
) -> Node:
    """The node of an instance with what it reported and with what stood for its aliases."""
    reads, writes, explicit = list(task.reads), list(task.writes), list(task.explicit or ())
    named = task.explicit is not None
    aliases: dict[str, tuple[DatasetId, ...]] = dict(facts.aliases)
    if report is not None:
        reads += report.reads
        writes += report.writes
        aliases.update(report.aliases)
        if report.explicit is not None:
            named, explicit = True, list(report.explicit)
    for alias in task.alias_reads:
        read = facts.inlet_aliases.get(alias) or aliases.get(alias, ())
        reads += [Use(dataset, Evidence.ALIAS) for dataset in read]
    for alias in task.alias_writes:
        resolved = aliases.get(alias, ()) or (DatasetId(ALIAS_NAMESPACE, alias),)
        writes += [Use(dataset, Evidence.ALIAS) for dataset in resolved]
    return Node(
        task_id=task.task_id,
        map_index=map_index,
        parents=parents[0],
        xcom=parents[1],
        reads=tuple(dict.fromkeys(reads)),
        writes=tuple(dict.fromkeys(writes)),
        explicit=tuple(explicit) if named else None,
        state=state,
    )


def _state(instance: tuple[str, int], facts: RunFacts, report: TaskIo | None) -> PairState:
    known = facts.states.get(instance)
    if known is not None:
        return STATES.get(known[0], PairState.UNKNOWN)
    return STATES.get(report.state, PairState.UNKNOWN) if report is not None else PairState.UNKNOWN


def _scheduled(node: Node, workflow: Workflow, facts: RunFacts) -> Node:
    datasets = facts.triggers or workflow.schedule
    if node.parents or node.reads or node.joint or not datasets:
        return node
    if any(item.sources for item in node.explicit or ()):
        return node
    return node._replace(reads=tuple(Use(dataset, Evidence.SCHEDULE) for dataset in datasets))


def _columns(
    workflow: Workflow, reports: Mapping[tuple[str, int], TaskIo], derivation: Derivation
) -> tuple[ColumnEdge, ...]:
    """Column edges of known pairs; through a dataset that is in no pair as a target they are composed."""
    edges = {edge for task in workflow.tasks for edge in task.columns}
    edges.update(edge for report in reports.values() for edge in report.columns)
    if not edges:
        return ()
    known = {(pair.source, pair.target) for pair in derivation.pairs}
    between = {edge.source for edge in edges} & {edge.target for edge in edges}
    hidden = between - {target for _, target in known}
    done = {edge for edge in edges if edge.source not in hidden}
    fresh = {edge for edge in done if edge.target in hidden}
    outgoing = [edge for edge in edges if edge.source in hidden]
    while fresh:
        fresh = set(through(fresh, outgoing)) - done
        done |= fresh
        fresh = {edge for edge in fresh if edge.target in hidden}
    return tuple(sorted(edge for edge in done if (edge.source, edge.target) in known))
