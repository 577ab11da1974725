"""Connections by id; a missing one is told with the argument that names it, and how to make it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError


def connection(key: str, conn_id: str, example: str) -> Any:
    """A connection of Airflow.

    Args:
        key: name of the argument that holds the id.
        conn_id: the id.
        example: what the environment variable of such a connection may hold.

    Raises:
        ConfigError: there is no such connection.
    """
    from airflow.sdk import BaseHook

    with telling_of_missing(key, conn_id, example):
        return BaseHook.get_connection(conn_id)


@contextmanager
def telling_of_missing(key: str, conn_id: str, example: str, allowed: str = "the id of a connection") -> Iterator[None]:
    """Tell of a connection that is not there, where a hook looks for it.

    Args:
        key, conn_id, example: as `connection`.
        allowed: what the argument may hold.

    Raises:
        ConfigError: there is no such connection.
    """
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        yield
    except AirflowNotFoundException:
        variable = f"AIRFLOW_CONN_{conn_id.upper()}='{example}'"
        hint = f"There is no connection of this id: create it in Airflow, or set {variable}."
        raise ConfigError(key, conn_id, allowed, hint) from None
