"""Every released version's log is read by this one, and goes on; a newer one's is refused with a clear word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_kafka_hdfs import __version__
from airflow_kafka_hdfs.exceptions import NewerFormatError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.doctor import examine
from airflow_kafka_hdfs.ingest.ownership import Owner
from airflow_kafka_hdfs.ingest.plan_book import all_plans, manifests
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.records import Commit, Kind, Manifest
from tests.unit.ingest.extracting import MORNING, confluent, event
from tests.unit.ingest.replays import Pipeline
from tests.upgrades.chain import CHAINS, load

KINDS = {"commit": Commit, "plan": Plan, "manifest": Manifest, "checkpoint": Checkpoint, "owner": Owner}


@pytest.fixture(params=sorted(CHAINS.glob("*.json")), ids=lambda path: path.stem)
def chain(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_this_version_has_its_chain():
    assert (CHAINS / f"{__version__}.json").exists()


def test_a_chain_holds_every_record_that_its_version_wrote(chain):
    found = {json.loads(text)["record"] for text in json.loads(chain.read_text()).values() if '"record"' in text}
    assert found >= KINDS.keys()


def opened(chain: Path) -> Pipeline:
    pipeline = Pipeline()
    pipeline.mend()
    pipeline.store = load(chain)
    pipeline.cluster.produce("events", 0, confluent(1, event(4)), confluent(1, event(5)), timestamp=MORNING)
    return pipeline


def test_an_older_log_is_read_whole_and_the_doctor_is_content(chain):
    ctx = opened(chain).ctx()
    view = ctx.log.read(since=-1)
    kinds = {commit.kind for commit in view.records.values()}
    assert kinds >= {Kind.FORWARD, Kind.REPLAY, Kind.REPLACE, Kind.RESET, Kind.ABORT}
    assert [item.offset for item in sorted(view.state.replayed, key=lambda item: item.offset)] == [1, 3]
    assert not [finding for finding in examine(ctx) if finding.severity != "note"]
    (plan,) = [plan for plan in all_plans(ctx) if plan.run.run_id == "open"]
    assert [unit.counts.written for manifest in manifests(ctx, plan, 0) for unit in manifest.units] == [1]


def test_the_next_run_goes_on_where_the_older_version_ended(chain):
    pipeline = opened(chain)
    pipeline.clock.advance(30 * 24 * 3600)
    pipeline.runs.alive["open"] = False
    before = pipeline.ids()
    pipeline.ingest("next")
    assert pipeline.ids() == sorted([*before, 4, 5])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_record_of_a_newer_version_is_refused_with_both_numbers(chain, kind):
    texts = json.loads(chain.read_text())
    path, text = next((p, t) for p, t in texts.items() if f'"record":"{kind}"' in t.replace(" ", ""))
    newer = {**json.loads(text), "format": wire.FORMAT + 1}
    with pytest.raises(NewerFormatError, match=rf"format {wire.FORMAT + 1}.* reads up to {wire.FORMAT}") as caught:
        wire.decode(path, kind, KINDS[kind], json.dumps(newer).encode())
    assert path in str(caught.value)
