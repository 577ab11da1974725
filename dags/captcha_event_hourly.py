"""One topic into hourly folders: the whole job is one call.

Avro records of the topic `CaptchaEvent`, each naming its schema in the registry, go to folders by the hour of their
field `header.time`. The first run starts at the oldest record that Kafka holds; every further one goes on where the
last commit ends. At most 20 tasks read side by side, each for at most 15 minutes: what is left is read an hour later.

Connections: `kafka_default`, `schema_registry_default`, and that of the destination (`webhdfs_default`).
"""

import os
from datetime import UTC, datetime, timedelta

from airflow_kafka_hdfs import KafkaToHdfsDag

# A deployment names its places in the environment of the DAG processor and the workers.
DESTINATION = os.environ.get("KAFKA_HDFS_DESTINATION", "webhdfs:///data/kafka")
REGISTRY = os.environ.get("KAFKA_HDFS_REGISTRY", "schema_registry_default")

KafkaToHdfsDag(
    "captcha_event_hourly",
    doc_md=__doc__,
    tags=["kafka", "hdfs"],
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    topics=["CaptchaEvent"],
    destination=DESTINATION,
    registry=REGISTRY,
    value_format="avro_confluent",
    bootstrap="earliest",
    time_field="header.time",
    time_unit="ms",
    granularity="hourly",
    path_pattern="YYYY/MM/dd/HH",
    max_tasks=20,
    time_limit=timedelta(minutes=15),
)
