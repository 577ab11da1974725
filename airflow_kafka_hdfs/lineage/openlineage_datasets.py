"""What an OpenLineage event says of datasets: which are read and written, which feeds which, columns and schemas.

Of three ways to say what feeds an output the most explicit one counts: the `lineage` facet, then column lineage, then
every input of the event.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.columns import ANY_FIELD, ColumnEdge
from airflow_kafka_hdfs.lineage.events import DatasetDetail, MessageError
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.json_part import Part
from airflow_kafka_hdfs.lineage.message_json import MAX_COLUMNS
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import Evidence, ExplicitTarget, Use, decode_dataset, key_text

MAX_DATASETS = 10_000
_DATASET = "DATASET"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventIo:
    """The datasets of one event.

    Attributes:
        explicit: outputs whose sources the event names; other outputs come from every input.
        details: names, schemas and partitions of the datasets.
    """

    reads: tuple[Use, ...] = ()
    writes: tuple[Use, ...] = ()
    explicit: tuple[ExplicitTarget, ...] = ()
    columns: tuple[ColumnEdge, ...] = ()
    details: tuple[DatasetDetail, ...] = ()
    temporary: frozenset[DatasetId] = frozenset()


class DatasetReader:
    """Reads the datasets of events in the names of this deployment.

    Args:
        settings: naming, and what is temporary.
    """

    def __init__(self, settings: LineageSettings) -> None:
        self._settings = settings

    def io(self, event: Part) -> EventIo:
        """The datasets of a run or job event.

        Raises:
            MessageError: a part of it is not as OpenLineage defines it, or a dataset can't be named.
        """
        inputs, outputs = list(event.parts("inputs")), list(event.parts("outputs"))
        if len(inputs) + len(outputs) > MAX_DATASETS:
            raise MessageError(
                "size", f"got {len(inputs) + len(outputs)} datasets in one event, at most {MAX_DATASETS}"
            )
        details = [self.detail(part) for part in (*inputs, *outputs)]
        sources: dict[DatasetId, dict[DatasetId, None]] = {}
        columns: dict[ColumnEdge, None] = {}
        for part in outputs:
            target = self.dataset(part)
            facets = part.part("facets")
            for name, read in (("columnLineage", self._column_facet), ("lineage", self._lineage)):
                if facets.has(name):
                    self._note(target, read(target, facets.part(name)), sources, columns)
        entries = event.part("job").part("facets").part("lineage").parts("entries")
        for entry in entries:
            if entry.text("type") == _DATASET:
                target = self.dataset(entry)
                self._note(target, self._lineage(target, entry), sources, columns)
        writes = dict.fromkeys([*(self.dataset(part) for part in outputs), *sources])
        return EventIo(
            reads=tuple(Use(found, Evidence.OPERATOR) for found in dict.fromkeys(map(self.dataset, inputs))),
            writes=tuple(Use(found, Evidence.OPERATOR) for found in writes),
            explicit=tuple(ExplicitTarget(target, tuple(found)) for target, found in sources.items()),
            columns=tuple(columns)[:MAX_COLUMNS],
            details=tuple(dict.fromkeys(details)),
            temporary=frozenset(detail.dataset for detail in details if detail.temporary),
        )

    @staticmethod
    def _note(
        target: DatasetId,
        said: tuple[list[DatasetId], list[ColumnEdge]] | None,
        sources: dict[DatasetId, dict[DatasetId, None]],
        columns: dict[ColumnEdge, None],
    ) -> None:
        """Keep what a facet says; a later, more explicit one takes the place of the sources."""
        if said is not None:
            sources[target] = dict.fromkeys(said[0])
            columns.update(dict.fromkeys(said[1]))

    def dataset(self, part: Part) -> DatasetId:
        """The canonical name of `namespace` and `name`. Raises MessageError."""
        return self.detail_of(part.needed("namespace"), part.needed("name"), part.where).dataset

    def detail_of(self, namespace: str, name: str, where: str) -> DatasetDetail:
        """A dataset with the names that its spelling reveals. Raises MessageError."""
        try:
            found = self._settings.naming.of_pair(namespace, name)
            dataset = decode_dataset(found.dataset.namespace, found.dataset.name)
        except (LineageError, ValueError) as error:
            raise MessageError("dataset", f"{where}: {error}") from error
        return DatasetDetail(
            dataset=dataset,
            subset=found.subset,
            aliases=found.aliases,
            temporary=self._settings.is_temporary(dataset.namespace, dataset.name),
        )

    def detail(self, part: Part) -> DatasetDetail:
        """A dataset with its schema, other names and kind. Raises MessageError."""
        plain = self.detail_of(part.needed("namespace"), part.needed("name"), part.where)
        facets = part.part("facets")
        fields = tuple(_fields(facets.part("schema")))[:MAX_COLUMNS]
        others = [
            self.detail_of(link.needed("namespace"), link.needed("name"), link.where).dataset
            for link in facets.part("symlinks").parts("identifiers")
        ]
        kind = facets.part("datasetType")
        passing = "TEMPORARY" in (kind.text("datasetType"), kind.text("subType"))
        return DatasetDetail(
            dataset=plain.dataset,
            schema_id=_fingerprint(fields) if fields else "",
            subset=plain.subset,
            aliases=tuple(found for found in dict.fromkeys((*plain.aliases, *others)) if found != plain.dataset),
            fields=fields,
            temporary=plain.temporary or passing or kind.text("datasetType") == "JOB_OUTPUT",
        )

    def _column_facet(self, target: DatasetId, facet: Part) -> tuple[list[DatasetId], list[ColumnEdge]] | None:
        """Sources and columns of a column lineage facet; None if it names no source."""
        sources: list[DatasetId] = []
        columns: list[ColumnEdge] = []
        for column, entry in facet.part("fields").named():
            for item in entry.parts("inputFields"):
                source = self.dataset(item)
                sources.append(source)
                columns.append(_edge(source, item, target, column, entry.text("transformationType")))
        for item in facet.parts("dataset"):
            source = self.dataset(item)
            sources.append(source)
            columns.append(_edge(source, item, target, ANY_FIELD, "", direct=False))
        return (sources, columns) if sources else None

    def _lineage(self, target: DatasetId, entry: Part) -> tuple[list[DatasetId], list[ColumnEdge]] | None:
        """Sources and columns of explicit lineage; an empty list of inputs says that nothing flows in."""
        sources: list[DatasetId] = []
        columns: list[ColumnEdge] = []
        for item in entry.parts("inputs"):
            if item.text("type") == _DATASET:
                source = self.dataset(item)
                sources.append(source)
                if item.has("field"):
                    columns.append(_edge(source, item, target, ANY_FIELD, "", direct=False))
        for column, found in entry.part("fields").named():
            for item in found.parts("inputs"):
                if item.text("type") == _DATASET:
                    source = self.dataset(item)
                    sources.append(source)
                    if item.has("field"):
                        columns.append(_edge(source, item, target, column, ""))
        return (sources, columns) if sources or entry.body.get("inputs") == [] else None


def filled_in(
    explicit: tuple[ExplicitTarget, ...], reads: tuple[Use, ...], writes: tuple[Use, ...]
) -> tuple[ExplicitTarget, ...]:
    """Every output with its sources: those named, and for the others every input."""
    named = {item.target for item in explicit}
    everything = tuple(use.dataset for use in reads)
    return (*explicit, *(ExplicitTarget(use.dataset, everything) for use in writes if use.dataset not in named))


def _edge(
    source: DatasetId, item: Part, target: DatasetId, column: str, kind: str, *, direct: bool = True
) -> ColumnEdge:
    """A column edge; of several transformations a direct one counts first."""
    steps = [(step.text("type") != "INDIRECT", step) for step in item.parts("transformations")]
    subtype, masking = kind if kind != "MASKED" else "TRANSFORMATION", kind == "MASKED"
    if steps:
        direct, chosen = max(steps, key=lambda step: step[0])
        subtype = chosen.text("subtype")
        masking = any(step.body.get("masking") is True for _, step in steps)
    try:
        return ColumnEdge(
            source,
            key_text(item.needed("field")),
            target,
            key_text(column),
            direct,
            subtype or "TRANSFORMATION",
            masking,
        )
    except ValueError as error:
        raise MessageError("fields", f"{item.where}: {error}") from error


def _fields(facet: Part, prefix: str = "", depth: int = 8) -> Iterator[tuple[str, str, str]]:
    """(name, type, description) of every field; those inside others have dotted names."""
    for item in facet.parts("fields"):
        name = f"{prefix}{item.needed('name')}"
        yield name, item.text("type"), item.text("description")
        if depth:
            yield from _fields(item, f"{name}.", depth - 1)


def _fingerprint(fields: tuple[tuple[str, str, str], ...]) -> str:
    """32 hex digits that stand for a schema nobody gave an id: equal for equal names and types."""
    text = json.dumps([(name, kind) for name, kind, _ in fields], ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
