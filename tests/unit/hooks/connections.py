"""Airflow connections from the environment, as deployments may have them."""

from __future__ import annotations

import json

import pytest


def set_connection(
    monkeypatch: pytest.MonkeyPatch, conn_id: str, conn_type: str, *, extra: dict | None = None, **fields: object
) -> str:
    """Make a connection for this test; returns its id."""
    value = {"conn_type": conn_type, "extra": extra or {}, **fields}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(value))
    return conn_id
