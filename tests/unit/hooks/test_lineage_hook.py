from __future__ import annotations

import pytest

from airflow_kafka_hdfs.exceptions import ConfigError
from airflow_kafka_hdfs.hooks.lineage import LineageHook
from airflow_kafka_hdfs.lineage.settings import LineageSettings


def test_a_platform_whose_connection_is_not_there_is_told_with_its_option(airflow_home: None):
    hook = LineageHook(LineageSettings(enabled=True, export_conn_id="nowhere"))
    with pytest.raises(ConfigError, match="export_conn_id: got 'nowhere'.*AIRFLOW_CONN_NOWHERE="):
        hook.platform()
