"""Whether the time that a skip program reads is the one that decoding would give, and what else tells the two apart.

A program takes the unit of each number from its own type; who decodes has one unit for the field. Where the two may
differ, or where decoding finds a time that no program looks for (in a map), the topic is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_kafka_hdfs.ingest.datum.program import number_unit
from airflow_kafka_hdfs.ingest.datum.schema import Items, Node, Primitive, Record, Union, constant_size

_NUMBERS = ("int", "long")


def time_doubt(node: Node, path: tuple[str, ...], unit: str, given: str) -> str:
    """Why times could differ, empty if they can't.

    Args:
        node: the writer schema.
        path: names of fields down to the time.
        unit: of numbers and texts for who decodes.
        given: the unit that the program was compiled with.
    """
    for leaf, is_end in _leaves(node, path, set()):
        if isinstance(leaf, Items) and leaf.keyed and not is_end:
            return "it may lie in a map"
        if not is_end or not isinstance(leaf, Primitive):
            continue
        if leaf.name in _NUMBERS and unit != "iso" and number_unit(leaf, given) != unit:
            return f"a {leaf.logical or leaf.name} is read in {unit!r} when decoded"
        if leaf.name == "string" and unit != given:
            return f"texts are read in {unit!r} when decoded"
    return ""


def _leaves(node: Node, path: tuple[str, ...], seen: set[tuple[int, int]]) -> Iterator[tuple[Node, bool]]:
    """Types at which the way ends, and whether it is the whole way; none is looked at twice for one rest of it."""
    place = (id(node), len(path))
    if place in seen:
        return
    seen.add(place)
    if isinstance(node, Union):
        for branch in node.branches:
            yield from _leaves(branch, path, seen)
    elif path and isinstance(node, Record):
        for name, inner, _ in node.fields:
            if name == path[0]:
                yield from _leaves(inner, path[1:], seen)
    else:
        yield node, not path


def holds_itself(node: Node) -> bool:
    """Whether a record of the schema can hold a record of its own type, at any depth."""
    return _holds_itself(node, frozenset(), set())


def _holds_itself(node: Node, inside: frozenset[int], cleared: set[int]) -> bool:
    """The same below the records `inside`; each record is looked at once, in however many places it stands."""
    match node:
        case Record():
            if id(node) in inside:
                return True
            if id(node) in cleared:
                return False
            found = any(_holds_itself(field.node, inside | {id(node)}, cleared) for field in node.fields)
            cleared.add(id(node))
            return found
        case Union(branches):
            return any(_holds_itself(branch, inside, cleared) for branch in branches)
        case Items():
            return _holds_itself(node.item, inside, cleared)
        case _:
            return False


def has_empty_items(node: Node) -> bool:
    """Whether the schema has an array whose items have no bytes: a few bytes may claim any number of them."""
    return _has_empty_items(node, set())


def _has_empty_items(node: Node, seen: set[int]) -> bool:
    match node:
        case Record():
            if id(node) in seen:
                return False
            seen.add(id(node))
            return any(_has_empty_items(field.node, seen) for field in node.fields)
        case Union(branches):
            return any(_has_empty_items(branch, seen) for branch in branches)
        case Items():
            return (not node.keyed and constant_size(node.item) == 0) or _has_empty_items(node.item, seen)
        case _:
            return False
