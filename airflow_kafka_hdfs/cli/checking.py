"""`info --dag-id`: can a pipeline reach what it works with? Each part is asked alone, so that no fault hides one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_kafka_hdfs.exceptions import KafkaHdfsError

if TYPE_CHECKING:
    from airflow_kafka_hdfs.ingest.config import IngestConfig
    from airflow_kafka_hdfs.ingest.context import Context, Sources

T = TypeVar("T")

_MOST_TOPICS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was tried.

    Attributes:
        detail: what was found, or the error with its next step.
    """

    what: str
    works: bool
    detail: str


@dataclass(slots=True)
class _Checks:
    found: list[Check] = field(default_factory=list)

    def tried(self, what: str, call: Callable[[], str]) -> bool:
        """Do it, and note how it went."""
        detail = self.opened(what, call)
        if detail is not None:
            self.found.append(Check(what=what, works=True, detail=detail))
        return detail is not None

    def opened(self, what: str, call: Callable[[], T]) -> T | None:
        """What it gives; None after an error of ours, which is noted."""
        try:
            return call()
        except KafkaHdfsError as error:
            self.found.append(Check(what=what, works=False, detail=f"{type(error).__name__}: {error}"))
            return None


def checks(args: Namespace) -> list[Check]:
    """What a pipeline's parts answer.

    Args:
        args: with `dag_id`, `group_id`, and `probe`: whether files may be written, and deleted again.
    """
    from airflow_kafka_hdfs.cli.addressing import command_run, config_of
    from airflow_kafka_hdfs.cli.runs import MetadataRunStates
    from airflow_kafka_hdfs.operators.ports import open_context, open_sources

    done = _Checks()
    config = done.opened("DAG", lambda: config_of(args.dag_id, args.group_id))
    if config is None:
        return done.found
    done.found.append(Check(what="DAG", works=True, detail=f"pipeline {config.pipeline}"))
    run = command_run(args)
    sources = done.opened("Kafka and registry connections", lambda: open_sources(config))
    ctx = done.opened("storage connection", lambda: open_context(config, run, MetadataRunStates()))
    if sources is not None:
        _ask_sources(done, config, sources)
    if ctx is not None:
        _ask_stores(done, ctx, writes=args.probe)
    return done.found


def _ask_sources(done: _Checks, config: IngestConfig, sources: Sources) -> None:
    from airflow_kafka_hdfs.ingest.selection import TopicFilter

    catalog, registry = sources.catalog, sources.registry
    names: list[str] = []

    def topics() -> str:
        chosen = config.topics
        known = catalog.topics() if isinstance(chosen, TopicFilter) else catalog.describe(list(chosen))
        infos = {
            name: info for name, info in known.items() if not isinstance(chosen, TopicFilter) or chosen.matches(name)
        }
        names.extend(sorted(infos))
        faults = [f"{name}: {info.fault}" for name, info in sorted(infos.items()) if info.fault]
        told = f"{len(infos) - len(faults)} of {len(infos)} topics can be looked at"
        return "; ".join([told, *faults[:_MOST_TOPICS]])

    if done.tried("brokers", lambda: f"cluster id {catalog.cluster_id()}"):
        done.tried("topics", topics)
    else:  # to wait once more for brokers that are away tells nothing new
        done.found.append(Check(what="topics", works=False, detail="not asked, since the brokers do not answer"))
    if registry is not None:
        known = registry

        def latest() -> str:
            topic = names[0] if names else "any"
            found = known.latest(topic)
            return f"it answers; topic {topic} has {'no schema' if found is None else f'schema {found[0]}'}"

        done.tried("registry", latest)


def _ask_stores(done: _Checks, ctx: Context, *, writes: bool) -> None:
    from airflow_kafka_hdfs.adapters.storage.probe import probe

    done.tried("destination", lambda: f"{ctx.data.root}: {len(ctx.data.list(''))} entries")
    done.tried("state", lambda: f"{ctx.state.root}: {ctx.log.read().head + 1} commits")
    if not writes:
        return
    stores: dict[str, Any] = {"destination": ctx.data, **({"state": ctx.state} if ctx.log.copies else {})}

    def proved(store: Any) -> str:
        probe(store)
        return "it creates and moves without replacing"

    for name, store in stores.items():
        done.tried(f"{name}: atomic create", partial(proved, store))
