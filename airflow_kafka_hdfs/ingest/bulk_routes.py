"""What becomes of whole batches of a topic: for each frame the cheapest way that gives what the reference would give.

same canonical form, or a file per writer schema      the datum as it is
more fields at the end of the file's schema           the datum, and their defaults behind it
anything else                                         decoded, resolved, encoded: told in log and metrics
bytes and text                                        their length, and the value as it is
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from airflow_kafka_hdfs.exceptions import DecodeError, UnusableSchemaError
from airflow_kafka_hdfs.ingest.choices import FileFormat, OnSchemaChange, RawFraming, ValueFormat
from airflow_kafka_hdfs.ingest.datum import packing
from airflow_kafka_hdfs.ingest.datum.ladder import Decision, Way, decide
from airflow_kafka_hdfs.ingest.datum.program import Program, compile_program
from airflow_kafka_hdfs.ingest.datum.schema import read_schema
from airflow_kafka_hdfs.ingest.datum.timing import holds_itself, time_doubt
from airflow_kafka_hdfs.ingest.decoding import frame_id
from airflow_kafka_hdfs.ingest.encoding import DatumEncoder, PlainEncoder
from airflow_kafka_hdfs.ingest.routes import ID_SIZES, Route
from airflow_kafka_hdfs.ingest.settings import TopicConfig
from airflow_kafka_hdfs.ingest.writer_schemas import FileSchema, WriterSchema

log = logging.getLogger(__name__)

_MOST_FRAMES = 256
"""Writer schemas of a topic that are kept at hand; more are looked up again."""


def why_not(config: TopicConfig) -> str:
    """Why batches of a topic can't be taken whole, empty if they can.

    Args:
        config: the pinned settings.
    """
    if config.converters or config.decoder is not None:
        return "converters and decoders see one value at a time"
    if config.partition_fields:
        return "partition_fields are read from decoded values"
    if config.value_format is ValueFormat.JSON:
        return "JSON values are parsed"
    if config.file_format is FileFormat.JSONL:
        return "jsonl files are made from decoded values"
    if config.file_format is FileFormat.RAW and not config.value_format.is_plain:
        return f"{config.value_format.value} values are decoded for their proof and go into raw files as they came"
    return ""


class BulkRoutes:
    """Ways of a topic's frames, learned as they are met.

    Args:
        route: the topic's reference way.

    Attributes:
        by_frame: what the packer is given.
        frame_size: bytes of a frame, 0 for values without one.
        null: datum of a null value, None where none is written.
        shape: makes of values what goes to the packer, and names those that can't go there; None for no change.
        careful: whether values of some schema may nest so deep that large ones are decoded.
        recoded: values decoded and encoded again since it was set to 0.
    """

    def __init__(self, route: Route) -> None:
        self.by_frame: dict[bytes, packing.Route | packing.Recode | packing.Refusal] = {}
        self.null: bytes | None = None
        self.shape: Callable[[Sequence[bytes | None]], tuple[list[bytes | None], list[int]]] | None = None
        self.careful = False
        self.recoded = 0
        self._route = route
        self._targets: dict[str, int] = {}
        self._schemas: list[FileSchema | None] = []
        self._variants: dict[bytes, FileSchema] = {}
        self._programs: dict[tuple[str, str], Program | None] = {}
        id_size = ID_SIZES.get(route.config.value_format)
        self.frame_size = 0 if id_size is None else 1 + id_size
        if not self.frame_size:
            self._learn_plain()

    def learn(self, frame: bytes) -> bool:
        """Find the way of a frame; False if its values are left to the reference, which finds out what is wrong.

        Raises:
            RegistryUnavailableError: transient.
        """
        route = self._route
        try:
            schema = route.book.of_id(frame_id(frame, self.frame_size - 1))
            found = self._avro(schema)
        except (DecodeError, UnusableSchemaError) as error:
            log.debug("topic %s: frame %s: %s", route.parts.topic, frame.hex(), error)
            return False
        if found is None:
            return False
        if len(self.by_frame) >= _MOST_FRAMES:
            self.by_frame.clear()
            self._variants.clear()
        self.by_frame[frame], self._variants[frame] = found
        return True

    def schema(self, target: int, first: bytes | None = None) -> FileSchema | None:
        """The schema of a kind of files.

        Args:
            target: number of the kind.
            first: the value that a file begins with: schemas that differ in documentation share files, and the header
                of each tells the one that it was opened with.
        """
        if first is not None:
            found = self._variants.get(first[: self.frame_size])
            if found is not None:
                return found
        return self._schemas[target]

    def _target(self, schema: FileSchema | None) -> int:
        key = "" if schema is None else schema.key
        if key not in self._targets:
            self._targets[key] = len(self._schemas)
            self._schemas.append(schema)
        return self._targets[key]

    def _learn_plain(self) -> None:
        """The one way of values without a frame."""
        route, config = self._route, self._route.config
        if route.fixed is not None:
            found = self._avro(route.fixed)
            if found is not None:
                self.by_frame[b""] = found[0]
            return
        text = config.value_format is ValueFormat.STRING
        if config.file_format is FileFormat.RAW:
            self.shape = _with_lengths if config.raw_framing is RawFraming.LENGTH else _with_line_ends
            by_length = config.raw_framing is RawFraming.LENGTH
            if text and by_length:
                self.shape = _texts_with_lengths
            utf8 = text and not by_length
            self.by_frame[b""] = packing.Route(program=None, target=self._target(None), utf8=utf8)
        elif isinstance(route.encoder, PlainEncoder):
            encoder = route.encoder
            self.null = encoder.null
            self.by_frame[b""] = packing.Route(
                program=None, target=self._target(encoder.file), lead=encoder.prefix, sized=True, utf8=text
            )

    def _avro(self, schema: WriterSchema) -> tuple[packing.Route | packing.Recode, FileSchema] | None:
        """The way of a writer schema, None for the reference. Raises DecodeError, UnusableSchemaError."""
        route = self._route
        if not isinstance(route.encoder, DatumEncoder):
            return None
        final = schema if route.reader is None else route.reader
        file = route.encoder.file_schema(final)
        if not self._is_allowed(file):
            return None
        decision = self._decision(schema, final)
        if final.proof is not None and (final.proof.decimals or decision.way is Way.RECODE):
            log.info("topic %s: values of schema %s are decoded, to prove them", route.parts.topic, schema.file.label)
            return None
        if decision.way is not Way.RECODE:
            seen = _first_fields(final.parsed, schema.parsed) if decision.way is Way.SPLICE else final.parsed
            program = self._known_program(schema, seen, final)
            if program is not None:
                return packing.Route(program=program, target=self._target(file), tail=decision.tail), file
            if route.reader is None or final.proof is not None:
                return None
            decision = Decision(way=Way.RECODE, reason="its time field is read from decoded values")
        log.warning(
            "topic %s: values of schema %s are decoded and encoded again: %s",
            route.parts.topic,
            schema.file.label,
            decision.reason,
        )
        return packing.Recode(call=self._recoding(schema, final), target=self._target(file)), file

    def _is_allowed(self, file: FileSchema) -> bool:
        """Whether `on_schema_change` lets files have this schema; the first one is noted by the reference."""
        if self._route.config.on_schema_change is not OnSchemaChange.FAIL:
            return True
        if not self.frame_size:
            self._route.only_key = file.key
        return self._route.only_key == file.key

    def _decision(self, schema: WriterSchema, final: WriterSchema) -> Decision:
        if schema.file.key == final.file.key:
            return Decision(way=Way.PASS)
        canonical = self._route.parts.codec.canonical
        return decide(canonical(schema.text), canonical(final.text), final.parsed)

    def _known_program(self, schema: WriterSchema, seen: Any, final: WriterSchema) -> Program | None:
        """As `_program`, found once: a frame that is left to the reference is asked for in each batch."""
        key = (schema.text, final.text)
        if key not in self._programs:
            if len(self._programs) >= _MOST_FRAMES:
                self._programs.clear()
            self._programs[key] = self._program(seen, final)
        return self._programs[key]

    def _program(self, parsed: Any, final: WriterSchema) -> Program | None:
        """Proof and time of datums; None where decoding might see another time.

        Args:
            parsed: schema of the datums, with the types that the decoded value has.
            final: schema that tells the unit.
        """
        route = self._route
        given = route.config.time_unit.value
        try:
            node = read_schema(parsed)
            program = compile_program(parsed, route.config.time_field, given)
        except UnusableSchemaError as error:
            log.info("topic %s: values of schema %s are decoded: %s", route.parts.topic, final.file.label, error)
            return None
        times = route.times_of(final)
        doubt = time_doubt(node, times.field, times.unit.value, given) if times.field else ""
        if doubt:
            name = ".".join(times.field)
            log.info(
                "topic %s: values of schema %s are decoded: %s: %s", route.parts.topic, final.file.label, name, doubt
            )
            return None
        self.careful = self.careful or holds_itself(node)
        return program

    def _recoding(self, schema: WriterSchema, final: WriterSchema) -> Callable[[bytes], tuple[bytes, int | None]]:
        codec, times = self._route.parts.codec, self._route.times_of(final)

        def recode(datum: bytes) -> tuple[bytes, int | None]:
            value = schema.decode(codec, datum, final)
            self.recoded += 1
            encoded = codec.encode(final.text, value, check=False)
            if not times.field:
                return encoded, None
            try:
                return encoded, times.of_field(value)
            except DecodeError:  # what to do without a time is the packer's to know
                return encoded, None

        return recode


def _first_fields(parsed: Any, writer: Any) -> Any:
    """The record that a datum holds before the fields that are spliced behind it, with the types of the file."""
    return {**parsed, "fields": parsed["fields"][: len(writer["fields"])]}


def _with_line_ends(values: Sequence[bytes | None]) -> tuple[list[bytes | None], list[int]]:
    """Each value with a line end; those that hold one are in doubt."""
    return (
        [None if value is None else value + b"\n" for value in values],
        [i for i, value in enumerate(values) if value is not None and b"\n" in value],
    )


def _with_lengths(values: Sequence[bytes | None]) -> tuple[list[bytes | None], list[int]]:
    """Each value behind its length in four bytes, big-endian."""
    return [None if value is None else len(value).to_bytes(4, "big") + value for value in values], []


def _texts_with_lengths(values: Sequence[bytes | None]) -> tuple[list[bytes | None], list[int]]:
    """As `_with_lengths`; what is not UTF-8 is in doubt."""
    return _with_lengths(values)[0], [i for i, value in enumerate(values) if value is not None and not _is_utf8(value)]


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
