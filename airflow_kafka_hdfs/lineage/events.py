"""Messages of lineage: one per pair, one per run, and one per task instance that has something to report.

`message_json` turns them into JSON with a version number and back. Ids are made from what a message is about, so a
message that is sent again has the same id. Nothing but the fields named here is ever sent: no arguments, no XCom
values, no rendered templates.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from airflow_kafka_hdfs.exceptions import LineageError
from airflow_kafka_hdfs.lineage.columns import ColumnEdge
from airflow_kafka_hdfs.lineage.identity import DatasetId, digest, framed
from airflow_kafka_hdfs.lineage.pairs import Flow, Options
from airflow_kafka_hdfs.lineage.workflow import RunFacts, TaskIo, Workflow
from airflow_kafka_hdfs.ports.lineage import PairState

_NAMES = uuid.UUID("0d3c7b0e-5a35-5c1a-9d6b-4f6e5b1f2a77")


class MessageError(LineageError):
    """A message can't be used.

    Args:
        reason: `json`, `fields`, `version` or `type`.
        detail: what was found and what was expected.
    """

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"lineage message: {reason}: {detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDetail:
    """What a message says of a dataset.

    Attributes:
        schema_id: id in the registry, or a fingerprint; empty if unknown.
        schema_version: version of the schema in (collection, table); empty if unknown.
        subset: the partition that was read or written.
        fields: (name, type, description) of the columns.
    """

    dataset: DatasetId
    schema_id: str = ""
    schema_version: str = ""
    subset: str = ""
    aliases: tuple[DatasetId, ...] = ()
    fields: tuple[tuple[str, str, str], ...] = ()
    temporary: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The DAG that a message is about; `instance` names the Airflow deployment."""

    instance: str
    dag_id: str
    domain: str = "Airflow"
    owners: tuple[str, ...] = ()
    team: str = ""
    tags: tuple[str, ...] = ()
    config_file: str = ""
    relative_fileloc: str = ""
    description: str = ""

    @property
    def job_id(self) -> str:
        """32 hex digits that stand for this job in the warehouse."""
        return _job_id(self.instance, self.dag_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run that a message is about. Times are aware; `logical_date` and the interval may be missing."""

    run_id: str
    clear_number: int = 0
    run_type: str = ""
    triggered_by: str = ""
    logical_date: datetime | None = None
    interval_start: datetime | None = None
    interval_end: datetime | None = None
    run_after: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What code and service produced the run; empty where unknown."""

    airflow: str = ""
    provider: str = ""
    python: str = ""
    bundle: str = ""
    bundle_version: str = ""
    dag_version: str = ""
    service: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What every message carries.

    Attributes:
        origin: who told, if it was none of our plugins (`openlineage`); it is never sent.
    """

    job: Job
    run: Run
    versions: Versions = Versions()
    emitted_at: datetime
    origin: str = ""

    @property
    def run_event_id(self) -> str:
        """Id of the run message that goes with it."""
        return _run_event_id(self.job.instance, self.job.dag_id, self.run.run_id, self.run.clear_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeMessage:
    """One pair in one run."""

    envelope: Envelope
    source: DatasetDetail
    target: DatasetDetail
    state: PairState
    evidence: tuple[str, ...] = ()
    flow: Flow = Flow.AUTO
    path: tuple[str, ...] = ()
    instances: int = 1
    declared: bool = False
    columns: tuple[ColumnEdge, ...] = ()

    @property
    def event_id(self) -> str:
        """Deterministic id."""
        return _event_id("edge", self.envelope, self.source.dataset.key, self.target.dataset.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage:
    """One run: how its instances ended, and its structure.

    Attributes:
        graph: the structure; None if it was sent before or is too large: `structure_hash` names it.
        compressed: True if pairs are too many to be sent one by one.
    """

    envelope: Envelope
    structure_hash: str
    graph: Workflow | None
    facts: RunFacts = RunFacts()
    options: Options = Options()
    details: tuple[DatasetDetail, ...] = ()
    pairs: int = 0
    compressed: bool = False
    truncated: tuple[str, ...] = ()

    @property
    def event_id(self) -> str:
        """Deterministic id."""
        return self.envelope.run_event_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIoMessage:
    """What one task instance read and wrote, as far as the structure does not tell."""

    envelope: Envelope
    report: TaskIo
    details: tuple[DatasetDetail, ...] = ()

    @property
    def event_id(self) -> str:
        """Deterministic id."""
        report = self.report
        return _event_id("task_io", self.envelope, report.task_id, str(report.map_index), str(report.try_number))


Message = EdgeMessage | RunMessage | TaskIoMessage


def message_key(envelope: Envelope) -> bytes:
    """Kafka key: all messages of a run share a partition."""
    return f"{envelope.job.instance}/{envelope.job.dag_id}/{envelope.run.run_id}".encode()


@lru_cache(maxsize=10_000)
def _job_id(instance: str, dag_id: str) -> str:
    return digest(instance, dag_id)


@lru_cache(maxsize=2_000)
def _hashed(kind: str, instance: str, dag_id: str, run_id: str, clear_number: int) -> hashlib.blake2b:
    return hashlib.blake2b(framed(kind, instance, dag_id, run_id, str(clear_number)), digest_size=16)


_framed = lru_cache(maxsize=50_000)(framed)
_UUIDS = hashlib.sha1(_NAMES.bytes, usedforsecurity=False)


def team_of(tags: tuple[str, ...]) -> str:
    """The team in a tag `team:<name>`."""
    return next((tag.partition(":")[2] for tag in tags if tag.startswith("team:")), "")


def _event_id(kind: str, envelope: Envelope, *key: str) -> str:
    run, job = envelope.run, envelope.job
    # `digest` of all parts; the messages of a run share the first ones, and runs share their pairs.
    about = _hashed(kind, job.instance, job.dag_id, run.run_id, run.clear_number).copy()
    about.update(_framed(*key))
    return _named(about)


@lru_cache(maxsize=2_000)
def _run_event_id(instance: str, dag_id: str, run_id: str, clear_number: int) -> str:
    return _named(_hashed("run", instance, dag_id, run_id, clear_number))


_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _named(about: hashlib.blake2b) -> str:
    """`uuid.uuid5` of a digest as text, which takes several times as long."""
    found = _UUIDS.copy()
    found.update(about.hexdigest().encode())
    text = found.hexdigest()
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANTS[text[16]]}{text[17:20]}-{text[20:32]}"
