"""Parts of the way without Kafka."""

from __future__ import annotations

import io
import itertools
import json
import random
from functools import cache

import fastavro
from fastavro.schema import to_parsing_canonical_form

from airflow_kafka_hdfs.ingest.config import PackingConfig
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.datum.ladder import Way, decide
from airflow_kafka_hdfs.ingest.datum.packing import Batch, FixedPlaces, Packer, Route
from airflow_kafka_hdfs.ingest.datum.program import compile_program
from airflow_kafka_hdfs.ingest.estimating import Load
from airflow_kafka_hdfs.ingest.packing import pack
from airflow_kafka_hdfs.ingest.records import PartitionKey
from tests.benchmarks.data import FRAME, Dataset
from tests.benchmarks.measuring import Sample, stopwatch

_SPLICED = Dataset("splice", first=True, payload=63, count=50_000)
_ADDED = [
    {"name": "region", "type": ["null", "string"], "default": None},
    {"name": "retries", "type": "int", "default": 0},
]


@cache
def _values() -> list[bytes]:
    return list(_SPLICED.values(_SPLICED.count))


def _target() -> dict[str, object]:
    schema = _SPLICED.schema
    return {**schema, "fields": [*schema["fields"], *_ADDED]}


def splice() -> Sample:
    """Into files of a schema with two more fields, by laying their defaults behind the datum."""
    target = _target()
    canonical = [
        to_parsing_canonical_form(fastavro.parse_schema(json.loads(json.dumps(s)))) for s in (_SPLICED.schema, target)
    ]
    decision = decide(canonical[0], canonical[1], target)
    if decision.way is not Way.SPLICE:
        raise RuntimeError(f"not spliced: {decision.reason}")
    program = compile_program(_SPLICED.schema, "header.time")
    packer = Packer(
        routes={FRAME: Route(program=program, tail=decision.tail)},
        frame_size=len(FRAME),
        locate=FixedPlaces(3_600_000),
        room=lambda _target, _key: (0, 61_440),
        bounds=(0, 4 * 10**12),
    )
    values, tier = _values(), tiers.choose()
    with stopwatch() as watch:
        for at in range(0, len(values), tier.batch_size):
            tier.pack(packer, Batch(values=values[at : at + tier.batch_size]))
    return watch.sample(len(values))


def resolve() -> Sample:
    """The same by decoding with resolution and encoding, with fastavro."""
    writer = fastavro.parse_schema(_SPLICED.schema)
    reader = fastavro.parse_schema(_target())
    values = _values()[:5_000]
    with stopwatch() as watch:
        for value in values:
            fastavro.schemaless_writer(
                io.BytesIO(), reader, fastavro.schemaless_reader(io.BytesIO(value[5:]), writer, reader)
            )
    return watch.sample(len(values))


def pack_units() -> Sample:
    """100,000 work units of 2,000 topics into 20 tasks; one unit of work is the whole."""
    loads = _loads()
    with stopwatch() as watch:
        tasks = pack(loads, PackingConfig())
    if len(tasks) != 20:
        raise RuntimeError(f"{len(tasks)} tasks, expected 20")
    return watch.sample(1)


@cache
def _loads() -> list[Load]:
    chance = random.Random(7)
    found = []
    for number in range(100_000):
        topic, size = f"topic-{number // 50}", int(1_000 * chance.paretovariate(1.2))
        key = PartitionKey(topic=topic, partition=number % 50, cluster_id="bench", topic_id=f"id-{topic}")
        found.append(Load(key, 0, size, size * 1_000.0, float(size)))
    return found


def walk(tier_name: str, dataset: Dataset) -> Sample:
    """Packing alone, from values in memory."""
    values = _in_memory(dataset)
    tier = tiers.choose(tier_name)
    packer = Packer(
        routes={FRAME: Route(program=compile_program(dataset.schema, "header.time"))},
        frame_size=len(FRAME),
        locate=FixedPlaces(3_600_000),
        room=lambda _target, _key: (0, 61_440),
        bounds=(0, 4 * 10**12),
    )
    with stopwatch() as watch:
        for at in range(0, len(values), tier.batch_size):
            tier.pack(packer, Batch(values=values[at : at + tier.batch_size]))
    return watch.sample(len(values))


@cache
def _in_memory(dataset: Dataset) -> list[bytes]:
    return list(itertools.islice(dataset.values(20_000), 20_000))
