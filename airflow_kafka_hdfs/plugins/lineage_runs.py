"""Reads finished runs from Airflow's database, in sessions of the emitter's own and as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_kafka_hdfs.lineage.events import Run
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.settings import LineageSettings
from airflow_kafka_hdfs.lineage.workflow import RunFacts
from airflow_kafka_hdfs.plugins.lineage_snapshot import Names

FINISHED = ("success", "failed")
_ACKNOWLEDGED = "kafka_hdfs_lineage_acknowledged"
_ACKNOWLEDGED_HELP = "Lineage of all runs that ended before this is sent. Delete to send the last ones again."


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """One run as the database has it after its commit."""

    run: Run
    facts: RunFacts


def session() -> Any:
    """A session that shares nothing with the scheduler's; use as a context, it commits."""
    from airflow.utils.session import create_session

    return create_session(scoped=False)


def read_run(dag_id: str, run_id: str, settings: LineageSettings) -> FinishedRun | None:
    """A finished run; None while it is not finished or not committed yet.

    Args:
        dag_id: of the run.
        run_id: of the run.
        settings: for the names of datasets.
    """
    from airflow.models.dagrun import DagRun

    columns = (
        DagRun.id, DagRun.state, DagRun.run_type, DagRun.triggered_by, DagRun.clear_number, DagRun.logical_date,
        DagRun.data_interval_start, DagRun.data_interval_end, DagRun.run_after, DagRun.start_date, DagRun.end_date,
    )  # fmt: skip
    with session() as own:
        row = own.execute(sa.select(*columns).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).one_or_none()
        if row is None or _text(row.state) not in FINISHED:
            return None
        facts = RunFacts(
            states=_states(own, dag_id, run_id),
            triggers=_triggers(own, row.id, settings),
            aliases=_aliases(own, dag_id, run_id, settings),
        )
    run = Run(
        run_id=run_id,
        clear_number=row.clear_number or 0,
        run_type=_text(row.run_type),
        triggered_by=_text(row.triggered_by),
        logical_date=row.logical_date,
        interval_start=row.data_interval_start,
        interval_end=row.data_interval_end,
        run_after=row.run_after,
        started_at=row.start_date,
        ended_at=row.end_date,
        outcome=_text(row.state),
    )
    return FinishedRun(run=run, facts=facts)


def read_run_columns(dag_id: str, run_id: str) -> Run | None:
    """What identifies a run, finished or not; None if there is no such run."""
    from airflow.models.dagrun import DagRun

    columns = (DagRun.run_type, DagRun.clear_number, DagRun.logical_date, DagRun.run_after)
    with session() as own:
        row = own.execute(sa.select(*columns).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).one_or_none()
    if row is None:
        return None
    return Run(
        run_id=run_id,
        clear_number=row.clear_number or 0,
        run_type=_text(row.run_type),
        logical_date=row.logical_date,
        run_after=row.run_after,
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """One finished run, and a text that changes whenever it is cleared or its state is set by hand."""

    at: datetime
    dag_id: str
    run_id: str
    mark: str


def mark_of(clear_number: int, outcome: str, ended: datetime | None) -> str:
    """The text of `Ended.mark`."""
    return f"{clear_number} {outcome} {ended.isoformat() if ended else ''}"


def finished_since(since: datetime, at_once: int = 1_000) -> Iterator[list[Ended]]:
    """The runs that ended at or after a moment, oldest first, in portions.

    Args:
        since: the moment.
        at_once: at most this many in one portion.
    """
    from airflow.models.dagrun import DagRun

    columns = (DagRun.end_date, DagRun.id, DagRun.dag_id, DagRun.run_id, DagRun.clear_number, DagRun.state)
    query = sa.select(*columns).where(DagRun.state.in_(FINISHED), DagRun.end_date >= since)
    query = query.order_by(DagRun.end_date, DagRun.id).limit(at_once)
    after: sa.ColumnElement[bool] = sa.true()
    more = True
    while more:
        with session() as own:
            rows = own.execute(query.where(after)).all()
        more = len(rows) == at_once
        if more:
            last = rows[-1]
            same = sa.and_(DagRun.end_date == last.end_date, DagRun.id > last.id)
            after = sa.or_(DagRun.end_date > last.end_date, same)
        yield [
            Ended(row.end_date, row.dag_id, row.run_id, mark_of(row.clear_number or 0, _text(row.state), row.end_date))
            for row in rows
        ]


def acknowledged(instance: str) -> datetime | None:
    """Up to which end date all runs are known to have been sent."""
    from airflow.models.variable import Variable

    with session() as own:
        row = own.scalar(sa.select(Variable).where(Variable.key == f"{_ACKNOWLEDGED}_{instance}"))
        text = row.val if row is not None else None
    return datetime.fromisoformat(text) if text else None


def acknowledge(instance: str, moment: datetime) -> None:
    """Note that all runs that ended up to a moment are sent."""
    from airflow.models.variable import Variable

    key = f"{_ACKNOWLEDGED}_{instance}"
    with session() as own:
        row = own.scalar(sa.select(Variable).where(Variable.key == key))
        if row is None:
            own.add(Variable(key=key, val=moment.isoformat(), description=_ACKNOWLEDGED_HELP))
        else:
            row.set_val(moment.isoformat())


def _text(value: Any) -> str:
    return str(getattr(value, "value", value) or "")


def _states(own: Any, dag_id: str, run_id: str) -> dict[tuple[str, int], tuple[str, int]]:
    from airflow.models.taskinstance import TaskInstance

    rows = own.execute(
        sa.select(TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state, TaskInstance.try_number).where(
            TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id
        )
    )
    return {(row.task_id, row.map_index): (_text(row.state), row.try_number or 0) for row in rows}


def _triggers(own: Any, run_number: int, settings: LineageSettings) -> tuple[DatasetId, ...]:
    from airflow.models.asset import AssetEvent, AssetModel, association_table

    rows = own.execute(
        sa.select(AssetModel.uri, AssetModel.name)
        .join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        .join(association_table, association_table.c.event_id == AssetEvent.id)
        .where(association_table.c.dag_run_id == run_number)
        .distinct()
    )
    names = Names(settings)
    return tuple(sorted({found for row in rows if (found := names.dataset(row.uri, row.name)) is not None}))


def _aliases(own: Any, dag_id: str, run_id: str, settings: LineageSettings) -> Mapping[str, tuple[DatasetId, ...]]:
    from airflow.models.asset import AssetEvent

    rows = own.execute(_alias_events().where(AssetEvent.source_dag_id == dag_id, AssetEvent.source_run_id == run_id))
    return _by_alias(rows, settings)


def inlet_aliases(
    dag_id: str, run: Run, names: Collection[str], settings: LineageSettings
) -> Mapping[str, tuple[DatasetId, ...]]:
    """What aliases among inlets stand for: the assets of the events that the run consumed, else of all until its end.

    Args:
        dag_id: of the run.
        run: a finished one.
        names: of the aliases.
        settings: for the names of datasets.
    """
    from airflow.models.asset import AssetAliasModel, AssetEvent, association_table
    from airflow.models.dagrun import DagRun

    own_run = sa.select(DagRun.id).where(DagRun.dag_id == dag_id, DagRun.run_id == run.run_id).scalar_subquery()
    of_aliases = _alias_events().where(AssetAliasModel.name.in_(sorted(names)))
    consumed = of_aliases.join(association_table, association_table.c.event_id == AssetEvent.id)
    with session() as own:
        found = dict(_by_alias(own.execute(consumed.where(association_table.c.dag_run_id == own_run)), settings))
        if found.keys() < set(names):
            known = of_aliases.where(AssetEvent.timestamp <= run.ended_at) if run.ended_at else of_aliases
            found = {**_by_alias(own.execute(known), settings), **found}
    return found


def _alias_events() -> Any:
    """(alias, URI, name) of the assets for which events came under an alias."""
    from airflow.models.asset import (
        AssetAliasModel,
        AssetEvent,
        AssetModel,
        asset_alias_asset_event_association_table,
    )

    link = asset_alias_asset_event_association_table
    return (
        sa.select(AssetAliasModel.name.label("alias"), AssetModel.uri, AssetModel.name)
        .join(link, link.c.alias_id == AssetAliasModel.id)
        .join(AssetEvent, AssetEvent.id == link.c.event_id)
        .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        .distinct()
    )


def _by_alias(rows: Iterable[Any], settings: LineageSettings) -> Mapping[str, tuple[DatasetId, ...]]:
    names = Names(settings)
    found: dict[str, set[DatasetId]] = {}
    for row in rows:
        dataset = names.dataset(row.uri, row.name)
        if dataset is not None:
            found.setdefault(row.alias, set()).add(dataset)
    return {alias: tuple(sorted(datasets)) for alias, datasets in found.items()}
