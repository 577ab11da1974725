"""The arguments of an ingestion: their names and types, and how operators keep those that are never templated."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict

from airflow_kafka_hdfs.ingest.selection import TopicFilter


class TopicArguments(TypedDict, total=False):
    """What may differ per topic (`topic_overrides`).

    Attributes:
        value_format: how values are read: `bytes`, `string`, `json`, `avro` (bare datum, needs `schema`), `avro_id16`,
            `avro_confluent`, or a decoder class or callable.
        schema: fixed Avro schema (path of an `.avsc` file, mapping or JSON text).
        converters: `convert(record) -> None | value | list`, in order; None filters the record.
        convert_schema: Avro schema of what the converters return.
        time_field: dotted path of the event time; None for Kafka's timestamp.
        time_unit: of the time field: `s`, `ms`, `us`, `ns` or `iso`.
        granularity: of time folders: `minutely`, `hourly`, `daily`, `monthly`, `yearly`.
        path_pattern: Java-style pattern of time folders; from granularity if not given.
        timezone: of time folders, an IANA name.
        on_bad_time: `quarantine`, `kafka_time` or `fail` for a missing or absurd event time.
        time_bounds: (earliest, latest) good event time; latest may be a timedelta after the plan's clock.
        partition_fields: fields whose values become folders.
        path_template: order of `{topic}`, `{fields}` and `{time}`.
        file_format: `avro`, `parquet`, `jsonl` or `raw`.
        codec: compression of files.
        max_file_bytes: size at which a file is closed and the next one begun.
        max_file_records: likewise in records.
        raw_framing: `newline` or `length` for `raw` files.
        file_mode: permission bits of files.
        dir_mode: permission bits of folders.
        bootstrap: where an unknown topic starts: `earliest`, `latest`, `skip`, a datetime, a timedelta back. Templated.
        on_out_of_range: `earliest`, `latest`, `nearest`, `skip` or `fail` when Kafka no longer holds wanted offsets.
        on_topic_recreated: `earliest`, `latest` or `fail` when a topic has a new topic id.
        on_null: `fail`, `skip` or `write` null values.
        include_key: add the column `_kafka_key`.
        include_headers: add the column `_kafka_headers`.
        include_kafka_metadata: add topic, partition, offset, timestamp and its type as columns.
        max_bad_records: bad records a topic may have in one run.
        max_bad_share: likewise as a share of the records read.
        on_schema_change: `new_file`, `resolve` or `fail` when a folder gets several writer schemas.
        time_limit: after which a task stops reading; seconds or timedelta. Templated.
        record_limit: records after which a task stops reading. Templated.
        byte_limit: bytes of values after which a task stops reading. Templated.
        rate_limit: records per second and task. Templated.
        emit_partitions: `touched` or `none`: events of partition assets.
    """

    value_format: str | type | Callable[..., Any]
    schema: str | Mapping[str, Any] | None
    converters: Sequence[Callable[..., Any]]
    convert_schema: str | Mapping[str, Any] | None
    time_field: str | None
    time_unit: Literal["s", "ms", "us", "ns", "iso"]
    granularity: Literal["minutely", "hourly", "daily", "monthly", "yearly"]
    path_pattern: str | None
    timezone: str
    on_bad_time: Literal["quarantine", "kafka_time", "fail"]
    time_bounds: tuple[Any, Any] | None
    partition_fields: Sequence[str]
    path_template: str
    file_format: Literal["avro", "parquet", "jsonl", "raw"]
    codec: str | None
    max_file_bytes: int
    max_file_records: int | None
    raw_framing: Literal["newline", "length"]
    file_mode: int | str | None
    dir_mode: int | str | None
    bootstrap: str | datetime | timedelta
    on_out_of_range: Literal["earliest", "latest", "nearest", "skip", "fail"]
    on_topic_recreated: Literal["earliest", "latest", "fail"]
    on_null: Literal["fail", "skip", "write"]
    include_key: bool
    include_headers: bool
    include_kafka_metadata: bool
    max_bad_records: int | None
    max_bad_share: float | None
    on_schema_change: Literal["new_file", "resolve", "fail"]
    time_limit: float | str | timedelta | None
    record_limit: int | str | None
    byte_limit: int | str | None
    rate_limit: float | str | None
    emit_partitions: Literal["touched", "none"]


class JobArguments(TopicArguments, total=False):
    """All arguments of an ingestion.

    Attributes:
        topics: names, or a `TopicFilter`; text with Jinja is split at commas at run time. Templated.
        destination: URI of the folder that gets the data. Templated.
        pipeline_id: name of the state; by default `<dag_id>.<group_id>`.
        state_uri: where the records of the commit log go; by default a hidden folder of the destination. Templated.
        kafka_conn_id: Airflow connection of type `kafka`.
        storage_conn_id: connection of the destination; by default one by scheme.
        registry: connection id, URL or folder of schemas.
        cluster: the cluster's name in asset URIs; by default the Kafka connection id.
        dataset_uri: the destination's name in asset URIs; by default made from it.
        topic_overrides: topic or regex -> arguments that differ.
        max_tasks: most mapped tasks of a run.
        target_task_bytes: bytes that make another task worth it.
        packing: `bi_level` or `single_level`.
        split: whether oversized ranges are split over tasks.
        publish_policy: `full`, `successful` or `partial`.
        mirror_group: consumer group that gets our offsets, for lag tools only.
        kafka_config: client settings on top of the connection.
        gc_grace: age below which left-overs are not cleaned away.
    """

    topics: Required[Sequence[str] | TopicFilter | str]
    destination: Required[str]
    pipeline_id: str | None
    state_uri: str | None
    kafka_conn_id: str
    storage_conn_id: str | None
    registry: str | None
    cluster: str | None
    dataset_uri: str | None
    topic_overrides: Mapping[str, TopicArguments]
    max_tasks: int
    target_task_bytes: int
    packing: Literal["bi_level", "single_level"]
    split: bool
    publish_policy: Literal["full", "successful", "partial"]
    mirror_group: str | None
    kafka_config: Mapping[str, Any]
    gc_grace: float | timedelta


TEMPLATED = (
    "topics",
    "destination",
    "state_uri",
    "bootstrap",
    "time_limit",
    "record_limit",
    "byte_limit",
    "rate_limit",
)
"""Rendered by Airflow; operators keep them as attributes of their own."""

JOB_ARGUMENTS = frozenset(TopicArguments.__annotations__) | frozenset(JobArguments.__annotations__)
FIXED = JOB_ARGUMENTS - frozenset(TEMPLATED)
"""Never rendered: Airflow would call callables among them."""

_CREDENTIALS = re.compile(r"://[^/@\s']*@")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DAG_FILE_PREFIX = re.compile(r"^unusual_prefix_[0-9a-f]+_")


@dataclass(frozen=True, slots=True, repr=False)
class FixedArguments:
    """The arguments of one ingestion that are never templated, as its operators carry them.

    Airflow writes the repr of what a mapped operator is given into the serialised DAG, so it must be the same in every
    process: no addresses, no order of sets.

    Attributes:
        values: what was given, by name.
        group: id of the task group, empty for hand-wired operators outside of one.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    group: str | None = None

    @classmethod
    def take(cls, arguments: dict[str, Any], fixed: FixedArguments | None = None) -> FixedArguments:
        """Move the fixed arguments out of a mapping of keyword arguments, on top of those gathered before."""
        fixed = fixed or cls()
        values = {name: arguments.pop(name) for name in sorted(FIXED & arguments.keys())}
        return cls({**fixed.values, **values}, fixed.group)

    def with_defaults(self, defaults: Mapping[str, Any]) -> FixedArguments:
        """The same with what an Airflow `default_args` adds."""
        return FixedArguments({**{k: v for k, v in defaults.items() if k in FIXED}, **self.values}, self.group)

    def __repr__(self) -> str:
        shown = {**self.values}
        if config := shown.get("kafka_config"):
            shown["kafka_config"] = sorted(config)  # names alone: values may be secrets
        inner = ", ".join(f"{name}={stable_text(value)}" for name, value in sorted(shown.items()))
        return f"FixedArguments({_CREDENTIALS.sub('://***@', inner)})"


def stable_text(value: Any) -> str:
    """A text of any value that is equal in every process."""
    if isinstance(value, functools.partial):
        return f"partial({stable_text(value.func)}, {stable_text(list(value.args))}, {stable_text(value.keywords)})"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.MethodType):
        return f"{_DAG_FILE_PREFIX.sub('', value.__module__ or '')}:{value.__qualname__}"
    if isinstance(value, Mapping):
        pairs = sorted((stable_text(key), stable_text(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(stable_text, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(stable_text, value)) + "]"
    return _ADDRESS.sub("", repr(value))
