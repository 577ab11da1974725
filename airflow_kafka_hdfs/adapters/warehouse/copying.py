"""Rows into PostgreSQL by COPY, in its text format."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from sqlalchemy import exc
from sqlalchemy.engine import Connection

Rows = Sequence[Sequence[Any]]
"""Values in the order of a table's columns, as `values_of` makes them."""
_SIGNS = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def copy_line(row: Sequence[Any]) -> str:
    """One line of PostgreSQL's text format for COPY: quotes stay as they are, and most values hold nothing to mask."""
    nothing = row.count(None)
    line = "\t".join(["\\N" if value is None else str(value) for value in row] if nothing else map(str, row))
    if line.count("\\") > nothing or "\n" in line or "\r" in line or line.count("\t") >= len(row):
        line = "\t".join(["\\N" if value is None else str(value).translate(_SIGNS) for value in row])
    return f"{line}\n"


def copy_rows(connection: Connection, statement: str, rows: Rows) -> None:
    """COPY, by the drivers `psycopg2` and `psycopg`."""
    text = "".join(map(copy_line, rows))
    cursor = connection.connection.cursor()
    try:
        if connection.dialect.driver == "psycopg2":
            cursor.copy_expert(statement, io.StringIO(text, newline=""))
        else:
            with cursor.copy(statement) as copy:
                copy.write(text)
    except connection.dialect.loaded_dbapi.Error as error:
        # As SQLAlchemy does for the statements that go through it.
        raise exc.DBAPIError.instance(
            statement, (), error, connection.dialect.loaded_dbapi.Error, dialect=connection.dialect
        ) from error
    finally:
        cursor.close()
