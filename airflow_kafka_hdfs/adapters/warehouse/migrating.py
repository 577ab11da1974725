"""Brings the tables of a warehouse to the version of this package, with Alembic."""

from __future__ import annotations

import logging
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy.engine import Connection

from airflow_kafka_hdfs.adapters.warehouse.tables import VERSION_TABLE

_LOCK = 5_171_207_842_311
"""Any number; held while tables change, so that two starts side by side do not meet."""


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Create or update the tables in the connection's transaction.

    Args:
        connection: in a transaction; the caller commits.
        revision: version to stop at.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    # Airflow migrates with Alembic too: its log level is put back.
    log = logging.getLogger("alembic")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        command.upgrade(config, revision)
    finally:
        log.setLevel(level)


def current_revision(connection: Connection) -> str | None:
    """Version of the tables, None if there are none."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
