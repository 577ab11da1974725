"""What all tests share: the real services, and an Airflow home of their own, set before anything imports Airflow."""

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

from tests.airflow_home import settings_of

pytest_plugins = ["tests.stack.fixtures"]

_home = tempfile.mkdtemp(prefix="kafka-hdfs-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ.update(settings_of(_home), AIRFLOW__CORE__UNIT_TEST_MODE="True")

# A busy machine is no fault of the code under test.
settings.register_profile("kafka_hdfs", deadline=None)
settings.load_profile("kafka_hdfs")
