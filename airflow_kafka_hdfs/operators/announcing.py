"""After a commit: whether its events were stored, and copies of watermarks for people and lag tools."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.finishing import Finished
from airflow_kafka_hdfs.ingest.publishing import announce
from airflow_kafka_hdfs.ingest.records import Commit
from airflow_kafka_hdfs.model import TopicPartition
from airflow_kafka_hdfs.operators.outlets import JobAssets

if TYPE_CHECKING:
    from airflow.sdk import Context as AirflowContext

log = logging.getLogger(__name__)

WATERMARKS_KEY = "kafka_hdfs.watermarks"
"""Key in the state store of a dataset's asset: `{"pipeline", "commit", "offsets": {partition: next offset}}`."""

_EVENTS_LOOKED_AT = 100
"""Newest events of one asset among which the run's own must be; other runs may have sent some meanwhile."""


def replaced_partitions(ctx: Context, commits: Iterable[Commit]) -> dict[str, str | None]:
    """Path -> time partition of the files that commits supersede, looked up in the commits that listed them."""
    numbers = sorted({item.commit for commit in commits for item in commit.superseded})
    listed = {entry.path: entry.time_partition for commit, _ in ctx.log.records(numbers) for entry in commit.files}
    return {item.path: listed.get(item.path) for commit in commits for item in commit.superseded}


def confirm_events(ctx: Context, told: Mapping[str, Any] | None) -> list[int]:
    """Mark commits as announced if their events are stored.

    The state of `publish` proves nothing: people may set it. Only the events do.

    Args:
        told: what `publish` returned, None if it returned nothing.

    Returns:
        Numbers of the commits that were marked; the others get their events again.
    """
    if not told or not told["announced"]:
        return []
    if told["probe"] is not None and not _is_stored(ctx, told["probe"]):
        log.warning("events of commits %s are not stored: the next run sends them again", told["announced"])
        return []
    announce(ctx, told["announced"])
    return list(told["announced"])


def _is_stored(ctx: Context, probe: Mapping[str, Any]) -> bool:
    # Airflow offers events of inlets alone through the context; the gate must not count as a reader of the dataset.
    from airflow.sdk.execution_time.context import InletEventsAccessors

    asset: Asset | AssetAlias = (
        AssetAlias(name=probe["alias"]) if "alias" in probe else Asset(name=probe["name"], uri=probe["uri"])
    )
    events = InletEventsAccessors([asset])[asset].ascending(False).limit(_EVENTS_LOOKED_AT)
    return any(
        event.source_dag_id == ctx.run.dag_id
        and event.source_run_id == ctx.run.run_id
        and extra.get("pipeline") == ctx.pipeline
        and extra.get("n", -1) >= probe["n"]
        for event in events
        if (extra := event.extra or {})
    )


def mirror_watermarks(context: AirflowContext, assets: JobAssets, config: IngestConfig, done: Finished) -> None:
    """Copy the watermarks of the topics that commits changed: to the assets' state, and to a group if one is named.

    Commits that this attempt only found count too: the copies of whoever made them may never have been written. Nobody
    decides by the copies, so trouble is logged and nothing more.
    """
    commits = {commit.number: commit for commit in (*done.to_announce, *done.recovered, *done.own)}
    offsets: dict[TopicPartition, int] = {}
    topics = done.view.state.topics
    for topic in sorted({change.key.topic for commit in commits.values() for change in commit.changes}):
        known = topics.get(topic, {})
        marks = {partition: done.view.state.coverage[key].watermark for partition, key in sorted(known.items())}
        offsets |= {TopicPartition(topic, partition): mark for partition, mark in marks.items()}
        if marks and assets.topics is not None and assets.knows(topic):
            value: Any = {
                "pipeline": assets.pipeline,
                "commit": max(n for n, commit in commits.items() if any(c.key.topic == topic for c in commit.changes)),
                "offsets": {str(partition): mark for partition, mark in marks.items()},
            }
            try:
                context["asset_state_store"][assets.dataset(topic)].set(WATERMARKS_KEY, value)
            except Exception as error:  # noqa: BLE001 - whatever the API server says, the data are committed
                log.warning("watermarks of %s could not be copied to its asset: %s", topic, error)
    if config.mirror_group is not None and offsets:
        from airflow_kafka_hdfs.operators.ports import open_mirror

        open_mirror(config, config.mirror_group).copy(offsets)
