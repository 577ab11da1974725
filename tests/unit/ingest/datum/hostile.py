"""Schemas made to be hostile: a few lines of text that ask for 2^40 parts, or for parts without end."""


def record(name, *fields):
    """A record; a field is a name, a type and perhaps a default."""
    keys = ("name", "type", "default")
    return {"type": "record", "name": name, "fields": [dict(zip(keys, field, strict=False)) for field in fields]}


def doubling(*leaf, levels=40, wrap=lambda inner: inner, default=()):
    """Records R0 to R<levels>, each with the one before in two fields.

    Args:
        leaf: fields of R0.
        wrap: makes of a record the type of the fields that hold it.
        default: of those fields, in a tuple; empty for none.
    """
    schema = record("R0", *leaf)
    for level in range(1, levels + 1):
        twice = (("a", wrap(schema), *default), ("b", wrap(f"R{level - 1}"), *default))
        schema = record(f"R{level}", *twice)
    return schema


def nested(levels):
    """So many records in each other, each in a list of its own."""
    schema = record("N0", ("x", "long"))
    for level in range(1, levels):
        schema = record(f"N{level}", ("inner", schema))
    return schema


def chained(levels):
    """So many records in each other by name; the text itself is flat."""
    return [record("C0"), *(record(f"C{level}", ("inner", f"C{level - 1}")) for level in range(1, levels))]


def forking(levels, width):
    """A path a.a.a… with unions of so many records at each of its levels, each of which goes on to all of the next."""
    below = ["long"]
    for level in range(levels):
        names = [f"L{level}_{i}" for i in range(width)]
        below = [record(names[0], ("a", below)), *(record(name, ("a", _by_name(below))) for name in names[1:])]
    return record("Top", ("a", below))


def _by_name(types):
    return [kind if isinstance(kind, str) else kind["name"] for kind in types]


EMPTY = {
    "records of nulls": doubling(("x", "null")),
    "records without fields": doubling(),
    "fixed of no bytes": doubling(("x", {"type": "fixed", "name": "F", "size": 0})),
    "nulls with defaults": doubling(("x", "null", None), default=({},)),
    "within a union": record("T", ("u", ["null", doubling()])),
    "within an array": record("T", ("l", {"type": "array", "items": doubling(("x", "null"), levels=5)})),
}
"""Their shortest datums have no byte, and hold more values than memory."""

ENDLESS = {
    "itself": record("E", ("a", "E")),
    "by way of another": record("E", ("a", record("F", ("b", "E")))),
    "beside a union": record("E", ("u", ["null", "E"]), ("a", "E")),
    "within an array": {"type": "array", "items": record("E", ("a", "E"))},
}
"""No datum of them ends; a reader overflows its stack."""

DEFAULTS = {
    "numbers": doubling(("x", "int", 1), default=({},)),
    "texts": doubling(("x", "string", "abc"), default=({},)),
    "unions": doubling(("x", "int", 1), wrap=lambda inner: [inner, "null"], default=({},)),
    "later branches": doubling(("x", "int", 1), wrap=lambda inner: ["null", inner], default=({},)),
    "one long text": doubling(("x", "string", "abc" * 10_000), levels=3, default=({},)),
    "without end": record("E", ("a", ["E", "null"], {})),
}
"""Their defaults, spelled out, come to more than memory holds."""

DEEP = {"nested": nested(200), "chained": chained(5_000)}
"""Deeper than any reader goes."""
