"""Kafka topics to time-partitioned files on HDFS, exactly once, from Apache Airflow."""

__version__ = "0.1.0"
