"""What becomes of quarantined records by the code, the settings and the schemas at hand: good now, or bad still."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.choices import OnNull, OnSchemaChange
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Sources
from airflow_kafka_hdfs.ingest.outfitting import make_route, pinned_config
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.quarantine_reading import BadRecord
from airflow_kafka_hdfs.ingest.reasons import UnitReason
from airflow_kafka_hdfs.ingest.routes import Output, Route
from airflow_kafka_hdfs.ingest.timepath import TimePath
from airflow_kafka_hdfs.ingest.usercode import Events, UserContext
from airflow_kafka_hdfs.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class StillBad:
    """A record that would be quarantined again."""

    record: BadRecord
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A record that is good now.

    Attributes:
        record: the quarantined record.
        outputs: what is to be written of it; none if it is left out by a converter or by `on_null`.
        times: how its topic cuts time into folders.
    """

    record: BadRecord
    outputs: list[Output]
    times: TimePath


def decoded(
    sources: Sources, config: IngestConfig, plan: Plan, waiting: Iterable[BadRecord], metrics: Metrics | None = None
) -> Iterator[Decoded | StillBad]:
    """Decode quarantined records again; reads and writes no file.

    Args:
        sources: registry and codec.
        config: the pipeline's configuration, with the mended code.
        plan: of the replay, with the schemas that it pinned.
        waiting: records; each comes out in its turn.
        metrics: what user code counts goes here.

    Raises:
        ConfigError, UnusableSchemaError: settings or schemas that can't be used.
        RegistryUnavailableError: a later try may do better.
    """
    metrics = metrics or Metrics()
    routes: dict[str, Route] = {}
    for bad in waiting:
        topic = bad.record.topic
        if topic not in routes:
            context = UserContext(topic, metrics, Events(topic, metrics))
            routes[topic] = make_route(sources, plan, topic, pinned_config(plan, topic), config.topic(topic), context)
        try:
            yield Decoded(record=bad, outputs=_outputs(routes[topic], bad), times=routes[topic].placing.times)
        except DecodeError as error:
            yield StillBad(record=bad, reason=error.reason, detail=error.detail)


def _outputs(route: Route, bad: BadRecord) -> list[Output]:
    """What becomes of a record by the policies at hand. Raises DecodeError if it is bad still."""
    if bad.record.value is None:
        if route.config.on_null is OnNull.SKIP:
            return []
        if route.config.on_null is OnNull.FAIL:
            raise DecodeError(UnitReason.NULL_VALUE, "the value is null, and on_null is 'fail'")
    outputs = route.outputs(bad.record)
    pinned = route.only_key if route.config.on_schema_change is OnSchemaChange.FAIL else None
    for output in outputs:
        if pinned is not None and output.schema is not None and output.schema.key != pinned:
            raise DecodeError(UnitReason.SCHEMA_CHANGED, f"its schema {output.schema.label} is not the topic's")
    return outputs
