"""Introducing the core to the outside: adapters made from connections, once per task.

Only `execute` calls this; it is the one place of the operators that loads client libraries, through the hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_kafka_hdfs.adapters.codecs import require_parquet
from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.kafka import KafkaSourceHook
from airflow_kafka_hdfs.hooks.runs import TaskRunStates
from airflow_kafka_hdfs.hooks.schema_registry import IdWidth, IdWidths, registry_for
from airflow_kafka_hdfs.hooks.storage import store_for
from airflow_kafka_hdfs.ingest.choices import FileFormat, ValueFormat
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.kafka import OffsetMirror
from airflow_kafka_hdfs.ports.runtime import RunStates
from airflow_kafka_hdfs.ports.schemas import Codecs, SchemaRegistry


def open_context(config: IngestConfig, run: RunRef, run_states: RunStates) -> Context:
    """Stores, clock, ids and run states of a step.

    Raises:
        ConfigError: a URI or a storage connection that can't be used.
    """
    with _naming("destination"):
        data = store_for(
            config.destination,
            config.storage_conn_id,
            file_mode=config.base.config.file_mode,
            dir_mode=config.base.config.dir_mode,
        )
    if not data.has_modes:
        config.refuse_modes_of_topics(data.root)
    # Records elsewhere are reached by the same connection if they are on the same kind of store.
    same_kind = _scheme(config.state_root) == _scheme(config.destination)
    with _naming("state_uri"):
        state = store_for(config.state_root, config.storage_conn_id if same_kind else None)
    log = CommitLog(state, data, ThreadWorkers(), config.pipeline, copies=config.state_uri is not None)
    return Context(log=log, run=run, clock=SystemClock(), ids=RandomIds(), run_states=run_states)


def task_context(config: IngestConfig, run: RunRef, airflow_context: Any) -> Context:
    """As `open_context`, for a running task: Airflow's API tells which runs are alive."""
    return open_context(config, run, TaskRunStates(airflow_context["ti"].get_dagrun_state, run))


def open_kafka(config: IngestConfig) -> KafkaSourceHook:
    """The Kafka connection of an ingestion; it is looked up once somebody asks for something."""
    return KafkaSourceHook(config.kafka_conn_id, config.kafka_config)


def open_sources(config: IngestConfig, kafka: KafkaSourceHook | None = None, *, direct: bool = False) -> Sources:
    """Kafka, registry and Avro codec.

    Args:
        config: of the pipeline.
        kafka: its connection, where it was opened before.
        direct: whether values stay in the Kafka client's memory.

    Raises:
        ConfigError: a connection that can't be used, a client setting that breaks exactness, or a file format whose
            extra is not installed.
    """
    from airflow_kafka_hdfs.adapters.avro import FastavroCodec

    if FileFormat.PARQUET in _used(config, "file_format", config.base.config.file_format):
        require_parquet()
    kafka = kafka or open_kafka(config)
    return Sources(
        catalog=kafka.catalog(),
        open_reader=kafka.direct_reader if direct else kafka.reader,
        registry=_open_registry(config),
        codec=FastavroCodec(),
    )


def open_codecs() -> Codecs:
    """All codecs of files."""
    from airflow_kafka_hdfs.adapters.codecs import StandardCodecs

    return StandardCodecs()


def open_mirror(config: IngestConfig, group: str) -> OffsetMirror:
    """A copy of our offsets in a consumer group."""
    return open_kafka(config).mirror(group)


def probe_stores(ctx: Context) -> None:
    """Try once, before a pipeline's first write, whether its stores keep what exactly once rests on.

    Raises:
        UnsafeStoreError: a store replaces files.
    """
    from airflow_kafka_hdfs.adapters.storage.probe import probe

    if ctx.state.get(ctx.log.paths.commit(0)) is None:
        probe(ctx.data)  # type: ignore[arg-type]  # every store that a hook opens shows its single steps
        if ctx.log.copies:
            probe(ctx.state)  # type: ignore[arg-type]


@contextmanager
def _naming(argument: str) -> Iterator[None]:
    """An error of a URI is told with the argument that holds it."""
    try:
        yield
    except ConfigError as error:
        if error.key != "uri":
            raise
        raise ConfigError(argument, error.value, error.allowed, error.hint) from None


def _open_registry(config: IngestConfig) -> SchemaRegistry | None:
    if config.registry is None:
        return None
    formats = _used(config, "value_format", config.base.config.value_format)

    def width_of(topic: str) -> IdWidth:
        return 16 if config.topic(topic).config.value_format is ValueFormat.AVRO_ID16 else 4

    widths: IdWidths = 16 if ValueFormat.AVRO_ID16 in formats else 4
    if formats >= {ValueFormat.AVRO_ID16, ValueFormat.AVRO_CONFLUENT}:
        widths = width_of
    return registry_for(config.registry, id_width=widths, clock=SystemClock(), open_store=store_for)


def _used(config: IngestConfig, argument: str, base: Any) -> set[Any]:
    """All values of an argument, by topic."""
    return {base, *(override.values.get(argument) for override in config.overrides)}


def _scheme(uri: str) -> str:
    return uri.partition("://")[0]
