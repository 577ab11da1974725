"""Steps of runs, each in a process of its own that may be killed: `python -m tests.chaos.worker PLACES.json`.

This process loads everything once and forks per step, so that a kill costs milliseconds. It reads one JSON object per
line (`Step`) and answers with one line: how the step ended. It waits for the step itself and kills it when told, so a
process id is never used after its process is gone.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hdfs_native
from confluent_kafka import Producer  # noqa: F401 - loaded before the first fork
from hdfs import InsecureClient
from hdfs.util import HdfsError

from airflow_kafka_hdfs.adapters.avro import FastavroCodec
from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.adapters.kafka.catalog import KafkaCatalog
from airflow_kafka_hdfs.adapters.kafka.reader import KafkaReader
from airflow_kafka_hdfs.adapters.kafka.settings import client_settings
from airflow_kafka_hdfs.adapters.rest_client import RestClient
from airflow_kafka_hdfs.adapters.runtime import RandomIds, SystemClock, ThreadWorkers
from airflow_kafka_hdfs.adapters.schema_registry import ConfluentRegistry
from airflow_kafka_hdfs.adapters.storage.hdfs import HdfsStore
from airflow_kafka_hdfs.adapters.storage.native import NativeCalls
from airflow_kafka_hdfs.adapters.storage.webhdfs import WebHdfsCalls
from airflow_kafka_hdfs.exceptions import KafkaHdfsError, PlanEndedError, StoreUnavailableError
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context, Sources
from airflow_kafka_hdfs.ingest.extraction import ExtractOptions, extract
from airflow_kafka_hdfs.ingest.finishing import finish
from airflow_kafka_hdfs.ingest.judging import judge
from airflow_kafka_hdfs.ingest.layout import DataPaths
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.plan_book import own_plans
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.publishing import announce
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef
from airflow_kafka_hdfs.ports.runtime import Clock
from airflow_kafka_hdfs.ports.store import Store
from tests.crash.job import Below
from tests.fakes.faulty_store import Call, FaultyStore
from tests.fakes.runtime import KnownRuns, ManualStop, RecordedProgress

KILLED = "killed"
TIMEOUT = 20.0


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the services are; written to a file for the workers."""

    kafka: str
    registry: str
    webhdfs: list[str]
    rpc: str
    conf_dir: str
    user: str
    folder: str
    topics: list[str]

    @classmethod
    def load(cls, path: str) -> Places:
        return cls(**json.loads(Path(path).read_text()))

    def dump(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a run.

    Attributes:
        name: `plan`, `extract`, `publish` or `judge`.
        alive: runs that are at work now; all others are gone.
        at_call: the process kills itself before its store call of this number.
        after: it is killed after so many seconds.
        orphan: it is let go alone at that time instead, as the worker of a killed scheduler is.
        clock: seconds that its clock is off.
    """

    name: str
    run: str
    task: int = 0
    native: bool = False
    alive: tuple[str, ...] = ()
    at_call: int | None = None
    after: float | None = None
    orphan: bool = False
    clock: float = 0.0


class ShiftedClock(SystemClock):
    """A wall clock that was set wrong; the monotonic one never is."""

    def __init__(self, seconds: float) -> None:
        self._shift = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._shift


def open_store(places: Places, *, native: bool) -> Store:
    """The destination, by either client."""
    if native:
        calls: Any = NativeCalls(
            lambda: hdfs_native.Client(places.rpc, config_dir=places.conf_dir), places.folder, timeout=TIMEOUT
        )
        return HdfsStore(calls, root=f"{places.rpc}{places.folder}")

    def connect() -> Any:
        said = []
        for url in places.webhdfs:
            client = InsecureClient(url, user=places.user, timeout=TIMEOUT)
            try:
                client.status("/")
            except (HdfsError, OSError) as error:
                said.append(str(error)[:100])
            else:
                return client
        raise StoreUnavailableError("connect", places.folder, f"no active name node: {said}")

    return HdfsStore(WebHdfsCalls(connect, places.folder, timeout=TIMEOUT), root=f"webhdfs://{places.folder}")


def config_of(places: Places) -> IngestConfig:
    """Of the pipeline."""
    return IngestConfig.of(
        {
            "topics": places.topics,
            "destination": f"webhdfs://namenode{places.folder}",
            "pipeline_id": "chaos",
            "value_format": "avro_confluent",
            "registry": places.registry,
            "time_field": "time",
            "bootstrap": "earliest",
            "max_tasks": 2,
            "target_task_bytes": 4096,
            "max_bad_share": None,
            "publish_policy": "successful",
        }
    )


def context_of(places: Places, run: str, store: Store, alive: tuple[str, ...], clock: Clock) -> Context:
    """Ports of one process; runs that are not alive are gone."""

    class Runs(KnownRuns):
        def is_alive(self, run: RunRef) -> bool | None:
            return run.run_id in alive

    log = CommitLog(Below(store, DataPaths("chaos").home), store, ThreadWorkers(), "chaos")
    return Context(log=log, run=RunRef(dag_id="chaos", run_id=run), clock=clock, ids=RandomIds(), run_states=Runs())


def do(places: Places, step: Step) -> str:
    """The step in the process at hand; what it has to say: the number of tasks, or `green` or why not."""

    def look(call: Call) -> None:
        if call.number == step.at_call:
            os.kill(os.getpid(), signal.SIGKILL)

    clock = ShiftedClock(step.clock)
    store = FaultyStore(open_store(places, native=step.native), before_call=look)
    ctx = context_of(places, step.run, store, step.alive, clock)
    config = config_of(places)
    settings = client_settings({"bootstrap.servers": places.kafka, "log_level": 0})
    sources = Sources(
        catalog=KafkaCatalog(settings),
        open_reader=lambda: KafkaReader(settings),
        registry=ConfluentRegistry(RestClient(base_url=places.registry, clock=clock), clock),
        codec=FastavroCodec(),
    )
    if step.name == "plan":
        return str(len(make_plan(ctx, sources, config, PlanRequest()).plan.tasks))
    plans = own_plans(ctx)
    if not plans:  # the word went round that its run was gone, or its clock made it look old: it was cleaned away
        raise PlanEndedError(f"run {step.run} has no plan any more")
    plan = plans[-1]
    if step.name == "extract":
        options = ExtractOptions.of(config, codecs=StandardCodecs(), stop=ManualStop(), progress=RecordedProgress())
        return "; ".join(extract(ctx, sources, plan, step.task, options).faults)
    if step.name == "judge":
        verdict = judge(ctx, plan, wait=False)
        return "green" if verdict.is_green else str(verdict)
    done = finish(ctx, plan, config.commit_policy(places.topics))
    announce(ctx, [commit.number for commit in done.to_announce])
    return "; ".join(map(str, done.refusals))


def fork(places: Places, step: Step) -> tuple[str, str]:
    """Do the step in a child; how it ended (`done`, `failed`, `broken`, `killed`, `orphan`) and what it said."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        code = 0
        try:
            said = do(places, step)
        except KafkaHdfsError as error:
            said, code = f"{type(error).__name__}: {error}", 1
        except BaseException:
            said, code = traceback.format_exc(), 2
        os.write(writing, said.encode()[:60_000])
        os._exit(code)
    os.close(writing)
    deadline = None if step.after is None else time.monotonic() + step.after
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if deadline is not None and time.monotonic() >= deadline:
            if step.orphan:
                os.close(reading)
                return "orphan", str(pid)
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            break
        time.sleep(0.005)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    if os.WIFSIGNALED(status):
        return KILLED, said
    return ("done", "failed", "broken")[os.WEXITSTATUS(status)], said


def main() -> None:
    """Serve until the input ends; then let orphans come to their end."""
    logging.disable(logging.ERROR)
    places = Places.load(sys.argv[1])
    for line in sys.stdin:
        given = json.loads(line)
        how, said = fork(places, Step(**{**given, "alive": tuple(given["alive"])}))
        print(json.dumps([how, said]), flush=True)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
