"""One name per dataset, whoever reports it: OpenLineage's (namespace, name) in a canonical form.

Producers spell the same place in many ways: host case, a missing port, a broker list, a protocol prefix, doubled
slashes, a partition folder at the end. `Naming.resolve` folds them; what was cut off or left out stays visible as
`subset` and `aliases`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode

from airflow_kafka_hdfs.exceptions import LineageError

KAFKA_PORT = 9092
ALIAS_NAMESPACE = "asset-alias"
"""Namespace of outlets that are asset aliases nobody has resolved yet."""

_KAFKA_PROTOCOLS = frozenset({"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"})
_SAME_SCHEME = {"webhdfs": "hdfs", "swebhdfs": "hdfs", "s3a": "s3", "s3n": "s3", "gcs": "gs", "postgresql": "postgres"}
_ROOTED = frozenset({"hdfs", "file"})
"""Schemes whose names keep their leading slash."""
_DOTTED = frozenset({"hive", "postgres", "mysql", "mssql", "trino", "redshift", "snowflake", "bigquery"})
"""Schemes whose path elements are joined by dots, as OpenLineage names tables."""

_URI = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+._-]*)://(?P<rest>.*)$", re.DOTALL)
_PROTOCOL = re.compile(r"(?i)\b(?:sasl_)?(?:plaintext|ssl)://")
_KEY_VALUE = re.compile(r"^[^=/]+=[^/]*$")
_ISO_DATE = re.compile(r"^(?:19|20)\d\d-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01])(?:[T-](?:[01]\d|2[0-3]).*)?)?$")
_COMPACT_DATE = re.compile(
    r"^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?(?:[01]\d|2[0-3])(?:[0-5]\d)?)?$"
)
_GRANULARITY = re.compile(r"^@[a-z]+$")
_DATE_PATH = re.compile(
    r"/(?P<tail>(?:19|20)\d\d/(?:0[1-9]|1[0-2])(?:/(?:0[1-9]|[12]\d|3[01])(?:/(?:[01]\d|2[0-3])(?:/[0-5]\d)?)?)?)$"
)


@dataclass(frozen=True, slots=True, order=True)
class DatasetId:
    """The canonical name of a dataset.

    Attributes:
        namespace: the system (`kafka://broker:9092`, `hdfs://nn:8020`, `file`, `asset`).
        name: the dataset in it (`orders`, `/data/orders`, `db.table`).
    """

    namespace: str
    name: str

    @property
    def key(self) -> str:
        """32 hex digits that stand for this dataset in the warehouse."""
        return _dataset_key(self.namespace, self.name)

    @property
    def templated(self) -> bool:
        """Whether a template was left unrendered in the name, so that it names nothing real."""
        return "{{" in self.name or "{{" in self.namespace

    def __str__(self) -> str:
        joint = "" if self.name.startswith("/") else "/"
        return f"{self.namespace}{joint}{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A dataset as one producer spelled it.

    Attributes:
        dataset: the canonical name.
        subset: the partition that was cut off the path (`dt=2024-01-01/hour=03`), empty if none.
        aliases: other names of the same dataset that the spelling revealed.
    """

    dataset: DatasetId
    subset: str = ""
    aliases: tuple[DatasetId, ...] = ()


@lru_cache(maxsize=100_000)
@lru_cache(maxsize=50_000)
def _dataset_key(namespace: str, name: str) -> str:
    return digest(namespace, name)


def digest(*parts: str) -> str:
    """32 hex digits over the parts in order; no two different lists of parts share their input.

    Args:
        parts: texts, each hashed with its length.
    """
    return hashlib.blake2b(framed(*parts), digest_size=16).hexdigest()


def framed(*parts: str) -> bytes:
    """What `digest` hashes: the parts in order, each with its length; longer lists go on where shorter ones end."""
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    return b"".join([b"%d:%b" % (len(data), data) for data in encoded])


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How spellings are folded in one deployment.

    Attributes:
        clusters: name of a Kafka cluster -> its brokers, each `host` or `host:port`.
        default_fs: authority for `hdfs:///path` (`nn:8020`), empty if there is none.
        trim_schemes: schemes whose names lose partition folders at their end.
    """

    clusters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default_fs: str = ""
    trim_schemes: frozenset[str] = frozenset({"hdfs", "file"})

    def resolve(self, uri: str, name: str = "") -> Located:
        """The canonical form of an asset.

        Args:
            uri: its URI; a text without a scheme is an asset known by name alone.
            name: its name, used where the URI has no scheme.

        Returns:
            The dataset, the partition cut off, other names.

        Raises:
            LineageError: the URI has no host where its scheme needs one, or is empty.
        """
        match = _URI.match(uri.strip())
        if match is None:
            text = name.strip() or uri.strip()
            if not text:
                raise LineageError("dataset: got an empty name and URI; give the asset a name or a URI with a scheme")
            return Located(dataset=DatasetId("asset", text))
        scheme = match["scheme"].lower()
        scheme = "kafka" if scheme in _KAFKA_PROTOCOLS else _SAME_SCHEME.get(scheme, scheme)
        rest = match["rest"].split("#", 1)[0]
        if scheme == "kafka":
            return self._kafka(uri, rest)
        authority, path, query = _split(rest)
        if scheme == "hdfs" and not authority:
            if not self.default_fs:
                raise LineageError(
                    f"dataset {uri!r}: no name node in the URI and no `default_fs` in [kafka_hdfs_lineage]; "
                    "write hdfs://<name node or name service>/path"
                )
            authority = self.default_fs.lower()
        return self._place(scheme, authority, path, query)

    def of_pair(self, namespace: str, name: str) -> Located:
        """The canonical form of a (namespace, name) that came from elsewhere, such as an OpenLineage event.

        Args:
            namespace: as received; texts without `://` other than `file` are kept.
            name: as received.

        Raises:
            LineageError: as `resolve`.
        """
        if namespace == "file":
            return self.resolve(f"file:///{name.lstrip('/')}")
        if "://" in namespace:
            place = namespace if namespace.endswith("://") else namespace.rstrip("/")
            return self.resolve(f"{place}/{name.lstrip('/')}")
        if not namespace or not name:
            raise LineageError(f"dataset: got namespace {namespace!r} and name {name!r}; both are needed")
        return Located(dataset=DatasetId(namespace, name))

    def _kafka(self, uri: str, rest: str) -> Located:
        authority, path, _ = _split(_PROTOCOL.sub("", rest), keep_slashes=True)
        topic = path.strip("/")
        hosts = [self._broker(host) for host in authority.split(",") if host.strip()]
        if not hosts or not topic:
            raise LineageError(f"dataset {uri!r}: a Kafka dataset is written kafka://<cluster or brokers>/<topic>")
        cluster = next((found for found in map(self._cluster_of, hosts) if found), "")
        if cluster:
            return Located(dataset=DatasetId(f"kafka://{cluster}", topic))
        others = tuple(DatasetId(f"kafka://{host}", topic) for host in hosts[1:])
        return Located(dataset=DatasetId(f"kafka://{hosts[0]}", topic), aliases=others)

    def _broker(self, host: str) -> str:
        host = host.strip()
        if host in self.clusters:
            return host
        host = host.lower()
        return host if re.search(r":\d+$", host) else f"{host}:{KAFKA_PORT}"

    def _cluster_of(self, host: str) -> str:
        for cluster, brokers in self.clusters.items():
            if host == cluster or any(host == self._broker(broker) for broker in brokers):
                return cluster
        return ""

    def _place(self, scheme: str, authority: str, path: str, query: str) -> Located:
        subset = ""
        if scheme in self.trim_schemes:
            path, subset = trim_partitions(path)
        parts = path.strip("/")
        if scheme in _ROOTED:
            name = f"/{parts}"
        elif scheme in _DOTTED:
            name = parts.replace("/", ".")
        else:
            name = parts
        if scheme == "file":
            namespace = f"file://{authority}" if authority else "file"
        elif scheme == "bigquery":
            namespace, name = "bigquery", ".".join(part for part in (authority, name) if part)
        else:
            namespace = f"{scheme}://{authority}"
        if not name:
            name = "/"
        return Located(dataset=DatasetId(namespace, f"{name}?{query}" if query else name), subset=subset)


def trim_partitions(path: str) -> tuple[str, str]:
    """Cut partition folders off the end of a path; at least one folder stays.

    Args:
        path: `/`-separated.

    Returns:
        The dataset's path and the partition (`2024/01/01`), empty if there was none.
    """
    whole = path.rstrip("/")
    rest = whole
    while True:
        shorter = _trim_once(rest)
        if shorter == rest or not shorter.strip("/"):
            return rest, whole[len(rest) :].strip("/")
        rest = shorter


def _trim_once(path: str) -> str:
    match = _DATE_PATH.search(path)
    if match is not None:
        return path[: match.start()]
    head, _, last = path.rpartition("/")
    if any(rule.match(last) for rule in (_KEY_VALUE, _ISO_DATE, _COMPACT_DATE, _GRANULARITY)):
        return head
    return path


def _split(rest: str, *, keep_slashes: bool = False) -> tuple[str, str, str]:
    """Authority (without user, lower case unless it lists cluster names), path, sorted query."""
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    authority = ",".join(part.rpartition("@")[2] for part in authority.split(","))
    if not keep_slashes:
        authority = authority.lower()
        path = re.sub(r"/{2,}", "/", path)
    return authority, path, urlencode(sorted(parse_qsl(query, keep_blank_values=True)))
