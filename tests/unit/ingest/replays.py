"""A pipeline with records in its quarantine, and a registry that can be mended."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow_kafka_hdfs.adapters.codecs import StandardCodecs
from airflow_kafka_hdfs.ingest.committing import commit_plan
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.log import CommitLog
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.publishing import roll_forward_all
from airflow_kafka_hdfs.ingest.quarantine_reading import Choice
from airflow_kafka_hdfs.ingest.records import Commit
from airflow_kafka_hdfs.ingest.replaying import Replay, draft_replay, replay
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.model import RunRef
from tests.fakes.runtime import KnownRuns, SeededIds, SerialWorkers
from tests.unit.ingest.extracting import EVENT, HOUR, MORNING, Task, confluent, event, read_back

ARGUMENTS: dict[str, Any] = {
    "topics": ["events"],
    "destination": "file:///data",
    "pipeline_id": "p",
    "registry": "http://registry",
    "value_format": "avro_confluent",
    "time_field": "header.time",
    "bootstrap": "earliest",
    "codec": "null",
    "max_bad_share": None,
}
TOPIC_ARGUMENTS = {"value_format", "time_field", "codec", "max_bad_share", "on_null", "converters", "bootstrap"}


class Pipeline(Task):
    """A committed run of four records in two hours; those of schema 2 are bad, since the registry forgot it."""

    def __init__(self, values: tuple[bytes, ...] | None = None, **arguments: Any) -> None:
        super().__init__()
        self.config = IngestConfig.of({**ARGUMENTS, **arguments})
        self.topic(**{name: value for name, value in {**ARGUMENTS, **arguments}.items() if name in TOPIC_ARGUMENTS})
        self.registry.register("events", EVENT)
        self.second = {**EVENT, "doc": "second"}
        self.registry.register("events", self.second)
        self.registry.forget(2)
        self.runs = KnownRuns()
        default = tuple(confluent(n % 2 + 1, event(n, MORNING + n * HOUR // 2)) for n in range(4))
        self.cluster.produce("events", 0, *(default if values is None else values), timestamp=MORNING)
        self.ingest("run-1")

    def ctx(self, store: Any = None, run: str = "command") -> Context:
        self.seed += 1
        store = self.store if store is None else store
        return Context(
            log=CommitLog(store, store, SerialWorkers(), "p"),
            run=RunRef(dag_id="d", run_id=run, who="ada"),
            clock=self.clock,
            ids=SeededIds(self.seed),
            run_states=self.runs,
        )

    def ingest(self, run: str, request: PlanRequest | None = None) -> Commit:
        ctx = self.ctx(run=run)
        self.runs.alive[run] = False
        plan = make_plan(ctx, self.sources(), self.config, request or PlanRequest()).plan
        self.run_id = run
        self.run(plan)
        record = commit_plan(ctx, plan, self.config.commit_policy(["events"])).record
        roll_forward_all(ctx, ctx.log.read())
        assert record is not None
        return record

    def mend(self) -> None:
        self.registry._schemas[2] = json.dumps(self.second)

    def replay(self, store: Any = None, choice: Choice | None = None) -> Replay:
        ctx = self.ctx(store)
        draft = draft_replay(ctx, self.sources(), self.config, choice or Choice())
        return replay(ctx, self.sources(), self.config, StandardCodecs(), draft.names, "mended")

    def visible(self) -> dict[str, list[int]]:
        """Folder -> ids of the events in its files, sorted."""
        found: dict[str, list[int]] = {}
        for path, data in self.store.files().items():
            if path.startswith("events/"):
                found.setdefault(path.rpartition("/")[0], []).extend(item["id"] for item in read_back(path, data))
        return {folder: sorted(ids) for folder, ids in sorted(found.items())}

    def ids(self) -> list[int]:
        return sorted(number for numbers in self.visible().values() for number in numbers)


def replace_everything(pipeline: Pipeline) -> Commit:
    pipeline.clock.advance(timedelta(days=1).total_seconds())
    return pipeline.ingest("replace", PlanRequest(range_end=pipeline.clock.now(), replace=True))


def quarantine_path(pipeline: Pipeline) -> str:
    (path,) = [path for path in pipeline.store.files() if "/quarantine/" in path]
    return path
