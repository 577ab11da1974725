r"""The one place where commands print: names and texts come from messages, and a terminal obeys what they hold.

Whatever could move the cursor, colour or hide text, end a line or turn it round is shown as Python writes it (`\x1b`).
JSON escapes by itself.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TextIO

# Control characters, marks and overrides of direction, line and paragraph ends, halves of characters.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: object) -> str:
    """A text as one line that no terminal obeys."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], str(text))


def say(*lines: object, file: TextIO | None = None) -> None:
    """Print lines for people, each made `plain`.

    Args:
        lines: one text for each line.
        file: where to, the standard output if not given.
    """
    for line in lines:
        print(plain(line), file=file)


def ask(question: str, file: TextIO) -> None:
    """Print a question that is answered on the same line."""
    print(plain(question), end=" ", file=file, flush=True)


def warn(*lines: object) -> None:
    """As `say`, to the standard error output."""
    say(*lines, file=sys.stderr)


def say_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; numbers stay numbers."""
    from airflow_kafka_hdfs.operators.tables import table

    say(*table(head, [[cell if isinstance(cell, int) else plain(cell) for cell in row] for row in rows]))


def say_json(value: Any) -> None:
    """Print JSON for scripts."""
    print(json.dumps(value, indent=2))


def say_document(text: str) -> None:
    """Print a document as it is; its maker knows what its format can hold."""
    print(text, end="")


def leave(text: str) -> NoReturn:
    """End with exit code 1 and a reason; its line ends stay, all else is made `plain`.

    Raises:
        SystemExit: always.
    """
    raise SystemExit("\n".join(map(plain, text.split("\n"))))
