"""A mapped task against a real broker and onto a real disk: markers, aborts, holes, an outage, a topic made anew."""

from __future__ import annotations

import dataclasses
import io
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.extraction import Extraction, ExtractOptions, extract
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Outcome, UnitResult
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.operators.reporting import ways_of
from airflow_kafka_hdfs.ports.kafka import Poll, RecordReader
from tests.fakes.registry import FakeRegistry
from tests.fakes.runtime import KnownRuns, ManualStop, RecordedProgress
from tests.stack.kafka import KafkaCluster
from tests.unit.ingest.extracting import EVENT, HOUR, confluent, event, read_back

PARTITIONS = 4
NOW = int(time.time() * 1000) // HOUR * HOUR - 6 * HOUR


class Pipeline:
    """One topic of a real broker, one folder of a real disk."""

    def __init__(
        self,
        kafka: KafkaCluster,
        topic: str,
        folder: Path,
        *,
        tier: str = "auto",
        client: dict | None = None,
        store=None,
        **arguments,
    ) -> None:
        self.kafka, self.topic, self.tier = kafka, topic, tiers.choose(tier)
        self.registry = FakeRegistry()
        self.schema_id = self.registry.register(topic, EVENT)
        settings = client_settings(client or {"bootstrap.servers": kafka.bootstrap_servers})
        store = store or LocalStore(folder)
        self.store = store
        self.ctx = Context(
            log=CommitLog(store, store, ThreadWorkers(), "p"),
            run=RunRef(dag_id="d", run_id="r"),
            clock=SystemClock(),
            ids=RandomIds(),
            run_states=KnownRuns(),
        )
        self.sources = Sources(
            catalog=KafkaCatalog(settings),
            open_reader=lambda: (DirectReader if self.tier.name == "direct" else KafkaReader)(settings),
            registry=self.registry,
            codec=FastavroCodec(),
        )
        self.config = IngestConfig.of(
            {
                "topics": [topic],
                "destination": folder.as_uri(),
                "pipeline_id": "p",
                "registry": "fake",
                "bootstrap": "earliest",
                "value_format": "avro_confluent",
                "time_field": "header.time",
                "max_tasks": 1,
                **arguments,
            }
        )

    def plan(self) -> Plan:
        return make_plan(self.ctx, self.sources, self.config, PlanRequest()).plan

    def extract(self, plan: Plan) -> Extraction:
        options = ExtractOptions.of(
            self.config,
            codecs=StandardCodecs(),
            stop=ManualStop(),
            progress=RecordedProgress(),
            tier=self.tier,
        )
        self.last = extract(self.ctx, self.sources, plan, 0, options)
        return self.last

    def ways(self) -> dict[str, int]:
        """How many records took which way in the last extract."""
        return ways_of(self.last.manifest.metrics)

    def value(self, number: int) -> bytes:
        return confluent(self.schema_id, event(number, NOW + number % 3 * HOUR))

    def produce(self, numbers: range, *, end: str = "commit", partition: int | None = None) -> None:
        """One transaction."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "transactional.id": self.topic})
        producer.init_transactions()
        producer.begin_transaction()
        for number in numbers:
            producer.produce(
                self.topic,
                self.value(number),
                partition=number % PARTITIONS if partition is None else partition,
                key=str(number),
            )
        producer.flush()
        producer.commit_transaction() if end == "commit" else producer.abort_transaction()

    def produce_plainly(self, numbers: range, *, keys: int = 1_000_000, topic: str | None = None) -> None:
        """Without a transaction, to partition 0."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "linger.ms": 5})
        for number in numbers:
            producer.produce(topic or self.topic, self.value(number), partition=0, key=str(number % keys))
        assert producer.flush(30) == 0

    def whole(self) -> tuple[Plan, UnitResult]:
        """A whole run of one topic, which must be green; its plan and the unit."""
        plan = self.plan()
        (unit,) = self.extract(plan).manifest.units
        finish(self.ctx, plan, self.config.commit_policy([self.topic]))
        assert judge(self.ctx, plan).is_green
        return plan, unit

    def published(self) -> Counter[int]:
        """Numbers of all events in data files, each checked to lie in the folder of its hour."""
        found: Counter[int] = Counter()
        for path in Path(self.store.root.removeprefix("file://")).joinpath(self.topic).rglob("*.avro"):
            for record in read_back(path.name, path.read_bytes()):
                hour = time.gmtime(record["header"]["time"] // 1000)
                assert "/".join(path.parts[-5:-1]) == time.strftime("%Y/%m/%d/%H", hour)
                found[record["id"]] += 1
        return found


@pytest.fixture(params=["compiled", "direct"])
def pipeline(request: pytest.FixtureRequest, kafka_single: KafkaCluster, unique_name: str, tmp_path: Path) -> Pipeline:
    kafka_single.create_topic(unique_name, PARTITIONS)
    return Pipeline(kafka_single, unique_name, tmp_path / "data", tier=request.param)


def test_committed_records_are_written_once_and_everything_else_is_a_seen_gap(pipeline):
    pipeline.produce(range(2_000))
    pipeline.produce(range(5_000, 5_300), end="abort")
    pipeline.produce(range(2_000, 3_000))
    plan = pipeline.plan()
    pipeline.produce(range(9_000, 9_100))
    (unit,) = pipeline.extract(plan).manifest.units
    assert unit.outcome is Outcome.DONE
    assert pipeline.ways() == {pipeline.tier.name: 3_000}
    assert (unit.counts.written, unit.counts.quarantined) == (3_000, 0)
    assert unit.counts.gaps == 300 + 3 * PARTITIONS
    finish(pipeline.ctx, plan, pipeline.config.commit_policy([pipeline.topic]))
    assert judge(pipeline.ctx, plan).is_green
    assert pipeline.published() == Counter(range(3_000))


def test_bad_records_among_good_ones_go_to_the_quarantine_with_all_that_kafka_knows_of_them(pipeline):
    pipeline.produce(range(1_000))
    producer = Producer({"bootstrap.servers": pipeline.kafka.bootstrap_servers, "log_level": 0})
    for number in range(5):
        value = pipeline.value(number)[: -number or None] + b"!"
        producer.produce(pipeline.topic, value, b"bad-%d" % number, number % 2, headers=[("n", b"%d" % number)])
    assert producer.flush(30) == 0
    pipeline.produce(range(1_000, 2_000))
    plan = pipeline.plan()
    (unit,) = pipeline.extract(plan).manifest.units
    assert (unit.outcome, unit.counts.written, unit.counts.quarantined) == (Outcome.DONE, 2_000, 5)
    (entry,) = [entry for entry in unit.files if entry.quarantine]
    content = Path(pipeline.store.root.removeprefix("file://")).joinpath(entry.staged).read_bytes()
    bad = sorted(fastavro.reader(io.BytesIO(content)), key=lambda record: record["key"])
    assert [record["key"] for record in bad] == [b"bad-%d" % number for number in range(5)]
    assert [record["headers"] for record in bad] == [[{"key": "n", "value": b"%d" % n}] for n in range(5)]
    assert [record["value"] for record in bad] == [
        pipeline.value(number)[: -number or None] + b"!" for number in range(5)
    ]
    finish(pipeline.ctx, plan, pipeline.config.commit_policy([pipeline.topic]))
    assert pipeline.published() == Counter(range(2_000))


def test_ranges_with_holes_between_them_are_read_by_seeking(pipeline):
    pipeline.produce(range(4_000), partition=0)
    plan = pipeline.plan()
    spans = [(100, 150), (151, 152), (3_900, 3_950)]
    (task,) = plan.tasks
    (unit,) = task.units
    (work,) = (work for work in unit.work_units if work.key.partition == 0)
    cut = tuple(dataclasses.replace(work, low=low, high=high) for low, high in spans)
    task = dataclasses.replace(task, units=(dataclasses.replace(unit, work_units=cut),))
    plan = dataclasses.replace(plan, tasks=(task,))
    (result,) = pipeline.extract(plan).manifest.units
    (part,) = result.partitions
    assert part.covered == Ranges.of(spans)
    assert result.counts.written == 101


def test_a_topic_made_anew_between_plan_and_extract_counts_for_nothing(pipeline):
    pipeline.produce(range(100))
    plan = pipeline.plan()
    pipeline.kafka.delete_topic(pipeline.topic)
    pipeline.kafka.create_topic(pipeline.topic, PARTITIONS)
    result = pipeline.extract(plan)
    (unit,) = result.manifest.units
    assert (unit.outcome, unit.reason, unit.files) == (Outcome.FAILED, "topic_recreated", ())
    assert "nothing was read" in result.faults[0]


class Watched:
    """A reader that tells of its polls."""

    def __init__(self, reader: RecordReader, before_poll: Callable[[int], None]) -> None:
        self._reader = reader
        self._before_poll = before_poll
        self._polls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def poll(self, max_records: int, timeout: float) -> Poll:
        self._polls += 1
        self._before_poll(self._polls)
        return self._reader.poll(max_records, timeout)


def test_all_brokers_away_for_twenty_seconds_cost_a_reading_task_time_and_no_record(
    kafka_single: KafkaCluster, unique_name: str, tmp_path: Path
):
    records, outage = range(4_000), 20.0
    back = threading.Timer(outage, kafka_single.start_node, [1])

    def go_away() -> None:
        kafka_single.kill_node(1)
        back.start()

    both_read = threading.Barrier(2, action=go_away)

    def reading(tier: str) -> Pipeline:
        topic = f"{unique_name}_{tier}"
        kafka_single.create_topic(topic, PARTITIONS)
        # So little is fetched ahead that nearly all of it is still to come when the broker dies.
        client = {"max.partition.fetch.bytes": 4096, "queued.max.messages.kbytes": 8}
        client["bootstrap.servers"] = kafka_single.bootstrap_servers
        pipeline = Pipeline(kafka_single, topic, tmp_path / tier, tier=tier, client=client)
        pipeline.produce(records)
        opened = pipeline.sources.open_reader
        pipeline.sources = dataclasses.replace(
            pipeline.sources,
            open_reader=lambda: Watched(opened(), lambda polls: both_read.wait(30) if polls == 3 else None),
        )
        return pipeline

    pipelines = [reading(tier) for tier in ("compiled", "direct")]
    plans = [pipeline.plan() for pipeline in pipelines]
    start = time.monotonic()
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(Pipeline.extract, pipelines, plans))
    finally:
        if back.ident is not None:
            back.join()
            kafka_single.wait_ready()
    assert time.monotonic() - start > outage
    for pipeline, plan in zip(pipelines, plans, strict=True):
        finish(pipeline.ctx, plan, pipeline.config.commit_policy([pipeline.topic]))
        assert judge(pipeline.ctx, plan).is_green
        assert pipeline.ways() == {pipeline.tier.name: len(records)}
        assert pipeline.published() == Counter(records)
