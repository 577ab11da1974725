"""The runbook is tried: each symptom has tests that bring it about and mend it; commands in the docs are ours."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest

from tests.airflow.commands import all_commands

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])

TRIED = {
    "Lag grows": (
        "tests/airflow/test_cli_changes.py::test_a_plan_is_shown_to_scripts",
        "tests/airflow/test_cli.py::test_state_show_tells_watermarks_and_what_needs_care",
        "tests/unit/ingest/test_planning_faults.py::test_a_fault_of_one_topic_leaves_the_others_alone",
        "tests/integration/test_hard_topics.py::test_a_transaction_that_hangs_is_waited_for_and_one_that_timed_out_is_a_gap",
    ),
    "A run is red, but files are there": (
        "tests/airflow/test_runs.py::test_a_topic_that_fails_holds_back_itself_alone",
        "tests/integration/test_hard_topics.py::test_a_topic_that_is_denied_over_tls_is_named_and_the_others_commit",
    ),
    "A run is red, and `extract` left no manifest": (
        "tests/airflow/test_scheduler.py::test_clearing_one_failed_mapped_task_completes_the_same_plan",
        "tests/unit/ingest/test_live_plans.py::test_the_collector_ends_plans_of_dead_runs_and_spares_unpublished_commits",
    ),
    "Files are missing although the commit stands": (
        "tests/airflow/test_runbook.py::test_a_file_that_the_store_refuses_is_named_and_comes_in_once_there_is_room",
        "tests/airflow/test_runs.py::test_a_commit_that_a_store_refused_is_told_once_it_is_whole",
    ),
    "The state refuses to start: data stands there, but the log is empty": (
        "tests/unit/ingest/test_planning_owners.py::test_data_without_a_log_is_refused_and_names_the_way_out",
        "tests/unit/ingest/test_steering.py::test_a_lost_state_folder_is_rebuilt_from_the_copies_beside_the_data",
        "tests/unit/ingest/test_rebuilding.py::test_the_next_run_goes_on_where_the_files_end",
    ),
    "A record of the log is unreadable": (
        "tests/unit/ingest/test_doctor.py::test_an_unreadable_record_is_the_only_finding_since_nothing_after_it_counts",
        "tests/airflow/test_runbook.py::test_a_damaged_checkpoint_is_named_and_may_be_deleted",
    ),
    '"has format N, this version … reads up to M"': (
        "tests/upgrades/test_chains.py::test_a_record_of_a_newer_version_is_refused_with_both_numbers",
    ),
    "Bad records": (
        "tests/airflow/test_cli.py::test_bad_records_are_shown_and_replayed_once_with_who_and_why",
        "tests/unit/ingest/test_commit_chain.py::test_bad_records_over_the_limit_hold_the_topic_until_the_limit_is_raised",
    ),
    "Kafka has lost what was not read yet": (
        "tests/integration/test_hard_topics.py::test_what_retention_takes_between_plan_and_extract_is_counted_as_lost",
        "tests/unit/ingest/test_decisions_trouble.py::test_only_the_undecided_below_the_log_start_is_lost",
    ),
    '"the brokers answer with cluster id …"': (
        "tests/unit/ingest/test_planning_faults.py::test_another_cluster_is_refused",
        "tests/unit/ingest/test_steering.py::test_a_replaced_cluster_keeps_all_watermarks_under_the_present_topic_ids",
    ),
    "A topic was deleted and made again": (
        "tests/unit/ingest/test_decisions_trouble.py::test_a_topic_made_anew_is_another_one",
        "tests/integration/test_extraction.py::test_a_topic_made_anew_between_plan_and_extract_counts_for_nothing",
    ),
    "A topic shall be read from another point on": (
        "tests/unit/ingest/test_resets.py::test_back_lifts_skipped_and_leaves_covered_and_lost",
        "tests/airflow/test_cli_changes.py::test_a_changing_command_tells_scripts_in_one_object_what_it_did",
    ),
    "Another pipeline owns the topic": (
        "tests/unit/ingest/test_planning_owners.py::test_a_second_pipeline_is_refused_with_both_names_and_changes_nothing",
        "tests/unit/ingest/test_steering.py::test_a_released_topic_loses_its_owner_file_only_after_the_commit",
    ),
    "Staging takes much space": (
        "tests/airflow/test_cli_changes.py::test_gc_writes_the_reason_into_the_records_that_end_plans",
        "tests/unit/ingest/test_live_plans.py::test_staging_without_a_plan_goes_once_no_listing_can_have_missed_its_plan",
    ),
    "The machine's clock was wrong": (
        "tests/unit/ingest/test_live_plans.py::test_a_plan_made_while_the_clock_was_set_back_is_there_when_the_gate_reads_it",
    ),
}


def test_every_symptom_of_the_runbook_is_tried():
    headings = re.findall(r"^## (.*)$", (DOCS / "how-to/runbook.md").read_text(), flags=re.MULTILINE)
    assert headings == list(TRIED)


@pytest.mark.parametrize("node", sorted({node for nodes in TRIED.values() for node in nodes}))
def test_what_tries_it_is_there(node):
    path, _, name = node.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()


def commands_in_docs() -> list[tuple[str, str]]:
    """(page, words) of everything in code that begins as one of our commands does."""
    names = "|".join(sorted({path.split()[0] for path in all_commands()}))
    found = []
    for page in PAGES:
        for code in re.findall(r"`([^`\n]+)`", page.read_text()) + page.read_text().splitlines():
            text = code.strip().split("#")[0].strip()
            text = text.removeprefix("airflow ").removeprefix("kafka-hdfs ") if "kafka-hdfs" in text else text
            words = text.split()
            if re.fullmatch(names, (words or [""])[0]) and " ".join(words[:2]) in all_commands():
                found.append((str(page.relative_to(ROOT)), text))
    return found


@pytest.mark.parametrize(("page", "text"), sorted(set(commands_in_docs())))
def test_commands_in_the_docs_have_the_options_that_they_show(page, text):
    words = shlex.split(text)
    arguments = all_commands()[" ".join(words[:2])].args
    kinds = {flag: argument.kwargs for argument in arguments for flag in argument.flags}
    for option, value in itertools.pairwise([*words[2:], ""]):
        if option.startswith("-"):
            assert option in kinds
            if "choices" in kinds[option]:
                assert value in kinds[option]["choices"]


def test_the_docs_name_commands():
    assert {page for page, _ in commands_in_docs()} >= {"docs/how-to/runbook.md", "docs/reference/cli.md"}


def test_a_file_that_the_store_refuses_is_named_and_comes_in_once_there_is_room(pipeline, command, tmp_path, capsys):
    (entry,) = next(record for record, _ in pipeline.ctx.log.records([2])).files
    in_the_way = tmp_path / entry.path
    in_the_way.parent.mkdir(parents=True, exist_ok=True)
    in_the_way.write_text("somebody's own file")
    with pytest.raises(SystemExit, match="1 files were refused: mend the store"):
        command("state", "recover", "--yes")
    assert entry.path in capsys.readouterr().err
    assert "files not all in place: commits 2" in command("state", "show")
    in_the_way.unlink()
    assert "finished commits 2" in command("state", "recover", "--yes")
    assert in_the_way.stat().st_size == entry.size


def test_a_damaged_checkpoint_is_named_and_may_be_deleted(pipeline, command, tmp_path, monkeypatch):
    from airflow_kafka_hdfs.ingest import log

    monkeypatch.setattr(log, "CHECKPOINT_EVERY", 1)
    assert pipeline.ctx.log.checkpoint_if_due(pipeline.ctx.log.read()) == 2
    (path,) = (tmp_path / ".kafka_hdfs/p/checkpoints").rglob("2")
    path.write_bytes(b"torn")
    with pytest.raises(SystemExit):
        command("state", "doctor")
    with pytest.raises(SystemExit, match="CorruptStateError: checkpoints/0/2"):
        command("state", "show")
    path.unlink()
    assert "events[0]" in command("state", "show")
