"""The real job code over simulated ports: a seeded scheduler interleaves actors and crashes them at any port call."""
