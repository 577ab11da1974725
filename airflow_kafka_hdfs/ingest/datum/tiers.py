"""The tiers of the fast path, from the plainest to the fastest, and the choice among them.

`compiled` is there if the package was installed with a C compiler at hand or from a wheel; without it, `numpy` does
the work. `direct` is the same packing of values that stay in the Kafka client's memory; it wants a reader of its own,
and whoever opens that reader tells whether it can be had. `reference` is for tests, and for an attempt after the other
tiers died without a word.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from airflow_kafka_hdfs.exceptions import ConfigError, DecodeError
from airflow_kafka_hdfs.ingest.datum import packing, rows
from airflow_kafka_hdfs.ingest.datum.packing import (
    Bad,
    Batch,
    Group,
    Outcome,
    Packer,
    Recode,
    Refusal,
    Route,
    Span,
    Tier,
)
from airflow_kafka_hdfs.ports.kafka import ClientValues, is_of_one

log = logging.getLogger(__name__)

AUTO = "auto"
DIRECT = "direct"
NAMES = (DIRECT, "compiled", "numpy", "reference")
"""Fastest first."""

_BATCHES = {DIRECT: 4_000, "compiled": 500}
"""Values per batch: what is no object costs nothing to keep, and fewer batches mean less work around them."""
_NO_READER = "nothing here reads the Kafka client's memory"

_MODULE = "airflow_kafka_hdfs.ingest.datum._packer"


@dataclass(frozen=True, slots=True)
class PythonTier:
    """Packs in Python; see `rows`."""

    name: str
    batch_size: int
    scan: rows.Scan

    def pack(self, packer: Packer, batch: Batch) -> Outcome:
        """See `Tier.pack`."""
        return rows.pack(packer, batch, self.scan)

    def spans(self, outcome: Outcome, partitions: Sequence[int], offsets: Sequence[int]) -> list[dict[int, Span]]:
        """See `Tier.spans`."""
        return packing.spans(outcome, partitions, offsets)


REFERENCE = PythonTier("reference", 500, rows.reference_scan)
NUMPY = PythonTier("numpy", 2_000, rows.numpy_scan)


@dataclass(frozen=True, slots=True)
class CompiledTier:
    """Packs in C. What C does not take (frames to be looked up, decoded or refused first) goes to numpy."""

    module: ModuleType
    name: str
    batch_size: int

    def pack(self, packer: Packer, batch: Batch) -> Outcome:
        """See `Tier.pack`."""
        places = _Places(packer)
        times = None if batch.times is None else np.ascontiguousarray(batch.times, np.int64)
        values = batch.values
        result = self.module.pack(
            values.slices() if isinstance(values, ClientValues) else tuple(values),
            tuple(_plain(frame, route) for frame, route in packer.routes.items() if not isinstance(route, Recode)),
            packer.frame_size,
            times,
            batch.fallback,
            packer.text_time,
            DecodeError,
            None if batch.tails is None else tuple(batch.tails),
            *packer.bounds,
            places.place,
        )
        if result is None:
            return _by_numpy(packer, batch)
        slots, found, groups, left_over, nulls = result
        if nulls and packer.null is not None:
            return _by_numpy(packer, batch)
        bad: tuple[Bad, ...] = ()
        if left_over:
            judged = _judge(packer, batch, left_over)
            if judged is None:
                return _by_numpy(packer, batch)
            bad = judged
        return Outcome(
            groups=[
                Group(target=target, key=key, count=count, size=size, least=least, greatest=greatest, chunks=chunks)
                for (target, key), (count, size, least, greatest, chunks) in zip(places.keys, groups, strict=True)
            ],
            slots=np.frombuffer(slots, np.int32),
            times=np.frombuffer(found, np.int64),
            bad=bad,
            nulls=nulls,
        )

    def spans(self, outcome: Outcome, partitions: Sequence[int], offsets: Sequence[int]) -> list[dict[int, Span]]:
        """See `Tier.spans`."""
        groups = outcome.groups
        if len(groups) == 1 and groups[0].count == len(partitions) == len(offsets) and is_of_one(partitions):
            group = groups[0]
            return [{partitions[0]: Span(offsets[0], offsets[-1], group.count, group.least, group.greatest)}]
        found: list[dict[int, Span]] = [{} for _ in groups]
        columns = (
            column if isinstance(column, (memoryview, list)) else list(column) for column in (partitions, offsets)
        )
        for slot, partition, *span in self.module.spans(outcome.slots, outcome.times, *columns):
            found[slot][partition] = Span(*span)
        return found


class _Places:
    """Numbers places in the order in which they are first met."""

    def __init__(self, packer: Packer) -> None:
        self._packer = packer
        self.keys: dict[tuple[int, Hashable], int] = {}
        self._rooms: list[tuple[int, int]] = []

    def place(self, target: int, time: int) -> tuple[int, int, int, int, int]:
        place = self._packer.locate(time)
        slot = self.keys.setdefault((target, place.key), len(self.keys))
        if slot == len(self._rooms):
            self._rooms.append(self._packer.room(target, place.key))
        return max(place.start, -(2**63)), min(place.end, 2**63 - 1), slot, *self._rooms[slot]


def _plain(
    frame: bytes, route: Route | Refusal
) -> tuple[bytes, bytes | None, bool, bytes, bytes, bool, bool, bool, int]:
    if isinstance(route, Refusal):
        return frame, None, False, b"", b"", False, False, True, 0
    program = route.program
    code, has_time = (None, False) if program is None else (program.packed, program.has_time)
    return frame, code, has_time, route.lead, route.tail, route.sized, route.utf8, False, route.target


def _by_numpy(packer: Packer, batch: Batch) -> Outcome:
    """Pack with numpy, which looks at every value many times."""
    return NUMPY.pack(packer, replace(batch, values=list(batch.values)))


def _judge(packer: Packer, batch: Batch, left_over: list[int]) -> tuple[Bad, ...] | None:
    """Reasons of rows that C left over; None if the reference finds one of them good after all."""
    fallback = batch.fallback
    part = Batch(
        values=[batch.values[i] for i in left_over],
        times=None if batch.times is None else [batch.times[i] for i in left_over],
        fallback=None if fallback is None else lambda j: fallback(left_over[j]),
    )
    outcome = REFERENCE.pack(packer, part)
    if outcome.packed:
        return None
    return tuple(Bad(index=left_over[bad.index], reason=bad.reason, detail=bad.detail) for bad in outcome.bad)


@dataclass(frozen=True, slots=True)
class TierInfo:
    """One tier as `airflow kafka-hdfs info` lists it.

    Attributes:
        detail: where it comes from, or why it is not there.
    """

    name: str
    available: bool
    detail: str


def list_tiers(direct_fault: str = _NO_READER) -> list[TierInfo]:
    """All tiers, fastest first.

    Args:
        direct_fault: why the Kafka client's memory can't be read, empty if it can.
    """
    try:
        detail, available = f"extension {_load().__file__}", True
    except ImportError as error:
        detail, available = f"not built: {error}", False
    direct_fault = direct_fault if available else detail
    return [
        TierInfo(DIRECT, not direct_fault, direct_fault or "values stay in the Kafka client's memory"),
        TierInfo("compiled", available, detail),
        TierInfo("numpy", True, f"numpy {np.__version__}"),
        TierInfo("reference", True, "record by record, each value decoded"),
    ]


def choose(name: str = AUTO, *, below: str | None = None) -> Tier:
    """A tier.

    Args:
        name: `auto` for the fastest one that is there and needs no reader of its own, or one of `NAMES` to have that
            one and no other.
        below: with `auto`, only tiers that are plainer than this one (after an attempt died in it).

    Raises:
        ConfigError: no such tier, or it is asked for by name and not built.
    """
    if name not in (AUTO, *NAMES):
        raise ConfigError("tier", name, (AUTO, *NAMES))
    wanted = list(NAMES[1:]) if name == AUTO else [name]
    if name == AUTO and below is not None:
        wanted = list(NAMES[NAMES.index(below) + 1 :]) or ["reference"]
    if wanted[0] in (DIRECT, "compiled"):
        try:
            return CompiledTier(_load(), wanted[0], _BATCHES[wanted[0]])
        except ImportError as error:
            if name != AUTO:
                hint = f"the extension is not built ({error}); install with a C compiler at hand, or from a wheel"
                raise ConfigError("tier", name, "auto, numpy, reference", hint) from error
            wanted = wanted[1:]
    return NUMPY if wanted[0] == "numpy" else REFERENCE


def pick(allowed: str, *, below: str = "", direct_fault: Callable[[], str] = lambda: _NO_READER) -> Tier | None:
    """The tier of a task by `[kafka_hdfs] tiers`.

    Args:
        allowed: names with commas between them; the fastest one that is there is taken. A single name is an order.
        below: the tier in which an attempt before this one died without a word; only plainer ones are taken then.
        direct_fault: tells for the connection at hand what `list_tiers` wants to know; asked where it matters.

    Returns:
        None for `reference`: record by record, each value decoded.

    Raises:
        ConfigError: an unknown name or none at all, or the only one named is not there.
    """
    names = [name.strip() for name in allowed.split(",") if name.strip()]
    if not names or not set(names) <= set(NAMES):
        raise ConfigError("[kafka_hdfs] tiers", allowed, f"one or more of {', '.join(NAMES)}")
    plainer = NAMES[NAMES.index(below) + 1 :] if below in NAMES else NAMES
    wanted = [name for name in NAMES if name in names and name in plainer and name != "reference"]
    there = {tier.name: tier for tier in list_tiers(direct_fault() if DIRECT in wanted else _NO_READER)}
    for name in wanted:
        if there[name].available:
            return choose(name)
        if len(set(names)) == 1:
            raise ConfigError("[kafka_hdfs] tiers", allowed, "a tier that is there", f"{name}: {there[name].detail}")
        log.info("tier %s is off: %s", name, there[name].detail)
    return None


def _load() -> ModuleType:
    return importlib.import_module(_MODULE)
