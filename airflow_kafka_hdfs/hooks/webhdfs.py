"""Clients for WebHDFS from the HDFS provider's hook, one name node at a time.

The provider's hook goes through the name nodes of the connection and takes the first that answers. Two things are
added here: a time-out for every request, also for the hook's own, and the next name node when one hangs instead of
refusing, where the hook itself would stop.
"""

from __future__ import annotations

import copy
import socket
import threading
from typing import Any

import requests
from airflow.providers.apache.hdfs.hooks.webhdfs import WebHDFSHook
from airflow.sdk.exceptions import AirflowException
from hdfs import HdfsError

from airflow_kafka_hdfs.exceptions import ConfigError, StoreUnavailableError

_CONNECT_SECONDS = 5.0


class NameNodes:
    """Makes clients for the active name node of a `webhdfs` connection; a client factory for the WebHDFS store.

    Each call starts with the name node after the one that the last client was for: a new client is only asked for
    when something was wrong with the last one.

    Args:
        webhdfs_conn_id: connection id.
        timeout: seconds for one request.
    """

    def __init__(self, webhdfs_conn_id: str, *, timeout: float) -> None:
        connection = WebHDFSHook.get_connection(webhdfs_conn_id)
        self.hosts = [host.strip() for host in (connection.host or "").split(",") if host.strip()]
        self.port = connection.port
        if not self.hosts or not self.port:
            raise ConfigError(
                f"connection {webhdfs_conn_id}: host and port",
                f"{connection.host}:{connection.port}",
                "name nodes separated by commas, and their WebHDFS port (usually 9870)",
            )
        self.uses_tls = str(connection.extra_dejson.get("use_ssl", False)) == "True"
        self._conn_id = webhdfs_conn_id
        self._timeout = timeout
        self._next = 0
        self._lock = threading.Lock()

    def __call__(self) -> Any:
        """A client for the active name node.

        Raises:
            StoreUnavailableError: none of them is active and answers; the text says what each one did.
        """
        with self._lock:
            start = self._next
        failures = []
        for number in range(start, start + len(self.hosts)):
            host = self.hosts[number % len(self.hosts)]
            try:
                client = self._client(host)
            except (AirflowException, HdfsError, OSError) as error:
                failures.append(f"{host}:{self.port} {_say(error)}")
            else:
                with self._lock:
                    self._next = number + 1
                return client
        raise StoreUnavailableError(
            "connect", f"webhdfs connection {self._conn_id}", f"no active name node: {'; '.join(failures)}"
        )

    def _client(self, host: str) -> Any:
        # The hook's own check of the port would wait as long as the operating system does.
        with socket.create_connection((host, self.port), timeout=min(self._timeout, _CONNECT_SECONDS)):
            pass
        return _OneNameNodeHook(self._conn_id, host=host, timeout=self._timeout).get_conn()


class _OneNameNodeHook(WebHDFSHook):
    """The provider's hook for one name node of its connection, with time-outs."""

    def __init__(self, webhdfs_conn_id: str, *, host: str, timeout: float) -> None:
        super().__init__(webhdfs_conn_id)
        self._host = host
        self._timeout = timeout

    def get_connection(self, conn_id: str) -> Any:  # type: ignore[override]  # the hook calls it on its instance
        connection = copy.copy(super().get_connection(conn_id))
        connection.host = self._host
        return connection

    def _get_client(self, *args: Any, **kwargs: Any) -> Any:
        client = super()._get_client(*args, **kwargs)
        client._timeout = self._timeout  # noqa: SLF001 - the provider's hook has no way to hand a time-out in
        return client


def _say(error: Exception) -> str:
    if isinstance(error, requests.RequestException):
        return type(error).__name__  # its text may hold the URL with a token
    return str(error).split("\n", 1)[0]
