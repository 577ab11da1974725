"""Options of `[kafka_hdfs_lineage]`."""

from __future__ import annotations

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.lineage_options import LINEAGE_SECTION, lineage_section
from airflow_kafka_hdfs.lineage.identity import DatasetId
from airflow_kafka_hdfs.lineage.pairs import Flow, Intermediates, Options
from airflow_kafka_hdfs.lineage.settings import SECTION, LineageSettings


def read(**options):
    return LineageSettings.read(options.get)


def test_what_provider_info_tells_is_what_is_read():
    asked = set()
    LineageSettings.read(lambda name: asked.add(name))
    assert (asked, LINEAGE_SECTION) == (set(lineage_section()["options"]), SECTION)


def test_the_defaults_that_provider_info_tells_are_the_real_ones():
    told = {name: option["default"] for name, option in lineage_section()["options"].items()}
    assert LineageSettings.read(told.get) == read() == LineageSettings()


def test_lineage_is_off_unless_switched_on():
    assert not read().enabled
    assert read(enabled="True").enabled


def test_single_options_stand_over_the_profile():
    assert read(profile="yelp").options == Options(flow=Flow.WORKFLOW, intermediates=Intermediates.ALL)
    assert read(profile="yelp", intermediates="none").options == Options(
        flow=Flow.WORKFLOW, intermediates=Intermediates.NONE
    )


def test_clusters_and_temporary_datasets_are_recognised():
    settings = read(cluster_aliases='{"main": "b1:9092, b2", "other": ["c:1"]}', temporary_patterns="/scratch/,_tmp$")
    assert settings.naming.resolve("kafka://b2/t").dataset == DatasetId("kafka://main", "t")
    assert settings.is_temporary("x-tmp://x", "a")
    assert settings.is_temporary("hdfs://nn", "/scratch/a")
    assert settings.is_temporary("hdfs://nn", "/a_tmp")
    assert not settings.is_temporary("hdfs://nn", "/a")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("enabled", "maybe", "true or false"),
        ("flow", "sideways", "auto, workflow, dataset"),
        ("profile", "spark", "default, yelp"),
        ("queue_size", "0", "above 0"),
        ("queue_size", "many", "above 0"),
        ("task_deadline", "-1", "above 0"),
        ("kafka_config", "{nonsense", "a JSON object"),
        ("kafka_config", "[]", "a JSON object"),
        ("cluster_aliases", '{"main": 3}', "host:port"),
        ("temporary_patterns", "(", "regular expressions"),
    ],
)
def test_a_bad_option_is_named_with_what_is_allowed(name, value, says):
    with pytest.raises(ConfigError, match=says):
        read(**{name: value})


def test_events_are_not_emitted_to_where_they_are_loaded_from():
    with pytest.raises(ConfigError, match="another topic than openlineage_topic"):
        read(openlineage_topic="others", openlineage_emit_topic="others")
    assert read(openlineage_topic="others", openlineage_emit_topic="ours").openlineage_emit_topic == "ours"


def test_a_bad_kafka_config_is_not_repeated_since_it_may_hold_a_password():
    with pytest.raises(ConfigError) as caught:
        read(kafka_config='{"sasl.password": "secret"')
    assert "secret" not in str(caught.value)


def test_runs_are_kept_for_ever_or_as_long_as_pages_and_exports_need_them():
    assert read().keep_days == read(keep_days="0").keep_days == 0
    assert read(keep_days="400").keep_days == 400
    with pytest.raises(ConfigError, match=r"keep_days: got 30.0; allowed: 0 \(for ever\), or 31 and more"):
        read(keep_days="30")
    with pytest.raises(ConfigError, match="61 and more"):
        read(keep_days="45", export_days="60")
    with pytest.raises(ConfigError, match="keep_days"):
        read(keep_days="ever")
