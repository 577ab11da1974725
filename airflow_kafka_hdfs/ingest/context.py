"""The ports that a step of a pipeline works with, handed in by whoever runs it: an operator, the CLI, the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.kafka import RecordReader, TopicCatalog
from airflow_kafka_hdfs.ports.runtime import Clock, Ids, RunStates, Workers
from airflow_kafka_hdfs.ports.schemas import AvroCodec, SchemaRegistry
from airflow_kafka_hdfs.ports.store import Store


def clock_text(moment: datetime) -> str:
    """A moment in UTC as records of the log have it, whole seconds; such texts sort as the moments do."""
    return f"{moment.isoformat()[:19]}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What every step needs.

    Attributes:
        log: the pipeline's commit log, with both stores and the workers in it.
        run: on whose behalf the step works.
        run_states: whether other runs are alive.
    """

    log: CommitLog
    run: RunRef
    clock: Clock
    ids: Ids
    run_states: RunStates

    @property
    def pipeline(self) -> str:
        """Id of the pipeline."""
        return self.log.data_paths.pipeline

    @property
    def data(self) -> Store:
        """The destination's store."""
        return self.log.data

    @property
    def state(self) -> Store:
        """The store of the records."""
        return self.log.state

    @property
    def workers(self) -> Workers:
        """For independent calls side by side."""
        return self.log.workers

    def timestamp(self) -> str:
        """Now, as the records write it: ISO, UTC, seconds."""
        return clock_text(self.clock.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where records and schemas come from; plan and extract need it, commit and publish do not.

    Attributes:
        catalog: metadata and offsets.
        open_reader: makes a reader; called by extract once it knows that there is something to read.
        registry: None where no value format needs one.
        codec: decoding and encoding of Avro datums.
    """

    catalog: TopicCatalog
    open_reader: Callable[[], RecordReader]
    registry: SchemaRegistry | None
    codec: AvroCodec
