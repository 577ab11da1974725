"""The gate's judgement: is everything that a plan promised decided, and if not, why and what next.

It judges by the plan, the manifests' commits and the log's sum alone, so it may be asked again at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_hdfs.ingest.committing import ALREADY_COVERED, RELEASED
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.log import LogView
from airflow_kafka_hdfs.ingest.plan_book import PlanStanding, standing
from airflow_kafka_hdfs.ingest.plans import Plan, UnitPlan
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Held, Kind, Outcome, PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the gate says.

    Attributes:
        faults: one line per topic or commit, with the next step; empty for a green run.
        waiting_for: plans of live runs that hold ranges of an interval run and are not settled yet.
    """

    faults: tuple[str, ...] = ()
    waiting_for: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        """Nothing held back, nothing undecided."""
        return not self.faults and not self.waiting_for


def judge(ctx: Context, plan: Plan, *, wait: bool = True) -> Verdict:
    """Judge a run by its plan.

    Args:
        plan: the plan, as stored.
        wait: whether ranges that live runs hold may still be waited for; False once the time for it is over.
    """
    view = ctx.log.read(since=min([plan.log_head, *(waiting.log_head for waiting in plan.waiting)]))
    state = standing(view, plan)
    if state.aborted is not None:
        ended = state.aborted
        return Verdict(
            faults=(f"plan {plan.plan} was ended by commit {ended.number} ({ended.why}): clear `plan` to plan anew",)
        )
    waiting = _waiting_for(plan, view) if wait else ()
    faults = [
        *_held(plan, view, state),
        *_undecided(plan, view, state),
        *_beyond_the_end(plan, view),
        *(() if waiting else _open_ranges_of_others(plan, view)),
        *_unpublished(ctx, state),
    ]
    return Verdict(faults=tuple(faults), waiting_for=waiting)


def _held(plan: Plan, view: LogView, state: PlanStanding) -> list[str]:
    """Topics held at planning and not taken up since; then those of the plan's own last record.

    A later continuous run goes on at the watermark, so it takes up what an earlier one held. What it reads says nothing
    of the date range that a held topic was to be read for, nor a date range anything of the watermark.
    """
    later: set[str] = set()
    if plan.kind is Kind.FORWARD:
        later = {
            change.key.topic
            for number, commit in view.records.items()
            if number > plan.log_head and commit.kind is Kind.FORWARD and commit.plan not in (None, plan.plan)
            for change in commit.changes
        }
    step = "" if plan.kind is Kind.FORWARD else "; for this date range, clear `plan` once that is mended"
    lines = [_line(held) + step for held in plan.held if held.topic not in later]
    undecided = {topic for _, topic in state.undecided}
    named = {held.topic for held in plan.held}
    if state.commits:
        lines += [_line(held) for held in state.commits[-1].held if held.topic in undecided - named]
    return lines


def _line(held: Held) -> str:
    return f"topic {held.topic} is held back: {held.reason}: {held.detail}"


def _undecided(plan: Plan, view: LogView, state: PlanStanding) -> list[str]:
    """Units whose offsets are undecided for another reason than a limit of a continuous run."""
    explained = {held.topic for held in (state.commits[-1].held if state.commits else ())}
    outcomes = {
        (unit.task, unit.topic): unit.outcome for commit in state.commits for unit in (*commit.units, *commit.dropped)
    }
    lines = []
    for unit, planned in sorted(plan.units.items()):
        outcome = outcomes.get(unit)
        limited_is_fine = outcome == Outcome.LIMITED and plan.kind is Kind.FORWARD
        if outcome in (ALREADY_COVERED, RELEASED) and plan.kind is Kind.REPLACE:
            lines.append(f"topic {unit[1]}: nothing was replaced ({outcome}): clear `plan`")
            continue
        if outcome in (ALREADY_COVERED, RELEASED) and plan.kind is not Kind.INTERVAL or limited_is_fine:
            continue
        left = _left(plan, view, planned)
        if not left or (outcome is None and unit[1] in explained):
            continue
        ranges = "; ".join(f"{key}: {spans}" for key, spans in sorted(left.items()))
        lines.append(f"topic {unit[1]}: undecided offsets of extract[{unit[0]}]: {ranges}: {_next_step(plan, outcome)}")
    return lines


def _beyond_the_end(plan: Plan, view: LogView) -> list[str]:
    """Offsets that a date range stands for and that could not be read yet: an open transaction holds them back."""
    planned = plan.ranges()
    left_to_others: dict[PartitionKey, Ranges] = {}
    for waiting in plan.waiting:
        left_to_others[waiting.key] = left_to_others.get(waiting.key, Ranges()) | waiting.ranges
    lines = []
    for entry in plan.entries:
        coverage = view.state.coverage.get(entry.key)
        settled = Ranges() if coverage is None else coverage.settled
        known = settled | planned.get(entry.key, Ranges()) | left_to_others.get(entry.key, Ranges())
        if left := entry.promised - known:
            lines.append(
                f"topic {entry.key.topic}: {entry.key}: {left} of the date range lie beyond the last stable offset "
                f"{entry.log_end}: a transaction was open; run the same interval again once it has ended"
            )
    return lines


def _left(plan: Plan, view: LogView, planned: UnitPlan) -> dict[PartitionKey, Ranges]:
    left = {}
    for key, ranges in planned.ranges().items():
        coverage = view.state.coverage.get(key)
        settled = Ranges() if coverage is None else coverage.decided if plan.kind is Kind.FORWARD else coverage.settled
        if rest := ranges - settled:
            left[key] = rest
    return left


def _next_step(plan: Plan, outcome: str | None) -> str:
    if outcome is None:
        return "clear the failed extract tasks with everything after them"
    if plan.kind is Kind.FORWARD:
        return "they went back to the log: clear `plan`, or the next run reads them"
    return "run the same interval again, it goes on there"


def _waiting_for(plan: Plan, view: LogView) -> tuple[str, ...]:
    """Plans that hold ranges of this run and have no record in the log yet."""
    settled = {commit.plan for commit in view.records.values()}
    return tuple(sorted({waiting.plan for waiting in plan.waiting} - settled))


def _open_ranges_of_others(plan: Plan, view: LogView) -> list[str]:
    lines = []
    for waiting in plan.waiting:
        coverage = view.state.coverage.get(waiting.key)
        if left := waiting.ranges - (coverage.settled if coverage else Ranges()):
            lines.append(
                f"topic {waiting.key.topic}: {waiting.key}: {left} were left to plan {waiting.plan} of another run, "
                "which did not read them: clear `plan`"
            )
    return lines


def _unpublished(ctx: Context, state: PlanStanding) -> list[str]:
    lines = []
    for commit in state.commits:
        if commit.has_effects and ctx.state.status(ctx.log.paths.published(commit.number)) is None:
            lines.append(
                f"commit {commit.number} is made, but not all its files are in place (see the log of `publish`): "
                "mend the store, then clear `publish` or run `airflow kafka-hdfs state recover`; nothing is read again"
            )
    return lines
