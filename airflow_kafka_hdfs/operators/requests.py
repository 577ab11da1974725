"""What a run is asked to do: its Params, its type and its dates, as the core takes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from airflow_kafka_hdfs.ingest.requests import PlanRequest

if TYPE_CHECKING:
    from airflow.sdk import Context as AirflowContext

LIMITS = ("time_limit", "record_limit", "byte_limit")


def ingest_params() -> dict[str, Param]:
    """The Params of an ingestion, for `DAG(params={**ingest_params(), …})`; `KafkaToHdfsDag` has them already.

    They hold for every ingestion of the DAG. Null means: what the argument says.
    """
    return {
        "dry_run": _param(
            False, "boolean", "Dry run", "Show the plan in the log of `plan`; nothing is read or written."
        ),
        "range_start": _moment("Range start", "Read records from this Kafka time on, instead of going on."),
        "range_end": _moment("Range end", "Read records up to this Kafka time (exclusive)."),
        "replace": _param(
            False,
            "boolean",
            "Replace",
            "Read the range again and put the new files in the place of those that are there.",
        ),
        "reset": _param(
            None,
            ["object", "null"],
            "Reset",
            'Move start points once: {"topic or regex": "earliest | latest | ISO time"}.',
        ),
        "time_limit": _limit(
            "number", "Time limit", "Seconds after which each task stops reading.", exclusiveMinimum=0
        ),
        "record_limit": _limit("integer", "Record limit", "Records after which each task stops reading.", minimum=1),
        "byte_limit": _limit(
            "integer", "Byte limit", "Bytes of values after which each task stops reading.", minimum=1
        ),
    }


def request_of(context: AirflowContext) -> PlanRequest:
    """What a run asks of planning. Params that the DAG does not have count as null.

    Raises:
        ConfigError: a Param that is not allowed, or Params that contradict each other.
    """
    run: Any = context["dag_run"]
    start, end = run.data_interval_start, run.data_interval_end
    return PlanRequest.of(
        context["params"],
        backfill=str(getattr(run.run_type, "value", run.run_type)) == "backfill",
        data_interval=None if start is None or end is None else (_plain(start), _plain(end)),
        partition_date=None if run.partition_date is None else _plain(run.partition_date),
    )


def limits_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Limits that the Params of a run put in the place of arguments."""
    return {name: params[name] for name in LIMITS if params.get(name) is not None}


def _plain(moment: datetime) -> datetime:
    """A plain datetime: Airflow's own class adds a day as 24 hours, also over a change of the clocks."""
    return datetime.fromtimestamp(moment.timestamp(), UTC)


def _param(default: Any, kind: Any, title: str, description: str, **schema: Any) -> Param:
    return Param(default, description, type=kind, title=title, section="Ingestion", **schema)


def _moment(title: str, description: str) -> Param:
    text = f"{description} With an offset, such as 2026-01-31T22:00:00+00:00."
    return _param(None, ["string", "null"], title, text, format="date-time")


def _limit(kind: str, title: str, description: str, **schema: Any) -> Param:
    return _param(None, [kind, "null"], title, f"{description} Empty: as the DAG says.", **schema)
