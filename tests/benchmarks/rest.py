"""Rows about lineage's REST in a real API server, over a warehouse of a million edges."""

from __future__ import annotations

import itertools
import tempfile
from functools import cache
from pathlib import Path

from tests.benchmarks.lineage import big_warehouse, dataset_id, well_used
from tests.benchmarks.measuring import HELD, Case, Row, Sample, stopwatch

_LOGINS = [f"user{number}" for number in range(8)]
"""Pages are asked for by one after the other: what Airflow said to a login is remembered for a while, and first calls
count too."""


@cache
def _sessions():
    """Sessions that are logged in to an API server which knows the DAGs of all jobs, in turn, and its base address."""
    import requests

    from tests.pages.server import ApiServer

    warehouse = big_warehouse()
    with warehouse.look() as reader:
        jobs = len(reader.job_names())
    folder = HELD.enter_context(tempfile.TemporaryDirectory(prefix="rest-bench-"))
    server = ApiServer(
        Path(folder) / "server", warehouse=str(warehouse.engine.url), instance="here", dags=jobs, admins=_LOGINS
    )
    HELD.callback(server.close)
    sessions = []
    for login in _LOGINS:
        session = HELD.enter_context(requests.Session())
        session.headers["Authorization"] = f"Bearer {server.token(login)}"
        session.get(f"{server.url}/lineage/api/v1/health", timeout=60)  # the connection and the app are made
        sessions.append(session)
    return sessions, itertools.cycle(sessions), f"{server.url}/lineage/api/v1"


def _asked(path: str, *, anew: bool = False, **parameters: str) -> Sample:
    """One call; `anew`: by a login that has not asked for a while."""
    sessions, turn, address = _sessions()
    session = next(turn) if anew else sessions[0]
    with stopwatch() as watch:
        answer = session.get(f"{address}/{path}", params=parameters, timeout=60)
    answer.raise_for_status()
    return watch.sample(1)


def page() -> Sample:
    """The first page of a well-used dataset."""
    return _asked(f"datasets/{well_used()}", anew=True)


def graph() -> Sample:
    """One hop around it, with places for every dataset."""
    return _asked("graph", anew=True, node=well_used())


def search() -> Sample:
    """Suggestions while somebody types."""
    return _asked("search", q="table_99")


def impact() -> Sample:
    """The first page of all that a source reaches."""
    return _asked("impact", node=dataset_id(5), limit="100")


CASES: dict[str, Case] = {"rest page": page, "rest graph": graph, "rest search": search, "rest impact": impact}


def _row(name: str, text: str, target: float) -> Row:
    return Row(
        id=f"lineage-rest-{name}",
        name=f"REST: {text} at 1,000,000 edges",
        over=f"rest {name}",
        target=target,
        unit="ms",
        better="lower",
        value=lambda sample: sample.wall * 1_000,
    )


ROWS = [
    _row("page", "page of a dataset", 50),
    _row("graph", "graph of one hop", 150),
    _row("search", "suggestions", 300),
    _row("impact", "impact, first page", 1_500),
]
