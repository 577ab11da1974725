"""What is measured, and what it should come to on two cores beside the broker."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.benchmarks import lineage, listener, long_lived, pages, parts, planning, rest
from tests.benchmarks.data import datasets
from tests.benchmarks.measuring import Case, Row, Sample
from tests.benchmarks.product import Product
from tests.benchmarks.reading import Reading
from tests.benchmarks.stages import AROUND, SHARES
from tests.benchmarks.worker import work
from tests.stack.hdfs import HdfsCluster

STORES = ("local", "webhdfs", "native")
TIERS = ("numpy", "compiled", "direct")


def _fact(name: str, sample: Sample) -> float:
    return sample.facts[name]


def _from_end_to_end(sample: Sample) -> float:
    """Records per second of a task with all that its operator does; of anything else its rate."""
    return sample.facts.get("whole", sample.rate)


ROWS = [
    Row(id="numpy-bare", name="numpy ÷ bare, 120 B", over="numpy first-120", under="bare first-120", target=0.30),
    Row(
        id="compiled-bare",
        name="compiled ÷ bare, 120 B",
        over="compiled first-120",
        under="bare first-120",
        target=0.60,
    ),
    Row(id="direct-bare", name="direct ÷ bare, 120 B", over="direct first-120", under="bare first-120", target=1.10),
    *(
        Row(
            id=f"{tier}-{baseline}",
            name=f"{tier} ÷ {text}, 120 B",
            over=f"{tier} first-120",
            under=f"{baseline} first-120",
            target=target,
        )
        for baseline, text, targets in (
            ("recode", "decode/encode", (8, 15, 28)),
            ("loop", "a plain loop of fastavro", (None, None, None)),
        )
        for tier, target in zip(TIERS, targets, strict=True)
    ),
    Row(
        id="direct-compiled",
        name="direct ÷ compiled, 120 B",
        over="direct first-120",
        under="compiled first-120",
        target=1.5,
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
    *(
        Row(
            id=row,
            name=f"{tier}: deflate (isal) ÷ zlib 6",
            over=f"{tier} deflate first-120",
            under=f"{tier} zlib first-120",
            target=target,
        )
        # The target speaks of the way that a task takes by itself.
        for row, tier, target in (("isal-zlib", "direct", 3), ("isal-zlib-compiled", "compiled", None))
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
    Row(
        id="direct-bare-last",
        name="direct ÷ bare, time last",
        over="direct last-120",
        under="bare last-120",
        target=1.10,
    ),
    Row(id="numpy-bare-2k", name="numpy ÷ bare, 2 KB", over="numpy first-2k", under="bare first-2k", target=0.45),
    Row(
        id="compiled-bare-2k",
        name="compiled ÷ bare, 2 KB",
        over="compiled first-2k",
        under="bare first-2k",
        target=0.55,
    ),
    Row(id="direct-bare-2k", name="direct ÷ bare, 2 KB", over="direct first-2k", under="bare first-2k", target=0.90),
    Row(id="tuned-default", name="tuned ÷ default client", over="bare first-120", under="untuned first-120", target=3),
    Row(
        id="parquet-dicts",
        name="Parquet: columns ÷ dicts, 120 B",
        over="parquet first-120",
        under="dicts first-120",
        target=4,
    ),
    Row(
        id="parquet-dicts-2k",
        name="Parquet: columns ÷ dicts, 2 KB",
        over="parquet first-2k",
        under="dicts first-2k",
        target=2,
    ),
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
    Row(
        id="plan-one-by-one",
        name="plan 10,000 partitions ÷ one by one, 1 ms",
        over="offsets at once",
        under="offsets one by one",
        target=5,
    ),
    Row(
        id="plan-seconds",
        name="plan 10,000 partitions, 1 ms round trip",
        over="offsets at once",
        target=2,
        unit="s",
        better="lower",
        value=lambda sample: sample.wall,
    ),
    Row(
        id="fetched-wanted",
        name="fetched ÷ wanted, half of each partition",
        over="half first-120",
        target=1.05,
        better="lower",
        value=lambda sample: sample.facts["delivered"],
    ),
    Row(
        id="after-last",
        name="time after the last wanted message",
        over="half first-120",
        target=0.2,
        unit="s",
        better="lower",
        value=lambda sample: sample.facts["tail"],
    ),
    *(
        Row(
            id=f"direct-{row}",
            name=name,
            over="half direct first-120",
            target=target,
            unit=unit,
            better="lower",
            value=partial(_fact, fact),
        )
        for row, name, target, unit, fact in (
            ("fetched-wanted", "direct: fetched ÷ wanted", 1.05, "x", "delivered"),
            ("after-last", "direct: time after the last wanted message", 0.2, "s", "tail"),
        )
    ),
    Row(
        id="memory",
        name="task memory over imports",
        over="worker first-120",
        target=64,
        unit="MiB",
        better="lower",
        value=lambda sample: sample.facts["grown"],
    ),
    Row(
        id="memory-200",
        name="task memory, 200 and more open folders",
        over="folders first-120",
        target=64,
        unit="MiB",
        better="lower",
        value=lambda sample: sample.facts["grown"],
    ),
    *(
        Row(
            id=f"two-workers-{tier}",
            name=f"{tier}: two worker processes ÷ one",
            over=f"two workers {tier} first-120",
            under=f"worker {tier} first-120",
            target=1.15,
        )
        for tier in TIERS
    ),
    *(
        Row(
            id=f"product-{store}",
            name=f"whole extract, {store} files ÷ bare, 120 B",
            over=f"product {store} first-120",
            under="bare first-120",
            target=None,
        )
        for store in STORES
    ),
    Row(
        id="product-2k",
        name="whole extract, local files ÷ bare, 2 KB",
        over="product local first-2k",
        under="bare first-2k",
        target=None,
    ),
    *(
        Row(
            id=f"product-{store}-{stage}",
            name=f"whole extract, {store} files: share of {stage}",
            over=f"product {store} first-120",
            target=None,
            unit="",
            better="lower",
            value=partial(_fact, stage),
        )
        for store in STORES
        for stage in SHARES
    ),
    *(
        Row(
            id=f"product-{store}-task",
            name=f"task from execute to return, {store} ÷ bare",
            over=f"product {store} first-120",
            under="bare first-120",
            target=None,
            value=_from_end_to_end,
        )
        for store in STORES
    ),
    *(
        Row(
            id=f"product-{store}-{fact}",
            name=f"task, {store} files: {text}",
            over=f"product {store} first-120",
            target=None,
            unit="s",
            better="lower",
            value=partial(_fact, fact),
        )
        for store in STORES
        for fact, text in AROUND.items()
    ),
    *long_lived.ROWS,
    *lineage.ROWS,
    *rest.ROWS,
    *listener.ROWS,
    *pages.ROWS,
]


TASKS = tuple(f"tasks over {topic}" for topic in datasets(1))
"""Groups of whole tasks; measured last, with a broker of their own."""

_TASK_CASES = ("product", "half", "worker", "two workers", "folders")
_LINEAGE = {row.id for module in (lineage, rest, listener, pages) for row in module.ROWS}


def group_of(row: Row) -> str:
    """Rows of one group are measured in turns in one process, so that their cases see the same machine and memory.

    Those of other groups are not among them: what one has imported, started and left in memory could weigh on the
    others, and not on each case alike.
    """
    topic = topic_of(row.over)
    if row.over.startswith("parquet"):  # tables of dicts leave much memory in pieces behind
        return f"Parquet of {topic}"
    if topic:
        return f"tasks over {topic}" if row.over.startswith(_TASK_CASES) else topic
    return "lineage" if row.id in _LINEAGE else "parts"


def offline_cases() -> dict[str, Case]:
    """Cases that need no broker."""
    small = datasets(1)["first-120"]
    return {
        **lineage.CASES,
        **long_lived.CASES,
        **rest.CASES,
        **listener.CASES,
        "splice": parts.splice,
        "resolve": parts.resolve,
        "pack units": parts.pack_units,
        "offsets at once": planning.all_at_once,
        "offsets one by one": planning.one_by_one,
        "walk compiled": partial(parts.walk, "compiled", small),
        "walk numpy": partial(parts.walk, "numpy", small),
        **pages.CASES,
    }


def kafka_cases(topics: Mapping[str, Reading]) -> dict[str, Case]:
    """Cases over loaded topics; slow ones read a part of their topic."""
    found: dict[str, Case] = {}
    for name, reading in topics.items():
        found[f"bare {name}"] = reading.bare
        found[f"numpy {name}"] = partial(reading.extract, "numpy")
        found[f"compiled {name}"] = partial(reading.extract, "compiled")
        found[f"direct {name}"] = partial(reading.extract, "direct")
    for name in ("first-120", "first-2k"):
        whole = topics[name]
        found[f"parquet {name}"] = partial(whole.columns, "compiled")
        found[f"dicts {name}"] = Reading(whole.servers, whole.folder, whole.dataset, max(whole.count // 10, 1)).dicts
    first = topics["first-120"]
    part = Reading(first.servers, first.folder, first.dataset, max(first.count // 10, 1))
    found |= {
        "loop first-120": part.loop,
        "recode first-120": part.recode,
        "recode zlib first-120": partial(part.recode, "zlib"),
        "compiled snappy first-120": partial(first.extract, "compiled", "snappy"),
        **{
            f"{tier} {codec} first-120": partial(first.extract, tier, codec)
            for tier in ("compiled", "direct")
            for codec in ("deflate", "zlib")
        },
        "untuned first-120": partial(first.bare, tuned=False),
    }
    return found


def product_cases(servers: str, folder: Path, hdfs: HdfsCluster | None) -> dict[str, Case]:
    """Cases of whole tasks; the environment gets the connections that they read and write by.

    Args:
        servers: of Kafka.
        folder: for local files.
        hdfs: None where no case needs it.
    """
    extra = {"bootstrap.servers": servers}
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
    places = {"local": folder.as_uri()}
    if hdfs is not None:
        os.environ["AIRFLOW_CONN_WEBHDFS_DEFAULT"] = hdfs.airflow_connection
        os.environ["AIRFLOW_CONN_HDFS_NATIVE_DEFAULT"] = hdfs.native_airflow_connection
        places |= {"webhdfs": "webhdfs:///bench", "native": "hdfs:///bench"}
    found: dict[str, Case] = {}
    for name, dataset in datasets(1).items():
        for kind, place in places.items():
            found[f"product {kind} {name}"] = Product(dataset, place).run
        half = Product(dataset, places["local"], share=0.5)
        found[f"half {name}"] = partial(half.run, "compiled")
        found[f"half direct {name}"] = partial(half.run, "direct")
        found[f"worker {name}"] = partial(work, name, folder, 1)
        for tier in TIERS:
            found[f"worker {tier} {name}"] = partial(work, name, folder, 1, tiers=tier)
            found[f"two workers {tier} {name}"] = partial(work, name, folder, 2, tiers=tier)
        found[f"folders {name}"] = partial(work, name, folder, 1, {"granularity": "minutely"})
    return found


def topic_of(case: str) -> str:
    """The topic that a case reads, empty for none."""
    last = case.rsplit(" ", 1)[-1]
    return last if last in datasets(1) else ""
