"""The section `[kafka_hdfs_lineage]` as provider info tells it to Airflow; loads nothing."""

from __future__ import annotations

from typing import Any

LINEAGE_SECTION = "kafka_hdfs_lineage"


def _option(
    description: str, default: str | None, *, kind: str = "string", example: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
        **more,
    }


def lineage_section() -> dict[str, Any]:
    """Description and options of the section, in the shape of Airflow's provider schema."""
    return {
        "description": "Lineage: which dataset feeds which, collected from the runs of all DAGs.",
        "options": {
            "enabled": _option(
                "Whether lineage is collected. While it is off, no listener is registered. While it is on, Airflow "
                "refuses DAGs with deferrable operators that set `end_from_trigger=True`, as with any listener.",
                "False",
                kind="boolean",
            ),
            "instance": _option(
                "Name of this Airflow deployment. It is part of the identity of every job: never change it.",
                "airflow",
                example="prod-eu",
            ),
            "kafka_conn_id": _option("Connection of the cluster that carries lineage.", "kafka_default"),
            "kafka_config": _option(
                "JSON with client settings, used instead of the connection.",
                None,
                example='{"bootstrap.servers": "broker:9092"}',
                sensitive=True,
            ),
            "topic": _option("Topic of lineage messages.", "airflow.lineage"),
            "dead_letter_topic": _option("Topic for messages that can't be used.", "airflow.lineage.dlq"),
            "openlineage_topic": _option("Topic with OpenLineage events of others; empty for none.", ""),
            "warehouse": _option(
                "SQLAlchemy URL of the warehouse; empty for SQLite in AIRFLOW_HOME.",
                "",
                example="postgresql+psycopg2://lineage@db/lineage",
                sensitive=True,
            ),
            "warehouse_conn_id": _option("Connection of the warehouse, used instead of the URL.", ""),
            "spool_dir": _option("Where messages wait while Kafka is away; empty for a folder in AIRFLOW_HOME.", ""),
            "spool_max_bytes": _option("Bytes that may wait there on one machine.", "134217728", kind="integer"),
            "queue_size": _option("Runs that may wait for the emitter of one process.", "1000", kind="integer"),
            "task_deadline": _option(
                "Seconds that a task may spend at its end on sending its report.", "2.0", kind="float"
            ),
            "catch_up_interval": _option("Seconds between looks for runs that were never sent.", "300.0", kind="float"),
            "catch_up_hours": _option("How far back the very first look goes.", "24.0", kind="float"),
            "keep_days": _option(
                "For how many days `lineage load --forever` and `LineageLoadOperator` keep single runs and messages; "
                "0: for ever. At least 31. Pairs, datasets, jobs and their facts are kept in any case.",
                "0",
                kind="float",
                example="400",
            ),
            "profile": _option(
                "Which rule makes pairs: `default`, or `yelp` (flow=workflow, intermediates=all).", "default"
            ),
            "flow": _option(
                "When an order edge carries data: `auto`, `workflow` (always), `dataset` (never); empty: by profile.",
                "",
            ),
            "intermediates": _option(
                "Which datasets are left out: `temporary`, `all`, `none`; empty: the profile's.", ""
            ),
            "schedule_inputs": _option(
                "Whether root tasks that read nothing inherit the assets that triggered the run.",
                "True",
                kind="boolean",
            ),
            "max_pairs_per_run": _option(
                "Above this number, inputs and outputs are sent instead of pairs.", "10000", kind="integer"
            ),
            "temporary_schemes": _option("URI schemes of temporary datasets.", "x-tmp,inmemory"),
            "temporary_patterns": _option("Regular expressions for names of temporary datasets.", ""),
            "cluster_aliases": _option(
                "JSON: name of a Kafka cluster -> its brokers.", "", example='{"main": "b1:9092,b2:9092"}'
            ),
            "default_fs": _option("Name node for `hdfs:///path`.", "", example="nn:8020"),
            "trim_schemes": _option("URI schemes whose names lose partition folders at their end.", "hdfs,file"),
            "open_instances": _option(
                "Other deployments and OpenLineage namespaces whose jobs everybody may see who is logged in.",
                "",
                example="spark-prod,other-airflow",
            ),
            "openlineage_emit_topic": _option(
                "Topic where each finished run is told as one OpenLineage event as well, with its pairs as the "
                "`lineage` job facet (experimental in OpenLineage); empty for nowhere.",
                "",
            ),
            "openlineage_namespace": _option(
                "Namespace of this deployment's jobs in OpenLineage; empty: as `instance`. Give it the value of "
                "`[openlineage] namespace`, so that receivers bring both together.",
                "",
            ),
            "export_url": _option(
                "Where a governance platform takes OpenLineage events by POST; empty for no export.",
                "",
                example="https://governance.example.org/api/v1/lineage",
                sensitive=True,
            ),
            "export_conn_id": _option(
                "Connection of type `http` of the platform, used instead of the URL; `endpoint` in its extra is the "
                "path. A password without a login is sent as a bearer token.",
                "",
            ),
            "export_token": _option("Bearer token for the platform.", "", sensitive=True),
            "export_what": _option("What is exported: `relations` of jobs, `runs`, or `all`.", "relations"),
            "export_timeout": _option("Seconds for one request to the platform.", "30.0", kind="float"),
            "export_tries": _option("Requests for one event before the platform counts as away.", "5", kind="integer"),
            "export_days": _option("How many days back runs are exported.", "7.0", kind="float"),
            "service": _option("Version of the service that this deployment is, for messages.", ""),
            "image": _option("Image tag that this deployment runs, for messages.", ""),
            "team": _option("Team that owns the DAGs; empty: from a tag `team:<name>`.", ""),
        },
    }
