"""Schemas in a plan: what reading must not look up again, since the registry may say something else by then.

Writer schemas need no pin, their ids never change their meaning. The reader schema of `on_schema_change='resolve'`
does, where it is the registry's latest. Schemas that settings give are pinned with the settings; here they are judged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError, UnknownSchemaError, UnusableSchemaError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.choices import FileFormat, OnSchemaChange
from airflow_kafka_hdfs.ingest.columns import Columns
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Sources
from airflow_kafka_hdfs.ingest.reasons import HeldReason
from airflow_kafka_hdfs.ingest.records import Held
from airflow_kafka_hdfs.ingest.settings import TopicConfig
from airflow_kafka_hdfs.ingest.tables import row_type
from airflow_kafka_hdfs.ports.runtime import Workers
from airflow_kafka_hdfs.ports.schemas import AvroCodec, SchemaRegistry

Latest = tuple[int | str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedSchema:
    """What a plan pins of a topic's schemas.

    Attributes:
        reader: JSON text of the schema that every record is resolved to.
        reader_id: its id in the registry.
    """

    reader: str
    reader_id: str


def pin_schemas(
    sources: Sources, workers: Workers, config: IngestConfig, topics: Collection[str]
) -> tuple[dict[str, Mapping[str, Any]], list[Held]]:
    """Pins of the topics that need some, and topics that can't be read for want of a schema.

    Args:
        sources: registry and codec.
        workers: for one look-up per topic, side by side.
        config: of the pipeline.
        topics: those that the plan reads.

    Raises:
        ConfigError: a schema given by settings can't be parsed, or clashes with `include_*`.
        RegistryUnavailableError: the registry is away; a later attempt may do better.
    """
    for settings in {id(found): found for found in map(config.topic, topics)}.values():
        _check_given(sources.codec, settings.config)
    asked = sorted(topic for topic in topics if _asks_registry(config.topic(topic).config))
    registry = sources.registry
    if not asked or registry is None:
        return {}, []
    pins: dict[str, Mapping[str, Any]] = {}
    held: list[Held] = []
    answers = workers.map(lambda topic: _latest(registry, topic), asked)
    for topic, answer in zip(asked, answers, strict=True):
        found = answer
        if not isinstance(found, Held):
            found = _judged(sources.codec, topic, config.topic(topic).config, answer)
        if isinstance(found, Held):
            held.append(found)
        elif found is not None and _resolves(config.topic(topic).config):
            schema_id, text = found
            pins[topic] = wire.to_plain(PinnedSchema(reader=text, reader_id=str(schema_id)))
    return pins, held


def _resolves(config: TopicConfig) -> bool:
    return config.on_schema_change is OnSchemaChange.RESOLVE and config.schema is None


def _asks_registry(config: TopicConfig) -> bool:
    """Whether the latest schema is needed: to resolve to it, or to see whether its fields clash with our columns."""
    given = config.schema or config.convert_schema
    return config.value_format.is_framed and (_resolves(config) or (config.includes and given is None))


def _latest(registry: SchemaRegistry, topic: str) -> Latest | Held:
    try:
        return registry.latest(topic)
    except UnknownSchemaError:
        return None
    except UnusableSchemaError as error:
        return Held(topic=topic, reason=HeldReason.UNUSABLE_SCHEMA, detail=f"its latest schema: {error}")


def _judged(codec: AvroCodec, topic: str, config: TopicConfig, latest: Latest | Held) -> Latest | Held:
    if isinstance(latest, Held):
        return latest
    if latest is None:
        if not _resolves(config):
            return None
        detail = "the registry has no value schema of it to resolve to: register one, or give `schema`"
        return Held(topic=topic, reason=HeldReason.NO_SCHEMA, detail=detail)
    try:
        _check(codec, config, latest[1])
    except UnusableSchemaError as error:
        return Held(topic=topic, reason=HeldReason.UNUSABLE_SCHEMA, detail=f"schema id {latest[0]}: {error}")
    return latest


def _check_given(codec: AvroCodec, config: TopicConfig) -> None:
    files = "convert_schema" if config.convert_schema is not None else "schema"
    for key, text in (("schema", config.schema), ("convert_schema", config.convert_schema)):
        if text is None:
            continue
        try:
            if key == files:
                _check(codec, config, text)
            else:
                codec.parse(text)
        except UnusableSchemaError as error:
            raise ConfigError(key, text[:200], "an Avro schema that can be used here", str(error)) from None


def _check(codec: AvroCodec, config: TopicConfig, text: str) -> None:
    """Raises UnusableSchemaError for a schema of the files that can't be parsed or has no room for our columns."""
    parsed = codec.parse(text)
    if config.file_format is FileFormat.PARQUET:
        row_type(parsed)
    columns = Columns(metadata=config.include_kafka_metadata, key=config.include_key, headers=config.include_headers)
    if columns and config.file_format is not FileFormat.JSONL:
        columns.added_to(parsed)
    elif columns and _has_fields(parsed):
        columns.check_names(parsed)


def _has_fields(parsed: Any) -> bool:
    return isinstance(parsed, Mapping) and "fields" in parsed
