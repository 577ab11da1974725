"""Settings that are fine each and make no sense together; refused before a run does anything.

What needs the schemas of topics (names of `include_*` columns that clash) is looked at by planning, in `schemas`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest.choices import PATTERNS, Codec, FileFormat, OnNull, OnSchemaChange, ValueFormat
from airflow_kafka_hdfs.ingest.placing import parse_template
from airflow_kafka_hdfs.ingest.settings import TopicConfig
from airflow_kafka_hdfs.ingest.timepath import parse_pattern

CODECS: Mapping[FileFormat, tuple[Codec, ...]] = MappingProxyType(
    {
        FileFormat.AVRO: (Codec.SNAPPY, Codec.ZSTANDARD, Codec.DEFLATE, Codec.NULL),
        FileFormat.PARQUET: (Codec.SNAPPY, Codec.ZSTANDARD, Codec.GZIP, Codec.NULL),
        FileFormat.JSONL: (Codec.NULL, Codec.GZIP, Codec.ZSTANDARD),
        FileFormat.RAW: (Codec.NULL, Codec.GZIP, Codec.ZSTANDARD),
    }
)
"""Codecs of each file format."""


def check(config: TopicConfig, *, has_registry: bool) -> None:
    """Refuse settings of one topic that contradict each other.

    Args:
        config: the settings.
        has_registry: whether a schema registry is configured.

    Raises:
        ConfigError: the first contradiction found.
    """
    if config.value_format.is_framed and not has_registry:
        raise ConfigError(
            "registry",
            None,
            "a connection id, an http(s) URL, or the URI of a folder of .avsc files",
            f"value_format {config.value_format.value!r} reads schema ids that only a registry can tell",
        )
    for rule in _RULES:
        rule(config)


def _codec(config: TopicConfig) -> None:
    allowed = [codec.value for codec in CODECS[config.file_format]]
    if config.codec not in allowed:
        raise ConfigError("codec", config.codec.value, allowed, f"file_format is {config.file_format.value!r}")


def _schema(config: TopicConfig) -> None:
    resolves = config.on_schema_change is OnSchemaChange.RESOLVE
    if config.value_format is ValueFormat.AVRO and config.schema is None:
        raise ConfigError("schema", None, "an Avro schema", "value_format 'avro' reads bare datums of that schema")
    if resolves and not config.value_format.is_framed:
        raise ConfigError(
            "on_schema_change",
            config.on_schema_change.value,
            "new_file, fail",
            f"value_format {config.value_format.value!r} has no writer schemas to resolve",
        )
    if config.schema is not None and config.value_format is not ValueFormat.AVRO and not resolves:
        raise ConfigError(
            "schema",
            "a schema",
            "None",
            "only value_format 'avro' and on_schema_change 'resolve' use it; convert_schema is for converters",
        )


def _convert_schema(config: TopicConfig) -> None:
    converts = config.converters or config.decoder is not None
    if config.convert_schema is not None and not converts:
        raise ConfigError("convert_schema", "a schema", "None without converters and without a decoder of yours")
    if (
        config.value_format is ValueFormat.CUSTOM
        and config.convert_schema is None
        and config.file_format in (FileFormat.AVRO, FileFormat.PARQUET)
    ):
        raise ConfigError(
            "convert_schema",
            None,
            "an Avro schema",
            f"what a decoder of yours returns can't be written as {config.file_format.value!r} without one",
        )


def _raw(config: TopicConfig) -> None:
    if config.file_format is FileFormat.RAW and config.includes:
        raise ConfigError("file_format", "raw", "avro, parquet, jsonl", "raw files have no columns for include_*")


def _fields(config: TopicConfig) -> None:
    if not config.value_format.is_plain or config.converters:
        return
    for key, value in (("time_field", config.time_field), ("partition_fields", config.partition_fields)):
        if value:
            hint = f"values of value_format {config.value_format.value!r} have no fields"
            raise ConfigError(key, value, "None" if key == "time_field" else "[]", hint)


def _null(config: TopicConfig) -> None:
    if config.on_null is not OnNull.WRITE:
        return
    hint = ""
    if config.file_format is FileFormat.RAW:
        hint = "a null value can't be told from an empty one in a raw file"
    elif config.file_format is not FileFormat.JSONL and (target := _target_schema(config)) is not None:
        hint = "" if is_nullable(json.loads(target)) else "the schema of the files does not allow null"
    elif config.file_format is not FileFormat.JSONL and (config.value_format.is_avro or config.converters):
        hint = "values keep the schema that they were written with, which null does not fit"
    if hint:
        raise ConfigError("on_null", "write", "fail, skip", hint)


def _target_schema(config: TopicConfig) -> str | None:
    """The one schema of the files, where settings alone tell it."""
    return config.convert_schema or config.schema


def is_nullable(schema: Any) -> bool:
    """Whether null is a value of an Avro schema, given as plain JSON values."""
    if isinstance(schema, list):
        return any(is_nullable(branch) for branch in schema)
    return schema == "null" or (isinstance(schema, Mapping) and schema.get("type") == "null")


def _template(config: TopicConfig) -> None:
    key, template = "path_template", parse_template(config.path_template)
    if [name for name, _ in template.parts].count("topic") != 1:
        hint = "without {topic} several topics share a folder, twice it says nothing new"
        raise ConfigError(key, template.text, "a path with {topic} in one place", hint)
    if config.partition_fields and not template.has_fields:
        raise ConfigError(key, template.text, "a path with {fields}", "partition_fields need their place")


def _pattern(config: TopicConfig) -> None:
    pattern = parse_pattern(config.path_pattern)
    if pattern.granularity is not config.granularity:
        raise ConfigError(
            "path_pattern",
            config.path_pattern,
            f"a pattern whose folders are {config.granularity.value}, such as {PATTERNS[config.granularity]}",
            f"granularity is {config.granularity.value!r}, the folders of this pattern are {pattern.granularity.value}",
        )


_RULES: tuple[Callable[[TopicConfig], None], ...] = (
    _codec,
    _schema,
    _convert_schema,
    _raw,
    _fields,
    _null,
    _template,
    _pattern,
)
