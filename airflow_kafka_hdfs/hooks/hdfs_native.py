"""HDFS by native RPC, from a connection of type `hdfs_native`."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import BaseHook

from airflow_kafka_hdfs.adapters.storage.hadoop_conf import read_property
from airflow_kafka_hdfs.exceptions import ConfigError, StorageError

_KERBEROS = ("kerberos_principal", "kerberos_keytab", "kerberos_cache")
# The adapter tries again by itself, and looks before it does: the client should come back soon.
_QUICK = {
    "dfs.client.failover.max.attempts": "8",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "2000",
}


class HdfsNativeHook(BaseHook):
    """Clients of `hdfs-native`.

    The client knows one user for a whole process, HADOOP_USER_NAME (unless Kerberos is on); the login of the
    connection sets it.

    Args:
        hdfs_native_conn_id: a connection of type `hdfs_native`; None: the Hadoop configuration of the worker alone.
        authority: host and port, or name service; empty: the connection's, else `fs.defaultFS`.
    """

    conn_name_attr = "hdfs_native_conn_id"
    default_conn_name = "hdfs_native_default"
    conn_type = "hdfs_native"
    hook_name = "HDFS (native RPC)"

    def __init__(self, hdfs_native_conn_id: str | None = default_conn_name, *, authority: str = "") -> None:
        super().__init__()
        self.hdfs_native_conn_id = hdfs_native_conn_id
        self.authority = authority
        self._clients = 0

    def get_conn(self) -> Any:
        """A new `hdfs_native.Client`; it connects with its first call.

        A client always begins with the first name node of the list, and one that hangs keeps it for good. So each
        further client of this hook, made because something was wrong with the last one, begins with the next.

        Raises:
            ConfigError: `hdfs-native` is not installed, or a setting can't be used.
        """
        try:
            from hdfs_native import Client
        except ImportError:
            hint = "pip install 'airflow-provider-kafka-hdfs[native]', or use webhdfs://."
            raise ConfigError("hdfs://", "not installed", "hdfs-native", hint) from None
        self._clients += 1
        if self.hdfs_native_conn_id is None:
            return self._client(Client, self.authority, dict(_QUICK), None, {})
        connection = self.get_connection(self.hdfs_native_conn_id)
        extra = connection.extra_dejson
        self._take_user(connection.login)
        properties = {**_QUICK, **self._properties(extra.get("properties"))}
        kerberos = {key: extra[key] for key in _KERBEROS if extra.get(key)}
        return self._client(
            Client, self._address(connection), properties, extra.get("hadoop_conf_dir") or None, kerberos
        )

    def test_connection(self) -> tuple[bool, str]:
        """Ask for the root folder, for the button in Airflow's form."""
        from airflow_kafka_hdfs.adapters.storage.native import NativeCalls

        try:
            NativeCalls(self.get_conn, "/", timeout=10).status("test", "")
        except (ConfigError, StorageError) as error:
            return False, str(error)
        return True, "The name node answers."

    def _client(
        self,
        client: Any,
        authority: str,
        properties: dict[str, str],
        config_dir: str | None,
        kerberos: dict[str, str],
    ) -> Any:
        url = f"hdfs://{authority}" if authority else None
        try:
            return client(url, self._rotated(authority, properties, config_dir), config_dir, **kerberos)
        except (RuntimeError, ValueError) as error:
            allowed = "a name node, a name service of the Hadoop configuration, or empty with fs.defaultFS set there"
            raise ConfigError("hdfs://", authority, allowed, f"hdfs-native: {error}.") from None

    def _rotated(self, authority: str, properties: dict[str, str], config_dir: str | None) -> dict[str, str]:
        service = authority or (read_property("fs.defaultFS", config_dir) or "").removeprefix("hdfs://").strip("/")
        key = f"dfs.ha.namenodes.{service}"
        names = [name.strip() for name in (properties.get(key) or read_property(key, config_dir) or "").split(",")]
        first = (self._clients - 1) % len(names)
        return properties if len(names) == 1 else {**properties, key: ",".join(names[first:] + names[:first])}

    def _address(self, connection: Any) -> str:
        host = connection.host or ""
        own = f"{host}:{connection.port}" if host and connection.port else host
        if self.authority and own and self.authority not in (own, host):
            raise ConfigError(
                "uri",
                f"hdfs://{self.authority}",
                f"hdfs://{own}, as connection {self.hdfs_native_conn_id} says, or hdfs:/// with an empty authority",
            )
        return own or self.authority

    def _properties(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            key = f"connection {self.hdfs_native_conn_id}: properties"
            raise ConfigError(key, type(value).__name__, "an object of Hadoop properties")
        return {str(name): str(setting) for name, setting in value.items()}

    def _take_user(self, login: str | None) -> None:
        if not login:
            return
        user = os.environ.setdefault("HADOOP_USER_NAME", login)
        if user != login:
            key = f"connection {self.hdfs_native_conn_id}: login"
            hint = "hdfs-native knows one user for a process; change one of them, or use webhdfs://."
            raise ConfigError(key, login, f"{user}, as HADOOP_USER_NAME says", hint)
