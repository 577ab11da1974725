"""Where another tool ended: a JSON file, the offsets of a consumer group, or names of the files that it wrote."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from airflow_kafka_hdfs.exceptions import ConfigError

if TYPE_CHECKING:
    from airflow_kafka_hdfs.ingest.config import IngestConfig
    from airflow_kafka_hdfs.ports.store import Store

Offsets = dict[str, Mapping[int, int]]

CONNECT_NAMES = r"(?P<topic>.+)\+(?P<partition>\d+)\+(?P<first>\d+)\+(?P<last>\d+)(\.[A-Za-z0-9.]+)?"
"""File names of Kafka Connect's HDFS sink, `topic+partition+first+last.avro`."""

MOST_HOLES = 20


def offsets_of(args: Namespace, config: IngestConfig) -> tuple[Offsets, list[str]]:
    """The first offset to read of each partition, and what people should know before they agree.

    Args:
        args: with one of `file`, `group`, `folder`.
        config: of the pipeline; of a group, only its topics count.

    Raises:
        ConfigError: none or several sources, or nothing is found there.
    """
    from airflow_kafka_hdfs.cli.steering import read_offsets
    from airflow_kafka_hdfs.hooks.kafka import KafkaSourceHook
    from airflow_kafka_hdfs.hooks.storage import store_for

    given = [name for name in ("file", "group", "folder") if getattr(args, name) is not None]
    if len(given) != 1:
        raise ConfigError("state import", given or None, "exactly one of --file, --group, --folder")
    if args.file is not None:
        return read_offsets(args.file), []
    notes: list[str] = []
    if args.group is not None:
        committed = KafkaSourceHook(config.kafka_conn_id, config.kafka_config).group_offsets(args.group)
        found: Offsets = {topic: parts for topic, parts in committed.items() if _is_ours(config, topic)}
    else:
        names = _names(store_for(args.folder, args.storage_conn_id or config.storage_conn_id), "")
        found, notes = offsets_of_names(names, args.pattern or CONNECT_NAMES)
    if not found:
        where = args.group if args.group is not None else args.folder
        raise ConfigError(f"--{given[0]}", where, "a place with offsets of this pipeline's topics", "none were found")
    return found, notes


def offsets_of_names(names: Iterable[str], pattern: str) -> tuple[Offsets, list[str]]:
    """The offset after the last one of each partition, and holes between the files.

    Args:
        names: of files, without folders; those that do not match are passed over.
        pattern: regex with the groups `topic`, `partition`, `last`, and `first` where names hold it.

    Raises:
        ConfigError: the pattern is no regex, or lacks a group.
    """
    allowed = "a regex with the groups (?P<topic>…), (?P<partition>…), (?P<last>…) and perhaps (?P<first>…)"
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError("--pattern", pattern, allowed, str(error)) from error
    if missing := {"topic", "partition", "last"} - compiled.groupindex.keys():
        raise ConfigError("--pattern", pattern, allowed, f"it lacks {', '.join(sorted(missing))}")
    spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for name in names:
        match = compiled.fullmatch(name)
        if match is not None:
            part = match.groupdict()
            last = int(part["last"])
            first = int(part["first"]) if part.get("first") is not None else last
            spans.setdefault((part["topic"], int(part["partition"])), []).append((first, last + 1))
    found: dict[str, dict[int, int]] = {}
    notes = []
    for (topic, partition), pairs in sorted(spans.items()):
        found.setdefault(topic, {})[partition] = max(end for _, end in pairs)
        if "first" in compiled.groupindex:
            notes += [f"{topic}[{partition}]: no file holds offsets {low} to {high - 1}" for low, high in _holes(pairs)]
    if len(notes) > MOST_HOLES:
        notes = [*notes[:MOST_HOLES], f"and {len(notes) - MOST_HOLES} more holes"]
    return dict(found), [f"{note}: gaps of Kafka, or files that are missing" for note in notes]


def _holes(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    from airflow_kafka_hdfs.ingest.ranges import Ranges

    have = Ranges.of(pairs)
    return list((Ranges.span(have.spans[0][0], have.spans[-1][1]) - have).spans)


def _is_ours(config: IngestConfig, topic: str) -> bool:
    from airflow_kafka_hdfs.ingest.selection import TopicFilter

    return config.topics.matches(topic) if isinstance(config.topics, TopicFilter) else topic in config.topics


def _names(store: Store, folder: str) -> Iterable[str]:
    for item in store.list(folder):
        if item.is_dir:
            yield from _names(store, item.path)
        else:
            yield item.name
