"""Names and places: every path that the package writes is made (and read back) here.

Two roots: the *destination* holds data, staging, quarantine and owner files; the *state* root holds records only and is
by default a folder of the destination.
"""

from __future__ import annotations

import functools
import hashlib
import re
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.model import RunRef

ROOT = ".kafka_hdfs"
SHARD = 1000
_CACHED_ELEMENTS = 10_000
"""Names of topics, pipelines and values, escaped once; a run has the same ones again and again."""

_SAFE = re.compile(r"[A-Za-z0-9._\-~@ ]")
_SAFE_NAME = re.compile(r"[A-Za-z0-9\-~@ ][A-Za-z0-9._\-~@ ]*")
_LONG_TOPIC = 150
"""Kafka allows topics of 249 characters, file systems names of 255 bytes; ours need about 100 beside the topic."""
_PLAN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
_FILE = re.compile(
    r"(?P<topic>[^+/]+)\+(?P<plan>\d{8}T\d{6}Z-[0-9a-f]{8})\+(?P<task>\d+)\+(?P<index>\d+)"
    r"(?:\+(?P<partition>\d+)\+(?P<first>\d+)\+(?P<last>\d+))?(?P<extension>\.[A-Za-z0-9.]+)?"
)


@functools.lru_cache(_CACHED_ELEMENTS)
def escape(text: str) -> str:
    """One path element from any text, reversible by percent-decoding.

    Everything but letters, digits and `._-~@ ` is percent-encoded as UTF-8 (HDFS takes no `:`, `=` separates names of
    fields from values, `+` the parts of file names), and so is a leading dot or underscore, since such names are
    invisible to Hadoop readers. The element may be longer than the 255 bytes that file systems take.
    """
    if _SAFE_NAME.fullmatch(text):
        return text
    encoded = "".join(
        char if _SAFE.fullmatch(char) else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in text
    )
    if encoded[:1] in (".", "_"):
        encoded = f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def unescape(element: str) -> str:
    """The inverse of `escape`."""
    return urllib.parse.unquote(element, errors="surrogatepass")


def file_topic(topic: str) -> str:
    """A topic as file names write it: escaped, and a long one as its beginning, `~` and 8 hex digits of its SHA-256."""
    if len(topic) > _LONG_TOPIC:
        topic = f"{topic[: _LONG_TOPIC - 9]}~{hashlib.sha256(topic.encode()).hexdigest()[:8]}"
    return escape(topic)


def plan_id(clock: datetime, hex8: str) -> str:
    """`yyyyMMddTHHmmssZ-xxxxxxxx`: the plan's name in folders and files."""
    return f"{clock.astimezone(UTC):%Y%m%dT%H%M%SZ}-{hex8}"


def plan_clock(plan: str) -> datetime | None:
    """When a plan was made, by its name; None for what is no name of a plan."""
    if not is_plan_id(plan):
        return None
    try:
        return datetime.strptime(plan.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:  # digits that are no date
        return None


def plan_key(pipeline: str, run: RunRef) -> str:
    """16 hex digits under which a run finds its own plans again."""
    text = "\n".join((pipeline, run.dag_id, run.group, run.run_id))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileName:
    """`<topic>+<plan>+<task>+<index>[+<partition>+<first>+<last>]<extension>`.

    The bracket is added when the file is closed and holds records of one Kafka partition alone.

    Attributes:
        topic: its name; what `parse` returns of a long one is the short form of `file_topic`.
        index: number of the file in its task.
        offsets: (partition, first offset, last offset), or None.
        extension: with its dot, such as `.avro` or `.jsonl.gz`.
    """

    topic: str
    plan: str
    task: int
    index: int
    extension: str
    offsets: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        bracket = "+{}+{}+{}".format(*self.offsets) if self.offsets else ""
        return f"{self.stem}{bracket}{self.extension}"

    @property
    def stem(self) -> str:
        """The name before the bracket; known when the file is opened."""
        return f"{file_topic(self.topic)}+{self.plan}+{self.task}+{self.index}"

    @property
    def sync_marker(self) -> bytes:
        """16 bytes that separate the blocks of an Avro container, so that equal input gives equal bytes."""
        return hashlib.sha256(self.stem.encode()).digest()[:16]

    @classmethod
    def parse(cls, name: str) -> FileName | None:
        """The parts of a name, None if it is not one of ours."""
        match = _FILE.fullmatch(name)
        if match is None:
            return None
        part = match.groupdict()
        offsets = None
        if part["partition"] is not None:
            offsets = (int(part["partition"]), int(part["first"]), int(part["last"]))
        return cls(
            topic=unescape(part["topic"]),
            plan=part["plan"],
            task=int(part["task"]),
            index=int(part["index"]),
            extension=part["extension"] or "",
            offsets=offsets,
        )


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Paths of the records of one pipeline, relative to its state root."""

    plans: str = "plans"
    owner: str = "owner"
    """Names the pipeline of a log that is not in its default place."""

    def plan(self, key: str, counter: int) -> str:
        """The `counter`-th plan of a run."""
        return f"{self.plans}/{key}-{counter}"

    def manifest(self, plan: str, task: int, k: int) -> str:
        """The `k`-th manifest of a mapped task."""
        return f"units/{plan}/{task}/{k}"

    def units(self, plan: str) -> str:
        """Folder of all manifests of a plan."""
        return f"units/{plan}"

    def commit(self, number: int) -> str:
        """The commit record; sharded by thousands like the following."""
        return _sharded("commits", number)

    def published(self, number: int) -> str:
        """Marker: the roll-forward of the commit is finished."""
        return _sharded("published", number)

    def announced(self, number: int) -> str:
        """Marker: the commit's asset events are known to have been sent."""
        return _sharded("announced", number)

    def checkpoint(self, number: int) -> str:
        """The log up to and with that number, summed up."""
        return _sharded("checkpoints", number)


def _sharded(folder: str, number: int) -> str:
    return f"{folder}/{number // SHARD}/{number}"


@dataclass(frozen=True, slots=True)
class DataPaths:
    """Paths of one pipeline below the destination, apart from the data itself.

    Args:
        pipeline: id of the pipeline.

    Raises:
        ConfigError: an empty or reserved id.
    """

    pipeline: str

    def __post_init__(self) -> None:
        if not self.pipeline or self.pipeline in ("_owners", "_log"):
            raise ConfigError("pipeline_id", self.pipeline, "any non-empty name other than _owners and _log")

    @property
    def home(self) -> str:
        """The pipeline's folder; also the default state root."""
        return f"{ROOT}/{escape(self.pipeline)}"

    def staging(self, plan: str, task: int | None = None, attempt: str | None = None) -> str:
        """Staging of a plan, of one of its tasks, or of one attempt of it."""
        parts = [self.home, "staging", plan]
        if task is not None:
            parts.append(str(task))
            if attempt is not None:
                parts.append(attempt)
        return "/".join(parts)

    def quarantine(self, topic: str, plan: str, task: int) -> str:
        """The quarantine file of one unit."""
        return f"{self.home}/quarantine/{escape(topic)}/{file_topic(topic)}+{plan}+{task}.avro"

    def superseded(self, number: int, path: str) -> str:
        """Where a file goes that commit `number` supersedes."""
        return f"{self.home}/superseded/{number}/{path}"

    def owner(self, topic: str) -> str:
        """The file that names the pipeline which owns a topic at this destination."""
        return f"{ROOT}/_owners/{escape(topic)}"

    def log_copy(self, number: int) -> str:
        """Copy of a commit record beside the data, for `rebuild` when the state root is elsewhere."""
        return _sharded(f"{ROOT}/_log/{escape(self.pipeline)}", number)


def is_plan_id(text: str) -> bool:
    """Whether a text is the name of a plan."""
    return _PLAN_ID.fullmatch(text) is not None
