"""Places for the nodes of a lineage graph: columns from source to target, few crossings, short lines.

Layered drawing in the manner of Sugiyama, Tagawa and Toda (1981): break circles, give each node a column, order the
columns by the mean place of neighbours, then slide nodes towards their neighbours without changing the order. Linear
in nodes and lines for each sweep, so a graph of 1,000 nodes takes some tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Link = tuple[int, int]
_ORDER_SWEEPS = 6
_SLIDE_SWEEPS = 6
_MAX_BENDS = 3_000
"""Above this number of bends, lines that pass columns are drawn straight: places for bends would cost more than all."""
_BEND = 0.35
"""Room that a passing line takes in a column; a node takes 1."""
FOLD = 40
"""Nodes in one column; a layer with more is folded into several columns, so that the drawing keeps a shape that fits a
screen."""
_GAP = 0.5
"""Lines that pass a folded layer run this much above the boxes, where there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where to draw.

    Attributes:
        columns: column of each node, from 0 on, left to right.
        rows: place of each node in its column, in units of one node's height, 0 at the top.
        bends: for each link the (column, row) points between its ends; empty for neighbours.
    """

    columns: tuple[int, ...]
    rows: tuple[float, ...]
    bends: tuple[tuple[tuple[int, float], ...], ...]


def layered(count: int, links: Sequence[Link]) -> Layout:
    """Lay out a graph.

    Args:
        count: number of nodes; they are called 0 … count - 1.
        links: (source, target); links of a node with itself are ignored, circles are allowed.

    Raises:
        ValueError: a link names a node that does not exist.
    """
    for source, target in links:
        if not (0 <= source < count and 0 <= target < count):
            raise ValueError(f"link ({source}, {target}): nodes are 0 to {count - 1}")
    forward = _acyclic(count, links)
    layers = _layers(count, sorted(set(forward)))
    drawing = _Drawing(layers, forward)
    drawing.order()
    columns, rows = drawing.place()
    top = min(rows, default=0.0)
    bends = []
    for link, (source, target), chain in zip(links, forward, drawing.chains, strict=True):
        points = drawing.points(source, target, chain, columns, rows)
        moved = [(column, round(row - top, 3)) for column, row in points]
        bends.append(tuple(moved if link[0] == source else reversed(moved)))
    return Layout(
        columns=tuple(columns[:count]),
        rows=tuple(round(row - top, 3) for row in rows[:count]),
        bends=tuple(bends),
    )


def _acyclic(count: int, links: Sequence[Link]) -> list[Link]:
    """The links with those turned round that close a circle, in a walk without recursion."""
    targets: list[list[int]] = [[] for _ in range(count)]
    sources = [0] * count
    for source, target in links:
        if source != target:
            targets[source].append(target)
            sources[target] += 1
    state = [0] * count  # 0 unseen, 1 on the way, 2 done
    back: set[Link] = set()
    for start in sorted(range(count), key=lambda node: sources[node] > 0):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(targets[start]))]
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[node] = 2
                stack.pop()
            elif state[following] == 1:
                back.add((node, following))
            elif state[following] == 0:
                state[following] = 1
                stack.append((following, iter(targets[following])))
    return [(target, source) if (source, target) in back else (source, target) for source, target in links]


def _layers(count: int, links: Sequence[Link]) -> list[int]:
    """Longest way from a source to each node; then nodes without sources move next to their first target."""
    targets: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in links:
        if source != target:
            targets[source].append(target)
            waiting[target] += 1
    columns = [0] * count
    roots = [node for node in range(count) if not waiting[node]]
    ready = list(roots)
    while ready:
        node = ready.pop()
        for target in targets[node]:
            columns[target] = max(columns[target], columns[node] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for node in roots:
        if targets[node]:
            columns[node] = min(columns[target] for target in targets[node]) - 1
    return columns


class _Drawing:
    """Nodes and bends in layers; a bend is a node of its own with a number from the count of nodes on."""

    def __init__(self, layers: Sequence[int], links: Sequence[Link]) -> None:
        self._nodes = len(layers)
        self._layer = list(layers)
        self.chains: list[list[int]] = []
        self._before: list[list[int]] = [[] for _ in layers]
        self._after: list[list[int]] = [[] for _ in layers]
        sizes = [0] * (max(layers, default=-1) + 1)
        for layer in layers:
            sizes[layer] += 1
        self._folds = [max(1, -(-size // FOLD)) for size in sizes]
        self._first = [sum(self._folds[:layer]) for layer in range(len(sizes))]
        self._height = [1.0 / self._folds[layer] for layer in layers]
        bends = sum(max(0, layers[target] - layers[source] - 1) for source, target in links)
        for source, target in links:
            self.chains.append(self._chain(source, target) if bends <= _MAX_BENDS else [])
            way = [source, *self.chains[-1], target]
            if source != target:
                for first, second in zip(way, way[1:], strict=False):
                    self._after[first].append(second)
                    self._before[second].append(first)
        self._layers: list[list[int]] = [[] for _ in sizes]
        for item in self._in_depth():
            self._layers[self._layer[item]].append(item)

    def _chain(self, source: int, target: int) -> list[int]:
        found = []
        for layer in range(self._layer[source] + 1, self._layer[target]):
            found.append(len(self._layer))
            self._layer.append(layer)
            self._before.append([])
            self._after.append([])
            self._height.append(_BEND)
        return found

    def _in_depth(self) -> list[int]:
        """All items, connected ones one after the other: a first order that already keeps parts together."""
        seen = [False] * len(self._layer)
        found = []
        for start in range(len(self._layer)):
            stack = [start]
            while stack:
                item = stack.pop()
                if not seen[item]:
                    seen[item] = True
                    found.append(item)
                    stack += reversed(self._after[item] + self._before[item])
        return found

    def order(self) -> None:
        """Order the columns by the mean place of neighbours, forwards and backwards in turn."""
        place = [0.0] * len(self._layer)
        for layer in self._layers:
            _number(layer, place)
        for sweep in range(_ORDER_SWEEPS):
            ahead = sweep % 2 == 0
            neighbours = self._before if ahead else self._after
            for layer in self._layers if ahead else reversed(self._layers):
                means = {item: _mean(neighbours[item], place, place[item]) for item in layer}
                layer.sort(key=means.__getitem__)
                _number(layer, place)

    def place(self) -> tuple[list[int], list[float]]:
        """Column and row of each item; a bend in a folded layer stands in its first column."""
        rows = self._slide()
        columns = [self._first[layer] for layer in self._layer]
        for layer, folds in zip(self._layers, self._folds, strict=True):
            nodes = [item for item in layer if item < self._nodes]
            last = float("-inf")
            for start in range(0, len(nodes) if folds > 1 else 0, folds):
                band = nodes[start : start + folds]
                last = max(sum(rows[item] for item in band) / len(band), last + 1)
                for number, item in enumerate(band):
                    columns[item] += number
                    rows[item] = last
        return columns, rows

    def points(
        self, source: int, target: int, chain: Sequence[int], columns: Sequence[int], rows: Sequence[float]
    ) -> list[tuple[int, float]]:
        """Where a line bends, from source to target: one point in every column that it passes."""
        if source == target or not (chain or self._layer[target] - self._layer[source] == 1):
            return []
        start, end = self._layer[source], self._layer[target]
        found = [(column, rows[source] - _GAP) for column in range(columns[source] + 1, self._end(start))]
        for item in chain:
            layer = self._layer[item]
            found += [(column, rows[item]) for column in range(self._first[layer], self._end(layer))]
        return found + [(column, rows[target] - _GAP) for column in range(self._first[end], columns[target])]

    def _end(self, layer: int) -> int:
        return self._first[layer] + self._folds[layer]

    def _slide(self) -> list[float]:
        """Rows: each item as near to its neighbours as order and room allow."""
        rows = [0.0] * len(self._layer)
        for layer in self._layers:
            at = -sum(self._height[item] for item in layer) / 2
            for item in layer:
                rows[item] = at + self._height[item] / 2
                at += self._height[item]
        for sweep in range(_SLIDE_SWEEPS):
            last = sweep == _SLIDE_SWEEPS - 1
            for layer in self._layers if sweep % 2 == 0 else reversed(self._layers):
                wanted = []
                for item in layer:
                    near = self._before[item] if sweep % 2 == 0 else self._after[item]
                    if last:
                        near = self._before[item] + self._after[item]
                    wanted.append(_mean(near, rows, rows[item]))
                for item, row in zip(layer, self._apart(layer, wanted), strict=True):
                    rows[item] = row
        return rows

    def _apart(self, layer: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """The rows nearest to the wanted ones (least squares) that keep order and room: pool adjacent violators."""
        shifts, at = [], 0.0
        for number, item in enumerate(layer):
            if number:
                at += (self._height[layer[number - 1]] + self._height[item]) / 2
            shifts.append(at)
        blocks: list[tuple[float, int]] = []  # (sum, size) of blocks that move as one
        for want, shift in zip(wanted, shifts, strict=True):
            total, size = want - shift, 1
            while blocks and blocks[-1][0] * size >= total * blocks[-1][1]:
                before, more = blocks.pop()
                total, size = total + before, size + more
            blocks.append((total, size))
        bases = [total / size for total, size in blocks for _ in range(size)]
        return [base + shift for base, shift in zip(bases, shifts, strict=True)]


def _number(layer: Sequence[int], place: list[float]) -> None:
    """Places from 0 to 1, so that long and short columns compare."""
    for number, item in enumerate(layer):
        place[item] = (number + 0.5) / len(layer)


def _mean(items: Sequence[int], place: Sequence[float], otherwise: float) -> float:
    return sum(place[item] for item in items) / len(items) if items else otherwise
