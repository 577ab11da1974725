"""Rows about the pages: the places of 1,000 datasets, and the graph of them drawn in a browser."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from airflow_kafka_hdfs.lineage.layout import layered
from tests.benchmarks.measuring import HELD, Case, Row, Sample, stopwatch
from tests.pages.story import WIDE, key, wide_pairs


def layout() -> Sample:
    """Places from pairs, as the server computes them."""
    pairs = wide_pairs()
    numbers = {name: number for number, name in enumerate(sorted({name for pair in pairs for name in pair}))}
    links = [(numbers[source], numbers[target]) for source, target in pairs]
    with stopwatch() as watch:
        layered(len(numbers), links)
    return watch.sample(len(numbers))


@cache
def _opened():
    """A page of a browser that is logged in to an API server with the story's warehouse."""
    from tests.pages.browser import browser
    from tests.pages.server import ApiServer

    folder = HELD.enter_context(tempfile.TemporaryDirectory(prefix="pages-bench-"))
    server = ApiServer(Path(folder) / "server")
    HELD.callback(server.close)
    context = HELD.enter_context(browser()).new_context(viewport={"width": 1440, "height": 860})
    context.add_cookies([{"name": "_token", "value": server.token("admin"), "url": server.url}])
    return context.new_page(), f"{server.url}/lineage/graph?node={key('/wide/0')}&down=50&limit=2000"


def graph_page() -> Sample:
    """From the address to the drawn graph: page, answer, places, 1,000 boxes on the screen."""
    page, address = _opened()
    page.goto("about:blank")
    with stopwatch() as watch:
        page.goto(address, wait_until="domcontentloaded")
        page.wait_for_selector("html[data-ready]")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.locator("g.node").count() == WIDE
    return watch.sample(WIDE)


CASES: dict[str, Case] = {"graph layout": layout, "graph page": graph_page}

ROWS = [
    Row(
        id="graph-layout",
        name="places of 1,000 datasets",
        over="graph layout",
        target=200,
        unit="ms",
        better="lower",
        value=lambda sample: sample.wall * 1_000,
    ),
    Row(
        id="graph-page",
        name="graph page of 1,000 datasets in Chromium",
        over="graph page",
        target=2,
        unit="s",
        better="lower",
        value=lambda sample: sample.wall,
    ),
]
