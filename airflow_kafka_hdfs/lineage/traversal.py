"""Walks over the whole warehouse: what is near a dataset, what a change of it reaches, how two are connected.

Walks go level by level with a set of what was seen, so a dataset is looked at once, circles end, and a limit stops
early. They pass through datasets that the caller may not see: those appear without names, and nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from airflow_kafka_hdfs.lineage.describing import Describer, window_at
from airflow_kafka_hdfs.lineage.views import (
    DatasetView,
    GraphView,
    ImpactItem,
    ImpactView,
    NodeView,
    PathView,
)
from airflow_kafka_hdfs.ports.lineage_reading import Direction, LineageReader, Show, Window
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow

GRAPH_LIMIT = 300
GRAPH_MAX = 2_000
PAGE_LIMIT = 100
PAGE_MAX = 2_000
_SORTED_BY_NAME = 5_000
"""Up to this many datasets a list of impact is in the order of names; a longer one in that of ids, which is quicker."""


def levels(reader: LineageReader, root: str, direction: Direction, window: Window) -> Iterator[list[str]]:
    """Datasets at distance 1, 2, … from a dataset, each in the order of ids; ends when nothing new is found."""
    seen = {root}
    frontier = [root]
    while frontier:
        fresh = reader.step(frontier, direction, window) - seen
        seen |= fresh
        frontier = sorted(fresh)
        if frontier:
            yield frontier


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """All datasets that can be reached, by distance from 1 on."""

    levels: tuple[tuple[str, ...], ...]

    @property
    def total(self) -> int:
        """How many datasets."""
        return sum(map(len, self.levels))


def reach(reader: LineageReader, root: str, direction: Direction, window: Window) -> Reach:
    """Everything upstream or downstream of a dataset."""
    return Reach(levels=tuple(tuple(level) for level in levels(reader, root, direction, window)))


def graph(
    describer: Describer,
    root: str,
    *,
    up: int = 1,
    down: int = 1,
    limit: int = GRAPH_LIMIT,
    as_of: datetime,
    show: Show = Show.ALL,
) -> GraphView:
    """The surroundings of a dataset.

    Args:
        describer: reader and access.
        root: id of the dataset.
        up, down: hops in each direction.
        limit: at most this many datasets; the nearest are kept.
        as_of: the moment whose edges count.
        show: which of them.
    """
    reader, window = describer.reader, window_at(as_of, show)
    distances = {root: 0}
    truncated = False
    walks = [
        (sign, islice(levels(reader, root, direction, window), hops))
        for sign, direction, hops in ((-1, Direction.UP, up), (1, Direction.DOWN, down))
    ]
    hop = 0
    while walks and not truncated:
        hop += 1
        going = []
        for sign, walk in walks:
            level = next(walk, None)
            if level is None:
                continue
            going.append((sign, walk))
            fresh = [dataset_id for dataset_id in level if dataset_id not in distances]
            room = limit - len(distances)
            truncated = truncated or len(fresh) > room
            distances.update((dataset_id, sign * hop) for dataset_id in fresh[: max(room, 0)])
        walks = going
    datasets = describer.datasets(distances)
    edges = reader.between(distances, distances, window)
    links, jobs = describer.links(edges, datasets)
    around = {(edge.source_id, edge.target_id) for edge in edges if edge.source_id != edge.target_id}
    hidden = {
        direction: reader.degrees(list(distances), direction, window) for direction in (Direction.UP, Direction.DOWN)
    }
    shown: dict[tuple[str, Direction], int] = {}
    for source, target in around:
        shown[source, Direction.DOWN] = shown.get((source, Direction.DOWN), 0) + 1
        shown[target, Direction.UP] = shown.get((target, Direction.UP), 0) + 1
    nodes = [
        NodeView(
            dataset=datasets[dataset_id],
            distance=distance,
            hidden_up=hidden[Direction.UP].get(dataset_id, 0) - shown.get((dataset_id, Direction.UP), 0),
            hidden_down=hidden[Direction.DOWN].get(dataset_id, 0) - shown.get((dataset_id, Direction.DOWN), 0),
        )
        for dataset_id, distance in distances.items()
        if dataset_id in datasets
    ]
    return GraphView(
        root=datasets[root].id,
        as_of=as_of,
        nodes=tuple(sorted(nodes, key=lambda node: (node.distance, node.dataset.name, node.dataset.id))),
        links=links,
        jobs=jobs,
        truncated=truncated,
    )


def impact(
    describer: Describer,
    root: str,
    *,
    direction: Direction = Direction.DOWN,
    as_of: datetime,
    limit: int = PAGE_LIMIT,
    offset: int = 0,
) -> ImpactView:
    """The list of what can be reached, one page of it.

    Args:
        describer: reader and access.
        root: id of the dataset.
        direction: down: what a change reaches; up: what it may come from.
        as_of: the moment whose edges count.
        limit, offset: the page.
    """
    window = window_at(as_of)
    found = reach(describer.reader, root, direction, window)
    everything = [dataset_id for level in found.levels for dataset_id in level]
    visible = describer.access.visible(describer.reader, everything)
    ordered = _ordered(describer.reader, found, visible)
    return ImpactView(
        root=describer.datasets([root])[root],
        direction=direction.value,
        as_of=as_of,
        items=tuple(impact_items(describer, ordered[offset : offset + limit], window)),
        total=found.total,
        restricted=len(everything) - len(visible),
        by_distance=tuple(map(len, found.levels)),
        limit=limit,
        offset=offset,
    )


def all_impact(describer: Describer, root: str, direction: Direction, as_of: datetime) -> Iterator[ImpactItem]:
    """Every item of the list, page by page, for exports."""
    window = window_at(as_of)
    found = reach(describer.reader, root, direction, window)
    visible = describer.access.visible(describer.reader, [item for level in found.levels for item in level])
    ordered = _ordered(describer.reader, found, visible)
    for start in range(0, len(ordered), PAGE_MAX):
        yield from impact_items(describer, ordered[start : start + PAGE_MAX], window)


def _ordered(reader: LineageReader, found: Reach, visible: frozenset[str]) -> list[tuple[str, int]]:
    """(dataset id, distance), nearest first; at one distance those without a name come last."""
    if found.total > _SORTED_BY_NAME:
        return [(item, hop) for hop, level in enumerate(found.levels, 1) for item in level]
    rows = reader.rows(DatasetRow, ("dataset_id",), [(dataset_id,) for dataset_id in sorted(visible)])
    names = {row.dataset_id: (row.name, row.ns) for row in rows}
    return [
        (item, hop)
        for hop, level in enumerate(found.levels, 1)
        for item in sorted(level, key=lambda item: (item not in names, names.get(item, ("", "")), item))
    ]


def impact_items(describer: Describer, page: list[tuple[str, int]], window: Window) -> Iterator[ImpactItem]:
    """A page of (dataset id, distance) with the jobs that wrote each dataset then."""
    ids = [dataset_id for dataset_id, _ in page]
    datasets = describer.datasets(ids)
    writers: dict[str, set[str]] = {}
    for dataset_id, job_id, _ in describer.reader.attached(ids, Direction.UP, window):
        writers.setdefault(dataset_id, set()).add(job_id)
    jobs = describer.jobs({job_id for found in writers.values() for job_id in found})
    for dataset_id, distance in page:
        view = datasets.get(dataset_id)
        if view is not None:
            named = (jobs[job_id] for job_id in sorted(writers.get(dataset_id, ())))
            yield ImpactItem(
                dataset=view,
                distance=distance,
                jobs=tuple(sorted(named, key=lambda job: (job.restricted, job.dag_id, job.id))),
            )


def path(describer: Describer, source: str, target: str, *, as_of: datetime) -> PathView:
    """A shortest way downstream from one dataset to another; without nodes if there is none.

    Args:
        describer: reader and access.
        source, target: ids of datasets.
        as_of: the moment whose edges count.
    """
    reader, window = describer.reader, window_at(as_of)
    passed: list[set[str]] = [{source}]
    for level in levels(reader, source, Direction.DOWN, window):
        passed.append(set(level))
        if target in passed[-1]:
            break
    if target not in passed[-1]:
        return PathView(nodes=(), links=(), jobs=())
    way = [target]
    for level_set in reversed(passed[:-1]):
        way.append(min(reader.step([way[-1]], Direction.UP, window) & level_set))
    way.reverse()
    datasets = describer.datasets(way)
    wanted = set(zip(way, way[1:], strict=False))
    edges = [edge for edge in reader.between(way, way, window) if (edge.source_id, edge.target_id) in wanted]
    links, jobs = describer.links(edges, datasets)
    nodes: tuple[DatasetView, ...] = tuple(datasets[dataset_id] for dataset_id in way if dataset_id in datasets)
    return PathView(nodes=nodes, links=links, jobs=jobs)
