"""The docs name what the code has, their links lead somewhere, and their Python compiles."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_kafka_hdfs import exceptions
from airflow_kafka_hdfs.ingest import reasons
from airflow_kafka_hdfs.ingest.config import PIPELINE_DEFAULTS, REQUIRED
from airflow_kafka_hdfs.ingest.coverage import Checkpoint
from airflow_kafka_hdfs.ingest.layout import StatePaths
from airflow_kafka_hdfs.ingest.plans import Plan
from airflow_kafka_hdfs.ingest.records import Commit, FileEntry, Kind, Manifest, Outcome
from airflow_kafka_hdfs.ingest.settings import DEFAULTS
from airflow_kafka_hdfs.ingest.writers.sinks import EXTENSIONS
from airflow_kafka_hdfs.ports.lineage_rows import ROWS

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


DEFAULTS_IN_WORDS = {
    "none": (None,),
    "required": ("required",),
    "from `granularity` (`yyyy/MM/dd/HH`)": (None,),
    "`snappy` for avro and parquet, `null` for the others": (None,),
    "the store's": (None,),
    "by scheme": (None,),
    "the Kafka connection id": (None,),
    "from `destination`": (None,),
    "`<destination>/.kafka_hdfs/<pipeline_id>`": (None,),
    "`<dag_id>.<group_id>`": ("required",),
    "1980-01-01 to the plan's clock + 2 days": (None,),
    "`[]`": ((),),
    "`{}`": ({},),
    "512 MiB": (512 * 1024**2,),
    "1 GiB": (1024**3,),
    "24 h": (timedelta(hours=24),),
    "True": (True,),
    "False": (False,),
}


def test_every_default_is_that_of_the_code():
    real = {**dict.fromkeys(REQUIRED, "required"), **PIPELINE_DEFAULTS, **DEFAULTS}
    rows = re.findall(r"^\| `(\w+)`(?: \*\*T\*\*)? \| (.*?) \|", page("reference/arguments.md"), flags=re.MULTILINE)
    told = {name: text for name, text in rows if name in real}
    assert told.keys() == real.keys()
    wrong = {}
    for name, text in told.items():
        if text in DEFAULTS_IN_WORDS:
            (meant,) = DEFAULTS_IN_WORDS[text]
        else:
            meant = text.strip("`")
        if meant != real[name] and str(meant) != str(real[name]):
            wrong[name] = (text, real[name])
    assert wrong == {}


@pytest.mark.parametrize("record", [Plan, Manifest, Commit, Checkpoint, FileEntry], ids=lambda record: record.__name__)
def test_every_field_of_a_record_is_in_the_reference(record):
    text = page("reference/files.md")
    fields = {field.name for field in dataclasses.fields(record)} - {"dry_run"}  # a dry run stores no plan
    assert unnamed(fields, text) == [] if record is FileEntry else unnamed(fields, line_of(text, record)) == []


def line_of(text: str, record: type) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {record.__name__.lower()} |")]
    return line


def test_every_folder_and_every_ending_is_in_the_reference():
    text = page("reference/files.md")
    paths = StatePaths()
    folders = {
        paths.plan("k", 0),
        paths.manifest("p", 0, 0),
        paths.commit(0),
        paths.published(0),
        paths.announced(0),
        paths.checkpoint(0),
    }
    assert [path for path in folders if f"`{path.split('/')[0]}/" not in text] == []
    assert [name for name in ("staging", "quarantine", "superseded") if f"`{name}/" not in text] == []
    assert unnamed(EXTENSIONS.values(), text) == []


def test_every_table_of_lineage_is_in_the_reference():
    assert unnamed([row.TABLE for row in ROWS], page("lineage/messages-and-tables.md")) == []


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
