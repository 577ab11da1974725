"""Schemas that build on others, made whole: each referenced type is written where it is first used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from airflow_kafka_hdfs.exceptions import UnusableSchemaError

_NAMED = ("record", "error", "enum", "fixed")


def inline_references(text: str, references: Iterable[str]) -> str:
    """A schema that stands alone.

    Args:
        text: the schema, JSON.
        references: the schemas that define what it does not, in any order; they may use each other.

    Returns:
        JSON text in which every name is defined where it is first used.

    Raises:
        UnusableSchemaError: one of the texts is no JSON or no schema.
    """
    definitions: dict[str, Any] = {}
    for reference in references:
        _collect(_load(reference), "", definitions)
    schema = _load(text)
    own: dict[str, Any] = {}
    _collect(schema, "", own)
    foreign = {name: definition for name, definition in definitions.items() if name not in own}
    return json.dumps(_Inliner(foreign).whole(schema, ""))


class _Inliner:
    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._written: set[str] = set()

    def whole(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return self._use(schema, namespace)
        if isinstance(schema, list):
            return [self.whole(branch, namespace) for branch in schema]
        kind = schema["type"]
        if kind in _NAMED:
            name = full_name(schema, namespace)
            if name in self._written and name in self._definitions:
                return name  # it came already, on its own
            self._written.add(name)
            if kind in ("record", "error"):
                inner = name.rpartition(".")[0]
                fields = [{**f, "type": self.whole(f["type"], inner)} for f in schema["fields"]]
                return {**schema, "fields": fields}
            return schema
        for key in ("items", "values"):
            if key in schema:
                return {**schema, key: self.whole(schema[key], namespace)}
        return schema if isinstance(kind, str) else {**schema, "type": self.whole(kind, namespace)}

    def _use(self, name: str, namespace: str) -> Any:
        """The name, or its definition if this is the first use of a referenced type."""
        for full in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full in self._written:
                return full
            if full in self._definitions:
                # The definition keeps its own name whatever surrounds it.
                space, _, short = full.rpartition(".")
                return self.whole({**self._definitions[full], "name": short, "namespace": space}, "")
        return name


def full_name(schema: dict[str, Any], namespace: str) -> str:
    """Name of a named type with its namespace, by the rules of the Avro specification."""
    name = str(schema["name"])
    space = schema.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _collect(schema: Any, namespace: str, found: dict[str, Any]) -> None:
    """All named types that are defined in a schema, by full name, with full names inside."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, found)
    elif isinstance(schema, dict):
        kind = schema.get("type")
        inner = namespace
        if kind in _NAMED:
            name = full_name(schema, namespace)
            found.setdefault(name, schema)
            inner = name.rpartition(".")[0]
        for field in schema.get("fields", ()):
            _collect(field["type"], inner, found)
        for key in ("items", "values", "type"):
            if not isinstance(schema.get(key), str | None):
                _collect(schema[key], inner, found)


def _load(text: str) -> Any:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableSchemaError(f"a referenced schema is no JSON: {error}") from error
    if not isinstance(schema, str | list) and not (isinstance(schema, dict) and "type" in schema):
        raise UnusableSchemaError(f"a referenced schema is {type(schema).__name__} without a type")
    return schema
