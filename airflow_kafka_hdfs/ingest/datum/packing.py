"""One step of the fast path: a batch of Kafka values becomes chunks of Avro datums, one list of chunks per file.

The step strips the frame, proves each datum whole, reads its time, finds its place, and lays datums of one place end
to end, cut where blocks end. It writes nothing: the caller hands each group's chunks to that group's file. Which tier
does the step (`tiers`) is not visible in what comes out.

    outcome = tier.pack(packer, Batch(values=…))
    if outcome.foreign:                       # frames seen for the first time: nothing was packed
        for frame in outcome.foreign: packer.routes[frame] = …look up the schema, decide…
        outcome = tier.pack(packer, …)        # the same batch again
    for group in outcome.groups:
        for chunk, count in group.chunks: files[group.target, group.key].append(chunk, count)
    for bad in outcome.bad: …quarantine values[bad.index]…
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from airflow_kafka_hdfs.exceptions import DecodeError
from airflow_kafka_hdfs.ingest.datum.container import Chunk
from airflow_kafka_hdfs.ingest.datum.program import Program

BAD_TIME = "bad_time"
FRAME = "frame"
MAGIC = b"\x00"

BATCH_BYTES = 4 << 20
LEAST_BATCH = 100
"""Larger batches hold more memory, smaller ones pay for calls; see `batch_size`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What becomes of the values under one frame whose datum is copied as it is.

    Attributes:
        program: proves the datum and finds its time; None for values of any content.
        target: the caller's number of the kind of file; groups of different targets never mix.
        lead: bytes put before the datum (the branch of a union).
        sized: whether the datum's length is put before it (a value that becomes `bytes` or `string`).
        tail: bytes put behind it (fields that the target schema adds, encoded).
        utf8: whether the value must be UTF-8 (a value that becomes `string`).
    """

    program: Program | None
    target: int = 0
    lead: bytes = b""
    sized: bool = False
    tail: bytes = b""
    utf8: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recode:
    """Values under one frame that have to be decoded and encoded again.

    Attributes:
        call: takes the bytes behind the frame, returns the datum for the file and its time in milliseconds (None if
            it is absent); raises DecodeError.
        target: as in `Route`.
    """

    call: Callable[[bytes], tuple[bytes, int | None]]
    target: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Values under a frame that nobody can read (the registry knows no such schema): every one is bad."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a time belongs.

    Attributes:
        start, end: milliseconds of a half-open interval around the time, all of which belongs to `key`; several
            intervals may have one key.
        key: the time folder, or whatever else tells files apart.
    """

    start: int
    end: int
    key: Hashable


Locate = Callable[[int], Place]
"""From milliseconds to the place around them. Called once per interval and batch, so it may be slow."""

Room = Callable[[int, Hashable], tuple[int, int]]
"""From (target, key) to (bytes in the open block, bytes that complete a block); called once per group and batch."""


@dataclass(frozen=True, slots=True)
class FixedPlaces:
    """Places of equal width, such as hours of UTC.

    Args:
        width: milliseconds.
        offset: milliseconds by which their beginnings are away from multiples of `width`.
    """

    width: int
    offset: int = 0

    def __call__(self, time: int) -> Place:
        """The place of a time; its key is its first millisecond."""
        start = time - (time - self.offset) % self.width
        return Place(start, start + self.width, start)


def _no_text(text: str) -> int:
    raise DecodeError(BAD_TIME, f"the time is the text {text[:60]!r}, and nobody said how to read it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packer:
    """Everything about packing that stays the same from batch to batch.

    Attributes:
        routes: by frame, the first `frame_size` bytes of a value; grows as new frames are met.
        frame_size: 0 for values without a frame; otherwise frames start with a zero byte.
        locate, room: see there.
        bounds: first time believed and first time not believed any more, in milliseconds.
        text_time: milliseconds of a text; raises DecodeError.
        null: the datum that is written for a null value, None if null values are given back.
    """

    routes: MutableMapping[bytes, Route | Recode | Refusal]
    locate: Locate
    room: Room
    bounds: tuple[int, int]
    frame_size: int = 0
    text_time: Callable[[str], int] = _no_text
    null: bytes | None = None
    null_target: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Values to be packed.

    Attributes:
        values: None for a null value.
        times: milliseconds of each value, needed where a route's program finds no time (Kafka's timestamps).
        fallback: time of the value at an index, asked where the value's own is absent or out of bounds; None to
            call such values bad.
        tails: bytes put behind each datum (encoded Kafka metadata), after the route's `tail`.
    """

    values: Sequence[bytes | None]
    times: Sequence[int] | None = None
    fallback: Callable[[int], int] | None = None
    tails: Sequence[bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Datums of a batch that go into one file.

    Attributes:
        count: datums.
        size: bytes, what was put around them included.
        least, greatest: of their times, milliseconds.
        chunks: in the order of the batch, cut as `BlockBuilder.add` wants it.
    """

    target: int
    key: Hashable
    count: int
    size: int
    least: int
    greatest: int
    chunks: Sequence[Chunk]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A value that can't be packed.

    Attributes:
        reason: `frame`, `truncated`, `trailing_bytes`, `corrupt`, `bad_time`, or that of a refusal or recoding.
    """

    index: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a batch: every value is in one group, or bad, or null; or `foreign` is set and nothing was done.

    Attributes:
        groups: in the order in which their places were first met.
        slots: per value the index of its group, -1 for bad and null ones.
        times: per value in a group its time, ms; of no meaning for the others.
        bad: in the order of the batch.
        nulls: indices of null values.
        foreign: frames without a route.
    """

    groups: Sequence[Group] = ()
    slots: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    times: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    bad: Sequence[Bad] = ()
    nulls: Sequence[int] = ()
    foreign: frozenset[bytes] = frozenset()

    @property
    def packed(self) -> int:
        """Values that are in a group."""
        return sum(group.count for group in self.groups)


class Tier(Protocol):
    """A way to pack.

    Attributes:
        name: `reference`, `numpy`, `compiled`, `direct`.
        batch_size: values per batch with which it is fastest, as long as they are small; see `batch_size`.
    """

    @property
    def name(self) -> str:
        """See above."""

    @property
    def batch_size(self) -> int:
        """See above."""

    def pack(self, packer: Packer, batch: Batch) -> Outcome:
        """Pack one batch. The outcome is the same in every tier, byte for byte."""

    def spans(self, outcome: Outcome, partitions: Sequence[int], offsets: Sequence[int]) -> list[dict[int, Span]]:
        """What each group holds of each Kafka partition.

        Args:
            outcome: of a batch.
            partitions: Kafka partition of each value.
            offsets: offset of each value, ascending within a partition.

        Returns:
            One mapping per group.
        """


def batch_size(tier: Tier, mean_bytes: float) -> int:
    """How many values to ask for at once.

    Args:
        tier: the tier that will pack them.
        mean_bytes: mean size of the values so far, 0 if none is known.
    """
    if mean_bytes <= 0:
        return tier.batch_size
    return max(LEAST_BATCH, min(tier.batch_size, int(BATCH_BYTES / mean_bytes)))


class Span(NamedTuple):
    """One Kafka partition in a group: first and last offset, how many, least and greatest time in ms."""

    first: int
    last: int
    records: int
    least: int
    greatest: int


def spans(outcome: Outcome, partitions: Sequence[int], offsets: Sequence[int]) -> list[dict[int, Span]]:
    """See `Tier.spans`."""
    if not len(outcome.slots) == len(partitions) == len(offsets):
        raise ValueError(f"{len(outcome.slots)} slots, {len(partitions)} partitions, {len(offsets)} offsets")
    if len(outcome.groups) == 1 and outcome.groups[0].count == len(partitions):
        return [_spans_of(partitions, offsets, outcome.times)]
    found: list[dict[int, Span]] = []
    for slot in range(len(outcome.groups)):
        at = np.flatnonzero(outcome.slots == slot)
        mine = at.tolist()
        found.append(_spans_of([partitions[i] for i in mine], [offsets[i] for i in mine], outcome.times[at]))
    return found


def _spans_of(partitions: Sequence[int], offsets: Sequence[int], times: NDArray[np.int64]) -> dict[int, Span]:
    numbers = np.asarray(partitions, np.int64)
    found = {}
    for partition in dict.fromkeys(partitions):
        mine = np.flatnonzero(numbers == partition)
        moments = times[mine]
        first, last = offsets[int(mine[0])], offsets[int(mine[-1])]
        found[partition] = Span(first, last, len(mine), int(moments.min()), int(moments.max()))
    return found
