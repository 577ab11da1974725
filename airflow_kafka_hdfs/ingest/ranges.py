"""Sets of offsets as sorted, disjoint, half-open ranges: the arithmetic of coverage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ranges:
    """An immutable set of offsets, kept as the fewest ranges `[low, high)` in ascending order.

    Build it with `Ranges.of`, which takes ranges in any order, overlapping, touching or empty.
    """

    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Iterable[int]]) -> Ranges:
        """The union of ranges.

        Args:
            spans: pairs (low, high); `low >= high` is the empty range.

        Raises:
            ValueError: an item is not a pair of whole numbers.
        """
        pairs: list[Span] = []
        for span in spans:
            low, high = span
            if not isinstance(low, int) or not isinstance(high, int):
                raise ValueError(f"a range of offsets is a pair of whole numbers, got {span!r}")
            if low < high:
                pairs.append((low, high))
        pairs.sort()
        merged: list[Span] = []
        for low, high in pairs:
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def span(cls, low: int, high: int) -> Ranges:
        """The single range `[low, high)`, empty if `low >= high`."""
        return cls(((low, high),)) if low < high else _NOTHING

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def __len__(self) -> int:
        """Number of offsets in the set."""
        return sum(high - low for low, high in self.spans)

    def __or__(self, other: Ranges) -> Ranges:
        if not other.spans or self is other:
            return self
        if not self.spans:
            return other
        if other.spans[0][0] > self.spans[-1][1]:  # what comes next, the usual case
            return Ranges(self.spans + other.spans)
        return Ranges.of((*self.spans, *other.spans))

    def __and__(self, other: Ranges) -> Ranges:
        if not self.spans or not other.spans:
            return _NOTHING
        result: list[Span] = []
        left, right = list(self.spans), list(other.spans)
        i = j = 0
        while i < len(left) and j < len(right):
            low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
            if low < high:
                result.append((low, high))
            if left[i][1] <= right[j][1]:
                i += 1
            else:
                j += 1
        return Ranges(tuple(result))

    def __sub__(self, other: Ranges) -> Ranges:
        if not self.spans or not other.spans:
            return self
        result: list[Span] = []
        holes = other.spans
        j = 0
        for low, high in self.spans:
            while j < len(holes) and holes[j][1] <= low:
                j += 1
            k = j
            while k < len(holes) and holes[k][0] < high:
                if low < holes[k][0]:
                    result.append((low, holes[k][0]))
                low = max(low, holes[k][1])
                k += 1
            if low < high:
                result.append((low, high))
        return Ranges(tuple(result))

    def from_on(self, offset: int) -> Ranges:
        """The part at or above an offset."""
        return Ranges(tuple((max(low, offset), high) for low, high in self.spans if high > offset))

    def below(self, offset: int) -> Ranges:
        """The part below an offset."""
        return Ranges(tuple((low, min(high, offset)) for low, high in self.spans if low < offset))

    def first_missing(self, start: int) -> int:
        """The least offset at or above `start` that is not in the set."""
        for low, high in self.spans:
            if low <= start < high:
                return high
            if low > start:
                break
        return start

    @property
    def end(self) -> int | None:
        """One past the greatest offset, None for the empty set."""
        return self.spans[-1][1] if self.spans else None

    def to_json(self) -> list[list[int]]:
        """As a list of `[low, high]`."""
        return [[low, high] for low, high in self.spans]

    def __str__(self) -> str:
        return ", ".join(f"[{low}, {high})" for low, high in self.spans) or "nothing"


def total(parts: Iterable[Ranges]) -> Ranges:
    """The union of many sets."""
    union = _NOTHING
    for part in parts:
        union |= part
    return union


_NOTHING = Ranges()
