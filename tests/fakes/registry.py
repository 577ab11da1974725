"""A schema registry in memory: numbers or 16-byte ids, subjects by topic, outages on demand."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable

from airflow_kafka_hdfs.exceptions import RegistryUnavailableError, UnknownSchemaError, UnusableSchemaError
from airflow_kafka_hdfs.ports.schemas import SchemaRegistry


class FakeRegistry(SchemaRegistry):
    """Answers like a registry without a cache, so that calls can be counted.

    Args:
        id_width: 4 for numbers 1, 2, 3 …; 16 for the MD5 of the schema text as 32 hex digits.
        on_call: called with `registry.by_id` or `registry.latest` before each answer; may raise.

    Attributes:
        down: while True every call raises RegistryUnavailableError.
        calls: how often each operation was asked for, failed ones included.
    """

    def __init__(self, *, id_width: int = 4, on_call: Callable[[str], None] = lambda name: None) -> None:
        if id_width not in (4, 16):
            raise ValueError(f"id_width: got {id_width}; allowed: 4, 16")
        self._width = id_width
        self._on_call = on_call
        self._schemas: dict[int | str, str] = {}
        self._latest: dict[str, int | str] = {}
        self.down = False
        self.calls: Counter[str] = Counter()

    def register(self, topic: str, schema: object) -> int | str:
        """Make a schema (JSON text or plain values) the latest of a topic; the same text keeps its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        known = next((schema_id for schema_id, have in self._schemas.items() if have == text), None)
        if known is None:
            known = len(self._schemas) + 1 if self._width == 4 else hashlib.md5(text.encode()).hexdigest()
            self._schemas[known] = text
        self._latest[topic] = known
        return known

    def forget(self, schema_id: int | str) -> None:
        """From now on the registry does not know this id; subjects keep pointing at it, as a broken registry would."""
        del self._schemas[schema_id]

    def by_id(self, schema_id: int | str) -> str:
        self._enter("registry.by_id")
        text = self._schemas.get(schema_id)
        if text is None:
            raise UnknownSchemaError(f"schema id {schema_id}: the registry does not know it")
        return _checked(schema_id, text)

    def latest(self, topic: str) -> tuple[int | str, str] | None:
        self._enter("registry.latest")
        schema_id = self._latest.get(topic)
        if schema_id is None:
            return None
        return schema_id, _checked(schema_id, self._schemas[schema_id])

    def _enter(self, name: str) -> None:
        self.calls[name] += 1
        self._on_call(name)
        if self.down:
            raise RegistryUnavailableError("the fake registry is down")


def _checked(schema_id: int | str, text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        raise UnusableSchemaError(f"schema id {schema_id}: no JSON: {error}") from error
    return text
