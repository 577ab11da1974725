"""The rule that turns a run into pairs (source dataset, target dataset), in one topological pass.

A task receives what its parents received where the order edge carries data, adds what it reads itself, and hands
all of it to what it writes. Sets of sources are bits of one integer, so that a pass over thousands of tasks costs
milliseconds. The rule in words, with pictures: docs/lineage/rule.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import networkx as nx

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.pairs import SAMPLES, Derivation, Flow, Intermediates, Node, Options, Pair
from airflow_kafka_hdfs.lineage.workflow import Evidence
from airflow_kafka_hdfs.ports.lineage import PairState

_XCOM, _ORDER = Evidence.XCOM.value, Evidence.ORDER.value
_NOTHING: Mapping[DatasetId, bool] = MappingProxyType({})


def derive(
    nodes: Sequence[Node], options: Options | None = None, temporary: frozenset[DatasetId] = frozenset()
) -> Derivation:
    """Pairs of one run.

    Args:
        nodes: the run's task instances; `parents` and `xcom` index into this sequence.
        options: how to derive, the defaults if None.
        temporary: datasets that only pass data between tasks.

    Raises:
        LineageError: the tasks wait for each other in a circle.
    """
    graph = _Graph(nodes, options or Options(), temporary)
    whole = _Pass(graph, [True] * len(nodes))
    count = sum(bits.bit_count() for bits in whole.targets.values())
    hidden = graph.dropped | whole.refused
    inputs = tuple(sorted((graph.sources[bit] for bit in _bits(whole.read_somewhere)), key=_order))
    outputs = tuple(sorted((target for target in graph.writers if target not in hidden), key=_order))
    refused = tuple(sorted(whole.refused, key=_order))
    if count > graph.options.max_pairs:
        return Derivation(pairs=(), inputs=inputs, outputs=outputs, compressed=True, refused=refused, count=count)
    if all(node.state is PairState.WRITTEN or node.joint for node in nodes):
        live = whole
    else:
        live = _Pass(graph, [node.joint or node.state is PairState.WRITTEN for node in nodes])
    pairs = tuple(sorted(_pairs(graph, whole, live), key=lambda pair: (_order(pair.source), _order(pair.target))))
    return Derivation(pairs=pairs, inputs=inputs, outputs=outputs, refused=refused, count=count)


def endpoints(
    nodes: Sequence[Node], options: Options | None = None, temporary: frozenset[DatasetId] = frozenset()
) -> frozenset[tuple[DatasetId, DatasetId]]:
    """Only the (source, target) of every pair with all tasks taken as done; the fast part of `derive`.

    Raises:
        LineageError: the tasks wait for each other in a circle.
    """
    graph = _Graph(nodes, options or Options(), temporary)
    whole = _Pass(graph, [True] * len(nodes))
    return frozenset((graph.sources[bit], target) for target, bits in whole.targets.items() for bit in _bits(bits))


def _order(dataset: DatasetId) -> tuple[str, str]:
    """The order of datasets, as their own but compared without a call for each two."""
    return dataset.namespace, dataset.name


def _bits(value: int) -> Iterator[int]:
    while value:
        low = value & -value
        yield low.bit_length() - 1
        value ^= low


class _Graph:
    """What both passes share: order, ancestry of writers, which reads are internal, which datasets are dropped."""

    def __init__(self, nodes: Sequence[Node], options: Options, temporary: frozenset[DatasetId]) -> None:
        self.nodes = nodes
        self.options = options
        self.order = _topological(nodes)
        self.numbers: dict[DatasetId, int] = {}
        # Most tasks of a large DAG read and write nothing that is known.
        self.reads = [self._reads(node) if node.reads or node.explicit else () for node in nodes]
        self.writes = [self._writes(node) if node.writes or node.explicit else _NOTHING for node in nodes]
        self.writers = self._writers()
        # Only what is left out of the pairs leads back to its writers.
        looks_back = bool(temporary) or options.intermediates is Intermediates.ALL
        self.ancestors = self._ancestor_writers() if looks_back else []
        self.dropped = self._dropped(temporary)
        self.sources = list(self.numbers)
        self.links = self._links()
        self.here = [self._here(index) if reads else 0 for index, reads in enumerate(self.reads)]

    def _number(self, dataset: DatasetId) -> int:
        return self.numbers.setdefault(dataset, len(self.numbers))

    def _reads(self, node: Node) -> tuple[DatasetId, ...]:
        found = dict.fromkeys(use.dataset for use in node.reads)
        for item in node.explicit or ():
            found.update(dict.fromkeys(item.sources))
        for dataset in found:
            self._number(dataset)
        return tuple(found)

    @staticmethod
    def _writes(node: Node) -> Mapping[DatasetId, bool]:
        """Target -> whether it inherits."""
        found: dict[DatasetId, bool] = {}
        for use in node.writes:
            found[use.dataset] = found.get(use.dataset, True) and use.inherit
        for item in node.explicit or ():
            found.setdefault(item.target, True)
        return found

    def _writers(self) -> dict[DatasetId, int]:
        writers: dict[DatasetId, int] = {}
        for index, targets in enumerate(self.writes):
            for target in targets:
                writers[target] = writers.get(target, 0) | (1 << index)
        return writers

    def _ancestor_writers(self) -> list[int]:
        """For each node the set of its strict ancestors that write something, as bits."""
        found = [0] * len(self.nodes)
        passed = [0] * len(self.nodes)
        for index in self.order:
            above = 0
            for parent in self.nodes[index].parents:
                above |= passed[parent]
            found[index] = above
            passed[index] = above | (1 << index) if self.writes[index] else above
        return found

    def writers_above(self, index: int, dataset: DatasetId) -> int:
        """The strict ancestors of a node that write a dataset, as bits; 0 makes the read a boundary read."""
        return self.ancestors[index] & self.writers.get(dataset, 0)

    def _dropped(self, temporary: frozenset[DatasetId]) -> frozenset[DatasetId]:
        if self.options.intermediates is Intermediates.NONE:
            return frozenset()
        if self.options.intermediates is Intermediates.TEMPORARY:
            return temporary
        read: dict[DatasetId, bool] = {}
        for index, reads in enumerate(self.reads):
            for dataset in reads:
                read[dataset] = read.get(dataset, True) and bool(self.writers_above(index, dataset))
        return temporary | {dataset for dataset, internal in read.items() if internal}

    def _links(self) -> list[tuple[int, ...]]:
        """For each node the parents whose order edge carries data."""
        flow, nodes = self.options.flow, self.nodes
        if flow is Flow.DATASET:
            return [()] * len(nodes)
        if flow is Flow.WORKFLOW:
            return [node.parents for node in nodes]
        return [
            tuple([parent for parent in node.parents if parent in node.xcom]) if reads else node.parents
            for node, reads in zip(nodes, self.reads, strict=True)
        ]

    def passed_on(self, index: int, dataset: DatasetId) -> int:
        """The writers that a dropped dataset's read leads back to, as bits; 0 if the dataset stands for itself."""
        return self.writers_above(index, dataset) if dataset in self.dropped else 0

    def _here(self, index: int) -> int:
        """The sources that a node reads itself."""
        bits = 0
        for dataset in self.reads[index]:
            if not self.passed_on(index, dataset):
                bits |= 1 << self.numbers[dataset]
        return bits


def _topological(nodes: Sequence[Node]) -> list[int]:
    if all(not node.parents or max(node.parents) < index for index, node in enumerate(nodes)):
        return list(range(len(nodes)))  # listed in their order, as most DAG files do
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(range(len(nodes)))
    graph.add_edges_from((parent, index) for index, node in enumerate(nodes) for parent in node.parents)
    try:
        return list(nx.topological_sort(graph))
    except nx.NetworkXUnfeasible:
        circle = [nodes[start].task_id for start, _ in nx.find_cycle(graph)]
        raise LineageError(f"task graph: these tasks wait for each other in a circle: {circle[:20]}") from None


class _Pass:
    """One walk over the live nodes.

    Attributes:
        arrived: for each node the sources that reach it; none where it is not live.
        read_somewhere: every source that some node reads itself.
        claims: for each (node, target) the sources that flow into the target there; dropped targets too.
        targets: the same over all nodes, dropped and refused targets left out.
    """

    def __init__(self, graph: _Graph, live: list[bool]) -> None:
        self.graph = graph
        self.live = live
        self.arrived = arrived = [0] * len(live)
        self.read_somewhere = 0
        self.claims: dict[tuple[int, DatasetId], int] = {}
        self.targets: dict[DatasetId, int] = {}
        self.refused: set[DatasetId] = set()
        links, reads, writes = graph.links, graph.reads, graph.writes
        for index in graph.order:
            if live[index]:
                inherited = 0
                for parent in links[index]:
                    inherited |= arrived[parent]  # nothing arrives at what is not live
                if reads[index] or writes[index]:
                    self._visit(index, inherited)
                else:
                    arrived[index] = inherited

    def _visit(self, index: int, inherited: int) -> None:
        read = 0
        for dataset in self.graph.reads[index]:
            read |= self._origin(index, dataset)
        self.read_somewhere |= read
        self.arrived[index] = read | inherited
        if self.graph.writes[index]:
            self._write(index, read, inherited)

    def _origin(self, index: int, dataset: DatasetId) -> int:
        """A dataset that is kept stands for itself; a dropped one for what its live writers above put into it."""
        writers = self.graph.passed_on(index, dataset)
        if not writers:
            return 1 << self.graph.numbers[dataset]
        found = 0
        for writer in _bits(writers):
            found |= self.claims.get((writer, dataset), 0)
        return found

    def _write(self, index: int, read: int, inherited: int) -> None:
        explicit = self.graph.nodes[index].explicit
        named: dict[DatasetId, int] = {}
        for item in explicit or ():
            bits = named.get(item.target, 0)
            for source in item.sources:
                bits |= self._origin(index, source)
            named[item.target] = bits
        for target, inherits in self.graph.writes[index].items():
            if target in named:
                bits = named[target]
            elif explicit is not None:
                bits = inherited if inherits else 0
            else:
                bits = read | inherited if inherits else read
            self.claims[index, target] = bits
            if target.templated:
                self.refused.add(target)
            elif target not in self.graph.dropped and bits:
                self.targets[target] = self.targets.get(target, 0) | bits


@dataclass(slots=True)
class _Found:
    """What is known of one pair while it is put together: its writers, and the way to the first of them."""

    writers: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    way: list[int] = field(default_factory=list)
    evidence: set[str] = field(default_factory=set)


def _pairs(graph: _Graph, whole: _Pass, live: _Pass) -> Iterator[Pair]:
    found: dict[DatasetId, dict[int, _Found]] = {}
    for view in (live, whole) if live is not whole else (whole,):
        for (index, target), bits in view.claims.items():
            if target not in whole.targets:
                continue
            entries = found.setdefault(target, {})
            fresh = 0
            for bit in _bits(bits):
                entry = entries.get(bit)
                if entry is None:
                    entry = entries[bit] = _Found()
                    fresh |= 1 << bit
                (entry.live if view is live else entry.writers).append(index)
            if fresh:
                _trace(graph, view, index, target, fresh, entries)
    for target, entries in found.items():
        for bit, entry in entries.items():
            yield _pair(graph, graph.sources[bit], target, entry)


def _trace(graph: _Graph, view: _Pass, start: int, target: DatasetId, wanted: int, entries: dict[int, _Found]) -> None:
    """Find one shortest way back from a writer to a reader of each wanted source."""
    last = graph.nodes[start]
    written = {use.evidence.value for use in last.writes if use.dataset == target}
    written.update(item.evidence.value for item in last.explicit or () if item.target == target)
    came: dict[int, tuple[int, str]] = {start: (-1, "")}
    nodes, here, dropped, arrived, links_to = graph.nodes, graph.here, graph.dropped, view.arrived, graph.links
    level = [start]
    while level and wanted:
        following: list[int] = []
        for index in level:
            hits = wanted & here[index]
            if hits:
                wanted ^= hits
                way, links = _way(graph, came, index)
                for bit in _bits(hits):
                    entry = entries[bit]
                    entry.way = way
                    entry.evidence = _read_evidence(nodes[index], graph.sources[bit]) | links | written
            if not wanted:
                continue
            if dropped:
                for writer in _written_for(graph, index):
                    if writer not in came and arrived[writer] & wanted:
                        came[writer] = (index, Evidence.DATASET.value)
                        following.append(writer)
            for parent in links_to[index]:
                if parent not in came and arrived[parent] & wanted:
                    came[parent] = (index, _XCOM if parent in nodes[index].xcom else _ORDER)
                    following.append(parent)
        level = following


def _written_for(graph: _Graph, index: int) -> Iterator[int]:
    """The writers that the reads of dropped datasets lead back to, in an order that is not that of the reads."""
    writers = 0
    for dataset in graph.reads[index]:
        writers |= graph.passed_on(index, dataset)
    return _bits(writers)


def _way(graph: _Graph, came: dict[int, tuple[int, str]], reader: int) -> tuple[list[int], set[str]]:
    """The nodes from a reader to the writer, and the evidence of the links; a link into a joint proves nothing."""
    way: list[int] = []
    evidence: set[str] = set()
    nodes, index = graph.nodes, reader
    while index >= 0:
        way.append(index)
        index, link = came[index]
        if index >= 0 and not nodes[index].joint:
            evidence.add(link)
    return way, evidence


def _read_evidence(node: Node, source: DatasetId) -> set[str]:
    found = {use.evidence.value for use in node.reads if use.dataset == source}
    found.update(item.evidence.value for item in node.explicit or () if source in item.sources)
    return found


def _pair(graph: _Graph, source: DatasetId, target: DatasetId, entry: _Found) -> Pair:
    writers = entry.live or entry.writers
    observed = bool(entry.live)
    nodes = graph.nodes
    path: list[str] = []
    for node in [nodes[index] for index in entry.way]:
        if not node.joint and (not path or path[-1] != node.task_id):
            path.append(node.task_id)
    indexes = sorted([nodes[index].map_index for index in writers if nodes[index].map_index >= 0])
    return Pair(
        source=source,
        target=target,
        state=PairState.WRITTEN if observed else _blocked(graph, entry),
        observed=observed,
        evidence=tuple(sorted(entry.evidence)),
        path=tuple(path),
        instances=len(writers),
        samples=tuple(indexes[:SAMPLES]),
    )


_WEIGHT = (PairState.FAILED, PairState.UPSTREAM_FAILED, PairState.SKIPPED, PairState.UNKNOWN)


def _blocked(graph: _Graph, entry: _Found) -> PairState:
    """Why nothing flowed: what the writers ended as, or else the tasks on the way to them."""
    ended = {graph.nodes[index].state for index in entry.writers}
    if PairState.WRITTEN in ended:
        ended = {graph.nodes[index].state for index in entry.way if not graph.nodes[index].joint}
    return next((state for state in _WEIGHT if state in ended), PairState.UNKNOWN)
