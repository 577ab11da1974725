"""Topics that the log covers nothing of yet: whose they are, and taking them.

Owners are looked at before anything is decided for good. The claims themselves are small files, which take their time
on HDFS, so they are made beside the record of start points. A process that dies between the two, or a pipeline that
loses a race for a topic, leaves a record that speaks of a topic without owning it: so a topic is claimed by every plan
until the log covers something of it, and no plan reads what could not be claimed. For the same reason a start point
alone does not tell that data of a topic are this pipeline's: where nobody owns the topic, another pipeline may have
owned it meanwhile and given it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from airflow_kafka_hdfs.exceptions import StateMissingError
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.coverage import LogState
from airflow_kafka_hdfs.ingest.decisions import Decisions
from airflow_kafka_hdfs.ingest.ownership import (
    check_log,
    claim,
    claim_log,
    find_data,
    hold_foreign,
    of_others,
    owners_of,
    refuse_foreign,
)
from airflow_kafka_hdfs.ingest.reasons import HeldReason
from airflow_kafka_hdfs.ingest.records import Held


def newcomers(state: LogState, decided: Decisions) -> set[str]:
    """Topics with start points or ranges of which the log covers nothing, so that their owner is not certain."""
    wanted = {change.key.topic for change in decided.changes if change.start is not None}
    return uncovered(state, wanted.union(key.topic for key in decided.ranges)) - state.released


def uncovered(state: LogState, topics: Collection[str]) -> set[str]:
    """Those of some topics of which the log covers nothing."""
    return set(topics) - {key.topic for key, coverage in state.coverage.items() if coverage.covered}


def without_foreign(
    ctx: Context, config: IngestConfig, state: LogState, decided: Decisions, chosen: Collection[str] = ()
) -> Decisions:
    """Hold newcomers back that are of others or have data of unknown origin; changes nothing.

    Args:
        ctx: ports of this run.
        config: the deployed configuration.
        state: the log's sum.
        decided: what would be read.
        chosen: topics whose start points somebody chose for this run, knowing what stands there.

    Raises:
        OwnedElsewhereError: the pipeline would be new, and all that it could read is of others.
        StateMissingError: data of ours stand there, and the log has no word of anything.
    """
    new = newcomers(state, decided)
    owners = owners_of(ctx, new)
    foreign = of_others(ctx, owners)
    if state.head < 0 and not {entry.key.topic for entry in decided.entries} - foreign.keys():
        refuse_foreign(ctx, foreign)
    decided = decided.holding(hold_foreign(ctx, foreign))
    known = {key.topic for key in state.coverage} & {*owners, *chosen}
    return decided.holding(_of_unknown_origin(ctx, config, state, new - foreign.keys() - known))


def take(
    ctx: Context, config: IngestConfig, topics: Collection[str], *, beside: Callable[[], bool] | None = None
) -> tuple[bool, list[Held]]:
    """Claim the log, if nobody owns it, and topics; doing it again is harmless.

    Args:
        ctx: ports of this run.
        config: the deployed configuration.
        topics: what `newcomers` told.
        beside: an append of a record that may stand without the claims.

    Returns:
        What `beside` returned (True without it), and the topics that another pipeline was faster to claim.

    Raises:
        OwnedElsewhereError: another pipeline was faster to claim the log.
    """
    foreign: dict[str, str] = {}

    def take_log() -> bool:
        claim_log(ctx, config.state_uri)
        return True

    def take_topics() -> bool:
        foreign.update(claim(ctx, topics))
        return True

    steps = [] if beside is None else [beside]
    steps += [] if check_log(ctx, config.state_uri) else [take_log]
    steps += [take_topics] if topics else []
    made = ctx.workers.map(lambda step: step(), steps)
    return all(made), hold_foreign(ctx, foreign)


def _of_unknown_origin(ctx: Context, config: IngestConfig, state: LogState, new: Collection[str]) -> list[Held]:
    """Topics of which the log tells nothing for certain, although files with our names stand where theirs go.

    Raises:
        StateMissingError: the log has no word of anything.
    """
    asked = sorted(new)
    templates = [config.topic(topic).config.path_template for topic in asked]
    found = ctx.workers.map(lambda pair: find_data(ctx, *pair), zip(asked, templates, strict=True))
    there = {topic: path for topic, path in zip(asked, found, strict=True) if path is not None}
    if there and state.head < 0:
        raise StateMissingError(
            f"data of {', '.join(there)} stands below {ctx.data.root} (such as {next(iter(there.values()))}), "
            f"but the commit log at {ctx.state.root} is empty; starting afresh would write records a second time. "
            "Restore the state folder, or rebuild it with `airflow kafka-hdfs state rebuild` (`--from files` where "
            "there are no copies of its records); for data of another pipeline use `state import`, or start a topic at "
            "a chosen point with the Param `reset`"
        )
    return [
        Held(
            topic=topic,
            reason=HeldReason.DATA_WITHOUT_STATE,
            detail=f"{path} stands there, but this pipeline's log covers nothing of the topic: take its state over "
            "with `airflow kafka-hdfs state import`, or start it at a chosen point with the Param `reset`",
        )
        for topic, path in there.items()
    ]
