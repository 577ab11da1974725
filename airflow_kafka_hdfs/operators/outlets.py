"""Which assets an ingestion reads and writes, and the events that tell of its commits.

Airflow sends an event for every outlet that a task has when it succeeds. So `publish` declares all its outlets for the
DAG's sake, and when it runs leaves only those that the commits at hand really changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from airflow_kafka_hdfs.assets import (
    dataset_asset,
    dataset_uri,
    is_template,
    partition_asset,
    partition_key,
    topic_asset,
)
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.records import Commit, sum_counts
from airflow_kafka_hdfs.ingest.selection import TopicKey

if TYPE_CHECKING:
    from airflow_kafka_hdfs.ingest.config import IngestConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAssets:
    """The assets of one ingestion.

    Attributes:
        topics: their names, None if they are known only at run time.
        base: the dataset URI below which each topic has its folder.
        cluster: the cluster's name in asset URIs.
        pipeline: names the alias through which datasets of late topics get their events.
        granularity: of time folders; by topic where it differs.
        silent: topics without partition events, `*` for those that nobody names.
        overrides: of that, where topics are known only at run time: whether the topics of a key are silent, in the
            order in which they are applied.
    """

    topics: tuple[str, ...] | None
    base: str
    cluster: str
    pipeline: str
    granularity: Mapping[str, str]
    silent: frozenset[str]
    overrides: tuple[tuple[TopicKey, bool], ...] = ()

    @classmethod
    def of(cls, config: IngestConfig, *, topics: Sequence[str] | None) -> JobAssets:
        """From arguments alone.

        Args:
            config: what is known when the DAG file is read.
            topics: names that are known then, None if there are none.
        """
        base = config.base
        settings = {topic: config.topic(topic) for topic in topics or ()}
        silent = {topic for topic, own in settings.items() if own.emit_partitions == "none"}
        if base.emit_partitions == "none":
            silent.add("*")
        return cls(
            topics=None if topics is None else tuple(topics),
            base=config.dataset_uri or dataset_uri(config.destination, config.storage_conn_id),
            cluster=config.cluster or config.kafka_conn_id,
            pipeline=config.pipeline,
            granularity={
                "*": base.config.granularity.value,
                **{topic: own.config.granularity.value for topic, own in settings.items()},
            },
            silent=frozenset(silent),
            overrides=tuple(
                (override.key, override.values["emit_partitions"] == "none")
                for override in config.overrides
                if topics is None and "emit_partitions" in override.values
            ),
        )

    @property
    def alias(self) -> AssetAlias:
        """Stands for the datasets of topics that are known only at run time."""
        return AssetAlias(name=self.pipeline)

    def dataset(self, topic: str) -> Asset:
        """The files of a topic."""
        return dataset_asset(self.base, topic)

    def partitions(self, topic: str) -> Asset | None:
        """Where the changed time partitions of a topic are told, None if they are not."""
        if self.topics is None:
            told = [silent for key, silent in self.overrides if key.matches(topic)]
            return None if (told[-1] if told else "*" in self.silent) else self.shared
        return None if topic in self.silent else partition_asset(self.base, topic, self.granularity[topic])

    @property
    def shared(self) -> Asset | None:
        """Where all topics that are known only at run time tell their partitions, None if none of them does."""
        speaks = "*" not in self.silent or not all(silent for _, silent in self.overrides)
        return partition_asset(self.base, None, self.granularity["*"]) if speaks else None

    def key(self, topic: str, first_moment: str) -> str:
        """The key of a time partition in events."""
        return partition_key(first_moment, topic if self.topics is None else None)

    def knows(self, topic: str) -> bool:
        """Whether events of a topic can be sent: an asset must be declared when the DAG file is read."""
        return self.topics is None or topic in self.topics

    def inlets(self) -> list[Asset]:
        """Topics, as far as they are known when the DAG file is read."""
        return [topic_asset(topic, self.cluster) for topic in self.topics or ()]

    def lineage_pairs(self, topics: Iterable[str]) -> list[tuple[str, str]]:
        """(source URI, target URI) as lineage reads them: each topic feeds its own dataset and no other.

        Args:
            topics: those that have data, or may have some.
        """
        pairs = [(topic_asset(topic, self.cluster).uri, self.dataset(topic).uri) for topic in sorted(set(topics))]
        if self.topics is None and self.shared is not None:
            # All topics tell their partitions there; it is no dataset that anything flows into.
            pairs.append(("", self.shared.uri))
        return pairs

    def outlets(self) -> list[Asset | AssetAlias]:
        """Everything that may get an event."""
        if self.topics is None:
            return [self.alias, *([self.shared] if self.shared else [])]
        pairs = ((self.dataset(topic), self.partitions(topic)) for topic in self.topics)
        return [asset for pair in pairs for asset in pair if asset is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNews:
    """What one commit changed of one topic.

    Attributes:
        extra: of its event: number, kind, counts and late records.
        moments: first moments of the time partitions that it touched.
    """

    topic: str
    extra: Mapping[str, Any]
    moments: frozenset[str]


def news_of(commit: Commit, replaced: Mapping[str, str | None]) -> list[TopicNews]:
    """What a commit has to tell, per topic.

    Args:
        replaced: path -> time partition of the files that it supersedes.
    """
    result = []
    for topic in commit.datasets:
        files = [entry for entry in commit.files if entry.topic == topic and not entry.quarantine]
        gone = [item for item in commit.superseded if item.topic == topic]
        counts = sum_counts(change.counts for change in commit.changes if change.key.topic == topic)
        extra = {
            "n": commit.number,
            "kind": commit.kind.value,
            "counts": {
                **wire.to_plain(counts),
                "files": len(files),
                "bytes": sum(entry.size for entry in files),
                "superseded": len(gone),
            },
            "late": sum(entry.late for entry in files),
        }
        moments = {entry.time_partition for entry in files} | {replaced.get(item.path) for item in gone}
        result.append(TopicNews(topic=topic, extra=extra, moments=frozenset(filter(None, moments))))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What `send` handed to Airflow.

    Attributes:
        outlets: the outlets that the task keeps.
        unknown: topics whose dataset is no outlet of the job any more, so that no event can be sent.
        probe: one asset (or the alias) and the number in the `extra` of its event: that event proves later that all
            were stored, since Airflow stores the events of a task in one transaction.
    """

    outlets: tuple[Asset | AssetAlias, ...]
    unknown: tuple[str, ...]
    probe: dict[str, Any] | None


def send(events: Any, assets: JobAssets, news: Iterable[TopicNews]) -> Sent:
    """Fill in the outlet events of a running task.

    A dataset gets one event, however many commits it tells of: that of the newest, with the older ones listed in
    `recovered`. A partition asset gets one for each time partition, with the same `extra`.

    Args:
        events: `context["outlet_events"]`.
        news: of all commits whose events are owed, oldest first.
    """
    by_topic: dict[str, list[TopicNews]] = {}
    for item in news:
        by_topic.setdefault(item.topic, []).append(item)
    outlets: list[Asset | AssetAlias] = []
    unknown = [topic for topic in sorted(by_topic) if not assets.knows(topic)]
    for topic in sorted(by_topic.keys() - set(unknown)):
        items = by_topic[topic]
        extra = {"pipeline": assets.pipeline, "topic": topic, **items[-1].extra}
        if len(items) > 1:
            extra["recovered"] = [dict(item.extra) for item in items[:-1]]
        dataset, partitions = assets.dataset(topic), assets.partitions(topic)
        if assets.topics is None:
            events[assets.alias].add(dataset, extra=extra)
            _add(outlets, assets.alias)
        else:
            events[dataset].extra = extra
            _add(outlets, dataset)
        keys = sorted({assets.key(topic, moment) for item in items for moment in item.moments})
        if partitions is not None and keys:
            events[partitions].add_partitions(keys)
            # Topics that share the asset share the extra too, so it names no topic then.
            events[partitions].extra = extra if assets.topics is not None else _shared(assets, by_topic)
            _add(outlets, partitions)
    return Sent(outlets=tuple(outlets), unknown=tuple(unknown), probe=_probe(assets, by_topic))


def needs_run_time(topics: object) -> bool:
    """Whether topics are known only at run time: a filter, Jinja, or the output of another task."""
    if isinstance(topics, list | tuple):
        return any(map(needs_run_time, topics))
    return not isinstance(topics, str) or is_template(topics)


def _probe(assets: JobAssets, by_topic: Mapping[str, Sequence[TopicNews]]) -> dict[str, Any] | None:
    newest = [items[-1] for topic, items in sorted(by_topic.items()) if assets.knows(topic)]
    if not newest:
        return None
    item = max(newest, key=lambda item: item.extra["n"])
    if assets.topics is None:
        return {"alias": assets.alias.name, "n": item.extra["n"]}
    dataset = assets.dataset(item.topic)
    return {"name": dataset.name, "uri": dataset.uri, "n": item.extra["n"]}


def _shared(assets: JobAssets, by_topic: Mapping[str, Sequence[TopicNews]]) -> dict[str, Any]:
    """What the commits did to all topics together: that of the newest commit, older ones in `recovered`."""
    commits: dict[int, dict[str, Any]] = {}
    for item in (item for items in by_topic.values() for item in items):
        extra = item.extra
        told = commits.setdefault(extra["n"], {"n": extra["n"], "kind": extra["kind"], "counts": {}, "late": 0})
        told["late"] += extra["late"]
        for name, value in extra["counts"].items():
            told["counts"][name] = told["counts"].get(name, 0) + value
    *older, newest = (commits[n] for n in sorted(commits))
    return {"pipeline": assets.pipeline, **newest, **({"recovered": older} if older else {})}


def _add(outlets: list[Asset | AssetAlias], asset: Asset | AssetAlias) -> None:
    if asset not in outlets:
        outlets.append(asset)
