"""Registries of every kind with one way to put schemas in."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from typing import Protocol

from airflow_kafka_hdfs.adapters.rest_client import RestClient
from airflow_kafka_hdfs.adapters.schema_registry import ConfluentRegistry, FolderRegistry, WideIdRegistry
from airflow_kafka_hdfs.ports.schemas import SchemaRegistry
from tests.fakes.registry import FakeRegistry
from tests.fakes.registry_server import RegistryServer
from tests.fakes.runtime import ManualClock
from tests.fakes.store import InMemoryStore
from tests.stack.registry import ApicurioRegistry

USER = json.dumps({"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]})

USER_2 = json.dumps(
    {
        "type": "record",
        "name": "User",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string", "default": ""}],
    }
)


class Shelf(Protocol):
    """A registry in the hands of a test."""

    unknown: int | str
    registry: SchemaRegistry

    @abstractmethod
    def register(self, topic: str, schema: str) -> int | str: ...


class FakeShelf(Shelf):
    def __init__(self, id_width: int) -> None:
        self.registry = self._fake = FakeRegistry(id_width=id_width)
        self.unknown = 999 if id_width == 4 else "0" * 32

    def register(self, topic: str, schema: str) -> int | str:
        return self._fake.register(topic, schema)


class ConfluentShelf(Shelf):
    unknown = 999_999

    def __init__(self, server: RegistryServer | ApicurioRegistry) -> None:
        self._server = server
        clock = ManualClock()
        self.registry = ConfluentRegistry(RestClient(base_url=server.url, clock=clock), clock)

    def register(self, topic: str, schema: str) -> int | str:
        if isinstance(self._server, ApicurioRegistry):
            return self._server.register(f"{topic}-value", schema)
        return self._server.register(topic, schema)


class WideShelf(Shelf):
    unknown = "0" * 32

    def __init__(self, server: RegistryServer) -> None:
        self._server = server
        clock = ManualClock()
        self.registry = WideIdRegistry(RestClient(base_url=server.url, clock=clock), clock)

    def register(self, topic: str, schema: str) -> int | str:
        self._server.register(topic, schema)
        return hashlib.md5(schema.encode()).hexdigest()


class FolderShelf(Shelf):
    def __init__(self, *, hex_ids: bool) -> None:
        self.store = InMemoryStore()
        self._hex = hex_ids
        self._made = 0
        self.unknown = "0" * 32 if hex_ids else 999
        self.registry = FolderRegistry(self.store, ManualClock())

    def register(self, topic: str, schema: str) -> int | str:
        self._made += 1
        schema_id = hashlib.md5(schema.encode()).hexdigest() if self._hex else self._made
        self.store.put_if_absent(f"{schema_id}.avsc", schema.encode())
        self.store.delete(f"{topic}.avsc")
        self.store.put_if_absent(f"{topic}.avsc", schema.encode())
        return schema_id
