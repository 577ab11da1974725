"""Names of topics and datasets as Airflow assets, made from arguments alone: no connection is read at parse time.

A run's inlets are its topics, its outlets its datasets; each dataset has a second asset whose events carry the time
partitions that changed. A consumer builds the same assets with the same helpers:

    from airflow.sdk import DAG, PartitionedAssetTimetable
    from airflow_kafka_hdfs.assets import partition_asset

    hours = partition_asset("webhdfs://namenode:9870/data", "clicks")
    with DAG("clicks_per_hour", schedule=PartitionedAssetTimetable(assets=hours)): ...
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from airflow.sdk import Asset

from airflow_kafka_hdfs.exceptions import ConfigError

_AS_HDFS = {"webhdfs": "hdfs", "swebhdfs": "hdfs", "hdfs": "hdfs"}
_DEFAULT_CONNECTION = {"webhdfs": "webhdfs_default", "swebhdfs": "webhdfs_default", "hdfs": "hdfs_native_default"}


def topic_asset(topic: str, cluster: str = "kafka_default") -> Asset:
    """A Kafka topic: `kafka://<cluster>/<topic>`.

    Args:
        topic: its name.
        cluster: the `cluster` argument of the ingestion, by default its Kafka connection id.
    """
    return _asset(f"kafka://{cluster}/{topic}")


def dataset_asset(destination: str, topic: str, storage_conn_id: str | None = None) -> Asset:
    """The files of one topic: `<dataset uri>/<topic>`.

    Its events say that something changed; they carry no partitions, so that `schedule=[dataset_asset(…)]` works. Only
    in a run that is for a partition itself Airflow gives the run's own key to every event that has none, this one too:
    such a run starts no DAG that is scheduled on the dataset alone. Schedule that on `partition_asset`.

    Args:
        destination: the `destination` (or `dataset_uri`) argument of the ingestion.
        topic: its name.
        storage_conn_id: as given to the ingestion; takes the place of an empty authority.
    """
    return _asset(f"{dataset_uri(destination, storage_conn_id)}/{topic}")


def partition_asset(
    destination: str,
    topic: str | None = None,
    granularity: str = "hourly",
    storage_conn_id: str | None = None,
) -> Asset:
    """Where the changed time partitions of a dataset are told: `<dataset uri>/<topic>/@<granularity>`.

    Keys are the first moments of the folders in UTC (`2026-01-31T23:00:00`), for `PartitionedAssetTimetable`.

    Args:
        destination: the `destination` (or `dataset_uri`) argument of the ingestion.
        topic: its name; None for an ingestion whose topics are known only at run time: all its topics share one asset,
            `<dataset uri>/@<granularity>`, with keys `<topic>|<first moment>`.
        granularity: as given to the ingestion.
        storage_conn_id: as given to the ingestion.
    """
    base = dataset_uri(destination, storage_conn_id)
    return _asset(f"{base}/@{granularity}" if topic is None else f"{base}/{topic}/@{granularity}")


def dataset_uri(destination: str, storage_conn_id: str | None = None) -> str:
    """The name under which a destination appears in assets.

    One HDFS folder has one name however it is reached: `webhdfs` becomes `hdfs`. An empty authority (`hdfs:///data`)
    becomes the connection id, since the URI alone does not tell which cluster is meant. User names are dropped.

    Raises:
        ConfigError: no URI with a scheme, or a template, which can't be known when the DAG file is read.
    """
    allowed = "a URI with a scheme, such as webhdfs://namenode:9870/data or file:///data"
    if is_template(destination):
        raise ConfigError("dataset_uri", destination, allowed, "a templated destination needs a fixed dataset_uri")
    parts = urlsplit(destination)
    scheme = _AS_HDFS.get(parts.scheme, parts.scheme)
    if not scheme:
        raise ConfigError("destination", destination, allowed)
    authority = parts.netloc.rpartition("@")[2]
    if not authority and scheme == "hdfs":
        authority = storage_conn_id or _DEFAULT_CONNECTION[parts.scheme]
    return f"{scheme}://{authority}{parts.path.rstrip('/')}"


def partition_key(first_moment: str, topic: str | None = None) -> str:
    """The key of a time partition in events: `2026-01-31T09:00:00`, as Airflow's partition mappers expect by default.

    Args:
        first_moment: of the folder, ISO text; in UTC if it names no zone, as the texts of file entries do.
        topic: put before it where several topics share an asset.
    """
    found = datetime.fromisoformat(first_moment)
    if found.tzinfo is not None:  # a naive one would be taken for the local time of the worker
        found = found.astimezone(UTC).replace(tzinfo=None)
    moment = found.isoformat(timespec="seconds")
    return moment if topic is None else f"{topic}|{moment}"


def is_template(value: object) -> bool:
    """Whether a text waits for Airflow to render it."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def _asset(uri: str) -> Asset:
    # Airflow normalises the URI; the name follows it, so that one dataset never gets two names.
    normal = Asset(uri=uri).uri
    return Asset(name=normal, uri=normal)
