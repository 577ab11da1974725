"""The words of the rule: options, task instances, pairs and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.workflow import ExplicitTarget, Use
from airflow_kafka_hdfs.ports.lineage import PairState

SAMPLES = 10
"""Mapped instances named per pair."""


class Flow(StrEnum):
    """When an order edge between tasks carries data."""

    AUTO = "auto"
    WORKFLOW = "workflow"
    DATASET = "dataset"


class Intermediates(StrEnum):
    """Which datasets between tasks are left out of the pairs."""

    TEMPORARY = "temporary"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How pairs are derived.

    Attributes:
        flow: `auto`: an edge carries if the later task uses the earlier one's result or reads nothing itself;
            `workflow`: every edge carries; `dataset`: none does.
        intermediates: `temporary`: leave out temporary datasets; `all`: also what is written and read only
            inside the run; `none`: leave out nothing.
        schedule_inputs: whether root tasks that read nothing inherit the datasets that triggered the run.
        max_pairs: above this number of pairs the run's inputs and outputs are given once instead.
    """

    flow: Flow = Flow.AUTO
    intermediates: Intermediates = Intermediates.TEMPORARY
    schedule_inputs: bool = True
    max_pairs: int = 10_000

    @classmethod
    def profile(cls, name: str) -> Options:
        """The options of a named profile.

        Args:
            name: `default`, or `yelp`: every edge carries, all intermediates are left out.

        Raises:
            ConfigError: there is no such profile.
        """
        if name == "default":
            return cls()
        if name == "yelp":
            return cls(flow=Flow.WORKFLOW, intermediates=Intermediates.ALL)
        raise ConfigError("profile", name, ["default", "yelp"])


class Node(NamedTuple):
    """One task instance, or a point where all instances of a mapped task meet.

    A tuple: thousands are made for each run of a large DAG, and a frozen dataclass takes three times as long.

    Attributes:
        parents: indexes of the nodes it waits for.
        xcom: those of `parents` whose results it uses.
        state: `PairState.WRITTEN` for success, another one otherwise.
        joint: True for a meeting point: it reads and writes nothing and is no task.
    """

    task_id: str
    map_index: int = -1
    parents: tuple[int, ...] = ()
    xcom: frozenset[int] = frozenset()
    reads: tuple[Use, ...] = ()
    writes: tuple[Use, ...] = ()
    explicit: tuple[ExplicitTarget, ...] | None = None
    state: PairState = PairState.UNKNOWN
    joint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source that feeds a target.

    Attributes:
        state: what became of it in this run.
        observed: whether data can have flowed: the writer and all tasks on a way from the reader succeeded.
        evidence: why the read, the write and the links of `path` are believed, sorted.
        path: ids of the tasks on one shortest way from the reader to the writer.
        instances: number of instances of the writer that made it.
        samples: up to ten of their map indexes.
    """

    source: DatasetId
    target: DatasetId
    state: PairState
    observed: bool
    evidence: tuple[str, ...]
    path: tuple[str, ...]
    instances: int
    samples: tuple[int, ...] = ()

    @property
    def self_pair(self) -> bool:
        """Whether a dataset is updated in place; kept, flagged, not walked through."""
        return self.source == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The pairs of one run, sorted by source and target.

    Attributes:
        inputs, outputs: all that the run reads from outside or keeps, and all that it writes, paired or not.
        compressed: True if there were more than `max_pairs`: then `pairs` is empty.
        refused: targets whose name still holds an unrendered template.
        count: number of pairs, also of those that were compressed.
    """

    pairs: tuple[Pair, ...]
    inputs: tuple[DatasetId, ...]
    outputs: tuple[DatasetId, ...]
    compressed: bool = False
    refused: tuple[DatasetId, ...] = ()
    count: int = 0
