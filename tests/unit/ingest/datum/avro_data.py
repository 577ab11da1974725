"""Random Avro schemas, values that fit them, every legal encoding of a value, and damage."""

import io
import json
import os
import struct
from dataclasses import dataclass
from typing import Any

import fastavro
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from airflow_kafka_hdfs.ingest.datum.container import encode_bytes, encode_long

laws = settings(
    max_examples=int(os.environ.get("LAW_EXAMPLES", "50")), deadline=None, suppress_health_check=list(HealthCheck)
)
"""Set LAW_EXAMPLES to look longer."""

PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=12),
}


@dataclass(frozen=True)
class Branch:
    """A union's value, with the branch it takes."""

    index: int
    value: Any


@dataclass
class Shape:
    """A schema and a strategy of values in our own plain form (unions are `Branch`)."""

    schema: Any
    values: st.SearchStrategy


class Names:
    def __init__(self):
        self.count = 0

    def new(self):
        self.count += 1
        return f"N{self.count}"


@st.composite
def shapes(draw, depth=3, names=None, union_ok=True, known=None):
    names = names or Names()
    known = known if known is not None else []
    simple = ["primitive", "enum", "fixed", "logical"] + (["known"] if known else [])
    nested = ["record", "array", "map"] + (["union"] if union_ok else [])
    kind = draw(st.sampled_from(simple + (nested * 2 if depth > 0 else [])))
    if kind == "primitive":
        name = draw(st.sampled_from(sorted(PRIMITIVES)))
        return Shape(name, PRIMITIVES[name])
    if kind == "logical":
        return Shape({"type": "long", "logicalType": "local-timestamp-nanos"}, PRIMITIVES["long"])
    if kind == "known":
        return draw(st.sampled_from(known))
    if kind in ("enum", "fixed"):
        name = names.new()
        if kind == "enum":
            symbols = [f"S{i}" for i in range(draw(st.integers(1, 70)))]
            schema = {"type": "enum", "name": name, "namespace": "a.b", "symbols": symbols}
            values = st.sampled_from(symbols)
        else:
            size = draw(st.integers(0, 9))
            schema = {"type": "fixed", "name": f"a.b.{name}", "size": size}
            values = st.binary(min_size=size, max_size=size)
        known.append(Shape(f"a.b.{name}", values))
        return Shape(schema, values)
    if kind == "record":
        return draw(records(depth, names, known))
    inner = shapes(depth - 1, names, True, known)
    if kind == "array":
        item = draw(inner)
        return Shape({"type": "array", "items": item.schema}, st.lists(item.values, max_size=4))
    if kind == "map":
        item = draw(inner)
        return Shape(
            {"type": "map", "values": item.schema}, st.dictionaries(st.text(max_size=3), item.values, max_size=3)
        )
    branches = []
    for _ in range(draw(st.integers(1, 3))):
        before = len(known)
        branch = draw(shapes(depth - 1, names, False, known))
        if _tag(branch.schema) not in [_tag(other.schema) for other in branches]:
            branches.append(branch)
        else:
            del known[before:]
    return Shape([b.schema for b in branches], _branch_values(branches))


def _branch_values(branches):
    return st.one_of([b.values.map(lambda v, i=i: Branch(i, v)) for i, b in enumerate(branches)])


def _tag(schema):
    if isinstance(schema, dict):
        if schema["type"] in ("record", "enum", "fixed"):
            return schema["name"].rpartition(".")[2]
        return schema["type"]
    return schema.rpartition(".")[2]


@st.composite
def records(draw, depth=3, names=None, known=None):
    names = names or Names()
    known = known if known is not None else []
    name = names.new()
    schema = {"type": "record", "name": name, "namespace": "a.b", "fields": []}
    fields = {}
    for i in range(draw(st.integers(0, 5))):
        inner = draw(shapes(depth - 1, names, True, known))
        schema["fields"].append({"name": f"f{i}", "type": inner.schema})
        fields[f"f{i}"] = inner.values
    values = st.fixed_dictionaries(fields)
    if draw(st.booleans()):  # a list through itself, up to three long
        schema["fields"].append({"name": "next", "type": ["null", f"a.b.{name}"]})
        plain = values
        end = st.just(Branch(0, None))
        chain = plain.flatmap(lambda v: end.map(lambda e: {**v, "next": e}))
        for _ in range(2):
            chain = st.one_of(
                chain,
                st.tuples(plain, chain).map(lambda pair: {**pair[0], "next": Branch(1, pair[1])}),
            )
        values = chain
    known.append(Shape(f"a.b.{name}", values))
    return Shape(schema, values)


@dataclass(frozen=True)
class Timed:
    """A schema with a time field somewhere.

    Attributes:
        path: dotted path of the time field.
        rows: strategy of (value, its time or None).
    """

    schema: Any
    path: str
    rows: st.SearchStrategy
    unit: str = "ms"


@st.composite
def timed(draw, numbers=None):
    """Records of random fields around a time field that may be nullable and nested."""
    names = Names()
    kind = draw(st.sampled_from(["long", "int", "logical", "iso"]))
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    schema: Any = kind
    if kind == "logical":
        unit, logical = draw(st.sampled_from([("ms", "local-timestamp-millis"), ("us", "local-timestamp-micros")]))
        schema = {"type": "long", "logicalType": logical}
    times = PRIMITIVES["int" if kind == "int" else "long"] if numbers is None else numbers
    if kind == "iso":
        schema = "string"
        times = st.one_of(
            st.datetimes().map(lambda t: t.isoformat()), st.datetimes().map(lambda t: t.isoformat() + "Z"), st.text()
        )
    rows = times.map(lambda t: (t, t if isinstance(t, str) else to_millis(t, unit)))
    path: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        known: list[Shape] = []
        if draw(st.booleans()):
            null_first = draw(st.booleans())
            schema = ["null", schema] if null_first else [schema, "null"]
            rows = st.one_of(
                st.just((Branch(0 if null_first else 1, None), None)),
                rows.map(lambda r, i=int(null_first): (Branch(i, r[0]), r[1])),
            )
        before = [draw(shapes(2, names, True, known)) for _ in range(draw(st.integers(0, 3)))]
        after = [draw(shapes(2, names, True, known)) for _ in range(draw(st.integers(0, 2)))]
        fields = [{"name": f"b{i}", "type": s.schema} for i, s in enumerate(before)]
        fields.append({"name": "t", "type": schema})
        fields += [{"name": f"a{i}", "type": s.schema} for i, s in enumerate(after)]
        schema = {"type": "record", "name": names.new(), "namespace": "a.b", "fields": fields}
        around = st.fixed_dictionaries(
            {f"b{i}": s.values for i, s in enumerate(before)} | {f"a{i}": s.values for i, s in enumerate(after)}
        )
        rows = st.tuples(around, rows).map(lambda p: ({**p[0], "t": p[1][0]}, p[1][1]))
        path.append("t")
    return Timed(schema, ".".join(path), rows, "iso" if kind == "iso" else unit)


def to_millis(number: int, unit: str) -> int:
    most = (2**63 - 1) // 1_000
    return max(-most, min(most, number)) * 1_000 if unit == "s" else number // {"ms": 1, "us": 1_000, "ns": 10**6}[unit]


def encode(schema: Any, value: Any, named: dict[str, Any] | None = None, blocks: Any = None) -> bytes:
    """Our own plain encoder; `blocks(n)` may cut collections into blocks and ask for their sizes.

    Args:
        blocks: called with a number of items, gives (items of each block, whether its size is written).
    """
    named = {} if named is None else named
    blocks = blocks or (lambda n: [(n, False)] if n else [])
    if isinstance(schema, list):
        return encode_long(value.index) + encode(schema[value.index], value.value, named, blocks)
    if isinstance(schema, str) and schema not in PRIMITIVES:
        schema = named[schema.rpartition(".")[2]]
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in ("record", "enum", "fixed"):
        named[schema["name"].rpartition(".")[2]] = schema
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return encode_long(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return encode_bytes(value)
        case "string":
            return encode_bytes(value.encode())
        case "fixed":
            return value
        case "enum":
            return encode_long(schema["symbols"].index(value))
        case "record":
            return b"".join(encode(f["type"], value[f["name"]], named, blocks) for f in schema["fields"])
        case _:
            return _collection(schema, value, named, blocks)


def _collection(schema, value, named, blocks):
    if schema["type"] == "map":
        items = [encode_bytes(k.encode()) + encode(schema["values"], v, named, blocks) for k, v in value.items()]
    else:
        items = [encode(schema["items"], v, named, blocks) for v in value]
    _learn(schema, named)
    out, at = [], 0
    for count, sized in blocks(len(items)):
        data = b"".join(items[at : at + count])
        at += count
        out.append(encode_long(-count) + encode_long(len(data)) if sized else encode_long(count))
        out.append(data)
    return b"".join((*out, b"\x00"))


def _learn(schema, named):
    """Named types inside a collection without items are defined all the same."""
    if isinstance(schema, list):
        for branch in schema:
            _learn(branch, named)
    elif isinstance(schema, dict):
        if schema["type"] in ("record", "enum", "fixed"):
            named[schema["name"].rpartition(".")[2]] = schema
        for field in schema.get("fields", []):
            _learn(field["type"], named)
        for key in ("items", "values"):
            if key in schema:
                _learn(schema[key], named)


def names_of(schema: Any) -> dict[str, Any]:
    named: dict[str, Any] = {}
    _learn(schema, named)
    return named


@st.composite
def cuts(draw):
    """A way to cut collections into blocks, for `encode`."""
    seed = draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=4))

    def blocks(count):
        out, i = [], 0
        while count:
            size, sized = seed[i % len(seed)]
            size = min(size, count)
            out.append((size, sized))
            count -= size
            i += 1
        return out

    return blocks


@st.composite
def damaged(draw, data: bytes):
    """The bytes with one to three faults: changed, cut, doubled, added."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["set", "cut", "insert", "drop", "double"]))
        at = draw(st.integers(0, len(out)))
        if kind == "set" and at < len(out):
            out[at] = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, draw(st.integers(0, 255))]))
        elif kind == "cut":
            del out[at:]
        elif kind == "insert":
            out[at:at] = draw(
                st.sampled_from(
                    [b"\xff" * 9 + b"\x01", b"\x80" * 12, b"\x80" * 6 + b"\x00", draw(st.binary(max_size=12))]
                )
            )
        elif kind == "drop":
            del out[at : at + draw(st.integers(1, 4))]
        else:
            out[at:at] = out[: draw(st.integers(0, 10))]
    return bytes(out)


class Judge:
    """What fastavro thinks of a datum."""

    def __init__(self, schema: Any) -> None:
        self.parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))

    def reads_whole(self, data: bytes) -> bool:
        stream = io.BytesIO(data)
        fastavro.schemaless_reader(stream, self.parsed)
        return stream.tell() == len(data)
