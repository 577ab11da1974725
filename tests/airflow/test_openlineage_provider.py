"""The ingestion through the eyes of Airflow's OpenLineage provider, the real one: what its extractors are told."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import DAG
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from airflow_kafka_hdfs import KafkaToHdfsDag, KafkaToHdfsTaskGroup
from airflow_kafka_hdfs.lineage.openlineage import EventReader
from airflow_kafka_hdfs.lineage.openlineage_making import run_id
from airflow_kafka_hdfs.lineage.settings import LineageSettings

HOUR = 3_600_000
FIRST = 1_767_225_600_000
SEEN: list[tuple[str, str, dict]] = []
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "value", "type": ["null", "bytes"], "default": None, "doc": "as it came"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    ],
}


def look(state):
    """A callback that asks the provider's extractors, as its listener does in the process of the task."""

    def asked(context):
        from airflow.providers.openlineage.extractors.manager import ExtractorManager
        from airflow.utils.state import TaskInstanceState

        ti = context["ti"]
        found = ExtractorManager().extract_metadata(
            dagrun=context["dag_run"], task=ti.task, task_instance_state=TaskInstanceState(state), task_instance=ti
        )
        SEEN.append((state, ti.task_id.rpartition(".")[2], event_of(found)))

    return asked


def event_of(found):
    """The event that the provider would send, as it is sent."""
    event = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-01-01T00:00:00+00:00",
        run=Run(runId="01946d0c-0000-7000-8000-000000000000"),
        job=Job(namespace="test", name="dag.task", facets=found.job_facets),
        inputs=found.inputs,
        outputs=found.outputs,
        producer="https://example.org",
    )
    return json.loads(Serde.to_json(event))


def asked_of(step, state="success"):
    return [event for when, task, event in SEEN if (when, task) == (state, step)]


@pytest.fixture
def ran(kafka, produce, run_dag, tmp_path, unique_name):
    """Two topics, of which one has three records and one has two; a third one has none."""
    SEEN.clear()
    topics = [f"{unique_name}_{letter}" for letter in "abc"]
    for topic in topics:
        kafka.create_topic(topic, partitions=1)
    for topic, count in zip(topics, (3, 2, 0), strict=True):
        produce(topic, [{"id": n, "time": FIRST + n} for n in range(count)])
    dag = KafkaToHdfsDag(
        f"dag_{unique_name}",
        schedule=None,
        topics=topics,
        destination=tmp_path.as_uri(),
        value_format="json",
        file_format="jsonl",
        time_field="time",
        bootstrap="earliest",
        default_args={
            "on_execute_callback": look("running"),
            "on_success_callback": look("success"),
        },
    )
    assert run_dag(dag).state == "success"
    return topics, tmp_path


def test_the_provider_is_told_exact_pairs_with_counts(ran):
    topics, folder = ran
    a, b, _ = topics
    (event,) = asked_of("publish")
    assert [item["name"] for item in event["inputs"]] == [a, b]
    assert {item["namespace"] for item in event["inputs"]} == {"kafka://kafka_default:9092"}
    assert [(item["namespace"], item["name"]) for item in event["outputs"]] == [
        ("file", f"{folder}/{a}"),
        ("file", f"{folder}/{b}"),
    ]
    entries = event["job"]["facets"]["lineage"]["entries"]
    pairs = [(source["name"], entry["name"]) for entry in entries for source in entry["inputs"]]
    assert pairs == [(a, f"{folder}/{a}"), (b, f"{folder}/{b}")]
    counts = [item["outputFacets"]["outputStatistics"] for item in event["outputs"]]
    assert [(item["rowCount"], item["fileCount"]) for item in counts] == [(3, 1), (2, 1)]
    assert counts[0]["size"] == sum(path.stat().st_size for path in (folder / a).rglob("*.jsonl"))
    assert [item["inputFacets"]["inputStatistics"]["rowCount"] for item in event["inputs"]] == [3, 2]
    # What the provider sends makes the same pairs in a warehouse of ours.
    (_, message) = EventReader(LineageSettings()).of(event).messages
    assert [len(item.sources) for item in message.report.explicit] == [1, 1]

    (promised,) = asked_of("publish", "running")
    assert [item["name"] for item in promised["outputs"]] == [f"{folder}/{topic}" for topic in topics]
    assert not [item for item in promised["outputs"] if item.get("outputFacets")]

    read = {
        item["name"]: item["inputFacets"]["inputStatistics"]["rowCount"]
        for event in asked_of("extract")
        for item in event["inputs"]
    }
    assert read == {a: 3, b: 2}
    assert not [event for event in asked_of("extract") if event["outputs"]]
    for step in ("plan", "gate"):
        assert [(event["inputs"], event["outputs"]) for event in asked_of(step)] == [([], [])]


def test_columns_are_told_where_the_schema_of_the_files_is_known(tmp_path):
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    from airflow_kafka_hdfs.operators.openlineage import TopicLineage, operator_lineage, topics_published
    from airflow_kafka_hdfs.operators.outlets import TopicNews

    with DAG("columns", schedule=None):
        group = KafkaToHdfsTaskGroup(
            "load", topics=["t"], destination="hdfs://nn/data", value_format="avro", schema=SCHEMA, time_field="at"
        )
    publish = group.publish
    counts = {"written": 5, "records_out": 5, "bytes_in": 50, "files": 1, "bytes": 70, "quarantined": 1}
    news = [TopicNews(topic="t", extra={"counts": counts}, moments=frozenset())] * 2

    class Plan:
        schemas = {}

    publish._topics_published = topics_published(publish.job, news, publish.config(), Plan())
    event = event_of(DefaultExtractor(publish).extract_on_complete(None))
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("hdfs://nn", "/data/t")
    fields = output["facets"]["schema"]["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        ("value", "null | bytes"), ("at", "timestamp-millis")
    ]  # fmt: skip
    columns = output["facets"]["columnLineage"]["fields"]
    assert columns["value"]["inputFields"][0]["field"] == "value"
    assert columns["value"]["inputFields"][0]["transformations"][0]["subtype"] == "IDENTITY"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 10
    assert event["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 12
    renamed = operator_lineage([TopicLineage(source="kafka://b/t", target="hdfs://nn/t", fields=(("x", "int", ""),))])
    assert "columnLineage" not in renamed.outputs[0].facets


def test_run_ids_are_those_of_the_provider():
    from datetime import UTC, datetime

    from airflow.providers.openlineage import conf
    from airflow.providers.openlineage.utils.utils import build_dag_run_ol_run_id

    for when in (datetime(2026, 3, 1, 6, 7, 8, 123_456, UTC), datetime(1999, 12, 31, tzinfo=UTC)):
        for clear in (0, 3):
            theirs = build_dag_run_ol_run_id("a.dag", when, clear)
            assert run_id(conf.namespace(), "a.dag", clear, when) == theirs
