"""Which topics a pipeline reads: a list of names, or regexes over what the cluster has."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest import arguments as args
from airflow_kafka_hdfs.ingest import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFilter:
    """Topics by regexes, matched against whole names without regard to case; `deny` wins.

    Args:
        allow: regexes of topics to read; everything by default.
        deny: regexes of topics to leave out.

    Raises:
        ConfigError: a regex that does not compile, or no list.
    """

    allow: tuple[str, ...] = (".*",)
    deny: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("allow", "deny"):
            patterns = args.texts(f"topics.{name}", getattr(self, name), "regexes")
            for pattern in patterns:
                args.regex(f"topics.{name}", pattern)
            object.__setattr__(self, name, patterns)  # a list is welcome, a tuple is kept
        if not self.allow:
            raise ConfigError("topics.allow", [], "at least one regex", "allow=['.*'] reads every topic")

    def matches(self, topic: str) -> bool:
        """Whether a topic is to be read."""
        allowed, denied = _compiled(self.allow), _compiled(self.deny)
        return any(p.fullmatch(topic) for p in allowed) and not any(p.fullmatch(topic) for p in denied)


Topics = tuple[str, ...] | TopicFilter
"""The `topics` argument in its normal form."""


def topics_of(value: object) -> Topics:
    """The `topics` argument. Raises ConfigError."""
    if isinstance(value, TopicFilter):
        return value
    names = args.texts("topics", value, "topic names")
    if not names:
        raise ConfigError("topics", value, "at least one topic name, or a TopicFilter")
    return tuple(args.topic_name("topics", name) for name in names)


def is_selected(topics: Topics, topic: str) -> bool:
    """Whether the argument asks for a topic."""
    return topics.matches(topic) if isinstance(topics, TopicFilter) else topic in topics


def topics_digest(topics: Topics) -> str:
    """Tells whether the argument is the same as before, whatever the cluster has; order does not matter."""
    if isinstance(topics, TopicFilter):
        return wire.canonical_digest({"allow": sorted(topics.allow), "deny": sorted(topics.deny)})
    return wire.canonical_digest(sorted(topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKey:
    """A key of `topic_overrides` or `reset`: a topic's name, or a regex over names.

    A key made of the letters of topic names alone is a name, so that `a.b` never means `aXb`. Anything else is a regex,
    matched against whole names without regard to case.
    """

    text: str

    @classmethod
    def of(cls, key: str, value: object) -> TopicKey:
        """From what a user wrote, as a key of argument `key`. Raises ConfigError."""
        written = args.text(key, value)
        if not args.is_topic_name(written):
            args.regex(key, written)
        return cls(text=written)

    @property
    def is_name(self) -> bool:
        """Whether it names one topic."""
        return args.is_topic_name(self.text)

    def matches(self, topic: str) -> bool:
        """Whether it stands for a topic."""
        if self.is_name:
            return self.text == topic
        return _compiled((self.text,))[0].fullmatch(topic) is not None


def refuse_unmatched(key: str, topic_key: TopicKey, topics: Topics) -> None:
    """Refuse a key that can match nothing that the pipeline reads: most likely a slip of the pen.

    Raises:
        ConfigError: with the nearest name.
    """
    if isinstance(topics, TopicFilter):
        if topic_key.is_name and not topics.matches(topic_key.text):
            raise ConfigError(key, topic_key.text, "topics that the filter matches, or a regex")
    elif not any(map(topic_key.matches, topics)):
        raise args.unknown(key, topic_key.text, topics)


def by_specificity(keys: Iterable[TopicKey]) -> list[TopicKey]:
    """Keys in the order in which they are applied: regexes as given, then names, so that a name has the last word."""
    return sorted(keys, key=lambda topic_key: topic_key.is_name)


def pick(choices: Mapping[TopicKey, str], topic: str) -> str | None:
    """The value of the last key that stands for a topic, None if none does."""
    found = [choices[topic_key] for topic_key in by_specificity(choices) if topic_key.matches(topic)]
    return found[-1] if found else None


@functools.lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(args.regex("regex", pattern) for pattern in patterns)
