"""Long JSON texts in columns that every database can hold: above 60,000 characters they are stored compressed."""

from __future__ import annotations

import base64
import zlib

LARGEST_PLAIN = 60_000
"""Redshift's longest text column holds 65,535 bytes."""
_MARK = "zlib:"


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
