"""A whole ingestion as one call in a DAG file: plan -> extract (mapped) -> publish -> gate."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from airflow.sdk import DAG, CronDataIntervalTimetable, DeltaDataIntervalTimetable, TaskGroup

from airflow_kafka_hdfs.operators.arguments import JOB_ARGUMENTS, FixedArguments, JobArguments
from airflow_kafka_hdfs.operators.ingest import (
    KafkaToHdfsExtractOperator,
    KafkaToHdfsGateOperator,
    KafkaToHdfsPlanOperator,
    KafkaToHdfsPublishOperator,
)
from airflow_kafka_hdfs.operators.requests import ingest_params

if TYPE_CHECKING:
    from airflow.sdk import XComArg

EXTRACT_DEFAULTS: Mapping[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=30)}
"""Reading again is cheap and safe; the delay is short, since a cleared running task waits for it too."""


class GroupArguments(JobArguments, total=False):
    """Arguments of `KafkaToHdfsTaskGroup`: those of an ingestion, and those of Airflow's `TaskGroup`."""

    default_args: dict[str, Any]
    tooltip: str
    doc_md: str | None
    ui_color: str
    ui_fgcolor: str
    prefix_group_id: bool
    parent_group: TaskGroup | None
    dag: DAG
    group_display_name: str
    add_suffix_on_collision: bool


class KafkaToHdfsTaskGroup(TaskGroup):
    """Kafka topics to time-partitioned files, exactly once.

    Args:
        group_id: of the group; part of the default `pipeline_id`, so give it a name that stays.
        plan_args, extract_args, publish_args, gate_args: arguments of Airflow's operators for one of the steps (pool,
            queue, retries, timeouts, callbacks …). `extract_args` has two retries with a delay of 30 s by default.
        arguments: see `JobArguments` and Airflow's `TaskGroup`.

    Raises:
        ConfigError: an argument that is not allowed.

    Attributes:
        plan, extract, publish, gate: the operators. The group's last task is `gate`: what comes after the group runs
            if everything was decided. What is to run on partial success too comes after `publish`.
    """

    def __init__(
        self,
        group_id: str,
        *,
        plan_args: Mapping[str, Any] | None = None,
        extract_args: Mapping[str, Any] | None = None,
        publish_args: Mapping[str, Any] | None = None,
        gate_args: Mapping[str, Any] | None = None,
        **arguments: Unpack[GroupArguments],
    ) -> None:
        given: dict[str, Any] = {**arguments}
        job = {name: given.pop(name) for name in list(given) if name in JOB_ARGUMENTS}
        super().__init__(group_id, **given)
        # Fixed arguments are gathered once, so that all four operators share them.
        fixed = FixedArguments.take(job)
        pipeline = fixed.values.get("pipeline_id") or f"{self.dag.dag_id}.{self.group_id}"
        job["fixed"] = FixedArguments({**fixed.values, "pipeline_id": pipeline}, self.group_id)
        with self:
            self.plan = KafkaToHdfsPlanOperator(task_id="plan", **job, **(plan_args or {}))
            self.extract = KafkaToHdfsExtractOperator.partial(
                task_id="extract", **job, **{**self._defaults(), **(extract_args or {})}
            ).expand(work_unit=self.plan.output)
            self.publish = KafkaToHdfsPublishOperator(
                task_id="publish", plan=self.plan, results=self.extract, **job, **(publish_args or {})
            )
            self.gate = KafkaToHdfsGateOperator(
                task_id="gate", plan=self.plan, publish=self.publish, **job, **(gate_args or {})
            )

    @property
    def output(self) -> XComArg:
        """What `publish` returned."""
        return self.publish.output

    def _defaults(self) -> dict[str, Any]:
        """Defaults of ours that neither the DAG's nor the group's `default_args` speak of."""
        spoken = {**self.dag.default_args, **self.default_args}
        return {name: value for name, value in EXTRACT_DEFAULTS.items() if name not in spoken}


class KafkaToHdfsDag(DAG):
    """A DAG with one ingestion in it, its Params, and defaults that suit it.

    One run at a time (`max_active_runs=1`), no catching up (what was missed is read by the next run), and a cron string
    or timedelta as a schedule with data intervals, so that backfills know what to read.

    Args:
        dag_id: of the DAG; part of the default `pipeline_id`.
        group_id: of the task group in it.
        kwargs: arguments of `KafkaToHdfsTaskGroup` and of Airflow's `DAG`; `tooltip` and other arguments that both
            have go to the DAG.

    Raises:
        ConfigError: an argument that is not allowed.
    """

    def __init__(self, dag_id: str, *, group_id: str = "ingest", **kwargs: Any) -> None:
        own = JOB_ARGUMENTS | {"plan_args", "extract_args", "publish_args", "gate_args"}
        arguments = {name: kwargs.pop(name) for name in list(kwargs) if name in own}
        kwargs["params"] = {**ingest_params(), **(kwargs.get("params") or {})}
        super().__init__(dag_id, **{"max_active_runs": 1, "catchup": False, **kwargs})
        if isinstance(self.schedule, str) and self.schedule not in ("@once", "@continuous"):
            self.timetable = CronDataIntervalTimetable(self.schedule, self.timezone)
        elif isinstance(self.schedule, timedelta):
            self.timetable = DeltaDataIntervalTimetable(self.schedule)
        # Airflow takes the caller of its own class for the DAG's file, which would be this module.
        self.fileloc = sys._getframe(1).f_code.co_filename  # noqa: SLF001 - as Airflow itself does
        with self:
            self.ingest = KafkaToHdfsTaskGroup(group_id, **arguments)
