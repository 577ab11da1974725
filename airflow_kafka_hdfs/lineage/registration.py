"""Rows that only ever grow: datasets, their names and schemas, and which job reads or writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from airflow_kafka_hdfs.lineage.events import DatasetDetail, EdgeMessage, Message, RunMessage
from airflow_kafka_hdfs.lineage.identity import ALIAS_NAMESPACE, DatasetId
from airflow_kafka_hdfs.lineage.message_json import location
from airflow_kafka_hdfs.lineage.workflow import ExplicitTarget, Use
from airflow_kafka_hdfs.ports.lineage import LoadTransaction
from airflow_kafka_hdfs.ports.lineage_rows import DatasetAliasRow, DatasetRow, DatasetSchemaRow, RelationRow

INPUT = "input"
OUTPUT = "output"
FROM_PRODUCER = "producer"
FROM_RUNS = "runs"
FROM_BOTH = "both"


class Registration:
    """Collects what a batch says of datasets and writes what is new.

    Args:
        transaction: where rows are read and written.
    """

    def __init__(self, transaction: LoadTransaction) -> None:
        self._tx = transaction
        self._datasets: dict[str, DatasetRow] = {}
        self._spans: dict[str, tuple[datetime, datetime]] = {}
        self._aliases: dict[tuple[str, str], DatasetAliasRow] = {}
        self._schemas: dict[tuple[str, str], DatasetSchemaRow] = {}
        self._relations: dict[tuple[str, str, str], datetime] = {}
        self._noted: set[tuple[str, str, DatasetId, bool, datetime]] = set()

    def note(self, messages: Iterable[Message]) -> None:
        """Take up every dataset that the messages name."""
        batch = list(messages)  # keeps every object alive, so that it is known by its number
        told: set[tuple[int, str, int]] = set()
        for message in batch:
            job_id, when = message.envelope.job.job_id, message.envelope.run.run_after
            if isinstance(message, EdgeMessage):
                for direction, detail in ((INPUT, message.source), (OUTPUT, message.target)):
                    end = (id(message.envelope), direction, id(detail))
                    if end in told:
                        continue  # each pair of a run names its ends again
                    told.add(end)
                    self._name(job_id, direction, detail.dataset, detail.temporary, when)
                    if detail.schema_version or detail.schema_id or detail.aliases:
                        self._detail(detail, when)
                continue
            for direction, dataset, temporary in _named(message):
                self._name(job_id, direction, dataset, temporary, when)
            for detail in message.details:
                self._detail(detail, when)

    def _name(self, job_id: str, direction: str, dataset: DatasetId, temporary: bool, when: datetime) -> None:
        said = (job_id, direction, dataset, temporary, when)
        if said in self._noted or dataset.namespace == ALIAS_NAMESPACE:
            return
        self._noted.add(said)
        key = dataset.key
        have = self._datasets.get(key)
        if have is None or temporary:
            self._dataset(DatasetDetail(dataset=dataset, temporary=temporary), when)
        else:
            self._widen(have, when)
        if direction:
            relation = (job_id, key, direction)
            seen = self._relations.get(relation)
            if seen is None or seen < when:
                self._relations[relation] = when

    def write(self) -> None:
        """Write what differs from what is stored."""
        self._write_datasets()
        stored_aliases = self._tx.rows(DatasetAliasRow, ("ns", "name"), list(self._aliases))
        for alias in stored_aliases:
            fresh = self._aliases[alias.ns, alias.name]
            if alias.origin != FROM_PRODUCER or alias.dataset_id <= fresh.dataset_id:
                del self._aliases[alias.ns, alias.name]
        self._tx.put(list(self._aliases.values()))
        for schema in self._tx.rows(DatasetSchemaRow, ("dataset_id", "schema_version"), list(self._schemas)):
            key = (schema.dataset_id, schema.schema_version)
            merged = _merge_schemas(schema, self._schemas[key])
            if merged == schema:
                del self._schemas[key]
            else:
                self._schemas[key] = merged
        self._tx.put(list(self._schemas.values()))
        self._write_relations()

    def _write_relations(self) -> None:
        columns = ("job_id", "dataset_id", "direction")
        stored = {
            (row.job_id, row.dataset_id, row.direction): row
            for row in self._tx.rows(RelationRow, columns, list(self._relations))
        }
        changed = []
        for key, seen in self._relations.items():
            have = stored.get(key)
            origin = FROM_RUNS
            if have is not None:
                origin = FROM_RUNS if have.origin == FROM_RUNS else FROM_BOTH
                seen = max(seen, have.last_seen)
                if (origin, seen) == (have.origin, have.last_seen):
                    continue
            job_id, dataset_id, direction = key
            changed.append(
                RelationRow(job_id=job_id, dataset_id=dataset_id, direction=direction, origin=origin, last_seen=seen)
            )
        self._tx.put(changed)

    def _write_datasets(self) -> None:
        for key, (first, last) in self._spans.items():
            row = self._datasets[key]
            first, last = min(first, row.first_seen), max(last, row.last_seen)
            self._datasets[key] = replace(row, first_seen=first, last_seen=last)
        for stored in self._tx.rows(DatasetRow, ("dataset_id",), [(key,) for key in self._datasets]):
            merged = _merge_datasets(stored, self._datasets[stored.dataset_id])
            if merged == stored:
                del self._datasets[stored.dataset_id]
            else:
                self._datasets[stored.dataset_id] = merged
        self._tx.put(list(self._datasets.values()))

    def _dataset(self, detail: DatasetDetail, when: datetime) -> str:
        key = detail.dataset.key
        have = self._datasets.get(key)
        version = detail.schema_version or detail.schema_id
        if have is None:
            collection, table = location(detail.dataset)
            self._datasets[key] = DatasetRow(
                dataset_id=key,
                ns=detail.dataset.namespace,
                name=detail.dataset.name,
                collection=collection,
                table=table,
                schema_id=detail.schema_id,
                schema_version=version,
                schema_seen=when if version else None,
                temporary=detail.temporary,
                first_seen=when,
                last_seen=when,
            )
        elif version or detail.temporary:
            fresh = replace(
                have,
                schema_id=detail.schema_id,
                schema_version=version,
                schema_seen=when if version else None,
                temporary=detail.temporary,
                first_seen=when,
                last_seen=when,
            )
            self._datasets[key] = _merge_datasets(have, fresh)
        else:
            self._widen(have, when)
        return key

    def _widen(self, have: DatasetRow, when: datetime) -> None:
        """Note when a dataset was seen; rows are made anew once, at the end."""
        first, last = self._spans.get(have.dataset_id) or (have.first_seen, have.last_seen)
        if not first <= when <= last:
            self._spans[have.dataset_id] = min(first, when), max(last, when)

    def _detail(self, detail: DatasetDetail, when: datetime) -> None:
        if detail.dataset.namespace == ALIAS_NAMESPACE:
            return
        key = self._dataset(detail, when)
        for alias in detail.aliases:
            fresh = DatasetAliasRow(ns=alias.namespace, name=alias.name, dataset_id=key, origin=FROM_PRODUCER)
            have = self._aliases.get((alias.namespace, alias.name))
            if have is None or fresh.dataset_id < have.dataset_id:
                self._aliases[alias.namespace, alias.name] = fresh
        version = detail.schema_version or detail.schema_id
        if version:
            schema = DatasetSchemaRow(
                dataset_id=key,
                schema_version=version,
                schema_id=detail.schema_id,
                fields=json.dumps([list(row) for row in detail.fields], ensure_ascii=False) if detail.fields else "",
                seen=when,
            )
            known = self._schemas.get((key, version))
            self._schemas[key, version] = schema if known is None else _merge_schemas(known, schema)


def datasets_of(messages: Iterable[Message]) -> set[DatasetId]:
    """Every dataset that messages name, in whatever part."""
    found = set()
    for message in messages:
        found |= {dataset for _, dataset, _ in _named(message)}
        if not isinstance(message, EdgeMessage):
            found |= {detail.dataset for detail in message.details}
    return found


def _named(message: Message) -> Iterator[tuple[str, DatasetId, bool]]:
    """(direction, dataset, temporary) of every dataset that a message names."""
    if isinstance(message, EdgeMessage):
        yield INPUT, message.source.dataset, message.source.temporary
        yield OUTPUT, message.target.dataset, message.target.temporary
    elif isinstance(message, RunMessage):
        graph = message.graph
        for dataset in message.facts.triggers:
            yield "", dataset, False
        for found in (*message.facts.aliases.values(), *message.facts.inlet_aliases.values()):
            for dataset in found:
                yield "", dataset, False
        if graph is not None:
            for dataset in graph.schedule:
                yield INPUT, dataset, False
            for task in graph.tasks:
                yield from _of_task(task.reads, task.writes, task.explicit, graph.temporary)
    else:
        report = message.report
        yield from _of_task(report.reads, report.writes, report.explicit, report.temporary)
        for found in report.aliases.values():
            for dataset in found:
                yield OUTPUT, dataset, dataset in report.temporary


def _of_task(
    reads: tuple[Use, ...],
    writes: tuple[Use, ...],
    explicit: tuple[ExplicitTarget, ...] | None,
    temporary: frozenset[DatasetId],
) -> Iterator[tuple[str, DatasetId, bool]]:
    for use in reads:
        yield INPUT, use.dataset, use.dataset in temporary
    for use in writes:
        yield OUTPUT, use.dataset, use.dataset in temporary
    for item in explicit or ():
        yield OUTPUT, item.target, item.target in temporary
        for source in item.sources:
            yield INPUT, source, source in temporary


def _merge_datasets(one: DatasetRow, other: DatasetRow) -> DatasetRow:
    silent = other.schema_seen is None and other.temporary <= one.temporary
    if silent and one.first_seen <= other.first_seen and other.last_seen <= one.last_seen:
        return one
    newest = max(one, other, key=_schema_rank)
    return replace(
        one,
        schema_id=newest.schema_id,
        schema_version=newest.schema_version,
        schema_seen=newest.schema_seen,
        temporary=one.temporary or other.temporary,
        first_seen=min(one.first_seen, other.first_seen),
        last_seen=max(one.last_seen, other.last_seen),
    )


def _schema_rank(row: DatasetRow) -> tuple[bool, float, str, str]:
    seen = row.schema_seen
    return seen is not None, seen.timestamp() if seen else 0.0, row.schema_version, row.schema_id


def _merge_schemas(one: DatasetSchemaRow, other: DatasetSchemaRow) -> DatasetSchemaRow:
    return replace(
        one,
        schema_id=max(one.schema_id, other.schema_id),
        fields=max(one.fields, other.fields, key=lambda text: (len(text), text)),
        seen=min(one.seen, other.seen),
    )
