"""Time folders: from an instant to a path such as `2026/01/31/09`, and from a folder back to its first moment.

Patterns are written with Java's letters. `y`, `Y` and `u` all mean the calendar year and `d` and `D` the day of the
month: that is what users of Joda patterns (Gobblin, Kafka Connect, Camus) mean by `YYYY/MM/dd`, while java.time reads
`YYYY` as the week-year and puts the last days of December into the next year's folder. Letters that could only be
misread are refused. A pattern names every unit from the year down to its finest one, so that a folder is one stretch of
time and has a first moment: the key under which the folder is announced.
"""

from __future__ import annotations

import difflib
import functools
import re
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from airflow_kafka_hdfs.exceptions import ConfigError, DecodeError
from airflow_kafka_hdfs.ingest.choices import Granularity

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CACHED_FOLDERS = 10_000
_CACHED_PATTERNS = 100
"""Remembered pieces of time; a backlog of a year in quarter hours would be 35,000."""

_LONGEST_RUN = 96

_UNITS = ("year", "month", "day", "hour", "minute")
_GRANULARITIES = (
    Granularity.YEARLY,
    Granularity.MONTHLY,
    Granularity.DAILY,
    Granularity.HOURLY,
    Granularity.MINUTELY,
)
_LETTERS = {"y": 0, "Y": 0, "u": 0, "M": 1, "d": 2, "D": 2, "H": 3, "m": 4}
_WIDTHS = {0: (1, 4), 1: (1, 2), 2: (1, 2), 3: (1, 2), 4: (1, 2)}
_ALLOWED = (
    "letters yyyy (also YYYY, uuuu), MM, dd (also DD), HH, mm, one of each from the year down to the finest; "
    "other letters in single quotes, like 'year='yyyy/'month='MM"
)
_REASONS = {
    "w": "weeks of a year do not nest in months and years",
    "W": "weeks of a month do not nest in days of a year",
    "x": "it is the week-year (Joda) or a zone offset (Java)",
    "X": "zone offsets change within a folder tree",
    "e": "days of the week do not tell a date",
    "E": "days of the week do not tell a date",
    "F": "days of the week do not tell a date",
    "h": "hours of a half day fold morning and evening together; use HH",
    "K": "hours of a half day fold morning and evening together; use HH",
    "k": "hours from 1 to 24 are easily misread; use HH",
    "a": "halves of a day need hours of a half day; use HH",
    "s": "folders by second are too many; the finest unit is mm",
    "S": "folders by fraction of a second are too many; the finest unit is mm",
    "Q": "quarters stand beside months; use MM",
    "q": "quarters stand beside months; use MM",
    "L": "use MM",
}
_LITERAL = re.compile(r"[A-Za-z0-9._\-~=@, /]")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A unit of time with its width in digits, or a literal (`unit` -1)."""

    unit: int
    width: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A parsed pattern; make it with `parse_pattern`.

    Attributes:
        text: as it was given.
    """

    text: str
    pieces: tuple[_Piece, ...] = field(repr=False)
    _finest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_finest", max((piece.unit for piece in self.pieces), default=-1))

    @property
    def granularity(self) -> Granularity:
        """How much time a folder of this pattern holds."""
        return _GRANULARITIES[self._finest]

    @property
    def keeps_order(self) -> bool:
        """Whether the order of paths as text is the order of time: padded numbers, coarser units first."""
        units = [piece for piece in self.pieces if piece.unit >= 0]
        seen = list(dict.fromkeys(piece.unit for piece in units))
        return seen == sorted(seen) and all(piece.width == _WIDTHS[piece.unit][1] for piece in units)

    def format(self, local: datetime) -> str:
        """The path of a local time."""
        numbers = (local.year, local.month, local.day, local.hour, local.minute)
        return "".join(
            piece.text if piece.unit < 0 else f"{numbers[piece.unit]:0{piece.width}d}" for piece in self.pieces
        )

    def truncate(self, local: datetime) -> datetime:
        """The least local time with the same path; zone and fold are dropped."""
        numbers = [local.year, 1, 1, 0, 0]
        for unit in range(1, self._finest + 1):
            numbers[unit] = (local.year, local.month, local.day, local.hour, local.minute)[unit]
        return datetime(*numbers)  # type: ignore[arg-type] # noqa: DTZ001 - five numbers; the zone is put on by the caller


def parse_pattern(text: str, key: str = "path_pattern") -> PathPattern:
    """Read a pattern.

    Args:
        text: such as `yyyy/MM/dd/HH` or `'year='yyyy/'month='MM`; slashes at its end are dropped.
        key: name of the setting, for the error.

    Raises:
        ConfigError: it is empty or absolute, has a letter that is refused, an open quote, a unit that is missing
            between the year and the finest one, a character that not every store takes, or a path element that is
            empty, `.`, `..`, or invisible to Hadoop readers.
    """
    if not isinstance(text, str) or not text.strip("/ "):
        raise ConfigError(key, text, _ALLOWED, "the pattern is empty")
    return _parsed(text, key)


@functools.lru_cache(_CACHED_PATTERNS)
def _parsed(text: str, key: str) -> PathPattern:
    trimmed = text.rstrip("/")
    pattern = PathPattern(text, tuple(_merged(_pieces(trimmed, key))))
    units = {piece.unit for piece in pattern.pieces if piece.unit >= 0}
    for unit in range(max(units, default=0) + 1):
        if unit not in units:
            finest = f"has the {_UNITS[max(units)]}" if units else "has no unit of time"
            hint = f"the pattern {finest}, but not the {_UNITS[unit]}: different times would share a folder"
            raise ConfigError(key, text, _ALLOWED, hint)
    for element in pattern.format(datetime(2000, 10, 10, 10, 10)).split("/"):  # noqa: DTZ001 - any local time does
        if element[:1] in ("", ".", "_"):
            hint = f"path element {element!r} is empty, or begins with '.' or '_' and is invisible to Hadoop readers"
            raise ConfigError(key, text, _ALLOWED, hint)
    return pattern


def _pieces(text: str, key: str) -> Iterator[_Piece]:
    at = 0
    while at < len(text):
        char = text[at]
        end = at + 1
        if char == "'":
            end = text.find("'", at + 1) + 1
            if not end:
                raise ConfigError(key, text, _ALLOWED, f"the quote at position {at + 1} is never closed")
            # Two quotes in a row mean one quote, which no folder name may have.
            doubled = end == at + 2 or text[end : end + 1] == "'"
            yield _literal(text, "'" if doubled else text[at + 1 : end - 1], key)
        elif char.isalpha():
            while end < len(text) and text[end] == char:
                end += 1
            yield _unit(text, char, end - at, key)
        else:
            yield _literal(text, char, key)
        at = end


def _unit(text: str, letter: str, width: int, key: str) -> _Piece:
    unit = _LETTERS.get(letter)
    if unit is None:
        reason = _REASONS.get(letter, "it means nothing here")
        hint = f"letter {letter!r}: {reason}; letters that stand for themselves go in single quotes"
        raise ConfigError(key, text, _ALLOWED, hint)
    if width not in _WIDTHS[unit]:
        reason = {
            (0, 2): "two digits fold centuries together; use yyyy",
            (1, 3): "names of months depend on a language; use MM",
            (1, 4): "names of months depend on a language; use MM",
            (2, 3): "days of the year are not supported; D and DD mean the day of the month here",
        }.get((unit, width), f"allowed widths: {_WIDTHS[unit]}")
        raise ConfigError(key, text, _ALLOWED, f"letter {letter!r} stands {width} times: {reason}")
    return _Piece(unit, width)


def _literal(text: str, literal: str, key: str) -> _Piece:
    for char in literal:
        if not _LITERAL.fullmatch(char):
            raise ConfigError(key, text, _ALLOWED, f"character {char!r} can't stand in a folder name on every store")
    return _Piece(-1, text=literal)


def _merged(pieces: Iterator[_Piece]) -> Iterator[_Piece]:
    """Neighbouring literals as one."""
    text = ""
    for piece in pieces:
        if piece.unit < 0:
            text += piece.text
            continue
        if text:
            yield _Piece(-1, text=text)
        text = ""
        yield piece
    if text:
        yield _Piece(-1, text=text)


def load_zone(name: str, key: str = "timezone") -> tzinfo:
    """A time zone by its IANA name.

    Raises:
        ConfigError: there is no such zone; the text offers the nearest names.
    """
    if isinstance(name, str) and name.upper() == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError, TypeError, AttributeError) as error:
        near = difflib.get_close_matches(str(name), sorted(zoneinfo.available_timezones()), n=3, cutoff=0.5)
        hint = f"nearest: {', '.join(near)}" if near else ""
        raise ConfigError(key, name, "IANA names such as UTC, Europe/Amsterdam, America/Los_Angeles", hint) from error


@dataclass(frozen=True, slots=True)
class TimeFolder:
    """One time folder.

    Attributes:
        path: as the pattern writes it.
        start: its first moment, UTC.
    """

    path: str
    start: datetime

    @property
    def key(self) -> str:
        """The first moment as `2026-01-31T09:00:00`, UTC: the key of the partition in assets and file entries."""
        return self.start.replace(tzinfo=None).isoformat(timespec="seconds")  # strftime writes the year 800 as 3 digits


@functools.lru_cache(_CACHED_PATTERNS)
def time_path(pattern: str, timezone: str) -> TimePath:
    """The folders of a pattern in a zone; all topics of a process share what is remembered of them.

    Raises:
        ConfigError: see `parse_pattern` and `load_zone`.
    """
    return TimePath(parse_pattern(pattern), load_zone(timezone))


class TimePath:
    """Folders of instants, remembered. Threads may share one.

    Where clocks are set back, both passes of the repeated hour share their folder; where they are set forward, a folder
    whose beginning was left out starts at the moment of the change.

    Args:
        pattern: how folders are written.
        zone: whose wall clock they follow.

    Attributes:
        step: milliseconds; instants with the same quotient by it mostly share their folder, so that a batch of times
            can be grouped by division. `folder_of_step` tells where that fails.
    """

    def __init__(self, pattern: PathPattern, zone: tzinfo) -> None:
        self.pattern = pattern
        self.zone = zone
        # Offsets from UTC are multiples of a quarter of an hour nowadays; where they were not, the look at both ends
        # of the step finds it out.
        self.step = 60_000 if pattern.granularity is Granularity.MINUTELY else 900_000
        self._steps: dict[int, TimeFolder | None] = {}
        self._folders: dict[tuple[str, datetime], TimeFolder] = {}
        self._stretches: dict[int, tuple[int, int, TimeFolder]] = {}

    def folder(self, millis: int) -> TimeFolder:
        """The folder of an instant.

        Args:
            millis: milliseconds since the epoch.

        Raises:
            DecodeError: `bad_time`: outside the years 1 to 9999.
        """
        step = millis // self.step
        try:
            found = self._steps[step]
        except KeyError:
            found = self.folder_of_step(step)
        return self._folder(millis) if found is None else found

    def around(self, millis: int) -> tuple[int, int, TimeFolder]:
        """An interval of instants (half-open, ms) around a given one that share its folder, and the folder.

        Raises:
            DecodeError: as `folder`.
        """
        step = millis // self.step
        found = self._stretches.get(step)
        if found is not None:
            return found
        shared = self.folder_of_step(step)
        if shared is None:
            return millis, millis + 1, self._folder(millis)
        first, last = self._run(step, -1, shared), self._run(step, 1, shared)
        found = first * self.step, (last + 1) * self.step, shared
        self._stretches.update(dict.fromkeys(range(first, last + 1), found))
        return found

    def folder_of_step(self, step: int) -> TimeFolder | None:
        """The folder of all instants from `step * self.step` on for `self.step`, None if they do not share one.

        Raises:
            DecodeError: as `folder`.
        """
        try:
            return self._steps[step]
        except KeyError:
            pass
        if len(self._steps) >= _CACHED_FOLDERS:
            self._steps.clear()
            self._folders.clear()
            self._stretches.clear()
        first, last = step * self.step, (step + 1) * self.step - 1
        low, high = self._folder(first), self._folder(last)
        steady = self._offset(first) == self._offset(last)
        self._steps[step] = result = low if low == high and steady else None
        return result

    def _run(self, step: int, direction: int, folder: TimeFolder) -> int:
        """The farthest step in a direction, up to a day away, that lies in a folder as all steps before it do."""
        for _ in range(_LONGEST_RUN):
            try:
                if self.folder_of_step(step + direction) != folder:
                    break
            except DecodeError:  # the end of the calendar
                break
            step += direction
        return step

    def _folder(self, millis: int) -> TimeFolder:
        try:
            local = self._local(millis)
            start = self._first_moment(self.pattern.truncate(local))
        except (OverflowError, ValueError) as error:
            detail = f"{millis} ms since the epoch lies outside the years 1 to 9999"
            raise DecodeError("bad_time", detail) from error
        path = self.pattern.format(local)
        # One object per folder, so that files can be looked up by identity of its path.
        return self._folders.setdefault((path, start), TimeFolder(path, start))

    def _local(self, millis: int) -> datetime:
        return (EPOCH + timedelta(milliseconds=millis)).astimezone(self.zone)

    def _offset(self, millis: int) -> timedelta | None:
        return self._local(millis).utcoffset()

    def _first_moment(self, wall: datetime) -> datetime:
        """The first instant whose wall clock shows `wall` or more."""
        start = wall.replace(tzinfo=self.zone).astimezone(UTC)
        if start.astimezone(self.zone).replace(tzinfo=None, fold=0) == wall:
            return start
        # The wall clock jumped over `wall`: the change lies between its two readings (PEP 495).
        before = wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        offset = start.astimezone(self.zone).utcoffset()
        while start - before > timedelta(seconds=1):
            middle = before + timedelta(seconds=int((start - before).total_seconds()) // 2)
            if middle.astimezone(self.zone).utcoffset() == offset:
                start = middle
            else:
                before = middle
        return start
