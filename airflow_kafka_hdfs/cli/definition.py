"""The commands as Airflow's parser wants them; nothing of ours is loaded before one is run."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from airflow.cli import cli_config
from airflow.cli.cli_config import ActionCommand, CLICommand, GroupCommand, lazy_load_command

from airflow_kafka_hdfs.cli.examples import with_examples
from airflow_kafka_hdfs.cli.lineage import lineage_commands

_COMMANDS = "airflow_kafka_hdfs.cli.commands"
_STEERING = "airflow_kafka_hdfs.cli.steering"
_QUARANTINE = "airflow_kafka_hdfs.cli.quarantine"

Arg: Any = cli_config.Arg  # Airflow gives it no types


def _words(text: str) -> str:
    """A text with something in it."""
    if not text.strip():
        raise ArgumentTypeError("got nothing; say in a few words why, for those who read the log later")
    return text.strip()


ARG_DAG_ID = Arg(("-d", "--dag-id"), help="DAG of the pipeline; its file is loaded for the arguments")
ARG_CHECK_DAG_ID = Arg(("-d", "--dag-id"), help="also try whether this DAG reaches brokers, registry and store")
ARG_PROBE = Arg(
    ("--probe",),
    help="with --dag-id: try whether the store creates atomically; writes small hidden files and deletes them",
    action="store_true",
)
ARG_LAG = Arg(("--lag",), help="ask the brokers how far behind each partition is; with --dag-id", action="store_true")
ARG_GROUP_ID = Arg(("-g", "--group-id"), help="task group in it, if it has several ingestions")
ARG_DESTINATION = Arg(("--destination",), help="instead of a DAG: the destination's URI")
ARG_PIPELINE_ID = Arg(("--pipeline-id",), help="with --destination: id of the pipeline, such as <dag_id>.<group_id>")
ARG_STATE_URI = Arg(("--state-uri",), help="where the records are: alone, or beside --destination if elsewhere")
ARG_STORAGE_CONN_ID = Arg(("--storage-conn-id",), help="connection of that URI; by default one by scheme")
ARG_OUTPUT = Arg(("-o", "--output"), help="table or json", choices=("table", "json"), default="table")
_NUMBER = cli_config.positive_int(allow_zero=False)
ARG_COUNT = Arg(("-n", "--number"), help="how many commits", type=_NUMBER, default=20)
ARG_RECORDS = Arg(("-n", "--number"), help="how many records", type=_NUMBER, default=20)
ARG_DRY_RUN = Arg(("--dry-run",), help="required: show the plan, read and write nothing", action="store_true")
ARG_VERBOSE = cli_config.ARG_VERBOSE

ARG_YES = Arg(("-y", "--yes"), help="do it without asking", action="store_true")
ARG_REASON = Arg(("--reason",), help="why, for the commit", required=True, type=_words)
ARG_TOPIC = Arg(("--topic",), help="topic or regex")
ARG_TO = Arg(("--to",), help="earliest, latest or an ISO time with a zone; with --partition: an offset")
ARG_PARTITION = Arg(
    ("--partition",),
    help="with --topic, which is no regex then: move this partition alone, to an offset",
    type=cli_config.positive_int(allow_zero=True),
)
ARG_CLUSTER = Arg(("--cluster",), help="instead of --topic: id of the cluster that took the place of the known one")
ARG_TOPICS = Arg(("topics",), help="topics to give up", nargs="+")
ARG_FILE = Arg(("--file",), help='JSON: {"topic": {"0": 120}}, the first offset to read per partition')
ARG_GROUP = Arg(("--group",), help="consumer group whose committed offsets count")
ARG_FOLDER = Arg(("--folder",), help="URI of a folder of files with offsets in their names, such as Kafka Connect's")
ARG_PATTERN = Arg(("--pattern",), help="with --folder: regex with groups topic, partition, last and perhaps first")
ARG_GRACE = Arg(("--grace-hours",), help="age below which nothing is touched; by default gc_grace", type=float)
ARG_SOURCE = Arg(
    ("--from",),
    dest="source",
    help="copies of records beside the data (where state_uri lies elsewhere), or what data files tell of themselves",
    choices=("copies", "files"),
    default="copies",
)
ARG_ASSUME = Arg(
    ("--assume-planned",),
    help="with --from files: take plans for read to their ends where file names do not prove it",
    action="store_true",
)
ARG_LOOK = Arg(
    ("--look",),
    help="into live files: sizes (from outside), headers (some kilobytes of each), whole (every byte)",
    choices=("sizes", "headers", "whole"),
    default="sizes",
)

ARG_ONLY_TOPIC = Arg(("--topic",), help="records of this topic alone")
ARG_PATH = Arg(("--path",), help="records of this quarantine file alone, as `quarantine list` names it")
ARG_ERROR = Arg(("--error",), help="records that are bad for this reason alone, such as unknown_schema")
_WHICH_BAD = (ARG_ONLY_TOPIC, ARG_PATH, ARG_ERROR)

_CHANGE = (ARG_YES, ARG_OUTPUT)
"""Of every command that changes something."""
_COMMIT = (ARG_REASON, *_CHANGE)
"""Of those whose change is a commit, or may be one."""

_PIPELINE = (
    ARG_DAG_ID,
    ARG_GROUP_ID,
    ARG_DESTINATION,
    ARG_PIPELINE_ID,
    ARG_STATE_URI,
    ARG_STORAGE_CONN_ID,
    ARG_VERBOSE,
)


def get_kafka_hdfs_cli_commands() -> list[CLICommand]:
    """The group `kafka-hdfs`, with examples and exit codes in the help of each command."""
    return [with_examples(command) for command in _commands()]


def _commands() -> list[CLICommand]:
    return [
        GroupCommand(
            name="kafka-hdfs",
            help="Look after Kafka to HDFS pipelines",
            subcommands=(
                ActionCommand(
                    name="info",
                    help="Version, optional parts, connections, tiers; with --dag-id: what works and what does not",
                    func=lazy_load_command(f"{_COMMANDS}.info"),
                    args=(ARG_CHECK_DAG_ID, ARG_GROUP_ID, ARG_PROBE, ARG_OUTPUT, ARG_VERBOSE),
                ),
                ActionCommand(
                    name="plan",
                    help="Show what the next run would read",
                    func=lazy_load_command(f"{_COMMANDS}.plan"),
                    args=(ARG_DAG_ID, ARG_GROUP_ID, ARG_DRY_RUN, ARG_OUTPUT, ARG_VERBOSE),
                ),
                GroupCommand(
                    name="state",
                    help="Look at a pipeline's commit log, and mend it",
                    subcommands=(
                        ActionCommand(
                            name="show",
                            help="Watermarks, lag, last commits, open plans, commits in need of care",
                            func=lazy_load_command(f"{_COMMANDS}.state_show"),
                            args=(*_PIPELINE, ARG_LAG, ARG_OUTPUT),
                        ),
                        ActionCommand(
                            name="log",
                            help="The last commits",
                            func=lazy_load_command(f"{_COMMANDS}.state_log"),
                            args=(*_PIPELINE, ARG_COUNT, ARG_OUTPUT),
                        ),
                        ActionCommand(
                            name="recover",
                            help="Bring files of unfinished commits into place; safe at any time; shows and asks first",
                            func=lazy_load_command(f"{_STEERING}.state_recover"),
                            args=(*_PIPELINE, *_CHANGE),
                        ),
                        ActionCommand(
                            name="doctor",
                            help="Check log, records and files; exit code 1 if anything needs a hand",
                            func=lazy_load_command(f"{_COMMANDS}.state_doctor"),
                            args=(*_PIPELINE, ARG_LOOK, ARG_OUTPUT),
                        ),
                        ActionCommand(
                            name="set",
                            help="Move start points, or the state to another cluster id; shows and asks first",
                            func=lazy_load_command(f"{_STEERING}.state_set"),
                            args=(*_PIPELINE, ARG_TOPIC, ARG_TO, ARG_PARTITION, ARG_CLUSTER, *_COMMIT),
                        ),
                        ActionCommand(
                            name="import",
                            help="Take over where another tool ended, from one of three sources; shows and asks first",
                            func=lazy_load_command(f"{_STEERING}.state_import"),
                            args=(*_PIPELINE, ARG_FILE, ARG_GROUP, ARG_FOLDER, ARG_PATTERN, *_COMMIT),
                        ),
                        ActionCommand(
                            name="release",
                            help="Give topics up, so that another pipeline may own them; shows and asks first",
                            func=lazy_load_command(f"{_STEERING}.state_release"),
                            args=(ARG_TOPICS, *_PIPELINE, *_COMMIT),
                        ),
                        ActionCommand(
                            name="rebuild",
                            help="Bring a lost log back, from copies or from data files; shows and asks first",
                            func=lazy_load_command(f"{_STEERING}.state_rebuild"),
                            args=(*_PIPELINE, ARG_SOURCE, ARG_ASSUME, *_COMMIT),
                        ),
                        ActionCommand(
                            name="gc",
                            help="Clean what dead runs left, now instead of at the next publish; shows and asks first",
                            func=lazy_load_command(f"{_STEERING}.state_gc"),
                            args=(*_PIPELINE, ARG_GRACE, *_COMMIT),
                        ),
                    ),
                ),
                *lineage_commands(),
                GroupCommand(
                    name="quarantine",
                    help="Bad records: what they are, and taking them in once their cause is mended",
                    subcommands=(
                        ActionCommand(
                            name="list",
                            help="Quarantine files that the log lists",
                            func=lazy_load_command(f"{_QUARANTINE}.quarantine_list"),
                            args=(*_PIPELINE, ARG_OUTPUT),
                        ),
                        ActionCommand(
                            name="show",
                            help="Single bad records: where they stood, why they are bad, what they hold",
                            func=lazy_load_command(f"{_QUARANTINE}.quarantine_show"),
                            args=(*_PIPELINE, *_WHICH_BAD, ARG_RECORDS, ARG_OUTPUT),
                        ),
                        ActionCommand(
                            name="replay",
                            help="Decode bad records again and commit what is good now; shows and asks first",
                            func=lazy_load_command(f"{_QUARANTINE}.quarantine_replay"),
                            args=(*_PIPELINE, *_WHICH_BAD, *_COMMIT),
                        ),
                    ),
                ),
            ),
        )
    ]
