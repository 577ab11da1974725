"""`uv run poe demo`: real Kafka, real Airflow, files on local disk; everything it says is read back from them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.demo import report
from tests.demo.events import PARTITIONS, Event, make_events, produce, write_registry
from tests.demo.progress import ProgressLog
from tests.stack.airflow import AirflowStandalone
from tests.stack.kafka import KafkaCluster
from tests.stack.postgres import PostgresServer
from tests.stack.process import wait_until

DAG = "first_run"
PIPELINE = f"{DAG}.ingest"
BUILD = Path("build/demo")
DAGS = Path(__file__).resolve().parents[2] / "dags"


def say(text: str = "") -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


@contextmanager
def part(title: str) -> Iterator[None]:
    """A heading, and how long it took."""
    say(f"\n=== {title}")
    start = time.monotonic()
    yield
    say(f"    ({time.monotonic() - start:.1f} s)")


class Demo:
    """The demo's state: services, what was produced, what the runs did."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.destination = (folder / "data").resolve()
        self.produced: list[Event] = []
        self.runs: list[dict[str, object]] = []
        self.lineage: list[dict[str, str]] = []

    def start(self, stack: ExitStack) -> None:
        """Kafka, then PostgreSQL and Airflow; what each needs from the one before is in its connection."""
        self.kafka = stack.enter_context(KafkaCluster(self.folder / "kafka"))
        for topic, partitions in PARTITIONS.items():
            self.kafka.create_topic(topic, partitions, config={"retention.ms": -1})
        postgres = stack.enter_context(PostgresServer(self.folder / "postgres"))
        environment = {
            "AIRFLOW_CONN_KAFKA_DEFAULT": self.kafka.airflow_connection,
            "KAFKA_HDFS_DESTINATION": self.destination.as_uri(),
            "KAFKA_HDFS_REGISTRY": write_registry(self.folder / "schemas"),
            # Its tasks are over in a moment: the default of 5 s would show only their ends.
            "AIRFLOW__KAFKA_HDFS__PROGRESS_INTERVAL": "0.05",
            "AIRFLOW__KAFKA_HDFS_LINEAGE__ENABLED": "True",
            "AIRFLOW__KAFKA_HDFS_LINEAGE__INSTANCE": "demo",
        }
        dags = self.folder / "dags"
        dags.mkdir()
        shutil.copy(DAGS / f"{DAG}.py", dags)
        home = (self.folder / "airflow").resolve()
        self.airflow = AirflowStandalone(
            home, dags.resolve(), postgres, parallelism=2, env=environment, users={}, triggerer=False
        )
        say(self.airflow.cli("kafka-hdfs", "lineage", "init", "--replication", "1", "--yes").strip())
        stack.enter_context(self.airflow)

    def produce(self, per_topic: int, start: datetime, hours: float, seed: int) -> None:
        """Send sample events."""
        events = list(make_events(per_topic, start, hours, seed))
        produce(self.kafka.bootstrap_servers, events)
        self.produced += events
        bad = sum(event.is_bad for event in events)
        say(f"    {len(events):,} events over {len(PARTITIONS)} topics, {bad} of them broken on purpose")

    def show_run(self, run_id: str, state: str, seconds: float) -> dict[str, object]:
        """The plan as the task logged it, then the totals from the log."""
        for line in _plan_of(self.airflow.logs(DAG, run_id, "ingest.plan")):
            say(f"    {line}")
        for task in self.airflow.task_instances(DAG, run_id):
            label = task.get("rendered_map_index") or ""
            say(f"    {task['task_id']:<16} {label:<44} {task['state']}")
        totals = report.run_totals(report.open_pipeline(self.destination, PIPELINE), run_id, seconds)
        say(
            "    read {read:,}  written {written:,}  quarantined {quarantined}  filtered {filtered}  gaps {gaps}  "
            "lost {lost}  files {files}  work units {work_units}  tasks {tasks}".format(**totals)
        )
        if state != "success":
            raise SystemExit(f"run {run_id} ended {state}: look at its log in {self.folder / 'airflow' / 'logs'}")
        self.runs.append(totals)
        return totals

    def first_run(self) -> None:
        """The schedule starts it as soon as the DAG is let go; its progress is shown while it works."""
        begin = time.monotonic()
        self.airflow.unpause(DAG)
        run_id = self._scheduled()
        state = self._watch(run_id)
        self.show_run(run_id, state, time.monotonic() - begin)

    def _watch(self, run_id: str) -> str:
        """Show what extract tasks write into their task state stores until the run ends; returns its state."""
        log = ProgressLog(self.airflow, DAG, run_id, "ingest.extract")

        def ended() -> str | None:
            # The state first: the look behind it sees what the last task left.
            state = self.airflow.run_state(DAG, run_id)
            for line in log.look():
                say(f"    {line}")
            return state if state in ("success", "failed") else None

        state = wait_until(ended, what=f"run {run_id} ends", timeout=180, children=self.airflow.children, every=0.3)
        if not log.tasks:
            raise SystemExit(f"no extract task of run {run_id} told of its progress")
        return state

    def _scheduled(self) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            runs = self.airflow.runs(DAG)
            if runs:
                return str(runs[0]["dag_run_id"])
            time.sleep(0.5)
        raise SystemExit("the scheduler made no run within 60 s")

    def second_run(self) -> dict[str, object]:
        """Triggered by hand."""
        begin = time.monotonic()
        run_id = self.airflow.trigger(DAG)
        state = self.airflow.wait_run(DAG, run_id)
        return self.show_run(run_id, state, time.monotonic() - begin)

    def backfill(self, hour: datetime) -> dict[str, object]:
        """One hour that is ingested already."""
        begin = time.monotonic()
        self.airflow.backfill(DAG, hour.isoformat(), hour.isoformat())
        ((run_id, state),) = self.airflow.wait_backfill(DAG, 1).items()
        return self.show_run(run_id, state, time.monotonic() - begin)

    def check(self) -> None:
        """Every event is written once or quarantined once; what the demo claims is counted in the files."""
        ids = report.event_ids(self.destination)
        good = {event.event_id for event in self.produced if not event.is_bad}
        bad = sum(event.is_bad for event in self.produced)
        doubled = sorted(event for event, count in ids.items() if count > 1)
        missing, extra = sorted(good - set(ids)), sorted(set(ids) - good)
        in_quarantine = report.quarantined(self.destination)
        if doubled or missing or extra or in_quarantine != bad:
            raise SystemExit(
                f"NOT exactly once: {len(doubled)} doubled, {len(missing)} missing, {len(extra)} unexpected, "
                f"{in_quarantine} quarantined of {bad} broken ones"
            )
        say(f"    {len(good):,} good events stand in files, each exactly once")
        say(f"    {bad} broken events stand in the quarantine, each exactly once")

    def load_lineage(self) -> None:
        """Load what the runs told into the warehouse, until every run of ours is in it."""
        deadline = time.monotonic() + 90
        wanted = {str(run["run"]) for run in self.runs}
        while time.monotonic() < deadline:
            self.airflow.cli("kafka-hdfs", "lineage", "load", "--yes")
            if wanted <= report.lineage_runs(self.warehouse, DAG):
                break
        else:
            raise SystemExit(f"lineage of {wanted - report.lineage_runs(self.warehouse, DAG)} did not arrive in 90 s")
        self.lineage = report.lineage(self.warehouse)
        for pair in self.lineage:
            say("    {source} -> {target}   (by {job})".format(**pair))

    @property
    def warehouse(self) -> Path:
        """The lineage warehouse: SQLite in AIRFLOW_HOME, since nothing else is configured."""
        return self.folder / "airflow" / "kafka_hdfs_lineage.db"

    def graph_address(self) -> str:
        """Where the graph of one of the datasets is shown."""
        return f"{self.airflow.url}/plugin/lineage/graph?node={report.a_target(self.warehouse)}"

    def summary(self) -> Path:
        """Write the machine-readable summary."""
        produced: dict[str, int] = dict.fromkeys(PARTITIONS, 0)
        for event in self.produced:
            produced[event.topic] += 1
        path = self.folder / "summary.json"
        body: dict[str, object] = {"produced": produced, "destination": str(self.destination), "runs": self.runs}
        body["lineage"] = self.lineage
        path.write_text(json.dumps(body, indent=2) + "\n")
        return path


def _plan_of(log: str) -> list[str]:
    """The lines of a task log that show its plan: from the one that names it to the next time stamp."""
    lines = log.splitlines()
    start = next((i for i, line in enumerate(lines) if " info plan " in line), None)
    if start is None:
        return []
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if line[:4].isdigit() and line[4:5] == "-"), len(rest))
    return [lines[start].partition(" info ")[2], *rest[:end]]


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="poe demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave Airflow and Kafka open until Enter is pressed")
    keep = parser.parse_args().keep
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    demo = Demo(BUILD)
    begin = time.monotonic()
    start = (datetime.now(UTC) - timedelta(hours=3)).replace(minute=10, second=0, microsecond=0)
    with ExitStack() as stack:
        with part("start a Kafka broker, PostgreSQL and Airflow (real ones, from packages)"):
            demo.start(stack)
            say(f"    Kafka {demo.kafka.bootstrap_servers}, Airflow {demo.airflow.url}")
        with part("produce three hours of sample events"):
            demo.produce(1500, start, 2.5, seed=1)
        with part("first run: the schedule of the DAG starts it"):
            demo.first_run()
        with part("more events, second run by hand: only what is new"):
            demo.produce(300, start + timedelta(hours=2), 0.5, seed=2)
            second = demo.second_run()
        with part("backfill of one hour that is ingested already: nothing twice"):
            again = demo.backfill(start.replace(minute=0) + timedelta(hours=1))
        if again["written"] or second["read"] != 300 * len(PARTITIONS):
            raise SystemExit(f"the second run read {second['read']}, the backfill wrote {again['written']}")
        with part("folders"):
            for line in report.tree(demo.destination):
                say(f"    {line}")
        with part("watermarks (next offset to be read)"):
            for line in report.watermarks(report.open_pipeline(demo.destination, PIPELINE)):
                say(f"    {line}")
        with part("check: read every file back"):
            demo.check()
        with part("lineage: load it into the warehouse and read it back"):
            demo.load_lineage()
        path = demo.summary()
        say(f"\nAll done in {time.monotonic() - begin:.0f} s. Summary: {path}")
        say(f"Look at the files:   find {BUILD}/data -type f | head")
        say(f"Records of the log:  ls {BUILD}/data/.kafka_hdfs/{PIPELINE}/commits/0")
        say("Do it again, and leave Airflow open at the end: uv run poe demo --keep")
        say(f"Graph of the lineage (while Airflow is open): {demo.graph_address()}")
        if keep:
            say(f"\nAirflow is open at {demo.airflow.url}/dags/{DAG} (no password). Press Enter to end it.")
            sys.stdin.readline()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
