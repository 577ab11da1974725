"""From Kafka to files, the inner loop: bare consumption, decode/encode, and the tiers of the fast path."""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from fastavro.write import Writer

from airflow_kafka_hdfs import model
from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.adapters.kafka.direct import DirectReader
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import KafkaSettings
from airflow_kafka_hdfs.adapters.storage.local import LocalStore
from airflow_kafka_hdfs.ingest.datum import tiers
from airflow_kafka_hdfs.ingest.datum.container import BLOCK_BYTES, sync_marker
from airflow_kafka_hdfs.ingest.datum.packing import Batch, FixedPlaces, Packer, Recode, Route, batch_size
from airflow_kafka_hdfs.ingest.datum.program import compile_program
from airflow_kafka_hdfs.ingest.writers.columns import ParquetSinks
from airflow_kafka_hdfs.ingest.writers.sinks import AvroSinks, OpenAs, Sink, SinkFactory
from airflow_kafka_hdfs.ports.kafka import RecordReader
from airflow_kafka_hdfs.ports.schemas import Compressor
from tests.benchmarks.data import FRAME, PARTITIONS, Dataset
from tests.benchmarks.measuring import Sample, Stopwatch

HOUR = 3_600_000
READERS: dict[str, Callable[[KafkaSettings], RecordReader]] = {"direct": DirectReader}
"""Of tiers that have one of their own."""
_numbers = itertools.count()


class ZlibCompressor:
    """Deflate as Avro libraries do it by default, for comparison."""

    name = "deflate"

    def compress(self, block: bytes) -> bytes:
        """A raw deflate stream of level 6."""
        maker = zlib.compressobj(6, zlib.DEFLATED, -15)
        return maker.compress(block) + maker.flush()


class _Codecs(StandardCodecs):
    """The product's, and zlib's deflate beside them."""

    def block(self, name: str) -> Compressor:
        return ZlibCompressor() if name == "zlib" else super().block(name)


@dataclass
class Reading:
    """Cases over one topic.

    Attributes:
        count: records that each run reads; the same share of every partition.
    """

    servers: str
    folder: Path
    dataset: Dataset
    count: int

    def bare(self, *, tuned: bool = True) -> Sample:
        """`consume(500)`, records thrown away."""
        settings: dict[str, Any] = {"bootstrap.servers": self.servers, "group.id": "bench", "enable.auto.commit": False}
        if tuned:
            settings = KafkaSettings({"bootstrap.servers": self.servers}).for_consumer()
        watch = Stopwatch()
        total = sum(len(messages) for messages in self._consume(settings, watch))
        return watch.sample(total)

    def recode(self, codec: str = "null") -> Sample:
        """The product's decode/encode way, by which values go that can't be copied."""
        avro, text = FastavroCodec(), self.dataset.schema_text

        def call(datum: bytes) -> tuple[bytes, int | None]:
            value = avro.decode(text, datum)
            return avro.encode(text, value, check=False), value["header"]["time"]

        return self._packed("numpy", AvroSinks(_Codecs(), codec), Recode(call=call))

    def loop(self, codec: str = "null") -> Sample:
        """The same with nothing of the product: no proofs, and no wait for the disk."""
        settings = KafkaSettings({"bootstrap.servers": self.servers}).for_consumer()
        parsed = fastavro.parse_schema(self.dataset.schema)
        writers: dict[int, tuple[Any, Writer]] = {}
        watch = Stopwatch()
        total = 0
        for messages in self._consume(settings, watch):
            for message in messages:
                value: Any = fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), parsed)
                hour = value["header"]["time"] // HOUR
                if hour not in writers:
                    out = self._path().open("wb")
                    writers[hour] = (out, Writer(out, parsed, "deflate" if codec == "zlib" else codec))
                writers[hour][1].write(value)
            total += len(messages)
        for out, writer in writers.values():
            writer.flush()
            out.close()
        watch.stop()
        self._clear()
        return watch.sample(total)

    def extract(self, tier_name: str, codec: str = "null") -> Sample:
        """The product's reader, a tier of the fast path, the product's sinks and local store."""
        return self._packed(tier_name, AvroSinks(_Codecs(), codec))

    def columns(self, tier_name: str) -> Sample:
        """The same into Parquet, snappy."""
        return self._packed(tier_name, ParquetSinks(StandardCodecs(), "snappy", 1 << 29))

    def dicts(self) -> Sample:
        """Parquet as it is made elsewhere: decode each record to a dict, make a table of dicts, snappy."""
        settings = KafkaSettings({"bootstrap.servers": self.servers}).for_consumer()
        parsed = fastavro.parse_schema(self.dataset.schema)
        hours: dict[int, list[Any]] = {}
        watch = Stopwatch()
        total = 0
        for messages in self._consume(settings, watch):
            for message in messages:
                value: Any = fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), parsed)
                hours.setdefault(value["header"]["time"] // HOUR, []).append(value)
            total += len(messages)
        for values in hours.values():
            pq.write_table(pa.Table.from_pylist(values), self._path())
        watch.stop()
        self._clear()
        return watch.sample(total)

    def _packed(self, tier_name: str, sinks: SinkFactory, route: Route | Recode | None = None) -> Sample:
        tier = tiers.choose(tier_name)
        store = LocalStore(self.folder)
        files: dict[Any, Sink] = {}

        def room(_target: int, key: Any) -> tuple[int, int]:
            file = files.get(key)
            if file is None:
                name = self._path().name
                how = OpenAs(schema=self.dataset.schema_text, sync=sync_marker(name), metadata={})
                file = files[key] = sinks.open(store.create(name), how)
            return file.fill, BLOCK_BYTES

        packer = Packer(
            routes={FRAME: route or Route(program=compile_program(self.dataset.schema, "header.time"))},
            frame_size=len(FRAME),
            locate=FixedPlaces(HOUR),
            room=room,
            bounds=(0, 4 * 10**12),
        )
        reader = READERS.get(tier_name, KafkaReader)(KafkaSettings({"bootstrap.servers": self.servers}))
        watch = Stopwatch()
        total = size = 0
        reader.assign({model.TopicPartition(self.dataset.name, number): 0 for number in range(PARTITIONS)})
        while total < self.count:
            wanted = batch_size(tier, size / total if total else 0)
            batch = reader.poll(min(wanted, self.count - total), 0.1).batch
            if not len(batch):
                continue
            if not total:
                watch.start()
            outcome = tier.pack(packer, Batch(values=batch.values()))
            tier.spans(outcome, batch.partitions(), batch.offsets())
            for group in outcome.groups:
                for data, count in group.chunks:
                    files[group.key].append(data, count)
                size += group.size
            total += len(batch)
            if outcome.packed != len(batch):
                raise RuntimeError(f"bad records among good ones: {outcome.bad[:3]}")
        for file in files.values():
            file.close()
        watch.stop()
        reader.close()
        self._clear()
        return watch.sample(total)

    def _consume(self, settings: dict[str, Any], watch: Stopwatch) -> Iterator[list[Any]]:
        """Batches of up to 500; the clock starts with the first record and stops behind the last batch."""
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.dataset.name, number, 0) for number in range(PARTITIONS)])
        total = 0
        while total < self.count:
            messages = [m for m in consumer.consume(min(500, self.count - total), 0.1) if m.error() is None]
            if messages and not total:
                watch.start()
            total += len(messages)
            yield messages
        watch.stop()
        consumer.close()

    def _clear(self) -> None:
        """Delete what was written: it would fill the memory that the next case is measured with."""
        for path in self.folder.iterdir():
            path.unlink()

    def _path(self) -> Path:
        return self.folder / f"{self.dataset.name}-{next(_numbers)}.avro"
