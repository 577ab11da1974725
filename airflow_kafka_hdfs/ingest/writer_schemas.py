"""Avro schemas of records and of files: which may share a file, which can be read, and how.

A writer schema comes from the registry by the id in a record, or from the settings. Its text goes into the header of
the files as it came. Two schemas share a file if they differ in nothing but documentation.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.exceptions import DecodeError, UnknownSchemaError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.choices import TimeUnit
from airflow_kafka_hdfs.ingest.datum.program import Program, compile_program
from airflow_kafka_hdfs.ingest.datum.reference import walk
from airflow_kafka_hdfs.ingest.datum.schema import read_schema
from airflow_kafka_hdfs.ingest.datum.timing import has_empty_items
from airflow_kafka_hdfs.ingest.reasons import BadReason
from airflow_kafka_hdfs.ingest.tables import TableProof
from airflow_kafka_hdfs.ports.schemas import AvroCodec, SchemaRegistry

_KNOWN_IDS = 1_000

_TIMESTAMPS = {
    "timestamp-millis": TimeUnit.MILLIS,
    "timestamp-micros": TimeUnit.MICROS,
    "timestamp-nanos": TimeUnit.NANOS,
    "local-timestamp-millis": TimeUnit.MILLIS,
    "local-timestamp-micros": TimeUnit.MICROS,
    "local-timestamp-nanos": TimeUnit.NANOS,
    "date": TimeUnit.DAYS,
}


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The schema of an Avro file.

    Attributes:
        text: JSON, as it stands in the header.
        label: registry id, or fingerprint of the text, for file entries.
        key: equal for schemas that may share a file.
    """

    text: str = field(repr=False)
    label: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, text: str, parsed: Any, label: str | None = None) -> FileSchema:
        """From JSON text and its plain values; without a label its fingerprint."""
        return cls(text, fingerprint(text) if label is None else label, schema_key(parsed))


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """The schema that datums were written with.

    Attributes:
        file: as the schema of a file.
        parsed: plain JSON values.
        time_unit: unit that a timestamp type of the time field tells, None where it tells none.
        proof: proves values for columns; None where files have none.
        guard: walks datums before they are decoded, where broken ones could take all memory; else None.
    """

    file: FileSchema
    parsed: Any = field(repr=False)
    time_unit: TimeUnit | None
    proof: TableProof | None = field(default=None, repr=False)
    guard: Program | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """JSON text, as it came."""
        return self.file.text

    def decode(self, codec: AvroCodec, datum: bytes, reader: WriterSchema | None = None) -> Any:
        """Decode a datum.

        Args:
            codec: decodes it.
            datum: its bytes.
            reader: schema to which it is resolved.

        Raises:
            DecodeError: `truncated`, `trailing_bytes`, `corrupt`, `unresolvable`.
        """
        if self.guard is not None:
            walk(self.guard, datum)
        return codec.decode(self.text, datum, None if reader is None else reader.text)


def fingerprint(text: str) -> str:
    """16 hex digits of the SHA-256 of a schema's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def schema_key(parsed: Any) -> str:
    """A text that is equal for schemas that differ in documentation alone."""
    return json.dumps(_without_docs(parsed), sort_keys=True)


def _without_docs(schema: Any) -> Any:
    """A schema without documentation; default values are data and stay."""
    if isinstance(schema, list):
        return [_without_docs(item) for item in schema]
    if isinstance(schema, Mapping):
        return {
            key: value if key == "default" else _without_docs(value) for key, value in schema.items() if key != "doc"
        }
    return schema


def is_record_like(parsed: Any) -> bool:
    """Whether files of the schema are tables: a record, or a union of records and null with at least one record."""
    if isinstance(parsed, list):
        branches = [branch for branch in parsed if branch != "null"]
        return bool(branches) and all(is_record_like(branch) for branch in branches)
    if not isinstance(parsed, Mapping):
        return False
    kind = parsed.get("type")
    return is_record_like(kind) if isinstance(kind, Mapping) else kind in ("record", "error")


def types_at(parsed: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Types that stand at a dotted path, through records and unions.

    Args:
        parsed: a valid schema as plain JSON values.
        path: names of fields.
    """
    yield from _types_at(parsed, path, _named(parsed, {}), set())


def _types_at(
    schema: Any, path: tuple[str, ...], named: Mapping[str, Any], seen: set[tuple[int, int]]
) -> Iterator[Any]:
    """See `types_at`; no type is looked at twice for one rest of the path, in however many unions it stands."""
    if isinstance(schema, str):
        schema = named.get(schema, schema)
    place = (id(schema), len(path))
    if isinstance(schema, list | Mapping) and place in seen:
        return
    seen.add(place)
    if isinstance(schema, list):
        for branch in schema:
            yield from _types_at(branch, path, named, seen)
    elif not path:
        yield schema
    elif isinstance(schema, Mapping):
        if isinstance(schema.get("type"), Mapping | list):
            yield from _types_at(schema["type"], path, named, seen)
        for entry in schema.get("fields", ()):
            if entry["name"] == path[0]:
                yield from _types_at(entry["type"], path[1:], named, seen)


def _named(schema: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Records by simple and full name, as far as they are needed to follow a path."""
    if isinstance(schema, list):
        for branch in schema:
            _named(branch, found)
    elif isinstance(schema, Mapping):
        if "fields" in schema:
            name = str(schema.get("name"))
            found.setdefault(name, schema)
            found.setdefault(f"{schema.get('namespace', '')}.{name}", schema)
        for entry in schema.get("fields", ()):
            _named(entry.get("type"), found)
        for key in ("type", "items", "values"):
            _named(schema.get(key), found)
    return found


def _guard(parsed: Any) -> Program | None:
    """See `WriterSchema.guard`; a schema that is too deep or long for it has none."""
    try:
        return compile_program(parsed) if has_empty_items(read_schema(parsed)) else None
    except UnusableSchemaError:
        return None


class SchemaBook:
    """Writer schemas of one topic, each looked at once.

    Args:
        codec: parses them.
        registry: None where no value carries an id.
        time_field: dotted path whose type may tell a unit.
        tables_only: refuse schemas that are no record, as files of tables need.
        columns: refuse those of files that files of columns have no place for, too.
        ids_in_files: whether schemas that records name are those of files; they are not where values are resolved or
            converted to another one.
    """

    def __init__(
        self,
        codec: AvroCodec,
        registry: SchemaRegistry | None = None,
        *,
        time_field: tuple[str, ...] = (),
        tables_only: bool = True,
        columns: bool = False,
        ids_in_files: bool = True,
    ) -> None:
        self._codec = codec
        self._registry = registry
        self._time_field = time_field
        self._tables_only = tables_only
        self._columns = columns
        self._ids_in_files = ids_in_files
        self._by_id: dict[int | str, WriterSchema | DecodeError] = {}

    def of_text(self, text: str, label: str | None = None, *, in_files: bool = True) -> WriterSchema:
        """The facts of a schema.

        Args:
            text: JSON.
            label: for file entries.
            in_files: whether files have it.

        Raises:
            UnusableSchemaError: it can't be parsed, is no record, or has no place in columns.
        """
        parsed = self._codec.parse(text)
        if self._tables_only and not is_record_like(parsed):
            text = json.dumps(parsed)
            raise UnusableSchemaError(f"the schema is no record, so files of it would be no table: {text:.200}")
        types = [] if not self._time_field else list(types_at(parsed, self._time_field))
        logical = {str(item.get("logicalType")) for item in types if isinstance(item, Mapping)}
        units = {_TIMESTAMPS[name] for name in logical if name in _TIMESTAMPS}
        unit = units.pop() if len(units) == 1 else None
        proof = TableProof(parsed) if self._columns and in_files else None
        return WriterSchema(FileSchema.of(text, parsed, label), parsed, unit, proof, _guard(parsed))

    def of_id(self, schema_id: int | str) -> WriterSchema:
        """The schema that a record names.

        Raises:
            DecodeError: `unknown_schema` if the registry answered that it does not know the id, `unusable_schema` if
                what it knows is no Avro schema or no record. Either answer holds for the rest of the task.
            RegistryUnavailableError: the registry did not answer; no reason to call a record bad.
        """
        found = self._by_id.get(schema_id)
        if found is None:
            if len(self._by_id) >= _KNOWN_IDS:  # a topic of garbage names another id in every record
                self._by_id = {known: item for known, item in self._by_id.items() if isinstance(item, WriterSchema)}
            found = self._by_id[schema_id] = self._looked_up(schema_id)
        if isinstance(found, DecodeError):
            raise DecodeError(found.reason, found.detail)
        return found

    def _looked_up(self, schema_id: int | str) -> WriterSchema | DecodeError:
        if self._registry is None:
            raise UnusableSchemaError(f"schema id {schema_id}: there is no registry to ask")
        try:
            return self.of_text(self._registry.by_id(schema_id), str(schema_id), in_files=self._ids_in_files)
        except UnknownSchemaError as error:
            return DecodeError(BadReason.UNKNOWN_SCHEMA, f"schema id {schema_id}: {error}")
        except UnusableSchemaError as error:
            return DecodeError(BadReason.UNUSABLE_SCHEMA, f"schema id {schema_id}: {error}")
