"""Column edges: which field feeds which, composed through datasets that lineage drops.

Vocabulary of OpenLineage's column lineage: a link is direct or indirect, has a subtype, and may mask values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from airflow_kafka_hdfs.lineage.identity import DatasetId

ANY_FIELD = "*"
"""Every field of the target (a filter or join touches the whole row)."""

_DIRECT_RANK = {"IDENTITY": 0, "TRANSFORMATION": 1, "AGGREGATION": 2}


@dataclass(frozen=True, slots=True, order=True)
class ColumnEdge:
    """One field feeds another.

    Attributes:
        direct: the value itself flows; False if it only decides (filter, join, sort, …).
        subtype: `IDENTITY`, `TRANSFORMATION`, `AGGREGATION`, or `FILTER`, `JOIN`, `GROUP_BY`, `SORT`, …
        masking: whether the value is hidden on the way.
    """

    source: DatasetId
    source_field: str
    target: DatasetId
    target_field: str
    direct: bool = True
    subtype: str = "IDENTITY"
    masking: bool = False


def compose(first: ColumnEdge, second: ColumnEdge) -> ColumnEdge:
    """The edge over both links, through the field between them.

    Direct only if both are; `IDENTITY` only if both are; an indirect link nearest to the target gives the subtype;
    masked if either masks. Associative, so chains may be folded in any order.
    """
    direct = first.direct and second.direct
    if direct:
        subtype = max(first.subtype, second.subtype, key=lambda name: _DIRECT_RANK.get(name, 1))
    else:
        subtype = first.subtype if second.direct else second.subtype
    return ColumnEdge(
        first.source,
        first.source_field,
        second.target,
        second.target_field,
        direct,
        subtype,
        first.masking or second.masking,
    )


def through(writers: Iterable[ColumnEdge], reads: Iterable[ColumnEdge]) -> frozenset[ColumnEdge]:
    """Every composition of an edge into a field with an edge out of the same field.

    Args:
        writers: edges into the dropped dataset; a target field `*` reaches every field of it.
        reads: edges out of it.
    """
    into: dict[tuple[DatasetId, str], list[ColumnEdge]] = {}
    for edge in writers:
        into.setdefault((edge.target, edge.target_field), []).append(edge)
    return frozenset(
        compose(first, second)
        for second in reads
        for field in {second.source_field, ANY_FIELD}
        for first in into.get((second.source, field), ())
    )
