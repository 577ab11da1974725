"""Compiled tier of the fast path; optional, see `tiers`."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

def pack(
    values: tuple[bytes | None, ...] | object,
    routes: tuple[tuple[bytes, bytes | None, bool, bytes, bytes, bool, bool, bool, int], ...],
    frame_size: int,
    times: NDArray[np.int64] | None,
    fallback: Callable[[int], int] | None,
    text_time: Callable[[str], int],
    decode_error: type[Exception],
    tails: tuple[bytes, ...] | None,
    low: int,
    high: int,
    place: Callable[[int, int], tuple[int, int, int, int, int]],
    /,
) -> tuple[bytes, bytes, list[tuple[int, int, int, int, list[tuple[bytes, int]]]], list[int], list[int]] | None:
    """Pack a batch; None if a frame has no route."""

def spans(
    slots: NDArray[np.int32],
    times: NDArray[np.int64],
    partitions: list[int] | memoryview,
    offsets: list[int] | memoryview,
    /,
) -> list[tuple[int, int, int, int, int, int, int]]:
    """(slot, partition, first, last, count, least, greatest) of each group and Kafka partition."""
