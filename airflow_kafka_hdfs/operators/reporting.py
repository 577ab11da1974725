"""What a run tells while it works and when it is done: Airflow metrics, progress, and the wish to stop.

Names of all metrics stand in `METRICS`. Plain StatsD drops tags; Datadog, Influx and OpenTelemetry keep them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from airflow.sdk.observability import stats

from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.finishing import Finished
from airflow_kafka_hdfs.ingest.planning import Planned
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.reasons import WAY, Reason
from airflow_kafka_hdfs.ingest.records import Commit, Outcome, sum_counts
from airflow_kafka_hdfs.ports.runtime import Progress, StopSignal

log = logging.getLogger(__name__)

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "kafka_hdfs.records": "counter: records written to files",
        "kafka_hdfs.bytes": "counter: bytes of files",
        "kafka_hdfs.files": "counter: data files",
        "kafka_hdfs.bad": "counter: records that went to the quarantine",
        "kafka_hdfs.filtered": "counter: records without output",
        "kafka_hdfs.late": "counter: records older than what their folder had already published",
        "kafka_hdfs.lost": "counter: offsets that Kafka no longer held",
        "kafka_hdfs.truncated": "counter: partitions whose log ended below decided offsets, each a new generation",
        "kafka_hdfs.topic_recreated": "counter: partitions that go on under a new topic id",
        "kafka_hdfs.begins_gone": "counter: partitions whose date range may have begun before what Kafka still holds",
        "kafka_hdfs.skipped": "counter: offsets that a policy jumped over",
        "kafka_hdfs.limited": "counter: units that a limit ended",
        "kafka_hdfs.failed": "counter: units that failed",
        "kafka_hdfs.held": "gauge: 1 while a topic is held back",
        "kafka_hdfs.lag": "gauge: offsets between the watermark and the end of the log, as planned",
        "kafka_hdfs.tasks": "gauge: mapped tasks of the plan (tag: pipeline alone)",
        "kafka_hdfs.plan_duration": "timing: the plan step (tag: pipeline alone)",
        "kafka_hdfs.extract_duration": "timing: one mapped task (tag: pipeline alone)",
        "kafka_hdfs.publish_duration": "timing: the publish step (tag: pipeline alone)",
        "kafka_hdfs.way.<tier>": "counter: records by the tier that took them (tag: pipeline alone)",
        "kafka_hdfs.recoded": "counter: values decoded and encoded again for another schema (tag: pipeline alone)",
        "kafka_hdfs.bad.<reason>": "counter: bad records by reason (tag: pipeline alone)",
        "kafka_hdfs.user.<name>": "what decoders and converters count: counters as counters; histograms and timers "
        "as gauges .count, .mean, .min, .max (tag: pipeline alone)",
    }
)
"""Every metric; tags are `pipeline` and `topic` where nothing else is said."""

PROGRESS_KEY = "progress"
"""Under which a running extract task writes its totals into its task state store."""


def report_plan(planned: Planned, seconds: float) -> None:
    """Metrics of the plan step, with what planning found gone or jumped over, unless an earlier attempt told it."""
    plan = planned.plan
    tags = {"pipeline": plan.pipeline}
    stats.timing("kafka_hdfs.plan_duration", seconds * 1000, tags=tags)
    stats.gauge("kafka_hdfs.tasks", len(plan.tasks), tags=tags)
    if plan.dry_run or planned.reused:
        return
    counts: Counter[tuple[str, str]] = Counter()
    for incident in planned.incidents:
        counts[incident.kind.value, incident.key.topic] += incident.offsets or 1
    for topic, offsets in planned.skipped.items():
        counts["skipped", topic] += offsets
    for entry in plan.entries:
        # What a date range can have lost is no certain number, and every backfill of old hours finds the same.
        counts["begins_gone", entry.key.topic] += entry.reason == Reason.INTERVAL_BEGINS_GONE
    for (name, topic), value in sorted(counts.items()):
        if value:
            stats.incr(f"kafka_hdfs.{name}", value, tags={**tags, "topic": topic})


def report_extract(pipeline: str, seconds: float) -> None:
    """Metrics of one mapped task; what it read is told once it is committed."""
    stats.timing("kafka_hdfs.extract_duration", seconds * 1000, tags={"pipeline": pipeline})


def report_publish(plan: Plan, done: Finished, seconds: float) -> None:
    """Metrics of the publish step: of the commit that it made, and of those that nobody is known to have told of."""
    stats.timing("kafka_hdfs.publish_duration", seconds * 1000, tags={"pipeline": plan.pipeline})
    held = {item.topic for item in (done.own[-1].held if done.own else plan.held)}
    lags = _lags(plan, done.view.state)
    for topic in sorted(lags.keys() | held):
        tags = {"pipeline": plan.pipeline, "topic": topic}
        stats.gauge("kafka_hdfs.held", int(topic in held), tags=tags)
        stats.gauge("kafka_hdfs.lag", lags.get(topic, 0), tags=tags)
    for commit in (*done.recovered, *([done.record] if done.record else [])):
        for topic in sorted({unit.topic for unit in commit.units} | set(commit.datasets)):
            _report_topic(plan.pipeline, commit, topic)
        _report_user(plan.pipeline, commit.metrics)


def _lags(plan: Plan, state: LogState) -> dict[str, int]:
    """Of every topic that was looked at."""
    lags: dict[str, int] = {}
    for entry in plan.entries:
        coverage = state.coverage.get(entry.key)
        lag = 0 if coverage is None else max(entry.log_end - coverage.watermark, 0)
        lags[entry.key.topic] = lags.get(entry.key.topic, 0) + lag
    return lags


def _report_topic(pipeline: str, commit: Commit, topic: str) -> None:
    files = [entry for entry in commit.files if entry.topic == topic and not entry.quarantine]
    counts = sum_counts(change.counts for change in commit.changes if change.key.topic == topic)
    outcomes = [unit.outcome for unit in commit.units if unit.topic == topic]
    values = {
        "records": counts.written,
        "bytes": sum(entry.size for entry in files),
        "files": len(files),
        "bad": counts.quarantined,
        "filtered": counts.filtered,
        "late": sum(entry.late for entry in files),
        "lost": counts.lost,
        "skipped": counts.skipped,
        "limited": outcomes.count(Outcome.LIMITED),
        "failed": outcomes.count(Outcome.FAILED),
    }
    for name, value in values.items():
        if value:
            stats.incr(f"kafka_hdfs.{name}", value, tags={"pipeline": pipeline, "topic": topic})


def _report_user(pipeline: str, metrics: Mapping[str, Mapping[str, Any]]) -> None:
    tags = {"pipeline": pipeline}
    for name, values in metrics.items():
        plain = stats.normalize_name_for_stats(name, log_warning=False)
        stat = plain if plain.startswith("kafka_hdfs.") else f"kafka_hdfs.user.{plain}"
        if values.get("kind") in ("counter", "meter"):
            stats.incr(stat, int(values["count"]), tags=tags)
        elif count := values.get("count"):
            for part, value in (("count", count), ("mean", values["total"] / count), *_bounds(values)):
                stats.gauge(f"{stat}.{part}", value, tags=tags)


def _bounds(values: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    return ((part, values[part]) for part in ("min", "max") if values.get(part) is not None)


class TaskStateProgress(Progress):
    """Writes the latest totals into the task state store, which Airflow's pages show while the task runs.

    The store belongs to a map index and outlives clears, so each value names its plan and task.

    Args:
        store: `context["task_state_store"]`, None where there is none.
        plan: the plan's id.
        task: number of the mapped task in it.
    """

    def __init__(self, store: Any, plan: str, task: int) -> None:
        self._store = store
        self._names = {"plan": plan, "task": task}

    def report(self, values: dict[str, Any]) -> None:
        """Write; trouble is logged, since the work is more important than its tale."""
        if self._store is None:
            return
        try:
            self._store.set(PROGRESS_KEY, {**self._names, **values})
        except Exception as error:  # noqa: BLE001 - whatever the API server says, reading goes on
            log.warning("progress could not be written: %s", error)


class StopFlag(StopSignal):
    """Set by `on_kill`, which Airflow calls in the task's own thread, so a plain attribute will do."""

    def __init__(self) -> None:
        self._stopped = False

    def set(self) -> None:
        """Ask the work to end."""
        self._stopped = True

    def is_set(self) -> bool:
        """Whether to stop now."""
        return self._stopped


class Tries:
    """Remembers in which tier an attempt is at work, so that the next one knows if it died without a word.

    An attempt that ends, well or by an error, takes its word back; one that was killed, or brought its process down,
    does not. The store is a convenience: without it, or when it is away, every attempt starts with the fastest tier.

    Args:
        store: `context["task_state_store"]`, None where there is none.
        plan: the plan's id.
        task: number of the mapped task in it.
    """

    def __init__(self, store: Any, plan: str, task: int) -> None:
        self._store = store
        self._names = {"plan": plan, "task": task}

    def died_in(self) -> str:
        """Tier of an earlier attempt at this work that never said how it ended, empty for none."""
        if self._store is None:
            return ""
        try:
            found = self._store.get(ATTEMPT_KEY)
        except Exception as error:  # noqa: BLE001 - whatever the API server says, the work can be done
            log.warning("what became of earlier attempts could not be read: %s", error)
            return ""
        if not isinstance(found, Mapping) or any(found.get(name) != value for name, value in self._names.items()):
            return ""
        return str(found.get("tier", ""))

    @contextmanager
    def noted(self, tier: str) -> Iterator[None]:
        """Note the tier for as long as the body is at work."""
        if self._store is None:
            yield
            return
        self._tell(lambda: self._store.set(ATTEMPT_KEY, {**self._names, "tier": tier}))
        try:
            yield
        finally:
            self._tell(lambda: self._store.delete(ATTEMPT_KEY))

    def _tell(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("the state of this attempt could not be written: %s", error)


def ways_of(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """How many records took which way, from the metrics of a manifest or commit."""
    return {name.removeprefix(WAY): int(metric["count"]) for name, metric in metrics.items() if name.startswith(WAY)}


ATTEMPT_KEY = "attempt"
"""Key in the task state store under which an attempt at work tells its tier."""
