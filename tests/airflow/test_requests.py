"""What a run is asked to do: typed Params, and what the run itself says."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pendulum
import pytest
from airflow.sdk import DAG, Param

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.operators.requests import ingest_params, limits_of, request_of

START, END = pendulum.datetime(2026, 1, 31, 22), pendulum.datetime(2026, 1, 31, 23)


def context(run_type: str = "scheduled", interval=(None, None), partition=None, **params) -> dict:
    run = SimpleNamespace(
        run_type=run_type,
        data_interval_start=interval[0],
        data_interval_end=interval[1],
        partition_date=partition,
    )
    return {"dag_run": run, "params": params}


@pytest.mark.parametrize("run_type", ["scheduled", "manual", "asset_triggered"])
def test_a_run_that_is_no_backfill_goes_on_even_if_it_has_a_data_interval(run_type):
    assert not request_of(context(run_type, (START, END))).is_interval


def test_a_backfill_reads_its_data_interval():
    request = request_of(context("backfill", (START, END)))
    assert request.is_interval
    assert request.data_interval == (START, END)


def test_a_backfill_of_a_partition_reads_from_its_date_on():
    assert request_of(context("backfill", partition=START)).partition_date == START


def test_dates_are_plain_datetimes_since_airflows_add_days_as_24_hours():
    request = request_of(context("backfill", (START, END), START))
    assert type(request.partition_date) is datetime
    assert request.data_interval is not None
    assert {type(moment) for moment in request.data_interval} == {datetime}


def test_a_range_makes_any_run_read_a_date_range():
    request = request_of(context(range_start="2026-02-01T00:00:00+02:00"))
    assert request.is_interval
    assert request.range_start == datetime(2026, 1, 31, 22, tzinfo=UTC)


def test_a_range_without_an_offset_is_refused():
    with pytest.raises(ConfigError, match="has no zone"):
        request_of(context(range_start="2026-01-31T22:00:00"))


def test_a_dag_without_the_params_asks_for_nothing():
    request = request_of(context())
    assert (request.dry_run, request.replace, request.reset) == (False, False, {})


def test_limits_of_a_run_are_those_that_are_given():
    assert limits_of({"time_limit": None, "record_limit": 10}) == {"record_limit": 10}


def test_params_are_typed_and_their_defaults_are_valid():
    params = ingest_params()
    assert all(isinstance(param, Param) for param in params.values())
    with DAG("d", schedule="@hourly", params=params) as dag:
        pass
    nulls = ["range_start", "range_end", "reset", "time_limit", "record_limit", "byte_limit"]
    assert dag.params.validate() == {"dry_run": False, "replace": False, **dict.fromkeys(nulls)}
