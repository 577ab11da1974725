"""What is measured, and what it should come to on two cores beside the broker."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tests.benchmarks import parts
from tests.benchmarks.data import datasets
from tests.benchmarks.measuring import Case, Row
from tests.benchmarks.reading import Reading

ROWS = [
    Row(id="numpy-bare", name="numpy ÷ bare, 120 B", over="numpy first-120", under="bare first-120", target=0.30),
    Row(
        id="compiled-bare",
        name="compiled ÷ bare, 120 B",
        over="compiled first-120",
        under="bare first-120",
        target=0.60,
    ),
    Row(
        id="numpy-recode",
        name="numpy ÷ decode/encode, 120 B",
        over="numpy first-120",
        under="recode first-120",
        target=8,
    ),
    Row(
        id="compiled-recode",
        name="compiled ÷ decode/encode, 120 B",
        over="compiled first-120",
        under="recode first-120",
        target=15,
    ),
    Row(
        id="compiled-numpy",
        name="compiled ÷ numpy, 120 B",
        over="compiled first-120",
        under="numpy first-120",
        target=1.3,
    ),
    Row(
        id="deflate-cpu",
        name="compiled deflate ÷ decode/encode zlib, by CPU",
        over="compiled deflate first-120",
        under="recode zlib first-120",
        target=12,
        by_cpu=True,
    ),
    Row(
        id="isal-zlib",
        name="compiled: deflate (isal) ÷ zlib 6",
        over="compiled deflate first-120",
        under="compiled zlib first-120",
        target=3,
    ),
    Row(
        id="snappy-bare",
        name="compiled snappy ÷ bare, 120 B",
        over="compiled snappy first-120",
        under="bare first-120",
        target=None,
    ),
    Row(
        id="numpy-bare-last", name="numpy ÷ bare, time last", over="numpy last-120", under="bare last-120", target=0.30
    ),
    Row(
        id="compiled-bare-last",
        name="compiled ÷ bare, time last",
        over="compiled last-120",
        under="bare last-120",
        target=0.60,
    ),
    Row(id="numpy-bare-2k", name="numpy ÷ bare, 2 KB", over="numpy first-2k", under="bare first-2k", target=0.45),
    Row(
        id="compiled-bare-2k",
        name="compiled ÷ bare, 2 KB",
        over="compiled first-2k",
        under="bare first-2k",
        target=0.55,
    ),
    Row(id="tuned-default", name="tuned ÷ default client", over="bare first-120", under="untuned first-120", target=3),
    Row(id="splice-recode", name="splice ÷ decode/encode", over="splice", under="resolve", target=20),
    Row(
        id="walk-compiled-numpy",
        name="packing alone: compiled ÷ numpy",
        over="walk compiled",
        under="walk numpy",
        target=1.3,
    ),
    Row(
        id="pack-100k",
        name="pack 100,000 work units",
        over="pack units",
        target=0.5,
        unit="s",
        better="lower",
        value=lambda sample: sample.wall,
    ),
]


def offline_cases() -> dict[str, Case]:
    """Cases that need no broker."""
    small = datasets(1)["first-120"]
    return {
        "splice": parts.splice,
        "resolve": parts.resolve,
        "pack units": parts.pack_units,
        "walk compiled": partial(parts.walk, "compiled", small),
        "walk numpy": partial(parts.walk, "numpy", small),
    }


def kafka_cases(topics: Mapping[str, Reading]) -> dict[str, Case]:
    """Cases over loaded topics; slow ones read a part of their topic."""
    found: dict[str, Case] = {}
    for name, reading in topics.items():
        found[f"bare {name}"] = reading.bare
        found[f"numpy {name}"] = partial(reading.extract, "numpy")
        found[f"compiled {name}"] = partial(reading.extract, "compiled")
    first = topics["first-120"]
    part = Reading(first.servers, first.folder, first.dataset, max(first.count // 10, 1))
    found |= {
        "recode first-120": part.recode,
        "recode zlib first-120": partial(part.recode, "zlib"),
        "compiled snappy first-120": partial(first.extract, "compiled", "snappy"),
        "compiled deflate first-120": partial(first.extract, "compiled", "deflate"),
        "compiled zlib first-120": partial(first.extract, "compiled", "zlib"),
        "untuned first-120": partial(first.bare, tuned=False),
    }
    return found


def topic_of(case: str) -> str:
    """The topic that a case reads, empty for none."""
    last = case.rsplit(" ", 1)[-1]
    return last if last in datasets(1) else ""
