"""Gives the units of a task what they read and write with, from the plan's settings and the running code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_hdfs import __version__
from airflow_kafka_hdfs.exceptions import ConfigError, CorruptStateError, TopicFaultError, UnusableSchemaError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.choices import OutOfRange
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.layout import StatePaths
from airflow_kafka_hdfs.ingest.plans import Plan, UnitPlan
from airflow_kafka_hdfs.ingest.quarantine import Quarantine, QuarantinePlace
from airflow_kafka_hdfs.ingest.reasons import UnitReason
from airflow_kafka_hdfs.ingest.records import Kind
from airflow_kafka_hdfs.ingest.routes import Route, RouteParts, sinks_for
from airflow_kafka_hdfs.ingest.settings import TopicConfig, TopicSettings, changed_code
from airflow_kafka_hdfs.ingest.taking import BatchStep, Destination, ReferenceStep
from airflow_kafka_hdfs.ingest.unit_reading import UnitReading
from airflow_kafka_hdfs.ingest.usercode import Event, Events, UserContext
from airflow_kafka_hdfs.ingest.writers.files import MAX_OPEN_FILES, FileFacts, FileSet, TopicFiles
from airflow_kafka_hdfs.ingest.writers.sinks import SharedCompressor, SinkFactory
from airflow_kafka_hdfs.metrics import Metrics
from airflow_kafka_hdfs.ports.schemas import Codecs

FastSteps = Callable[[Route, Destination], BatchStep | None]
"""Makes the fast way of a topic, None where it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the running code brings; what shapes bytes and places comes from the plan.

    Attributes:
        settings: settings of a topic by the running code: its callables, limits and `max_bad_*`; raises ConfigError.
        max_open_files: files of a task open at once.
        fast: makes the fast way of a topic; None for the reference alone.
        sinks: makes the files of a topic.
    """

    codecs: Codecs
    settings: Callable[[str], TopicSettings]
    max_open_files: int = MAX_OPEN_FILES
    fast: FastSteps | None = None
    sinks: Callable[[TopicConfig, Codecs], SinkFactory] = sinks_for


class Outfitter:
    """Outfits the units of one attempt.

    Args:
        ctx: ports of this run.
        sources: where schemas come from.
        plan: the plan.
        task: index of the mapped task.
        tools: what the running code brings.
        staging: folder of the attempt.
        metrics: of the attempt.
        newest_event: greatest event time committed of a topic before.
        first_index: number of the first file.

    Attributes:
        files: the task's open files.
    """

    def __init__(
        self,
        ctx: Context,
        sources: Sources,
        plan: Plan,
        task: int,
        tools: Tools,
        *,
        staging: str,
        metrics: Metrics,
        newest_event: Callable[[str], int | None],
        first_index: int,
    ) -> None:
        self.files = FileSet(ctx.data, staging, ctx.workers, first_index=first_index, most=tools.max_open_files)
        self._ctx = ctx
        self._sources = sources
        self._plan = plan
        self._task = task
        self._tools = tools
        self._staging = staging
        self._metrics = metrics
        self._newest_event = newest_event
        self._contexts: list[UserContext] = []
        self._configs: dict[str, TopicConfig] = {}
        self._bad_compressor = SharedCompressor(tools.codecs.block("deflate"))

    def reading(self, unit: UnitPlan) -> UnitReading:
        """A unit that is about to be read.

        Raises:
            ConfigError: the running code has no consistent settings for the topic.
        """
        config = self._config(unit.topic)
        if self._plan.kind is Kind.REPLACE:  # all or nothing: what it does not read again would be gone for good
            return UnitReading(unit, on_out_of_range=OutOfRange.FAIL)
        limits = self._tools.settings(unit.topic).limits
        return UnitReading(unit, on_out_of_range=config.on_out_of_range, limits=limits)

    def equip(self, reading: UnitReading) -> None:
        """Give a unit its route, files and quarantine; one that can't have them fails with nothing read."""
        topic = reading.topic
        try:
            config = self._config(topic)
            running = self._tools.settings(topic)
            if (change := changed_code(config, running)) is not None:
                hint = "clear `plan` to plan anew with the code at hand"
                raise TopicFaultError(topic, UnitReason.CODE_CHANGED, f"{change}; {hint}")
            route = self._route(topic, running)
            sinks = self._tools.sinks(config, self._tools.codecs)
        except UnusableSchemaError as error:
            reading.fail(TopicFaultError(topic, UnitReason.UNUSABLE_SCHEMA, str(error)))
            return
        except ConfigError as error:
            reading.fail(TopicFaultError(topic, UnitReason.CONFIG, str(error)))
            return
        except TopicFaultError as fault:
            reading.fail(fault)
            return
        files = TopicFiles(
            self.files,
            sinks,
            file_facts(self._plan, self._task, reading.plan, config),
            plan=self._plan.plan,
            task=self._task,
        )
        quarantine = Quarantine(
            self._ctx.data, self._sources.codec, self._bad_compressor, self._quarantine_place(reading.plan)
        )
        newest = self._newest_event(topic)
        destination = Destination(
            topic=topic,
            files=files,
            quarantine=quarantine,
            tallies={partition: tracker.tally for partition, tracker in reading.trackers.items()},
            metrics=self._metrics,
            limits=running.bad_records,
            planned=sum(
                len(work) for (_, name), unit in self._plan.units.items() if name == topic for work in unit.work_units
            ),
            newest_folder=None if newest is None else route.placing.times.folder(newest).start,
        )
        fast = None if self._tools.fast is None else self._tools.fast(route, destination)
        reading.equip(ReferenceStep(route, destination, fast), files, quarantine)

    def events(self) -> tuple[Event, ...]:
        """What user code told."""
        return tuple(event for context in self._contexts for event in context.events.kept)

    def _config(self, topic: str) -> TopicConfig:
        if topic not in self._configs:
            self._configs[topic] = pinned_config(self._plan, topic)
        return self._configs[topic]

    def _route(self, topic: str, running: TopicSettings) -> Route:
        context = UserContext(topic, self._metrics, Events(topic, self._metrics))
        self._contexts.append(context)
        return make_route(self._sources, self._plan, topic, self._config(topic), running, context)

    def _quarantine_place(self, unit: UnitPlan) -> QuarantinePlace:
        path = self._ctx.log.data_paths.quarantine(unit.topic, self._plan.plan, self._task)
        name = path.rpartition("/")[2]
        return QuarantinePlace(
            topic=unit.topic,
            topic_id=unit.work_units[0].key.topic_id,
            staged=f"{self._staging}/{name}",
            path=path,
            stem=name.removesuffix(".avro"),
        )


def pinned_config(plan: Plan, topic: str) -> TopicConfig:
    """The settings of a topic that a plan pinned. Raises CorruptStateError if the plan holds none that can be read."""
    try:
        return wire.from_plain(TopicConfig, plan.config[topic])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        path = StatePaths().plan(plan.key, plan.counter)
        raise CorruptStateError(path, f"its settings of topic {topic}: {type(error).__name__}: {error}") from error


def make_route(
    sources: Sources, plan: Plan, topic: str, config: TopicConfig, running: TopicSettings, context: UserContext
) -> Route:
    """The way of a topic's records, as a plan pinned it, with the user's code at hand.

    Args:
        sources: where schemas come from.
        plan: the plan.
        topic: one of its topics.
        config: its settings as the plan pinned them (`pinned_config`).
        running: settings of the topic by the running code.
        context: handed to the user's code.

    Raises:
        UnusableSchemaError, ConfigError: see `Route`.
    """
    low, high = config.time_bounds.of_plan(datetime.fromisoformat(plan.clock))
    pinned = plan.schemas.get(topic, {}).get("reader")
    return Route(
        RouteParts(
            topic=topic,
            config=config,
            bounds=(low, high + 1),
            codec=sources.codec,
            registry=sources.registry,
            context=context,
            reader=config.schema if pinned is None else str(pinned),
            decoder=running.decoder,
            converters=running.converters,
        )
    )


def file_facts(plan: Plan, task: int, unit: UnitPlan, config: TopicConfig) -> FileFacts:
    """What is known of a unit's files before they are opened."""
    keys = sorted(unit.ranges())
    first = keys[0]
    ranges = {str(key.partition): [key.generation, unit.ranges()[key].to_json()] for key in keys}
    return FileFacts(
        topic=unit.topic,
        topic_id=first.topic_id,
        metadata={
            "kafka_hdfs.version": __version__,
            "kafka_hdfs.pipeline": plan.pipeline,
            "kafka_hdfs.plan": plan.plan,
            "kafka_hdfs.task": str(task),
            "kafka_hdfs.topic": unit.topic,
            "kafka_hdfs.cluster_id": first.cluster_id,
            "kafka_hdfs.topic_id": first.topic_id,
            "kafka_hdfs.ranges": json.dumps(ranges, separators=(",", ":")),
        },
        max_bytes=config.max_file_bytes,
        max_records=config.max_file_records,
        file_mode=config.file_mode,
        dir_mode=config.dir_mode,
    )
