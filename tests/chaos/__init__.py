"""The real job in real processes on real services, killed at random: `uv run poe chaos`."""
