"""The reference names every metric, command and Param that there is, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

from airflow.cli.cli_config import GroupCommand

from airflow_kafka_hdfs.cli.definition import get_kafka_hdfs_cli_commands
from airflow_kafka_hdfs.operators.reporting import METRICS
from airflow_kafka_hdfs.operators.requests import ingest_params

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def first_cells(page: str, after: str = "") -> list[str]:
    """What stands between backticks in the first column of the tables of a page, from a heading on."""
    text = (REFERENCE / page).read_text()
    text = text[text.index(after) :]
    cells = re.findall(r"^\| (`[^|]*`) \|", text, flags=re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]*)`", cell)]


def commands(group: GroupCommand, path: tuple[str, ...] = ()) -> list[str]:
    found = []
    for command in group.subcommands:
        words = (*path, command.name)
        found += commands(command, words) if isinstance(command, GroupCommand) else [" ".join(words)]
    return found


def test_every_metric_is_in_the_reference():
    named = [name for name in first_cells("metrics.md") if name.startswith("kafka_hdfs.")]
    assert [name for name in named if not name.startswith("kafka_hdfs.lineage")] == list(METRICS)


def test_every_command_is_in_the_reference():
    (group,) = get_kafka_hdfs_cli_commands()
    named = {re.split(r" (?:-|[A-Z])", cell)[0] for cell in first_cells("cli.md")}
    assert named == set(commands(group))


def test_every_param_is_in_the_reference():
    assert sorted(first_cells("arguments.md", after="## Params of a run")) == sorted(ingest_params())
