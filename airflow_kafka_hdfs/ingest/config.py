"""The configuration of one pipeline, from the plain arguments of the task group and its operators.

`IngestConfig.of` takes arguments as a user wrote them, refuses what can't work, and answers for each topic with its
settings after `topic_overrides`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest import arguments as args
from airflow_kafka_hdfs.ingest import combinations, wire
from airflow_kafka_hdfs.ingest.choices import PackingMethod
from airflow_kafka_hdfs.ingest.committing import CommitPolicy, PublishPolicy
from airflow_kafka_hdfs.ingest.layout import ROOT, DataPaths, escape
from airflow_kafka_hdfs.ingest.selection import (
    TopicKey,
    Topics,
    by_specificity,
    refuse_unmatched,
    topics_digest,
    topics_of,
)
from airflow_kafka_hdfs.ingest.settings import DEFAULTS, Limits, TopicSettings, limits_of, topic_settings

PIPELINE_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "state_uri": None,
        "kafka_conn_id": "kafka_default",
        "storage_conn_id": None,
        "registry": None,
        "cluster": None,
        "dataset_uri": None,
        "topic_overrides": MappingProxyType({}),
        "max_tasks": 20,
        "target_task_bytes": 1024**3,
        "packing": "bi_level",
        "split": True,
        "publish_policy": "full",
        "mirror_group": None,
        "kafka_config": MappingProxyType({}),
        "gc_grace": timedelta(hours=24),
    }
)
"""Arguments that hold for the whole pipeline, with their defaults; `topics`, `destination` and `pipeline_id` must be
given."""

REQUIRED = ("topics", "destination", "pipeline_id")
_LIMITS = ("time_limit", "record_limit", "byte_limit", "rate_limit")
_MODES = ("file_mode", "dir_mode")
_URI = re.compile(r"[a-z][a-z0-9+.\-]*://[^\s{}]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingConfig:
    """How much a task gets.

    Attributes:
        max_tasks: at most so many mapped tasks.
        target_task_bytes: a run makes one task per so many bytes.
        method: how work units are laid into tasks.
        split: cut work units that are too large for one task.
    """

    max_tasks: int = 20
    target_task_bytes: int = 1024**3
    method: PackingMethod = PackingMethod.BI_LEVEL
    split: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """One entry of `topic_overrides`: arguments that differ for the topics of a key."""

    key: TopicKey
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestConfig:
    """Everything that is set for a pipeline.

    Attributes:
        state_uri: None for the default, `state_root`.
        cluster, dataset_uri: names in asset URIs; None where they follow from the connection and the destination.
        registry: hidden from `repr`, since a URL may hold a user's token.
        kafka_config: hidden from `repr`, since its values may be secrets.
        limits: of a task.
        gc_grace: how long what is of no use any more is kept.
        digest: changes when anything changes that a plan pins, or what it reads and how it is packed; not with
            limits, `publish_policy`, `max_bad_*` and the choice of start points.
    """

    pipeline: str
    topics: Topics
    destination: str
    state_uri: str | None
    kafka_conn_id: str
    storage_conn_id: str | None
    registry: str | None = field(repr=False)
    cluster: str | None
    dataset_uri: str | None
    packing: PackingConfig
    limits: Limits
    publish_policy: PublishPolicy
    mirror_group: str | None
    kafka_config: Mapping[str, Any] = field(repr=False)
    gc_grace: timedelta
    base: TopicSettings
    overrides: tuple[Override, ...]
    digest: str
    _arguments: Mapping[str, Any] = field(repr=False, compare=False)
    _made: dict[tuple[int, ...], TopicSettings] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def of(cls, arguments: Mapping[str, Any], *, max_map_length: int | None = None) -> IngestConfig:
        """The configuration from arguments as a user wrote them; those left out take their defaults.

        Args:
            arguments: by name, `topics`, `destination` and `pipeline_id` among them.
            max_map_length: Airflow's `[core] max_map_length`, where it is known.

        Raises:
            ConfigError: an argument that is unknown or not allowed, or several that contradict each other.
        """
        given = _complete(arguments)
        topic_arguments = {name: given[name] for name in DEFAULTS}
        base = topic_settings(topic_arguments, Limits())
        registry = _registry(given["registry"])
        combinations.check(base.config, has_registry=registry is not None)
        topics = topics_of(given["topics"])
        packing = _packing(given, max_map_length)
        destination = _uri("destination", given["destination"])
        pipeline = args.text("pipeline_id", given["pipeline_id"])
        DataPaths(pipeline)  # refuses reserved names
        config = cls(
            pipeline=pipeline,
            topics=topics,
            destination=destination,
            state_uri=None if given["state_uri"] is None else _uri("state_uri", given["state_uri"]),
            kafka_conn_id=args.text("kafka_conn_id", given["kafka_conn_id"]),
            storage_conn_id=args.optional_text("storage_conn_id", given["storage_conn_id"]),
            registry=registry,
            cluster=args.optional_text("cluster", given["cluster"]),
            dataset_uri=None if given["dataset_uri"] is None else _uri("dataset_uri", given["dataset_uri"]),
            packing=packing,
            limits=limits_of(given),
            publish_policy=cast(
                "PublishPolicy",
                args.word("publish_policy", given["publish_policy"], ("full", "successful", "partial")),
            ),
            mirror_group=args.optional_text("mirror_group", given["mirror_group"]),
            kafka_config=_kafka_config(given["kafka_config"]),
            gc_grace=_grace(given["gc_grace"]),
            base=base,
            overrides=_overrides(given["topic_overrides"], topics),
            digest="",
            _arguments=topic_arguments,
        )
        object.__setattr__(config, "digest", config._digested())
        return config

    @property
    def state_root(self) -> str:
        """Where the records of the log are."""
        scheme, separator, place = self.destination.partition("://")
        return self.state_uri or f"{scheme}{separator}{place.rstrip('/')}/{ROOT}/{escape(self.pipeline)}"

    @property
    def topics_digest(self) -> str:
        """Changes with the `topics` argument alone."""
        return topics_digest(self.topics)

    def topic(self, name: str) -> TopicSettings:
        """The settings of one topic.

        Raises:
            ConfigError: several overrides that match the topic contradict each other.
        """
        return self._settings(tuple(i for i, override in enumerate(self.overrides) if override.key.matches(name)))

    def refuse_modes_of_topics(self, store: str) -> None:
        """Refuse overrides of permission bits, for a store that has none.

        Args:
            store: its root, for the text.

        Raises:
            ConfigError: there is such an override.
        """
        for override in self.overrides:
            for name in _MODES:
                if name in override.values:
                    key = f"topic_overrides[{override.key.text!r}].{name}"
                    raise ConfigError(key, override.values[name], "None", f"{store} has no permission bits")

    def commit_policy(self, topics: Iterable[str]) -> CommitPolicy:
        """What publish decides by, for a plan with these topics."""
        limits = {topic: self.topic(topic).bad_records for topic in topics}
        return CommitPolicy(
            publish=self.publish_policy,
            bad_records=self.base.bad_records,
            bad_records_of={topic: found for topic, found in limits.items() if found != self.base.bad_records},
        )

    def _settings(self, matching: tuple[int, ...]) -> TopicSettings:
        if not matching:
            return self.base
        if matching not in self._made:
            values = dict(self._arguments)
            changes: dict[str, Any] = {}
            for index in matching:
                changes.update(self.overrides[index].values)
            # Defaults that follow from another argument follow the override, not what the pipeline says.
            if "granularity" in changes:
                values["path_pattern"] = None
            if "file_format" in changes:
                values["codec"] = None
            prefix = f"topic_overrides[{self.overrides[matching[-1]].key.text!r}]"
            try:
                own_limits = limits_of({name: changes[name] for name in _LIMITS if name in changes})
                settings = topic_settings({**values, **changes}, own_limits)
                combinations.check(settings.config, has_registry=self.registry is not None)
            except ConfigError as error:
                raise error.under(prefix) from None
            self._made[matching] = settings
        return self._made[matching]

    def _digested(self) -> str:
        """Makes the settings of each override on its own, which is also how they are checked early."""
        overrides = [
            [override.key.text, wire.to_plain(self._settings((index,)).config)]
            for index, override in enumerate(self.overrides)
        ]
        return wire.canonical_digest(
            {
                "topics": self.topics_digest,
                "destination": self.destination,
                "base": wire.to_plain(self.base.config),
                "overrides": overrides,
                "packing": wire.to_plain(self.packing),
            }
        )


def _complete(arguments: Mapping[str, Any]) -> dict[str, Any]:
    known = {*REQUIRED, *PIPELINE_DEFAULTS, *DEFAULTS}
    for name in arguments:
        if name not in known:
            raise args.unknown("argument", name, known)
    for name in REQUIRED:
        if arguments.get(name) is None:
            raise ConfigError(name, None, "a value", "it must be given")
    return {**PIPELINE_DEFAULTS, **DEFAULTS, **arguments}


def _packing(given: Mapping[str, Any], max_map_length: int | None) -> PackingConfig:
    max_tasks = args.whole("max_tasks", given["max_tasks"])
    if max_map_length is not None and max_tasks > max_map_length:
        raise ConfigError(
            "max_tasks",
            max_tasks,
            f"at most {max_map_length}, which is [core] max_map_length of this Airflow",
            "lower max_tasks, or raise max_map_length",
        )
    return PackingConfig(
        max_tasks=max_tasks,
        target_task_bytes=args.whole("target_task_bytes", given["target_task_bytes"], 1024),
        method=args.choice("packing", given["packing"], PackingMethod),
        split=args.flag("split", given["split"]),
    )


def _grace(value: object) -> timedelta:
    seconds = args.seconds("gc_grace", value, zero=True)
    if seconds is None:  # no limit elsewhere, but here it would be read as no grace at all
        raise ConfigError("gc_grace", value, "a timedelta or a number of seconds; 0 keeps nothing")
    return timedelta(seconds=seconds)


def _overrides(value: object, topics: Topics) -> tuple[Override, ...]:
    if not isinstance(value, Mapping):
        raise ConfigError("topic_overrides", value, "a mapping of topic or regex to arguments")
    found = {}
    for written, values in value.items():
        topic_key = TopicKey.of("topic_overrides", written)
        refuse_unmatched("topic_overrides", topic_key, topics)
        key = f"topic_overrides[{topic_key.text!r}]"
        if not isinstance(values, Mapping):
            raise ConfigError(key, values, "a mapping of arguments")
        for name in values:
            if name in PIPELINE_DEFAULTS or name in REQUIRED:
                raise ConfigError(key, name, DEFAULTS, f"{name} holds for the whole pipeline")
            if name not in DEFAULTS:
                raise args.unknown(key, name, DEFAULTS)
            if name in _MODES and values[name] is None:
                hint = "leave it out for those of the pipeline"
                raise ConfigError(f"{key}.{name}", None, "permission bits, such as 0o750", hint)
        found[topic_key] = Override(key=topic_key, values=dict(values))
    return tuple(found[topic_key] for topic_key in by_specificity(found))


def _uri(key: str, value: object) -> str:
    allowed = "a URI such as file:///data, webhdfs://namenode:9870/data, hdfs://nameservice/data, s3://bucket/data"
    written = args.text(key, value)
    if written.startswith("/"):
        raise ConfigError(key, written, allowed, f"did you mean 'file://{written}'?")
    if not _URI.fullmatch(written):
        hint = "time partitions are made by path_template, not here" if "{" in written else ""
        raise ConfigError(key, written, allowed, hint)
    _refuse_password(key, written, allowed)
    return written


def _registry(value: object) -> str | None:
    written = args.optional_text("registry", value)
    if written is not None:
        allowed = "an id of a connection of type schema_registry, an http(s) URL, the URI of a folder of .avsc files"
        _refuse_password("registry", written, allowed)
    return written


def _refuse_password(key: str, written: str, allowed: str) -> None:
    """DAG files, logs and the serialised DAG are no places for secrets; the text tells nothing of it."""
    rest = written.partition("://")[2]
    authority = rest.partition("/")[0]
    # A password that is not quoted may hold a slash: then what stands before it looks like a port, but is no number.
    is_cut = "@" in rest and re.search(r":(?!\d*$)[^\]]*$", authority) is not None
    if ":" in authority.rpartition("@")[0] or is_cut:
        raise ConfigError(key, "a URI with a password", allowed, "credentials belong into an Airflow connection")


def _kafka_config(value: object) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return dict(value)
    raise ConfigError("kafka_config", type(value).__name__, "a mapping of librdkafka setting names to values")
