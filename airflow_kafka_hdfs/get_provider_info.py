"""What Airflow asks of a provider: operators, hooks, connection types, options, commands.

Airflow calls this at the start of every process, so it loads nothing but the forms of our connections.
"""

from __future__ import annotations

from typing import Any

from airflow_kafka_hdfs.hooks.hdfs_native_form import HDFS_NATIVE_CONNECTION_TYPE
from airflow_kafka_hdfs.hooks.lineage_options import LINEAGE_SECTION, lineage_section
from airflow_kafka_hdfs.hooks.schema_registry_form import SCHEMA_REGISTRY_CONNECTION_TYPE

_NAME = "Kafka to HDFS"


def get_provider_info() -> dict[str, Any]:
    """The provider's description, in the shape of Airflow's provider schema.

    `kafka://` and `hdfs://` asset URIs are those of the Kafka and HDFS providers.
    """
    return {
        "package-name": "airflow-provider-kafka-hdfs",
        "name": _NAME,
        "description": "Kafka topics to time-partitioned files on HDFS, exactly once, with lineage.",
        "integrations": [{"integration-name": _NAME, "tags": ["apache"]}],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": ["airflow_kafka_hdfs.operators.ingest", "airflow_kafka_hdfs.operators.lineage"],
            },
        ],
        "hooks": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    "airflow_kafka_hdfs.hooks.hdfs_native",
                    "airflow_kafka_hdfs.hooks.kafka",
                    "airflow_kafka_hdfs.hooks.lineage",
                    "airflow_kafka_hdfs.hooks.schema_registry",
                    "airflow_kafka_hdfs.hooks.storage",
                ],
            },
        ],
        "connection-types": [HDFS_NATIVE_CONNECTION_TYPE, SCHEMA_REGISTRY_CONNECTION_TYPE],
        "cli": ["airflow_kafka_hdfs.cli.definition.get_kafka_hdfs_cli_commands"],
        "config": {
            "kafka_hdfs": {
                "description": "Kafka to HDFS pipelines.",
                "options": {
                    "progress_interval": {
                        "description": "Seconds between two looks at a running extract task in its task state store.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "30",
                        "default": "5",
                    },
                    "tiers": {
                        "description": "How records may be taken: direct, compiled, numpy, reference (record by "
                        "record), with commas between them. The fastest one that is there is used; a single name "
                        "forces it.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "numpy, reference",
                        "default": "direct, compiled, numpy, reference",
                    },
                    "gate_poke_interval": {
                        "description": "Seconds between two looks of a gate that waits for plans of live runs. "
                        "It holds no worker slot meanwhile.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "30",
                        "default": "60",
                    },
                },
            },
            LINEAGE_SECTION: lineage_section(),
        },
    }
