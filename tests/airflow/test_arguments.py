"""Arguments of operators, group and DAG: taken once, kept together, never rendered where they are code."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias, CronDataIntervalTimetable, DeltaDataIntervalTimetable, TaskGroup

from airflow_kafka_hdfs import (
    KafkaToHdfsDag,
    KafkaToHdfsExtractOperator,
    KafkaToHdfsPlanOperator,
    KafkaToHdfsPublishOperator,
    KafkaToHdfsTaskGroup,
    TopicFilter,
)
from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest.config import DEFAULTS, PIPELINE_DEFAULTS, REQUIRED
from airflow_kafka_hdfs.operators.arguments import FIXED, JOB_ARGUMENTS, TEMPLATED, FixedArguments, stable_text

JOB = {"topics": ["a", "b"], "destination": "file:///data"}


def double(record):
    return [record, record]


class Decoder:
    def __call__(self, record):
        return record.value


def test_the_operators_take_exactly_the_arguments_of_the_core():
    assert {*REQUIRED, *PIPELINE_DEFAULTS, *DEFAULTS} == JOB_ARGUMENTS
    assert FIXED | set(TEMPLATED) == JOB_ARGUMENTS


def test_nothing_that_may_be_code_is_templated():
    assert not {"converters", "value_format", "topic_overrides", "schema", "kafka_config"} & set(TEMPLATED)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (double, f"{__name__}:double"),
        (Decoder, f"{__name__}:Decoder"),
        (Decoder(), f"<{__name__}.Decoder object>"),
        (functools.partial(double, x={"b", "a"}), f"partial({__name__}:double, [], {{'x': {{'a', 'b'}}}})"),
        ({"k": {3, 1, 2}}, "{'k': {1, 2, 3}}"),
    ],
)
def test_the_text_of_a_value_is_the_same_in_every_process(value, text):
    assert stable_text(value) == text


def test_the_text_of_arguments_shows_no_secret():
    fixed = FixedArguments({"kafka_config": {"sasl.password": "hunter2"}, "registry": "https://user:hunter2@registry/"})
    assert "hunter2" not in repr(fixed)
    assert "sasl.password" in repr(fixed)


def test_a_group_gives_all_four_operators_the_same_arguments():
    with DAG("d") as dag, TaskGroup("outer"):
        group = KafkaToHdfsTaskGroup("g", **JOB, value_format="json", file_format="jsonl", time_field="t")
    assert [task.task_id for task in dag.tasks] == [
        f"outer.g.{step}" for step in ("plan", "extract", "publish", "gate")
    ]
    for operator in (group.plan, group.publish, group.gate):
        assert operator.config().pipeline == "d.outer.g"
        assert operator.group == "outer.g"
        assert operator.config().base.config.time_field == "t"
    assert group.extract.partial_kwargs["fixed"] == group.plan.fixed


def test_steps_run_in_order_and_the_gate_is_last():
    with DAG("d"):
        group = KafkaToHdfsTaskGroup("g", **JOB)
    assert group.extract.upstream_task_ids == {"g.plan"}
    assert group.publish.upstream_task_ids == {"g.plan", "g.extract"}
    assert group.gate.upstream_task_ids == {"g.plan", "g.publish"}
    assert [task.task_id for task in group.leaves] == ["g.gate"]
    assert group.publish.trigger_rule == group.gate.trigger_rule == "all_done"


def test_extract_retries_unless_somebody_says_otherwise():
    with DAG("d"):
        plain = KafkaToHdfsTaskGroup("a", **JOB)
        own = KafkaToHdfsTaskGroup("b", **JOB, extract_args={"retries": 5, "pool": "kafka"})
        by_group = KafkaToHdfsTaskGroup("c", **JOB, default_args={"retries": 1})
    with DAG("e", default_args={"retries": 7, "retry_delay": timedelta(minutes=9)}):
        by_dag = KafkaToHdfsTaskGroup("a", **JOB)
    assert (plain.extract.retries, plain.extract.retry_delay) == (2, timedelta(seconds=30))
    assert (own.extract.retries, own.extract.retry_delay, own.extract.pool) == (5, timedelta(seconds=30), "kafka")
    assert by_group.extract.retries == 1
    assert (by_dag.extract.retries, by_dag.extract.retry_delay) == (7, timedelta(minutes=9))


def test_arguments_of_a_job_may_come_from_default_args():
    with DAG("d", default_args={"kafka_conn_id": "mine", "destination": "file:///x"}):
        operator = KafkaToHdfsPlanOperator(task_id="plan", topics=["a"])
    assert (operator.config().kafka_conn_id, operator.config().destination) == ("mine", "file:///x")


def test_a_hand_wired_job_is_named_after_its_dag():
    with DAG("d"):
        operator = KafkaToHdfsPlanOperator(task_id="plan", **JOB)
        with TaskGroup("g"):
            inner = KafkaToHdfsPlanOperator(task_id="plan", **JOB)
    assert (operator.pipeline, inner.pipeline) == ("d", "d.g")


def test_an_unknown_argument_is_refused_when_the_file_is_read():
    with DAG("d"), pytest.raises(TypeError, match="topic_override"):
        KafkaToHdfsTaskGroup("g", **JOB, topic_override={})


def test_a_wrong_value_is_refused_when_the_file_is_read():
    with DAG("d"), pytest.raises(ConfigError, match="did you mean 'hourly'"):
        KafkaToHdfsTaskGroup("g", **JOB, granularity="hourl")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"time_limit": "15m"}, "time_limit: got '15m'"),
        ({"record_limit": 0}, "record_limit: got 0"),
        ({"byte_limit": "1GiB"}, "byte_limit: got '1GiB'"),
        ({"rate_limit": -1}, "rate_limit: got -1"),
        ({"state_uri": "/state"}, "did you mean 'file:///state'"),
        ({"topics": "a, b"}, r"write \['a', 'b'\]"),
        ({"topics": None}, "topics: got None; .* it must be given"),
        ({"topics": {"a"}}, "topics: got {'a'}; allowed: a list of names"),
        ({"topic_overrides": {"a": {"time_limit": "15m"}}}, r"topic_overrides\['a'\].time_limit: got '15m'"),
    ],
)
def test_what_is_no_template_is_judged_when_the_file_is_read_though_it_may_be_one(arguments, text):
    with DAG("d"), pytest.raises(ConfigError, match=text):
        KafkaToHdfsTaskGroup("g", **{**JOB, **arguments})


def test_templates_and_outputs_of_tasks_are_judged_in_the_run():
    with DAG("d"):
        limit = EmptyOperator(task_id="limit").output
        KafkaToHdfsTaskGroup("g", **JOB, time_limit=limit, record_limit="{{ params.most }}", state_uri="")


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("destination", "file:///data/{{ ds }}", "ds"),
        ("destination", "file:///data/{{ macros.ds_format(logical_date, 'a', 'b') }}", "macros"),
        ("destination", "file:///data/{% if data_interval_start %}x{% endif %}", "data_interval_start"),
        ("state_uri", "file:///state/{{ dag_run.run_id }}", "run_id"),
    ],
)
def test_a_place_that_changes_from_run_to_run_is_refused(key, value, name):
    given = {**JOB, "dataset_uri": "file:///data", key: value}
    with DAG("d"), pytest.raises(ConfigError, match=f"{key}: got .*'{name}' changes from run to run"):
        KafkaToHdfsTaskGroup("g", **given)


@pytest.mark.parametrize("value", ["file:///{{ params.ds }}", "file:///{{ var.value.ts }}/{{ conn.lake.host }}"])
def test_a_place_may_come_from_params_variables_and_connections(value):
    with DAG("d"):
        KafkaToHdfsTaskGroup("g", **{**JOB, "dataset_uri": "file:///data", "destination": value, "state_uri": value})


def test_a_wrong_step_before_is_refused():
    with DAG("d"), pytest.raises(ConfigError, match="the operator of the step before"):
        KafkaToHdfsPublishOperator(task_id="publish", plan="plan", **JOB)


@pytest.mark.parametrize(
    ("topics", "names"),
    [("a, b,c", ("a", "b", "c")), ('["a", "b"]', ("a", "b")), (("a",), ("a",)), (iter(["a"]), ("a",))],
)
def test_topics_may_be_a_text_that_a_template_made(topics, names):
    with DAG("d"):
        operator = KafkaToHdfsPlanOperator(task_id="plan", topics="{{ var.value.topics }}", destination="file:///data")
    operator.topics = topics
    assert operator.config().topics == names


def test_params_of_a_run_take_the_place_of_limits():
    with DAG("d"):
        operator = KafkaToHdfsPlanOperator(task_id="plan", **JOB, record_limit=10, time_limit=timedelta(minutes=1))
    limits = operator.config(limits={"record_limit": 3}).limits
    assert (limits.records, limits.time) == (3, 60.0)


def test_the_label_of_a_mapped_task_is_the_plans():
    with DAG("d"):
        plan = KafkaToHdfsPlanOperator(task_id="plan", **JOB)
        extract = KafkaToHdfsExtractOperator.partial(task_id="extract", **JOB).expand(work_unit=plan.output)
        own = KafkaToHdfsExtractOperator.partial(task_id="own", map_index_template="x", **JOB).expand(
            work_unit=plan.output
        )
    assert extract.partial_kwargs["map_index_template"] == "{{ task.work_unit['label'] }}"
    assert own.partial_kwargs["map_index_template"] == "x"


class TestAssets:
    def uris(self, items):
        return [item.uri if isinstance(item, Asset) else f"alias:{item.name}" for item in items]

    def test_listed_topics_have_assets_of_their_own(self):
        with DAG("d"):
            group = KafkaToHdfsTaskGroup(
                "g",
                topics=["a", "b"],
                destination="webhdfs://nn:9870/data/",
                topic_overrides={"b": {"granularity": "daily"}},
            )
        assert self.uris(group.publish.inlets) == ["kafka://kafka_default/a", "kafka://kafka_default/b"]
        assert self.uris(group.publish.outlets) == [
            "hdfs://nn:9870/data/a",
            "hdfs://nn:9870/data/a/@hourly",
            "hdfs://nn:9870/data/b",
            "hdfs://nn:9870/data/b/@daily",
        ]
        assert all(asset.name == asset.uri for asset in group.publish.outlets)

    def test_names_are_made_from_arguments_alone(self):
        with DAG("d"):
            group = KafkaToHdfsTaskGroup(
                "g",
                topics=["a"],
                destination="hdfs:///data",
                storage_conn_id="lake",
                cluster="prod",
                emit_partitions="none",
            )
        assert self.uris([*group.publish.inlets, *group.publish.outlets]) == ["kafka://prod/a", "hdfs://lake/data/a"]

    @pytest.mark.parametrize(
        "topics", [TopicFilter(allow=["a.*"]), ["{{ var.value.topic }}"], "{{ var.value.topics }}"]
    )
    def test_topics_of_the_run_share_an_alias_and_a_partition_asset(self, topics):
        with DAG("d"):
            group = KafkaToHdfsTaskGroup("g", topics=topics, destination="s3://bucket/data")
        assert self.uris(group.publish.inlets) == []
        assert self.uris(group.publish.outlets) == ["alias:d.g", "s3://bucket/data/@hourly"]
        assert isinstance(group.publish.outlets[0], AssetAlias)

    @pytest.mark.parametrize(
        ("base", "overrides", "speaking"),
        [
            ("touched", {"a.*": {"emit_partitions": "none"}}, ["b"]),
            ("touched", {"a.*": {"emit_partitions": "none"}, "a1": {"emit_partitions": "touched"}}, ["a1", "b"]),
            ("none", {"b": {"emit_partitions": "touched"}}, ["b"]),
            ("none", {"a.*": {"granularity": "daily"}}, []),
        ],
    )
    def test_topics_of_a_filter_speak_of_partitions_as_their_overrides_say(self, base, overrides, speaking):
        with DAG("d"):
            group = KafkaToHdfsTaskGroup(
                "g", topics=TopicFilter(), destination="file:///d", emit_partitions=base, topic_overrides=overrides
            )
        job = group.publish.job
        assert [topic for topic in ("a", "a1", "b") if job.partitions(topic) is not None] == speaking
        assert self.uris(group.publish.outlets[1:]) == (["file:///d/@hourly"] if speaking else [])

    def test_outlets_of_the_user_stay(self):
        mine = Asset("mine")
        with DAG("d"):
            group = KafkaToHdfsTaskGroup(
                "g", topics=["a"], destination="file:///data", publish_args={"outlets": [mine]}
            )
        assert group.publish.outlets[0] == mine

    def test_a_templated_destination_needs_a_name(self):
        with DAG("d"), pytest.raises(ConfigError, match="needs a fixed dataset_uri"):
            KafkaToHdfsTaskGroup("g", topics=["a"], destination="file:///data/{{ var.value.team }}")
        with DAG("d"):
            group = KafkaToHdfsTaskGroup(
                "g",
                topics=["a"],
                destination="file:///data/{{ var.value.team }}",
                dataset_uri="hdfs://lake/teams",
            )
        assert self.uris(group.publish.outlets)[0] == "hdfs://lake/teams/a"


class TestDag:
    def test_it_has_params_and_defaults_that_suit_an_ingestion(self):
        dag = KafkaToHdfsDag("d", **JOB, params={"mine": 1})
        assert (dag.max_active_runs, dag.catchup) == (1, False)
        assert {"mine", "dry_run", "range_start"} <= set(dag.params)
        assert dag.ingest.plan.pipeline == "d.ingest"
        assert dag.fileloc == __file__

    def test_defaults_may_be_changed(self):
        dag = KafkaToHdfsDag("d", **JOB, max_active_runs=3, group_id="x", pipeline_id="p")
        assert (dag.max_active_runs, dag.ingest.plan.pipeline) == (3, "p")

    @pytest.mark.parametrize("schedule", ["@hourly", "0 * * * *"])
    def test_a_cron_string_becomes_a_schedule_with_data_intervals(self, schedule):
        dag = KafkaToHdfsDag("d", **JOB, schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC))
        assert isinstance(dag.timetable, CronDataIntervalTimetable)
        assert dag.timetable.expression == "0 * * * *"

    def test_a_timedelta_becomes_a_schedule_with_data_intervals(self):
        dag = KafkaToHdfsDag("d", **JOB, schedule=timedelta(minutes=30))
        assert isinstance(dag.timetable, DeltaDataIntervalTimetable)

    @pytest.mark.parametrize("schedule", [None, "@once", "@continuous"])
    def test_other_schedules_stay_as_they_are(self, schedule):
        dag = KafkaToHdfsDag("d", **JOB, schedule=schedule)
        assert not isinstance(dag.timetable, CronDataIntervalTimetable)
