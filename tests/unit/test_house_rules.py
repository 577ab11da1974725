"""Rules of the house that no linter checks."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("airflow_kafka_hdfs", "tests", "dags")
LONGEST = 450


def test_no_module_is_too_long_to_be_read_in_one_go():
    modules = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(modules) > 100
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {path: count for path, count in lines.items() if count > LONGEST} == {}
