"""What all tests share: the real services, and an Airflow home of their own, set before anything imports Airflow."""

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

pytest_plugins = ["tests.stack.fixtures"]

_home = tempfile.mkdtemp(prefix="kafka-hdfs-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ.update(
    {
        "AIRFLOW_HOME": _home,
        "AIRFLOW__CORE__DAGS_FOLDER": f"{_home}/dags",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{_home}/logs",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
)

# A busy machine is no fault of the code under test.
settings.register_profile("kafka_hdfs", deadline=None)
settings.load_profile("kafka_hdfs")
