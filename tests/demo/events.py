"""Sample events of three topics: Avro with schema ids, JSON, and a few that are broken on purpose."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import fastavro
from confluent_kafka import Producer

SCHEMA_ID = 7
SCHEMA = {
    "type": "record",
    "name": "WebEvent",
    "namespace": "demo",
    "fields": [
        {
            "name": "header",
            "type": {
                "type": "record",
                "name": "Header",
                "fields": [
                    {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "host", "type": "string"},
                ],
            },
        },
        {"name": "event_id", "type": "string"},
        {"name": "page", "type": "string"},
        {"name": "user", "type": ["null", "string"], "default": None},
    ],
}
PARTITIONS = {"clicks": 4, "page_views": 3, "orders": 2}
_PAGES = ("/", "/search", "/cart", "/help", "/product/17")


@dataclass(frozen=True, slots=True)
class Event:
    """One message as it is produced. `is_bad`: the job must put it into the quarantine."""

    topic: str
    event_id: str
    at: datetime
    value: bytes
    is_bad: bool = False


def write_registry(folder: Path) -> str:
    """A registry as a folder of schema files; returns its URI."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{SCHEMA_ID}.avsc").write_text(json.dumps(SCHEMA, indent=2))
    return folder.resolve().as_uri()


def make_events(per_topic: int, start: datetime, hours: float, seed: int) -> Iterator[Event]:
    """Events of all topics, in order of time within each topic."""
    chance = random.Random(seed)
    schema = fastavro.parse_schema(SCHEMA)
    for topic in PARTITIONS:
        for number in range(per_topic):
            at = start + timedelta(hours=hours) * (number / per_topic)
            event_id = f"{topic}-{seed}-{number}"
            yield _event(topic, event_id, at, chance, schema)


def _event(topic: str, event_id: str, at: datetime, chance: random.Random, schema: object) -> Event:
    is_bad = chance.random() < 0.01
    if topic == "orders":
        order = {"event_id": event_id, "created_at": at.isoformat(), "amount": round(chance.uniform(5, 500), 2)}
        text = json.dumps(order)
        return Event(topic, event_id, at, (text[:-7] if is_bad else text).encode(), is_bad)
    value = {
        "header": {"time": int(at.timestamp() * 1000), "host": f"web-{chance.randrange(4)}"},
        "event_id": event_id,
        "page": chance.choice(_PAGES),
        "user": chance.choice((None, "ada", "grace", "edsger")),
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    framed = b"\0" + SCHEMA_ID.to_bytes(4, "big") + out.getvalue()
    return Event(topic, event_id, at, framed[:-3] if is_bad else framed, is_bad)


def produce(servers: str, events: list[Event]) -> None:
    """Send events with their own times, and check that each one arrived."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "acks": "all"})
    for number, event in enumerate(events):
        producer.produce(
            event.topic,
            value=event.value,
            key=event.event_id.encode(),
            partition=number % PARTITIONS[event.topic],
            timestamp=int(event.at.timestamp() * 1000),
            on_delivery=lambda error, message: failed.append(str(error)) if error is not None else None,
        )
        producer.poll(0)
    left = producer.flush(30)
    if failed or left:
        raise RuntimeError(f"{len(failed)} events were refused and {left} not delivered: {failed[:3]}")
