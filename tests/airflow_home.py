"""An Airflow home of one's own: what the environment has to say before anything imports Airflow."""

from __future__ import annotations


def settings_of(home: str) -> dict[str, str]:
    """Environment variables of an Airflow in that folder, with its metadata in SQLite and no DAG files."""
    return {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__DAGS_FOLDER": f"{home}/dags",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{home}/logs",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
