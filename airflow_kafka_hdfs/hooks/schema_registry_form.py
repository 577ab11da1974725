"""The connection type `schema_registry` as Airflow's form shows it; without Airflow, for the provider info."""

from __future__ import annotations

from typing import Any

_TEXT = ["string", "null"]

SCHEMA_REGISTRY_CONNECTION_TYPE: dict[str, Any] = {
    "connection-type": "schema_registry",
    "hook-name": "Schema Registry",
    "hook-class-name": "airflow_kafka_hdfs.hooks.schema_registry.SchemaRegistryHook",
    "ui-field-behaviour": {
        "hidden-fields": ["schema"],
        "relabeling": {"host": "Registry URL"},
        "placeholders": {"host": "https://registry:8081", "login": "user, if the registry wants one"},
    },
    "conn-fields": {
        "id_width": {
            "label": "Bytes of a schema id",
            "description": "4: numbers, Confluent's REST API. 16: hex digits, LinkedIn's API. Else by the format.",
            "schema": {"type": ["integer", "null"], "enum": [4, 16, None]},
        },
        "token": {"label": "Bearer token", "schema": {"type": _TEXT, "format": "password"}},
        "subject": {
            "label": "Subject of a topic's values (4 bytes)",
            "schema": {"type": _TEXT, "default": "{topic}-value"},
        },
        "path_by_id": {"label": "Path of an id (16 bytes)", "schema": {"type": _TEXT, "default": "/id={id}"}},
        "path_latest": {
            "label": "Path of a topic's latest schema (16 bytes)",
            "schema": {"type": _TEXT, "default": "/latest_with_type={topic}"},
        },
        "not_found": {
            "label": "Text in the body of the registry's own 404 (16 bytes)",
            "schema": {"type": _TEXT},
        },
        "ca_file": {"label": "Certificate authorities (PEM file)", "schema": {"type": _TEXT}},
        "cert_file": {"label": "Client certificate (PEM file)", "schema": {"type": _TEXT}},
        "key_file": {"label": "Client key (PEM file)", "schema": {"type": _TEXT}},
    },
}
"""One entry of `connection-types` in the provider info."""
