"""The connection type `hdfs_native` as Airflow's form shows it; without Airflow, for the provider info."""

from __future__ import annotations

from typing import Any

_TEXT = ["string", "null"]

HDFS_NATIVE_CONNECTION_TYPE: dict[str, Any] = {
    "connection-type": "hdfs_native",
    "hook-name": "HDFS (native RPC)",
    "hook-class-name": "airflow_kafka_hdfs.hooks.hdfs_native.HdfsNativeHook",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "password"],
        "relabeling": {"host": "Name node or name service", "port": "RPC port", "login": "User (HADOOP_USER_NAME)"},
        "placeholders": {"host": "empty: fs.defaultFS of the configuration", "port": "8020; empty for a name service"},
    },
    "conn-fields": {
        "hadoop_conf_dir": {
            "label": "Folder of core-site.xml and hdfs-site.xml",
            "description": "On every worker; empty: HADOOP_CONF_DIR of the worker.",
            "schema": {"type": _TEXT},
        },
        "properties": {
            "label": "Hadoop properties",
            "description": "Name to value, on top of the configuration files.",
            "schema": {"type": ["object", "null"]},
        },
        "kerberos_principal": {"label": "Kerberos principal", "schema": {"type": _TEXT}},
        "kerberos_keytab": {"label": "Kerberos keytab (file on every worker)", "schema": {"type": _TEXT}},
        "kerberos_cache": {"label": "Kerberos ticket cache", "schema": {"type": _TEXT}},
    },
}
"""One entry of `connection-types` in the provider info."""
