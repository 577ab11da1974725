"""Kafka through confluent-kafka: settings, catalog, reader, mirror of offsets, checked producer.

The only room that imports the client library. Nothing here joins a consumer group or relies on committed offsets:
what was read is decided by the commit log alone.
"""
