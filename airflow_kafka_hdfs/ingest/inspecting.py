"""What people ask of a pipeline's state, and finishing what a dead run left: the functions behind the command line."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_kafka_hdfs.ingest.context import Context
from airflow_kafka_hdfs.ingest.plan_book import NEWEST_PLANS, all_plans, standing
from airflow_kafka_hdfs.ingest.publishing import Refusal, roll_forward_all
from airflow_kafka_hdfs.ingest.ranges import Ranges
from airflow_kafka_hdfs.ingest.records import Commit, PartitionKey
from airflow_kafka_hdfs.ports.kafka import TopicCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStanding:
    """How far one partition is.

    Attributes:
        watermark: end of the unbroken decided range from the start point.
        ahead: decided ranges beyond the watermark: holes lie before them.
        covered, skipped, lost: number of offsets.
    """

    key: PartitionKey
    start: int
    watermark: int
    ahead: Ranges
    covered: int
    skipped: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPlan:
    """A plan of which a commit may still come.

    Attributes:
        alive: whether its run is at work, None where nobody can tell.
        undecided: number of units without a commit.
    """

    plan: str
    dag_id: str
    run_id: str
    alive: bool | None
    undecided: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStanding:
    """A pipeline's state.

    Attributes:
        head: number of the last commit, -1 for none.
        partitions: current identities, by topic and partition.
        unpublished: commits whose files are not all in place.
        unannounced: published commits whose events are not known to be stored.
        open_plans: newest first.
    """

    pipeline: str
    state: str
    head: int
    partitions: tuple[PartitionStanding, ...]
    unpublished: tuple[int, ...]
    unannounced: tuple[int, ...]
    open_plans: tuple[OpenPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What `recover` did.

    Attributes:
        commits: numbers of commits that had no marker.
        refusals: files that the store refused; their commits still have none.
    """

    commits: tuple[int, ...]
    refusals: tuple[Refusal, ...]


def inspect(ctx: Context) -> PipelineStanding:
    """A pipeline's state; reads only.

    Raises:
        CorruptStateError, NewerFormatError, StoreUnavailableError, StoreRefusedError: the log can't be read.
    """
    plans = list(all_plans(ctx, NEWEST_PLANS))
    view = ctx.log.read(since=min((plan.log_head for plan in plans), default=None))
    unpublished = ctx.log.unpublished(view)
    partitions = []
    for _, key in sorted(view.state.current.items()):
        coverage = view.state.coverage[key]
        partitions.append(
            PartitionStanding(
                key=key,
                start=coverage.start,
                watermark=coverage.watermark,
                ahead=coverage.decided.from_on(coverage.watermark),
                covered=len(coverage.covered),
                skipped=len(coverage.skipped),
                lost=len(coverage.lost),
            )
        )
    open_plans = []
    for plan in plans:
        state = standing(view, plan)
        if state.is_open:
            open_plans.append(
                OpenPlan(
                    plan=plan.plan,
                    dag_id=plan.run.dag_id,
                    run_id=plan.run.run_id,
                    alive=ctx.run_states.is_alive(plan.run),
                    undecided=len(state.undecided),
                )
            )
    return PipelineStanding(
        pipeline=ctx.pipeline,
        state=ctx.state.root,
        head=view.head,
        partitions=tuple(partitions),
        unpublished=tuple(unpublished),
        unannounced=tuple(n for n in ctx.log.unannounced(view) if n not in set(unpublished)),
        open_plans=tuple(open_plans),
    )


def lags(ctx: Context, catalog: TopicCatalog) -> dict[PartitionKey, int | str]:
    """Current partition -> offsets that committed readers could read and that are not decided; a code where unknown.

    Raises:
        KafkaUnavailableError: the brokers do not answer.
    """
    state = ctx.log.read().state
    places = {key.topic_partition: key for key in state.current.values()}
    found: dict[PartitionKey, int | str] = {}
    for place, offsets in (catalog.offsets(list(places)) if places else {}).items():
        key = places[place]
        if isinstance(offsets, str):
            found[key] = offsets
        else:
            found[key] = len(state.coverage[key].undecided(offsets.log_start, offsets.last_stable))
    return found


def newest_commits(ctx: Context, most: int) -> list[Commit]:
    """The last commits, newest first. Raises as `inspect`."""
    head = ctx.log.read().head
    found = ctx.log.records(range(max(head - most + 1, 0), head + 1))
    return [commit for commit, _ in reversed(found)]


def unfinished(ctx: Context) -> list[Commit]:
    """Commits whose files are not all known to be in place, in order. Raises as `inspect`."""
    return [commit for commit, _ in ctx.log.records(ctx.log.unpublished(ctx.log.read()))]


def recover(ctx: Context) -> Recovered:
    """Bring the files of every commit without a marker into place; safe at any time, beside any run.

    Raises:
        CorruptStateError: a file that a commit lists is gone.
        StoreUnavailableError: doing it again goes on where it stopped.
    """
    view = ctx.log.read()
    numbers = ctx.log.unpublished(view)
    return Recovered(commits=tuple(numbers), refusals=tuple(roll_forward_all(ctx, view)))
