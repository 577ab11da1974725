"""Run by Alembic: migrates over the connection that `migrating.upgrade` hands over."""

from alembic import context

from airflow_kafka_hdfs.adapters.warehouse.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
context.run_migrations()
