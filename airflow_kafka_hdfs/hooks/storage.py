"""From a URI and a connection to a store.

| scheme                | store          | connection                                                                 |
|-----------------------|----------------|----------------------------------------------------------------------------|
| none, `file`          | local, mounted | none                                                                       |
| `webhdfs`, `swebhdfs` | WebHDFS        | type `webhdfs` of the HDFS provider, default `webhdfs_default`, required   |
| `hdfs`                | native RPC     | type `hdfs_native`, default `hdfs_native_default` if there is one, else    |
|                       |                | HADOOP_CONF_DIR alone                                                      |
| others                | fsspec         | any type, only if named: its extra holds the storage options; for S3 login |
|                       |                | and password are key and secret. Without one: what the library finds.      |

A connection says where HDFS is. The authority of a URI may be empty; if it is not, it must agree with the connection,
since data that goes to another cluster than the URI says is worse than a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.connections import connection

if TYPE_CHECKING:
    from airflow_kafka_hdfs.adapters.storage.opening import StoreOptions, StoreUri
    from airflow_kafka_hdfs.adapters.storage.probe import ProvableStore

DEFAULT_TIMEOUT = 30.0
DEFAULT_RETRY_SECONDS = 60.0

_WEBHDFS_DEFAULT = "webhdfs_default"
_NATIVE_DEFAULT = "hdfs_native_default"


def store_for(
    uri: str,
    conn_id: str | None = None,
    *,
    file_mode: int | str | None = None,
    dir_mode: int | str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retry_seconds: float = DEFAULT_RETRY_SECONDS,
) -> ProvableStore:
    """The store at a URI. Nothing is asked of HDFS or a bucket yet; connections are read.

    Args:
        uri: `file:///data`, `/data`, `webhdfs:///data`, `hdfs://nameservice/data`, `s3://bucket/data`, ….
        conn_id: Airflow connection; None: by scheme, see above.
        file_mode: permission bits of new files (`0o640` or `'640'`), None for the store's.
        dir_mode: permission bits of new folders, None for the store's.
        timeout: seconds for one request.
        retry_seconds: how long one call goes on trying while the store is away; 0: one try.

    Raises:
        ConfigError: the URI, the connection or an option can't be used; the text says what is allowed.
    """
    from airflow_kafka_hdfs.adapters.storage import opening
    from airflow_kafka_hdfs.adapters.storage.retry import Patience

    if timeout <= 0:
        raise ConfigError("timeout", timeout, "more than 0 seconds")
    options = opening.StoreOptions(
        file_mode=opening.parse_mode("file_mode", file_mode, least=0o600),
        dir_mode=opening.parse_mode("dir_mode", dir_mode, least=0o700),
        timeout=timeout,
        patience=Patience(seconds=retry_seconds),
    )
    parsed = opening.StoreUri.parse(uri)
    if parsed.scheme in opening.LOCAL_SCHEMES:
        if conn_id is not None:
            raise ConfigError("storage_conn_id", conn_id, "None", "A local folder has no connection.")
        return opening.open_local(parsed, options)
    if parsed.scheme in opening.WEBHDFS_SCHEMES:
        return _webhdfs(parsed, options, conn_id or _WEBHDFS_DEFAULT)
    if parsed.scheme == opening.NATIVE_SCHEME:
        return _native(parsed, options, conn_id)
    return opening.open_objects(parsed, options, _storage_options(parsed, conn_id))


def _webhdfs(uri: StoreUri, options: StoreOptions, conn_id: str) -> ProvableStore:
    from airflow_kafka_hdfs.adapters.storage.opening import open_webhdfs
    from airflow_kafka_hdfs.hooks.webhdfs import NameNodes

    connection(
        "storage_conn_id",
        conn_id,
        '{"conn_type": "webhdfs", "host": "namenode1,namenode2", "port": 9870, "login": "etl"}',
    )
    namenodes = NameNodes(conn_id, timeout=options.timeout)
    host, _, port = uri.authority.partition(":")
    if uri.authority and (host not in namenodes.hosts or port not in ("", str(namenodes.port))):
        own = ", ".join(f"{uri.scheme}://{host}:{namenodes.port}" for host in namenodes.hosts)
        hint = "Or leave the authority empty: webhdfs:///folder."
        raise ConfigError("uri", str(uri), f"{own}, as connection {conn_id} says", hint)
    if uri.scheme == "swebhdfs" and not namenodes.uses_tls:
        raise ConfigError(f"connection {conn_id}: use_ssl", False, "true, for swebhdfs://")
    return open_webhdfs(uri, options, namenodes)


def _native(uri: StoreUri, options: StoreOptions, conn_id: str | None) -> ProvableStore:
    from airflow_kafka_hdfs.adapters.storage.opening import open_native
    from airflow_kafka_hdfs.hooks.hdfs_native import HdfsNativeHook

    if conn_id is not None:
        connection("storage_conn_id", conn_id, '{"conn_type": "hdfs_native", "host": "nameservice"}')
    elif _has_connection(_NATIVE_DEFAULT):
        conn_id = _NATIVE_DEFAULT
    hook = HdfsNativeHook(conn_id, authority=uri.authority)
    hook.get_conn()  # settings that can't be used show here, not at the first call
    return open_native(uri, options, hook.get_conn)


def _storage_options(uri: StoreUri, conn_id: str | None) -> dict[str, Any]:
    if conn_id is None:
        return {}
    found = connection("storage_conn_id", conn_id, '{"conn_type": "generic", "extra": {"endpoint_url": "https://…"}}')
    options = dict(found.extra_dejson)
    if uri.scheme in ("s3", "s3a"):
        if found.login:
            options.setdefault("key", found.login)
            options.setdefault("secret", found.password)
        if region := options.pop("region_name", None):
            options["client_kwargs"] = {"region_name": region, **options.get("client_kwargs", {})}
    return options


def _has_connection(conn_id: str) -> bool:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return False
    return True
