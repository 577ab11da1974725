"""From command line arguments to a pipeline: by its DAG, or by the places where it keeps things."""

from __future__ import annotations

import getpass
import os
from argparse import Namespace
from contextlib import suppress

from airflow_kafka_hdfs.cli.runs import MetadataRunStates
from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.operators.ingest import KafkaToHdfsPlanOperator


def context_of(args: Namespace) -> Context:
    """The ports of the pipeline that a command is about.

    Raises:
        ConfigError: it is not told which, or there is none such.
    """
    from airflow_kafka_hdfs.operators.ports import open_context

    in_server_context()
    return open_context(_config(args), command_run(args), MetadataRunStates())


def operator_of(dag_id: str, group_id: str | None) -> KafkaToHdfsPlanOperator:
    """The plan operator of an ingestion; its DAG file is loaded.

    Raises:
        ConfigError: no such DAG or group, or a DAG with several ingestions and no group named.
    """
    from airflow.sdk.exceptions import AirflowException
    from airflow.utils.cli import get_bagged_dag

    in_server_context()
    try:
        dag = get_bagged_dag(None, dag_id)
    except AirflowException as error:
        raise ConfigError("--dag-id", dag_id, "the id of a DAG that loads", str(error)) from error
    found = {task.group: task for task in dag.tasks if isinstance(task, KafkaToHdfsPlanOperator)}
    if group_id is None and len(found) == 1:
        return next(iter(found.values()))
    if group_id not in found:
        raise ConfigError("--group-id", group_id, sorted(found) or "a DAG with an ingestion in it")
    return found[group_id]


def command_run(args: Namespace) -> RunRef:
    """How a command signs what it does."""
    who = ""
    with suppress(OSError, KeyError):  # a container may run as a user without a name
        who = getpass.getuser()
    return RunRef(dag_id=getattr(args, "dag_id", None) or "", run_id="command", group="", who=who)


def in_server_context() -> None:
    """Let connections of the metadata database resolve, as Airflow's own commands do."""
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"


def _config(args: Namespace) -> IngestConfig:
    if args.dag_id is not None:
        return operator_of(args.dag_id, args.group_id).config()
    if args.destination is None or args.pipeline_id is None:
        raise ConfigError("--dag-id", None, "--dag-id, or --destination with --pipeline-id")
    return IngestConfig.of(
        {
            "topics": TopicFilter(),
            "destination": args.destination,
            "pipeline_id": args.pipeline_id,
            "state_uri": args.state_uri,
            "storage_conn_id": args.storage_conn_id,
        }
    )
