"""The lineage warehouse over SQLAlchemy: SQLite, PostgreSQL, and databases that lack upserts, such as Redshift."""

from airflow_kafka_hdfs.adapters.warehouse.database import SqlWarehouse

__all__ = ["SqlWarehouse"]
