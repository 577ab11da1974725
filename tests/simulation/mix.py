"""What happens in one seed: which trouble there is, and which actors work at the same time."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from unittest import mock

from airflow_kafka_hdfs.ingest import log
from airflow_kafka_hdfs.ingest.requests import PlanRequest
from airflow_kafka_hdfs.ingest.settings import Limits
from tests.fakes.recall import remembered_records
from tests.fakes.runtime import START
from tests.simulation.plain import plain_values
from tests.simulation.world import STRANGER, TOPIC, Variant, World, check_errors

VARIANTS = (
    Variant(crash_share=0.0),
    Variant(crash_share=0.032),
    Variant(crash_share=0.016, lost_answers=0.1),
    Variant(crash_share=0.016, stale_listings=0.5),
    Variant(crash_share=0.008, lost_answers=0.05, stale_listings=0.2),
)

Body = Callable[[], None]


@contextmanager
def small_world() -> Iterator[None]:
    """Checkpoints after a few commits, so that short histories have some.

    For speed records are decoded once, and values are made without their guard.
    """
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(log, "CHECKPOINT_EVERY", 3))
        stack.enter_context(remembered_records(most=500))
        stack.enter_context(plain_values())
        yield


def simulate(seed: int) -> World:
    """Run one seed to its end.

    Raises:
        Violation: an invariant is broken.
    """
    chance = random.Random(f"mix/{seed}")
    policy = chance.choice(("full", "successful", "partial"))
    variant = dataclasses.replace(
        chance.choice(VARIANTS), stickiness=chance.choice((0.0, 0.5, 0.9)), copies=chance.random() < 0.3
    )
    # Lines of JSON all of them, read one by one or in whole batches.
    formats = random.Random(f"formats/{seed}").choice((("json", "jsonl"), ("bytes", "raw")))
    world = World(seed, variant, {"publish_policy": policy, "value_format": formats[0], "file_format": formats[1]})
    world.bad_share = chance.choice((0.0, 0.0, 0.3)) if formats[0] == "json" else 0.0
    _history(world, chance)
    actors = chance.sample(_actors(world, chance), chance.randint(2, 4))
    special = _special_actors(world, random.Random(f"special/{seed}"))
    actors[: len(special)] = special
    for name, body in actors:
        world.scheduler.spawn(name, body)
    world.scheduler.run()
    check_errors(world)
    world.settle()
    return world


def _history(world: World, chance: random.Random) -> None:
    """What there is before the actors begin: records, holes, and often a run that went well, or died late."""
    world.produce(chance.randint(2, 6))
    if chance.random() < 0.3:
        world.compact()
    if chance.random() < 0.6:
        world.quiet, variant, world.variant = True, world.variant, VARIANTS[0]
        chance.choice((world.run("first"), world.dead_after_commit("first")))()
        world.quiet, world.variant = False, variant
        world.produce(chance.randint(1, 4))
    if chance.random() < 0.4:
        world.begin_transaction()
        world.produce(chance.randint(0, 2))
    world.clock.advance(1)


def _actors(world: World, chance: random.Random) -> list[tuple[str, Body]]:
    """All that may be at work; each seed takes up to four of them."""
    tries = chance.randint(1, 2)
    looks_alive = chance.random() < 0.7
    limits = Limits(records=chance.randint(1, 4)) if chance.random() < 0.4 else Limits()
    past = _span(world, chance)
    return [
        ("run-1", world.run("run-1", tries=tries, looks_alive=looks_alive)),
        ("run-1 again", world.extract_again("run-1")),
        ("run-2", world.run("run-2", tries=tries, limits=limits, looks_alive=looks_alive)),
        ("backfill", world.run("backfill", past, tries=tries, looks_alive=looks_alive)),
        ("replace", world.run("replace", _replacing(past), tries=tries)),
        ("operator", world.operator()),
        ("replayer", world.replayer()),
        ("setter", world.setter(chance.choice(("latest", "earliest")))),
        ("kafka", _kafka(world, chance.random() < 0.5)),
    ]


def _span(world: World, chance: random.Random) -> PlanRequest:
    """A date range: often all that was, otherwise a part of it."""
    now = world.clock.now().replace(microsecond=0)
    seconds = int((now - START).total_seconds())
    if seconds < 2 or chance.random() < 0.5:
        return PlanRequest(range_end=now)
    end = chance.randint(2, seconds)
    start = START + timedelta(seconds=chance.randint(0, end - 1))
    return PlanRequest(range_start=start, range_end=START + timedelta(seconds=end))


def _replacing(past: PlanRequest) -> PlanRequest:
    return PlanRequest(range_start=past.range_start, range_end=past.range_end, replace=True)


def _special_actors(world: World, chance: random.Random) -> list[tuple[str, Body]]:
    """Now and then: actors that meet their like, or leave little to the others."""
    if world.bad_share and chance.random() < 0.5:
        return [("replayer", world.replayer()), ("replayer again", world.replayer())]
    kind = chance.random()
    if kind < 0.25 and world.owner is None:
        names = ("stranger", "stranger again")[: chance.randint(1, 2)]
        return [(name, world.run(name, tries=2, pipeline=STRANGER)) for name in names]
    if kind < 0.1:
        return [("reset", world.resetting("reset", chance.choice(("latest", "earliest"))))]
    return []


def _kafka(world: World, denies: bool) -> Body:
    """Producers go on, transactions end, and for a while nobody may read, or even look."""

    def body() -> None:
        for _ in range(world.random.randint(1, 12)):
            world.scheduler.pause("kafka")
        world.produce(2)
        if denies:
            world.cluster.deny(TOPIC, read_only=world.random.random() < 0.7)
        for _ in range(world.random.randint(1, 12)):
            world.scheduler.pause("kafka")
        world.end_transactions()
        world.cluster.allow(TOPIC)
        world.produce(1)

    return body
