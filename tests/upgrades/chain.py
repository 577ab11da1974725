"""Makes the chain of the version at hand: `python -m tests.upgrades.chain`, once per release; the file is never remade.

The chain holds every kind of record, with the data files that they list, of a small pipeline.
"""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path

from airflow_kafka_hdfs import __version__
from airflow_kafka_hdfs.ingest import log, steering
from airflow_kafka_hdfs.ingest.collecting import collect
from airflow_kafka_hdfs.ingest.planning import make_plan
from airflow_kafka_hdfs.ingest.publishing import announce
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from tests.fakes.store import InMemoryStore
from tests.unit.ingest.extracting import MORNING, confluent, event
from tests.unit.ingest.replays import Pipeline, replace_everything

CHAINS = Path(__file__).parent / "chains"


def make() -> Pipeline:
    """A pipeline that has done about everything once."""
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.replay()
    replace_everything(pipeline)
    steering.carry_out(
        pipeline.ctx(), steering.start_points(pipeline.sources(), pipeline.config, {"events": "latest"}), "a new start"
    )
    pipeline.cluster.produce("events", 0, confluent(1, event(4)), timestamp=MORNING)
    pipeline.runs.alive["dead"] = False
    make_plan(pipeline.ctx(run="dead"), pipeline.sources(), pipeline.config, PlanRequest())
    pipeline.clock.advance(timedelta(days=2).total_seconds())
    collect(pipeline.ctx(), grace=timedelta(hours=1))
    ctx = pipeline.ctx()
    announce(ctx, ctx.log.unannounced(ctx.log.read()))
    ctx.log.checkpoint_if_due(ctx.log.read(since=-1))
    pipeline.runs.alive["open"] = True
    pipeline.run_id = "open"
    pipeline.run(make_plan(pipeline.ctx(run="open"), pipeline.sources(), pipeline.config, PlanRequest()).plan)
    return pipeline


def save(store: InMemoryStore, path: Path) -> None:
    """All files: records as text, the rest as base64."""
    files = {}
    for name, data in store.files().items():
        is_text = data.isascii() and data.startswith(b"{")
        files[name] = data.decode() if is_text else "base64:" + base64.b64encode(data).decode()
    path.write_text(json.dumps(files, indent=1, sort_keys=True) + "\n")


def load(path: Path) -> InMemoryStore:
    """The store that `save` wrote."""
    store = InMemoryStore()
    for name, text in json.loads(path.read_text()).items():
        data = base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()
        writer = store.create(name)
        writer.write(data)
        writer.close()
    return store


if __name__ == "__main__":
    log.CHECKPOINT_EVERY = 3
    save(make().store, CHAINS / f"{__version__}.json")
