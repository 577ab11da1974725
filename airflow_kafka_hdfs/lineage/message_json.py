"""Messages of lineage as JSON: versioned, bounded in size, and read back with every mistake named."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.envelope_json import envelope_of, texts, whole
from airflow_kafka_hdfs.lineage.events import (
    DatasetDetail,
    EdgeMessage,
    Envelope,
    Message,
    MessageError,
    Run,
    RunMessage,
    TaskIoMessage,
)
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.message_parts import parts_of, rest_of
from airflow_kafka_hdfs.lineage.pairs import Flow, Intermediates, Options
from airflow_kafka_hdfs.lineage.storage_text import compact
from airflow_kafka_hdfs.lineage.workflow import (
    DatasetTable,
    RunFacts,
    TaskIo,
    Workflow,
    circle_in,
    decode_columns,
    decode_dataset,
    decode_datasets,
    decode_explicit,
    decode_uses,
    decode_workflow,
    encode_columns,
    encode_explicit,
    encode_uses,
    encode_workflow,
    key_text,
)
from airflow_kafka_hdfs.ports.lineage import PairState

SCHEMA_VERSION = 1
MAX_DESCRIPTION = 2_000
MAX_PATH = 50
MAX_COLUMNS = 500
MAX_BYTES = 256 * 1024
KINDS: Mapping[type[Message], str] = {EdgeMessage: "edge", RunMessage: "run", TaskIoMessage: "task_io"}
"""Class -> `type` of a message."""


def encode(message: Message) -> bytes:
    """The message as JSON in UTF-8, at most 256 kB; what had to go is named in `truncated`."""
    body = _encode(message)
    data = _dump(body)
    if len(data) <= MAX_BYTES:
        return data
    for field_name in ("columns", "datasets_detail", "graph", "states", "path"):
        if field_name not in body and field_name not in body.get("edge", {}):
            continue
        (body["edge"] if field_name in body.get("edge", {}) else body).pop(field_name)
        body["truncated"] = [*body.get("truncated", []), field_name]
        data = _dump(body)
        if len(data) <= MAX_BYTES:
            break
    return data


def _dump(body: Mapping[str, Any]) -> bytes:
    return compact(body).encode("utf-8", "replace")


def _encode(message: Message) -> dict[str, Any]:
    kind = KINDS[type(message)]
    envelope = message.envelope
    body: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "type": kind,
        "event_id": message.event_id,
        "emitted_at": envelope.emitted_at.isoformat(),
        "job": filled(envelope.job),
        "run": _encode_job_run(envelope.run),
        "versions": filled(envelope.versions),
    }
    if len(envelope.job.description) > MAX_DESCRIPTION:
        body["job"]["description"] = envelope.job.description[:MAX_DESCRIPTION]
        body["truncated"] = ["description"]
    if isinstance(message, EdgeMessage):
        body.update(_encode_edge(message))
    elif isinstance(message, RunMessage):
        body.update(_encode_run(message))
    else:
        body.update(_encode_io(message))
    return body


def filled(value: Any) -> dict[str, Any]:
    """The fields of a plain value that are not empty, as JSON values."""
    found: dict[str, Any] = {}
    for name in value.__slots__:
        item = getattr(value, name)
        if item not in ("", None, ()):
            found[name] = (
                item.isoformat() if isinstance(item, datetime) else list(item) if type(item) is tuple else item
            )
    return found


def _encode_job_run(run: Run) -> dict[str, Any]:
    body = filled(run)
    start, end = body.pop("interval_start", None), body.pop("interval_end", None)
    if start or end:
        body["data_interval"] = [start, end]
    return body


def _encode_edge(message: EdgeMessage) -> dict[str, Any]:
    edge: dict[str, Any] = {
        "state": message.state.value,
        "evidence": list(message.evidence),
        "flow": message.flow.value,
        "path": list(message.path[:MAX_PATH]),
        "path_length": len(message.path),
        "instances": message.instances,
        "declared": message.declared,
        "self": message.source.dataset == message.target.dataset,
        "compressed": False,
    }
    if message.columns:
        edge["columns"] = [
            [c.source_field, c.target_field, c.direct, c.subtype, c.masking] for c in message.columns[:MAX_COLUMNS]
        ]
    return {"source": _encode_detail(message.source), "target": _encode_detail(message.target), "edge": edge}


def _encode_detail(detail: DatasetDetail) -> dict[str, Any]:
    collection, table = location(detail.dataset)
    body: dict[str, Any] = {
        "namespace": detail.dataset.namespace,
        "name": detail.dataset.name,
        "collection": collection,
        "table": table,
    }
    for name in ("schema_id", "schema_version", "subset"):
        if getattr(detail, name):
            body[name] = getattr(detail, name)
    if detail.aliases:
        body["aliases"] = [[alias.namespace, alias.name] for alias in detail.aliases]
    if detail.fields:
        body["fields"] = [list(row) for row in detail.fields[:MAX_COLUMNS]]
    if detail.temporary:
        body["temporary"] = True
    return body


def _encode_run(message: RunMessage) -> dict[str, Any]:
    body: dict[str, Any] = {
        "structure_hash": message.structure_hash,
        **encode_facts(message.facts, message.options),
        "pairs": message.pairs,
        "compressed": message.compressed,
    }
    if message.graph is not None:
        body["graph"] = encode_workflow(message.graph)
    if message.details:
        body["datasets_detail"] = [_encode_detail(detail) for detail in message.details]
    if message.truncated:
        body["truncated"] = list(message.truncated)
    return body


def encode_facts(facts: RunFacts, options: Options) -> dict[str, Any]:
    """What is known of a run, and how its pairs are derived, as plain JSON values."""
    datasets = DatasetTable()
    body: dict[str, Any] = {
        "states": [[task, index, state, tries] for (task, index), (state, tries) in sorted(facts.states.items())],
        "triggers": [datasets.number(dataset) for dataset in facts.triggers],
        "aliases": {name: [datasets.number(d) for d in found] for name, found in sorted(facts.aliases.items())},
        "options": {
            "flow": options.flow.value,
            "intermediates": options.intermediates.value,
            "schedule_inputs": options.schedule_inputs,
            "max_pairs": options.max_pairs,
        },
    }
    if facts.inlet_aliases:
        body["inlet_aliases"] = {
            name: [datasets.number(d) for d in found] for name, found in sorted(facts.inlet_aliases.items())
        }
    body["datasets"] = datasets.rows()
    return body


def _encode_io(message: TaskIoMessage) -> dict[str, Any]:
    body: dict[str, Any] = {"task": encode_report(message.report)}
    if message.details:
        body["datasets_detail"] = [_encode_detail(detail) for detail in message.details]
    return body


def encode_report(report: TaskIo) -> dict[str, Any]:
    """A task's report as plain JSON values."""
    datasets = DatasetTable()
    body: dict[str, Any] = {
        "task_id": report.task_id,
        "map_index": report.map_index,
        "try_number": report.try_number,
        "state": report.state,
        "in": encode_uses(report.reads, datasets),
        "out": encode_uses(report.writes, datasets),
        "columns": encode_columns(report.columns[:MAX_COLUMNS], datasets),
        "aliases": {name: [datasets.number(d) for d in found] for name, found in sorted(report.aliases.items())},
        "temporary": [datasets.number(dataset) for dataset in sorted(report.temporary)],
        "complete": report.complete,
    }
    if report.explicit is not None:
        body["pairs"] = encode_explicit(report.explicit, datasets)
    body["datasets"] = datasets.rows()
    return body


def decode_report(body: Mapping[str, Any]) -> TaskIo:
    """The report that `encode_report` wrote. Raises KeyError, TypeError, ValueError or IndexError if it is another."""
    datasets = decode_datasets(body["datasets"])
    return TaskIo(
        task_id=key_text(body["task_id"]),
        map_index=whole(body["map_index"]),
        try_number=whole(body["try_number"]),
        state=str(body["state"]),
        reads=decode_uses(body["in"], datasets),
        writes=decode_uses(body["out"], datasets),
        explicit=decode_explicit(body.get("pairs"), datasets),
        columns=decode_columns(body.get("columns", ()), datasets),
        aliases={name: tuple(datasets[n] for n in found) for name, found in body.get("aliases", {}).items()},
        temporary=frozenset(datasets[n] for n in body.get("temporary", ())),
        complete=bool(body.get("complete", True)),
    )


def location(dataset: DatasetId) -> tuple[str, str]:
    """(collection, table) of a dataset: cluster and topic, folder and last folder, database and table."""
    if dataset.namespace.startswith("kafka://"):
        return dataset.namespace.removeprefix("kafka://"), dataset.name
    path, slash, query = dataset.name.partition("?")
    joint = "/" if "/" in path.strip("/") or path.startswith("/") else "."
    head, _, last = path.rpartition(joint)
    return head.strip("/") or dataset.namespace, f"{last}{slash}{query}"


def decode(data: bytes | None) -> Message:
    """The message in a Kafka value.

    Raises:
        MessageError: no JSON, a missing or wrong field, an unknown type, or a newer `schema_version`.
    """
    try:
        # Not by `utf-8-sig`, which is written in Python and takes as long as all other steps but the reading.
        text = (data or b"").decode().removeprefix("\ufeff")
        known = _in_parts(text)
        if known is not None:
            return known
        body = json.loads(text)
        if "\\u" in text:
            if "\\u0000" in text:
                raise ValueError("a text holds a NUL character, which databases refuse")
            json.dumps(body, ensure_ascii=False).encode()
    except ValueError as error:
        raise MessageError("json", f"{error}; expected a JSON object") from error
    if not isinstance(body, dict):
        raise MessageError("json", f"got {type(body).__name__}; expected a JSON object")
    version = body.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise MessageError("version", f"got schema_version {version!r}; this package reads up to {SCHEMA_VERSION}")
    kind = body.get("type")
    if not isinstance(kind, str) or kind not in _READERS:
        raise MessageError("type", f"got type {kind!r}; known: {', '.join(_READERS)}")
    try:
        return _READERS[kind](body, envelope_of(body))
    except _WRONG as error:
        raise MessageError("fields", f"{kind} message: {type(error).__name__}: {error}") from error


_WRONG = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, LineageError)


def _in_parts(text: str) -> Message | None:
    """The message in a text as `encode` writes it; None for every other one, good or bad."""
    parts = parts_of(text, SCHEMA_VERSION)
    if parts is None:
        return None
    kind, envelope, rest = parts
    try:
        if kind == "edge":
            return EdgeMessage(envelope=envelope, **_edge_in(rest))
        return _READERS[kind](rest_of(rest), envelope)
    except _WRONG:
        return None


@lru_cache(maxsize=20_000)
def _edge_in(text: str) -> Mapping[str, Any]:
    """The fields of a pair; a job tells of it in every run, mostly in the same words."""
    body = rest_of(text)
    return _edge_fields(body["source"], body["target"], body["edge"])


_NAMES_ALONE = frozenset({"namespace", "name", "collection", "table"})


@lru_cache(maxsize=50_000)
def _bare(dataset: DatasetId) -> DatasetDetail:
    return DatasetDetail(dataset=dataset)


def _detail(body: Mapping[str, Any]) -> DatasetDetail:
    dataset = decode_dataset(body["namespace"], body["name"])
    if body.keys() <= _NAMES_ALONE:
        return _bare(dataset)
    return DatasetDetail(
        dataset=dataset,
        schema_id=str(body.get("schema_id", "")),
        schema_version=key_text(body.get("schema_version", "")),
        subset=str(body.get("subset", "")),
        aliases=tuple(decode_datasets(body.get("aliases", ()))),
        fields=tuple((str(n), str(t), str(d)) for n, t, d in body.get("fields", ())),
        temporary=bool(body.get("temporary", False)),
    )


def _decode_edge(body: Mapping[str, Any], envelope: Envelope) -> EdgeMessage:
    return EdgeMessage(envelope=envelope, **_edge_fields(body["source"], body["target"], body["edge"]))


def _edge_fields(
    source_body: Mapping[str, Any], target_body: Mapping[str, Any], edge: Mapping[str, Any]
) -> dict[str, Any]:
    source, target = _detail(source_body), _detail(target_body)
    return {
        "source": source,
        "target": target,
        "state": PairState(edge["state"]),
        "evidence": texts(edge.get("evidence", [])),
        "flow": Flow(edge.get("flow", Flow.AUTO.value)),
        "path": texts(edge.get("path", [])),
        "instances": whole(edge.get("instances", 1)),
        "declared": bool(edge.get("declared", False)),
        "columns": tuple(
            ColumnEdge(
                source.dataset, key_text(s), target.dataset, key_text(t), bool(direct), str(subtype), bool(masking)
            )
            for s, t, direct, subtype, masking in edge.get("columns", ())
        ),
    }


def _decode_run(body: Mapping[str, Any], envelope: Envelope) -> RunMessage:
    facts, options = decode_facts(body)
    return RunMessage(
        envelope=envelope,
        structure_hash=str(body["structure_hash"]),
        graph=_graph(body["graph"]) if "graph" in body else None,
        facts=facts,
        options=options,
        details=tuple(_detail(detail) for detail in body.get("datasets_detail", ())),
        pairs=whole(body.get("pairs", 0)),
        compressed=bool(body.get("compressed", False)),
        truncated=texts(body.get("truncated", [])),
    )


def _graph(body: Mapping[str, Any]) -> Workflow:
    found = decode_workflow(body)
    circle = circle_in({task.task_id: (*task.upstream, *task.xcom) for task in found.tasks})
    if circle:
        raise ValueError(f"graph: these tasks wait for each other in a circle: {circle[:20]}")
    return found


def decode_facts(body: Mapping[str, Any]) -> tuple[RunFacts, Options]:
    """What `encode_facts` wrote. Raises KeyError, TypeError, ValueError or IndexError if it is another document."""
    datasets = decode_datasets(body.get("datasets", ()))
    facts = RunFacts(
        states={
            (str(task), whole(index)): (str(state), whole(tries))
            for task, index, state, tries in body.get("states", ())
        },
        triggers=tuple(datasets[n] for n in body.get("triggers", ())),
        aliases={name: tuple(datasets[n] for n in found) for name, found in body.get("aliases", {}).items()},
        inlet_aliases={
            name: tuple(datasets[n] for n in found) for name, found in body.get("inlet_aliases", {}).items()
        },
    )
    return facts, _options(body.get("options", {}))


def _options(body: Mapping[str, Any]) -> Options:
    known = Options()
    return _options_of(
        body.get("flow", known.flow.value),
        body.get("intermediates", known.intermediates.value),
        bool(body.get("schedule_inputs", known.schedule_inputs)),
        int(body.get("max_pairs", known.max_pairs)),
    )


@lru_cache(maxsize=1_000)
def _options_of(flow: str, intermediates: str, schedule_inputs: bool, max_pairs: int) -> Options:
    return replace(
        Options(),
        flow=Flow(flow),
        intermediates=Intermediates(intermediates),
        schedule_inputs=schedule_inputs,
        max_pairs=max_pairs,
    )


def _decode_io(body: Mapping[str, Any], envelope: Envelope) -> TaskIoMessage:
    return TaskIoMessage(
        envelope=envelope,
        report=decode_report(body["task"]),
        details=tuple(_detail(detail) for detail in body.get("datasets_detail", ())),
    )


_READERS: dict[str, Callable[[Mapping[str, Any], Envelope], Message]] = {
    "edge": _decode_edge,
    "run": _decode_run,
    "task_io": _decode_io,
}
