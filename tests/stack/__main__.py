"""Real services for hands-on use: ``python -m tests.stack up | down | status``.

They outlive the terminal. What runs stands in ``build/stack/state.json``, each process by number and start time, so
that ``down`` ends exactly those.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import requests
from confluent_kafka.admin import AdminClient

from tests.stack.guard import ProcessId
from tests.stack.hdfs import HdfsCluster
from tests.stack.kafka import KafkaCluster
from tests.stack.postgres import PostgresServer
from tests.stack.process import Service, ServiceError
from tests.stack.registry import ApicurioRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[2] / "build" / "stack"
_NAMES = ("kafka", "hdfs", "registry", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One service that was started: how to reach it, what to paste, which processes it has."""

    name: str
    endpoints: dict[str, str]
    connections: dict[str, str] = field(default_factory=dict)
    processes: list[ProcessId] = field(default_factory=list)

    def alive(self) -> list[ProcessId]:
        """The processes that still run."""
        return [one for one in self.processes if one.process() is not None]


class State:
    """The state file of a folder."""

    def __init__(self, root: Path) -> None:
        self._path = root / "state.json"

    def load(self) -> dict[str, Running]:
        """What was started and not ended by ``down``, by name."""
        if not self._path.exists():
            return {}
        found = {}
        for name, entry in json.loads(self._path.read_text()).items():
            processes = [ProcessId(**one) for one in entry.pop("processes")]
            found[name] = Running(**entry, processes=processes)
        return found

    def save(self, services: Iterable[Running]) -> None:
        """Replace the file as a whole."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self._path.with_suffix(".tmp")
        scratch.write_text(json.dumps({one.name: asdict(one) for one in services}, indent=1))
        scratch.replace(self._path)


def up(root: Path, names: Iterable[str], *, ha: bool) -> int:
    """Start what does not run yet, side by side, and print how to reach everything."""
    state = State(root)
    running = state.load()
    for name in [name for name, one in running.items() if len(one.alive()) < len(one.processes)]:
        for process in running.pop(name).alive():  # half of it died: a fresh start beats a riddle
            _end(process)
    wanted = [name for name in names if name not in running]
    if ha and "hdfs" in running:
        print("hdfs runs already; for another kind of HDFS end it first: down --only hdfs")
    if wanted:
        print(f"starting {', '.join(wanted)} in {root} …", flush=True)
    failed = False
    with ThreadPoolExecutor(len(_NAMES)) as threads:
        starts = {name: threads.submit(_start, name, root / _folder(name, ha), ha) for name in wanted}
        for name, future in starts.items():
            try:
                service, running[name] = future.result()
                state.save(running.values())
                service.detach()  # only now: what is in no state file ends with this process
            except ServiceError as error:
                failed = True
                print(f"{name} did not start: {error}", file=sys.stderr)
    _print(running.values())
    return 1 if failed else 0


def down(root: Path, names: Iterable[str], *, delete: bool) -> int:
    """End the processes of the state file, each in order, and forget them."""
    state = State(root)
    running = state.load()
    ending = [running[name] for name in names if name in running]
    with ThreadPoolExecutor(8) as threads:
        processes = [process for one in ending for process in one.processes]
        left = [pid for pids in threads.map(_end, processes) for pid in pids]
    state.save(one for name, one in running.items() if one not in ending)
    print(f"ended {', '.join(one.name for one in ending) or 'nothing: nothing ran'}")
    if delete:
        for name in names:
            for folder in root.glob(f"{name}*"):
                link = folder / "postgres"
                if link.is_symlink():
                    shutil.rmtree(link.resolve(), ignore_errors=True)
                shutil.rmtree(folder)
    if left:
        print(f"processes {left} are still there", file=sys.stderr)
    return 1 if left else 0


def status(root: Path, names: Iterable[str]) -> int:
    """Ask every service, and print its answer."""
    running = State(root).load()
    sick = False
    for name in names:
        if name not in running:
            print(f"{name:9} down")
            continue
        one = running[name]
        began = time.monotonic()
        try:
            answer = _QUESTIONS[name](one.endpoints)
            print(f"{name:9} up: {answer} ({(time.monotonic() - began) * 1000:.0f} ms)")
        except Exception as error:
            sick = True
            print(f"{name:9} does not answer: {error!r}; {len(one.alive())} of {len(one.processes)} processes run")
    _print(one for name, one in running.items() if name in names and one.alive())
    return 1 if sick else 0


def _folder(name: str, ha: bool) -> str:
    return "hdfs-ha" if ha and name == "hdfs" else name


def _start(name: str, folder: Path, ha: bool) -> tuple[Service, Running]:
    service, describe = _make(name, folder, ha)
    try:
        service.start()
    except BaseException:
        service.kill()
        raise
    return service, describe()


def _make(name: str, folder: Path, ha: bool) -> tuple[Service, Callable[[], Running]]:
    if name == "kafka":
        kafka = KafkaCluster(folder)
        return kafka, lambda: _describe(
            name,
            kafka,
            {"bootstrap.servers": kafka.bootstrap_servers, "cluster id": kafka.cluster_id},
            {"KAFKA_DEFAULT": kafka.airflow_connection},
        )
    if name == "hdfs":
        hdfs = HdfsCluster(folder, ha=ha)
        return hdfs, lambda: _describe(
            name,
            hdfs,
            {"WebHDFS": hdfs.webhdfs_url, "RPC": hdfs.rpc_url, "HADOOP_CONF_DIR": str(hdfs.hadoop_conf_dir)},
            {"WEBHDFS_DEFAULT": hdfs.airflow_connection, "HDFS_NATIVE_DEFAULT": hdfs.native_airflow_connection},
        )
    if name == "registry":
        registry = ApicurioRegistry(folder)
        connections = {"SCHEMA_REGISTRY_DEFAULT": registry.airflow_connection}
        return registry, lambda: _describe(name, registry, {"URL": registry.url}, connections)
    postgres = PostgresServer(folder)
    return postgres, lambda: _describe(
        name, postgres, {"TCP": postgres.tcp_uri, "socket": postgres.uri, "SQLAlchemy": postgres.sqlalchemy_url()}, {}
    )


def _describe(name: str, service: Service, endpoints: dict[str, str], connections: dict[str, str]) -> Running:
    processes = [child.process_id for child in service.children]
    return Running(name=name, endpoints=endpoints, connections=connections, processes=processes)


def _end(process: ProcessId) -> list[int]:
    # PostgreSQL's word for "end the sessions and stop" is SIGINT; it would wait for its clients after SIGTERM.
    word = signal.SIGINT if process.name == "postgres" else signal.SIGTERM
    return process.end(signal_number=word, grace=20)


def _print(services: Iterable[Running]) -> None:
    found = list(services)
    for one in found:
        print(f"\n{one.name}")
        for what, where in one.endpoints.items():
            print(f"  {what:17} {where}")
    lines = [f"export AIRFLOW_CONN_{name}='{value}'" for one in found for name, value in one.connections.items()]
    if lines:
        print("\n# paste into the shell of an Airflow:")
        print("\n".join(lines))


def _ask_kafka(endpoints: dict[str, str]) -> str:
    client = AdminClient({"bootstrap.servers": endpoints["bootstrap.servers"], "log_level": 0})
    found = client.list_topics(timeout=10)
    return f"{len(found.brokers)} nodes, {len(found.topics)} topics"


def _ask_hdfs(endpoints: dict[str, str]) -> str:
    states = []
    for url in endpoints["WebHDFS"].split(";"):
        query = {"qry": "Hadoop:service=NameNode,name=NameNodeStatus"}
        answer = requests.get(f"{url}/jmx", params=query, timeout=10)
        states.append(answer.json()["beans"][0]["State"])
    return f"name nodes {', '.join(states)}"


def _ask_registry(endpoints: dict[str, str]) -> str:
    answer = requests.get(f"{endpoints['URL']}/subjects", timeout=10)
    answer.raise_for_status()
    return f"{len(answer.json())} subjects"


def _ask_postgres(endpoints: dict[str, str]) -> str:
    connection = psycopg2.connect(endpoints["TCP"])
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_database WHERE NOT datistemplate")
            row = cursor.fetchone()
            return f"{row[0] if row else 0} databases"
    finally:
        connection.close()


_QUESTIONS: dict[str, Callable[[dict[str, str]], str]] = {
    "kafka": _ask_kafka,
    "hdfs": _ask_hdfs,
    "registry": _ask_registry,
    "postgres": _ask_postgres,
}


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in _NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are {', '.join(_NAMES)}")
    return names


def main(words: list[str] | None = None) -> int:
    """Parse the command line and carry it out; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="stack", description="Real services for hands-on use, in build/stack.")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder for data, logs and state")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("up", "start"), ("down", "end"), ("status", "ask")):
        command = commands.add_parser(name, help=f"{text} the services")
        command.add_argument("--only", type=_names, default=list(_NAMES), metavar="kafka,hdfs,…", help="not all")
        if name == "up":
            command.add_argument("--ha", action="store_true", help="HDFS with two name nodes")
        if name == "down":
            command.add_argument("--delete", action="store_true", help="remove data and logs too")
    options = parser.parse_args(words)
    if options.command == "up":
        return up(options.root, options.only, ha=options.ha)
    if options.command == "down":
        return down(options.root, options.only, delete=options.delete)
    return status(options.root, options.only)


if __name__ == "__main__":
    sys.exit(main())
