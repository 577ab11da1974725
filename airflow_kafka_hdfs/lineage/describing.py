"""Rows of the warehouse in the words of those who ask, with what they may not see left out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from urllib.parse import quote

from airflow_kafka_hdfs.lineage.access import Access
from airflow_kafka_hdfs.lineage.facts import DEPRECATED_AFTER_DAYS, deprecated
from airflow_kafka_hdfs.lineage.identity import digest
from airflow_kafka_hdfs.lineage.registration import FROM_RUNS
from airflow_kafka_hdfs.lineage.views import DatasetView, JobView, LinkView, Responsible, RunView
from airflow_kafka_hdfs.ports.lineage import PairState
from airflow_kafka_hdfs.ports.lineage_reading import Direction, LineageReader, Show, Window
from airflow_kafka_hdfs.ports.lineage_rows import DatasetRow, EdgeRow, JobRow, RelationRow, ResponsibilityRow, RunRow

FAILING = "failing"
DEPRECATED = "deprecated"
TEMPORARY = "temporary"
RESTRICTED = "restricted"


def window_at(moment: datetime, show: Show = Show.ALL) -> Window:
    """Which edges hold at a moment; those seen only at run time do so for 30 days."""
    return Window(at=moment, alive_since=moment - timedelta(days=DEPRECATED_AFTER_DAYS), show=show)


def still_related(row: RelationRow, job: JobRow) -> bool:
    """Whether a job reads or writes a dataset as it is now: by its newest structure, or because somebody says so."""
    return row.origin != FROM_RUNS or row.last_seen >= (job.structure_since or job.first_seen)


class Describer:
    """Turns ids and rows into views.

    Args:
        reader: where to look.
        access: what the caller may see.
        now: the time, for flags.
        instance: this deployment, whose jobs have pages in Airflow.
    """

    def __init__(self, reader: LineageReader, access: Access, now: datetime, instance: str = "") -> None:
        self.reader = reader
        self.access = access
        self.now = now
        self.window = window_at(now)
        self._instance = instance
        self._jobs: dict[str, JobRow | None] = {}
        self._datasets: dict[str, DatasetView] = {}

    def job_rows(self, job_ids: Iterable[str]) -> dict[str, JobRow]:
        """The rows of jobs, those that exist."""
        wanted = set(job_ids)
        missing = sorted(wanted - self._jobs.keys())
        self._jobs.update(dict.fromkeys(missing))
        found = self.reader.rows(JobRow, ("job_id",), [(job_id,) for job_id in missing])
        self._jobs.update((row.job_id, row) for row in found)
        return {job_id: row for job_id in wanted if (row := self._jobs[job_id]) is not None}

    def jobs(self, job_ids: Iterable[str]) -> dict[str, JobView]:
        """Views of jobs by id; restricted ones have only a handle."""
        wanted = set(job_ids)
        rows = self.job_rows(self.access.readable(wanted))
        return {
            job_id: self.job(rows[job_id])
            if job_id in rows
            else JobView(id=self.access.handle(job_id), restricted=True)
            for job_id in wanted
        }

    def job(self, row: JobRow) -> JobView:
        """The view of a readable job."""
        return JobView(
            id=row.job_id,
            instance=row.instance,
            dag_id=row.dag_id,
            domain=row.domain,
            owners=_list(row.owners),
            team=row.team,
            tags=_list(row.tags),
            description=row.description,
            config_file=row.config_file,
            flags=self.job_flags(row),
            frequency=row.frequency,
            period_seconds=row.period_seconds,
            first_seen=row.first_seen,
            last_run=row.last_run,
            last_run_id=row.last_run_id,
            last_outcome=row.last_outcome,
            link=f"/dags/{quote(row.dag_id, safe='')}" if row.instance == self._instance else "",
        )

    def job_flags(self, row: JobRow) -> tuple[str, ...]:
        """`failing`, `deprecated`, or neither."""
        found = [FAILING] if row.failing else []
        if row.last_run is not None and deprecated(row.last_run, self.now, timedelta(seconds=row.period_seconds)):
            found.append(DEPRECATED)
        return tuple(found)

    def datasets(self, dataset_ids: Iterable[str]) -> dict[str, DatasetView]:
        """Views of datasets by id; restricted ones have only a handle, unknown ones are missing."""
        wanted = set(dataset_ids)
        missing = wanted - self._datasets.keys()
        if missing:
            visible = self.access.visible(self.reader, missing)
            keys = [(dataset_id,) for dataset_id in sorted(visible)]
            self._datasets.update(self.described(self.reader.rows(DatasetRow, ("dataset_id",), keys)))
            for dataset_id in missing - visible:
                self._datasets[dataset_id] = DatasetView(id=self.access.handle(dataset_id), restricted=True)
        return {dataset_id: self._datasets[dataset_id] for dataset_id in wanted & self._datasets.keys()}

    def described(self, rows: Collection[DatasetRow]) -> dict[str, DatasetView]:
        """Views of datasets that the caller may see."""
        writers: dict[str, dict[str, datetime | None]] = {}
        for dataset_id, job_id, success in self.reader.attached(
            [row.dataset_id for row in rows], Direction.UP, self.window
        ):
            writers.setdefault(dataset_id, {})[job_id] = success
        jobs = self.job_rows(job_id for found in writers.values() for job_id in found)
        readable = self.access.readable(jobs)
        return {row.dataset_id: self._dataset(row, writers.get(row.dataset_id, {}), jobs, readable) for row in rows}

    def _dataset(
        self,
        row: DatasetRow,
        writers: Mapping[str, datetime | None],
        jobs: Mapping[str, JobRow],
        readable: Collection[str],
    ) -> DatasetView:
        written = [jobs[job_id] for job_id in sorted(writers) if job_id in jobs]
        flags = [set(self.job_flags(job)) for job in written]
        named = [job for job in written if job.job_id in readable]
        common = set.intersection(*flags) if flags else set()
        return DatasetView(
            id=row.dataset_id,
            namespace=row.ns,
            name=row.name,
            collection=row.collection,
            table=row.table,
            platform=row.ns.partition("://")[0],
            schema_id=row.schema_id,
            schema_version=row.schema_version,
            flags=tuple(sorted(common | ({TEMPORARY} if row.temporary else set()))),
            owners=_distinct(owner for job in named for owner in _list(job.owners)),
            teams=_distinct(job.team for job in named),
            domains=_distinct(job.domain for job in named),
            first_seen=row.first_seen,
            last_seen=row.last_seen,
            last_written=max((success for success in writers.values() if success is not None), default=None),
        )

    def runs(self, rows: Collection[RunRow], dag_id: str, instance: str) -> tuple[RunView, ...]:
        """Views of runs of a readable job."""
        self.job_rows(job_id for row in rows for job_id in _named_in(row.triggered_by))
        return tuple(self._run(row, dag_id, instance) for row in rows)

    def _run(self, row: RunRow, dag_id: str, instance: str) -> RunView:
        page = f"/dags/{quote(dag_id, safe='')}/runs/{quote(row.run_id, safe='')}"
        return RunView(
            job_id=row.job_id,
            dag_id=dag_id,
            run_id=row.run_id,
            run_type=row.run_type,
            run_date=row.logical_date or row.run_after,
            run_after=row.run_after,
            started_at=row.started_at,
            ended_at=row.ended_at,
            outcome=row.outcome,
            reason=row.reason,
            clear_number=row.clear_number,
            attempts=row.attempts,
            pairs=row.pairs,
            compressed=row.compressed,
            triggered_by=self._triggered_by(row.triggered_by),
            structure_hash=row.structure_hash,
            versions={str(name): str(value) for name, value in json.loads(row.versions).items()},
            incomplete=tuple(json.loads(row.incomplete)),
            link=page if instance == self._instance else "",
        )

    def _triggered_by(self, text: str) -> str:
        """What started a run, unless it is a job that the caller may not read."""
        named = _named_in(text)
        if not named or self.access.rights is None:
            return text
        known = self.job_rows(named).keys()
        seen = known == set(self.access.readable(known)) if known else self.access.among is None
        return text if seen else RESTRICTED

    def responsibilities(self, entity_id: str) -> tuple[Responsible, ...]:
        """Who answers for a job or dataset."""
        rows = self.reader.rows(ResponsibilityRow, ("entity_id",), [(entity_id,)])
        return tuple(
            Responsible(
                role=row.role,
                party=row.party,
                origin=row.origin,
                changed_at=row.changed_at,
                changed_by=row.changed_by,
            )
            for row in sorted(rows, key=lambda row: (row.role, row.party))
        )

    def links(
        self, edges: Iterable[EdgeRow], datasets: Mapping[str, DatasetView]
    ) -> tuple[tuple[LinkView, ...], tuple[JobView, ...]]:
        """Edges of several jobs as lines of a graph, and the jobs that they name; self pairs are left out."""
        grouped: dict[tuple[str, str], list[EdgeRow]] = {}
        for edge in edges:
            if edge.source_id != edge.target_id:
                grouped.setdefault((edge.source_id, edge.target_id), []).append(edge)
        jobs = self.jobs(edge.job_id for found in grouped.values() for edge in found)
        links = []
        for (source, target), found in sorted(grouped.items()):
            if source not in datasets or target not in datasets:
                continue
            newest = max(found, key=lambda edge: (edge.last_seen, edge.job_id))
            written = any(edge.last_state == PairState.WRITTEN for edge in found)
            links.append(
                LinkView(
                    source=datasets[source].id,
                    target=datasets[target].id,
                    jobs=tuple(sorted({jobs[edge.job_id].id for edge in found})),
                    state=PairState.WRITTEN.value if written else newest.last_state,
                    evidence=_distinct(word for edge in found for word in edge.evidence.split()),
                    last_seen=newest.last_seen,
                )
            )
        return tuple(links), tuple(sorted(jobs.values(), key=lambda job: (job.restricted, job.dag_id, job.id)))


def _named_in(triggered_by: str) -> set[str]:
    """Ids of the jobs that `<namespace>/<job>` or `<namespace>/<DAG>.<task>` may mean; none for Airflow's own words."""
    found = set()
    parts = triggered_by.split("/")
    for end in range(1, len(parts)):
        names = "/".join(parts[end:]).split(".")
        found |= {digest("/".join(parts[:end]), ".".join(names[:last])) for last in range(1, len(names) + 1)}
    return found


def _list(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(", ") if word)


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({word for word in words if word}))
