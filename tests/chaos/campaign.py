"""A pipeline under fire: runs whose steps are killed, services that fail beneath them, and the count at the end."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer

from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.doctor import data_files, examine
from airflow_kafka_hdfs.ingest.examining import Severity
from tests.chaos.worker import KILLED, Places, ShiftedClock, Step, context_of, open_store
from tests.unit.ingest.extracting import CODEC

SCHEMA = {
    "type": "record",
    "name": "Chaos",
    "fields": [{"name": "id", "type": "long"}, {"name": "time", "type": "long"}, {"name": "pad", "type": "string"}],
}
TRIES = 4


class Crew:
    """One worker process and the runs it does; what an executor is to Airflow."""

    def __init__(self, places: Path, log: Path) -> None:
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker", str(places)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def do(self, step: Step) -> tuple[str, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(step)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with {self._process.wait()}")
        how, said = json.loads(line)
        return how, said

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=120)
        self._process.stdout.close()


@dataclass
class Campaign:
    """Everything of one `poe chaos`.

    Args:
        places: the services.
        folder: scratch.
        seed: decides what is killed when, as far as real processes let it.
        say: told of what happens.
    """

    places: Places
    folder: Path
    schema_id: int
    seed: int
    say: Callable[[str], None] = lambda text: None
    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    produced: Counter[int] = field(default_factory=Counter)
    alive: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._lock = threading.Lock()
        self._runs = 0
        self._ids = 0
        self._seconds = {"plan": 1.0, "extract": 1.5, "publish": 1.0, "judge": 1.0}
        self.places_file = self.folder / "places.json"
        self.places.dump(self.places_file)

    # Kafka

    def produce(self, records: int) -> None:
        """So many more records; only what the brokers acknowledged counts, and each id once."""
        producer = Producer(
            {"bootstrap.servers": self.places.kafka, "enable.idempotence": True, "log_level": 0, "linger.ms": 5}
        )
        sent: list[int] = []
        with self._lock:
            ids = range(self._ids, self._ids + records)
            self._ids += records
        for number in ids:
            value = {"id": number, "time": int(time.time() * 1000) - number % 3 * 3_600_000, "pad": "x" * 200}
            frame = b"\x00" + self.schema_id.to_bytes(4, "big")
            topic = self.places.topics[number % len(self.places.topics)]
            told = lambda error, _, number=number: error is None and sent.append(number)  # noqa: E731
            producer.produce(topic, frame + CODEC.encode(json.dumps(SCHEMA), value), on_delivery=told)
        if left := producer.flush(120):
            raise RuntimeError(f"{left} records could not be produced")
        with self._lock:
            self.produced.update(sent)

    # runs

    @contextmanager
    def crew(self) -> Iterator[Crew]:
        crew = Crew(self.places_file, self.folder / "workers.log")
        try:
            yield crew
        finally:
            crew.close()

    def run(self, crew: Crew, chance: random.Random, *, calm: bool = False) -> str:
        """One run, its steps killed or not, retried as Airflow would, given up at times; what became of it."""
        with self._lock:
            self._runs += 1
            run = f"run-{self._runs}"
            self.alive.add(run)
        try:
            tasks = self._step(crew, chance, Step(name="plan", run=run), calm)
            if tasks is None:
                return "no plan"
            for task in range(int(tasks)):
                self._step(crew, chance, Step(name="extract", run=run, task=task), calm)
            if self._step(crew, chance, Step(name="publish", run=run), calm) is None:
                return "not published"
            return self._step(crew, chance, Step(name="judge", run=run), True) or "no verdict"
        finally:
            with self._lock:
                self.alive.discard(run)

    def _step(self, crew: Crew, chance: random.Random, step: Step, calm: bool) -> str | None:
        for left in reversed(range(TRIES)):
            start = time.monotonic()
            how, said = crew.do(self._fated(step, chance, calm))
            with self._lock:
                self.ends[f"{step.name} {how}"] += 1
                if how == KILLED:
                    self.kills[step.name] += 1
                elif how == "broken":
                    self.broken.append(f"{step.name} of {step.run}: {said}")
            if how == "done":
                self._seconds[step.name] = 0.8 * self._seconds[step.name] + 0.2 * (time.monotonic() - start)
                return said
            if how == "failed" and left:
                time.sleep(0.5)
        return None

    def _fated(self, step: Step, chance: random.Random, calm: bool) -> Step:
        """What happens to an attempt."""
        fate: dict[str, Any] = {"native": chance.random() < 0.5}
        if not calm:
            dice = chance.random()
            if dice < 0.40:
                fate["at_call"] = chance.randint(1, {"plan": 14, "extract": 16, "publish": 22}[step.name])
            elif dice < 0.72:
                fate["after"] = chance.uniform(0, self._seconds[step.name] * 1.1)
            elif dice < 0.76:  # a scheduler dies: its worker goes on alone, and the next attempt works beside it
                fate |= {"after": chance.uniform(0, self._seconds[step.name]), "orphan": True}
            if chance.random() < 0.1:
                fate["clock"] = chance.choice((-7200.0, -86_400.0))
        with self._lock:
            alive = tuple(sorted(self.alive)) if chance.random() < 0.8 else ()
        return Step(**{**asdict(step), **fate, "alive": alive})

    def under_fire(self, enough: Callable[[], bool], actors: int = 2) -> None:
        """Runs side by side until it is enough."""
        seeds = [self.random.random() for _ in range(actors)]
        faults: list[BaseException] = []

        def work(seed: float) -> None:
            chance = random.Random(seed)
            try:
                with self.crew() as crew:
                    while not enough() and not faults:
                        self.produce(chance.randint(5, 40))
                        self.run(crew, chance)
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]

    # the end

    def settle(self) -> Verdict:
        """Calm runs until one is green; then everything is counted from the files themselves."""
        with self.crew() as crew:
            for _ in range(5):
                said = self.run(crew, self.random, calm=True)
                if said == "green":
                    break
        store = open_store(self.places, native=False)
        ctx = context_of(self.places, "check", store, (), ShiftedClock(timedelta(days=2).total_seconds()))
        found: Counter[int] = Counter()
        for file in data_files(ctx, self.places.topics):
            found.update(record["id"] for record in fastavro.reader(io.BytesIO(store.get(file.path) or b"")))
        worse = [finding for finding in examine(ctx) if finding.severity is not Severity.NOTE]
        for _ in range(len(list(ctx.state.list("plans"))) // 20 + 20):
            done = collect(ctx, grace=timedelta(hours=24), most=200)
            if not (done.aborted or done.plans or done.staging):
                break
        orphans = [folder.path for folder in ctx.data.list(f"{ctx.log.data_paths.home}/staging")]
        return Verdict(
            green=said,
            lost=sorted(set(self.produced) - set(found)),
            doubled=sorted(number for number, count in found.items() if count > 1),
            strange=sorted(set(found) - set(range(self._ids))),
            findings=[finding.what for finding in worse],
            orphans=orphans,
            broken=self.broken,
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found at the end; `is_good` if nothing is wrong."""

    green: str
    lost: list[int]
    doubled: list[int]
    strange: list[int]
    findings: list[str]
    orphans: list[str]
    broken: list[str]

    @property
    def is_good(self) -> bool:
        return self.green == "green" and not any(
            (self.lost, self.doubled, self.strange, self.findings, self.orphans, self.broken)
        )
