"""Events of OpenLineage from what we know: a run with its pairs, a job with its relations.

Pairs go out as the `lineage` job facet, which says which input feeds which output; column edges also as the older
column lineage facet. The first one is experimental in OpenLineage, so its version is pinned here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.identity import DatasetId

PRODUCER = "https://airflow-provider-kafka-hdfs.readthedocs.io/"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs"
_FACETS = "https://openlineage.io/spec/facets"
_LINEAGE = f"{_FACETS}/1-0-0/LineageFacet.json#/$defs/LineageJobFacet"
_EVENT_TYPES = {"success": "COMPLETE", "failed": "FAIL", "running": "RUNNING"}

Fields = tuple[tuple[str, str, str], ...]
"""(name, type, description) of the columns of a dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """What a run or job did, in the names of datasets.

    Attributes:
        inputs, outputs: all datasets that it reads and writes, paired or not.
        pairs: (source, target); inputs that feed nothing known are in none.
        columns: column edges of the pairs.
        fields: dataset -> its columns, where they are known.
    """

    inputs: tuple[DatasetId, ...]
    outputs: tuple[DatasetId, ...]
    pairs: frozenset[tuple[DatasetId, DatasetId]] = frozenset()
    columns: tuple[ColumnEdge, ...] = ()
    fields: Mapping[DatasetId, Fields] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The job that an event is about, and what people say of it.

    Attributes:
        namespace: of the job in OpenLineage.
        integration: `AIRFLOW` for a DAG, else what runs the job.
        file: where its code is.
    """

    namespace: str
    name: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    integration: str = "AIRFLOW"
    file: str = ""


def run_id(namespace: str, dag_id: str, clear_number: int, when: datetime) -> str:
    """The id that Airflow's OpenLineage provider gives to a DAG run, so that receivers bring both together.

    A UUID of version 7: the moment in milliseconds, then bits of a SHA-1 over moment, namespace, DAG and clear number.

    Args:
        namespace: of the job in OpenLineage.
        dag_id: of the run.
        clear_number: how often the run was cleared.
        when: logical date of the run, or where there is none the time from which it was due.
    """
    moment = when.astimezone(UTC)
    text = moment.isoformat().encode() + f"{namespace}.{dag_id}.{clear_number}".encode()
    hashed = int.from_bytes(hashlib.sha1(text, usedforsecurity=False).digest(), "big") >> 84
    value = (int(moment.timestamp() * 1000) & (2**48 - 1)) << 80 | hashed
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(UUID(int=value))


def run_event(
    about: About,
    done: Exchanged,
    *,
    run: str,
    outcome: str,
    at: datetime,
    nominal: tuple[datetime, datetime] | None = None,
    engine: str = "",
) -> dict[str, Any]:
    """A finished run.

    Args:
        about: the job.
        done: what the run read and wrote.
        run: UUID of the run.
        outcome: `success` or `failed`.
        at: when it ended.
        nominal: the time that it was for.
        engine: version of Airflow.
    """
    facets: dict[str, Any] = {}
    if nominal is not None:
        times = {"nominalStartTime": nominal[0].isoformat(), "nominalEndTime": nominal[1].isoformat()}
        facets["nominalTime"] = _facet("1-0-1/NominalTimeRunFacet.json#/$defs/NominalTimeRunFacet", **times)
    if engine:
        place = "1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet"
        facets["processing_engine"] = _facet(place, version=engine, name="Airflow")
    return {
        "eventType": _EVENT_TYPES.get(outcome, "OTHER"),
        **_event("RunEvent", at),
        "run": {"runId": run, "facets": facets},
        **_body(about, done),
    }


def job_event(about: About, known: Exchanged, at: datetime) -> dict[str, Any]:
    """A job with its relations to datasets, in both directions, whether it runs or not.

    Args:
        about: the job.
        known: what it reads and writes.
        at: when that was known.
    """
    return {**_event("JobEvent", at), **_body(about, known)}


def digest_of(event: Mapping[str, Any]) -> str:
    """32 hex digits over what an event says, without when it is said."""
    said = {name: value for name, value in event.items() if name != "eventTime"}
    return hashlib.blake2b(encode_event(said), digest_size=16).hexdigest()


def encode_event(event: Mapping[str, Any]) -> bytes:
    """An event as JSON in UTF-8."""
    return json.dumps(event, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode("utf-8", "replace")


def _event(kind: str, at: datetime) -> dict[str, Any]:
    return {"eventTime": at.astimezone(UTC).isoformat(), "producer": PRODUCER, "schemaURL": f"{_SPEC}/{kind}"}


def _facet(place: str, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{_FACETS}/{place}", **values}


def _body(about: About, done: Exchanged) -> dict[str, Any]:
    columns: dict[DatasetId, list[ColumnEdge]] = {}
    for edge in sorted(done.columns):
        columns.setdefault(edge.target, []).append(edge)
    outputs = []
    for target in done.outputs:
        dataset = _dataset(target, done)
        if target in columns:
            dataset["facets"]["columnLineage"] = _column_facet(columns[target])
        outputs.append(dataset)
    return {
        "job": {"namespace": about.namespace, "name": about.name, "facets": _job_facets(about, done, columns)},
        "inputs": [_dataset(source, done) for source in done.inputs],
        "outputs": outputs,
    }


def _dataset(dataset: DatasetId, done: Exchanged) -> dict[str, Any]:
    fields = (done.fields or {}).get(dataset, ())
    facets = {}
    if fields:
        rows = [
            {key: value for key, value in (("name", name), ("type", kind), ("description", told)) if value}
            for name, kind, told in fields
        ]
        facets["schema"] = _facet("1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet", fields=rows)
    return {**_name(dataset), "facets": facets}


def _name(dataset: DatasetId) -> dict[str, Any]:
    return {"namespace": dataset.namespace, "name": dataset.name}


def _job_facets(about: About, done: Exchanged, columns: Mapping[DatasetId, list[ColumnEdge]]) -> dict[str, Any]:
    kind = {"jobType": "DAG"} if about.integration == "AIRFLOW" else {}
    facets = {
        "jobType": _facet(
            "2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
            processingType="BATCH",
            integration=about.integration,
            **kind,
        )
    }
    if about.description:
        place = "1-1-0/DocumentationJobFacet.json#/$defs/DocumentationJobFacet"
        facets["documentation"] = _facet(place, description=about.description)
    if about.owners:
        place = "1-0-1/OwnershipJobFacet.json#/$defs/OwnershipJobFacet"
        facets["ownership"] = _facet(place, owners=[{"name": owner} for owner in about.owners])
    if about.tags:
        tags = [{"key": tag, "value": tag, "source": "AIRFLOW"} for tag in about.tags]
        facets["tags"] = _facet("1-0-0/TagsJobFacet.json#/$defs/TagsJobFacet", tags=tags)
    sources: dict[DatasetId, list[DatasetId]] = {}
    for source, target in sorted(done.pairs):
        sources.setdefault(target, []).append(source)
    entries = [
        {
            "type": "DATASET",
            **_name(target),
            "inputs": [{"type": "DATASET", **_name(source)} for source in sources[target]],
            **({"fields": _field_entries(columns[target])} if target in columns else {}),
        }
        for target in done.outputs
        if target in sources
    ]
    if entries:
        facets["lineage"] = {"_producer": PRODUCER, "_schemaURL": _LINEAGE, "entries": entries}
    return facets


def _input(edge: ColumnEdge) -> dict[str, Any]:
    step = {"type": "DIRECT" if edge.direct else "INDIRECT", "subtype": edge.subtype, "masking": edge.masking}
    return {**_name(edge.source), "field": edge.source_field, "transformations": [step]}


def _field_entries(edges: Iterable[ColumnEdge]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for edge in edges:
        found.setdefault(edge.target_field, {"inputs": []})["inputs"].append({"type": "DATASET", **_input(edge)})
    return found


def _column_facet(edges: Iterable[ColumnEdge]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    whole: list[dict[str, Any]] = []
    for edge in edges:
        if edge.target_field == "*":
            whole.append(_input(edge))
        else:
            fields.setdefault(edge.target_field, {"inputFields": []})["inputFields"].append(_input(edge))
    more = {"dataset": whole} if whole else {}
    return _facet("1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet", fields=fields, **more)
