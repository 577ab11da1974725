"""Gobblin's Kafka ingestion as pure functions over ports: plan, pack, extract, commit, publish."""
