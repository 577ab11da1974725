"""Arguments are checked early, and an error names key, value, what is allowed, and the nearest right word."""

import dataclasses
from datetime import UTC, datetime, timedelta, timezone

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.ingest import wire
from airflow_kafka_hdfs.ingest.arguments import millis
from airflow_kafka_hdfs.ingest.choices import BootstrapKind, Codec, FileFormat, Granularity, PackingMethod, ValueFormat
from airflow_kafka_hdfs.ingest.config import IngestConfig
from airflow_kafka_hdfs.ingest.selection import TopicFilter, is_selected, topics_digest, topics_of
from airflow_kafka_hdfs.ingest.settings import Limits, TopicConfig, changed_code

RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}


def config(**arguments):
    given = {"topics": ["events", "clicks"], "destination": "file:///data", "pipeline_id": "dag.group", **arguments}
    return IngestConfig.of(given)


def convert(record):
    return record


def decode(record):
    return record.value


@pytest.mark.parametrize(
    ("root", "home"),
    [
        ("webhdfs:///", "webhdfs:///.kafka_hdfs"),
        ("hdfs://nn:8020/", "hdfs://nn:8020/.kafka_hdfs"),
        ("s3://bucket", "s3://bucket/.kafka_hdfs"),
    ],
)
def test_a_destination_may_be_the_root_of_its_store(root, home):
    assert config(destination=root).state_root == f"{home}/dag.group"


def test_defaults_are_those_of_the_contract():
    made = config()
    topic = made.topic("events").config
    assert made.state_root == "file:///data/.kafka_hdfs/dag.group"
    assert (made.packing.max_tasks, made.packing.target_task_bytes, made.packing.method, made.packing.split) == (
        20,
        1024**3,
        PackingMethod.BI_LEVEL,
        True,
    )
    assert made.publish_policy == "full"
    assert made.gc_grace == timedelta(hours=24)
    assert (topic.value_format, topic.file_format, topic.codec) == (ValueFormat.BYTES, FileFormat.AVRO, Codec.SNAPPY)
    assert (topic.granularity, topic.path_pattern, topic.timezone) == (Granularity.HOURLY, "yyyy/MM/dd/HH", "UTC")
    assert topic.path_template == "{topic}/{fields}/{time}"
    assert (topic.on_null, topic.on_bad_time, topic.on_schema_change) == ("fail", "quarantine", "new_file")
    assert (topic.on_out_of_range, made.base.on_topic_recreated, made.base.bootstrap.kind) == (
        "nearest",
        "earliest",
        "latest",
    )
    assert topic.max_file_bytes == 512 * 1024 * 1024
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert topic.time_bounds.of_plan(now) == (
        millis(datetime(1980, 1, 1, tzinfo=UTC)),
        millis(now + timedelta(days=2)),
    )
    assert (made.base.bad_records.most, made.base.bad_records.share) == (None, 0.01)


def test_the_pinned_part_is_plain_json_and_reads_back():
    topic = config(converters=[convert], value_format="json", on_null="skip").topic("events").config
    assert wire.from_plain(TopicConfig, wire.to_plain(topic)) == topic


@pytest.mark.parametrize("file_format", ["jsonl", "raw"])
def test_line_formats_are_uncompressed_unless_told_otherwise(file_format):
    assert config(file_format=file_format).base.config.codec == "null"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        # typos and choices
        ({"granulrity": "daily"}, "argument: got 'granulrity'.*did you mean 'granularity'"),
        ({"granularity": "hourl"}, "granularity: got 'hourl'; allowed: minutely, hourly.*did you mean 'hourly'"),
        pytest.param({"granularity": 0}, "granularity: got 0; allowed: minutely, hourly", marks=pytest.mark.bug(50)),
        ({"value_format": "avro_conflunt"}, "value_format: got 'avro_conflunt'.*did you mean 'avro_confluent'"),
        ({"value_format": "custom"}, "value_format: got None; allowed: bytes.*decoder class"),
        ({"packing": "bilevel"}, "packing: got 'bilevel'.*did you mean 'bi_level'"),
        ({"publish_policy": "part"}, "publish_policy: got 'part'; allowed: full, successful, partial"),
        ({"emit_partitions": "complete"}, "emit_partitions: got 'complete'; allowed: touched, none"),
        ({"split": "yes"}, "split: got 'yes'; allowed: True, False"),
        # numbers
        ({"max_tasks": 0}, "max_tasks: got 0; allowed: a whole number of at least 1"),
        ({"max_tasks": 1.5}, "max_tasks: got 1.5"),
        ({"max_tasks": True}, "max_tasks: got True"),
        ({"record_limit": "many"}, "record_limit: got 'many'"),
        ({"time_limit": 0}, "time_limit: got 0"),
        ({"time_limit": timedelta(0)}, "time_limit: got datetime.timedelta"),
        ({"rate_limit": float("nan")}, "rate_limit: got nan"),
        ({"max_bad_share": 1.01}, "max_bad_share: got 1.01; allowed: a share between 0 and 1"),
        ({"max_file_bytes": 10}, "max_file_bytes: got 10"),
        ({"file_mode": "rw"}, "file_mode: got 'rw'"),
        ({"dir_mode": 0o77777}, "dir_mode: got"),
        ({"dir_mode": "640"}, "dir_mode: got '640'; allowed: permission bits that give the owner at least 700"),
        ({"gc_grace": -1}, "gc_grace: got -1"),
        ({"gc_grace": 10**30}, "gc_grace: got 1000000000000000000000000000000; allowed: .* at most 100 years"),
        ({"schema": "a\0b"}, "schema: .*the file can't be read"),
        ({"schema": "x\ud800"}, "schema: .*the file can't be read"),
        ({"schema": {"type": {1, 2}}}, "schema: .*no JSON"),
        # places
        ({"destination": "/data"}, "destination: got '/data'.*did you mean 'file:///data'"),
        ({"destination": "data"}, "destination: got 'data'; allowed: a URI"),
        ({"destination": "file:///data/{time}"}, "time partitions are made by path_template"),
        ({"destination": "s3://key:secret@bucket/x"}, "credentials belong into an Airflow connection"),
        ({"pipeline_id": "_owners"}, "pipeline_id: got '_owners'"),
        ({"pipeline_id": None}, "pipeline_id: got None; allowed: a value. it must be given"),
        ({"timezone": "Europe/Berln"}, "timezone: got 'Europe/Berln'.*nearest: Europe/Berlin"),
        ({"timezone": "../etc/passwd"}, "timezone: got"),
        ({"path_template": "{fields}/{time}"}, "path_template: got.*a path with {topic} in one place.*share a folder"),
        ({"path_template": "{topic}/{times}"}, "path_template: got '{topic}/{times}'.*did you mean {time}"),
        ({"path_template": "/{topic}/{time}"}, "path_template: got '/{topic}/{time}'"),
        ({"path_template": "_x/{topic}/{time}"}, "invisible to Hadoop readers"),
        ({"path_template": "{topic}/../{time}"}, "invisible to Hadoop readers"),
        (
            {"path_template": "{topic}/{time}", "partition_fields": ["a"], "value_format": "json"},
            "partition_fields need their place",
        ),
        ({"path_pattern": "yyyy/MM/dd"}, "path_pattern: got 'yyyy/MM/dd'.*granularity is 'hourly'"),
        ({"path_pattern": "yyyy/MM/dd/HH/mm"}, "path_pattern: got.*granularity is 'hourly'"),
        ({"path_pattern": "HH"}, "path_pattern: got 'HH'"),
        ({"granularity": "daily", "path_pattern": "yyyy/MM/dd/HH"}, "the folders of this pattern are hourly"),
        ({"path_pattern": "YYYY/ww"}, "weeks of a year"),
        # topics
        ({"topics": "events"}, "topics: got 'events'; allowed: a list of topic names"),
        ({"topics": []}, "topics: got .*at least one topic name"),
        ({"topics": ["a", "a"]}, "it stands there twice"),
        ({"topics": ["ev.*"]}, "topics: got 'ev.*'.*regexes go into TopicFilter"),
        ({"topics": ["a/b"]}, "topics: got 'a/b'"),
        ({"time_unit": "day"}, "time_unit: got 'day'; allowed: s, ms, us, ns, iso"),
        # combinations
        ({"codec": "gzip"}, "codec: got 'gzip'; allowed: snappy, zstandard, deflate, null. file_format is 'avro'"),
        ({"file_format": "jsonl", "codec": "snappy"}, "codec: got 'snappy'; allowed: null, gzip, zstandard"),
        ({"file_format": "parquet", "codec": "deflate"}, "codec: got 'deflate'; allowed: snappy, zstandard, gzip"),
        ({"value_format": "avro"}, "schema: got None"),
        ({"value_format": "avro_id16"}, "registry: got None.*value_format 'avro_id16' reads schema ids"),
        ({"value_format": "avro_confluent"}, "registry: got None"),
        ({"on_schema_change": "resolve"}, "on_schema_change: got 'resolve'; allowed: new_file, fail"),
        ({"schema": RECORD}, "schema: got 'a schema'; allowed: None"),
        ({"convert_schema": RECORD}, "convert_schema: got 'a schema'; allowed: None without converters"),
        ({"value_format": decode}, "convert_schema: got None"),
        ({"file_format": "raw", "include_key": True}, "raw files have no columns"),
        ({"time_field": "header.time"}, "time_field: got 'header.time'; allowed: None.*'bytes' have no fields"),
        ({"gc_grace": None}, "gc_grace: got None; allowed: a timedelta or a number of seconds"),
        ({"value_format": "json", "time_field": "header..time"}, "time_field: got 'header..time'; allowed: the name"),
        ({"partition_fields": ["a"], "value_format": "string"}, "partition_fields: got"),
        ({"file_format": "raw", "on_null": "write"}, "on_null: got 'write'; allowed: fail, skip"),
        (
            {"value_format": "avro", "schema": RECORD, "on_null": "write"},
            "on_null: got 'write'.*the schema of the files does not allow null",
        ),
        (
            {"value_format": "avro_confluent", "registry": "r", "on_null": "write"},
            "on_null: got 'write'.*values keep the schema",
        ),
        # shapes
        ({"converters": convert}, "converters: got .*a list of callables"),
        ({"converters": ["upper"]}, "converters: got 'upper'"),
        ({"schema": "{no json", "value_format": "avro"}, "schema: got '{no json'.*no JSON"),
        ({"schema": "/no/such.avsc", "value_format": "avro"}, "schema: got '/no/such.avsc'.*can't be read"),
        ({"time_bounds": (1, 2)}, r"time_bounds\[0\]: got 1"),
        ({"time_bounds": ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z")}, "earliest before latest"),
        ({"bootstrap": "earliests"}, "bootstrap: got 'earliests'.*did you mean 'earliest'"),
        ({"bootstrap": datetime(2026, 1, 1)}, "bootstrap: got .*the time has no zone"),  # noqa: DTZ001 that is the fault
        ({"bootstrap": -timedelta(hours=1)}, "bootstrap: got .*into the past"),
        ({"kafka_config": [("a", 1)]}, "kafka_config: got 'list'"),
    ],
)
def test_what_can_not_work_is_refused_with_the_way_out(arguments, text):
    with pytest.raises(ConfigError, match=f"(?s){text}"):
        config(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"value_format": "avro", "schema": ["null", RECORD], "on_null": "write"},
        {"value_format": "avro", "schema": RECORD},
        {"value_format": "avro_confluent", "registry": "http://r", "file_format": "jsonl", "on_null": "write"},
        {"value_format": "avro_confluent", "registry": "r", "on_schema_change": "resolve", "schema": RECORD},
        {"value_format": "json", "on_null": "write"},
        {"value_format": decode, "convert_schema": RECORD},
        {"value_format": decode, "file_format": "jsonl"},
        {"granularity": "daily", "path_pattern": "YYYY-MM-DD"},
        {"granularity": "daily", "path_pattern": "yyyy/MM/'day='dd"},
        {"path_template": "raw/{topic}/dt={time}"},
        {"topics": TopicFilter(allow=["ev.*"], deny=[".*test"])},
        {"time_limit": "900", "record_limit": "None", "byte_limit": ""},
        {"file_mode": "640", "dir_mode": 0o750},
    ],
)
def test_what_makes_sense_is_taken(arguments):
    assert config(**arguments).digest.startswith("sha256:")


def test_a_schema_may_be_a_mapping_text_or_a_file(tmp_path):
    (tmp_path / "r.avsc").write_text('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}')
    texts = {
        config(value_format="avro", schema=given).base.config.schema
        for given in (RECORD, str(tmp_path / "r.avsc"), tmp_path / "r.avsc", (tmp_path / "r.avsc").read_text())
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("value", "kind", "at"),
    [
        ("earliest", BootstrapKind.EARLIEST, None),
        ("skip", BootstrapKind.SKIP, None),
        ("2026-01-01T02:00:00+02:00", BootstrapKind.TIME, datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00Z", BootstrapKind.TIME, datetime(2026, 1, 1, tzinfo=UTC)),
        (
            datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            BootstrapKind.TIME,
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
        (timedelta(hours=6), BootstrapKind.LOOKBACK, datetime(2025, 12, 31, 18, tzinfo=UTC)),
    ],
)
def test_bootstrap_takes_words_moments_and_spans(value, kind, at):
    bootstrap = config(bootstrap=value).base.bootstrap
    assert bootstrap.kind is kind
    assert bootstrap.time(datetime(2026, 1, 1, tzinfo=UTC)) == at


def test_max_tasks_above_what_airflow_maps_is_refused_with_both_numbers():
    given = {"topics": ["a"], "destination": "file:///d", "pipeline_id": "p", "max_tasks": 2000}
    with pytest.raises(ConfigError, match=r"max_tasks: got 2000; allowed: at most 1024, which is \[core\]"):
        IngestConfig.of(given, max_map_length=1024)


# overrides


def test_overrides_merge_regexes_in_order_then_the_name():
    made = config(
        topic_overrides={
            "events": {"max_file_records": 3},
            "ev.*": {"max_file_records": 1, "granularity": "daily", "record_limit": 5},
            "EVENT.?": {"max_file_records": 2, "file_format": "jsonl"},
        }
    )
    events = made.topic("events")
    assert events.config.max_file_records == 3
    assert (events.config.granularity, events.config.path_pattern) == ("daily", "yyyy/MM/dd")
    assert (events.config.file_format, events.config.codec) == ("jsonl", "null")
    assert events.limits == Limits(records=5)
    assert made.topic("clicks") is made.base
    assert made.topic("events") is events


def test_a_key_of_topic_letters_is_a_name_and_no_regex():
    made = config(topics=["a.b", "axb"], topic_overrides={"a.b": {"codec": "null"}})
    assert (made.topic("a.b").config.codec, made.topic("axb").config.codec) == ("null", "snappy")


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"event": {}}, "topic_overrides: got 'event'; allowed: clicks, events. did you mean 'events'"),
        ({"x.*": {}}, r"topic_overrides: got 'x.\*'; allowed: clicks, events"),
        ({"ev[": {}}, "topic_overrides: got 'ev\\['; allowed: a regular expression. it does not compile"),
        ({"events": {"max_tasks": 3}}, r"topic_overrides\['events'\]: got 'max_tasks'.*holds for the whole pipeline"),
        ({"events": {"topics": []}}, "holds for the whole pipeline"),
        ({"events": {"codecs": "null"}}, r"topic_overrides\['events'\]: got 'codecs'.*did you mean 'codec'"),
        ({"events": {"dir_mode": None}}, r"topic_overrides\['events'\].dir_mode: got None; allowed: permission bits"),
        ({"events": {"file_mode": "440"}}, r"topic_overrides\['events'\].file_mode: got '440'.*at least 600"),
        ({"events": {"codec": "gzip"}}, r"topic_overrides\['events'\].codec: got 'gzip'"),
        ({"events": {"value_format": "avro_id16"}}, r"topic_overrides\['events'\].registry: got None"),
        ({"events": ["codec"]}, r"topic_overrides\['events'\]: got \['codec'\]"),
        (["events"], "topic_overrides: got \\['events'\\]; allowed: a mapping"),
    ],
)
def test_overrides_are_checked_before_a_topic_shows_up(overrides, text):
    with pytest.raises(ConfigError, match=text):
        config(topic_overrides=overrides)


def test_an_override_of_a_filter_must_be_able_to_match():
    topics = TopicFilter(allow=["ev.*"])
    with pytest.raises(ConfigError, match="topic_overrides: got 'clicks'; allowed: topics that the filter matches"):
        config(topics=topics, topic_overrides={"clicks": {}})
    assert config(topics=topics, topic_overrides={"clicks.*": {}, "EVENTS": {}}).overrides


# digest and repr


@pytest.mark.parametrize(
    "change",
    [
        {"topics": ["events"]},
        {"destination": "file:///elsewhere"},
        {"granularity": "daily"},
        {"converters": [convert]},
        {"on_null": "skip"},
        {"on_out_of_range": "fail"},
        {"max_tasks": 21},
        {"topic_overrides": {"events": {"codec": "null"}}},
    ],
)
def test_the_digest_changes_with_what_a_plan_pins(change):
    assert config(**change).digest != config().digest


@pytest.mark.parametrize(
    "change",
    [
        {"topics": ["clicks", "events"]},
        {"publish_policy": "partial"},
        {"max_bad_share": 0.5},
        {"max_bad_records": 3},
        {"time_limit": 60},
        {"bootstrap": "earliest"},
        {"gc_grace": timedelta(hours=1)},
        {"kafka_config": {"socket.timeout.ms": 1}},
    ],
)
def test_the_digest_does_not_change_with_what_the_running_code_decides(change):
    assert config(**change).digest == config().digest


def test_reprs_hold_no_address_and_no_secret():
    made = config(
        converters=[convert],
        value_format=decode,
        file_format="jsonl",
        registry="https://hunter2@registry",
        kafka_config={"sasl.password": "hunter2"},
    )
    text = repr(made)
    assert "hunter2" not in text
    assert " at 0x" not in text
    assert "test_config:convert" in text


@pytest.mark.parametrize("key", ["registry", "destination", "state_uri", "dataset_uri"])
@pytest.mark.parametrize("user", ["me:hunter2", "me:hun/ter2", ":hunter2", "me:hunter2@x"])
def test_a_password_belongs_into_a_connection_and_is_shown_nowhere(key, user):
    with pytest.raises(ConfigError, match=f"{key}: got 'a URI with a password'.*Airflow connection") as caught:
        config(**{key: f"https://{user}@registry:8081/apis"})
    assert "hun" not in str(caught.value)


@pytest.mark.parametrize(
    "registry", ["registry_default", "http://r:8081/a@b", "http://[::1]:8081/a@b", "file:///a:b@c"]
)
def test_a_registry_without_a_password_is_taken(registry):
    assert config(registry=registry).registry == registry


def test_bad_record_limits_reach_the_commit_policy_only_where_they_differ():
    made = config(publish_policy="successful", topic_overrides={"events": {"max_bad_records": 7}})
    policy = made.commit_policy(["events", "clicks"])
    assert policy.publish == "successful"
    assert {topic: limits.most for topic, limits in policy.bad_records_of.items()} == {"events": 7}


# code of the user


def test_changed_code_of_the_user_is_told_before_it_is_used():
    pinned = config(converters=[convert], value_format=decode, convert_schema=RECORD).base
    assert changed_code(pinned.config, pinned) is None
    other = config(converters=[decode], value_format=decode, convert_schema=RECORD).base
    assert "test_config:convert, this code brings" in changed_code(pinned.config, other)
    fewer = config(value_format=decode, convert_schema=RECORD).base
    assert "this code brings ['" in changed_code(pinned.config, fewer)
    swapped = config(converters=[convert, decode], value_format="json").base
    assert changed_code(pinned.config, swapped) is not None


# topics

NAMES = ["Topic1", "topic-v2", "topic3", "topic-with.period-in_middle", ".topic-with-period-at-start"]
NAMES += ["topicWithPeriodAtEnd.", "not-allowed-topic"]


def test_gobblins_filter_vectors():
    with_periods = TopicFilter(allow=[".*[Tt]opic.*"], deny=["not-allowed.*"])
    assert [name for name in NAMES if with_periods.matches(name)] == NAMES[:6]
    without = TopicFilter(allow=[".*[Tt]opic.*"], deny=["not-allowed.*", r".*\..*"])
    assert [name for name in NAMES if without.matches(name)] == NAMES[:3]


def test_filters_ignore_case_match_whole_names_and_denial_wins():
    topics = TopicFilter(allow=["EVENTS_.*"], deny=[".*_Test"])
    assert topics.matches("events_a")
    assert not topics.matches("my_events_a")
    assert not topics.matches("events_a_test")


def test_a_comma_in_a_regex_does_not_split_it():
    assert TopicFilter(allow=["a{2,3}"]).matches("aaa")


def test_a_filter_without_entries_is_refused_where_gobblin_reads_everything():
    with pytest.raises(ConfigError, match="at least one regex"):
        TopicFilter(allow=[])
    with pytest.raises(ConfigError, match="topics.deny: got '\\['; allowed: a regular expression"):
        TopicFilter(deny=["["])
    with pytest.raises(ConfigError, match="topics.allow: got 'ev.*'; allowed: a list of regexes"):
        TopicFilter(allow="ev.*")


def test_filters_are_values():
    assert TopicFilter(allow=["a"]) == TopicFilter(allow=("a",))
    assert repr(TopicFilter(allow=["a"])) == "TopicFilter(allow=('a',), deny=())"
    assert hash(TopicFilter(allow=["a"])) == hash(TopicFilter(allow=["a"]))
    assert dataclasses.replace(TopicFilter(allow=["a"]), deny=["b"]).deny == ("b",)


def test_the_selection_is_the_same_in_any_order_and_another_with_another_name():
    assert topics_digest(topics_of(["a", "b"])) == topics_digest(topics_of(["b", "a"]))
    assert topics_digest(topics_of(["a", "b"])) != topics_digest(topics_of(["a", "b", "c"]))
    assert topics_digest(TopicFilter(allow=["a"])) != topics_digest(topics_of(["a"]))
    assert is_selected(topics_of(["a"]), "a")
    assert not is_selected(topics_of(["a"]), "A")
