"""The records of the benchmarks: eleven fields, framed with a 4-byte schema id, 120 bytes or 2 KB on the wire."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fastavro

from tests.stack.kafka import KafkaCluster

FRAME = b"\x00\x00\x00\x00\x07"
START = 1_767_225_600_000
PARTITIONS = 4

_HEADER = {
    "name": "header",
    "type": {
        "type": "record",
        "name": "Header",
        "fields": [
            {"name": "time", "type": "long"},
            {"name": "server", "type": "string"},
            {"name": "service", "type": "string"},
        ],
    },
}
_REST: list[dict[str, Any]] = [
    {"name": "user", "type": "long"},
    {"name": "session", "type": "long"},
    {"name": "page", "type": "string"},
    {"name": "referrer", "type": ["null", "string"]},
    {"name": "score", "type": "double"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["VIEW", "CLICK", "BUY"]}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "payload", "type": "bytes"},
]


@dataclass(frozen=True)
class Dataset:
    """One topic.

    Attributes:
        first: whether the time field stands first; else last, behind everything that has to be walked over.
        payload: bytes of the payload, half of them random.
        count: records in the topic.
    """

    name: str
    first: bool
    payload: int
    count: int

    @property
    def schema(self) -> dict[str, Any]:
        fields = [_HEADER, *_REST] if self.first else [*_REST, _HEADER]
        return {"type": "record", "name": "Event", "namespace": "bench", "fields": fields}

    @property
    def schema_text(self) -> str:
        return json.dumps(self.schema)

    def values(self, count: int) -> Iterator[bytes]:
        """Values; one per 50 ms of event time, so that an hour has 72,000 of them."""
        chance = random.Random(7)  # noqa: S311 - equal data in every run
        parsed = fastavro.parse_schema(self.schema)
        for number in range(count):
            half = self.payload // 2
            value = {
                "header": {"time": START + number * 50, "server": f"app-{number % 40:02}", "service": "shop"},
                "user": chance.getrandbits(32),
                "session": number,
                "page": f"/item/{number % 5_000}",
                "referrer": None if number % 3 else "/search",
                "score": chance.random(),
                "kind": ("VIEW", "CLICK", "BUY")[number % 3],
                "tags": ["a", "new"][: number % 3],
                "payload": chance.randbytes(half) + b"x" * (self.payload - half),
            }
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, value)
            yield FRAME + out.getvalue()


def datasets(scale: float) -> dict[str, Dataset]:
    """All topics by name."""
    small, large = int(1_000_000 * scale), int(200_000 * scale)
    topics = [
        Dataset("first-120", first=True, payload=63, count=small),
        Dataset("last-120", first=False, payload=63, count=small),
        Dataset("first-2k", first=True, payload=1_900, count=large),
    ]
    return {topic.name: topic for topic in topics}


def load(kafka: KafkaCluster, dataset: Dataset) -> None:
    """Fill the topic of a dataset; values repeat after 100,000, which no part of the way can notice."""
    from confluent_kafka import Producer

    kafka.create_topic(dataset.name, PARTITIONS)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "linger.ms": 50,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 200_000,
        }
    )
    values = list(dataset.values(min(dataset.count, 100_000)))
    for number in range(dataset.count):
        while True:
            try:
                producer.produce(dataset.name, values[number % len(values)], partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if not number % 1_000:
            producer.poll(0)
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} records of {dataset.name} were not acknowledged within 120 s")
