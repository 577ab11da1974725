"""Which paths a store takes: one rule for every kind of store, so that data can move between them.

The rule is HDFS's (no `:` and no `.`/`..` as a path element, 255 bytes an element) without control characters.
Whoever makes paths of foreign values (partition fields) escapes them first.
"""

from __future__ import annotations

import re
import uuid

from airflow_kafka_hdfs.exceptions import StoreRefusedError

MAX_ELEMENT_BYTES = 255
TEMP_PREFIX = ".put-"

_FORBIDDEN = re.compile(r"[:\x00-\x1f\x7f]")
_TEMP_NAME = re.compile(re.escape(TEMP_PREFIX) + r"[0-9a-f]{32}")


def check_path(action: str, path: str) -> str:
    """The path itself, if it names something below the root and nothing else.

    Args:
        action: operation that is asked for, for the message.
        path: relative, `/`-separated.

    Raises:
        StoreRefusedError: empty, absolute, with `.`, `..`, empty elements, `:`, control characters, lone surrogates,
            or an element longer than 255 bytes in UTF-8.
    """
    for element in path.split("/"):
        if reason := _fault(element):
            raise StoreRefusedError(
                action, repr(path), f"{reason}; a path is relative to the root, like 'topic/2026/01/31/file.avro'"
            )
    return path


def check_folder(action: str, path: str) -> str:
    """As `check_path`, but the empty path, which is the root itself, is fine."""
    return path if path == "" else check_path(action, path)


def check_content(action: str, path: str, size: int) -> None:
    """Refuse empty files: some object stores replace what stands there when nothing is written.

    Raises:
        StoreRefusedError: size is 0.
    """
    if size == 0:
        raise StoreRefusedError(action, path, "the file would be empty; a store takes files of at least one byte")


def parent(path: str) -> str:
    """Folder of a path, the empty path for one directly below the root."""
    return path.rpartition("/")[0]


def join(folder: str, name: str) -> str:
    """Path of a child; the empty folder is the root."""
    return f"{folder}/{name}" if folder else name


def temp_beside(path: str) -> str:
    """A fresh hidden name in the same folder, where a file is written before it is moved to its place."""
    return join(parent(path), f"{TEMP_PREFIX}{uuid.uuid4().hex}")


def is_temp(name: str) -> bool:
    """Whether a name (last path element) was made by `temp_beside`; listings leave such files out."""
    return _TEMP_NAME.fullmatch(name) is not None


def _fault(element: str) -> str:
    if element in ("", ".", ".."):
        return f"path element {element!r} is not allowed"
    if found := _FORBIDDEN.search(element):
        return f"character {found.group()!r} is not allowed"
    try:
        size = len(element.encode())
    except UnicodeEncodeError:
        return "characters that are no text in UTF-8 are not allowed"
    return f"path element of {size} bytes, allowed: {MAX_ELEMENT_BYTES}" if size > MAX_ELEMENT_BYTES else ""
