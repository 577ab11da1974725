"""What the loader keeps in memory over batches: task graphs, what they promise, pairs of runs that went alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_hdfs.lineage.expansion import declared_pairs
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.pairs import Options
from airflow_kafka_hdfs.lineage.workflow import Workflow

_CACHED_GRAPHS = 512
_CACHED_PAIRS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """What a pair of a run has in common with the same pair of a run that went alike."""

    source_id: str
    target_id: str
    state: str
    evidence: str
    instances: int
    path: str
    declared: bool
    columns: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPairs:
    """All pairs of a run, and what they change in its row."""

    pairs: tuple[PairRow, ...]
    changes: Mapping[str, Any]


class GraphCache:
    """Task graphs by hash with the pairs that they promise, so that a steady DAG is decoded once."""

    def __init__(self, size: int = _CACHED_GRAPHS) -> None:
        self._size = size
        self._graphs: OrderedDict[str, Workflow] = OrderedDict()
        self._declared: OrderedDict[tuple[str, Options], frozenset[tuple[DatasetId, DatasetId]]] = OrderedDict()

        self._derived: OrderedDict[tuple[Any, ...], RunPairs] = OrderedDict()
        self._pairs = 0

    def derived(self, key: tuple[Any, ...], make: Callable[[], RunPairs]) -> RunPairs:
        """The pairs of a run with this structure, these facts and these reports: most runs of a job go alike."""
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = make()
            self._pairs += len(found.pairs)
            while len(self._derived) > self._size or (self._pairs > _CACHED_PAIRS and len(self._derived) > 1):
                _, gone = self._derived.popitem(last=False)
                self._pairs -= len(gone.pairs)
        return found

    def get(self, structure_hash: str) -> Workflow | None:
        """The graph, None if it is not cached."""
        return self._graphs.get(structure_hash)

    def add(self, structure_hash: str, graph: Workflow) -> None:
        """Keep a graph; the oldest ones go."""
        self._graphs[structure_hash] = graph
        while len(self._graphs) > self._size:
            self._graphs.popitem(last=False)

    def declared(
        self, structure_hash: str, graph: Workflow, options: Options
    ) -> frozenset[tuple[DatasetId, DatasetId]]:
        """The pairs that the graph promises."""
        key = (structure_hash, options)
        found = self._declared.get(key)
        if found is None:
            found = self._declared[key] = declared_pairs(graph, options)
            while len(self._declared) > self._size:
                self._declared.popitem(last=False)
        return found
