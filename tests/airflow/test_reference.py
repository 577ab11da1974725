"""The reference names every metric, command and Param that there is, and none that is not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from airflow.cli.cli_config import GroupCommand

from airflow_kafka_hdfs import KafkaToHdfsDag, KafkaToHdfsTaskGroup
from airflow_kafka_hdfs.cli.definition import get_kafka_hdfs_cli_commands
from airflow_kafka_hdfs.get_provider_info import get_provider_info
from airflow_kafka_hdfs.operators.reporting import METRICS
from airflow_kafka_hdfs.operators.requests import ingest_params

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def section(page: str, heading: str) -> str:
    """A page from a heading to the next one."""
    text = (REFERENCE / page).read_text()
    return text[text.index(f"{heading}\n") :].split("\n## ")[0]


def first_cells(page: str, after: str = "") -> list[str]:
    """What stands between backticks in the first column of the tables of a page, from a heading on."""
    text = (REFERENCE / page).read_text()
    text = text[text.index(after) :]
    return quoted_first(text)


def quoted_first(text: str) -> list[str]:
    cells = re.findall(r"^\| (?:✎ )?(`[^|]*`)(?: \([^|]*\))? \|", text, flags=re.MULTILINE)
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


FORM = {"host", "port", "login", "password"}


@pytest.mark.parametrize("form", get_provider_info()["connection-types"], ids=lambda form: form["connection-type"])
def test_every_field_of_our_connection_forms_is_in_the_reference(form):
    shown = FORM - set(form["ui-field-behaviour"]["hidden-fields"]) | set(form["conn-fields"])
    assert set(quoted_first(section("connections.md", f"## `{form['connection-type']}`"))) == shown


@pytest.mark.parametrize("name", sorted(get_provider_info()["config"]))
def test_every_option_of_airflow_cfg_is_in_the_reference_with_its_default(name):
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", section("connections.md", f"## `[{name}]`"), flags=re.MULTILINE)
    told = {option: None if default == "none" else default.strip("`") for option, default in rows}
    options = get_provider_info()["config"][name]["options"]
    assert told == {option: about["default"] or None for option, about in options.items()}


def test_every_argument_of_the_group_and_the_dag_is_in_the_reference():
    own = {
        name
        for shape in (KafkaToHdfsTaskGroup, KafkaToHdfsDag)
        for name, parameter in inspect.signature(shape.__init__).parameters.items()
        if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }
    named = set(quoted_first(section("arguments.md", "## Of the task group and the DAG")))
    # What the DAG sets otherwise than Airflow does is told too; `dag_id` is Airflow's own.
    assert named == own - {"dag_id"} | {"max_active_runs", "catchup"}
