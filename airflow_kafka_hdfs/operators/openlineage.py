"""What the ingestion tells Airflow's OpenLineage provider, if it is installed and asks.

The provider calls methods of the operators, in the process of the task: before it runs, and when it has succeeded or
failed. Nothing of it is imported before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_kafka_hdfs.assets import topic_asset

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    from airflow_kafka_hdfs.ingest.config import IngestConfig
    from airflow_kafka_hdfs.ingest.plans import Plan
    from airflow_kafka_hdfs.ingest.records import Manifest
    from airflow_kafka_hdfs.lineage.identity import Naming
    from airflow_kafka_hdfs.operators.outlets import JobAssets, TopicNews


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLineage:
    """One topic and where its records go.

    Attributes:
        source: URI of the topic's asset.
        target: URI of the dataset's asset, empty for a step that writes no dataset.
        read: Kafka records read, None if it is not known (yet).
        read_bytes: bytes of their values.
        written: records in the files that were written.
        size, files: bytes and number of these files.
        fields: (name, type, description) of the columns, if the schema of the files is known beforehand.
        plain: whether each column has the value of the column of its name in the topic's records.
    """

    source: str
    target: str = ""
    read: int | None = None
    read_bytes: int | None = None
    written: int | None = None
    size: int | None = None
    files: int | None = None
    fields: tuple[tuple[str, str, str], ...] = ()
    plain: bool = False


def topics_read(manifest: Manifest | None, cluster: str) -> list[TopicLineage]:
    """What a mapped task read, from its manifest."""
    return [
        TopicLineage(
            source=topic_asset(unit.topic, cluster).uri,
            read=unit.counts.offsets - unit.counts.gaps - unit.counts.lost - unit.counts.skipped,
            read_bytes=unit.counts.bytes_in,
        )
        for unit in (manifest.units if manifest is not None else ())
    ]


def topics_promised(job: JobAssets) -> list[TopicLineage]:
    """What an ingestion may write, as far as the DAG file tells."""
    return [
        TopicLineage(source=topic_asset(topic, job.cluster).uri, target=job.dataset(topic).uri)
        for topic in job.topics or ()
    ]


def topics_published(job: JobAssets, news: Iterable[TopicNews], config: IngestConfig, plan: Plan) -> list[TopicLineage]:
    """What was published: of each topic the sums over the commits at hand.

    Args:
        job: names of topics and datasets.
        news: what each commit changed.
        config: tells schemas that settings give.
        plan: tells schemas that it pinned.
    """
    found: dict[str, dict[str, int]] = {}
    for item in news:
        sums = found.setdefault(item.topic, {})
        for name, value in item.extra["counts"].items():
            sums[name] = sums.get(name, 0) + value
    return [
        TopicLineage(
            source=topic_asset(topic, job.cluster).uri,
            target=job.dataset(topic).uri,
            read=sum(sums.get(name, 0) for name in ("written", "quarantined", "filtered")),
            read_bytes=sums.get("bytes_in", 0),
            written=sums.get("records_out", 0),
            size=sums["bytes"],
            files=sums["files"],
            fields=tuple(_columns(_schema(config, plan, topic))),
            plain=not config.topic(topic).config.converters,
        )
        for topic, sums in sorted(found.items())
    ]


def _schema(config: IngestConfig, plan: Plan, topic: str) -> str | None:
    """The schema of a topic's files, where all have one that is known beforehand."""
    known = config.topic(topic).config
    if known.converters or known.convert_schema:
        return known.convert_schema
    return known.schema or plan.schemas.get(topic, {}).get("reader")


def _columns(schema: str | None) -> Iterator[tuple[str, str, str]]:
    """(name, type, description) of the fields of an Avro record; none for another schema."""
    parsed = json.loads(schema) if schema else None
    if isinstance(parsed, dict) and parsed.get("type") == "record":
        for field in parsed.get("fields", ()):
            yield field["name"], _type(field["type"]), field.get("doc", "")


def _type(avro: Any) -> str:
    if isinstance(avro, list):
        return " | ".join(map(_type, avro))
    if isinstance(avro, dict):
        return str(avro.get("logicalType") or avro.get("name") or _type(avro["type"]))
    return str(avro)


def operator_lineage(topics: Iterable[TopicLineage]) -> OperatorLineage[Any, Any]:
    """The provider's own form of it: exact datasets, pairs as explicit lineage, counts as statistics.

    Args:
        topics: each with its own dataset, never a cross product.

    Raises:
        ImportError: the provider is not installed; then nobody asks.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    naming = _naming()
    found = list(topics)
    return OperatorLineage(
        inputs=[_input(topic, naming) for topic in found],
        outputs=[_output(topic, naming) for topic in found if topic.target],
        job_facets=_job_facets(found, naming),
    )


def _naming() -> Naming:
    """How this deployment names datasets, so that ours and the provider's events agree."""
    from airflow_kafka_hdfs.exceptions import ConfigError
    from airflow_kafka_hdfs.hooks.lineage import read_settings
    from airflow_kafka_hdfs.lineage.identity import Naming

    try:
        return read_settings().naming
    except ConfigError:
        return Naming()


def _name(uri: str, naming: Naming) -> dict[str, Any]:
    dataset = naming.resolve(uri).dataset
    return {"namespace": dataset.namespace, "name": dataset.name}


def _input(topic: TopicLineage, naming: Naming) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics

    facets: dict[str, Any] = {}
    if topic.read is not None:
        facets["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(
            rowCount=topic.read, size=topic.read_bytes
        )
    return InputDataset(**_name(topic.source, naming), inputFacets=facets)


def _output(topic: TopicLineage, naming: Naming) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import column_lineage_dataset, output_statistics_output_dataset, schema_dataset

    facets: dict[str, Any] = {}
    if topic.fields:
        facets["schema"] = schema_dataset.SchemaDatasetFacet(
            fields=[
                schema_dataset.SchemaDatasetFacetFields(name=name, type=kind, description=told or None)
                for name, kind, told in topic.fields
            ]
        )
    if topic.fields and topic.plain:
        source = _name(topic.source, naming)
        same = [column_lineage_dataset.Transformation(type="DIRECT", subtype="IDENTITY", masking=False)]
        facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
            fields={
                name: column_lineage_dataset.Fields(
                    inputFields=[column_lineage_dataset.InputField(**source, field=name, transformations=same)]
                )
                for name, _, _ in topic.fields
            }
        )
    counts: dict[str, Any] = {}
    if topic.written is not None:
        counts["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=topic.written, size=topic.size, fileCount=topic.files
        )
    return OutputDataset(**_name(topic.target, naming), facets=facets, outputFacets=counts)


def _job_facets(topics: list[TopicLineage], naming: Naming) -> dict[str, Any]:
    """Which topic feeds which dataset; older clients do not know the facet, and would pair all with all."""
    try:
        from openlineage.client.facet_v2 import lineage
    except ImportError:
        return {}
    entries: list[Any] = [
        lineage.LineageDatasetEntry(
            type="DATASET",
            **_name(topic.target, naming),
            inputs=[lineage.LineageDatasetInput(type="DATASET", **_name(topic.source, naming))],
        )
        for topic in topics
        if topic.target
    ]
    return {"lineage": lineage.LineageJobFacet(entries=entries)} if entries else {}
