"""The main job end to end on real parts, for people: `uv run poe demo`."""
