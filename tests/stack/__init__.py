"""The real services: Kafka, HDFS, a schema registry, PostgreSQL and Airflow, started from packages alone.

Used by tests (``fixtures.py``), the demo, the benchmarks, and by hand (``python -m tests.stack``).
See ``README.md``.
"""
