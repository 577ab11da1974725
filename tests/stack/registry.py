"""Apicurio Registry: a schema registry that speaks the Confluent REST API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self

import requests

from tests.stack.java import Java, unpacked
from tests.stack.process import Child, Service, port_of, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

JARS = "apicurio-3.3.3"


class ApicurioRegistry(Service):
    """Apicurio Registry 3.3; its schemas and their ids outlive a stop and start on the same folder.

    Args:
        folder: Data and logs.
        properties: Settings (Quarkus and Apicurio names) on top of ours.
        heap_mb: Java heap.
    """

    def __init__(
        self,
        folder: Path,
        *,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 256,
    ) -> None:
        self.folder = folder
        self.port = port_of(folder, "registry")
        home = unpacked(JARS)
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(port_of(folder, "registry-management")),  # else 9000, whoever has it
            "quarkus.log.level": "WARN",
            "quarkus.banner.enabled": "false",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{folder / 'registry'};DB_CLOSE_ON_EXIT=FALSE",
        } | dict(properties or {})
        # Quarkus loads its classes in a way of its own, which start-up caches do not reach.
        java = Java(options=tuple(f"-D{name}={value}" for name, value in settings.items()))
        command = java.command("registry", "-jar", home / "quarkus-run.jar", heap_mb=heap_mb)
        self._child = Child("registry", command, folder / "logs", env=java.env, cwd=home)

    @property
    def children(self) -> Sequence[Child]:
        return [self._child]

    @property
    def url(self) -> str:
        """Base of the Confluent-compatible API: ``http://127.0.0.1:port/apis/ccompat/v7``."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def airflow_connection(self) -> str:
        """Value of an ``AIRFLOW_CONN_…`` of type `schema_registry`."""
        return json.dumps({"conn_type": "schema_registry", "host": self.url})

    def start(self) -> Self:
        self._child.start()
        self.wait_ready()
        return self

    def wait_ready(self, timeout: float = 150.0) -> None:
        """Wait until the registry lists its subjects."""
        wait_until(
            lambda: requests.get(f"{self.url}/subjects", timeout=5).ok,
            what="the schema registry answers",
            timeout=timeout,
            children=[self._child],
        )

    def register(self, subject: str, schema: str) -> int:
        """Register an Avro schema (JSON text) and return its id."""
        answer = requests.post(f"{self.url}/subjects/{subject}/versions", json={"schema": schema}, timeout=30)
        answer.raise_for_status()
        return int(answer.json()["id"])
