"""What a run asks of planning: its mode, its interval and its explicit requests, from its type and its Params."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest import arguments as args
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.choices import Granularity
from airflow_kafka_hdfs.ingest.selection import TopicKey, Topics
from airflow_kafka_hdfs.ingest.timepath import load_zone
from airflow_kafka_hdfs.model import RunRef

_TIMETABLES = "CronDataIntervalTimetable, DeltaDataIntervalTimetable, or a partitioned schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A span of Kafka time.

    Attributes:
        start: None for the log start.
        end: exclusive.
        is_open: the end is the plan's clock, not a time that somebody asked for.
    """

    start: datetime | None
    end: datetime
    is_open: bool = False

    def as_texts(self) -> tuple[str, str]:
        """ISO times for the plan; an empty text for the log start."""
        return self.start.isoformat() if self.start is not None else "", self.end.isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """Where a reset moves a start point.

    Attributes:
        word: `earliest`, `latest`, or empty.
        at: a point in time instead.
    """

    word: str = ""
    at: datetime | None = None

    @classmethod
    def of(cls, key: str, value: object) -> ResetTarget:
        """From `earliest`, `latest` or ISO text. Raises ConfigError."""
        if value in ("earliest", "latest"):
            return cls(word=str(value))
        allowed = "earliest, latest, or an ISO time with a time zone"
        try:
            return cls(at=args.moment(key, value, allowed))
        except ConfigError as error:
            hint = error.hint or (args.nearest(value, ("earliest", "latest")) if isinstance(value, str) else "")
            raise ConfigError(key, value, allowed, hint) from None

    def __str__(self) -> str:
        return self.word if self.at is None else self.at.isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What one run asks for.

    Attributes:
        backfill: the run's type is `backfill`.
        data_interval: of the run, where it has one.
        partition_date: first moment of the partition that the run is for, where it is for one.
        range_start, range_end: the Params.
        replace: read what is covered again, and take its files out of place.
        reset: start points to move, once.
        dry_run: show the plan, change nothing.
        elsewhere: what the other ingestions of the DAG read, since the Params are the same for all of them: their
            `topics`, or None for topics that can't be known here (told at run time, or of another cluster).
    """

    backfill: bool = False
    data_interval: tuple[datetime, datetime] | None = None
    partition_date: datetime | None = None
    range_start: datetime | None = None
    range_end: datetime | None = None
    replace: bool = False
    reset: Mapping[TopicKey, ResetTarget] = field(default_factory=dict)
    dry_run: bool = False
    elsewhere: tuple[Topics | None, ...] = ()

    @classmethod
    def of(
        cls,
        params: Mapping[str, Any],
        *,
        backfill: bool = False,
        data_interval: tuple[datetime, datetime] | None = None,
        partition_date: datetime | None = None,
    ) -> PlanRequest:
        """From the Params of a run; those left out or None ask for nothing.

        Raises:
            ConfigError: a Param that is not allowed, or Params that contradict each other.
        """
        start, end = params.get("range_start"), params.get("range_end")
        reset = params.get("reset") or {}
        if not isinstance(reset, Mapping):
            raise ConfigError("reset", reset, "a mapping of topic or regex to earliest, latest or an ISO time")
        request = cls(
            backfill=backfill,
            data_interval=data_interval,
            partition_date=partition_date,
            range_start=args.moment("range_start", start) if start else None,
            range_end=args.moment("range_end", end) if end else None,
            replace=args.flag("replace", params.get("replace") or False),
            reset={
                TopicKey.of("reset", topic): ResetTarget.of(f"reset[{topic!r}]", target)
                for topic, target in reset.items()
            },
            dry_run=args.flag("dry_run", params.get("dry_run") or False),
        )
        if request.reset and request.is_interval:
            raise ConfigError(
                "reset", sorted(map(str, reset)), "a run without a date range, which sets no start points"
            )
        if request.replace and not request.is_interval:
            raise ConfigError("replace", True, "a run with range_start or range_end, or a backfill")
        return request

    @property
    def is_interval(self) -> bool:
        """Whether the run is for a date range; every other run is continuous, also one with a data interval."""
        return self.backfill or self.range_start is not None or self.range_end is not None

    def interval(self, clock: datetime, granularity: Granularity, timezone: str = "UTC") -> Interval | None:
        """The date range, None for a continuous run.

        Args:
            clock: the plan's now.
            granularity: length of a partition, for a run that is for one.
            timezone: of the folders, likewise.

        Raises:
            ConfigError: an empty range, one that ends in the future, or a backfill without any.
        """
        if not self.is_interval:
            return None
        if self.range_start is not None or self.range_end is not None:
            key, start, end = "range_end", self.range_start, self.range_end
        else:
            key, (start, end) = "data interval", self._of_run(granularity, timezone)
        if end is None:
            return _checked(key, Interval(start=start, end=clock, is_open=True), clock)
        return _checked(key, Interval(start=start, end=end), clock)

    def _of_run(self, granularity: Granularity, timezone: str) -> tuple[datetime, datetime]:
        if self.partition_date is not None:
            return self.partition_date, next_partition(self.partition_date, granularity, timezone)
        if self.data_interval is None or self.data_interval[0] >= self.data_interval[1]:
            found = "none" if self.data_interval is None else f"of no length, at {self.data_interval[0].isoformat()}"
            raise ConfigError(
                "data interval",
                found,
                f"an interval of some length, from a DAG with {_TIMETABLES}",
                "a backfill reads the data interval of each of its runs; a cron text as `schedule` of a plain DAG "
                "makes runs without one, KafkaToHdfsDag turns it into CronDataIntervalTimetable; or give range_start "
                "and range_end",
            )
        return self.data_interval

    def request_id(self, run: RunRef, what: str) -> str:
        """Id of an explicit request (`replace`, `reset`): the run and its parameters, so that it is done once."""
        parameters = {
            "range": [_text(self.range_start), _text(self.range_end)],
            "interval": [_text(each) for each in self.data_interval or ()],
            "partition": _text(self.partition_date),
            "reset": {topic.text: str(target) for topic, target in self.reset.items()},
            "run": [run.dag_id, run.group, run.run_id],
        }
        return f"{what}:{run.run_id}:{wire.canonical_digest(parameters)[7:19]}"


def next_partition(start: datetime, granularity: Granularity, timezone: str) -> datetime:
    """First moment of the partition after the one that begins at `start`, by the wall clock of a zone."""
    if granularity in (Granularity.MINUTELY, Granularity.HOURLY):
        return start + timedelta(minutes=1 if granularity is Granularity.MINUTELY else 60)
    zone = load_zone(timezone)
    local = start.astimezone(zone)
    midnight = local.replace(hour=0, minute=0, second=0, fold=0)
    if midnight.astimezone(UTC) == start:  # the clocks were set forward at midnight: the next day begins there again
        local = midnight
    if granularity is Granularity.DAILY:
        local += timedelta(days=1)
    elif granularity is Granularity.MONTHLY:
        local = local.replace(year=local.year + local.month // 12, month=local.month % 12 + 1, day=1)
    else:
        local = local.replace(year=local.year + 1)
    return local.astimezone(UTC)


def _checked(key: str, interval: Interval, clock: datetime) -> Interval:
    if interval.end > clock:
        raise ConfigError(
            key, interval.end.isoformat(), f"a time not after {clock.isoformat()}", "what is to come can't be read yet"
        )
    if interval.start is not None and interval.start >= interval.end and interval.is_open:
        raise ConfigError("range_start", interval.start.isoformat(), f"a time before {clock.isoformat()}, which is now")
    if interval.start is not None and interval.start >= interval.end:
        raise ConfigError(
            key, interval.end.isoformat(), f"a time after the range's start, {interval.start.isoformat()}"
        )
    return interval


def _text(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()
