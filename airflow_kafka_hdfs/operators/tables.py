"""Plans and results as text tables, for task logs and the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from airflow_kafka_hdfs.ingest.plans import Plan, PlanEntry
from airflow_kafka_hdfs.ingest.records import Commit, sum_counts

MOST_PARTITIONS = 200
"""A longer list of partitions helps nobody; the list of topics tells the same in short."""


def plan_table(plan: Plan, *, whole: bool = False) -> str:
    """What a plan will do.

    Args:
        whole: list every partition, however many there are.
    """
    tasks: dict[str, set[int]] = {}
    for index, topic in plan.units:
        tasks.setdefault(topic, set()).add(index)
    held = {item.topic: item for item in plan.held}
    looked_at: dict[str, list[PlanEntry]] = {}
    for entry in plan.entries:
        looked_at.setdefault(entry.key.topic, []).append(entry)
    topics = sorted(looked_at.keys() | tasks.keys() | held.keys())
    lines = [f"plan {plan.plan}: {_what(plan)}, {len(topics)} topics, {len(plan.entries)} partitions looked at"]
    rows = []
    for topic in topics:
        entries = looked_at.get(topic, [])
        rows.append(
            (
                topic,
                len(entries),
                sum(len(entry.ranges) for entry in entries),
                len(tasks.get(topic, ())),
                f"held back: {held[topic].reason}" if topic in held else _reasons(entries),
            )
        )
    lines += table(("topic", "partitions", "offsets", "tasks", "reasons"), rows)
    if whole or len(plan.entries) <= MOST_PARTITIONS:
        lines += ["", *table(_PARTITION_COLUMNS, [_partition_row(entry) for entry in plan.entries])]
    lines += [f"{item.topic}: {item.reason}: {item.detail}" for item in plan.held]
    return "\n".join(lines)


def commit_table(commit: Commit) -> str:
    """What a commit made true, by topic."""
    topics = sorted({change.key.topic for change in commit.changes} | {unit.topic for unit in commit.units})
    rows = []
    for topic in topics:
        counts = sum_counts(change.counts for change in commit.changes if change.key.topic == topic)
        files = [entry for entry in commit.files if entry.topic == topic and not entry.quarantine]
        rows.append(
            (
                topic,
                counts.read,
                counts.written,
                counts.quarantined,
                counts.filtered,
                counts.gaps,
                counts.lost,
                counts.skipped,
                len(files),
            )
        )
    head = ("topic", "read", "written", "quarantined", "filtered", "gaps", "lost", "skipped", "files")
    lines = [f"commit {commit.number} ({commit.kind}):", *table(head, rows)]
    lines += [f"{item.topic} is held back: {item.reason}: {item.detail}" for item in commit.held]
    return "\n".join(lines)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a table: numbers to the right, text to the left."""
    cells = [list(head), *([f"{value:,}" if isinstance(value, int) else str(value) for value in row] for row in rows)]
    numeric = [all(_is_number(row[i]) for row in cells[1:]) and len(cells) > 1 for i in range(len(head))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        parts = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(parts).rstrip())
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


_PARTITION_COLUMNS = ("partition", "reason", "watermark", "to read", "log start", "log end", "lost", "skipped")


def _partition_row(entry: PlanEntry) -> tuple[object, ...]:
    return (
        str(entry.key),
        entry.reason,
        "-" if entry.previous is None else entry.previous,
        str(entry.ranges),
        entry.log_start,
        entry.log_end,
        entry.lost,
        entry.skipped,
    )


def _what(plan: Plan) -> str:
    kind = str(plan.kind)
    if plan.interval is not None:
        kind += f" of {plan.interval[0]} to {plan.interval[1]}"
    return f"{'dry run of ' if plan.dry_run else ''}{kind}, {len(plan.tasks)} tasks"


def _reasons(entries: Iterable[PlanEntry]) -> str:
    counts = Counter(entry.reason for entry in entries)
    return ", ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in sorted(counts.items()))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(",", "").lstrip("-").isdigit()
