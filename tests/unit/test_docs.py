"""The docs name what the code has, their links lead somewhere, and their Python compiles."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from airflow_kafka_hdfs import exceptions
from airflow_kafka_hdfs.ingest import reasons
from airflow_kafka_hdfs.ingest.config import PIPELINE_DEFAULTS, REQUIRED
from airflow_kafka_hdfs.ingest.records import Kind, Outcome
from airflow_kafka_hdfs.ingest.settings import DEFAULTS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def unnamed(names, text: str) -> list[str]:
    return sorted(name for name in names if f"`{name}`" not in text)


def test_every_argument_is_in_the_reference():
    assert unnamed({*REQUIRED, *PIPELINE_DEFAULTS, *DEFAULTS}, page("reference/arguments.md")) == []


def test_every_error_outcome_and_reason_is_in_the_reference():
    text = page("reference/errors.md")
    errors = [
        name
        for name, found in inspect.getmembers(exceptions, inspect.isclass)
        if found.__module__ == exceptions.__name__
    ]
    codes = [
        code.value
        for enum in (reasons.Reason, reasons.HeldReason, reasons.UnitReason, reasons.BadReason, Outcome)
        for code in enum
    ]
    assert unnamed([*errors, *codes], text) == []


def test_every_kind_of_commit_is_in_the_reference():
    assert unnamed([kind.value for kind in Kind], page("reference/files.md")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path):
    targets = [target for target in LINK.findall(path.read_text()) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_compiles_and_imports_what_exists(path: Path):
    for block in PYTHON.findall(path.read_text()):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow_kafka_hdfs"):
                source = importlib.util.find_spec(node.module)
                assert source is not None
                exported = Path(source.origin).read_text()
                assert all(re.search(rf"\b{name.name}\b", exported) for name in node.names)
