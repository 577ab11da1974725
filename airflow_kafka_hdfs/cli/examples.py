"""What `--help` shows below the options: examples that can be typed, and what exit codes mean."""

from __future__ import annotations

from typing import Any

from airflow.cli.cli_config import GroupCommand

EXIT_CODES = (
    "exit codes: 0 done (also: nothing to do); 1 an error of ours with its next step, findings, or the answer was no; "
    "2 the command line can't be read"
)

EXAMPLES: dict[str, tuple[str, ...]] = {
    "info": ("info", "info --dag-id shop --probe", "info --output json"),
    "plan": ("plan --dag-id shop --dry-run", "plan --dag-id shop --dry-run --output json"),
    "state show": (
        "state show --dag-id shop --lag",
        "state show --destination webhdfs://namenode:9870/data --pipeline-id shop.ingest --output json",
    ),
    "state log": ("state log --dag-id shop --number 50", "state log --dag-id shop --output json"),
    "state doctor": ("state doctor --dag-id shop --output json", "state doctor --dag-id shop --look headers"),
    "state recover": ("state recover --dag-id shop", "state recover --dag-id shop --yes --output json"),
    "state set": (
        'state set --dag-id shop --topic orders --to earliest --reason "late start"',
        'state set --dag-id shop --topic orders --to 2026-11-30T00:00:00Z --reason "skip the flood" --yes',
        'state set --dag-id shop --topic orders --partition 3 --to 4711 --reason "over the record that stops it"',
        'state set --dag-id shop --cluster MkU3OEVBNTcwNTJENDM2Qg --reason "moved with its topics"',
    ),
    "state import": (
        'state import --dag-id shop --group connect-shop --reason "from Connect"',
        'state import --dag-id shop --file offsets.json --reason "from Camus"',
        'state import --dag-id shop --folder webhdfs://namenode:9870/topics --reason "from its file names"',
    ),
    "state release": ('state release orders --dag-id shop --reason "moves to pipeline shop2"',),
    "state rebuild": (
        'state rebuild --dag-id shop --reason "the state folder is lost"',
        'state rebuild --dag-id shop --from files --reason "there are no copies"',
    ),
    "state gc": ('state gc --dag-id shop --grace-hours 1 --reason "the disk is full"',),
    "quarantine list": ("quarantine list --dag-id shop",),
    "quarantine show": ("quarantine show --dag-id shop --topic orders --error unknown_schema --number 5",),
    "quarantine replay": ('quarantine replay --dag-id shop --topic orders --reason "schema 41 is back"',),
    "lineage init": ("lineage init", "lineage init --yes --output json"),
    "lineage load": ("lineage load --yes", "lineage load --forever --yes"),
    "lineage show": ("lineage show hdfs://namenode/data/orders --output json",),
    "lineage impact": ("lineage impact kafka://main/orders",),
    "lineage send": ("lineage send --dry-run", "lineage send --what all --yes"),
    "lineage prune": (
        "lineage prune --older-than 400d --dry-run",
        "lineage prune --older-than 400d --yes --output json",
    ),
    "lineage repair": ("lineage repair hdfs://namenode/data/orders --from 2026-11-01 --dry-run",),
}


def with_examples(command: Any, above: str = "") -> Any:
    """A command, or a group of them, with examples and exit codes below its options."""
    path = f"{above} {command.name}".strip()
    if isinstance(command, GroupCommand):
        inner = "" if not above and command.name == "kafka-hdfs" else path
        return command._replace(subcommands=tuple(with_examples(each, inner) for each in command.subcommands))
    lines = "; ".join(f"airflow kafka-hdfs {line}" for line in EXAMPLES.get(path, ()))
    return command._replace(epilog=f"examples: {lines}. {EXIT_CODES}" if lines else EXIT_CODES)
