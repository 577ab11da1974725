"""From command line arguments to a pipeline: by its DAG, or by the places where it keeps things."""

from __future__ import annotations

import dataclasses
import getpass
import os
from argparse import Namespace
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn

from airflow_kafka_hdfs.assets import is_template
from airflow_kafka_hdfs.cli.runs import MetadataRunStates
from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest.config import PIPELINE_DEFAULTS, IngestConfig
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.layout import ROOT, unescape
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.plan_book import all_plans
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.operators.arguments import TEMPLATED
from airflow_kafka_hdfs.operators.ingest import KafkaToHdfsPlanOperator
from airflow_kafka_hdfs.operators.outlets import needs_run_time


def context_of(args: Namespace) -> Context:
    """The ports of the pipeline that a command is about.

    Raises:
        ConfigError: it is not told which, or there is none such.
    """
    from airflow_kafka_hdfs.operators.ports import open_context

    in_server_context()
    if args.dag_id is None and args.destination is None and args.state_uri is not None:
        return _by_state(args)
    return open_context(_config(args), command_run(args), MetadataRunStates())


def grace_of(args: Namespace) -> timedelta:
    """How long the pipeline keeps what is of no use any more; the default where only its places are told."""
    if args.dag_id is None:
        default: timedelta = PIPELINE_DEFAULTS["gc_grace"]
        return default
    return _config(args).gc_grace


def config_of(dag_id: str, group_id: str | None) -> IngestConfig:
    """The configuration of an ingestion, as far as it can be known outside of a run.

    Raises:
        ConfigError: no such DAG or group, or an argument whose template needs a run.
    """
    return _rendered(operator_of(dag_id, group_id), needed=TEMPLATED).config()


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
    """Of a command that needs to know where things are, not what is read."""
    if args.dag_id is not None:
        operator = operator_of(args.dag_id, args.group_id)
        operator.destination = args.destination or operator.destination
        operator.state_uri = args.state_uri or operator.state_uri
        return _rendered(operator, needed=("destination", "state_uri")).config()
    if args.destination is None or args.pipeline_id is None:
        raise ConfigError("--dag-id", None, "--dag-id, --state-uri, or --destination with --pipeline-id")
    return IngestConfig.of(
        {
            "topics": TopicFilter(),
            "destination": args.destination,
            "pipeline_id": args.pipeline_id,
            "state_uri": args.state_uri,
            "storage_conn_id": args.storage_conn_id,
        }
    )


def _rendered(operator: KafkaToHdfsPlanOperator, needed: Collection[str]) -> KafkaToHdfsPlanOperator:
    """An operator whose templates are rendered with what there is outside of a run: Params, variables, connections.

    Args:
        needed: fields that the command can't do without; the others are left at what means nothing.
    """
    from airflow.sdk.execution_time.context import ConnectionAccessor, VariableAccessor

    context: Any = {
        "params": operator.dag.params.dump(),
        "var": {"value": VariableAccessor(deserialize_json=False), "json": VariableAccessor(deserialize_json=True)},
        "conn": ConnectionAccessor(),
        "dag": operator.dag,
        "task": operator,
    }
    for name in TEMPLATED:
        value = getattr(operator, name)
        if not (needs_run_time(value) if name == "topics" else is_template(value)) or isinstance(value, TopicFilter):
            continue
        try:
            setattr(operator, name, operator.render_template(value, context))
        except Exception as error:  # whatever a template raises without a run
            if name in needed:
                raise _unknown(name, value, error) from error
            setattr(operator, name, {"topics": TopicFilter(), "bootstrap": "latest"}.get(name))
    return operator


def _unknown(name: str, value: object, error: Exception) -> ConfigError:
    return ConfigError(
        name,
        str(value),
        "a value that can be known outside of a run (Params, variables and connections are rendered)",
        f"{error}; name the pipeline by its places instead: --destination URI --pipeline-id ID, and --state-uri where "
        "the records are elsewhere",
    )


def _by_state(args: Namespace) -> Context:
    """The ports of a pipeline of which only the place of its records is told.

    In its default place it tells the destination too; elsewhere a command that needs the destination asks for it.
    """
    from airflow_kafka_hdfs.operators.ports import open_context

    uri = args.state_uri.rstrip("/")
    above, root, pipeline = uri.rpartition(f"/{ROOT}/")
    is_default = bool(root) and "/" not in pipeline
    config = IngestConfig.of(
        {
            "topics": TopicFilter(),
            "destination": above if is_default else uri,
            "pipeline_id": args.pipeline_id or unescape(pipeline.rpartition("/")[2]),
            "state_uri": None if is_default and args.pipeline_id is None else uri,
            "storage_conn_id": args.storage_conn_id,
        }
    )
    ctx = open_context(config, command_run(args), MetadataRunStates())
    if is_default:
        return ctx
    pipeline = args.pipeline_id or next((plan.pipeline for plan in all_plans(ctx, 1)), config.pipeline)
    nowhere: Any = _UnknownDestination()
    return dataclasses.replace(ctx, log=CommitLog(ctx.state, nowhere, ctx.workers, pipeline, copies=True))


class _UnknownDestination:
    """Stands in the place of the destination's store; whoever wants to use it learns what is missing."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ConfigError(
            "--destination",
            None,
            "the destination's URI",
            "this command looks at the data, and --state-uri tells nothing of it",
        )
