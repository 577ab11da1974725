"""What a caller may see of the warehouse, asked for as little as a page shows and remembered for a few seconds.

With thousands of DAGs it takes Airflow longer to say everything that a login may read than any answer takes. So a page
asks only for the jobs on it; lists and long walks, which need every job, share one answer for a while.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_kafka_hdfs.lineage.access import Access, Rights
from airflow_kafka_hdfs.plugins import lineage_security
from airflow_kafka_hdfs.ports.lineage_reading import LineageReader
from airflow_kafka_hdfs.ports.lineage_rows import JobRow

_LOGINS_KEPT = 200
_DAGS_KEPT = 50_000
"""Of one login; with more it is forgotten and asked anew."""


@dataclass(slots=True)
class _Login:
    """What Airflow said to one login, and when (monotonic seconds)."""

    dags: dict[str, tuple[float, bool]] = field(default_factory=dict)
    everything: tuple[float, int, frozenset[str] | None] | None = None


class RememberedRights:
    """Makes the `Access` of callers.

    What a login says is part of the question, so a new login counts at once, and so does a new job; rights that are
    taken away hold on for at most `seconds`.

    Args:
        seconds: how long an answer holds.
        clock: monotonic seconds; for tests.
    """

    def __init__(self, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._all_names: tuple[float, int, Sequence[tuple[str, str, str]]] | None = None
        self._lock = threading.Lock()

    def __call__(self, user: Any, reader: LineageReader, instance: str, open_instances: Collection[str] = ()) -> Access:
        """What a caller may see in one look at the warehouse.

        Args:
            user: as `lineage_security.User` gives.
            reader: knows all jobs.
            instance: name of this deployment.
            open_instances: other deployments and namespaces whose jobs everybody may see who is logged in; all others
                stay restricted.
        """
        return Access(rights=_Caller(self, user, reader, instance, open_instances), secret=lineage_security.secret())

    def dags(self, user: Any, dag_ids: Collection[str]) -> Mapping[str, bool]:
        """Whether a caller may read each of these DAGs of this Airflow."""
        login, since = self._login(user), self._clock() - self._seconds
        with self._lock:
            known = {dag_id: login.dags[dag_id] for dag_id in dag_ids if dag_id in login.dags}
        found = {dag_id: allowed for dag_id, (asked, allowed) in known.items() if asked > since}
        missing = set(dag_ids) - found.keys()
        if missing:
            asked = self._clock()
            readable = lineage_security.readable_dags(user, missing)
            found.update((dag_id, dag_id in readable) for dag_id in missing)
            with self._lock:
                if len(login.dags) + len(missing) > _DAGS_KEPT:
                    login.dags.clear()
                login.dags.update((dag_id, (asked, found[dag_id])) for dag_id in missing)
        return found

    def everything(
        self, user: Any, reader: LineageReader, instance: str, open_instances: Collection[str]
    ) -> frozenset[str] | None:
        """Every job that a caller may read, None for every job there is."""
        login, jobs = self._login(user), reader.count(JobRow)
        known = login.everything
        if known is not None and known[1] == jobs and self._clock() - known[0] < self._seconds:
            return known[2]
        asked = self._clock()
        names = self._names(reader, jobs, asked)
        dags = lineage_security.all_readable_dags(user, {dag_id for _, owner, dag_id in names if owner == instance})
        found = frozenset(
            job_id
            for job_id, owner, dag_id in names
            if (dag_id in dags if owner == instance else owner in open_instances)
        )
        answer = None if len(found) == len(names) else found
        login.everything = asked, jobs, answer
        return answer

    def _names(self, reader: LineageReader, jobs: int, now: float) -> Sequence[tuple[str, str, str]]:
        """(job id, instance, DAG id) of every job, the same for all logins; read anew when there are more."""
        known = self._all_names
        if known is not None and known[1] == jobs and now - known[0] < self._seconds:
            return known[2]
        names = reader.job_names()
        self._all_names = now, jobs, names
        return names

    def _login(self, user: Any) -> _Login:
        text = lineage_security.login_of(user)
        with self._lock:
            found = self._logins.pop(text, None) or _Login()
            self._logins[text] = found
            while len(self._logins) > _LOGINS_KEPT:
                self._logins.popitem(last=False)
        return found


class _Caller(Rights):
    """The rights of one caller in one look."""

    def __init__(
        self,
        remembered: RememberedRights,
        user: Any,
        reader: LineageReader,
        instance: str,
        open_instances: Collection[str],
    ) -> None:
        self._remembered = remembered
        self._user = user
        self._reader = reader
        self._instance = instance
        self._open = open_instances
        self._answers: dict[str, bool] = {}

    def readable(self, job_ids: Collection[str]) -> Collection[str]:
        """See `Rights.readable`."""
        missing = [job_id for job_id in job_ids if job_id not in self._answers]
        if missing:
            names = self._reader.job_names(missing)
            own = {dag_id for _, owner, dag_id in names if owner == self._instance}
            dags = self._remembered.dags(self._user, own) if own else {}
            self._answers.update(dict.fromkeys(missing, False))  # a job that nobody knows is nobody's to read
            self._answers.update(
                (job_id, dags[dag_id] if owner == self._instance else owner in self._open)
                for job_id, owner, dag_id in names
            )
        return {job_id for job_id in job_ids if self._answers[job_id]}

    def all_readable(self) -> frozenset[str] | None:
        """See `Rights.all_readable`."""
        return self._remembered.everything(self._user, self._reader, self._instance, self._open)
