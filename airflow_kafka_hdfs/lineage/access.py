"""What one caller may see: of datasets that no readable job touches only that something is there, never a name."""

from __future__ import annotations

import hashlib
import hmac
from abc import abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from airflow_kafka_hdfs.ports.lineage_reading import LineageReader

_LARGE = 2_000
"""Above this number of datasets it is quicker to ask for everything that the readable jobs touch."""


class Rights(Protocol):
    """Which jobs a caller may read. One object gives one answer for a job, however often it is asked."""

    @abstractmethod
    def readable(self, job_ids: Collection[str]) -> Collection[str]:
        """Those of some jobs that may be read; as quick as they are few."""

    @abstractmethod
    def all_readable(self) -> frozenset[str] | None:
        """Every job that may be read, None for every job there is; takes long with thousands of them."""


@dataclass(frozen=True, slots=True)
class Listed(Rights):
    """The rights on a list of jobs."""

    job_ids: frozenset[str]

    def readable(self, job_ids: Collection[str]) -> Collection[str]:
        """See `Rights.readable`."""
        return self.job_ids.intersection(job_ids)

    def all_readable(self) -> frozenset[str] | None:
        """See `Rights.all_readable`."""
        return self.job_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a caller may see.

    Attributes:
        rights: on jobs, None for every job.
        secret: makes the handles under which restricted datasets and jobs appear: equal for equal ones, so that a
            graph stays a graph, and of no use for guessing names.
    """

    rights: Rights | None = None
    secret: bytes = field(default=b"", repr=False)

    def reads(self, job_id: str) -> bool:
        """Whether a job may be named; `readable` asks for many at once."""
        return self.rights is None or job_id in self.rights.readable((job_id,))

    def readable(self, job_ids: Iterable[str]) -> Collection[str]:
        """Those of the jobs that may be named."""
        wanted = set(job_ids)
        return wanted if self.rights is None else self.rights.readable(wanted)

    def visible(self, reader: LineageReader, dataset_ids: Iterable[str]) -> frozenset[str]:
        """Those of the datasets that a readable job reads or writes."""
        wanted = set(dataset_ids)
        if self.rights is None:
            return frozenset(wanted)
        if len(wanted) > _LARGE:
            among = self.among
            return frozenset(wanted if among is None else wanted & reader.touched(among))
        touching = reader.touching(wanted)
        readable = self.readable(job_id for _, job_id in touching)
        found = {dataset_id for dataset_id, job_id in touching if job_id in readable}
        untouched = wanted - {dataset_id for dataset_id, _ in touching}
        # What no job touches any more is for those who may read everything.
        return frozenset(found | untouched if untouched and self.among is None else found)

    def handle(self, entity_id: str) -> str:
        """What stands for the id of something restricted."""
        return "restricted-" + hmac.new(self.secret, entity_id.encode(), hashlib.sha256).hexdigest()[:16]

    @property
    def among(self) -> Collection[str] | None:
        """The readable jobs as a condition, None for no condition."""
        return None if self.rights is None else self.rights.all_readable()


EVERYTHING = Access()
"""Whoever may use Airflow's command line sees all."""
