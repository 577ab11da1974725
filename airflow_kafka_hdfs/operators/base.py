"""What the four ingestion operators share: their arguments, and the ports that they introduce to the core."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, ExceptionRetryPolicy, RetryAction, RetryRule, XComArg

from airflow_kafka_hdfs.assets import dataset_uri, is_template
from airflow_kafka_hdfs.exceptions import ConfigError, KafkaHdfsError, Transient
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.selection import TopicFilter
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.operators.arguments import TEMPLATED, FixedArguments
from airflow_kafka_hdfs.operators.openlineage import TopicLineage, operator_lineage
from airflow_kafka_hdfs.operators.outlets import JobAssets, needs_run_time

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context as AirflowContext
    from airflow.sdk.definitions.mappedoperator import OperatorPartial


_EXPRESSION = re.compile(r"\{[{%](.*?)[%}]\}", re.DOTALL)
_OF_THE_RUN = re.compile(
    r"(?:(?<![\w.])|(?<=dag_run\.))(?:ds|ts|ds_nodash|ts_nodash|ts_nodash_with_tz|logical_date|execution_date|run_id|macros|"
    r"(?:data_interval|prev|next|yesterday|tomorrow|partition)_\w+)\b"
)
"""What a template says of the run at hand, rather than of Params, variables or connections."""


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(_named(Transient), RetryAction.RETRY, reason="an outside system is away; trying again may cure it"),
        RetryRule(_named(KafkaHdfsError), RetryAction.FAIL, reason="trying again would end the same way"),
    ]
)
"""Retries are for what they may cure. Errors that are none of ours follow Airflow's own rule."""


class IngestOperator(BaseOperator):
    """Base of the ingestion operators.

    All take all arguments of an ingestion and use what they need, so that a job's arguments are written once and given
    to each of its operators.

    Args:
        topics, destination, state_uri, bootstrap, time_limit, record_limit, byte_limit, rate_limit: see
            `JobArguments`; templated.
        fixed: the arguments that are never templated, where they are gathered already.
        kwargs: the other arguments of `JobArguments`, and those of Airflow's operators.
    """

    template_fields: Collection[str] = TEMPLATED
    template_fields_renderers = {"topics": "json"}
    ui_color = "#e4f0ec"

    def __init__(
        self,
        *,
        topics: Iterable[str] | TopicFilter | XComArg | str | None = None,
        destination: str,
        state_uri: str | None = None,
        bootstrap: str | datetime | timedelta = "latest",
        time_limit: float | str | timedelta | None = None,
        record_limit: int | str | None = None,
        byte_limit: int | str | None = None,
        rate_limit: float | str | None = None,
        fixed: FixedArguments | None = None,
        retry_policy: Any = None,
        **kwargs: Any,
    ) -> None:
        gathered = FixedArguments.take(kwargs, fixed)
        super().__init__(retry_policy=retry_policy or RETRY_POLICY, **kwargs)
        self.topics = topics
        self.destination = destination
        self.state_uri = state_uri
        self.bootstrap = bootstrap
        self.time_limit = time_limit
        self.record_limit = record_limit
        self.byte_limit = byte_limit
        self.rate_limit = rate_limit
        self.fixed = gathered.with_defaults(kwargs.get("default_args") or {})

    @classmethod
    def partial(cls, **kwargs: Any) -> OperatorPartial:
        """As Airflow's `partial`; fixed arguments travel as one value whose text is the same in every process."""
        fixed = FixedArguments.take(kwargs, kwargs.pop("fixed", None))
        return super().partial(fixed=fixed, **kwargs)

    @property
    def group(self) -> str:
        """Id of the task group, empty for operators outside of one."""
        return self.task_id.rpartition(".")[0] if self.fixed.group is None else self.fixed.group

    @property
    def pipeline(self) -> str:
        """Id of the pipeline: as given, else `<dag_id>.<group_id>`, or `<dag_id>` outside of a group."""
        given = self.fixed.values.get("pipeline_id")
        return given or ".".join(filter(None, (self.dag_id, self.group)))

    def config(self, *, limits: Mapping[str, Any] | None = None, max_map_length: int | None = None) -> IngestConfig:
        """The checked configuration; after rendering.

        Args:
            limits: Params of this run that take the place of arguments.
            max_map_length: Airflow's `[core] max_map_length`, for the one who makes mapped tasks.

        Raises:
            ConfigError: an argument that is not allowed.
        """
        arguments = {**self.fixed.values, **{name: getattr(self, name) for name in TEMPLATED}}
        arguments["pipeline_id"] = self.pipeline
        arguments["topics"] = _names(self.topics)
        arguments["state_uri"] = _uri_or_none(self.state_uri)
        return IngestConfig.of({**arguments, **(limits or {})}, max_map_length=max_map_length)

    def job_assets(self) -> JobAssets:
        """The assets of the ingestion, from arguments as the DAG file gives them, before rendering.

        Raises:
            ConfigError: an argument that is not allowed, or a templated destination without `dataset_uri`.
        """
        given: Any = self.topics
        if not isinstance(given, list | tuple | str | TopicFilter | XComArg):  # a set has another order in each process
            hint = "it must be given" if given is None else ""
            raise ConfigError("topics", given, "a list of names, or a TopicFilter", hint)
        late = needs_run_time(given)
        topics = TopicFilter() if late and not isinstance(given, TopicFilter) else given
        if isinstance(given, str) and not late:
            written = [name.strip() for name in given.split(",")]
            raise ConfigError("topics", given, "a list of names, or a TopicFilter", f"write {written}")
        for key in ("destination", "state_uri"):
            _refuse_dates(key, getattr(self, key))
        destination = self.destination
        if is_template(destination):
            destination = dataset_uri(self.fixed.values.get("dataset_uri") or destination)
        known = {name: getattr(self, name) for name in TEMPLATED}
        known = {name: value for name, value in known.items() if not (is_template(value) or isinstance(value, XComArg))}
        config = IngestConfig.of(
            {
                **self.fixed.values,
                **known,
                "pipeline_id": self.pipeline or self.task_id,
                "topics": topics,
                "destination": destination,
                "state_uri": _uri_or_none(known.get("state_uri")),
            }
        )
        return JobAssets.of(config, topics=None if isinstance(config.topics, TopicFilter) else config.topics)

    def openlineage_topics(self) -> list[TopicLineage]:
        """What the step reads and writes, as far as it is known now; nothing for a step that only plans or judges."""
        return []

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Airflow's OpenLineage provider asks before the task runs."""
        return operator_lineage(self.openlineage_topics())

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Airflow's OpenLineage provider asks when the task has succeeded."""
        return operator_lineage(self.openlineage_topics())

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Airflow's OpenLineage provider asks when the task has failed."""
        return operator_lineage(self.openlineage_topics())

    def run_ref(self, context: AirflowContext) -> RunRef:
        """The run, as plans and commits name it."""
        who = getattr(context["dag_run"], "triggering_user_name", None) or ""
        return RunRef(dag_id=self.dag_id, run_id=context["run_id"], group=self.group, who=who)


def task_id_of(source: Any, key: str) -> str:
    """The id of the task that a step gets its input from.

    Args:
        source: an operator, mapped or not, or its `output`.
        key: name of the argument, for the message.

    Raises:
        ConfigError: something else.
    """
    task_id = getattr(getattr(source, "operator", source), "task_id", None)
    if isinstance(task_id, str):
        return task_id
    raise ConfigError(key, source, "the operator of the step before, or its output")


def _uri_or_none(value: str | None) -> str | None:
    """A URI; what a template makes of nothing is none."""
    return None if value in ("", "None") else value


def _refuse_dates(key: str, value: object) -> None:
    """A place that changes from run to run would give each run a log of its own, and none would know of the others.

    Raises:
        ConfigError: a template that holds a date or the run.
    """
    for expression in _EXPRESSION.findall(value) if isinstance(value, str) else ():
        if found := _OF_THE_RUN.search(expression):
            raise ConfigError(
                key,
                value,
                "a URI that is the same for all runs; Params, variables and connections may stand in it",
                f"{found.group()!r} changes from run to run: each run would begin anew. Folders of dates are made by "
                "path_pattern and path_template",
            )


def _names(topics: Any) -> Any:
    """Topics as a list: of a rendered text the parts between commas, or its JSON list."""
    if isinstance(topics, str):
        if topics.lstrip().startswith("["):
            try:
                return json.loads(topics)
            except ValueError as error:
                raise ConfigError("topics", topics, "a JSON list of topic names", str(error)) from None
        return [name.strip() for name in topics.split(",") if name.strip()]
    if topics is None or isinstance(topics, TopicFilter):
        return topics
    return list(topics)
