"""HDFS on the loopback address: one name node, or two with shared edits, and data nodes."""

from __future__ import annotations

import getpass
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import requests

from tests.stack.hadoop import configuration_xml, resources_jar
from tests.stack.java import Java, jars, with_startup_cache
from tests.stack.process import Child, Service, ServiceError, port_of, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JARS = "hdfs-3.5.0"
_IN_TOUCH_SECONDS = 2
NAMESERVICE = "stack"
_SERVER = "org.apache.hadoop.hdfs.server"
_PROXY_PROVIDER = f"{_SERVER}.namenode.ha.ConfiguredFailoverProxyProvider"
# Without this every WebHDFS call answers 500 on a current Java, while native RPC works.
_OPTIONS = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--enable-native-access=ALL-UNNAMED")


class HdfsCluster(Service):
    """HDFS 3.5 with permissions on and simple authentication; the user of this process is the superuser.

    Args:
        folder: Data, configuration and logs; a cluster started again on the same folder has its old data.
        ha: Two name nodes, numbered 1 and 2; 1 is active after the first start.
        datanodes: Number of data nodes, numbered from 1.
        replication: Copies of each block.
        properties: Settings on top of ours, for all processes and in the client configuration. One worth
            knowing: ``dfs.namenode.file.close.num-committed-allowed=1`` makes the close of a small file over
            WebHDFS several times faster; users' clusters have its default 0.
        heap_mb: Java heap of each process.
        quick: False for benchmarks: Java compiles as on a server, and takes three times as long to start.
        java: How to run Java instead of what `quick` says.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ha: bool = False,
        datanodes: int = 1,
        replication: int = 1,
        properties: Mapping[str, str | int] | None = None,
        heap_mb: int = 256,
        quick: bool = True,
        java: Java | None = None,
    ) -> None:
        self.folder = folder
        self._java = java or _java(quick)
        self.ha = ha
        self.superuser = getpass.getuser()
        self._extra = {name: str(value) for name, value in (properties or {}).items()}
        self._replication = replication
        self._heap_mb = heap_mb
        self._hosts = ["127.0.0.1", "127.0.0.2"] if ha else ["127.0.0.1"]
        self.webhdfs_port = port_of(folder, "namenode-http")
        self.rpc_port = port_of(folder, "namenode-rpc")
        self._datanode_http = [port_of(folder, f"datanode-{one}-http") for one in range(1, datanodes + 1)]
        self._namenodes = [
            self._child("namenode", number, f"{_SERVER}.namenode.NameNode") for number in range(1, len(self._hosts) + 1)
        ]
        self._datanodes = [
            self._child("datanode", number, f"{_SERVER}.datanode.DataNode") for number in range(1, datanodes + 1)
        ]

    @property
    def children(self) -> Sequence[Child]:
        return [*self._namenodes, *self._datanodes]

    @property
    def webhdfs_urls(self) -> list[str]:
        """``http://host:port`` of each name node, in the order of their numbers."""
        return [f"http://{host}:{self.webhdfs_port}" for host in self._hosts]

    @property
    def webhdfs_url(self) -> str:
        """All name nodes joined by ``;``, as ``hdfs.InsecureClient`` takes them."""
        return ";".join(self.webhdfs_urls)

    @property
    def webhdfs_host(self) -> str:
        """All name nodes joined by ``,``, as the host of a WebHDFS connection of Airflow names them."""
        return ",".join(self._hosts)

    @property
    def airflow_connection(self) -> str:
        """Value of ``AIRFLOW_CONN_WEBHDFS_DEFAULT``."""
        return json.dumps(
            {
                "conn_type": "webhdfs",
                "host": self.webhdfs_host,
                "port": self.webhdfs_port,
                "login": self.superuser,
            }
        )

    @property
    def native_airflow_connection(self) -> str:
        """Value of ``AIRFLOW_CONN_HDFS_NATIVE_DEFAULT``."""
        place = {"host": NAMESERVICE} if self.ha else {"host": "127.0.0.1", "port": self.rpc_port}
        extra = {"hadoop_conf_dir": str(self.hadoop_conf_dir)}
        return json.dumps({"conn_type": "hdfs_native", **place, "login": self.superuser, "extra": extra})

    @property
    def rpc_url(self) -> str:
        """``hdfs://127.0.0.1:port``, or ``hdfs://stack`` with high availability (needs `hadoop_conf_dir`)."""
        return f"hdfs://{NAMESERVICE}" if self.ha else f"hdfs://127.0.0.1:{self.rpc_port}"

    @property
    def hadoop_conf_dir(self) -> Path:
        """Folder with core-site.xml and hdfs-site.xml for clients (HADOOP_CONF_DIR) and servers."""
        return self.folder / "conf"

    @property
    def client_properties(self) -> dict[str, str]:
        """What `hadoop_conf_dir` says to clients, as a mapping (``hdfs_native.Client(url, config)``)."""
        return self._core_site() | self._hdfs_site() | self._extra

    def start(self) -> Self:
        self._write_config()
        for number in range(1, len(self._namenodes) + 1):
            self._format(number)
            self._namenodes[number - 1].start()
            if number == 1:
                for child in self._datanodes:
                    child.start()
                if self.ha:  # the second one copies the image of the first
                    self._wait_namenode(1)
        for number in range(1, len(self._namenodes) + 1):
            self._wait_namenode(number)
        if self.ha and self.active_namenode() is None:
            self._haadmin("-transitionToActive", "nn1")
        self.wait_ready()
        return self

    def wait_ready(self, timeout: float = 150.0) -> None:
        """Wait until a name node is active and writable, and knows every running data node."""
        nodes = sum(child.is_running() for child in self._datanodes)

        def ready() -> bool:
            number = self.active_namenode()
            if number is None:
                return False
            state = self._jmx(self.webhdfs_urls[number - 1], "NameNode", "FSNamesystemState")
            known = int(state["NumLiveDataNodes"]) >= nodes and state["FSState"] == "Operational"
            return known and all(self._reports(one) for one in range(1, len(self._datanodes) + 1))

        running = [child for child in self.children if child.is_running()]
        wait_until(ready, what=f"HDFS has {nodes} data nodes", timeout=timeout, children=running)

    def active_namenode(self) -> int | None:
        """Number of the name node that serves clients; None while there is none."""
        for number, child in enumerate(self._namenodes, start=1):
            if not child.is_running():
                continue
            try:
                if self._namenode_state(number) == "active":
                    return number
            except requests.RequestException:
                continue
        return None

    def kill_namenode(self, number: int = 1) -> None:
        """End a name node by SIGKILL; its data stays."""
        self._one(self._namenodes, number).kill()

    def start_namenode(self, number: int = 1, *, wait: bool = True) -> None:
        """Start a killed name node on its old ports and data; one of two comes back as standby.

        Args:
            number: 1 or 2.
            wait: Until it answers, and for a single one: until it has left safe mode.
        """
        self._one(self._namenodes, number).start()
        if wait:
            self._wait_namenode(number)
            if not self.ha:
                self.wait_ready()

    def pause_namenode(self, number: int = 1) -> None:
        """Freeze a name node: connections stay open, nothing answers."""
        self._one(self._namenodes, number).pause()

    def continue_namenode(self, number: int = 1) -> None:
        """Let a frozen name node go on."""
        self._one(self._namenodes, number).resume()

    def failover(self, to: int) -> None:
        """Make name node `to` the active one, whether the other one lives or not.

        A frozen one is ended for good, as fencing would do: let go on, it would take itself for the active one.
        """
        other = 3 - to
        if self._one(self._namenodes, other).is_paused():
            self.kill_namenode(other)
        # A started standby answers before the data nodes report to it; made active then, it finds no block of a file.
        # It may be in safe mode until it is active: only then does it hear of deletions in the segment that the other
        # one had open when it died, and waits for no block of theirs any more.
        has_data = all(node.is_running() for node in self._datanodes)
        if has_data:
            wait_until(lambda: self._has_reports(to), what=f"name node {to} has reports of all data nodes", timeout=90)

        def takes_over() -> bool:
            self._haadmin("-failover", f"nn{other}", f"nn{to}")
            return True

        # A standby that was just started may know blocks that were deleted since: it waits for reports of them, and is
        # not ready until it has read of their deletion.
        wait_until(takes_over, what=f"name node {to} is ready to be active", timeout=120, every=2)
        wait_until(lambda: self.active_namenode() == to, what=f"name node {to} is active", timeout=30)
        if has_data:
            wait_until(lambda: self._is_operational(to), what=f"name node {to} leaves safe mode", timeout=90)

    def kill_datanode(self, number: int = 1) -> None:
        """End a data node by SIGKILL; its blocks stay."""
        self._one(self._datanodes, number).kill()

    def start_datanode(self, number: int = 1, *, wait: bool = True) -> None:
        """Start a killed data node on its old blocks."""
        self._one(self._datanodes, number).start()
        if wait:
            self.wait_ready()

    def safemode(self, action: Literal["enter", "leave"]) -> None:
        """Make the file system read-only, or writable again."""
        self._tool("org.apache.hadoop.hdfs.tools.DFSAdmin", "-fs", self.rpc_url, "-safemode", action)

    def set_space_quota(self, path: str, size: int | None) -> None:
        """Limit the bytes below a folder, copies counted; None lifts the limit.

        A block that is written is charged with its full size (``dfs.blocksize``, 128 MiB).
        """
        quota = -1 if size is None else size
        self.webhdfs("PUT", path, "SETQUOTA", storagespacequota=quota, namespacequota=2**63 - 1)

    def set_name_quota(self, path: str, names: int | None) -> None:
        """Limit the number of names in and below a folder, itself counted; None lifts the limit."""
        quota = -1 if names is None else names
        self.webhdfs("PUT", path, "SETQUOTA", namespacequota=quota, storagespacequota=2**63 - 1)

    def webhdfs(
        self, method: str, path: str, operation: str, *, user: str | None = None, **parameters: str | int
    ) -> requests.Response:
        """One WebHDFS call on the active name node as `user` (default: the superuser).

        Raises:
            ServiceError: HDFS refused; the text shows its answer.
        """
        number = self.active_namenode()
        if number is None:
            raise ServiceError("no name node is active")
        answer = requests.request(
            method,
            f"{self.webhdfs_urls[number - 1]}/webhdfs/v1{path}",
            params={"op": operation, "user.name": user or self.superuser, **parameters},
            timeout=30,
        )
        if not answer.ok:
            raise ServiceError(f"{operation} {path}: HTTP {answer.status_code}: {answer.text[:500]}")
        return answer

    def _one(self, children: Sequence[Child], number: int) -> Child:
        if not 1 <= number <= len(children):
            raise ServiceError(f"there is no HDFS node {number}: they are numbered 1 to {len(children)}")
        return children[number - 1]

    def _child(self, kind: str, number: int, main: str) -> Child:
        words = [*self._settings_files(), *self._own_settings(kind, number)]
        command = self._java.command(kind, main, *words, heap_mb=self._heap_mb)
        return Child(f"{kind}-{number}", command, self.folder / "logs", env=self._env())

    def _env(self) -> dict[str, str]:
        return self._java.env | {"HADOOP_USER_NAME": self.superuser}

    def _settings_files(self) -> list[str]:
        # Usually the configuration folder is on the class path; there, a start-up cache allows nothing but jars.
        return [word for name in ("core", "hdfs") for word in ("-conf", str(self.hadoop_conf_dir / f"{name}-site.xml"))]

    def _own_settings(self, kind: str, number: int) -> list[str]:
        """Arguments for the settings that differ from process to process; the files are for all."""
        folder = self._data_folder(kind, number).as_uri()
        settings = {"dfs.namenode.name.dir": folder}
        if kind == "datanode":
            settings = {"dfs.datanode.data.dir": folder}
            settings["dfs.datanode.http.address"] = f"127.0.0.1:{self._datanode_http[number - 1]}"
            for name in ("address", "ipc.address"):
                settings[f"dfs.datanode.{name}"] = f"127.0.0.1:{port_of(self.folder, f'{kind}-{number}-{name}')}"
        elif self.ha:
            settings["dfs.ha.namenode.id"] = f"nn{number}"
        return [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]

    def _data_folder(self, kind: str, number: int) -> Path:
        return self.folder / f"{kind}-{number}-data"

    def _core_site(self) -> dict[str, str]:
        return {
            "fs.defaultFS": self.rpc_url,
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "hadoop.http.staticuser.user": self.superuser,
            # A dead name node must be noticed at once by the admin tools, not after 10 tries a second apart.
            "ipc.client.connect.max.retries": "1",
            "ipc.client.connect.retry.interval": "200",
            "ha.failover-controller.graceful-fence.rpc-timeout.ms": "2000",
        }

    def _hdfs_site(self) -> dict[str, str]:
        return {
            "dfs.replication": str(self._replication),
            "dfs.permissions.superusergroup": "supergroup",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.heartbeat.interval": "1",
            "dfs.namenode.heartbeat.recheck-interval": "1000",
            "dfs.datanode.hostname": "127.0.0.1",
        } | (self._ha_names() if self.ha else self._plain_names())

    def _plain_names(self) -> dict[str, str]:
        return {
            "dfs.namenode.rpc-address": f"127.0.0.1:{self.rpc_port}",
            "dfs.namenode.http-address": f"127.0.0.1:{self.webhdfs_port}",
        }

    def _ha_names(self) -> dict[str, str]:
        names = {
            "dfs.nameservices": NAMESERVICE,
            f"dfs.ha.namenodes.{NAMESERVICE}": "nn1,nn2",
            f"dfs.client.failover.proxy.provider.{NAMESERVICE}": _PROXY_PROVIDER,
            "dfs.namenode.shared.edits.dir": (self.folder / "shared-edits").as_uri(),
            "dfs.ha.fencing.methods": "shell(/bin/true)",
            "dfs.ha.tail-edits.period": "1s",
            "dfs.ha.log-roll.period": "5s",
            "dfs.client.failover.sleep.base.millis": "100",
            "dfs.client.failover.sleep.max.millis": "1000",
        }
        # One port on two addresses: Airflow's WebHDFS connection takes several hosts, but a single port.
        for number, host in enumerate(self._hosts, start=1):
            names[f"dfs.namenode.rpc-address.{NAMESERVICE}.nn{number}"] = f"{host}:{self.rpc_port}"
            names[f"dfs.namenode.http-address.{NAMESERVICE}.nn{number}"] = f"{host}:{self.webhdfs_port}"
        return names

    def _write_config(self) -> None:
        conf = self.hadoop_conf_dir
        conf.mkdir(parents=True, exist_ok=True)
        (self.folder / "shared-edits").mkdir(exist_ok=True)
        (conf / "core-site.xml").write_text(configuration_xml(self._core_site()))
        (conf / "hdfs-site.xml").write_text(configuration_xml(self._hdfs_site() | self._extra))

    def _format(self, number: int) -> None:
        folder = self._data_folder("namenode", number)
        if (folder / "current" / "VERSION").exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        action = "-format" if number == 1 else "-bootstrapStandby"
        words = [*self._settings_files(), *self._own_settings("namenode", number), action, "-nonInteractive"]
        command = self._java.without_recording.command("namenode", f"{_SERVER}.namenode.NameNode", *words, heap_mb=128)
        run(command, what=f"{action} of name node {number}", timeout=120, env=self._env())

    def _wait_namenode(self, number: int, timeout: float = 150.0) -> None:
        wait_until(
            lambda: self._namenode_state(number) in ("active", "standby"),
            what=f"HDFS name node {number} answers",
            timeout=timeout,
            children=[self._namenodes[number - 1]],
        )

    def _namenode_state(self, number: int) -> str:
        return self._jmx(self.webhdfs_urls[number - 1], "NameNode", "NameNodeStatus")["State"]

    def _is_operational(self, number: int) -> bool:
        state = self._jmx(self.webhdfs_urls[number - 1], "NameNode", "FSNamesystemState")["FSState"]
        return bool(state == "Operational")

    def _has_reports(self, number: int) -> bool:
        reports = self._jmx(self.webhdfs_urls[number - 1], "NameNode", "NameNodeActivity")["StorageBlockReportNumOps"]
        return int(reports) >= len(self._datanodes)

    def _reports(self, number: int) -> bool:
        """Whether a data node, unless it is down, is in touch with every name node that runs.

        The name node alone can't tell: it counts a killed data node as alive for a dozen seconds.
        """
        if not self._datanodes[number - 1].is_running():
            return True
        info = self._jmx(f"http://127.0.0.1:{self._datanode_http[number - 1]}", "DataNode", "DataNodeInfo")
        actors: list[dict[str, str]] = json.loads(info["BPServiceActorInfo"])
        in_touch = [
            actor
            for actor in actors
            if actor["ActorState"] == "RUNNING" and int(actor["LastHeartbeatResponseTime"]) <= _IN_TOUCH_SECONDS
        ]
        return len(in_touch) >= sum(child.is_running() for child in self._namenodes)

    def _jmx(self, base: str, service: str, bean: str) -> dict[str, str]:
        query = {"qry": f"Hadoop:service={service},name={bean}"}
        answer = requests.get(f"{base}/jmx", params=query, timeout=5)
        answer.raise_for_status()
        beans: list[dict[str, str]] = answer.json()["beans"]
        return beans[0]

    def _haadmin(self, *arguments: str) -> None:
        self._tool("org.apache.hadoop.hdfs.tools.DFSHAAdmin", "-ns", NAMESERVICE, *arguments)

    def _tool(self, main: str, *arguments: str) -> None:
        command = self._java.command("namenode", main, *self._settings_files(), *arguments, heap_mb=128)
        run(command, what=" ".join([main.rpartition(".")[2], *arguments]), timeout=120, env=self._env())


def _java(quick: bool) -> Java:
    java = Java(class_path=(*jars(JARS), resources_jar()), options=_OPTIONS, quick=quick)
    return with_startup_cache(java, ["namenode", "datanode"], _train) if quick else java


def _train(java: Java, folder: Path) -> None:
    with HdfsCluster(folder, java=java) as hdfs:
        hdfs.webhdfs("PUT", "/training", "MKDIRS")
        hdfs.stop(grace=120)
