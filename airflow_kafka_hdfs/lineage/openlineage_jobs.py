"""What the facets of an OpenLineage event say of its job and run, in our words."""

from __future__ import annotations

from airflow_kafka_hdfs.lineage.events import DatasetDetail, Envelope, Job, TaskIoMessage, Versions, team_of
from airflow_kafka_hdfs.lineage.json_part import Part
from airflow_kafka_hdfs.lineage.openlineage_datasets import EventIo
from airflow_kafka_hdfs.lineage.workflow import TaskIo, key_text

JOB = "job"
"""Id of the one task of a job that is no DAG."""
RUNNING = "running"
STATES_OF_EVENTS = {"START": RUNNING, "RUNNING": RUNNING, "OTHER": RUNNING, "COMPLETE": "success", "FAIL": "failed"}
ABORTED = "ABORT"
_REASON = 300


def state_of(kind: str) -> str:
    """The state that an event's type tells, in Airflow's words."""
    return STATES_OF_EVENTS.get(kind, "failed")


def has_ended(kind: str) -> bool:
    """Whether an event of this type is the last of its run."""
    return state_of(kind) != RUNNING


def reason_of(event: Part, kind: str) -> str:
    """Why a run failed: the first line of its error, never the stack below it."""
    said = event.part("run").part("facets").part("errorMessage").text("message")
    first = said.strip().split("\n", 1)[0][:_REASON]
    return first or ("aborted" if kind == ABORTED else "")


def job_of(event: Part) -> Job:
    """The job with what its facets say; names are kept as they come."""
    job = event.part("job")
    facets = job.part("facets")
    owners = [item.needed("name") for item in facets.part("ownership").parts("owners")]
    tags = sorted({_tag(item) for item in facets.part("tags").parts("tags")})
    code = facets.part("sourceCodeLocation")
    integration = facets.part("jobType").text("integration")
    return Job(
        instance=key_text(job.needed("namespace")),
        dag_id=key_text(job.needed("name")),
        domain="Airflow" if integration.upper() == "AIRFLOW" else integration.capitalize() or "OpenLineage",
        owners=tuple(dict.fromkeys(owners)),
        team=team_of(tuple(tags)),
        tags=tuple(tags),
        config_file=code.text("url")[:2_000],
        relative_fileloc=code.text("path")[:2_000],
        description=facets.part("documentation").text("description")[:2_000],
    )


def _tag(item: Part) -> str:
    key, value = item.needed("key"), item.text("value")
    return key if value in ("", key, "true") else f"{key}:{value}"


def versions_of(event: Part) -> Versions:
    """What engine and code made the run."""
    engine = event.part("run").part("facets").part("processing_engine")
    code = event.part("job").part("facets").part("sourceCodeLocation")
    name, version = engine.text("name"), engine.text("version")
    is_airflow = name.lower() == "airflow"
    return Versions(
        airflow=version if is_airflow else "",
        provider=engine.text("openlineageAdapterVersion"),
        bundle_version=code.text("version"),
        service="" if is_airflow else f"{name} {version}".strip(),
    )


def report_of(
    about: Envelope, io: EventIo, *, task_id: str, state: str, map_index: int = -1, try_number: int = 1
) -> TaskIoMessage:
    """What a task instance read and wrote; explicit pairs are those that the event names, no others."""
    return TaskIoMessage(
        envelope=about,
        report=TaskIo(
            task_id=task_id,
            map_index=map_index,
            try_number=try_number,
            state=state,
            reads=io.reads,
            writes=io.writes,
            explicit=io.explicit or None,
            columns=io.columns,
            temporary=io.temporary,
            complete=state != RUNNING,
        ),
        details=tuple(detail for detail in io.details if _says_more(detail)),
    )


def _says_more(detail: DatasetDetail) -> bool:
    return detail != DatasetDetail(dataset=detail.dataset)
