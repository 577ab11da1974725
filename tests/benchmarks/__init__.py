"""How fast the parts and the whole are, as ratios measured side by side: `uv run poe bench`.

Figures of a shared machine move by a third from run to run; ratios of cases that ran in the same round do not. Every
case runs once per round, the order turns with the rounds, and a row is the median of its per-round ratios.
"""
