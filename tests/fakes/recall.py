"""Records of the log decoded once: simulated processes read the same bytes thousands of times."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from airflow_kafka_hdfs.ingest import wire


@contextmanager
def remembered_records(most: int = 20_000) -> Iterator[None]:
    """Within, `wire.decode` gives the same frozen record for the same path and bytes; errors are found anew."""
    with mock.patch.object(wire, "decode", functools.lru_cache(most)(wire.decode)):
        yield
