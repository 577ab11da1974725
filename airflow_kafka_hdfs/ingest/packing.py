"""Laying work into tasks, so that all end at about the same time and a topic's partitions share files.

Two levels, by default. First each topic's ranges are grouped, best fit decreasing, up to a third of a task's fair
share; then the groups go to tasks, worst fit decreasing. One level lays the ranges themselves. What is larger than both
its fair share and the target size of a task is cut before. Every tie is decided by (topic, partition, offset), so equal
input in any order gives equal tasks.

Gobblin packs by size x log10(number of items); measured on real runs, plain time balances better, so that is used here.
"""

from __future__ import annotations

import heapq
import itertools
import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from airflow_kafka_hdfs.garbage import no_search
from airflow_kafka_hdfs.ingest.choices import PackingMethod
from airflow_kafka_hdfs.ingest.config import PackingConfig
from airflow_kafka_hdfs.ingest.estimating import Load
from airflow_kafka_hdfs.ingest.plans import TaskPlan, UnitPlan, WorkUnit

GROUPS_PER_TASK = 3
"""A group of the first level is at most this part of a task, so that the second level can balance."""

_place = attrgetter("key.topic", "key.partition", "low")
_topic = attrgetter("key.topic")

LABEL_LENGTH = 200
"""Airflow refuses the success report of a mapped task whose label is over 250 characters (on PostgreSQL)."""


@no_search()
def pack(loads: Iterable[Load], config: PackingConfig) -> tuple[TaskPlan, ...]:
    """The mapped tasks for some work: at most `max_tasks`, one per `target_task_bytes`, none without work.

    Args:
        loads: ranges that do not overlap, none empty, in any order.
        config: how many tasks, and how they are filled.
    """
    ordered = sorted(loads, key=_place)
    if not ordered:
        return ()
    tasks = number_of_tasks(math.fsum([load.bytes for load in ordered]), config)
    fair_share = math.fsum([load.seconds for load in ordered]) / tasks
    if config.split:
        ordered = _cut_all(ordered, fair_share, config.target_task_bytes)
    seconds = [load.seconds for load in ordered]
    groups: list[list[int]] | None = None
    weights = seconds
    if config.method is PackingMethod.BI_LEVEL:
        groups = _grouped(ordered, seconds, fair_share / GROUPS_PER_TASK)
        weights = [math.fsum([seconds[place] for place in group]) for group in groups]
    result = []
    for index, (weight, numbers) in enumerate(worst_fit(weights, tasks)):
        places = numbers if groups is None else [place for number in numbers for place in groups[number]]
        result.append(_task(index, weight, [ordered[place] for place in sorted(places)]))
    return tuple(result)


def number_of_tasks(total_bytes: float, config: PackingConfig) -> int:
    """How many tasks some work deserves: at least one."""
    return max(1, min(config.max_tasks, math.ceil(total_bytes / config.target_task_bytes)))


def best_fit(places: Iterable[int], seconds: Sequence[float], capacity: float) -> list[list[int]]:
    """Best fit decreasing: each range into the fullest group that has room for it, else into a new group.

    Args:
        places: numbers of ranges, ascending; of one topic.
        seconds: of every range.
        capacity: seconds of a group; a longer range gets a group of its own.
    """
    slack = capacity * (1 + 1e-9)  # sums of floats that should be equal to the capacity fit
    weights: list[float] = []
    groups: list[list[int]] = []
    fullness: list[tuple[float, int]] = []  # ascending, of groups with room; of equally full ones the oldest last
    for place in sorted(places, key=seconds.__getitem__, reverse=True):  # stable: equal ones stay in their order
        weight = seconds[place]
        fit = bisect_right(fullness, (slack - weight, 1)) - 1
        if fit >= 0:
            number = -fullness.pop(fit)[1]
            weights[number] += weight
            groups[number].append(place)
        else:
            number = len(groups)
            weights.append(weight)
            groups.append([place])
        if weights[number] < capacity:
            insort(fullness, (weights[number], -number))
    return groups


def worst_fit(weights: Sequence[float], bins: int) -> list[tuple[float, list[int]]]:
    """Worst fit decreasing: each item into the emptiest bin.

    Args:
        weights: of the items; equal ones are taken in their order.
        bins: at most so many; with fewer items there are fewer.

    Returns:
        Weight and items of each bin, none of them empty.
    """
    filled: list[list[int]] = [[] for _ in range(min(bins, len(weights)))]
    heap = [(0.0, number) for number in range(len(filled))]
    for item in sorted(range(len(weights)), key=weights.__getitem__, reverse=True):
        load, number = heap[0]
        filled[number].append(item)
        heapq.heapreplace(heap, (load + weights[item], number))
    loads = {number: load for load, number in heap}
    return [(loads[number], items) for number, items in enumerate(filled)]


def _grouped(ordered: Sequence[Load], seconds: Sequence[float], capacity: float) -> list[list[int]]:
    """The first level: a topic smaller than the capacity is one group, a larger one several."""
    groups: list[list[int]] = []
    start = 0
    for _, loads in itertools.groupby(map(_topic, ordered)):
        end = start + sum(1 for _ in loads)
        places = range(start, end)
        weight = math.fsum(seconds[start:end])
        groups += [list(places)] if weight < capacity else best_fit(places, seconds, capacity)
        start = end
    return groups


def _cut_all(ordered: Iterable[Load], fair_share: float, target_bytes: int) -> list[Load]:
    """Cut in equal parts what exceeds both a task's fair share of time and its target size."""
    pieces: list[Load] = []
    for load in ordered:
        if load.bytes <= target_bytes or load.seconds <= fair_share:
            pieces.append(load)
            continue
        size = load.high - load.low
        parts = min(math.ceil(load.bytes / target_bytes), math.ceil(load.seconds / fair_share), size)
        cuts = [load.low + size * i // parts for i in range(parts + 1)]
        for low, high in zip(cuts, cuts[1:], strict=False):
            part = (high - low) / size
            pieces.append(Load(load.key, low, high, load.bytes * part, load.seconds * part))
    return pieces


def _task(index: int, weight: float, loads: Iterable[Load]) -> TaskPlan:
    """One mapped task of ranges in their order; parts of a partition that meet again are one work unit."""
    units = tuple(
        UnitPlan(topic=topic, work_units=tuple(_work_units(found)))
        for topic, found in itertools.groupby(loads, key=_topic)
    )
    return TaskPlan(index=index, label=label(units), units=units, weight=weight)


def _work_units(loads: Iterable[Load]) -> Iterator[WorkUnit]:
    key, low, high = None, 0, 0
    for its_key, its_low, its_high, _, _ in loads:
        if high == its_low and key == its_key:
            high = its_high
            continue
        if key is not None:
            yield WorkUnit(key=key, low=low, high=high)
        key, low, high = its_key, its_low, its_high
    if key is not None:
        yield WorkUnit(key=key, low=low, high=high)


def label(units: Sequence[UnitPlan]) -> str:
    """What a task reads, for Airflow's grid: `events[0-11], clicks[3] +14`, at most 200 characters.

    The number counts partitions that had no room.
    """
    room = LABEL_LENGTH - len(" +1000000")
    shown: list[str] = []
    hidden = 0
    for unit in units:
        partitions = sorted({work_unit.key.partition for work_unit in unit.work_units})
        name = unit.topic if len(unit.topic) <= 100 else f"{unit.topic[:99]}…"
        left = room - len(f"{', ' if shown else ''}{name}[]")
        texts = []
        for first, last in _runs(partitions):
            text = str(first) if first == last else f"{first}-{last}"
            if len(text) + 1 > left:
                break
            left -= len(text) + 1
            texts.append(text)
            hidden -= last - first + 1
        hidden += len(partitions)
        if texts:
            room = left
            shown.append(f"{name}[{','.join(texts)}]")
    return ", ".join(shown) + (f" +{hidden}" if hidden else "")


def _runs(partitions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as (first, last) of their unbroken runs."""
    first = last = -1
    for partition in partitions:
        if first >= 0 and partition != last + 1:
            yield first, last
            first = -1
        if first < 0:
            first = partition
        last = partition
    if first >= 0:
        yield first, last
