"""Rounds, samples, rows: the method, without a word about what is measured."""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

HELD = ExitStack()
"""Servers, browsers and folders that cases keep over the rounds of their group."""


@dataclass(frozen=True)
class Sample:
    """One run of one case.

    Attributes:
        units: what was worked on (records, calls).
        wall, cpu: seconds; CPU of all threads of this process.
        facts: whatever else a case measures.
    """

    units: int
    wall: float
    cpu: float
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.wall

    @property
    def cpu_rate(self) -> float:
        """Units per second of CPU."""
        return self.units / self.cpu


class Stopwatch:
    """Measures from `start` to `stop`, both callable from inside a case."""

    def __init__(self) -> None:
        self._started = self._ended = (0.0, 0.0)

    def start(self) -> None:
        self._started = (time.perf_counter(), time.process_time())

    def stop(self) -> None:
        self._ended = (time.perf_counter(), time.process_time())

    def sample(self, units: int) -> Sample:
        wall, cpu = (end - start for start, end in zip(self._started, self._ended, strict=True))
        return Sample(units, wall, cpu)


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """A stopwatch that runs for the body of the statement."""
    watch = Stopwatch()
    watch.start()
    yield watch
    watch.stop()


Case = Callable[[], Sample]
Samples = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        over, under: cases; the row is what `value` makes of a sample of `over`, divided by what it makes of one of
            `under` unless that is empty.
        by_cpu: take rates per second of CPU.
    """

    id: str
    name: str
    over: str
    under: str = ""
    target: float | None
    unit: str = "x"
    better: Literal["higher", "lower"] = "higher"
    by_cpu: bool = False
    value: Callable[[Sample], float] = lambda sample: sample.rate

    @property
    def cases(self) -> tuple[str, ...]:
        return (self.over, self.under) if self.under else (self.over,)

    def measure(self, samples: Samples, *, cpu: bool) -> list[float]:
        """The value in each round."""
        if not self.under:
            return [self.value(sample) for sample in samples[self.over]]
        pairs = zip(samples[self.over], samples[self.under], strict=True)
        return [a.cpu_rate / b.cpu_rate if cpu else self.value(a) / self.value(b) for a, b in pairs]

    def passes(self, value: float) -> bool | None:
        if self.target is None:
            return None
        return value >= self.target if self.better == "higher" else value <= self.target


def run_apart(cases: Mapping[str, Case], rounds: int) -> dict[str, list[Sample]]:
    """`run_rounds` in a fresh process, as each mapped task is one.

    What other groups have imported, started and left in memory can weigh on none of its cases.

    Args:
        cases: all of them can be pickled.
        rounds: how many.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        return processes.submit(_run_and_close, cases, rounds).result()


def _run_and_close(cases: Mapping[str, Case], rounds: int) -> dict[str, list[Sample]]:
    with HELD:
        return run_rounds(cases, rounds)


def run_rounds(cases: Mapping[str, Case], rounds: int) -> dict[str, list[Sample]]:
    """Every case once per round, after one warm-up; each round begins with another case."""
    samples: dict[str, list[Sample]] = {name: [] for name in cases}
    names = list(cases)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            say(f"\rround {number} of {rounds}: {name:40}")
            os.sync()  # the disk is not to be busy with what the case before has written
            sample = cases[name]()
            if number:
                samples[name].append(sample)
    say("\r" + " " * 70 + "\r")
    return samples


def say(text: str) -> None:
    """Progress, for people only."""
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()


def report(groups: Mapping[str, Sequence[Row]], samples: Mapping[str, Samples], json_file: Path | None) -> bool:
    """Print one table, write the JSON.

    Args:
        groups: rows that were measured side by side, by the group's name.
        samples: of each group's cases.
        json_file: None to write none.

    Returns:
        Whether every target is met by wall time or by CPU time.
    """
    print(f"\n{'row':44} {'value':>9} {'by CPU':>9} {'spread':>15}  target")
    plain: list[dict[str, Any]] = []
    good = True
    for group, rows in groups.items():
        for row in rows:
            good = _report_row(row, samples[group], plain) and good
    print(f"\n{'case':44} {'units/s':>12} {'CPU µs/unit':>12}")
    for group, cases in samples.items():
        print(f"{group}:")
        for name, found in cases.items():
            rate = statistics.median(sample.rate for sample in found)
            cost = statistics.median(sample.cpu / sample.units * 1e6 for sample in found)
            print(f"  {name:42} {rate:12,.0f} {cost:12.3f}")
    if json_file:
        json_file.write_text(json.dumps(plain, indent=1) + "\n")
    return good


def _report_row(row: Row, samples: Samples, plain: list[dict[str, Any]]) -> bool:
    rounds = row.measure(samples, cpu=row.by_cpu)
    value = statistics.median(rounds)
    cpu = statistics.median(row.measure(samples, cpu=True)) if row.under else None
    verdict = row.passes(value) or (cpu is not None and row.passes(cpu)) or row.target is None
    aim = "" if row.target is None else f"{'>=' if row.better == 'higher' else '<='} {row.target:g}"
    shown = "" if cpu is None else f"{cpu:.3g}"
    spread = f"{min(rounds):.3g} … {max(rounds):.3g}"
    print(f"{row.name:44} {value:9.3g} {shown:>9} {spread:>15}  {aim:8} {'' if verdict else 'MISSED'}")
    plain.append(
        {
            "id": row.id,
            "name": row.name,
            "value": value,
            "unit": row.unit,
            "target": row.target,
            "better": row.better,
            "rounds": len(rounds),
        }
    )
    return bool(verdict)
