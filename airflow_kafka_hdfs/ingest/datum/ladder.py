"""How a datum of one schema gets into a file of another, from the cheapest way to the dearest.

    same canonical form                                            pass: the datum as it is
    the file's schema has more fields at its end, with defaults    splice: the datum, and the defaults behind it
    anything else                                                  recode: decode, resolve, encode

With a file per writer schema every datum passes, and readers resolve.

Where the schemas are not the same text, a union of types that can be read as each other (`["bytes", "string"]`,
`["double", "int"]`) is a reason to recode: resolving takes the first branch that fits, which need not be the one that
was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from airflow_kafka_hdfs.exceptions import UnusableSchemaError
from airflow_kafka_hdfs.ingest.datum.defaults import encode_default
from airflow_kafka_hdfs.ingest.datum.schema import Record, read_schema

_READ_AS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What a written type may be read as. Source: Avro specification, schema resolution."""


class Way(StrEnum):
    """What happens to a datum."""

    PASS = "pass"  # noqa: S105 - no password, the datum passes
    SPLICE = "splice"
    RECODE = "recode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The way of one writer schema into files of one schema.

    Attributes:
        tail: bytes to put behind each datum; empty unless spliced.
        reason: why it is not a cheaper way, for log and metrics; empty for `pass`.
    """

    way: Way
    tail: bytes = b""
    reason: str = ""


def decide(writer_canonical: str, target_canonical: str, target: Any) -> Decision:
    """Find the cheapest way.

    Args:
        writer_canonical: parsing canonical form of the writer schema.
        target_canonical: parsing canonical form of the file's schema.
        target: the file's schema as plain JSON values, with its defaults.

    Returns:
        The way. A `recode` may still fail where the schemas can't be resolved; that is the codec's to say.
    """
    writer, wanted = json.loads(writer_canonical), json.loads(target_canonical)
    if _may_change_branch(writer):
        return Decision(way=Way.RECODE, reason="a union in it has types that can be read as each other")
    if writer_canonical == target_canonical:
        return Decision(way=Way.PASS)
    if not (_is_record(writer) and _is_record(wanted)):
        return Decision(way=Way.RECODE, reason="one of the schemas is no record")
    if writer["name"] != wanted["name"]:
        return Decision(way=Way.RECODE, reason=f"record {writer['name']} has to become {wanted['name']}")
    known = writer["fields"]
    for old, new in zip(known, wanted["fields"], strict=False):
        if old != new:
            return Decision(way=Way.RECODE, reason=f"field {old['name']!r} has to become {_told(old, new)}")
    if len(known) > len(wanted["fields"]):
        gone = known[len(wanted["fields"])]["name"]
        return Decision(way=Way.RECODE, reason=f"field {gone!r} is not in the file's schema")
    holder = read_schema(writer)
    if isinstance(holder, Record) and holder.uses > 1:
        # What is put behind the datum would be missing in the records of this type inside it.
        return Decision(way=Way.RECODE, reason=f"record {writer['name']} holds itself and gets more fields")
    return _splice(target, len(known))


def _splice(target: Any, known: int) -> Decision:
    try:
        record = read_schema(target)
        if not isinstance(record, Record):
            raise UnusableSchemaError("the file's schema is no record")
        added = record.fields[known:]
        tail = b"".join(map(encode_default, added))
    except UnusableSchemaError as error:
        return Decision(way=Way.RECODE, reason=str(error))
    names = ", ".join(repr(field.name) for field in added)
    return Decision(way=Way.SPLICE, tail=tail, reason=f"the file's schema has more fields: {names}")


def _may_change_branch(schema: Any) -> bool:
    """Whether a union anywhere in a canonical schema has a branch that an earlier one can be taken for."""
    if isinstance(schema, list):
        return _has_similar(map(_label, schema)) or any(map(_may_change_branch, schema))
    if isinstance(schema, dict):
        inner = [schema.get("type"), schema.get("items"), schema.get("values")]
        return any(_may_change_branch(part) for part in (*inner, *schema.get("fields", ())))
    return False


def _has_similar(branches: Iterable[str]) -> bool:
    """Whether one can be read as an earlier one: for named types the last parts of their names are enough."""
    whole: set[str] = set()
    last_parts: set[str] = set()
    for label in branches:
        last = label.split(".")[-1]
        if not whole.isdisjoint(_READ_AS[label]) if label in _READ_AS else last in last_parts:
            return True
        whole.add(label)
        last_parts.add(last)
    return False


def _label(branch: Any) -> str:
    """The name of a named type, else the type."""
    return str(branch.get("name", branch["type"]) if isinstance(branch, dict) else branch)


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _told(old: Any, new: Any) -> str:
    return f"{new['name']!r}" if old["name"] != new["name"] else "of another type"
