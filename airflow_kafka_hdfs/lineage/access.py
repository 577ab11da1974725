"""What one caller may see: of datasets that no readable job touches only that something is there, never a name."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from airflow_kafka_hdfs.ports.lineage_reading import LineageReader
from airflow_kafka_hdfs.ports.lineage_rows import RelationRow

_LARGE = 2_000
"""Above this number of datasets it is quicker to ask for everything that the readable jobs touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The jobs that a caller may read.

    Attributes:
        job_ids: their ids, None for every job.
        secret: makes the handles under which restricted datasets and jobs appear: equal for equal ones, so that a
            graph stays a graph, and of no use for guessing names.
    """

    job_ids: frozenset[str] | None = None
    secret: bytes = field(default=b"", repr=False)

    def reads(self, job_id: str) -> bool:
        """Whether a job may be named."""
        return self.job_ids is None or job_id in self.job_ids

    def visible(self, reader: LineageReader, dataset_ids: Iterable[str]) -> frozenset[str]:
        """Those of the datasets that a readable job reads or writes."""
        wanted = set(dataset_ids)
        if self.job_ids is None:
            return frozenset(wanted)
        if len(wanted) > _LARGE:
            return frozenset(wanted & reader.touched(self.job_ids))
        related = reader.rows(RelationRow, ("dataset_id",), [(dataset_id,) for dataset_id in sorted(wanted)])
        return frozenset(row.dataset_id for row in related if row.job_id in self.job_ids)

    def handle(self, entity_id: str) -> str:
        """What stands for the id of something restricted."""
        return "restricted-" + hmac.new(self.secret, entity_id.encode(), hashlib.sha256).hexdigest()[:16]

    @property
    def among(self) -> Collection[str] | None:
        """The readable jobs as a condition, None for no condition."""
        return self.job_ids


EVERYTHING = Access()
"""Whoever may use Airflow's command line sees all."""
