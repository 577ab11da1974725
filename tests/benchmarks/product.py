"""A mapped task as a run does it: plan and extract in Airflow's own task runner, by connections and configuration."""

from __future__ import annotations

import itertools
import json
import os
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import patch

from airflow_kafka_hdfs.ingest.plans import Plan, UnitPlan
from tests.benchmarks.data import FRAME, Dataset
from tests.benchmarks.measuring import HELD, Sample
from tests.benchmarks.stages import Clockwork, measured
from tests.fakes.registry_server import registry_server

_numbers = itertools.count()


def arguments_of(dataset: Dataset, registry: str, destination: str) -> dict[str, Any]:
    """Arguments of an ingestion into one task.

    Args:
        dataset: whose topic is read.
        registry: URL of the schema registry.
        destination: URI.
    """
    return {
        "topics": [dataset.name],
        "destination": destination,
        "pipeline_id": "bench",
        "bootstrap": "earliest",
        "registry": registry,
        "value_format": "avro_confluent",
        "time_field": "header.time",
        "time_bounds": ("1980-01-01T00:00:00Z", "2100-01-01T00:00:00Z"),
        "codec": "null",
        "max_tasks": 1,
    }


@cache
def registry_of(name: str, schema: str) -> str:
    """URL of a registry that knows the schema of a topic by the id that its records carry."""
    registry = HELD.enter_context(registry_server())
    number = int.from_bytes(FRAME[1:], "big")
    for older in range(1, number):
        registry.register(name, json.dumps({**json.loads(schema), "doc": f"version {older}"}))
    if registry.register(name, schema) != number:
        raise RuntimeError(f"the schema of {name} did not get the number {number}")
    return registry.url


@cache
def _airflow() -> TextIO:
    """Make the metadata database of the home that the environment names.

    Returns:
        Where what Airflow prints goes, so that the table stands alone. Its loggers keep the file for good.
    """
    home = Path(os.environ["AIRFLOW_HOME"])
    (home / "dags").mkdir(parents=True)
    log = (home / "airflow.log").open("w+")
    with redirect_stdout(log):
        from airflow.utils.db import initdb

        initdb()
    return log


@dataclass
class Product:
    """Runs over one topic.

    Attributes:
        place: URI of a folder; each run writes into one below it, which is deleted afterwards.
        share: of each partition that is read.
    """

    dataset: Dataset
    place: str
    share: float = 1.0

    def run(self, tiers: str | None = None) -> Sample:
        """Plan and one mapped task; the clock runs from the first record to the manifest.

        Args:
            tiers: `[kafka_hdfs] tiers`; None: what a deployment has that says nothing.
        """
        number = next(_numbers)
        clockwork = Clockwork()
        settings = {} if tiers is None else {"AIRFLOW__KAFKA_HDFS__TIERS": tiers}
        log = _airflow()
        with redirect_stdout(log), patch.dict(os.environ, settings), measured(clockwork), self._shortened():
            state = self._run_dag(number, clockwork)
            self._clean(number)
        if state != "success":
            log.seek(0)
            raise RuntimeError(f"the run ended as {state}; Airflow said:\n{log.read()[-4000:]}")
        return clockwork.sample()

    def _run_dag(self, number: int, clockwork: Clockwork) -> str:
        """The end of a run of the two steps, by the real task runner, API and metadata database."""
        from airflow.sdk import DAG

        from airflow_kafka_hdfs.operators.ingest import KafkaToHdfsExtractOperator, KafkaToHdfsPlanOperator
        from tests.airflow.stored import store_dag

        registry = registry_of(self.dataset.name, self.dataset.schema_text)
        arguments = arguments_of(self.dataset, registry, f"{self.place}/{number}")
        with DAG(f"bench_{number}", schedule=None) as dag:
            plan = KafkaToHdfsPlanOperator(task_id="plan", **arguments)
            KafkaToHdfsExtractOperator.partial(
                task_id="extract", pre_execute=clockwork.enter, post_execute=clockwork.leave, **arguments
            ).expand(work_unit=plan.output)
        store_dag(dag)
        return str(dag.test(logical_date=None).state.value)

    def _clean(self, number: int) -> None:
        from airflow_kafka_hdfs.hooks.storage import store_for

        store_for(self.place).delete(str(number), recursive=True)

    def _shortened(self) -> Any:
        """Extract takes the wanted share of what was planned."""
        if self.share == 1.0:
            return nullcontext()
        from airflow_kafka_hdfs.operators import ingest

        load = ingest.load_plan
        return patch.object(ingest, "load_plan", lambda *arguments: _shorter(load(*arguments), self.share))


def _shorter(plan: Plan | None, share: float) -> Plan | None:
    if plan is None:
        return None

    def shorter(unit: UnitPlan) -> UnitPlan:
        works = (replace(work, high=work.low + int((work.high - work.low) * share)) for work in unit.work_units)
        return replace(unit, work_units=tuple(works))

    tasks = [replace(task, units=tuple(map(shorter, task.units))) for task in plan.tasks]
    return replace(plan, tasks=tuple(tasks))
