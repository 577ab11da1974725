"""JSON as texts and columns have it: without spaces, and compressed where it is longer than every database can hold."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

LARGEST_PLAIN = 60_000
"""Redshift's longest text column holds 65,535 bytes."""
_MARK = "zlib:"


def compact(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pack(text: str) -> str:
    """The text, or `zlib:` and its compressed form in base64 where it is long."""
    if len(text) <= LARGEST_PLAIN // 4 or len(text.encode()) <= LARGEST_PLAIN:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode())).decode("ascii")


def unpack(text: str) -> str:
    """The text that `pack` was given."""
    if not text.startswith(_MARK):
        return text
    return zlib.decompress(base64.b64decode(text[len(_MARK) :])).decode()
